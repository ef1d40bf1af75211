/* Expressions that have one value for a whole evaluation: calls and comprehensions that use no variable but those that
 * are such expressions themselves. They are computed once. Where the caller says ahead what lies under one key of
 * the input (a constraint's parameters), those that depend on that key alone are computed before any
 * evaluation (fix.c). */
#include "policy/rego/compile.h"

/* What of the input something depends on. */
struct dep {
	enum { ON_NOTHING, ON_KEY, ON_MORE } what;
	struct rf_rv key; /* ON_KEY */
};

struct scan {
	struct rf_rego *r;
	struct dep *group;   /* by id, */
	uint8_t *group_done; /* if so */
	bool loose; /* looking into a rule that is called: all its slots are its own */
	uint64_t closed; /* slots that have one value, */
	struct closed {
		struct rf_rp_expr *expr; /* this one, with no such slot in it any more, */
		struct dep dep;		 /* of this */
		uint32_t size;
	} at[RF_REGO_ONCE_SLOTS];
};

#define SIZE_MAX_ONCE 256 /* of what a closed slot stands for: it is computed wherever it is put */

static void join(struct dep *d, struct dep more)
{
	if (more.what == ON_MORE || (d->what == ON_KEY && more.what == ON_KEY && !rf_rv_eq(d->key, more.key)))
		*d = (struct dep){ .what = ON_MORE };
	else if (d->what == ON_NOTHING)
		*d = more;
}

static bool look(struct scan *c, const struct rf_rp_expr *e, uint64_t own, struct dep *d);
static bool look_at_steps(struct scan *c, const struct rf_rp_step *s, uint64_t own, struct dep *d);

static bool is_costly(const struct rf_rp_expr *e)
{
	return e->kind == RF_RP_BUILTIN || e->kind == RF_RP_FUNCTION || rf_rp_is_comp(e);
}

/* Has its number, and nothing in it is looked at again: what was put in its slots' places may be there many times. */
static bool is_numbered(const struct rf_rp_expr *e)
{
	return is_costly(e) && e->slot;
}

/* --- slots --- */

static uint64_t bit(uint32_t slot)
{
	return slot < RF_REGO_ONCE_SLOTS ? (uint64_t)1 << slot : 0;
}

static uint64_t bound_by_pattern(const struct rf_rp_pattern *p)
{
	uint64_t m = 0;

	if (p->kind == RF_RP_BIND)
		return bit(p->slot);
	for (uint32_t i = 0; (p->kind == RF_RP_PARTS || p->kind == RF_RP_FIELDS) && i < p->n; i++)
		m |= bound_by_pattern(&p->part[i]);
	return m;
}

static uint64_t bound_by_steps(const struct rf_rp_step *s)
{
	uint64_t m = 0;

	for (; s; s = s->next)
		m |= (s->key ? bound_by_pattern(s->key) : 0) | (s->pattern ? bound_by_pattern(s->pattern) : 0) |
		     (rf_rp_has_body(s) ? bound_by_steps(s->body) : 0) |
		     (rf_rp_has_other(s) ? bound_by_steps(s->other) : 0);
	return m;
}

/* --- dependencies: false if it uses a variable --- */

static bool look_at_slot(struct scan *c, uint32_t slot, uint64_t own, struct dep *d)
{
	if (c->loose || (own & bit(slot)))
		return true;
	if (!(c->closed & bit(slot)))
		return false;
	join(d, c->at[slot].dep);
	return true;
}

static bool look_at_items(struct scan *c, const struct rf_rp_expr *item, uint32_t n, uint64_t own, struct dep *d)
{
	for (uint32_t i = 0; i < n; i++)
		if (!look(c, &item[i], own, d))
			return false;
	return true;
}

static struct dep key_of(const struct rf_rp_expr *e)
{
	if (e->kind == RF_RP_CONST && e->value.type == RF_RV_STRING)
		return (struct dep){ ON_KEY, e->value };
	return (struct dep){ .what = ON_MORE };
}

