/* One plan for many policies, each with its own value under one key of the input (a constraint's parameters).
 *
 * A policy joins by being copied: what it computes of that value alone (fix.c) is put in as constants, steps that always
 * hold are left out, as is what comes behind one that never does, and a place whose rules compute the same as one that is
 * there already (sign.c) becomes that one. So an evaluation of all of them has one environment, in which each thing is
 * computed once, whoever asks for it first.
 *
 * What cannot be copied that way (`with`, which would have to change the constants; a package as a whole) is asked for by
 * itself, as it was written. */
#include "policy/rego/eval.h"

#define CHUNK 32      /* results that are forgotten together */
#define MEMOS 512     /* calls that a round remembers; a power of two */
#define PATHS_MAX 512 /* places in the input; others are looked up each time */
#define DEPTH_MAX 1000
#define STACK 512

/* A place of the joint plan. */
struct joined {
	struct rf_rego_group *group;
	struct rf_re_sign sign;
	RF_VEC(struct joined *) uses;
	RF_VEC(uint32_t) chunks; /* that its own results are in */
	uint32_t seen;		 /* by the last walk with this number */
};

/* A policy that can be asked. */
struct question {
	const struct rf_rego_group *group; /* NULL: it is asked by itself, */
	const struct rf_rego_query *query; /* this one, */
	struct rf_str key;		   /* with this in the input */
	struct rf_rv value;
	uint32_t *chunk; /* that its results are in */
	uint32_t n_chunks;
};

struct rf_rego_joint {
	struct rf_rego plan; /* its arenas, its paths */
	struct rf_re_pool *pool;
	RF_VEC(struct rf_rego *) policies; /* whose texts and trees the plan refers to */
	RF_VEC(struct joined *) places;
	RF_VEC(struct question) questions;
	struct joined **by_sign; /* open addressing */
	uint32_t slots, n_signed;
	uint32_t n_results; /* of places and of expressions that are computed once */
	uint32_t walks;
};

struct rf_rego_joint *rf_rego_joint_new(void)
{
	struct rf_rego_joint *j = rf_new(struct rf_rego_joint);

	j->pool = rf_re_pool_new();
	j->plan.path = rf_arena_array(&j->plan.arena, struct rf_rego_path, PATHS_MAX);
	j->plan.n_paths = 1;
	j->plan.data = rf_rv_object(NULL, 0, NULL);
	return j;
}

void rf_rego_joint_free(struct rf_rego_joint *j)
{
	if (!j)
		return;
	for (size_t i = 0; i < j->places.n; i++) {
		rf_vec_done(&j->places.at[i]->uses);
		rf_vec_done(&j->places.at[i]->chunks);
	}
	for (size_t i = 0; i < j->policies.n; i++)
		rf_rego_unref(j->policies.at[i]);
	rf_vec_done(&j->policies);
	rf_vec_done(&j->places);
	rf_vec_done(&j->questions);
	free(j->by_sign);
	rf_re_pool_free(j->pool);
	rf_arena_done(&j->plan.plan);
	rf_arena_done(&j->plan.arena);
	free(j);
}

/* --- places by sign --- */

static struct joined **signed_at(const struct rf_rego_joint *j, struct rf_re_sign s)
{
	uint32_t i = (uint32_t)s.a & (j->slots - 1);

	while (j->by_sign[i] && (j->by_sign[i]->sign.a != s.a || j->by_sign[i]->sign.b != s.b))
		i = (i + 1) & (j->slots - 1);
	return &j->by_sign[i];
}

static struct joined *find_signed(const struct rf_rego_joint *j, struct rf_re_sign s)
{
	return j->slots && rf_re_is_signed(s) ? *signed_at(j, s) : NULL;
}

