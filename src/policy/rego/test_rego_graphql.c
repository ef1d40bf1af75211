/* graphql.*: trees, places of errors, the rules of schemas and queries, and hostile documents. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "policy/rego/builtin.h"

static enum rf_rb_result call(struct rf_arena *a, int64_t fuel, const char *name, const char *first,
			      const char *second, struct rf_rv *ret, struct rf_err *err)
{
	struct rf_rv arg[2] = { rf_rv_str(rf_str(first)), rf_rv_str(rf_str(second)) };
	struct rf_rb_env e = { .arena = a, .fuel = &fuel };
	const struct rf_rb *b = rf_rb_find(rf_str(name));

	assert_non_null(b);
	assert_non_null(b->fn);
	return rf_rb_call(b, &e, arg, ret, err);
}

static void expect_json(const char *name, const char *text, const char *json)
{
	struct rf_arena a = { .cap = 16 << 20 };
	struct rf_rv got, want;
	struct rf_err err = RF_ERR_INIT;

	assert_int_equal(call(&a, 1000000, name, text, "", &got, &err), RF_RB_OK);
	assert_int_equal(rf_rv_parse_json(&a, rf_str(json), &want, &err), 0);
	assert_true(rf_rv_eq(got, want));
	rf_arena_done(&a);
}

static void expect_error(const char *name, const char *first, const char *second, const char *text)
{
	struct rf_arena a = { .cap = 16 << 20 };
	struct rf_rv got;
	struct rf_err err = RF_ERR_INIT;

	assert_int_equal(call(&a, 1000000, name, first, second, &got, &err), RF_RB_ERROR);
	assert_string_equal(err.msg, text);
	rf_arena_done(&a);
}

static void trees(void **state)
{
	(void)state;
	expect_json("graphql.parse_query", "{ a: b(x: [1, $v]) @c { ...f } }",
		    "{\"Operations\": [{\"Operation\": \"query\", \"Name\": \"\", \"SelectionSet\": [{\"Alias\": \"a\","
		    "\"Name\": \"b\", \"Arguments\": [{\"Name\": \"x\", \"Value\": {\"Raw\": \"\", \"Kind\": 8,"
		    "\"ExpectedTypeHasDefault\": false, \"Children\": [{\"Name\": \"\", \"Value\": {\"Raw\": \"1\","
		    "\"Kind\": 1, \"ExpectedTypeHasDefault\": false}}, {\"Name\": \"\", \"Value\": {\"Raw\": \"v\","
		    "\"Kind\": 0, \"ExpectedTypeHasDefault\": false}}]}}], \"Directives\": [{\"Name\": \"c\","
		    "\"Location\": \"\"}], \"SelectionSet\": [{\"Name\": \"f\"}]}]}]}");
	expect_json("graphql.parse_schema", "\"\"\"\n  two\n    lines\n\"\"\" scalar X",
		    "{\"Definitions\": [{\"Kind\": \"SCALAR\", \"Name\": \"X\", \"Description\": \"two\\n  lines\","
		    "\"BuiltIn\": false}]}");
	expect_json("graphql.parse_query", "# nothing", "{}");
}

static void errors(void **state)
{
	(void)state;
	expect_error("graphql.parse_query", "{ a(b: \"\\u00e9 \\q\") }", "",
		     "graphql.parse_query: Unexpected <Invalid> in GraphQL string at location 1:17");
	expect_error("graphql.parse_query", "\"\xc3\xa9\" {", "",
		     "graphql.parse_query: Unexpected String \"\xc3\xa9\" in GraphQL string at location 1:2");
	expect_error("graphql.parse", "{ b }", "type Query { a: Int }",
		     "graphql.parse: Cannot query field \"b\" on type \"Query\" in GraphQL string at location 1:3");
	expect_error("graphql.parse", "{ a }", "type Query { a: Gone }",
		     "graphql.parse: Error in gqlparser SchemaDocument to Schema conversion: input:1:17: "
		     "Undefined type Gone.");
}

#define SCHEMA                                                                                     \
	"type Query { a(n: Int!, o: In): Int  l: [Int]  p: Pet  d: Dog  s: String } "               \
	"interface Pet { name: String } union Any = Dog | Cat  scalar Free "                        \
	"type Dog implements Pet { name: String  barks: Boolean  mate: Dog } "                      \
	"type Cat implements Pet { name: String  lives: Int  barks: String } enum E { X Y } "       \
	"input In { e: E!  i: Int = 3  f: Free } type Mutation { m(e: E): Dog }"

static bool is_valid(const char *query, const char *schema)
{
	struct rf_arena a = { .cap = 16 << 20 };
	struct rf_err err = RF_ERR_INIT;
	struct rf_rv got;
	enum rf_rb_result r = call(&a, 1000000, "graphql.is_valid", query, schema, &got, &err);

	assert_int_equal(r, RF_RB_OK);
	rf_arena_done(&a);
	return got.b;
}

static void valid_queries(void **state)
{
	static const char *const query[] = {
		"{ a(n: 1) }",
		"{ a(n: 1, o: {e: X, f: {any: [1, \"x\"]}}) __typename }",
		"query($v: Int = 1) { a(n: $v) }",
		"query($v: Free, $b: Boolean!) { l @skip(if: $b) a(n: 1, o: {e: X, f: $v}) }",
		"{ p { name ... on Dog { barks } ...c } } fragment c on Cat { lives }",
		"{ p { ... on Dog { x: barks } ... on Cat { y: barks } } }",
		"{ d { mate { name } mate { barks } } }",
		"{ x: a(n: 1) x: a(n: 1) }",
		"mutation { m(e: Y) { name } }",
		"{ __schema { types { name fields(includeDeprecated: true) { name } } } __type(name: \"Dog\") { kind } }",
		"query A { s } query B { ...q } fragment q on Query { s }",
	};

	(void)state;
	for (size_t i = 0; i < RF_COUNT(query); i++)
		if (!is_valid(query[i], SCHEMA))
			fail_msg("not valid: %s", query[i]);
}

static void invalid_queries(void **state)
{
	static const char *const query[] = {
		"{ a }", /* a required argument */
		"{ a(n: null) }",
		"{ a(n: \"1\") }",
		"{ a(n: 1, n: 1) }",
		"{ a(n: 1, x: 1) }",
		"{ a(n: 1, o: {}) }",
		"{ a(n: 1, o: {e: Z}) }",
		"{ a(n: 1, o: {e: X, g: 1}) }",
		"{ a(n: 99999999999999999999) }",
		"{ a(n: 1) { b } }",
		"{ d }",
		"{ p { barks } }",
		"{ p { ... on Query { s } } }",
		"{ p { ... on Gone { s } } }",
		"{ p { ... on E { s } } }",
		"{ ...gone }",
		"{ s } fragment f on Query { s }",
		"{ ...f } fragment f on Query { ...g } fragment g on Query { ...f }",
		"{ ...f } fragment f on Query { s } fragment f on Query { s }",
		"query($v: Int) { s }",
		"query($v: Int) { a(n: $v) }",
		"query($v: Dog) { a(n: $v) }",
		"query($v: Int!, $v: Int!) { a(n: $v) }",
		"{ a(n: $v) }",
		"{ s } { s }",
		"query A { s } query A { s }",
		"subscription { s }",
		"{ s @gone }",
		"{ s @deprecated }",
		"{ s @skip }",
		"{ s @skip(if: true) @skip(if: false) }",
		"{ x: a(n: 1) x: a(n: 2) }",
		"{ x: s x: l }",
		"{ d { mate { x: name } } ...f } fragment f on Query { d { mate { x: barks } } }",
		"{ p { ... on Dog { barks } ... on Cat { barks } } }",
		"type",
	};

	(void)state;
	for (size_t i = 0; i < RF_COUNT(query); i++)
		if (is_valid(query[i], SCHEMA))
			fail_msg("valid: %s", query[i]);
}

