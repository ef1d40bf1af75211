/* A query from its beginning to its answers. */
#include <time.h>

#include "policy/rego/eval.h"

#define STEPS 100000000
#define STACK 1024 /* slots; deeper frames are in the arena */

struct rf_rego_fixed {
	struct rf_re_cached once[1]; /* as many as the policy has */
};

struct answers {
	struct rf_re_cont cont;
	const struct rf_rego_query *q;
	struct rf_rego_answer *list;
	size_t n, room;
};

static enum result one_answer(struct rf_re *x, struct rf_re_cont *k, struct rf_rv *frame)
{
	struct answers *a = (struct answers *)k;
	const struct rf_rego_query *q = a->q;
	struct rf_rv_pair *pair = rf_arena_try(x->arena, (q->n_vars + 1) * sizeof(*pair));
	struct rf_rv *value = rf_arena_try(x->arena, (q->n_values + 1) * sizeof(*value));

	if (a->n == a->room && pair && value) {
		size_t room = a->room ? 2 * a->room : 4;
		struct rf_rego_answer *more = rf_arena_try(x->arena, room * sizeof(*more));

		if (more && a->n)
			memcpy(more, a->list, a->n * sizeof(*more));
		if (more) {
			a->list = more;
			a->room = room;
		}
	}
	if (!pair || !value || a->n == a->room) {
		rf_re_full(x);
		return FAIL;
	}
	for (uint32_t i = 0; i < q->n_vars; i++)
		pair[i] = (struct rf_rv_pair){ rf_rv_str(q->var[i].name), frame[q->var[i].slot] };
	for (uint32_t i = 0; i < q->n_values; i++)
		value[i] = q->value_slot[i] == UINT32_MAX ? rf_rv_bool(true) :
							    frame[q->value_slot[i]];
	a->list[a->n++] = (struct rf_rego_answer){
		.bindings = rf_rv_object(pair, q->n_vars, NULL),
		.expressions = rf_rv_array(value, q->n_values),
	};
	return MORE;
}

static int64_t wall_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static bool set_up(struct rf_re *x, const struct rf_rego_run *run)
{
	struct rf_re_env plain = { .has_input = run->input != NULL,
				   .input = run->input ? *run->input : RF_RV_NIL,
				   .data = x->rego->data };

	if (run->data && !rf_rv_merge(x->arena, x->rego->data, *run->data, &plain.data))
		return false;
	x->env = rf_re_new_env(x, &plain, 0);
	if (x->env && run->fixed)
		memcpy(x->env->once, run->fixed->once, x->rego->n_once * sizeof(*x->env->once));
	return x->env != NULL;
}

/* Runs the query; k gets its solutions. one: only the expression that it is, and that into *ret. */
static int evaluate(const struct rf_rego_query *q, struct rf_rego_run *run, struct rf_re_cont *k, struct rf_rv *ret,
		    struct rf_err *err)
{
	RF_UNINITIALIZED struct rf_rv stack[STACK];
	RF_UNINITIALIZED struct rf_err own; /* a kilobyte that is hardly ever used */
	struct rf_re x = { .rego = q->rego,
			   .arena = run->arena,
			   .fuel = run->steps ? run->steps : STEPS,
			   .strict = run->strict,
			   .stack = stack,
			   .room = STACK,
			   .err = err ? err : &own };
	enum answer one = UNDEFINED;
	struct rf_rv *frame;
	int64_t fuel = x.fuel;
	bool failed;

	own.code = RF_OK;
	own.msg[0] = '\0';
	x.builtins = (struct rf_rb_env){ .arena = run->arena,
					 .fuel = &x.fuel,
					 .now_ns = run->now_ns ? run->now_ns : wall_ns(),
					 .random = { run->seed, 1, 2, 3 } };
	if (!set_up(&x, run) || !(frame = rf_re_frame(&x, q->n_slots))) {
		rf_re_full(&x);
		return -x.err->code;
	}
	if (ret)
		failed = (one = rf_re_eval(&x, q->one, frame, ret)) == ERROR;
	else
		failed = rf_re_run(&x, q->body, frame, k) == FAIL;
	run->used = fuel - x.fuel;
	return failed ? -x.err->code : one == GIVEN;
}

int rf_rego_eval(const struct rf_rego_query *q, struct rf_rego_run *run, struct rf_rego_result *ret,
		 struct rf_err *err)
{
	struct answers a = { .cont = { one_answer }, .q = q };
	int r = evaluate(q, run, &a.cont, NULL, err);

	if (r < 0)
		return r;
	*ret = (struct rf_rego_result){ .answer = a.list, .n = a.n };
	return 0;
}

int rf_rego_ask(const struct rf_rego_query *q, struct rf_rego_run *run, struct rf_rv *ret, struct rf_err *err)
{
	struct rf_rego_result result = { 0 };
	int r;

	if (q->one)
		return evaluate(q, run, NULL, ret, err);
	r = rf_rego_eval(q, run, &result, err);
	return r < 0 ? r : rf_rego_value(&result, ret);
}

bool rf_rego_value(const struct rf_rego_result *r, struct rf_rv *ret)
{
	if (r->n == 0 || r->answer[0].expressions.n == 0)
		return false;
	*ret = r->answer[0].expressions.items[0];
	return true;
}

#define FIX_STEPS 1000000 /* of all together; what is not done by then is computed in each run */
#define FIX_MEMORY ((size_t)16 << 20)

static void fix_one(struct rf_re *x, const struct rf_rego_once *o, struct rf_arena *a, struct rf_re_cached *ret)
{
	struct rf_rv frame[RF_REGO_ONCE_SLOTS] = { RF_RV_NIL }, v, copy;
	enum answer r = rf_re_eval(x, o->expr, frame, &v);

	if (r == UNDEFINED)
		ret->state = 2;
	if (r != GIVEN || !rf_rv_copy(a, v, &copy))
		return;
	ret->state = 1;
	ret->value = copy;
}

const struct rf_rego_fixed *rf_rego_fix(const struct rf_rego *r, struct rf_str key, struct rf_rv value,
					struct rf_arena *a)
{
	rf_auto(arena) scratch = RF_ARENA_CAPPED(FIX_MEMORY);
	struct rf_re_cached *fixed = rf_arena_array(a, struct rf_re_cached, r->n_once + 1);
	const struct rf_rv_pair pair = { rf_rv_str(key), value };
	const struct rf_rv input = { .type = RF_RV_OBJECT, .n = 1, .pairs = &pair };
	struct rf_rego_run run = { .arena = &scratch, .input = &input };
	struct rf_err err = RF_ERR_INIT;
	struct rf_re x = { .rego = r, .arena = &scratch, .fuel = FIX_STEPS, .err = &err };

	x.builtins = (struct rf_rb_env){ .arena = &scratch, .fuel = &x.fuel, .now_ns = wall_ns() };
	if (!set_up(&x, &run))
		return (const struct rf_rego_fixed *)fixed;
	for (uint32_t i = 0; i < r->n_once && x.fuel > 0; i++) {
		const struct rf_rego_once *o = &r->once[i];

		if (o->fixable && (o->any || rf_str_eq(rf_rv_text(o->key), key)))
			fix_one(&x, o, a, &fixed[i]);
	}
	return (const struct rf_rego_fixed *)fixed;
}
