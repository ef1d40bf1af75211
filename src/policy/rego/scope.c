/* Variables and where they are known. Tables by name: a policy may have any number of them. */
#include "policy/rego/compile.h"

/* --- sets of names --- */

static uint32_t *slot_of(const struct rf_rc_names *l, struct rf_str name)
{
	uint32_t i = (uint32_t)rf_rv_hash(rf_rv_str(name)) & (l->slots - 1);

	while (l->slot[i] && !rf_str_eq(l->name[l->slot[i] - 1], name))
		i = (i + 1) & (l->slots - 1);
	return &l->slot[i];
}

uint32_t rf_rc_name_at(const struct rf_rc_names *l, struct rf_str name)
{
	if (l->slot)
		return *slot_of(l, name) - 1; /* 0, free: UINT32_MAX */
	for (uint32_t i = 0; i < l->n; i++)
		if (rf_str_eq(l->name[i], name))
			return i;
	return UINT32_MAX;
}

static void grow(struct rf_rc *c, struct rf_rc_names *l)
{
	uint32_t room = l->room ? 2 * l->room : 8;
	struct rf_str *more = rf_arena_array(c->a, struct rf_str, room);

	if (l->n)
		memcpy(more, l->name, l->n * sizeof(*more));
	l->name = more;
	l->room = room;
	if (room <= 16)
		return;
	l->slots = 2 * room;
	l->slot = rf_arena_array(c->a, uint32_t, l->slots);
	for (uint32_t i = 0; i < l->n; i++)
		*slot_of(l, l->name[i]) = i + 1;
}

uint32_t rf_rc_name_add(struct rf_rc *c, struct rf_rc_names *l, struct rf_str name)
{
	uint32_t at = rf_rc_name_at(l, name);

	if (at != UINT32_MAX)
		return at;
	if (l->n == l->room)
		grow(c, l);
	l->name[l->n] = name;
	if (l->slot)
		*slot_of(l, name) = l->n + 1;
	return l->n++;
}

/* --- scopes --- */

struct rf_rc_scope *rf_rc_scope(struct rf_rc *c, struct rf_rc_scope *parent, bool closure)
{
	struct rf_rc_scope *s = rf_arena_new(c->a, struct rf_rc_scope);

	s->parent = parent;
	s->closure = closure;
	return s;
}

static void *grown(struct rf_rc *c, const void *old, uint32_t n, uint32_t room, size_t size)
{
	void *more = rf_arena_alloc(c->a, room * size);

	if (n)
		memcpy(more, old, n * size);
	return more;
}

struct rf_rc_var *rf_rc_add_var(struct rf_rc *c, struct rf_rc_scope *s, struct rf_str name,
				struct rf_ra_loc loc, bool wild)
{
	struct rf_rc_var *v = rf_arena_new(c->a, struct rf_rc_var);
	uint32_t at;

	*v = (struct rf_rc_var){
		.name = name, .slot = c->n_slots++, .scope = s, .loc = loc, .wild = wild
	};
	if (!s)
		return v;
	v->next = s->vars;
	s->vars = v;
	if (wild)
		return v;
	at = rf_rc_name_add(c, &s->names, name);
	if (at >= s->room_named) {
		s->named = grown(c, s->named, s->room_named, s->names.room, sizeof(*s->named));
		s->room_named = s->names.room;
	}
	s->named[at] = v;
	return v;
}

struct rf_rc_var *rf_rc_temp(struct rf_rc *c)
{
	return rf_rc_add_var(c, NULL, RF_LIT("__temp__"), (struct rf_ra_loc){ 0 }, false);
}

struct rf_rc_var *rf_rc_find_here(const struct rf_rc_scope *s, struct rf_str name)
{
	uint32_t at = rf_rc_name_at(&s->names, name);

	return at == UINT32_MAX ? NULL : s->named[at];
}

/* --- closures --- */

static uint32_t *outer_slot(const struct rf_rc_scope *s, const struct rf_rc_var *v)
{
	uint32_t i = (uint32_t)(((uintptr_t)v >> 4) * 2654435761u) & (s->slots_outer - 1);

	while (s->slot_outer[i] && s->outer[s->slot_outer[i] - 1] != v)
		i = (i + 1) & (s->slots_outer - 1);
	return &s->slot_outer[i];
}

