#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "codec/test_random.h"
#include "codec/yaml.h"

#define SEED 0x9a3150ffULL

static struct rf_arena arena;

static int fresh_arena(void **state)
{
	arena = (struct rf_arena)RF_ARENA_INIT;
	return 0;
}

static int drop_arena(void **state)
{
	rf_arena_done(&arena);
	return 0;
}

/* The documents of text, written as one JSON array. */
static void assert_reads(const char *text, const char *want)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *docs = NULL;

	if (rf_yaml_parse(&arena, rf_str(text), &docs, &err) < 0)
		fail_msg("%s: %s", text, err.msg);
	assert_string_equal(rf_json_text_of(&arena, docs).p, want);
}

static void assert_refused(const char *text, const char *where)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *docs = NULL;

	if (rf_yaml_parse(&arena, rf_str(text), &docs, &err) != -RF_BAD_REQUEST)
		fail_msg("accepted: %s", text);
	assert_null(docs);
	if (strstr(err.msg, where) == NULL)
		fail_msg("%s: got \"%s\", want \"%s\"", text, err.msg, where);
}

static void a_manifest_becomes_json(void **state)
{
	assert_reads("# a pod\n"
		     "apiVersion: v1\n"
		     "kind: Pod\n"
		     "metadata:\n"
		     "  name: train\n"
		     "  labels: {app: x, 'tier': \"y\"}\n"
		     "spec:\n"
		     "  containers:\n"
		     "  - name: main\n"
		     "    args: [--steps, \"10\", 5]\n"
		     "    command: |\n"
		     "      a\n"
		     "      b\n"
		     "    note: >-\n"
		     "      one\n"
		     "      line\n"
		     "  hostNetwork: false\n",
		     "[{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"train\","
		     "\"labels\":"
		     "{\"app\":\"x\",\"tier\":\"y\"}},\"spec\":{\"containers\":[{\"name\":\"main\","
		     "\"args\":"
		     "[\"--steps\",\"10\",5],\"command\":\"a\\nb\\n\",\"note\":\"one line\"}],"
		     "\"hostNetwork\":false}}]");
}

static void empty_documents_are_left_out(void **state)
{
	assert_reads("", "[]");
	assert_reads("# nothing\n", "[]");
	assert_reads("---\n---\n~\n---\na: 1\n...\n---\n# x\n---\n- b\n", "[{\"a\":1},[\"b\"]]");
}

static void plain_scalars_resolve_as_kubernetes_resolves_them(void **state)
{
	static const struct {
		const char *yaml, *json;
	} cases[] = {
		{ "yes", "true" },
		{ "On", "true" },
		{ "TRUE", "true" },
		{ "y", "true" },
		{ "n", "false" },
		{ "off", "false" },
		{ "No", "false" },
		{ "yEs", "\"yEs\"" },
		{ "~", "null" },
		{ "Null", "null" },
		{ "nULL", "\"nULL\"" },
		{ "12", "12" },
		{ "+12", "12" },
		{ "-12", "-12" },
		{ "0x1F", "31" },
		{ "-0x10", "-16" },
		{ "0o17", "15" },
		{ "017", "15" },
		{ "0b101", "5" },
		{ "089", "89" },
		{ "1_000", "1000" },
		{ "1.5", "1.5" },
		{ ".5", "0.5" },
		{ "5.", "5" },
		{ "80.0", "80" },
		{ "1e3", "1000" },
		{ "-1.25E-7", "-1.25E-7" },
		{ "007.50", "7.50" },
		{ "+.5", "0.5" },
		{ "-0", "0" },
		{ "0", "0" },
		{ "0x", "\"0x\"" },
		{ "0xg", "\"0xg\"" },
		{ "1.2.3", "\"1.2.3\"" },
		{ "10.0.0.1", "\"10.0.0.1\"" },
		{ "1e", "\"1e\"" },
		{ ".", "\".\"" },
		{ "+", "\"+\"" },
		{ "-.", "\"-.\"" },
		{ "12:30", "\"12:30\"" },
		{ "2001-01-01", "\"2001-01-01\"" },
		{ "20Gi", "\"20Gi\"" },
		{ "18446744073709551616", "18446744073709551616" },
		{ "0xffffffffffffffff", "18446744073709551615" },
		{ "'yes'", "\"yes\"" },
		{ "\"12\"", "\"12\"" },
		{ "!!str 12", "\"12\"" },
		{ "!!int '12'", "12" },
		{ "!!bool 'no'", "false" },
		{ "! 12", "\"12\"" },
		{ "!!float 3", "3" },
		{ "!!null ''", "null" },
		{ "\"a\\0b\"", "\"a\\u0000b\"" },
	};

	for (size_t i = 0; i < RF_COUNT(cases); i++) {
		const char *text = rf_arena_printf(&arena, "- %s\n", cases[i].yaml).p;
		const char *want = rf_arena_printf(&arena, "[[%s]]", cases[i].json).p;

		assert_reads(text, want);
	}
}