static void add_signed(struct rf_rego_joint *j, struct joined *p)
{
	if (2 * (j->n_signed + 1) > j->slots) {
		struct joined **old = j->by_sign;
		uint32_t n = j->slots;

		j->slots = n ? 2 * n : 64;
		j->by_sign = rf_alloc(j->slots * sizeof(*j->by_sign));
		for (uint32_t i = 0; i < n; i++)
			if (old[i])
				*signed_at(j, old[i]->sign) = old[i];
		free(old);
	}
	*signed_at(j, p->sign) = p;
	j->n_signed++;
}

/* --- copying --- */

struct joining {
	struct rf_rego_joint *j;
	const struct rf_rego *r;
	struct rf_str key;
	struct rf_rv value;	 /* in the joint plan */
	struct rf_re_fixed known;
	const struct rf_re_sign *sign;
	struct joined **done;	 /* by number of the group */
	struct rf_rp_expr **once; /* copies, by number */
	struct joined *at;	 /* that is being copied, */
	const struct rf_rego_group *of; /* from this one */
	uint32_t whole; /* 1 + the result that its whole input is; 0: not yet */
	uint32_t depth;
	bool failed; /* it has something that cannot be joined */
};

static struct rf_arena *plan_of(const struct joining *c)
{
	return &c->j->plan.plan;
}

static uint32_t use_result(struct joining *c, uint32_t n)
{
	uint32_t chunk = n / CHUNK;

	if (c->at->chunks.n == 0 || c->at->chunks.at[c->at->chunks.n - 1] != chunk)
		rf_vec_push(&c->at->chunks, chunk);
	return n;
}

static uint32_t new_result(struct joining *c)
{
	return use_result(c, c->j->n_results++);
}

static struct rf_rv keep(struct joining *c, struct rf_rv v)
{
	struct rf_rv copy;

	return rf_re_pooled(c->j->pool, v, &copy) || rf_rv_copy(plan_of(c), v, &copy) ? copy : v;
}

static struct joined *join_group(struct joining *c, const struct rf_rego_group *g);
static struct rf_rp_step *copy_steps(struct joining *c, const struct rf_rp_step *from);
static void copy_expr(struct joining *c, struct rf_rp_expr *to, const struct rf_rp_expr *from);

static struct rf_rp_expr *copy_exprs(struct joining *c, const struct rf_rp_expr *from, uint32_t n)
{
	struct rf_rp_expr *to = rf_arena_array(plan_of(c), struct rf_rp_expr, n);

	for (uint32_t i = 0; i < n && !c->failed; i++)
		copy_expr(c, &to[i], &from[i]);
	return to;
}

static void make_never(struct rf_rp_expr *e)
{
	*e = (struct rf_rp_expr){ .kind = RF_RP_NEVER, .row = e->row };
}

static void make_constant(struct joining *c, struct rf_rp_expr *e, struct rf_rv v)
{
	*e = (struct rf_rp_expr){ .kind = RF_RP_CONST, .first = e->first, .row = e->row };
	e->value = keep(c, v);
}

/* A value that is known, and keys behind it: as many as are known, too, are followed now. */
static void make_followed(struct joining *c, struct rf_rp_expr *e, struct rf_rv v, const struct rf_rp_expr *key, uint32_t n,
			  bool document)
{
	for (; n > 0 && key->kind == RF_RP_CONST; key++, n--)
		if (!(document ? rf_re_base(v, key->value, &v) : rf_rv_get(v, key->value, &v))) {
			make_never(e);
			return;
		}
	if (n == 0) {
		make_constant(c, e, v);
		return;
	}
	*e = (struct rf_rp_expr){ .kind = RF_RP_REF, .row = e->row, .document = document, .n = n };
	e->item = copy_exprs(c, key, n);
	e->base = rf_arena_new(plan_of(c), struct rf_rp_expr);
	make_constant(c, e->base, v);
}