static void invalid_schemas(void **state)
{
	static const char *const schema[] = {
		"type A { a: Int } type A { b: Int }",
		"type A { a: Int a: Int }",
		"type __A { a: Int }",
		"type A { a: In } input In { i: Int }",
		"input In { a: A } type A { a: Int }",
		"type A { a(x: A): Int }",
		"type A implements I { a: String } interface I { a: Int }",
		"type A implements I { a(x: Int!): Int } interface I { a: Int }",
		"union U = E enum E { X }",
		"enum E { true }",
		"type A { a: Int @gone }",
		"type A @skip(if: true) { a: Int }",
		"directive @d(x: Int @d) on ARGUMENT_DEFINITION",
		"schema { query: Q } schema { query: Q } type Q { a: Int }",
		"extend enum Query { A } type Query { a: Int }",
	};

	(void)state;
	assert_true(is_valid("", SCHEMA));
	for (size_t i = 0; i < RF_COUNT(schema); i++)
		if (is_valid("", schema[i]))
			fail_msg("valid: %s", schema[i]);
}

/* `n` times head, then `n` times tail. */
static char *nested(const char *head, const char *tail, size_t n)
{
	char *s = calloc(n, strlen(head) + strlen(tail) + 1), *p = s;

	assert_non_null(s);
	for (size_t i = 0; i < n; i++)
		p = stpcpy(p, head);
	for (size_t i = 0; i < n; i++)
		p = stpcpy(p, tail);
	return s;
}