static bool look_at_pattern(struct scan *c, const struct rf_rp_pattern *p, uint64_t own, struct dep *d)
{
	if (p->kind == RF_RP_BIND) /* rf_re_fix has no more slots than these */
		return c->loose || p->slot < RF_REGO_ONCE_SLOTS;
	if (p->kind == RF_RP_EQUAL)
		return look(c, p->expr, own, d);
	if (p->kind == RF_RP_FIELDS && !look_at_items(c, p->key, p->n, own, d))
		return false;
	for (uint32_t i = 0; (p->kind == RF_RP_PARTS || p->kind == RF_RP_FIELDS) && i < p->n; i++)
		if (!look_at_pattern(c, &p->part[i], own, d))
			return false;
	return true;
}

static bool look_at_steps(struct scan *c, const struct rf_rp_step *s, uint64_t own, struct dep *d)
{
	for (; s; s = s->next) {
		if (s->op == RF_RP_WITH || s->op == RF_RP_FORK)
			return false;
		if ((s->expr && !look(c, s->expr, own, d)) || (s->key && !look_at_pattern(c, s->key, own, d)) ||
		    (s->pattern && !look_at_pattern(c, s->pattern, own, d)) ||
		    (rf_rp_has_body(s) && !look_at_steps(c, s->body, own, d)) ||
		    (rf_rp_has_other(s) && !look_at_steps(c, s->other, own, d)))
			return false;
	}
	return true;
}

static bool look_at_rule(struct scan *c, const struct rf_rp_rule *r, struct dep *d)
{
	for (; r; r = r->otherwise) {
		for (uint32_t i = 0; i < r->n_args; i++)
			if (!look_at_pattern(c, &r->arg[i], 0, d))
				return false;
		if (!look_at_steps(c, r->body, 0, d) || !look_at_items(c, r->path, r->n_path, 0, d) ||
		    !look(c, r->value, 0, d))
			return false;
	}
	return true;
}

/* What the rules of a place depend on; rules do not refer to themselves. */
static struct dep look_at_group(struct scan *c, const struct rf_rego_group *g)
{
	struct dep d = { .what = g->node->n ? ON_MORE : ON_NOTHING }; /* rules with longer names add to it */
	bool kept = c->loose;

	if (c->group_done[g->id])
		return c->group[g->id];
	c->loose = true;
	for (uint32_t i = 0; i < g->n; i++)
		if (!look_at_rule(c, g->rule[i], &d))
			d.what = ON_MORE;
	if (g->fallback && !look_at_rule(c, g->fallback, &d))
		d.what = ON_MORE;
	c->loose = kept;
	c->group_done[g->id] = true;
	c->group[g->id] = d;
	return d;
}

static bool look_at_call(struct scan *c, const struct rf_rp_expr *e, uint64_t own, struct dep *d)
{
	if (e->kind == RF_RP_FUNCTION) {
		join(d, look_at_group(c, e->group));
		return look_at_items(c, e->item, e->n, own, d);
	}
	if (e->builtin->impure || !e->builtin->fn || e->n == 0)
		return false; /* without arguments: of the clock, or of the rule it stands in */
	/* Gatekeeper's way to say input.parameters. */
	if (strcmp(e->builtin->name, "object.get") == 0 && e->item[0].kind == RF_RP_INPUT && e->item[0].n == 0) {
		join(d, key_of(&e->item[1]));
		return look_at_items(c, e->item + 1, e->n - 1, own, d);
	}
	return look_at_items(c, e->item, e->n, own, d);
}

static struct dep dep_of_once(const struct rf_rego_once *o)
{
	return (struct dep){ .what = !o->fixable ? ON_MORE : o->any ? ON_NOTHING : ON_KEY, .key = o->key };
}