static void copy_place(struct joining *c, struct rf_rp_expr *to, const struct rf_rego_group *g, const struct rf_rp_expr *key,
		       uint32_t n)
{
	const struct rf_re_cached *known = &c->known.group[g->id];

	if (known->state == 2) {
		make_never(to);
	} else if (known->state == 1) {
		make_followed(c, to, known->value, key, n, true);
	} else {
		*to = (struct rf_rp_expr){ .kind = RF_RP_PLACE, .row = to->row, .n = n };
		to->item = copy_exprs(c, key, n);
		to->group = join_group(c, g)->group;
	}
}

static bool is_text(const struct rf_rp_expr *e)
{
	return e->kind == RF_RP_CONST && e->value.type == RF_RV_STRING;
}

static void copy_data(struct joining *c, struct rf_rp_expr *to, const struct rf_rp_expr *from)
{
	const struct rf_rego_node *n = from->node;

	if (n->group && n->group->kind != RF_REGO_FUNCTION) {
		copy_place(c, to, n->group, from->item, from->n);
		return;
	}
	/* Where rules lie below, all of them may be meant. */
	c->failed |= n->group || from->n == 0 || !is_text(&from->item[0]) || rf_rego_child(n, rf_rv_text(from->item[0].value));
	to->item = copy_exprs(c, from->item, from->n);
}

/* The same place in the input; 0: there are too many. */
static uint32_t path_of(struct joining *c, uint32_t path)
{
	const struct rf_rego_path *from = &c->r->path[path];
	struct rf_rego *to = &c->j->plan;
	uint32_t parent = from->parent ? path_of(c, from->parent) : 0;

	if (from->parent && !parent)
		return 0;
	for (uint32_t i = 1; i < to->n_paths; i++)
		if (to->path[i].parent == parent && rf_rv_same(to->path[i].key, from->key))
			return i;
	if (to->n_paths == PATHS_MAX)
		return 0;
	to->path[to->n_paths] = (struct rf_rego_path){ parent, keep(c, from->key) };
	return to->n_paths++;
}

static void make_whole(struct joining *c, struct rf_rp_expr *e)
{
	c->whole = c->whole ? c->whole : 1 + new_result(c);
	*e = (struct rf_rp_expr){ .kind = RF_RP_WHOLE, .row = e->row, .n = 1, .slot = 1 + use_result(c, c->whole - 1) };
	e->value = c->value;
	e->item = rf_arena_new(plan_of(c), struct rf_rp_expr);
	make_constant(c, e->item, rf_rv_str(c->key));
}

static void copy_input(struct joining *c, struct rf_rp_expr *to, const struct rf_rp_expr *from)
{
	if (from->n == 0) {
		make_whole(c, to);
		return;
	}
	if (!is_text(&from->item[0])) {
		*to = (struct rf_rp_expr){ .kind = RF_RP_REF, .row = from->row, .n = from->n };
		to->item = copy_exprs(c, from->item, from->n);
		to->base = rf_arena_new(plan_of(c), struct rf_rp_expr);
		make_whole(c, to->base);
		return;
	}
	if (rf_str_eq(rf_rv_text(from->item[0].value), c->key)) {
		make_followed(c, to, c->value, from->item + 1, from->n - 1, false);
		return;
	}
	to->item = copy_exprs(c, from->item, from->n);
	if (!from->known_path)
		return;
	to->slot = path_of(c, from->slot);
	to->known_path = to->slot != 0;
}

static void copy_parts(struct joining *c, struct rf_rp_expr *to, const struct rf_rp_expr *from)
{
	to->item = copy_exprs(c, from->item, from->n);
	if (from->kind == RF_RP_FUNCTION)
		to->group = join_group(c, from->group)->group;
	if (!rf_rp_has_base(from))
		return;
	to->base = copy_exprs(c, from->base, 1);
	if (from->kind == RF_RP_OBJECT_COMP)
		to->key = copy_exprs(c, from->key, 1);
	if (rf_rp_is_comp(from))
		to->body = copy_steps(c, from->body);
}

