#include "policy/rego/cases.h"

#include "codec/yaml.h"

#define MEMORY ((size_t)512 << 20)

const char *const RF_REGO_REFUSED[RF_REGO_N_REFUSED] = { "http.send", "net.lookup_ip_addr", "rego.parse_module",
							  "test.sleep" };

struct one {
	struct rf_arena *a;
	const struct rf_json *spec;
	enum rf_ra_version version;
	struct rf_buf *why;
	int refused; /* index of the builtin in RF_REGO_REFUSED; -1: none */
};

static bool flag(const struct one *c, const char *name)
{
	return rf_json_is_true(rf_json_at(c->spec, name));
}

/* --- comparing results --- */

/* Sets are written as arrays in the cases; order does not matter where a set was meant. */
static bool same(struct rf_rv got, struct rf_rv want, bool loose);

static bool same_unordered(struct rf_rv got, struct rf_rv want, bool loose)
{
	if (got.n != want.n || got.n > 4096)
		return false;
	for (uint32_t i = 0; i < got.n; i++) {
		bool found = false;

		for (uint32_t j = 0; j < want.n && !found; j++)
			found = same(got.items[i], want.items[j], loose);
		if (!found)
			return false;
	}
	return true;
}

static bool same(struct rf_rv got, struct rf_rv want, bool loose)
{
	if (want.type == RF_RV_ARRAY &&
	    (got.type == RF_RV_SET || (loose && got.type == RF_RV_ARRAY)))
		return same_unordered(got, want, loose);
	if (got.type != want.type)
		return false;
	if (got.type == RF_RV_ARRAY) {
		for (uint32_t i = 0; got.n == want.n && i < got.n; i++)
			if (!same(got.items[i], want.items[i], loose))
				return false;
		return got.n == want.n;
	}
	if (got.type == RF_RV_OBJECT) {
		for (uint32_t i = 0; got.n == want.n && i < got.n; i++) {
			rf_auto(buf) text = RF_BUF_INIT;
			struct rf_rv key = got.pairs[i].key, value;

			if (key.type != RF_RV_STRING) {
				rf_rv_write_json(&text, key);
				key = rf_rv_str(rf_str_n(text.p, text.n));
			}
			if (!rf_rv_get(want, key, &value) || !same(got.pairs[i].value, value, loose))
				return false;
		}
		return got.n == want.n;
	}
	return rf_rv_eq(got, want);
}

static bool same_results(const struct rf_rego_result *got, struct rf_rv want, bool loose)
{
	bool taken[1024] = { 0 };

	if (got->n != want.n || got->n > RF_COUNT(taken))
		return false;
	for (size_t i = 0; i < got->n; i++) {
		bool found = false;

		for (uint32_t j = 0; j < want.n && !found; j++) {
			if (!taken[j] && same(got->answer[i].bindings, want.items[j], loose))
				taken[j] = found = true;
		}
		if (!found)
			return false;
	}
	return true;
}

/* --- one case --- */

static void tell_got(struct one *c, const struct rf_rego_result *got)
{
	rf_buf_add(c->why, RF_LIT("got"));
	for (size_t i = 0; i < got->n; i++) {
		rf_buf_add(c->why, RF_LIT(" "));
		rf_rv_print(c->why, got->answer[i].bindings);
	}
}

static bool wants_error(const struct one *c, struct rf_str text)
{
	struct rf_str code = rf_json_str(rf_json_at(c->spec, "want_error_code"));
	struct rf_str part = rf_json_str(rf_json_at(c->spec, "want_error"));

	if (code.n == 0 && part.n == 0)
		return false;
	return (code.n == 0 || rf_str_contains(text, code)) &&
	       (part.n == 0 || code.n > 0 || rf_str_contains(text, part));
}

static bool judge(struct one *c, const struct rf_rego_result *got)
{
	const struct rf_json *results = rf_json_at(c->spec, "want_result");
	const struct rf_json *defined = rf_json_at(c->spec, "want_defined");
	struct rf_rv want;

	if (rf_json_at(c->spec, "want_error_code") || rf_json_at(c->spec, "want_error")) {
		rf_buf_add(c->why, RF_LIT("wanted an error, "));
		tell_got(c, got);
		return false;
	}
	if (defined && !results) {
		tell_got(c, got);
		return rf_json_is_true(defined) == (got->n > 0);
	}
	if (!results || results->type == RF_JSON_NULL)
		want = rf_rv_array(NULL, 0);
	else if (!rf_rv_from_json(c->a, results, &want))
		return false;
	tell_got(c, got);
	rf_buf_add(c->why, RF_LIT(", wanted "));
	rf_rv_print(c->why, want);
	return same_results(got, want, flag(c, "sort_bindings"));
}

static bool read_input(struct one *c, struct rf_rv *input, bool *has, struct rf_ra_errors *errors)
{
	const struct rf_json *v = rf_json_at(c->spec, "input");
	struct rf_str term = rf_json_str(rf_json_at(c->spec, "input_term"));

	*has = v != NULL || term.n > 0;
	if (term.n > 0)
		return rf_ra_parse_value(c->a, term, input, errors) == 0;
	return !v || rf_rv_from_json(c->a, v, input);
}

