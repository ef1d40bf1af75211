/* `policy eval`: one query, answered as `opa eval` prints it. `policy bench`: the same, many times. */
#include "base/fs.h"
#include "cli/policy.h"

#define COUNT_MAX 10000000

struct asked {
	struct rf_str query;
	struct rf_rego *rego;
	struct rf_rego_query *prepared;
	struct rf_str input_text;
	struct rf_rv input;
};

static void asked_done(struct asked *k)
{
	rf_rego_query_free(k->prepared);
	rf_rego_unref(k->rego);
}

/* Which word is the query: the one that is not there as a file; if all are, the last. */
static int find_query(int *argc, char **argv, struct rf_str *ret, struct rf_err *err)
{
	int at = -1;

	for (int i = 0; i < *argc; i++) {
		if (rf_fs_exists(argv[i]))
			continue;
		if (at >= 0)
			return rf_fail(err, RF_BAD_REQUEST,
				       "\"%s\" and \"%s\" are no files or folders, and only one can be the query; "
				       "check the path, and quote the query",
				       argv[at], argv[i]);
		at = i;
	}
	if (at < 0)
		at = *argc - 1;
	*ret = rf_str(argv[at]);
	for (int i = at; i + 1 < *argc; i++)
		argv[i] = argv[i + 1];
	(*argc)--;
	return 0;
}

static int get_ready(struct rf_arena *a, int argc, char **argv, struct asked *k, struct rf_err *err)
{
	struct rf_policy_files f = { 0 };
	const char *input = rf_policy_opt.input;

	if (find_query(&argc, argv, &k->query, err) < 0 || rf_policy_load(a, argv, argc, true, &f, err) < 0)
		return -err->code;
	if (input && (rf_fs_read(a, input, RF_POLICY_FILE_MAX, &k->input_text, err) < 0 ||
		      rf_policy_parse_value(a, input, k->input_text, &k->input, err) < 0))
		return rf_wrap(err, "read the input");
	if (rf_policy_compile(a, &f, &k->rego, err) < 0)
		return -err->code;
	return rf_policy_prepare(a, k->rego, k->query, &k->prepared, err);
}

/* --- printing --- */

/* A value in the middle of something indented; JSON has no line breaks within strings. */
static void put_value(struct rf_buf *out, struct rf_rv v, int indent)
{
	rf_auto(buf) text = RF_BUF_INIT;

	rf_rv_write_json_pretty(&text, v, 2);
	for (size_t i = 0; i < text.n; i++) {
		rf_buf_add_c(out, text.p[i]);
		if (text.p[i] == '\n')
			rf_buf_printf(out, "%*s", indent, "");
	}
}

static void put_answer(struct rf_buf *out, const struct asked *k, const struct rf_ra_body *body,
		       const struct rf_rego_answer *answer)
{
	rf_buf_puts(out, "    {\n      \"expressions\": [");
	for (uint32_t i = 0; i < answer->expressions.n && i < body->n; i++) {
		struct rf_ra_loc loc = body->expr[i]->loc;

		rf_buf_puts(out, i ? ",\n        {\n          \"value\": " : "\n        {\n          \"value\": ");
		put_value(out, answer->expressions.items[i], 10);
		rf_buf_puts(out, ",\n          \"text\": ");
		rf_json_write_str(out, rf_str_n(k->query.p + loc.at, loc.n));
		rf_buf_printf(out,
			      ",\n          \"location\": {\n            \"row\": %u,\n            \"col\": %u\n"
			      "          }\n        }",
			      loc.row, loc.col);
	}
	rf_buf_puts(out, "\n      ]");
	if (answer->bindings.n > 0) {
		rf_buf_puts(out, ",\n      \"bindings\": ");
		put_value(out, answer->bindings, 6);
	}
	rf_buf_puts(out, "\n    }");
}

static int print_json(struct rf_arena *a, const struct asked *k, const struct rf_rego_result *result,
		      struct rf_buf *out, struct rf_err *err)
{
	struct rf_ra_errors errors = { .arena = a };
	struct rf_ra_body *body = NULL;

	if (result->n == 0) {
		rf_buf_puts(out, "{}\n");
		return 0;
	}
	if (rf_ra_parse_body(a, RF_LIT("query"), k->query, rf_policy_version(), &body, &errors) < 0)
		return rf_fail(err, RF_INTERNAL, "the query was understood once and not again");
	rf_buf_puts(out, "{\n  \"result\": [\n");
	for (size_t i = 0; i < result->n; i++) {
		put_answer(out, k, body, &result->answer[i]);
		rf_buf_puts(out, i + 1 < result->n ? ",\n" : "\n");
	}
	rf_buf_puts(out, "  ]\n}\n");
	return 0;
}