static bool look(struct scan *c, const struct rf_rp_expr *e, uint64_t own, struct dep *d)
{
	if (is_numbered(e)) {
		join(d, dep_of_once(&c->r->once[e->slot - 1]));
		return true;
	}
	switch ((enum rf_rp_kind)e->kind) {
	case RF_RP_CONST:
		return true;
	case RF_RP_SLOT:
		return look_at_slot(c, e->slot, own, d);
	case RF_RP_INPUT:
		join(d, e->n ? key_of(&e->item[0]) : (struct dep){ .what = ON_MORE });
		break;
	case RF_RP_DATA:
		join(d, e->node->group ? look_at_group(c, e->node->group) : (struct dep){ .what = ON_MORE });
		break;
	case RF_RP_NARROWED:
		join(d, look_at_group(c, e->group));
		break;
	case RF_RP_BUILTIN:
	case RF_RP_FUNCTION:
		return look_at_call(c, e, own, d);
	case RF_RP_ARRAY_COMP:
	case RF_RP_SET_COMP:
	case RF_RP_OBJECT_COMP:
		own |= bound_by_steps(e->body);
		return look_at_steps(c, e->body, own, d) && look(c, e->base, own, d) &&
		       (e->kind != RF_RP_OBJECT_COMP || look(c, e->key, own, d));
	case RF_RP_REF:
		if (!look(c, e->base, own, d))
			return false;
		break;
	case RF_RP_ARRAY:
	case RF_RP_SET:
	case RF_RP_OBJECT:
	case RF_RP_TEMPLATE:
		break;
	case RF_RP_PLACE:
	case RF_RP_WHOLE:
	case RF_RP_NEVER: /* not in a policy by itself */
		return false;
	}
	return look_at_items(c, e->item, e->n, own, d);
}

/* --- numbering --- */

static void number_inside(struct scan *c, struct rf_rp_step *s);
static void number(struct scan *c, struct rf_rp_expr *e);

static void inline_steps(struct scan *c, struct rf_rp_step *s);

/* Puts what they stand for in the place of closed slots, so that the expression can be computed by itself. */
static void inline_slots(struct scan *c, struct rf_rp_expr *e)
{
	if (e->kind == RF_RP_SLOT && (c->closed & bit(e->slot))) {
		*e = *c->at[e->slot].expr;
		return;
	}
	if (is_numbered(e))
		return;
	for (uint32_t i = 0; e->kind != RF_RP_CONST && i < e->n; i++)
		inline_slots(c, &e->item[i]);
	if (rf_rp_has_base(e))
		inline_slots(c, e->base);
	if (e->kind == RF_RP_OBJECT_COMP)
		inline_slots(c, e->key);
	if (rf_rp_is_comp(e))
		inline_steps(c, e->body);
}

static void inline_in_pattern(struct scan *c, struct rf_rp_pattern *p)
{
	if (p->kind == RF_RP_EQUAL)
		inline_slots(c, p->expr);
	for (uint32_t i = 0; (p->kind == RF_RP_PARTS || p->kind == RF_RP_FIELDS) && i < p->n; i++) {
		if (p->kind == RF_RP_FIELDS)
			inline_slots(c, &p->key[i]);
		inline_in_pattern(c, &p->part[i]);
	}
}

static void inline_steps(struct scan *c, struct rf_rp_step *s)
{
	for (; s; s = s->next) {
		if (s->expr)
			inline_slots(c, s->expr);
		if (s->key)
			inline_in_pattern(c, s->key);
		if (s->pattern)
			inline_in_pattern(c, s->pattern);
		if (rf_rp_has_body(s))
			inline_steps(c, s->body);
		if (rf_rp_has_other(s))
			inline_steps(c, s->other);
	}
}

/* Roughly, what it takes to compute it. */
static uint32_t size_of(const struct scan *c, const struct rf_rp_expr *e)
{
	uint32_t n = 1;

	if (e->kind == RF_RP_CONST || is_numbered(e))
		return 1;
	if (e->kind == RF_RP_SLOT)
		return c->closed & bit(e->slot) ? c->at[e->slot].size : 1;
	if (rf_rp_is_comp(e))
		return SIZE_MAX_ONCE + 1; /* nobody wants that twice */
	for (uint32_t i = 0; i < e->n && n <= SIZE_MAX_ONCE; i++)
		n += size_of(c, &e->item[i]);
	return e->kind == RF_RP_REF ? n + size_of(c, e->base) : n;
}

static struct rf_rp_expr *copy_of(struct scan *c, const struct rf_rp_expr *e, uint32_t n)
{
	struct rf_rp_expr *copy = rf_arena_array(&c->r->plan, struct rf_rp_expr, n);