static void hostile(void **state)
{
	struct rf_arena a = { .cap = 16 << 20 };
	struct rf_err err = RF_ERR_INIT;
	struct rf_rv got;
	char *s;

	(void)state;
	s = nested("{a", "}", 100);
	assert_int_equal(call(&a, 1000000, "graphql.parse_query", s, "", &got, &err), RF_RB_OK);
	free(s);
	s = nested("{a", "}", 101);
	assert_int_equal(call(&a, 1000000, "graphql.parse_query", s, "", &got, &err), RF_RB_ERROR);
	assert_non_null(strstr(err.msg, "more than 100 deep"));
	free(s);
	s = nested("type A{a:[", "]", 100000);
	assert_int_equal(call(&a, 1000000, "graphql.parse_schema", s, "", &got, &err), RF_RB_ERROR);
	free(s);
	s = nested(" ", "#", 600000);
	assert_int_equal(call(&a, 10000000, "graphql.parse_query", s, "", &got, &err), RF_RB_ERROR);
	assert_non_null(strstr(err.msg, "1200000 bytes"));
	free(s);
	s = nested("{a}", " ", 10000);
	assert_int_equal(call(&a, 1000, "graphql.parse_query", s, "", &got, &err), RF_RB_FULL);
	assert_int_equal(call(&a, 1000, "graphql.is_valid", s, "", &got, &err), RF_RB_FULL);
	free(s);
	rf_arena_done(&a);
}

/* Cut anywhere, a document is an error at worst. */
static void cut(void **state)
{
	static const char query[] =
		"query Q($v: [Int!]! = [1], $w: E @d) @x { a: b(n: -1.5e3, o: {e: \"\\u00e9\\n\", f: \"\"\"\n  x\\\"\"\"\n\"\"\"}) "
		"{ ...f ... on Dog @skip(if: true) { name } } } fragment f on Cat { lives }";
	struct rf_arena a = { .cap = 64 << 20 };
	struct rf_err err = RF_ERR_INIT;
	struct rf_rv got;

	(void)state;
	for (int schema = 0; schema < 2; schema++) {
		size_t n = schema ? sizeof(SCHEMA) : sizeof(query);

		for (size_t i = 0; i < n; i++) {
			char *s = strndup(schema ? SCHEMA : query, i);
			enum rf_rb_result r;

			r = call(&a, 1000000, schema ? "graphql.parse_schema" : "graphql.parse_query", s, "", &got,
				 &err);
			assert_true(r == RF_RB_OK || r == RF_RB_ERROR);
			assert_int_equal(call(&a, 1000000, "graphql.is_valid", schema ? "{ s }" : s,
					      schema ? s : SCHEMA, &got, &err),
					 RF_RB_OK);
			free(s);
			rf_arena_reset(&a);
		}
	}
	rf_arena_done(&a);
}

/* A tree a policy wrote: what is of the wrong type is refused, what is unknown is left out. */
static void written_trees(void **state)
{
	static const struct {
		const char *tree;
		bool valid;
	} line[] = {
		{ "{\"Operations\": [{\"SelectionSet\": [{\"Alias\": \"s\", \"Name\": \"s\", \"Odd\": 1}]}]}", true },
		{ "{\"Operations\": [{\"SelectionSet\": [{\"Alias\": \"s\", \"Name\": \"gone\"}]}]}", false },
		{ "{\"Operations\": [{\"SelectionSet\": [{\"Alias\": \"s\", \"Name\": 1}]}]}", false },
		{ "{\"Operations\": [{\"SelectionSet\": [1]}]}", false },
		{ "{\"Operations\": {}}", false },
		{ "{\"Operations\": [{\"SelectionSet\": [{\"Alias\": \"a\", \"Name\": \"a\", \"Arguments\": [{\"Name\": \"n\"}]}]}]}", false },
	};
	struct rf_arena a = { .cap = 16 << 20 };
	struct rf_err err = RF_ERR_INIT;
	int64_t fuel = 10000000;
	struct rf_rb_env e = { .arena = &a, .fuel = &fuel };
	struct rf_rv arg[2], got;

	(void)state;
	arg[1] = rf_rv_str(RF_LIT(SCHEMA));
	for (size_t i = 0; i < RF_COUNT(line); i++) {
		assert_int_equal(rf_rv_parse_json(&a, rf_str(line[i].tree), &arg[0], &err), 0);
		assert_int_equal(rf_rb_call(rf_rb_find(RF_LIT("graphql.is_valid")), &e, arg, &got, &err),
				 RF_RB_OK);
		assert_int_equal(got.b, line[i].valid);
	}
	rf_arena_done(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(trees),	   cmocka_unit_test(errors),
		cmocka_unit_test(valid_queries),   cmocka_unit_test(invalid_queries),
		cmocka_unit_test(invalid_schemas), cmocka_unit_test(hostile),
		cmocka_unit_test(written_trees),   cmocka_unit_test(cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
