/* Safety: which goal can come next, given the variables that have values.
 *
 * A reference gives values to the variables among its keys by walking what it refers to; a pattern
 * gives them to its variables when it is held against a value. Everything else only uses them. */
#include "policy/rego/compile.h"

static bool has_value(const struct rf_rc_var *v)
{
	return v->bound || v->pending;
}

static bool scope_ready(const struct rf_rc_scope *s)
{
	for (uint32_t i = 0; i < s->n_outer; i++)
		if (!has_value(s->outer[i]))
			return false;
	return true;
}

static bool ready_key(const struct rf_rc_term *t)
{
	if (t->kind == RF_RC_VAR)
		return true;
	return t->kind == RF_RC_ARRAY || t->kind == RF_RC_OBJECT ? rf_rc_ready_pattern(t) :
								   rf_rc_ready_value(t);
}

bool rf_rc_ready_value(const struct rf_rc_term *t)
{
	switch (t->kind) {
	case RF_RC_VAR:
		return has_value(t->var);
	case RF_RC_COMP:
		return scope_ready(t->scope);
	case RF_RC_REF:
		if (!rf_rc_ready_value(t->item[0]))
			return false;
		for (uint32_t i = 1; i < t->n; i++)
			if (!ready_key(t->item[i]))
				return false;
		return true;
	default:
		for (uint32_t i = 0; i < t->n; i++)
			if (!rf_rc_ready_value(t->item[i]))
				return false;
		return true;
	}
}

bool rf_rc_ready_pattern(const struct rf_rc_term *t)
{
	switch (t->kind) {
	case RF_RC_VAR:
		return true;
	case RF_RC_ARRAY:
		for (uint32_t i = 0; i < t->n; i++)
			if (!rf_rc_ready_pattern(t->item[i]))
				return false;
		return true;
	case RF_RC_OBJECT:
		for (uint32_t i = 0; i < t->n; i++)
			if (i % 2 ? !rf_rc_ready_pattern(t->item[i]) : !rf_rc_ready_value(t->item[i]))
				return false;
		return true;
	default:
		return rf_rc_ready_value(t);
	}
}

/* --- what references of the same expression will give --- */

static void mark_keys(const struct rf_rc_term *t, bool pending);

static void mark_vars(const struct rf_rc_term *t, bool pending)
{
	if (t->kind == RF_RC_VAR) {
		if (!t->var->bound)
			t->var->pending = pending;
	} else if (t->kind == RF_RC_ARRAY || t->kind == RF_RC_OBJECT) {
		for (uint32_t i = 0; i < t->n; i++)
			mark_vars(t->item[i], pending);
	}
}

static void mark_keys(const struct rf_rc_term *t, bool pending)
{
	if (!t || t->kind == RF_RC_COMP)
		return;
	for (uint32_t i = 0; i < t->n; i++) {
		if (t->kind == RF_RC_REF && i > 0)
			mark_vars(t->item[i], pending);
		mark_keys(t->item[i], pending);
	}
}

static bool has_constant_keys(const struct rf_rc_term *t)
{
	for (uint32_t i = 0; i < t->n; i += 2)
		if (t->item[i]->kind != RF_RC_CONST)
			return false;
	return true;
}

/* False: t, held against other (on the left of it), can give no value to its variables. Arrays of one length and objects of the same
 * constant keys are not here any more: their parts are. */
static bool can_give(const struct rf_rc_term *t, const struct rf_rc_term *other, bool left)
{
	if (t->kind != RF_RC_ARRAY && t->kind != RF_RC_OBJECT)
		return true;
	switch (other->kind) {
	case RF_RC_CONST:
		return other->value.type >= RF_RV_ARRAY;
	case RF_RC_ARRAY:
		return t->kind == RF_RC_ARRAY && t->n == other->n;
	case RF_RC_OBJECT:
		return t->kind == RF_RC_OBJECT && !(has_constant_keys(t) && has_constant_keys(other));
	case RF_RC_SET:
		return false;
	case RF_RC_COMP:
		if (left && t->kind == RF_RC_ARRAY) /* as OPA has it */
			return true;
		return other->comp == (t->kind == RF_RC_ARRAY ? RF_RA_ARRAY_COMP : RF_RA_OBJECT_COMP);
	default:
		return true;
	}
}

static bool ready_eq(const struct rf_rc_term *a, const struct rf_rc_term *b)
{
	if (!can_give(a, b, true) || !can_give(b, a, false))
		return rf_rc_ready_value(a) && rf_rc_ready_value(b);
	return (rf_rc_ready_value(a) && rf_rc_ready_pattern(b)) || (rf_rc_ready_value(b) && rf_rc_ready_pattern(a));
}

static bool ready_terms(const struct rf_rc_goal *g)
{
	switch (g->kind) {
	case RF_RC_TEST:
		return rf_rc_ready_value(g->a);
	case RF_RC_EQ:
		return ready_eq(g->a, g->b);
	case RF_RC_EACH:
		return rf_rc_ready_value(g->b) && rf_rc_ready_pattern(g->a) &&
		       (!g->key || rf_rc_ready_pattern(g->key));
	case RF_RC_EVERY:
		return rf_rc_ready_value(g->b) && scope_ready(g->scope);
	case RF_RC_EITHER:
	case RF_RC_BOTH:
		return scope_ready(g->scope) && scope_ready(g->other_scope);
	case RF_RC_NOT:
		return true;
	}
	return false;
}