	memcpy(copy, e, n * sizeof(*copy));
	for (uint32_t i = 0; i < n; i++) {
		if (copy[i].kind != RF_RP_CONST && !is_numbered(&copy[i]) && copy[i].n)
			copy[i].item = copy_of(c, e[i].item, e[i].n);
		if (copy[i].kind == RF_RP_REF)
			copy[i].base = copy_of(c, e[i].base, 1);
	}
	return copy;
}

static void number_parts(struct scan *c, struct rf_rp_expr *e)
{
	for (uint32_t i = 0; e->kind != RF_RP_CONST && i < e->n; i++)
		number(c, &e->item[i]);
	if (e->kind == RF_RP_REF)
		number(c, e->base);
	if (rf_rp_is_comp(e))
		number_inside(c, e->body);
}

static void number(struct scan *c, struct rf_rp_expr *e)
{
	struct rf_rego *r = c->r;
	struct dep d = { .what = ON_NOTHING };

	if (!is_costly(e) || r->n_once >= RF_REGO_ONCE_MAX || !look(c, e, 0, &d) ||
	    (e->kind == RF_RP_BUILTIN && d.what == ON_MORE)) {
		number_parts(c, e);
		return;
	}
	inline_slots(c, e);
	r->once[r->n_once] = (struct rf_rego_once){
		.expr = e, .fixable = d.what != ON_MORE, .any = d.what == ON_NOTHING, .key = d.key
	};
	e->slot = ++r->n_once;
}

/* x := e, and e has one value: so has x. */
static void close_slot(struct scan *c, const struct rf_rp_step *s)
{
	struct dep d = { .what = ON_NOTHING };
	struct closed *at;
	uint32_t size;

	if (s->op != RF_RP_MATCH || s->pattern->kind != RF_RP_BIND || s->pattern->slot >= RF_REGO_ONCE_SLOTS ||
	    !look(c, s->expr, 0, &d))
		return;
	size = size_of(c, s->expr);
	if (size > SIZE_MAX_ONCE)
		return;
	at = &c->at[s->pattern->slot];
	*at = (struct closed){ .expr = copy_of(c, s->expr, 1), .dep = d, .size = size };
	inline_slots(c, at->expr);
	c->closed |= bit(s->pattern->slot);
}

static void number_steps(struct scan *c, struct rf_rp_step *s)
{
	for (; s; s = s->next) {
		if (s->op == RF_RP_WITH) /* another evaluation, in a way */
			continue;
		if (s->expr)
			number(c, s->expr);
		close_slot(c, s);
		if (rf_rp_has_body(s))
			number_inside(c, s->body);
		if (rf_rp_has_other(s))
			number_inside(c, s->other);
		for (uint32_t i = 0; s->op == RF_RP_FORK && i < s->n; i++)
			number_inside(c, s->branch[i].rest);
	}
}

/* What is closed there is not known outside. */
static void number_inside(struct scan *c, struct rf_rp_step *s)
{
	uint64_t closed = c->closed;

	number_steps(c, s);
	c->closed = closed;
}

static void number_group(struct scan *c, struct rf_rego_group *g)
{
	bool set = g->kind == RF_REGO_PARTIAL_SET;

	for (uint32_t i = 0; i < (set ? g->n_merged : g->n); i++)
		for (struct rf_rp_rule *r = set ? g->merged[i] : g->rule[i]; r; r = r->otherwise) {
			c->closed = 0;
			number_steps(c, r->body);
		}
}

void rf_rc_number(struct rf_rego *r)
{
	struct scan c = { .r = r,
			  .group = rf_arena_array(&r->arena, struct dep, r->n_groups + 1),
			  .group_done = rf_arena_array(&r->arena, uint8_t, r->n_groups + 1) };

	r->once = rf_arena_array(&r->plan, struct rf_rego_once, RF_REGO_ONCE_MAX);
	for (uint32_t i = 0; i < r->n_order; i++) /* so that none has to look far */
		(void)look_at_group(&c, r->group[r->order[i]]);
	for (uint32_t i = 0; i < r->n_groups; i++) {
		struct rf_rego_group *g = r->group[i];
		struct dep d = look_at_group(&c, g);

		g->fixable = g->kind != RF_REGO_FUNCTION && d.what != ON_MORE;
		g->fix_any = d.what == ON_NOTHING;
		g->fix_key = d.key;
		number_group(&c, g);
	}
}