/* Words of YAML 1.1 are booleans for Kubernetes, as values and as keys, and text for OPA. */
static void words_are_read_as_kubernetes_or_as_opa_reads_them(void **state)
{
	static const char text[] = "{y: y, n: n, off: [Yes, no, ON, Off], yEs: oN, 'on': 'no', ok: TRUE, x: False, z: ~}";
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *docs = NULL;

	assert_reads("metadata: {name: n}\n", "[{\"metadata\":{\"name\":false}}]");
	assert_reads("on: {yes: 1, No: 2}\n", "[{\"true\":{\"true\":1,\"false\":2}}]");
	assert_refused("on: 1\nyes: 2\n", "key \"true\" appears twice");
	assert_int_equal(rf_yaml_parse_core(&a, rf_str(text), &docs, &err), 0);
	assert_string_equal(rf_json_text_of(&a, docs).p,
			    "[{\"y\":\"y\",\"n\":\"n\",\"off\":[\"Yes\",\"no\",\"ON\",\"Off\"],\"yEs\":\"oN\","
			    "\"on\":\"no\",\"ok\":true,\"x\":false,\"z\":null}]");
	assert_int_equal(rf_yaml_parse_core(&a, RF_LIT("!!bool no"), &docs, &err), -RF_BAD_REQUEST);
}

static void keys_that_are_not_strings_become_strings(void **state)
{
	assert_reads("1: a\n0x10: b\non: c\noff: d\n1.5: e\n\"2\": f\n",
		     "[{\"1\":\"a\",\"16\":\"b\",\"true\":\"c\",\"false\":\"d\",\"1.5\":\"e\","
		     "\"2\":\"f\"}]");
}

static void anchors_and_merges_are_expanded(void **state)
{
	assert_reads("a: &x {p: 1}\nb: *x\nc: [*x, *x]\n",
		     "[{\"a\":{\"p\":1},\"b\":{\"p\":1},\"c\":[{\"p\":1},{\"p\":1}]}]");
	assert_reads("base: &b {p: 1, q: 2}\nown:\n  <<: *b\n  q: 3\n",
		     "[{\"base\":{\"p\":1,\"q\":2},\"own\":{\"q\":3,\"p\":1}}]");
	assert_reads("<<: [{a: 1, b: 1}, {b: 2, c: 2}]\nc: 3\n", "[{\"c\":3,\"a\":1,\"b\":1}]");
	assert_reads("'<<': 1\n", "[{\"<<\":1}]");
	assert_reads("- &x 1\n- &x 2\n- *x\n", "[[1,2,2]]");
	assert_reads("&k a: 1\nb: *k\n", "[{\"a\":1,\"b\":\"a\"}]");
}

static void an_expanded_alias_is_a_copy(void **state)
{
	struct rf_json *docs = NULL, *v;

	assert_int_equal(rf_yaml_parse(&arena, RF_LIT("a: &x {p: 1}\nb: *x\n"), &docs, NULL), 0);
	v = rf_json_item(docs, 0);
	rf_json_set_int(&arena, rf_json_at(v, "b"), "p", 2);
	assert_int_equal(rf_json_int(rf_json_at(v, "a", "p"), 0), 1);
}