/* Calls and comprehensions. One that is computed once may be in many places: it is copied once, too. */
static void copy_numbered(struct joining *c, struct rf_rp_expr *to, const struct rf_rp_expr *from)
{
	const struct rf_re_cached *known = from->slot ? &c->known.once[from->slot - 1] : NULL;

	if (known && known->state == 2) {
		make_never(to);
	} else if (known && known->state == 1) {
		make_constant(c, to, known->value);
	} else if (known && c->once[from->slot - 1]) {
		*to = *c->once[from->slot - 1];
	} else {
		copy_parts(c, to, from);
		if (!known)
			return;
		to->slot = 1 + new_result(c);
		c->once[from->slot - 1] = to;
	}
}

static void copy_reference(struct joining *c, struct rf_rp_expr *to, const struct rf_rp_expr *from)
{
	to->base = copy_exprs(c, from->base, 1);
	if (to->base->kind == RF_RP_CONST)
		make_followed(c, to, to->base->value, from->item, from->n, from->document);
	else if (to->base->kind == RF_RP_NEVER)
		make_never(to);
	else
		to->item = copy_exprs(c, from->item, from->n);
}

static void copy_expr(struct joining *c, struct rf_rp_expr *to, const struct rf_rp_expr *from)
{
	*to = *from;
	if (++c->depth > DEPTH_MAX)
		c->failed = true;
	if (c->failed)
		return;
	switch ((enum rf_rp_kind)from->kind) {
	case RF_RP_CONST:
		make_constant(c, to, from->value);
		break;
	case RF_RP_SLOT:
	case RF_RP_WHOLE:
	case RF_RP_NEVER:
		break;
	case RF_RP_INPUT:
		copy_input(c, to, from);
		break;
	case RF_RP_DATA:
		copy_data(c, to, from);
		break;
	case RF_RP_NARROWED:
	case RF_RP_PLACE:
		copy_place(c, to, from->group, from->item, from->n);
		break;
	case RF_RP_REF:
		copy_reference(c, to, from);
		break;
	case RF_RP_ARRAY:
	case RF_RP_SET:
	case RF_RP_OBJECT:
	case RF_RP_TEMPLATE:
		copy_parts(c, to, from);
		break;
	case RF_RP_BUILTIN:
	case RF_RP_FUNCTION:
	case RF_RP_ARRAY_COMP:
	case RF_RP_SET_COMP:
	case RF_RP_OBJECT_COMP:
		copy_numbered(c, to, from);
		break;
	}
	c->depth--;
}

static struct rf_rp_pattern *copy_patterns(struct joining *c, const struct rf_rp_pattern *from, uint32_t n)
{
	struct rf_rp_pattern *to = rf_arena_array(plan_of(c), struct rf_rp_pattern, n);

	for (uint32_t i = 0; i < n && !c->failed; i++) {
		to[i] = from[i];
		if (from[i].kind == RF_RP_EQUAL)
			to[i].expr = copy_exprs(c, from[i].expr, 1);
		if (from[i].kind == RF_RP_FIELDS)
			to[i].key = copy_exprs(c, from[i].key, from[i].n);
		if (from[i].kind == RF_RP_FIELDS || from[i].kind == RF_RP_PARTS)
			to[i].part = copy_patterns(c, from[i].part, from[i].n);
	}
	return to;
}

/* --- steps --- */

/* Nothing is a solution of it. */
static bool is_dead(const struct rf_rp_step *s)
{
	return s && s->op == RF_RP_TEST && s->expr->kind == RF_RP_NEVER;
}

static struct rf_rp_rule *copied_rule(const struct joining *c, const struct rf_rp_rule *rule)
{
	for (uint32_t i = 0; i < c->of->n; i++)
		if (c->of->rule[i] == rule)
			return c->at->group->rule[i];
	rf_assert(false); /* a fork is of its own group's rules */
	return NULL;
}

