/* Copies the finished plan into memory of its own, in the order in which it is walked. What the compiler leaves lies
 * scattered among trees and terms that nobody needs any more; an evaluation of many policies spends its time
 * waiting for memory then. */
#include "policy/rego/compile.h"

#define SORTED_MAX 64 /* keys and values of an object */

static struct rf_rp_step *pack_steps(struct rf_rego *r, const struct rf_rp_step *s);
static void pack_expr(struct rf_rego *r, struct rf_rp_expr *e);

static struct rf_rv pack_value(struct rf_rego *r, struct rf_rv v)
{
	struct rf_rv copy;

	return rf_rv_copy(&r->plan, v, &copy) ? copy : v;
}

static struct rf_rp_expr *pack_exprs(struct rf_rego *r, const struct rf_rp_expr *from, uint32_t n)
{
	struct rf_rp_expr *to = rf_arena_array(&r->plan, struct rf_rp_expr, n);

	memcpy(to, from, n * sizeof(*to));
	for (uint32_t i = 0; i < n; i++)
		pack_expr(r, &to[i]);
	return to;
}

static bool has_constant_keys(const struct rf_rp_expr *e)
{
	for (uint32_t i = 0; i < e->n; i += 2)
		if (e->item[i].kind != RF_RP_CONST)
			return false;
	return true;
}

/* So that nobody has to when it is evaluated. There are few. */
static void sort_keys(struct rf_rp_expr *e)
{
	e->sorted = has_constant_keys(e);
	for (uint32_t i = 2; e->sorted && i < e->n; i += 2)
		for (uint32_t j = i; e->sorted && j > 0; j -= 2) {
			struct rf_rp_expr pair[2] = { e->item[j - 2], e->item[j - 1] };
			int c = rf_rv_cmp(pair[0].value, e->item[j].value);

			e->sorted = c != 0; /* twice the same: the evaluation compares their values */
			if (c <= 0)
				break;
			e->item[j - 2] = e->item[j];
			e->item[j - 1] = e->item[j + 1];
			e->item[j] = pair[0];
			e->item[j + 1] = pair[1];
		}
}

/* What e, a copy already, points to. */
static void pack_expr(struct rf_rego *r, struct rf_rp_expr *e)
{
	if (e->kind == RF_RP_CONST) {
		e->value = pack_value(r, e->value);
		e->n = 0; /* what it was made of */
		e->item = NULL;
		return;
	}
	if (e->n)
		e->item = pack_exprs(r, e->item, e->n);
	if (e->kind == RF_RP_OBJECT && e->n <= SORTED_MAX)
		sort_keys(e);
	if (rf_rp_is_comp(e))
		e->body = pack_steps(r, e->body);
	if (rf_rp_has_base(e))
		e->base = pack_exprs(r, e->base, 1);
	if (e->kind == RF_RP_OBJECT_COMP)
		e->key = pack_exprs(r, e->key, 1);
}

static struct rf_rp_pattern *pack_patterns(struct rf_rego *r, const struct rf_rp_pattern *from, uint32_t n)
{
	struct rf_rp_pattern *to = rf_arena_array(&r->plan, struct rf_rp_pattern, n);

	memcpy(to, from, n * sizeof(*to));
	for (uint32_t i = 0; i < n; i++) {
		struct rf_rp_pattern *p = &to[i];

		if (p->kind == RF_RP_EQUAL)
			p->expr = pack_exprs(r, p->expr, 1);
		if (p->kind == RF_RP_FIELDS)
			p->key = pack_exprs(r, p->key, p->n);
		if (p->kind == RF_RP_FIELDS || p->kind == RF_RP_PARTS)
			p->part = pack_patterns(r, p->part, p->n);
	}
	return to;
}

static void pack_with(struct rf_rego *r, struct rf_rp_step *s)
{
	struct rf_rp_with *to = rf_arena_array(&r->plan, struct rf_rp_with, s->n);

	memcpy(to, s->with, s->n * sizeof(*to));
	for (uint32_t i = 0; i < s->n; i++)
		if (to[i].value)
			to[i].value = pack_exprs(r, to[i].value, 1);
	s->with = to;
}