static void what_is_not_yaml_for_kubernetes_is_refused_with_its_place(void **state)
{
	assert_refused("a: 1\nb: [1, 2\n", "line 3, column 1");
	assert_refused("a:\n\tb: 1\n", "line 2, column 1");
	assert_refused("a: 1\n b: 2\n", "line 2");
	assert_refused("x: 1\ny: {a: 1, b: 2, a: 3}\n",
		       "line 2, column 4: key \"a\" appears twice");
	assert_refused("1: a\n\"1\": b\n", "key \"1\" appears twice");
	assert_refused("a: *nowhere\n", "line 1, column 4: alias *nowhere");
	assert_refused("a: &x [*x]\n", "contains itself");
	assert_refused("a: &x 1\nb: &x [*x]\n", "contains itself");
	assert_refused("a: &x 1\n---\nb: *x\n", "line 3, column 4: alias *x");
	assert_refused("? [a, b]\n: 1\n", "column 3: a key must be");
	assert_refused("~: 1\n", "a key must be");
	assert_refused("<<: 3\n", "<< merges");
	assert_refused("<<: [{a: 1}, 2]\n", "<< merges");
	assert_refused("<<: {a: 1}\n<<: {b: 1}\n", "<< appears twice");
	assert_refused("a: .inf\n", ".inf has no form in JSON");
	assert_refused("a: 0xfffffffffffffffff\n", "has no form in JSON");
	assert_refused("a: !!python/object x\n", "tag");
	assert_refused("a: !custom {b: 1}\n", "tag <!custom>");
	assert_refused("a: !!int x\n", "tag");
	assert_refused("a: \xff\n", "byte 3");
	assert_refused("a: \"\\ud800\"\n", "line 1");
}

