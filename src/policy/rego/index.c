/* After all rules are there: which of a function's rules a constant argument leaves, whose results are worth
 * remembering, and which rules of a set begin with the same steps, which then are done once for all of them. */
#include <stdlib.h>

#include "policy/rego/compile.h"

#define INDEX_MAX 10000
#define WORTH 3 /* steps; less than that is done faster than looked up */

/* --- by argument --- */

static bool is_constant(const struct rf_rp_rule *r, uint32_t arg)
{
	return r->arg[arg].kind == RF_RP_EQUAL && r->arg[arg].expr->kind == RF_RP_CONST;
}

static uint32_t count_constants(const struct rf_rego_group *g, uint32_t arg)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < g->n; i++)
		n += is_constant(g->rule[i], arg);
	return n;
}

/* An else chain has arguments of its own in each of its rules. */
static bool has_chains(const struct rf_rego_group *g)
{
	for (uint32_t i = 0; i < g->n; i++)
		if (g->rule[i]->otherwise)
			return true;
	return false;
}

static int by_value(const void *a, const void *b)
{
	return rf_rv_cmp(((const struct rf_rego_indexed *)a)->value, ((const struct rf_rego_indexed *)b)->value);
}

static uint32_t same_constants(const struct rf_rego_group *g, uint32_t arg, struct rf_rv v)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < g->n; i++)
		n += is_constant(g->rule[i], arg) && rf_rv_eq(g->rule[i]->arg[arg].expr->value, v);
	return n;
}

static void make_index(struct rf_rego *r, struct rf_rego_group *g, uint32_t arg, uint32_t constants)
{
	struct rf_rego_index *x = rf_arena_new(&r->arena, struct rf_rego_index);
	uint32_t kept = 0;

	x->arg = arg;
	x->at = rf_arena_array(&r->arena, struct rf_rego_indexed, constants);
	x->other = rf_arena_array(&r->arena, struct rf_rp_rule *, g->n - constants + 1);
	for (uint32_t i = 0; i < g->n; i++) {
		if (is_constant(g->rule[i], arg))
			x->at[x->n++].value = g->rule[i]->arg[arg].expr->value;
		else
			x->other[x->n_other++] = g->rule[i];
	}
	qsort(x->at, x->n, sizeof(*x->at), by_value);
	for (uint32_t i = 0; i < x->n; i++)
		if (kept == 0 || !rf_rv_eq(x->at[kept - 1].value, x->at[i].value))
			x->at[kept++] = x->at[i];
	x->n = kept;
	for (uint32_t i = 0; i < x->n; i++) {
		x->at[i].rule = rf_arena_array(&r->arena, struct rf_rp_rule *, x->n_other + same_constants(g, arg, x->at[i].value));
		for (uint32_t j = 0; j < g->n; j++)
			if (!is_constant(g->rule[j], arg) ||
			    rf_rv_eq(g->rule[j]->arg[arg].expr->value, x->at[i].value))
				x->at[i].rule[x->at[i].n++] = g->rule[j];
	}
	g->index = x;
}

static void index_arguments(struct rf_rego *r, struct rf_rego_group *g)
{
	uint32_t best = 0, most = 0;

	for (uint32_t i = 0; i < g->n_args; i++) {
		uint32_t n = count_constants(g, i);

		if (n > most) {
			most = n;
			best = i;
		}
	}
	/* Each constant has a list of its own, with all rules for everything in it: that must not grow. */
	if (most >= 2 && g->n <= 1000 && (g->n - most) * most <= INDEX_MAX && !has_chains(g))
		make_index(r, g, best, most);
}

/* --- what a call costs, roughly --- */

static uint32_t cost_of_steps(const struct rf_rp_step *s);

static uint32_t cost_of_expr(const struct rf_rp_expr *e)
{
	uint32_t n = e->kind == RF_RP_FUNCTION ? 2 : e->kind == RF_RP_BUILTIN;

	for (uint32_t i = 0; i < e->n && n < WORTH; i++)
		n += cost_of_expr(&e->item[i]);
	if (rf_rp_is_comp(e))
		n += 1 + cost_of_steps(e->body);
	return n;
}