static void pack_branches(struct rf_rego *r, struct rf_rp_step *s)
{
	struct rf_rp_branch *to = rf_arena_array(&r->plan, struct rf_rp_branch, s->n);

	for (uint32_t i = 0; i < s->n; i++)
		to[i] = (struct rf_rp_branch){ s->branch[i].rule->packed, pack_steps(r, s->branch[i].rest) };
	s->branch = to;
}

static struct rf_rp_step *pack_steps(struct rf_rego *r, const struct rf_rp_step *from)
{
	struct rf_rp_step *first = NULL, **tail = &first;

	for (; from; from = from->next) {
		struct rf_rp_step *s = rf_arena_new(&r->plan, struct rf_rp_step);

		*s = *from;
		*tail = s;
		tail = &s->next;
		if (s->expr)
			s->expr = pack_exprs(r, s->expr, 1);
		if (s->key)
			s->key = pack_patterns(r, s->key, 1);
		if (s->pattern)
			s->pattern = pack_patterns(r, s->pattern, 1);
		if (rf_rp_has_body(s))
			s->body = pack_steps(r, s->body);
		if (rf_rp_has_other(s))
			s->other = pack_steps(r, s->other);
		if (s->op == RF_RP_WITH)
			pack_with(r, s);
		if (s->op == RF_RP_FORK)
			pack_branches(r, s);
	}
	*tail = NULL;
	return first;
}

static struct rf_rp_rule *pack_one(struct rf_rego *r, struct rf_rp_rule *from)
{
	struct rf_rp_rule *to = rf_arena_new(&r->plan, struct rf_rp_rule);

	*to = *from;
	from->packed = to;
	to->arg = pack_patterns(r, from->arg, from->n_args);
	to->body = pack_steps(r, from->body);
	to->path = pack_exprs(r, from->path, from->n_path);
	to->value = pack_exprs(r, from->value, 1);
	return to;
}

/* else may be of any length, so no recursion. */
static struct rf_rp_rule *pack_rule(struct rf_rego *r, struct rf_rp_rule *from)
{
	struct rf_rp_rule *first = NULL, **tail = &first;

	for (; from; from = from->otherwise, tail = &(*tail)->otherwise)
		*tail = pack_one(r, from);
	return first;
}

static struct rf_rp_rule **packed_of(struct rf_rego *r, struct rf_rp_rule **from, uint32_t n)
{
	struct rf_rp_rule **to = rf_arena_array(&r->plan, struct rf_rp_rule *, n + 1);

	for (uint32_t i = 0; i < n; i++)
		to[i] = from[i]->packed;
	return to;
}

static void pack_index(struct rf_rego *r, struct rf_rego_index *x)
{
	struct rf_rego_indexed *at = rf_arena_array(&r->plan, struct rf_rego_indexed, x->n + 1);

	memcpy(at, x->at, x->n * sizeof(*at));
	x->at = at;
	for (uint32_t i = 0; i < x->n; i++)
		at[i].value = pack_value(r, at[i].value);
	for (uint32_t i = 0; i < x->n; i++)
		at[i].rule = packed_of(r, at[i].rule, at[i].n);
	x->other = packed_of(r, x->other, x->n_other);
}

static void pack_group(struct rf_rego *r, struct rf_rego_group *g)
{
	bool merged = g->merged != g->rule;

	for (uint32_t i = 0; i < g->n; i++)
		(void)pack_rule(r, g->rule[i]);
	if (g->fallback)
		g->fallback = pack_rule(r, g->fallback);
	for (uint32_t i = 0; merged && i < g->n_merged; i++)
		(void)pack_rule(r, g->merged[i]);
	if (g->index)
		pack_index(r, g->index);
	g->rule = packed_of(r, g->rule, g->n);
	g->merged = merged ? packed_of(r, g->merged, g->n_merged) : g->rule;
}

void rf_rc_pack(struct rf_rego *r)
{
	for (uint32_t i = 0; i < r->n_groups; i++)
		pack_group(r, r->group[i]);
	for (uint32_t i = 1; i < r->n_paths; i++)
		r->path[i].key = pack_value(r, r->path[i].key);
}