static void copy_branches(struct joining *c, struct rf_rp_step *to, const struct rf_rp_step *from)
{
	to->branch = rf_arena_array(plan_of(c), struct rf_rp_branch, from->n);
	to->n = 0;
	for (uint32_t i = 0; i < from->n && !c->failed; i++) {
		struct rf_rp_step *rest = copy_steps(c, from->branch[i].rest);

		if (!is_dead(rest))
			to->branch[to->n++] = (struct rf_rp_branch){ copied_rule(c, from->branch[i].rule), rest };
	}
}

static void copy_step(struct joining *c, struct rf_rp_step *to, const struct rf_rp_step *from)
{
	*to = *from;
	to->next = NULL;
	c->failed |= from->op == RF_RP_WITH || from->op == RF_RP_MARK;
	if (c->failed)
		return;
	if (from->expr)
		to->expr = copy_exprs(c, from->expr, 1);
	if (from->key)
		to->key = copy_patterns(c, from->key, 1);
	if (from->pattern)
		to->pattern = copy_patterns(c, from->pattern, 1);
	if (rf_rp_has_body(from))
		to->body = copy_steps(c, from->body);
	if (rf_rp_has_other(from))
		to->other = copy_steps(c, from->other);
	if (from->op == RF_RP_FORK)
		copy_branches(c, to, from);
}

/* What is known of a step without its variables. */
static enum { HOLDS, OPEN, DEAD } outlook(const struct rf_rp_step *s)
{
	bool never = s->expr && s->expr->kind == RF_RP_NEVER;

	switch ((enum rf_rp_op)s->op) {
	case RF_RP_TEST:
		if (s->expr->kind == RF_RP_CONST)
			return rf_rv_is_false(s->expr->value) ? DEAD : HOLDS;
		return never ? DEAD : OPEN;
	case RF_RP_NOT:
		return !s->body ? DEAD : is_dead(s->body) ? HOLDS : OPEN;
	case RF_RP_FORK:
		return s->n == 0 ? DEAD : OPEN;
	case RF_RP_MATCH:
	case RF_RP_EACH:
	case RF_RP_EACH_ANSWER:
	case RF_RP_EVERY:
		return never ? DEAD : OPEN;
	case RF_RP_EITHER:
	case RF_RP_BOTH:
	case RF_RP_WITH:
	case RF_RP_MARK:
		break;
	}
	return OPEN;
}

static void make_dead(struct joining *c, struct rf_rp_step *s)
{
	*s = (struct rf_rp_step){ .op = RF_RP_TEST, .row = s->row };
	s->expr = rf_arena_new(plan_of(c), struct rf_rp_expr);
	make_never(s->expr);
}

/* Those in front of a dead one stay: they may fail. */
static struct rf_rp_step *copy_steps(struct joining *c, const struct rf_rp_step *from)
{
	struct rf_rp_step *first = NULL, **tail = &first;
	bool dead = false;

	if (++c->depth > DEPTH_MAX)
		c->failed = true;
	for (; from && !dead && !c->failed; from = from->next) {
		struct rf_rp_step *s = rf_arena_new(plan_of(c), struct rf_rp_step);

		copy_step(c, s, from);
		if (c->failed || outlook(s) == HOLDS)
			continue;
		dead = outlook(s) == DEAD;
		if (dead)
			make_dead(c, s);
		*tail = s;
		tail = &s->next;
	}
	c->depth--;
	return first;
}

/* --- rules --- */

/* body: that of the group's merged rules stands for it otherwise. */
static struct rf_rp_rule *copy_rule(struct joining *c, const struct rf_rp_rule *from, bool body)
{
	struct rf_rp_rule *first = NULL, **tail = &first;

	for (; from && !c->failed; from = from->otherwise, tail = &(*tail)->otherwise) {
		struct rf_rp_rule *to = rf_arena_new(plan_of(c), struct rf_rp_rule);

		*to = *from;
		to->otherwise = NULL;
		to->arg = copy_patterns(c, from->arg, from->n_args);
		to->body = body ? copy_steps(c, from->body) : NULL;
		to->path = copy_exprs(c, from->path, from->n_path);
		to->value = copy_exprs(c, from->value, 1);
		*tail = to;
	}
	return first;
}