/* Every variable outside closures has its value. */
static bool all_bound(const struct rf_rc_term *t)
{
	if (!t)
		return true;
	if (t->kind == RF_RC_VAR)
		return t->var->bound;
	if (t->kind == RF_RC_COMP)
		return scope_ready(t->scope);
	for (uint32_t i = 0; i < t->n; i++)
		if (!all_bound(t->item[i]))
			return false;
	return true;
}

static bool strictly_ready(const struct rf_rc_goal *g)
{
	if (!all_bound(g->a) || !all_bound(g->b) || !all_bound(g->key))
		return false;
	if ((g->scope && !scope_ready(g->scope)) || (g->other_scope && !scope_ready(g->other_scope)))
		return false;
	for (uint32_t i = 0; g->strict && i < g->body->n; i++)
		if (!strictly_ready(&g->body->goal[i]))
			return false;
	return true;
}

bool rf_rc_ready(const struct rf_rc_goal *g)
{
	bool ready;

	for (uint32_t i = 0; i < g->n_with; i++)
		if (g->with[i].value && !rf_rc_ready_value(g->with[i].value))
			return false;
	if (g->kind == RF_RC_NOT)
		return g->strict ? strictly_ready(g) : scope_ready(g->scope);
	mark_keys(g->a, true);
	mark_keys(g->b, true);
	ready = ready_terms(g);
	mark_keys(g->a, false);
	mark_keys(g->b, false);
	return ready;
}

bool rf_rc_iterates(const struct rf_rc_term *t)
{
	if (t->kind == RF_RC_CALL)
		return t->builtin && t->builtin->relation;
	for (uint32_t i = 1; t->kind == RF_RC_REF && i < t->n; i++)
		if (!all_bound(t->item[i]) && (t->item[i]->kind == RF_RC_VAR ||
					       t->item[i]->kind == RF_RC_ARRAY ||
					       t->item[i]->kind == RF_RC_OBJECT))
			return true;
	return false;
}

/* --- telling --- */

void rf_rc_complain_var(struct rf_rc *c, const struct rf_rc_var *v, struct rf_ra_loc loc)
{
	for (uint32_t i = 0; i < c->errors->n; i++) {
		struct rf_ra_error *e = &c->errors->error[i];

		if (e->loc.row == loc.row && e->loc.col == loc.col)
			return; /* said already */
	}
	if (v->wild)
		rf_ra_complain(c->errors, "rego_unsafe_var_error", c->module, loc, "var _ is unsafe");
	else
		rf_ra_complain(c->errors, "rego_unsafe_var_error", c->module, loc,
			       "var %.*s is unsafe", RF_STR(v->name));
}

static bool complain_var(struct rf_rc *c, const struct rf_rc_var *v, struct rf_ra_loc loc)
{
	if (!c->unsafe)
		rf_rc_complain_var(c, v, loc);
	return true;
}

static bool complain_term(struct rf_rc *c, const struct rf_rc_term *t, struct rf_ra_loc loc)
{
	bool any = false;

	if (!t)
		return false;
	if (t->kind == RF_RC_VAR && !t->var->bound)
		return complain_var(c, t->var, t->loc.row ? t->loc : loc);
	if (t->kind == RF_RC_COMP) {
		for (uint32_t i = 0; i < t->scope->n_outer; i++)
			if (!t->scope->outer[i]->bound)
				any = complain_var(c, t->scope->outer[i], t->loc);
		return any;
	}
	for (uint32_t i = 0; i < t->n; i++)
		any = complain_term(c, t->item[i], loc) || any;
	return any;
}

void rf_rc_complain_unsafe_term(struct rf_rc *c, const struct rf_rc_term *t)
{
	complain_term(c, t, t->loc);
}

void rf_rc_complain_unsafe(struct rf_rc *c, const struct rf_rc_goal *g)
{
	bool any = complain_term(c, g->a, g->loc);

	any = complain_term(c, g->b, g->loc) || any;
	any = complain_term(c, g->key, g->loc) || any;
	for (uint32_t i = 0; i < g->n_with; i++)
		any = complain_term(c, g->with[i].value, g->loc) || any;
	for (uint32_t i = 0; g->scope && i < g->scope->n_outer; i++)
		if (!g->scope->outer[i]->bound)
			any = complain_var(c, g->scope->outer[i], g->loc);
	for (uint32_t i = 0; g->other_scope && i < g->other_scope->n_outer; i++)
		if (!g->other_scope->outer[i]->bound)
			any = complain_var(c, g->other_scope->outer[i], g->loc);
	for (uint32_t i = 0; g->kind == RF_RC_NOT && g->strict && i < g->body->n; i++)
		rf_rc_complain_unsafe(c, &g->body->goal[i]);
	if (!any && c->errors->n == 0)
		rf_ra_complain(c->errors, "rego_unsafe_var_error", c->module, g->loc,
			       "expression is unsafe");
}
