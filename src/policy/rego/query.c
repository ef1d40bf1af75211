/* A query from its beginning to its answers. */
#include <time.h>

#include "policy/rego/coverage.h"
#include "policy/rego/eval.h"

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

int64_t rf_re_wall_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

bool rf_re_set_up(struct rf_re *x, const struct rf_rego_run *run)
{
	struct rf_re_env plain = { .has_input = run->input != NULL,
				   .input = run->input ? *run->input : RF_RV_NIL,
				   .data = x->rego->data };

	if (run->data && !rf_rv_merge(x->arena, x->rego->data, *run->data, &plain.data))
		return false;
	x->env = rf_re_new_env(x, &plain, 0);
	return x->env != NULL;
}

/* Runs the query; k gets its solutions. one: only the expression that it is, and that into *ret. */
static int evaluate(const struct rf_rego_query *q, struct rf_rego_run *run, struct rf_re_cont *k, struct rf_rv *ret,
		    struct rf_err *err)
{
	RF_UNINITIALIZED struct rf_rv stack[RF_RE_STACK];
	RF_UNINITIALIZED struct rf_err own; /* a kilobyte that is hardly ever used */
	struct rf_re x = { .rego = q->rego,
			   .arena = run->arena,
			   .fuel = run->steps ? run->steps : RF_RE_STEPS,
			   .deadline_ns = run->deadline_ns,
			   .strict = run->strict,
			   .stack = stack,
			   .room = RF_RE_STACK,
			   .seen = run->coverage ? run->coverage->seen : NULL,
			   .err = err ? err : &own };
	enum answer one = UNDEFINED;
	struct rf_rv *frame;
	int64_t fuel = x.fuel;
	bool failed;

	own.code = RF_OK;
	own.msg[0] = '\0';
	x.builtins = (struct rf_rb_env){ .arena = run->arena,
					 .fuel = &x.fuel,
					 .now_ns = run->now_ns ? run->now_ns : rf_re_wall_ns(),
					 .random = { run->seed, 1, 2, 3 } };
	if (!rf_re_set_up(&x, run) || !(frame = rf_re_frame(&x, q->n_slots))) {
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