static struct rf_rp_rule **copy_rules(struct joining *c, struct rf_rp_rule *const *from, uint32_t n, bool body)
{
	struct rf_rp_rule **to = rf_arena_array(plan_of(c), struct rf_rp_rule *, n + 1);

	for (uint32_t i = 0; i < n && !c->failed; i++)
		to[i] = copy_rule(c, from[i], body);
	return to;
}

static uint32_t leave_out_dead(struct rf_rp_rule **rule, uint32_t n)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < n; i++)
		if (rule[i]->otherwise || !is_dead(rule[i]->body))
			rule[kept++] = rule[i];
	return kept;
}

static struct rf_rp_rule **copy_list(struct joining *c, struct rf_rp_rule *const *from, uint32_t *n)
{
	struct rf_rp_rule **to = rf_arena_array(plan_of(c), struct rf_rp_rule *, *n + 1);

	for (uint32_t i = 0; i < *n; i++)
		to[i] = copied_rule(c, from[i]);
	*n = leave_out_dead(to, *n);
	return to;
}

static void copy_index(struct joining *c, struct rf_rego_group *to, const struct rf_rego_index *from)
{
	struct rf_rego_index *x = rf_arena_new(plan_of(c), struct rf_rego_index);

	*x = *from;
	x->at = rf_arena_array(plan_of(c), struct rf_rego_indexed, x->n + 1);
	for (uint32_t i = 0; i < x->n; i++) {
		x->at[i] = from->at[i];
		x->at[i].value = keep(c, from->at[i].value);
		x->at[i].rule = copy_list(c, from->at[i].rule, &x->at[i].n);
	}
	x->other = copy_list(c, from->other, &x->n_other);
	to->index = x;
}

static void copy_group(struct joining *c, struct rf_rego_group *to, const struct rf_rego_group *from)
{
	bool merged = from->merged != from->rule;

	*to = *from;
	to->id = new_result(c);
	c->failed |= from->node->n > 0; /* rules with longer names add to it */
	to->rule = copy_rules(c, from->rule, from->n, !merged);
	to->fallback = from->fallback ? copy_rule(c, from->fallback, true) : NULL;
	to->merged = merged ? copy_rules(c, from->merged, from->n_merged, true) : to->rule;
	if (c->failed)
		return;
	to->first = from->n ? to->rule[0] : NULL;
	if (from->index)
		copy_index(c, to, from->index);
	if (merged)
		to->n_merged = leave_out_dead(to->merged, to->n_merged);
	else if (to->kind != RF_REGO_PARTIAL_OBJECT) /* whose rules' names are there even so */
		to->n = to->n_merged = leave_out_dead(to->rule, to->n);
}

static struct joined *new_place(struct joining *c, const struct rf_rego_group *g)
{
	struct joined *p = rf_arena_new(&c->j->plan.arena, struct joined), *outer = c->at;
	const struct rf_rego_group *outer_of = c->of;

	rf_vec_push(&c->j->places, p);
	p->group = rf_arena_new(plan_of(c), struct rf_rego_group);
	p->sign = c->sign[g->id];
	c->at = p;
	c->of = g;
	copy_group(c, p->group, g);
	c->at = outer;
	c->of = outer_of;
	if (!c->failed && rf_re_is_signed(p->sign))
		add_signed(c->j, p);
	return p;
}

/* Rules do not refer to themselves, so this ends. */
static struct joined *join_group(struct joining *c, const struct rf_rego_group *g)
{
	struct joined *p = c->done[g->id] ? c->done[g->id] : find_signed(c->j, c->sign[g->id]);

	if (!p)
		p = new_place(c, g);
	c->done[g->id] = p;
	if (c->at)
		rf_vec_push(&c->at->uses, p);
	return p;
}

/* --- questions --- */

