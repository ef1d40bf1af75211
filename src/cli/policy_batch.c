/* `policy batch`: one question per line of standard input, one answer per line of standard output. For tests that
 * ask a great many small questions, above all the comparison with OPA in test/opa:
 *
 *	{"modules": {name: text}, "v0": bool, "data": {...}, "input": ..., "query": "...",
 *	 "strict": bool, "term": bool, "now_ns": 1, "steps": 1000000}
 *
 * Answers: {"result": ...}, {"undefined": true} or {"error": {"code", "message"}}. The result of a query that is one
 * expression without variables is its value, of any other a list of its variables, one object per answer. term:
 * values as Rego prints them, in a string, so that a set is no array. */
#include "base/fs.h"
#include "cli/policy.h"

#define LINE_MAX_BYTES ((size_t)16 << 20)
#define MODULES_MAX 64
#define MEMORY ((size_t)256 << 20)

struct question {
	struct rf_arena *a;
	struct rf_rv line;
	struct rf_rego *rego;
	struct rf_rego_query *query;
	struct rf_buf *out;
};

static bool flag(const struct question *k, const char *name)
{
	struct rf_rv v;

	return rf_rv_get_str(k->line, rf_str(name), &v) && v.type == RF_RV_BOOL && v.b;
}

static int64_t number(const struct question *k, const char *name, int64_t otherwise)
{
	struct rf_rv v;

	return rf_rv_get_str(k->line, rf_str(name), &v) && v.type == RF_RV_NUMBER && !v.big ? v.i : otherwise;
}

static void put_error(struct rf_buf *out, struct rf_str code, struct rf_str text)
{
	rf_buf_puts(out, "{\"error\":{\"code\":");
	rf_json_write_str(out, code);
	rf_buf_puts(out, ",\"message\":");
	rf_json_write_str(out, text);
	rf_buf_puts(out, "}}");
}

static void put_errors(struct rf_buf *out, const struct rf_ra_errors *e)
{
	put_error(out, rf_str(e->error[0].code), e->error[0].text);
}

/* "file:2: eval_conflict_error: complete rules must ...": the code is a word of its own before a colon. */
static void put_failure(struct rf_buf *out, const struct rf_err *err)
{
	const char *end = strstr(err->msg, "_error: ");
	const char *from = end;

	if (err->code == RF_EXHAUSTED) {
		put_error(out, RF_LIT("exhausted"), rf_str(err->msg));
		return;
	}
	while (from && from > err->msg && from[-1] != ' ')
		from--;
	if (from)
		put_error(out, rf_str_n(from, (size_t)(end - from) + 6), rf_str(end + 8));
	else
		put_error(out, RF_LIT("failed"), rf_str(err->msg));
}

static void put_value(const struct question *k, struct rf_rv v)
{
	rf_auto(buf) text = RF_BUF_INIT;

	if (!flag(k, "term")) {
		rf_rv_write_json(k->out, v);
		return;
	}
	rf_rv_print(&text, v);
	rf_json_write_str(k->out, rf_buf_str(&text));
}

static void put_result(const struct question *k, const struct rf_rego_result *r)
{
	if (r->n == 0) {
		rf_buf_puts(k->out, "{\"undefined\":true}");
		return;
	}
	rf_buf_puts(k->out, "{\"result\":");
	if (r->n == 1 && r->answer[0].bindings.n == 0 && r->answer[0].expressions.n == 1) {
		put_value(k, r->answer[0].expressions.items[0]);
	} else {
		for (size_t i = 0; i < r->n; i++) {
			rf_buf_puts(k->out, i ? "," : "[");
			put_value(k, r->answer[i].bindings);
		}
		rf_buf_puts(k->out, "]");
	}
	rf_buf_puts(k->out, "}");
}