static uint32_t cost_of_steps(const struct rf_rp_step *s)
{
	uint32_t n = 0;

	for (; s && n < WORTH; s = s->next) {
		n += 1 + (s->expr ? cost_of_expr(s->expr) : 0) + (s->op == RF_RP_EACH);
		n += rf_rp_has_body(s) ? cost_of_steps(s->body) : 0;
	}
	return n;
}

static bool worth_remembering(const struct rf_rego_group *g)
{
	struct rf_rp_rule *const *rule = g->index ? g->index->other : g->rule;
	uint32_t n = g->index ? g->index->n_other : g->n, cost = 0;

	for (uint32_t i = 0; i < n && cost < WORTH; i++)
		for (const struct rf_rp_rule *r = rule[i]; r; r = r->otherwise)
			cost += cost_of_steps(r->body) + cost_of_expr(r->value);
	return cost >= WORTH;
}

/* --- rules that begin alike --- */

static bool same_steps(const struct rf_rp_step *a, const struct rf_rp_step *b);

static bool same_expr(const struct rf_rp_expr *a, const struct rf_rp_expr *b)
{
	if (!a || !b)
		return a == b;
	if (a->kind != b->kind || a->first != b->first || a->n != b->n || a->slot != b->slot)
		return false;
	if (a->kind == RF_RP_CONST)
		return rf_rv_same(a->value, b->value);
	if (rf_rp_has_base(a) && !same_expr(a->base, b->base))
		return false;
	if (a->kind == RF_RP_OBJECT_COMP && !same_expr(a->key, b->key))
		return false;
	if (rf_rp_is_comp(a) ? !same_steps(a->body, b->body) : a->node != b->node)
		return false;
	for (uint32_t i = 0; i < a->n; i++)
		if (!same_expr(&a->item[i], &b->item[i]))
			return false;
	return true;
}

static bool same_pattern(const struct rf_rp_pattern *a, const struct rf_rp_pattern *b)
{
	if (!a || !b)
		return a == b;
	if (a->kind != b->kind || a->slot != b->slot || a->n != b->n ||
	    (a->kind == RF_RP_EQUAL && !same_expr(a->expr, b->expr)))
		return false;
	for (uint32_t i = 0; i < a->n; i++)
		if (!same_pattern(&a->part[i], &b->part[i]) ||
		    (a->kind == RF_RP_FIELDS && !same_expr(&a->key[i], &b->key[i])))
			return false;
	return true;
}

/* Their slots are the same too: both rules number theirs as they come. What `with` does is not looked into. */
static bool same_step(const struct rf_rp_step *a, const struct rf_rp_step *b)
{
	return a->op == b->op && a->op != RF_RP_WITH && a->n == b->n && same_expr(a->expr, b->expr) &&
	       same_pattern(a->key, b->key) && same_pattern(a->pattern, b->pattern) &&
	       (!rf_rp_has_body(a) || same_steps(a->body, b->body)) &&
	       (!rf_rp_has_other(a) || same_steps(a->other, b->other));
}

static bool same_steps(const struct rf_rp_step *a, const struct rf_rp_step *b)
{
	for (; a && b; a = a->next, b = b->next)
		if (!same_step(a, b))
			return false;
	return a == b;
}

static struct rf_rp_step *fork_of(struct rf_rego *r, const struct rf_rp_branch *b, uint32_t n);

/* The steps of branches that begin alike, and a fork where they part. */
static struct rf_rp_step *common(struct rf_rego *r, struct rf_rp_branch *b, uint32_t n)
{
	struct rf_rp_step *first = NULL, **tail = &first;
	bool alike = true;