/* All chunks that a place and what it uses have their results in. */
static void collect_chunks(struct rf_rego_joint *j, struct joined *from, struct question *q)
{
	bool *taken = rf_alloc(j->n_results / CHUNK + 1);
	RF_VEC(struct joined *) open = { 0 };
	RF_VEC(uint32_t) found = { 0 };

	j->walks++;
	rf_vec_push(&open, from);
	while (open.n > 0) {
		struct joined *p = open.at[--open.n];

		if (p->seen == j->walks)
			continue;
		p->seen = j->walks;
		for (size_t i = 0; i < p->chunks.n; i++) {
			if (!taken[p->chunks.at[i]])
				rf_vec_push(&found, p->chunks.at[i]);
			taken[p->chunks.at[i]] = true;
		}
		for (size_t i = 0; i < p->uses.n; i++)
			if (p->uses.at[i]->seen != j->walks)
				rf_vec_push(&open, p->uses.at[i]);
	}
	q->n_chunks = (uint32_t)found.n;
	q->chunk = rf_arena_array(&j->plan.arena, uint32_t, found.n);
	memcpy(q->chunk, found.at, found.n * sizeof(*q->chunk));
	rf_vec_done(&found);
	rf_vec_done(&open);
	free(taken);
}

/* Whether the query is one place's rules, of a policy that has no documents of its own. */
static const struct rf_rego_group *group_of(const struct rf_rego_query *q)
{
	const struct rf_rp_expr *e = q->one;

	if (!e || e->kind != RF_RP_DATA || e->n > 0 || !e->node->group || e->node->group->kind == RF_REGO_FUNCTION ||
	    q->rego->covered || q->rego->data.n > 0)
		return NULL;
	return e->node->group;
}

static void join(struct rf_rego_joint *j, const struct rf_rego_group *g, const struct rf_rego *r, struct question *q)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_re_sign *sign = rf_arena_array(&a, struct rf_re_sign, r->n_groups + 1);
	struct joining c = { .j = j,
			     .r = r,
			     .key = q->key,
			     .value = q->value,
			     .known = { rf_arena_array(&a, struct rf_re_cached, r->n_groups + 1),
					rf_arena_array(&a, struct rf_re_cached, r->n_once + 1) },
			     .sign = sign,
			     .done = rf_arena_array(&a, struct joined *, r->n_groups + 1),
			     .once = rf_arena_array(&a, struct rf_rp_expr *, r->n_once + 1) };
	struct joined *p;

	rf_re_fix(r, q->key, q->value, j->pool, &j->plan.plan, &c.known);
	rf_re_signs(r, q->key, q->value, &c.known, sign);
	p = join_group(&c, g);
	if (c.failed)
		return;
	q->group = p->group;
	collect_chunks(j, p, q);
}

uint32_t rf_rego_join(struct rf_rego_joint *j, const struct rf_rego_query *q, struct rf_str key, struct rf_rv value)
{
	struct question question = { .query = q, .key = rf_arena_str(&j->plan.arena, key) };
	const struct rf_rego_group *g = group_of(q);

	if (!rf_re_pooled(j->pool, value, &question.value) && !rf_rv_copy(&j->plan.plan, value, &question.value))
		rf_assert(false); /* that arena has no cap */
	if (g) {
		rf_vec_push(&j->policies, rf_rego_ref(q->rego));
		join(j, g, q->rego, &question);
	}
	rf_vec_push(&j->questions, question);
	return (uint32_t)j->questions.n - 1;
}

/* --- asking --- */

struct rf_rego_round {
	const struct rf_rego_joint *j;
	struct rf_rego_run *run;
	struct rf_re x;
	struct rf_re_env env;
	uint8_t *fresh; /* by chunk: its results are of this round, or none */
};

struct rf_rego_round *rf_rego_begin(const struct rf_rego_joint *j, struct rf_rego_run *run)
{
	struct rf_rego_round *r = rf_arena_try_raw(run->arena, sizeof(*r));
	struct rf_rv *stack = rf_arena_try_raw(run->arena, STACK * sizeof(*stack));
	uint32_t chunks = j->n_results / CHUNK + 1;