static void note_outer(struct rf_rc *c, struct rf_rc_scope *s, struct rf_rc_var *v)
{
	if (s->room_outer && *outer_slot(s, v))
		return;
	if (s->n_outer == s->room_outer) {
		s->room_outer = s->room_outer ? 2 * s->room_outer : 8;
		s->outer =
			grown(c, s->outer, s->n_outer, s->room_outer, sizeof(struct rf_rc_var *));
		s->slots_outer = 2 * s->room_outer;
		s->slot_outer = rf_arena_array(c->a, uint32_t, s->slots_outer);
		for (uint32_t i = 0; i < s->n_outer; i++)
			*outer_slot(s, s->outer[i]) = i + 1;
	}
	s->outer[s->n_outer++] = v;
	*outer_slot(s, v) = s->n_outer;
}

/* `some x` of a body that names x only inside closures: each of them has its own. */
static struct rf_rc_var *inner_var(struct rf_rc *c, struct rf_rc_scope *s,
				   struct rf_rc_scope *closure, struct rf_str name)
{
	uint32_t at = closure ? rf_rc_name_at(&s->inner, name) : UINT32_MAX;
	struct rf_rc_var *v;

	if (at == UINT32_MAX)
		return NULL;
	s->inner_used[at] = true;
	v = rf_rc_add_var(c, closure, name, (struct rf_ra_loc){ 0 }, false);
	v->declared = true;
	return v;
}

/* Every closure between the use and the variable's own scope needs it. */
struct rf_rc_var *rf_rc_find(struct rf_rc *c, struct rf_rc_scope *s, struct rf_str name)
{
	struct rf_rc_var *v = NULL;
	struct rf_rc_scope *closure = NULL;

	for (struct rf_rc_scope *at = s; at && !v; at = at->parent) {
		v = rf_rc_find_here(at, name);
		if (!v)
			v = inner_var(c, at, closure, name);
		if (at->closure)
			closure = at;
	}
	for (struct rf_rc_scope *at = s; v && at && at != v->scope; at = at->parent)
		if (at->closure)
			note_outer(c, at, v);
	return v;
}

/* --- declaring --- */

struct rf_rc_var *rf_rc_declare(struct rf_rc *c, struct rf_rc_scope *s, struct rf_str name,
				struct rf_ra_loc loc)
{
	struct rf_rc_var *v = rf_rc_find_here(s, name);

	if (v && v->declared)
		rf_ra_complain(c->errors, "rego_compile_error", c->module, loc,
			       "var %.*s declared above", RF_STR(name));
	else if (v)
		rf_ra_complain(c->errors, "rego_compile_error", c->module, loc,
			       "var %.*s referenced above", RF_STR(name));
	v = rf_rc_add_var(c, s, name, loc, false);
	v->declared = true;
	return v;
}

void rf_rc_declare_all(struct rf_rc *c, struct rf_rc_scope *s, const struct rf_ra_term *t)
{
	switch (t->kind) {
	case RF_RA_VAR:
		if (!t->is_wild && !rf_rc_find_here(s, t->name))
			rf_rc_declare(c, s, t->name, t->loc);
		break;
	case RF_RA_ARRAY:
		for (uint32_t i = 0; i < t->n; i++)
			rf_rc_declare_all(c, s, t->item[i]);
		break;
	case RF_RA_OBJECT:
		for (uint32_t i = 1; i < t->n; i += 2)
			rf_rc_declare_all(c, s, t->item[i]);
		break;
	default:
		break;
	}
}

/* --- what nobody uses --- */

static bool is_unused(const struct rf_rc *c, const struct rf_rc_var *v)
{
	switch (v->by) {
	case RF_RC_BY_SOME:
		return v->uses == 0;
	case RF_RC_BY_EVERY:
		return v->uses <= 1; /* where it is declared */
	case RF_RC_BY_ASSIGN:
		return c->strict && v->uses <= 1;
	default:
		return false;
	}
}

void rf_rc_check_unused(struct rf_rc *c, const struct rf_rc_scope *s)
{
	for (const struct rf_rc_var *v = s->vars; v; v = v->next)
		if (is_unused(c, v))
			rf_ra_complain(c->errors, "rego_compile_error", c->module, v->loc,
				       "%s var %.*s unused",
				       v->by == RF_RC_BY_ASSIGN ? "assigned" : "declared",
				       RF_STR(v->name));
	for (uint32_t i = 0; i < s->inner.n; i++)
		if (!s->inner_used[i])
			rf_ra_complain(c->errors, "rego_compile_error", c->module, s->inner_loc[i],
				       "declared var %.*s unused", RF_STR(s->inner.name[i]));
}