static int compile(struct question *k, struct rf_err *err)
{
	enum rf_ra_version version = flag(k, "v0") ? RF_RA_V0 : RF_RA_V1;
	struct rf_ra_errors errors = { .arena = k->a };
	struct rf_rego_source source[MODULES_MAX];
	struct rf_rv modules = { 0 }, data = { 0 }, query = { 0 };
	size_t n = 0;

	if (!rf_rv_get_str(k->line, RF_LIT("query"), &query) || query.type != RF_RV_STRING)
		return rf_fail(err, RF_BAD_REQUEST, "a question needs a query, a string");
	if (rf_rv_get_str(k->line, RF_LIT("modules"), &modules) &&
	    (modules.type != RF_RV_OBJECT || modules.n > MODULES_MAX))
		return rf_fail(err, RF_BAD_REQUEST, "modules is an object of at most %d texts", MODULES_MAX);
	for (; modules.type == RF_RV_OBJECT && n < modules.n; n++) {
		struct rf_rv_pair p = modules.pairs[n];

		if (p.value.type != RF_RV_STRING)
			return rf_fail(err, RF_BAD_REQUEST, "module %.*s is no text", RF_STR(rf_rv_text(p.key)));
		source[n] = (struct rf_rego_source){ rf_rv_text(p.key), rf_rv_text(p.value), version };
	}
	if (!rf_rv_get_str(k->line, RF_LIT("data"), &data) || data.type != RF_RV_OBJECT)
		data = rf_rv_object(NULL, 0, NULL);
	if (rf_rego_compile(source, n, &data, &k->rego, &errors) < 0 ||
	    rf_rego_prepare(k->rego, rf_rv_text(query), version, &k->query, &errors) < 0)
		put_errors(k->out, &errors);
	return 0;
}

static int answer(struct question *k, struct rf_err *err)
{
	rf_auto(arena) arena = RF_ARENA_CAPPED(MEMORY);
	struct rf_rv input = { 0 };
	struct rf_rego_result result = { 0 };
	struct rf_rego_run run = { .arena = &arena,
				   .steps = number(k, "steps", 0),
				   .now_ns = number(k, "now_ns", 0),
				   .strict = flag(k, "strict") };

	if (compile(k, err) < 0)
		return -err->code;
	if (k->query == NULL)
		return 0; /* its errors are the answer */
	if (rf_rv_get_str(k->line, RF_LIT("input"), &input))
		run.input = &input;
	if (rf_rego_eval(k->query, &run, &result, err) < 0)
		put_failure(k->out, err);
	else
		put_result(k, &result);
	return 0;
}

static void one_line(struct rf_str text, struct rf_buf *out)
{
	rf_auto(arena) a = RF_ARENA_CAPPED(MEMORY);
	struct question k = { .a = &a, .out = out };
	struct rf_err err = { 0 };

	if (rf_rv_parse_json(&a, text, &k.line, &err) < 0 || answer(&k, &err) < 0)
		put_error(out, RF_LIT("question"), rf_str(err.msg));
	rf_buf_add_c(out, '\n');
	rf_rego_query_free(k.query);
	rf_rego_unref(k.rego);
}

int rf_policy_batch(struct rf_arena *a, int argc, char **argv, struct rf_err *err)
{
	char *line = NULL;
	size_t room = 0;
	ssize_t n;
	int r = 0;

	(void)a, (void)argv;
	if (argc > 0)
		return rf_fail(err, RF_BAD_REQUEST, "batch reads questions from standard input and takes no words");
	while (r == 0 && (n = getline(&line, &room, stdin)) > 0) {
		rf_auto(buf) out = RF_BUF_INIT;

		if ((size_t)n > LINE_MAX_BYTES) {
			r = rf_fail(err, RF_TOO_LARGE, "a question has more than %zu bytes", LINE_MAX_BYTES);
			break;
		}
		one_line(rf_str_trim(rf_str_n(line, (size_t)n)), &out);
		fwrite(out.p, 1, out.n, stdout);
		fflush(stdout);
	}
	free(line);
	return r;
}