	if (!r || !stack)
		return NULL;
	*r = (struct rf_rego_round){ .j = j, .run = run };
	r->env = (struct rf_re_env){ .has_input = run->input != NULL,
				     .input = run->input ? *run->input : RF_RV_NIL,
				     .data = run->data ? *run->data : j->plan.data,
				     .n_memos = MEMOS };
	r->fresh = rf_arena_try(run->arena, chunks);
	r->env.path = rf_arena_try(run->arena, j->plan.n_paths * sizeof(*r->env.path));
	r->env.group = r->env.once = rf_arena_try_raw(run->arena, (size_t)chunks * CHUNK * sizeof(*r->env.group));
	r->x = (struct rf_re){ .rego = &j->plan, .arena = run->arena, .env = &r->env, .stack = stack, .room = STACK };
	return r->fresh && r->env.path && r->env.group ? r : NULL;
}

static void forget(struct rf_rego_round *r, const struct question *q)
{
	for (uint32_t i = 0; i < q->n_chunks; i++) {
		uint32_t n = q->chunk[i];

		if (!r->fresh[n])
			memset(r->env.group + (size_t)n * CHUNK, 0, CHUNK * sizeof(*r->env.group));
		r->fresh[n] = true;
	}
}

bool rf_re_with_member(struct rf_arena *a, struct rf_rv object, struct rf_rv key, struct rf_rv value, struct rf_rv *ret)
{
	uint32_t n = object.type == RF_RV_OBJECT ? object.n : 0;
	struct rf_rv_pair *pair = rf_arena_try(a, (n + 1) * sizeof(*pair));

	if (!pair)
		return false;
	if (n)
		memcpy(pair, object.pairs, n * sizeof(*pair));
	pair[n] = (struct rf_rv_pair){ key, value };
	*ret = rf_rv_object(pair, n + 1, NULL);
	return true;
}

/* By itself, with its own value in the input. */
static int ask_alone(struct rf_rego_round *r, const struct question *q, struct rf_rv *ret, struct rf_err *err)
{
	struct rf_rego_run run = *r->run;
	struct rf_rv input;
	int rc;

	if (!rf_re_with_member(run.arena, r->env.input, rf_rv_str(q->key), q->value, &input))
		return rf_fail(err, RF_EXHAUSTED, "the policy used up its memory; give it less to work on or raise the limit");
	run.input = &input;
	rc = rf_rego_ask(q->query, &run, ret, err);
	r->run->used = run.used;
	return rc;
}

int rf_rego_ask_joint(struct rf_rego_round *r, uint32_t number, struct rf_rv *ret, struct rf_err *err)
{
	const struct question *q = &r->j->questions.at[number];
	const struct rf_rego_run *run = r->run;
	RF_UNINITIALIZED struct rf_err own;
	struct rf_re *x = &r->x;
	enum answer a;

	if (!q->group || run->strict) /* what was computed ahead knows no errors */
		return ask_alone(r, q, ret, err);
	own.code = RF_OK;
	own.msg[0] = '\0';
	forget(r, q);
	x->fuel = run->steps ? run->steps : RF_RE_STEPS;
	x->deadline_ns = run->deadline_ns;
	x->err = err ? err : &own;
	x->depth = x->top = 0; /* an error leaves them as they were there */
	x->rule = NULL;
	x->builtins = (struct rf_rb_env){ .arena = run->arena,
					  .fuel = &x->fuel,
					  .now_ns = run->now_ns ? run->now_ns : rf_re_wall_ns(),
					  .random = { run->seed, 1, 2, 3 } };
	a = rf_re_group(x, q->group, ret);
	r->run->used = (run->steps ? run->steps : RF_RE_STEPS) - x->fuel;
	return a == ERROR ? -x->err->code : a == GIVEN;
}