/* For people: the variables if the query has any, else what its expressions are. */
static void print_pretty(const struct rf_rego_result *result, struct rf_buf *out)
{
	if (result->n == 0)
		rf_buf_puts(out, "undefined\n");
	for (size_t i = 0; i < result->n; i++) {
		const struct rf_rego_answer *answer = &result->answer[i];

		for (uint32_t j = 0; j < answer->bindings.n; j++) {
			rf_buf_printf(out, "%.*s = ", RF_STR(rf_rv_text(answer->bindings.pairs[j].key)));
			put_value(out, answer->bindings.pairs[j].value, 0);
			rf_buf_puts(out, "\n");
		}
		for (uint32_t j = 0; answer->bindings.n == 0 && j < answer->expressions.n; j++) {
			put_value(out, answer->expressions.items[j], 0);
			rf_buf_puts(out, "\n");
		}
		if (answer->bindings.n > 0 && i + 1 < result->n)
			rf_buf_puts(out, "\n");
	}
}

static int evaluate(struct rf_arena *a, struct asked *k, bool pretty, struct rf_err *err)
{
	rf_auto(arena) run_arena = RF_ARENA_CAPPED(RF_POLICY_MEMORY);
	rf_auto(buf) out = RF_BUF_INIT;
	struct rf_rego_run run = { .arena = &run_arena,
				   .input = rf_policy_opt.input ? &k->input : NULL,
				   .strict = rf_policy_opt.strict };
	struct rf_rego_result result = { 0 };

	if (rf_rego_eval(k->prepared, &run, &result, err) < 0)
		return rf_wrap(err, "evaluate %.*s", RF_STR(k->query));
	if (pretty)
		print_pretty(&result, &out);
	else if (print_json(a, k, &result, &out, err) < 0)
		return -err->code;
	fwrite(out.p, 1, out.n, stdout);
	return 0;
}

int rf_policy_eval(struct rf_arena *a, int argc, char **argv, struct rf_err *err)
{
	const char *o = rf_policy_opt.output;
	bool pretty = o && strcmp(o, "pretty") == 0;
	struct asked k = { .input_text = RF_STR_EMPTY };
	int r;

	if (o && !pretty && strcmp(o, "json") != 0)
		return rf_fail(err, RF_BAD_REQUEST, "cannot print as \"%s\"; -o is json or pretty", o);
	r = get_ready(a, argc, argv, &k, err);
	if (r == 0)
		r = evaluate(a, &k, pretty, err);
	asked_done(&k);
	return r;
}

/* --- bench --- */

/* One evaluation in nanoseconds, in ret. */
static int once(struct asked *k, struct rf_arena *arena, bool parse, int64_t *ret, struct rf_err *err)
{
	const struct rf_clock *clock = rf_clock_system();
	int64_t start = rf_mono_ns(clock);
	struct rf_rv input = k->input;
	struct rf_rego_run run = { .arena = arena,
				   .input = rf_policy_opt.input ? &input : NULL,
				   .strict = rf_policy_opt.strict };
	struct rf_rego_result result;

	if (parse && rf_policy_parse_value(arena, rf_policy_opt.input, k->input_text, &input, err) < 0)
		return -err->code;
	if (rf_rego_eval(k->prepared, &run, &result, err) < 0)
		return rf_wrap(err, "evaluate %.*s", RF_STR(k->query));
	*ret = rf_mono_ns(clock) - start;
	return 0;
}

static int measure(struct asked *k, bool parse, int64_t *ns, const char *what, struct rf_err *err)
{
	rf_auto(arena) arena = RF_ARENA_CAPPED(RF_POLICY_MEMORY);
	int64_t n = rf_policy_opt.count;

	for (int64_t i = 0; i < n; i++) {
		rf_arena_reset(&arena);
		if (once(k, &arena, parse, &ns[i], err) < 0)
			return -err->code;
	}
	rf_policy_print_times(what, ns, n);
	return 0;
}

int rf_policy_bench(struct rf_arena *a, int argc, char **argv, struct rf_err *err)
{
	struct asked k = { .input_text = RF_STR_EMPTY };
	int64_t *ns = NULL;
	int r;

	if (rf_policy_opt.count < 1 || rf_policy_opt.count > COUNT_MAX)
		return rf_fail(err, RF_BAD_REQUEST, "--count is 1 to %d", COUNT_MAX);
	if (rf_policy_opt.review)
		return rf_policy_bench_review(a, argc, argv, err);
	r = get_ready(a, argc, argv, &k, err);
	if (r == 0) {
		ns = rf_alloc((size_t)rf_policy_opt.count * sizeof(*ns));
		r = measure(&k, false, ns, "evaluation", err);
	}
	if (r == 0 && rf_policy_opt.input)
		r = measure(&k, true, ns, "input parsed and evaluation", err);
	if (r == 0)
		printf("%lld evaluations each\n", (long long)rf_policy_opt.count);
	free(ns);
	asked_done(&k);
	return r;
}