	if (n == 1)
		return b[0].rest;
	while (alike) {
		struct rf_rp_step *copy;

		for (uint32_t i = 0; i < n && alike; i++)
			alike = b[i].rest && same_step(b[0].rest, b[i].rest);
		if (!alike)
			break;
		copy = rf_arena_new(&r->arena, struct rf_rp_step);
		*copy = *b[0].rest;
		copy->next = NULL;
		*tail = copy;
		tail = &copy->next;
		for (uint32_t i = 0; i < n; i++)
			b[i].rest = b[i].rest->next;
	}
	*tail = fork_of(r, b, n);
	return first;
}

/* Branches that begin with the same step become one that forks later. */
static struct rf_rp_step *fork_of(struct rf_rego *r, const struct rf_rp_branch *b, uint32_t n)
{
	struct rf_rp_step *fork = rf_arena_new(&r->arena, struct rf_rp_step);
	struct rf_rp_branch *alike = rf_arena_array(&r->arena, struct rf_rp_branch, n);
	bool *taken = rf_arena_array(&r->arena, bool, n);

	fork->op = RF_RP_FORK;
	fork->row = b[0].rule->loc.row;
	fork->branch = rf_arena_array(&r->arena, struct rf_rp_branch, n);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t m = 0;

		for (uint32_t j = i; j < n; j++) {
			if (taken[j] || (j > i && (!b[i].rest || !b[j].rest || !same_step(b[i].rest, b[j].rest))))
				continue;
			taken[j] = true;
			alike[m++] = b[j];
		}
		if (m > 0)
			fork->branch[fork->n++] =
				(struct rf_rp_branch){ b[i].rule, common(r, alike, m) };
	}
	return fork;
}

#define MERGED_MAX 64 /* each is compared with each */

static void merge_rules(struct rf_rego *r, struct rf_rego_group *g)
{
	struct rf_rp_rule *one = rf_arena_new(&r->arena, struct rf_rp_rule);
	struct rf_rp_branch *b = rf_arena_array(&r->arena, struct rf_rp_branch, g->n + 1);

	if (g->n < 2 || g->n > MERGED_MAX || has_chains(g))
		return;
	*one = *g->rule[0];
	for (uint32_t i = 0; i < g->n; i++) {
		b[i] = (struct rf_rp_branch){ g->rule[i], g->rule[i]->body };
		one->n_slots = RF_MAX(one->n_slots, g->rule[i]->n_slots);
	}
	one->body = fork_of(r, b, g->n);
	g->merged = rf_arena_new(&r->arena, struct rf_rp_rule *);
	g->merged[0] = one;
	g->n_merged = 1;
}

/* --- walks --- */

/* After rules were merged: what follows a walk may be a fork then, and not all of its branches walk on. */
static void mark_walks(struct rf_rp_step *s)
{
	for (; s; s = s->next) {
		const struct rf_rp_step *next = s->next;

		s->walked_on = s->op == RF_RP_EACH && next && next->op == RF_RP_EACH && s->pattern &&
			       s->pattern->kind == RF_RP_BIND && next->expr->kind == RF_RP_SLOT &&
			       next->expr->slot == s->pattern->slot;
		if (rf_rp_has_body(s))
			mark_walks(s->body);
		if (rf_rp_has_other(s))
			mark_walks(s->other);
		for (uint32_t i = 0; s->op == RF_RP_FORK && i < s->n; i++)
			mark_walks(s->branch[i].rest);
	}
}

void rf_rc_index(struct rf_rego *r)
{
	for (uint32_t i = 0; i < r->n_groups; i++) {
		struct rf_rego_group *g = r->group[i];

		if (g->kind == RF_REGO_PARTIAL_SET)
			merge_rules(r, g);
		for (uint32_t j = 0; j < g->n_merged; j++)
			for (struct rf_rp_rule *rule = g->merged[j]; rule; rule = rule->otherwise)
				mark_walks(rule->body);
		if (g->kind == RF_REGO_FUNCTION && g->n_args > 0)
			index_arguments(r, g);
		g->memo = worth_remembering(g) && (g->kind != RF_REGO_FUNCTION || g->n_args > 0);
	}
}
