/* What is computed of one key of the input before any evaluation, so that runs start with it. */
#include "policy/rego/eval.h"

#define FIX_STEPS 1000000 /* of all together; what is not done by then is computed in each run */
#define FIX_PARTS 100000 /* of one value */
#define FIX_MEMORY ((size_t)16 << 20)

/* --- equal values once --- */

/* What comes after that is not looked for. */
#define POOL_MEMORY ((size_t)64 << 20)
#define POOL_MAX (1u << 20)

struct rf_re_pool {
	struct rf_arena arena;
	struct rf_rv *at; /* by hash; type UINT8_MAX: empty */
	uint32_t n, slots;
};

struct rf_re_pool *rf_re_pool_new(void)
{
	struct rf_re_pool *p = rf_new(struct rf_re_pool);

	p->arena.cap = POOL_MEMORY;
	return p;
}

void rf_re_pool_free(struct rf_re_pool *p)
{
	if (!p)
		return;
	rf_arena_done(&p->arena);
	free(p->at);
	free(p);
}

static struct rf_rv *place_of(const struct rf_re_pool *p, struct rf_rv v)
{
	uint32_t i = (uint32_t)rf_rv_hash(v) & (p->slots - 1);

	while (p->at[i].type != UINT8_MAX && !rf_rv_same(p->at[i], v))
		i = (i + 1) & (p->slots - 1);
	return &p->at[i];
}

static void grow(struct rf_re_pool *p)
{
	struct rf_re_pool more = { .slots = p->slots ? 2 * p->slots : 64, .n = p->n };

	if (p->slots && p->n < p->slots / 2)
		return;
	more.at = rf_alloc(more.slots * sizeof(*more.at));
	for (uint32_t i = 0; i < more.slots; i++)
		more.at[i].type = UINT8_MAX;
	for (uint32_t i = 0; i < p->slots; i++)
		if (p->at[i].type != UINT8_MAX)
			*place_of(&more, p->at[i]) = p->at[i];
	free(p->at);
	p->at = more.at;
	p->slots = more.slots;
}

bool rf_re_pooled(struct rf_re_pool *p, struct rf_rv v, struct rf_rv *ret)
{
	struct rf_rv *at;

	grow(p);
	at = place_of(p, v);
	if (at->type == UINT8_MAX) {
		struct rf_rv copy;

		if (p->n >= POOL_MAX || !rf_rv_copy(&p->arena, v, &copy))
			return false;
		*at = copy;
		p->n++;
	}
	*ret = *at;
	return true;
}

/* --- computing --- */

struct fixing {
	struct rf_re x;
	struct rf_arena *a;
	struct rf_re_pool *pool;
};

/* Many parts of a value may be the same one in memory; a copy has them all, and so has what hashes them. */
static bool is_small(struct rf_rv v, uint32_t *left)
{
	size_t n = v.type < RF_RV_ARRAY ? 0 : v.type == RF_RV_OBJECT ? (size_t)v.n * 2 : v.n;

	if (n >= *left)
		return false;
	*left -= (uint32_t)n;
	for (size_t i = 0; i < n; i++)
		if (!is_small(v.items[i], left))
			return false;
	return true;
}

static void fix_one(struct fixing *f, enum answer r, struct rf_rv v, struct rf_re_cached *ret)
{
	uint32_t left = FIX_PARTS;
	struct rf_rv copy;

	f->x.top = f->x.depth = 0; /* an error leaves them as they were there */
	f->x.rule = NULL;
	if (r == UNDEFINED)
		ret->state = 2;
	if (r != GIVEN || !is_small(v, &left) || !(rf_re_pooled(f->pool, v, &copy) || rf_rv_copy(f->a, v, &copy)))
		return;
	ret->state = 1;
	ret->value = copy;
}

static bool is_of(bool fixable, bool any, struct rf_rv its, struct rf_str key)
{
	return fixable && (any || rf_str_eq(rf_rv_text(its), key));
}

static void fix_all(struct fixing *f, struct rf_str key, const struct rf_re_fixed *ret)
{
	struct rf_re *x = &f->x;
	const struct rf_rego *r = x->rego;
	struct rf_rv frame[RF_REGO_ONCE_SLOTS] = { RF_RV_NIL }, v = RF_RV_NIL;
	enum answer was;

	for (uint32_t i = 0; i < r->n_once && x->fuel > 0; i++) {
		if (!is_of(r->once[i].fixable, r->once[i].any, r->once[i].key, key))
			continue;
		was = rf_re_eval(x, r->once[i].expr, frame, &v);
		fix_one(f, was, v, &ret->once[i]);
	}
	for (uint32_t i = 0; i < r->n_groups && x->fuel > 0; i++) {
		const struct rf_rego_group *g = r->group[i];

		if (!is_of(g->fixable, g->fix_any, g->fix_key, key))
			continue;
		was = rf_re_group(x, g, &v);
		fix_one(f, was, v, &ret->group[i]);
	}
}

void rf_re_fix(const struct rf_rego *r, struct rf_str key, struct rf_rv value, struct rf_re_pool *pool,
	       struct rf_arena *a, const struct rf_re_fixed *ret)
{
	rf_auto(arena) scratch = RF_ARENA_CAPPED(FIX_MEMORY);
	const struct rf_rv_pair pair = { rf_rv_str(key), value };
	const struct rf_rv input = { .type = RF_RV_OBJECT, .n = 1, .pairs = &pair };
	struct rf_rego_run run = { .arena = &scratch, .input = &input };
	RF_UNINITIALIZED struct rf_rv stack[RF_RE_STACK];
	struct rf_err err = RF_ERR_INIT;
	struct fixing f = { .a = a, .pool = pool };

	f.x = (struct rf_re){
		.rego = r, .arena = &scratch, .fuel = FIX_STEPS, .stack = stack, .room = RF_RE_STACK, .err = &err
	};
	f.x.builtins = (struct rf_rb_env){ .arena = &scratch, .fuel = &f.x.fuel, .now_ns = rf_re_wall_ns() };
	if (rf_re_set_up(&f.x, &run))
		fix_all(&f, key, ret);
}