static void a_billion_laughs_end_early(void **state)
{
	rf_auto(buf) text = RF_BUF_INIT;

	rf_buf_puts(&text, "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
	for (int i = 1; i < 12; i++) {
		rf_buf_printf(&text, "a%d: &a%d [", i, i);
		for (int j = 0; j < 10; j++)
			rf_buf_printf(&text, "%s*a%d", j ? ", " : "", i - 1);
		rf_buf_puts(&text, "]\n");
	}
	assert_refused(text.p, "aliases expand to more than");
}

static void long_text_by_reference_counts_too(void **state)
{
	rf_auto(buf) text = RF_BUF_INIT;

	rf_buf_puts(&text, "- &x ");
	for (int i = 0; i < 100000; i++)
		rf_buf_add_c(&text, 'a');
	for (int i = 0; i < 1000; i++)
		rf_buf_puts(&text, "\n- *x");
	assert_refused(text.p, "aliases expand to more than");
}

static void depth_is_capped_also_through_aliases(void **state)
{
	rf_auto(buf) text = RF_BUF_INIT;

	rf_buf_puts(&text, "- &a0 [x]\n");
	for (int i = 1; i < 200; i++)
		rf_buf_printf(&text, "- &a%d [*a%d]\n", i, i - 1);
	assert_refused(text.p, "nested deeper than 128");
	rf_buf_clear(&text);
	for (int i = 0; i < 500; i++)
		rf_buf_add_c(&text, '[');
	assert_refused(text.p, "nested deeper than 128");
}

static void whatever_the_arenas_cap_the_reader_ends_in_order(void **state)
{
	static const char text[] =
		"a: &x {p: 1, q: [yes, ~, 0x10]}\nb: *x\nc:\n  <<: [*x, {r: s}]\n"
		"  q: |\n    some text that is a little longer\n";
	struct rf_json *docs = NULL;
	int rc = -RF_TOO_LARGE;
	size_t cap = 1;

	for (; rc != 0; cap += 8) {
		rf_auto(arena) small = RF_ARENA_CAPPED(cap);
		struct rf_err err = RF_ERR_INIT;

		rc = rf_yaml_parse(&small, rf_str(text), &docs, &err);
		assert_true(rc == 0 || rc == -RF_TOO_LARGE);
		assert_true(small.used <= cap + 16);
	}
	assert_in_range(cap, 1000, 4000);
}

static void a_mapping_has_a_capped_number_of_keys(void **state)
{
	rf_auto(buf) text = RF_BUF_INIT;
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *docs;

	for (int i = 0; i < RF_JSON_MEMBERS_MAX; i++)
		rf_buf_printf(&text, "k%d: 1\n", i);
	assert_int_equal(rf_yaml_parse(&arena, rf_buf_str(&text), &docs, &err), 0);
	rf_buf_puts(&text, "<<: {one: more}\n");
	assert_int_equal(rf_yaml_parse(&arena, rf_buf_str(&text), &docs, &err), -RF_TOO_LARGE);
	assert_string_equal(err.msg, "YAML: a mapping of 4097 keys; at most 4096 are taken");
}

static void people_get_block_style(void **state)
{
	rf_auto(buf) out = RF_BUF_INIT;
	struct rf_json *v = rf_json_make(
		&arena,
		"{'apiVersion':'v1','clusters':[{'name':'rf','cluster':{'server':"
		"'https://10.0.0.1:6443'}},[1,[2]]],'empty':{},'none':[],'text':'a\\nb\\n','bare':"
		"'a\\nb','yes':'yes','n':'12','t':'2001-01-01','s':'two words','x':'a: "
		"b','z':null}");

	rf_yaml_write(&out, v);
	assert_string_equal(out.p, "apiVersion: v1\n"
				   "clusters:\n"
				   "- name: rf\n"
				   "  cluster:\n"
				   "    server: https://10.0.0.1:6443\n"
				   "- - 1\n"
				   "  - - 2\n"
				   "empty: {}\n"
				   "none: []\n"
				   "text: |\n"
				   "  a\n"
				   "  b\n"
				   "bare: |-\n"
				   "  a\n"
				   "  b\n"
				   "\"yes\": \"yes\"\n"
				   "\"n\": \"12\"\n"
				   "t: \"2001-01-01\"\n"
				   "s: two words\n"
				   "x: \"a: b\"\n"
				   "z: null\n");
}

static void assert_survives(struct rf_arena *a, const struct rf_json *v, int i)
{
	rf_auto(buf) out = RF_BUF_INIT;
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *docs = NULL;

	rf_yaml_write(&out, v);
	if (rf_yaml_parse(a, rf_buf_str(&out), &docs, &err) < 0)
		fail_msg("seed %#llx, value %d: %s\n%s", SEED, i, err.msg, out.p);
	if (v->type == RF_JSON_NULL ? docs->n != 0 : !rf_json_equal(rf_json_item(docs, 0), v))
		fail_msg("seed %#llx, value %d:\n%s\n%s\n%s", SEED, i, out.p,
			 rf_json_text_of(a, v).p, rf_json_text_of(a, docs).p);
	assert_true(docs->n <= 1);
}

static void whatever_is_written_reads_back_the_same(void **state)
{
	struct rf_prng r = { SEED };

	for (int i = 0; i < 5000; i++) {
		rf_auto(arena) a = RF_ARENA_INIT;

		assert_survives(&a, random_json(&a, &r, 5), i);
	}
}

/* JSON is all but a subset of YAML; only \/ and a pair of \u surrogates are not YAML 1.1. */
static void json_is_read_as_yaml_with_the_same_meaning(void **state)
{
	assert_reads("{\"a\": [1, 2.5, \"x\\ny\", true, null, {}], \"b\": \"\\u00e9\"}",
		     "[{\"a\":[1,2.5,\"x\\ny\",true,null,{}],\"b\":\"\xc3\xa9\"}]");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh_arena, drop_arena)
		TEST(a_manifest_becomes_json),
		TEST(empty_documents_are_left_out),
		TEST(plain_scalars_resolve_as_kubernetes_resolves_them),
		TEST(words_are_read_as_kubernetes_or_as_opa_reads_them),
		TEST(keys_that_are_not_strings_become_strings),
		TEST(anchors_and_merges_are_expanded),
		TEST(an_expanded_alias_is_a_copy),
		TEST(what_is_not_yaml_for_kubernetes_is_refused_with_its_place),
		TEST(a_billion_laughs_end_early),
		TEST(long_text_by_reference_counts_too),
		TEST(depth_is_capped_also_through_aliases),
		TEST(whatever_the_arenas_cap_the_reader_ends_in_order),
		TEST(a_mapping_has_a_capped_number_of_keys),
		TEST(people_get_block_style),
		TEST(whatever_is_written_reads_back_the_same),
		TEST(json_is_read_as_yaml_with_the_same_meaning),
	};

	return cmocka_run_group_tests_name("yaml", tests, NULL, NULL);
}