/* "http.send: needs the network", or "undefined function test.sleep". */
static int refused(const struct rf_ra_errors *errors)
{
	for (uint32_t i = 0; i < errors->n; i++) {
		struct rf_str text = errors->error[i].text, name;

		if (rf_str_starts(text, RF_LIT("undefined function ")))
			text = rf_str_skip(text, strlen("undefined function "));
		rf_str_cut(&text, ':', &name);
		for (int j = 0; j < RF_REGO_N_REFUSED; j++)
			if (rf_str_is(name, RF_REGO_REFUSED[j]))
				return j;
	}
	return -1;
}

static bool mentions(const struct one *c, const char *name)
{
	const struct rf_json *modules = rf_json_at(c->spec, "modules");

	for (size_t i = 0; i < rf_json_len(modules); i++)
		if (rf_str_contains(rf_json_str(rf_json_item(modules, i)), rf_str(name)))
			return true;
	return rf_str_contains(rf_json_str(rf_json_at(c->spec, "query")), rf_str(name));
}

/* The evaluation ended with what such a builtin says instead of an answer. */
static int refused_at_work(const struct one *c, struct rf_str why)
{
	for (int i = 0; i < RF_REGO_N_REFUSED; i++) {
		const struct rf_rb *b = rf_rb_find(rf_str(RF_REGO_REFUSED[i]));

		if (b && b->refusal && rf_str_contains(why, rf_str(b->refusal)) && mentions(c, RF_REGO_REFUSED[i]))
			return i;
	}
	return -1;
}

static bool fails_as_wanted(struct one *c, const struct rf_ra_errors *errors)
{
	c->refused = refused(errors);
	rf_ra_print_errors(c->why, errors);
	return wants_error(c, rf_str_n(c->why->p, c->why->n));
}

static struct rf_rego *compile(struct one *c, struct rf_ra_errors *errors)
{
	const struct rf_json *modules = rf_json_at(c->spec, "modules");
	size_t n = rf_json_len(modules);
	struct rf_rego_source *source = rf_arena_array(c->a, struct rf_rego_source, n + 1);
	const struct rf_json *data = rf_json_at(c->spec, "data");
	struct rf_rego *r = NULL;
	struct rf_rv base;

	for (size_t i = 0; i < n; i++)
		source[i] = (struct rf_rego_source){ .file = rf_arena_printf(c->a, "test-%zu.rego", i),
						     .text = rf_json_str(rf_json_item(modules, i)),
						     .version = c->version };
	if (data && data->type != RF_JSON_NULL && !rf_rv_from_json(c->a, data, &base))
		return NULL;
	if (rf_rego_compile(source, n, data && data->type != RF_JSON_NULL ? &base : NULL, &r,
			    errors) < 0)
		return NULL;
	return r;
}

static bool run_one(struct one *c)
{
	struct rf_ra_errors errors = { .arena = c->a };
	struct rf_err err = RF_ERR_INIT;
	struct rf_rego *r = compile(c, &errors);
	struct rf_rego_query *q = NULL;
	struct rf_rego_result result;
	struct rf_rego_run run = { .arena = c->a, .steps = 20000000 };
	struct rf_rv input;
	bool has = false, good = false;

	if (!r)
		return fails_as_wanted(c, &errors);
	run.strict = flag(c, "strict_error");
	if (rf_rego_prepare(r, rf_json_str(rf_json_at(c->spec, "query")), c->version, &q, &errors) < 0 ||
	    !read_input(c, &input, &has, &errors)) {
		good = fails_as_wanted(c, &errors);
	} else {
		run.input = has ? &input : NULL;
		if (rf_rego_eval(q, &run, &result, &err) < 0) {
			rf_buf_add(c->why, rf_str(err.msg));
			good = wants_error(c, rf_str(err.msg));
			c->refused = refused_at_work(c, rf_str(err.msg));
		} else {
			good = judge(c, &result);
		}
	}
	rf_rego_query_free(q);
	rf_rego_unref(r);
	return good;
}

static void count(struct rf_rego_tally *t, const struct one *c, bool good)
{
	if (c->refused >= 0) {
		t->skipped++;
		t->refused[c->refused]++;
	} else {
		t->passed += good;
		t->failed += !good;
	}
}

int rf_rego_cases_run(struct rf_str file, struct rf_str text, enum rf_ra_version version,
		      struct rf_buf *out, struct rf_rego_tally *tally, struct rf_err *err)
{
	rf_auto(arena) docs = RF_ARENA_INIT;
	struct rf_json *all, *cases;

	if (rf_yaml_parse_core(&docs, text, &all, err) < 0)
		return rf_wrap(err, "%.*s", RF_STR(file));
	cases = rf_json_at(rf_json_item(all, 0), "cases");
	for (size_t i = 0; i < rf_json_len(cases); i++) {
		struct rf_arena a = RF_ARENA_CAPPED(MEMORY);
		rf_auto(buf) why = RF_BUF_INIT;
		struct one c = { .a = &a,
				 .spec = rf_json_item(cases, i),
				 .version = version,
				 .why = &why,
				 .refused = -1 };
		bool good = run_one(&c);

		count(tally, &c, good);
		if ((!good || c.refused >= 0) && out)
			rf_buf_printf(out, "%s %.*s: %.*s: %.*s\n", c.refused >= 0 ? "SKIPPED" : "FAILED",
				      RF_STR(file), RF_STR(rf_json_str(rf_json_at(c.spec, "note"))),
				      (int)RF_MIN(why.n, 600), why.p ? why.p : "");
		rf_arena_done(&a);
	}
	return 0;
}
