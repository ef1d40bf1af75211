/* Builtins over objects, encodings, the world around (time, addresses, versions), keys and schemas.
 * A line is a call and what comes of it; values are written as in Rego:
 *	object.keys({"a": 1}) == {"a"}
 *	uuid.parse("x") undefined
 *	hex.decode("g") error hex.decode: encoding/hex: invalid byte     (the start of the text)
 *	array.concat({}, []) type array.concat: operand 1 must be array */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "policy/rego/builtin.h"
#include "policy/rego/number.h"
#include "policy/rego/zoneinfo.h"

#define NOW INT64_C(1700000000123456789)
#define FUEL 10000000

/* --- reading lines --- */

struct reader {
	struct rf_str s;
	struct rf_arena *a;
};

static bool take(struct reader *r, const char *what)
{
	r->s = rf_str_trim(r->s);
	if (!rf_str_starts(r->s, rf_str(what)))
		return false;
	r->s = rf_str_skip(r->s, strlen(what));
	return true;
}

static struct rf_rv read_value(struct reader *r);

static struct rf_rv read_string(struct reader *r)
{
	struct rf_rv v = RF_RV_NIL;
	size_t n = 1;

	while (r->s.p[n] != r->s.p[0])
		n += r->s.p[0] == '"' && r->s.p[n] == '\\' ? 2 : 1;
	if (r->s.p[0] == '`')
		v = rf_rv_str(rf_str_n(r->s.p + 1, n - 1));
	else
		assert_int_equal(rf_rv_parse_json(r->a, rf_str_n(r->s.p, n + 1), &v, NULL), 0);
	r->s = rf_str_skip(r->s, n + 1);
	return v;
}

static struct rf_rv read_braces(struct reader *r)
{
	struct rf_rv_grow keys = { 0 }, pairs = { 0 };
	struct rf_rv v = { .type = RF_RV_OBJECT };
	bool conflict;

	while (!take(r, "}")) {
		struct rf_rv k = read_value(r);

		if (take(r, ":"))
			assert_true(rf_rv_put(&pairs, r->a, k, read_value(r), &conflict));
		else
			assert_true(rf_rv_add(&keys, r->a, k, NULL));
		take(r, ",");
	}
	if (keys.n > 0)
		return rf_rv_grown_set(&keys);
	if (pairs.n > 0)
		assert_true(rf_rv_grown_object(&pairs, r->a, &v));
	return v;
}

static struct rf_rv read_value(struct reader *r)
{
	struct rf_rv_grow items = { 0 };
	struct rf_rv v = RF_RV_NIL;
	size_t n = 0;

	r->s = rf_str_trim(r->s);
	if (r->s.n > 0 && (r->s.p[0] == '"' || r->s.p[0] == '`'))
		return read_string(r);
	if (take(r, "null"))
		return RF_RV_NIL;
	if (take(r, "true") || take(r, "false"))
		return rf_rv_bool(r->s.p[-2] == 'u');
	if (take(r, "set()"))
		return rf_rv_set(NULL, 0);
	if (take(r, "{"))
		return read_braces(r);
	if (take(r, "[")) {
		while (!take(r, "]")) {
			assert_true(rf_rv_push(&items, r->a, read_value(r)));
			take(r, ",");
		}
		return rf_rv_grown_array(&items);
	}
	while (n < r->s.n && strchr("+-.0123456789eE", r->s.p[n]) != NULL)
		n++;
	if (n == 0)
		fail_msg("no value: %.*s", RF_STR(r->s));
	assert_true(rf_rn_parse(r->a, rf_str_n(r->s.p, n), &v));
	r->s = rf_str_skip(r->s, n);
	return v;
}

/* --- calling --- */

struct stage {
	struct rf_arena arena;
	struct rf_rb_env e;
	int64_t fuel;
	struct rf_err err;
};

static void set_up(struct stage *s, size_t cap)
{
	*s = (struct stage){ .arena = RF_ARENA_CAPPED(cap), .fuel = FUEL };
	s->e = (struct rf_rb_env){ .arena = &s->arena, .now_ns = NOW,
				   .random = { 1, 2, 3, 4 }, .fuel = &s->fuel };
}

static enum rf_rb_result call(struct stage *s, struct reader *r, struct rf_rv *ret)
{
	struct rf_rv arg[8];
	struct rf_str name;
	const struct rf_rb *b;
	int n = 0;

	rf_str_cut(&r->s, '(', &name);
	b = rf_rb_find(name);
	if (b == NULL)
		fail_msg("no builtin %.*s", RF_STR(name));
	while (!take(r, ")")) {
		assert_true(n < 8);
		arg[n++] = read_value(r);
		take(r, ",");
	}
	assert_int_equal(n, b->n_args);
	return rf_rb_call(b, &s->e, arg, ret, &s->err);
}

static void expect(const char *line)
{
	rf_auto(buf) got = RF_BUF_INIT;
	struct rf_arena texts = RF_ARENA_INIT;
	struct stage s;
	struct reader r = { rf_str(line), &texts };
	struct rf_rv v = RF_RV_NIL;
	enum rf_rb_result result;
	bool ok;

	set_up(&s, 64 << 20);
	result = call(&s, &r, &v);
	if (result == RF_RB_OK)
		rf_rv_print(&got, v);
	if (take(&r, "=="))
		ok = result == RF_RB_OK && rf_rv_eq(v, read_value(&r));
	else if (take(&r, "undefined"))
		ok = result == RF_RB_UNDEFINED;
	else if (take(&r, "full"))
		ok = result == RF_RB_FULL;
	else
		ok = result == (take(&r, "error") ? RF_RB_ERROR : RF_RB_TYPE) &&
		     (take(&r, "type"), r.s = rf_str_trim(r.s), rf_str_starts(rf_str(s.err.msg), r.s));
	if (!ok)
		fail_msg("%s\n    came out as %d: %s%s", line, result, got.p, s.err.msg);
	rf_arena_done(&s.arena);
	rf_arena_done(&texts);
}

#define EXPECT_ALL(lines)                                                                          \
	for (size_t i_ = 0; i_ < RF_COUNT(lines); i_++)                                            \
		expect((lines)[i_])

static void arrays(void **state)
{
	static const char *const lines[] = {
		"array.concat([1], [2, 3]) == [1, 2, 3]",
		"array.concat([], [2]) == [2]",
		"array.concat({}, []) type array.concat: operand 1 must be array but got object",
		"array.concat([], {}) type array.concat: operand 2 must be array but got object",
		"array.slice([1, 2, 3, 4], 1, 3) == [2, 3]",
		"array.slice([1, 2, 3], -5, 100) == [1, 2, 3]",
		"array.slice([1, 2, 3], 2, 1) == []",
		"array.slice([1, 2, 3], 1.0, 2.00) == [2]",
		"array.slice([1, 2, 3], -0, 1) == [1]",
		"array.slice([1, 2, 3], 1, 1e1) type array.slice: operand 3 must be integer number but got floating-point number",
		"array.slice([1, 2, 3], 1, 2.5) type array.slice: operand 3 must be integer number but got floating-point number",
		"array.slice([1, 2, 3], 0, -1) == []",
		"array.slice([1, 2], 0.5, 1) type array.slice: operand 2 must be integer number",
		"array.reverse([1, 2, 3]) == [3, 2, 1]",
		"array.reverse({}) type array.reverse: operand 1 must be array but got object",
		"array.flatten([1, [2, [3]], []]) == [1, 2, [3]]",
		"array.flatten(1) type array.flatten: operand 1 must be array but got number",
	};

	(void)state;
	EXPECT_ALL(lines);
}

static void sets(void **state)
{
	static const char *const lines[] = {
		"union({{1, 2}, {2, 3}}) == {1, 2, 3}",
		"union(set()) == set()",
		"union({{1}, 2}) type union: operand 1 must be set but got number",
		"intersection({{1, 2, 3}, {2, 3, 4}, {3, 2, 9}}) == {2, 3}",
		"intersection({set(), {1}}) == set()",
		"intersection(set()) == set()",
		"intersection([1]) type intersection: operand 1 must be set but got array",
		"set_diff({1, 2, 3}, {2, 4}) == {1, 3}",
	};

	(void)state;
	EXPECT_ALL(lines);
}

static void objects(void **state)
{
	static const char *const lines[] = {
		"object.get({\"a\": 1}, \"a\", 2) == 1",
		"object.get({\"a\": 1}, \"b\", 2) == 2",
		"object.get({\"a\": {\"b\": [5, 6]}}, [\"a\", \"b\", 1], 0) == 6",
		"object.get({\"a\": {\"b\": 1}}, [\"a\", \"c\"], 0) == 0",
		"object.get({\"a\": 1}, [], 0) == {\"a\": 1}",
		"object.get({\"a\": false}, \"a\", true) == false",
		"object.get(\"a\", \"a\", true) type object.get: operand 1 must be object but got string",
		"object.keys({\"a\": 1, 2: 3}) == {\"a\", 2}",
		"object.keys({}) == set()",
		"object.remove({\"a\": 1, \"b\": 2, \"c\": 3}, [\"a\", \"x\"]) == {\"b\": 2, \"c\": 3}",
		"object.remove({\"a\": 1, \"b\": 2}, {\"b\": {}}) == {\"a\": 1}",
		"object.remove({\"a\": 1}, \"a\") type object.remove: operand 2 must be one of {object, set, array} but got string",
		"object.filter({\"a\": 1, \"b\": 2, 3: 4}, {\"b\", 3}) == {\"b\": 2, 3: 4}",
		"object.filter({\"a\": 1}, null) type object.filter: operand 2 must be one of {object, set, array} but got null",
		"object.union({\"a\": {\"x\": 1}, \"b\": 1}, {\"a\": {\"y\": 2}, \"b\": {}}) == {\"a\": {\"x\": 1, \"y\": 2}, \"b\": {}}",
		"object.union({}, {\"a\": 1}) == {\"a\": 1}",
		"object.union({}, []) type object.union: operand 2 must be object but got array",
		"object.union_n([{\"a\": {\"b\": 2}}, {\"a\": 4}, {\"a\": {\"c\": 3}}]) == {\"a\": {\"c\": 3}}",
		"object.union_n([{\"a\": 1}, {\"b\": 2}, {\"a\": {\"x\": 1}}, {\"a\": {\"y\": 1}}]) == {\"a\": {\"x\": 1, \"y\": 1}, \"b\": 2}",
		"object.union_n([]) == {}",
		"object.union_n([{}, 1]) type object.union_n: operand 1 must be array of objects but got array containing number",
		"object.subset({\"a\": {\"b\": 1, \"c\": 2}, \"d\": [1, 2, 3]}, {\"a\": {\"b\": 1}, \"d\": [2, 3]}) == true",
		"object.subset({\"a\": 1}, {\"a\": 2}) == false",
		"object.subset({1, 2}, {1}) == true",
		"object.subset([1, 2, 1, 2, 3], [1, 2, 3]) == true",
		"object.subset([1, 2], [2, 1]) == false",
		"object.subset([1, 2, 3], {3, 1}) == true",
		"object.subset([1, 2, 3], {4}) == false",
		"object.subset({1}, [1]) type object.subset: both arguments object.subset must be",
	};

	(void)state;
	EXPECT_ALL(lines);
}

static void json_paths(void **state)
{
	static const char *const lines[] = {
		"json.filter({\"a\": {\"b\": 1, \"c\": 2}, \"d\": 3}, [\"a/b\"]) == {\"a\": {\"b\": 1}}",
		"json.filter({\"a\": {\"b\": 1, \"c\": 2}}, [\"a/b\", \"a\"]) == {\"a\": {\"b\": 1, \"c\": 2}}",
		"json.filter({\"a\": [1, 2, {\"b\": 3, \"c\": 4}]}, [\"a/0\", \"a/2/b\"]) == {\"a\": [1, {\"b\": 3}]}",
		"json.filter({\"a\": 1}, []) == {}",
		"json.filter({\"a/b\": 1, \"c~d\": 2}, [\"a~1b\", \"c~0d\"]) == {\"a/b\": 1, \"c~d\": 2}",
		"json.filter({\"a\": {1: {\"x\": 2}}}, [[\"a\", 1]]) == {\"a\": {1: {\"x\": 2}}}",
		"json.remove({\"a\": {\"b\": 1, \"c\": 2}, \"d\": 3}, [\"a/b\", \"d\"]) == {\"a\": {\"c\": 2}}",
		"json.remove({\"a\": [1, 2, 3]}, {\"a/1\"}) == {\"a\": [1, 3]}",
		"json.remove({\"a\": 1}, [\"\", \"x/y\"]) == {\"a\": 1}",
		"json.remove({\"a\": 1}, \"a\") type json.remove: operand 2 must be one of {set, array} but got string",
		"json.remove({\"a\": 1}, [1]) type json.remove: operand 2 must be one of {set, array} containing string paths or array of path segments but got number",
		"json.remove([], [1]) type json.remove: operand 1 must be object but got array",
	};

	(void)state;
	EXPECT_ALL(lines);
}

static void patches(void **state)
{
	static const char *const lines[] = {
		"json.patch({\"a\": [1, 3]}, [{\"op\": \"add\", \"path\": \"/a/1\", \"value\": 2}]) == {\"a\": [1, 2, 3]}",
		"json.patch({\"a\": [1]}, [{\"op\": \"add\", \"path\": \"a/-\", \"value\": 2}]) == {\"a\": [1, 2]}",
		"json.patch({\"a\": 1}, [{\"op\": \"remove\", \"path\": \"a\"}]) == {}",
		"json.patch({\"a\": {\"b\": 1}}, [{\"op\": \"replace\", \"path\": [\"a\", \"b\"], \"value\": 2}]) == {\"a\": {\"b\": 2}}",
		"json.patch([1, 2, 3], [{\"op\": \"move\", \"from\": \"0\", \"path\": \"2\"}]) == [2, 3, 1]",
		"json.patch({\"a\": {\"x\": 1}}, [{\"op\": \"copy\", \"from\": \"a\", \"path\": \"b\"}, {\"op\": \"add\", \"path\": \"b/x\", \"value\": 2}]) == {\"a\": {\"x\": 1}, \"b\": {\"x\": 2}}",
		"json.patch({\"a\": 1}, [{\"op\": \"test\", \"path\": \"a\", \"value\": 1}]) == {\"a\": 1}",
		"json.patch({\"a\": 1}, [{\"op\": \"test\", \"path\": \"a\", \"value\": 2}]) error json.patch: value from EditTree",
		"json.patch({\"a\": 1}, [{\"op\": \"add\", \"path\": \"\", \"value\": [1]}]) == [1]",
		"json.patch({\"a\": 1}, [{\"op\": \"replace\", \"path\": \"\", \"value\": 5}]) == 5",
		"json.patch({1, 2}, [{\"op\": \"remove\", \"path\": [1]}]) == {2}",
		"json.patch({1}, [{\"op\": \"add\", \"path\": [2], \"value\": 2}]) == {1, 2}",
		"json.patch({1}, [{\"op\": \"add\", \"path\": [2], \"value\": 3}]) error json.patch: set key 2",
		"json.patch({\"s\": {[1]}}, [{\"op\": \"add\", \"path\": [\"s\", [1], 1], \"value\": 2}]) == {\"s\": {[1, 2]}}",
		"json.patch([1], [{\"op\": \"add\", \"path\": \"5\", \"value\": 2}]) error json.patch: index 5",
		"json.patch([1], [{\"op\": \"add\", \"path\": \"00\", \"value\": 2}]) error json.patch: leading zeros",
		"json.patch({\"a\": 1}, [{\"op\": \"remove\", \"path\": \"b\"}]) error json.patch: cannot delete",
		"json.patch({\"a\": 1}, [{\"op\": \"fly\", \"path\": \"b\"}]) error json.patch: unrecognized op: 'fly'",
		"json.patch({\"a\": 1}, [{\"path\": \"b\"}]) error json.patch: missing required attribute 'op'",
		"json.patch({\"a\": 1}, [1]) error json.patch: must be an array of JSON-Patch objects",
	};

	(void)state;
	EXPECT_ALL(lines);
}

static void graphs(void **state)
{
	static const char *const lines[] = {
		"graph.reachable({\"a\": [\"b\"], \"b\": {\"c\", \"x\"}, \"c\": [\"a\"], \"d\": []}, {\"a\"}) == {\"a\", \"b\", \"c\"}",
		"graph.reachable({\"a\": null}, [\"a\", \"z\"]) == {\"a\"}",
		"graph.reachable({}, [\"a\"]) == set()",
		"graph.reachable_paths({\"a\": [\"b\", \"c\"], \"b\": [], \"c\": [\"a\", \"gone\"]}, [\"a\"]) == {[\"a\", \"b\"], [\"a\", \"c\"]}",
		"graph.reachable_paths({\"a\": []}, {\"a\", \"x\"}) == {[\"a\"]}",
		"graph.reachable_paths({\"a\": [\"a\"]}, [\"a\"]) == {[\"a\", \"a\"]}",
		"walk(1) == [[[], 1]]",
		"walk({\"a\": [1, {2}]}) == [[[], {\"a\": [1, {2}]}], [[\"a\"], [1, {2}]], [[\"a\", 0], 1], [[\"a\", 1], {2}], [[\"a\", 1, 2], 2]]",
	};

	(void)state;
	EXPECT_ALL(lines);
}

static void json_text(void **state)
{
	static const char *const lines[] = {
		"json.marshal([{\"foo\": {1, 2, 3}}]) == `[{\"foo\":[1,2,3]}]`",
		"json.marshal({10: 1, 9: 2, \"a\": 3}) == `{\"10\":1,\"9\":2,\"a\":3}`",
		"json.marshal(\"<&>\\u2028\\n\\u0001\\\"\") == `\"\\u003c\\u0026\\u003e\\u2028\\n\\u0001\\\"\"`",
		"json.marshal(1e5) == `1e5`",
		"json.marshal_with_options({\"foo\": \"bar\", \"bar\": []}, {\"prefix\": \"> \", \"indent\": \"-\"}) == \"> {\\n> -\\\"bar\\\": [],\\n> -\\\"foo\\\": \\\"bar\\\"\\n> }\"",
		"json.marshal_with_options([1], {}) == \"[1]\"",
		"json.marshal_with_options([1], {\"pretty\": true}) == \"[\\n\\t1\\n]\"",
		"json.marshal_with_options([1], {\"pretty\": false, \"indent\": \"x\"}) == \"[1]\"",
		"json.marshal_with_options([], {\"lottery\": 1}) type json.marshal_with_options: operand 2 object contained unknown key \"lottery\"",
		"json.unmarshal(`{\"a\": [1, 2.50, null]}`) == {\"a\": [1, 2.5, null]}",
		"json.unmarshal(1) type json.unmarshal: operand 1 must be string but got number",
		"json.unmarshal(`{`) error json.unmarshal: ",
		"json.is_valid(`{\"a\": [1, -2.5e+3, \"\\u00e9\", {}, []], \"a\": true}`) == true",
		"json.is_valid(`plainstring`) == false",
		"json.is_valid(`{`) == false",
		"json.is_valid(`[1,]`) == false",
		"json.is_valid(`{\"a\" 1}`) == false",
		"json.is_valid(`01`) == false",
		"json.is_valid(`1 2`) == false",
		"json.is_valid(``) == false",
		"json.is_valid(`[[]]`) == true",
		"json.is_valid(`[{\"a\": {}}, 1]`) == true",
		"json.is_valid(1) == false",
		"yaml.unmarshal(\"foo:\\n- 1\\n- bar: x\\n\") == {\"foo\": [1, {\"bar\": \"x\"}]}",
		"yaml.unmarshal(\"\") == null",
		"yaml.unmarshal(\"on: [y, No, true]\") == {\"on\": [\"y\", \"No\", true]}",
		"yaml.is_valid(\"a: {\") == false",
		"yaml.is_valid(1) == false",
		"yaml.is_valid(\"a: 1\") == true",
		"yaml.marshal({\"a\": [1]}) == \"a:\\n- 1\\n\"",
	};

	(void)state;
	EXPECT_ALL(lines);
}

static void encodings(void **state)
{
	static const char *const lines[] = {
		"base64.encode(\"hello\") == \"aGVsbG8=\"",
		"base64.decode(\"aGVsbG8=\") == \"hello\"",
		"base64.decode(\"aGVs\\nbG8=\") == \"hello\"",
		"base64.decode(\"aGVsbG8\") error base64.decode: illegal base64 data at input byte 4",
		"base64.decode(\"aGV*bG8=\") error base64.decode: illegal base64 data at input byte 3",
		"base64.decode(\"aGVsbG8=x\") error base64.decode: illegal base64 data at input byte 8",
		"base64.is_valid(\"aGVsbG8=\") == true",
		"base64.is_valid(\"{}\") == false",
		"base64.is_valid(1) == false",
		"base64url.encode(\"subjects?_d\") == \"c3ViamVjdHM_X2Q=\"",
		"base64url.encode_no_pad(\"subjects?_d\") == \"c3ViamVjdHM_X2Q\"",
		"base64url.decode(\"c3ViamVjdHM_X2Q\") == \"subjects?_d\"",
		"base64url.decode(\"c3ViamVjdHM_X2Q=\") == \"subjects?_d\"",
		"base64url.decode(\"abcde\") error base64url.decode: illegal base64url string: abcde",
		"hex.encode(\"~Az\") == \"7e417a\"",
		"hex.decode(\"7E417a\") == \"~Az\"",
		"hex.decode(\"zg\") error hex.decode: encoding/hex: invalid byte: U+007A 'z'",
		"hex.decode(\"abc\") error hex.decode: encoding/hex: odd length",
		"urlquery.encode(\"a=b+1 %/\") == \"a%3Db%2B1+%25%2F\"",
		"urlquery.decode(\"a%3Db%2B1+%25\") == \"a=b+1 %\"",
		"urlquery.decode(\"%zz\") error urlquery.decode: invalid URL escape \"%zz\"",
		"urlquery.encode_object({\"b\": [\"2\", \"1\"], \"a\": {\"y\", \"x\"}, \"c\": \"1 2\"}) == \"a=x&a=y&b=2&b=1&c=1+2\"",
		"urlquery.encode_object({\"a\": 1}) type urlquery.encode_object: operand 1 values must be string",
		"urlquery.decode_object(\"a=1&b=x%20y&a=2&c\") == {\"a\": [\"1\", \"2\"], \"b\": [\"x y\"], \"c\": [\"\"]}",
		"urlquery.decode_object(\"a=1;b\") error urlquery.decode_object: invalid semicolon",
		"uri.parse(\"https://u:p@example.com:8080/a%2Fb?q=1#top\") == {\"scheme\": \"https\", \"hostname\": \"example.com\", \"port\": \"8080\", \"path\": \"/a/b\", \"raw_path\": \"/a%2Fb\", \"raw_query\": \"q=1\", \"fragment\": \"top\"}",
		"uri.parse(\"http://[::1]:80/\") == {\"scheme\": \"http\", \"hostname\": \"::1\", \"port\": \"80\", \"path\": \"/\", \"raw_path\": \"/\"}",
		"uri.parse(\"mailto:a@b\") == {\"scheme\": \"mailto\"}",
		"uri.parse(\"\") == {}",
		"uri.parse(\":x\") error uri.parse: parse \":x\": missing protocol scheme",
		"uri.is_valid(\"http://[invalid\") == false",
		"uri.is_valid(\"\") == false",
		"uri.is_valid(\"a/b?c\") == true",
	};

	(void)state;
	EXPECT_ALL(lines);
}

static void units(void **state)
{
	static const char *const lines[] = {
		"units.parse(\"500m\") == 0.5",
		"units.parse(\"0.0005K\") == 0.5",
		"units.parse(\"10Ki\") == 10240",
		"units.parse(\"1M\") == 1000000",
		"units.parse(\"1.5\") == 1.5",
		"units.parse(\"-2k\") == -2000",
		"units.parse(\"1e3\") == 1000",
		"units.parse(\"1e-3k\") == 1",
		"units.parse(\"1E\") == 1000000000000000000",
		"units.parse(\"0.33333333333\") == 0.3333333333",
		"units.parse(\"\\\"3Gi\\\"\") == 3221225472",
		"units.parse(\"\") error units.parse: no amount provided",
		"units.parse(\"1 k\") error units.parse: spaces not allowed",
		"units.parse(\"0.0.0\") error units.parse: could not parse amount to a number",
		"units.parse(\"10kb\") error units.parse: unit kb not recognized",
		"units.parse(\"1e1000000000\") error units.parse: exponent too large",
		"units.parse_bytes(\"1.1KiB\") == 1126",
		"units.parse_bytes(\"1.1KB\") == 1100",
		"units.parse_bytes(\".5kb\") == 500",
		"units.parse_bytes(\"128Gi\") == 137438953472",
		"units.parse_bytes(\"100m\") == 100000000",
		"units.parse_bytes(\"8eib\") == 9223372036854775808",
		"units.parse_bytes(\"1e3\") == 1000",
		"units.parse_bytes(\"GB\") error units.parse_bytes: no byte amount provided",
		"units.parse_bytes(\"1zb\") error units.parse_bytes: byte unit zb not recognized",
		"units.parse_bytes(1) type units.parse_bytes: operand 1 must be string but got number",
	};

	(void)state;
	EXPECT_ALL(lines);
}

static void versions(void **state)
{
	static const char *const lines[] = {
		"semver.compare(\"1.2.3\", \"1.2.4\") == -1",
		"semver.compare(\"v1.10.0\", \"1.9.9\") == 1",
		"semver.compare(\"1.0.0-alpha.1\", \"1.0.0-alpha.beta\") == -1",
		"semver.compare(\"1.0.0\", \"1.0.0-rc.1\") == 1",
		"semver.compare(\"1.0.0-rc.11\", \"1.0.0-rc.2\") == 1",
		"semver.compare(\"1.0.0-a\", \"1.0.0-a.1\") == -1",
		"semver.compare(\"1.0.0+x\", \"1.0.0+y\") == 0",
		"semver.compare(\"1\", \"1.0.0\") error semver.compare: operand 1: string \"1\" is not a valid SemVer",
		"semver.is_valid(\"1.1.12-rc1+foo\") == true",
		"semver.is_valid(\"1.1\") == false",
		"semver.is_valid(\"1.1.1-\\u00e9\") == false",
		"semver.is_valid(1) == false",
		"semver.is_valid(\"01.2.3\") == false",
		"semver.is_valid(\"1.2.3-01\") == false",
		"semver.is_valid(\"1.2.3-01a+01\") == true",
		"semver.is_valid(\"1.2.3-\") == false",
		"semver.is_valid(\"1.2.3+\") == false",
		"uuid.parse(\"00000000-0000-4000-8000-000000000000\") == {\"variant\": \"RFC4122\", \"version\": 4}",
		"uuid.parse(\"URN:UUID:000003e8-48b9-21ee-b200-325096b39f47\") == {\"clocksequence\": 12800, \"domain\": \"Person\", \"id\": 1000, \"macvariables\": \"local:unicast\", \"nodeid\": \"32-50-96-b3-9f-47\", \"time\": 1693566990121469600, \"variant\": \"RFC4122\", \"version\": 2}",
		"uuid.parse(\"(00000000-0000-4000-8000-000000000000)\") == {\"variant\": \"RFC4122\", \"version\": 4}",
		"uuid.parse(\"6bea8ef2d3d33cd184e09bab06a52ece\") == {\"variant\": \"RFC4122\", \"version\": 3}",
		"uuid.parse(\"00000000-0000-4000-8000-00000000000\") undefined",
		"uuid.parse(\"0000000000000-4000-8000-000000000000\") undefined",
		"rand.intn(\"x\", 0) == 0",
		"rand.intn(\"x\", 1) == 0",
		"opa.runtime() == {}",
		"rego.metadata.rule() error rego.metadata.rule: the rego.metadata.rule function must only be called",
		"http.send({}) error http.send: needs the network",
		"net.lookup_ip_addr(\"a\") error net.lookup_ip_addr: needs the network",
	};

	(void)state;
	EXPECT_ALL(lines);
}

static void addresses(void **state)
{
	static const char *const lines[] = {
		"net.cidr_contains(\"10.0.0.0/8\", \"10.1.2.0/24\") == true",
		"net.cidr_contains(\"10.0.0.0/8\", \"10.255.255.255\") == true",
		"net.cidr_contains(\"10.0.0.0/24\", \"10.0.0.0/16\") == false",
		"net.cidr_contains(\"::/0\", \"1.2.3.4\") == false",
		"net.cidr_contains(\"::/80\", \"::/80\") == true",
		"net.cidr_contains(\"::/79\", \"::/80\") == true",
		"net.cidr_contains(\"::/80\", \"::/79\") == false",
		"net.cidr_contains(\"::/80\", \"::ffff:1.2.3.0/120\") == false",
		"net.cidr_contains(\"::/80\", \"::ffff:1.2.3.4\") == false",
		"net.cidr_contains(\"::ffff:1.2.0.0/112\", \"1.2.3.0/24\") == true",
		"net.cidr_contains(\"2001:4860::/32\", \"2001:4860:4860::8888\") == true",
		"net.cidr_contains(\"10.0.0.0/8\", \"x\") error net.cidr_contains: not a valid textual representation",
		"net.cidr_contains(\"10.0.0.0\", \"1.1.1.1\") error net.cidr_contains: invalid CIDR address: 10.0.0.0",
		"net.cidr_intersects(\"192.168.1.0/25\", \"192.168.1.64/25\") == true",
		"net.cidr_intersects(\"192.168.1.0/24\", \"192.168.2.0/24\") == false",
		"net.cidr_overlap(\"10.0.0.0/8\", \"10.0.0.1\") == true",
		"net.cidr_is_valid(\"10.0.0.0/33\") == false",
		"net.cidr_is_valid(\"10.01.0.0/8\") == false",
		"net.cidr_is_valid(\"::1/128\") == true",
		"net.cidr_is_valid(\"::1::/128\") == false",
		"net.cidr_is_valid(\"1:2:3:4:5:6:7/128\") == false",
		"net.cidr_is_valid(\"::ffff:1.2.3.4/128\") == true",
		"net.cidr_is_valid(1) == false",
		"net.cidr_expand(\"192.168.1.1/30\") == {\"192.168.1.0\", \"192.168.1.1\", \"192.168.1.2\", \"192.168.1.3\"}",
		"net.cidr_expand(\"2001:db8::1/127\") == {\"2001:db8::\", \"2001:db8::1\"}",
		"net.cidr_expand(\"192.168.1.1/33\") error net.cidr_expand: invalid CIDR address: 192.168.1.1/33",
		"net.cidr_expand(\"10.0.0.0/8\") full",
		"net.cidr_expand(\"::/0\") full",
		"net.cidr_contains_matches(\"1.1.0.0/16\", \"1.1.1.0/24\") == {[\"1.1.0.0/16\", \"1.1.1.0/24\"]}",
		"net.cidr_contains_matches([\"1.1.0.0/16\", \"2.0.0.0/8\"], {\"x\": \"2.1.0.0/16\", \"y\": [\"1.1.1.1\", 5]}) == {[1, \"x\"], [0, \"y\"]}",
		"net.cidr_contains_matches({[]}, []) error net.cidr_contains_matches: operand 1: element must be string or non-empty array",
		"net.cidr_contains_matches([[1]], []) == set()",
		"net.cidr_contains_matches([[1]], [\"1.1.0.0/16\"]) type net.cidr_contains_matches: operand 1 must be string but got number",
		"net.cidr_contains_matches(\"1.1.0.0/16\", [1]) error net.cidr_contains_matches: operand 2: element must be string or non-empty array",
		"net.cidr_merge([\"192.0.128.0/24\", \"192.0.129.0/24\"]) == {\"192.0.128.0/23\"}",
		"net.cidr_merge([\"192.0.2.112/30\", \"192.0.2.116/32\", \"192.0.2.118/31\"]) == {\"192.0.2.112/30\", \"192.0.2.116/32\", \"192.0.2.118/31\"}",
		"net.cidr_merge([\"192.0.2.112\", \"192.0.2.116/31\"]) == {\"192.0.2.0/24\"}",
		"net.cidr_merge([\"::/0\", \"fe80::1/128\"]) == {\"::/0\"}",
		"net.cidr_merge([\"0.0.0.0/0\", \"192.0.128.0/24\"]) == {\"0.0.0.0/0\"}",
		"net.cidr_merge([\"fe80::/120\", \"192.0.2.0/24\", \"192.0.3.0/24\"]) == {\"192.0.2.0/23\", \"fe80::/120\"}",
		"net.cidr_merge([\"10.0.0.1/32\", \"10.0.0.2/32\", \"10.0.0.3/32\"]) == {\"10.0.0.1/32\", \"10.0.0.2/31\"}",
		"net.cidr_merge([\"10.2.3.4\"]) == {\"10.2.3.4/8\"}",
		"net.cidr_merge([\"::1\"]) error net.cidr_merge: IPv6 invalid: needs prefix length",
		"net.cidr_merge([]) == set()",
		"net.cidr_merge([1]) error net.cidr_merge: element must be string",
	};

	(void)state;
	EXPECT_ALL(lines);
}

static void times(void **state)
{
	static const char *const lines[] = {
		"time.now_ns() == 1700000000123456789",
		"time.date(1582977600000000000) == [2020, 2, 29]",
		"time.date([1517832000000000000, \"America/Los_Angeles\"]) == [2018, 2, 5]",
		"time.clock([1517832000000000000, \"America/New_York\"]) == [7, 0, 0]",
		"time.clock([1530000000000000000, \"Europe/Berlin\"]) == [10, 0, 0]",
		"time.clock([4086000000000000000, \"Europe/Berlin\"]) == [18, 0, 0]",
		"time.clock([4101638400000000000, \"Europe/Berlin\"]) == [17, 0, 0]",
		"time.clock([0, \"Asia/Kolkata\"]) == [5, 30, 0]",
		"time.date(-1) == [1969, 12, 31]",
		"time.weekday(1517918400000000000) == \"Tuesday\"",
		"time.clock(15829776000000000000000) error time.clock: timestamp too big",
		"time.clock(\"x\") type time.clock: operand 1 must be either number (ns)",
		"time.clock([]) type time.clock: operand 1 must be either number (ns)",
		"time.clock([1, \"Nowhere/Land\"]) error time.clock: unknown time zone Nowhere/Land",
		"time.clock([1, \"../../etc/passwd\"]) error time.clock: time: invalid location name",
		"time.clock([1, \"Europe\"]) error time.clock: unknown time zone Europe",
		"time.add_date(1585852421593912000, 3, 9, 12) == 1705257221593912000",
		"time.add_date(1585852421593912000, -1, -1, -1) == 1551465221593912000",
		"time.add_date([1517832000000000000, \"America/New_York\"], 0, 6, 0) == 1533466800000000000",
		"time.add_date(0, 2262, 1, 1) error time.add_date: time outside of valid range",
		"time.add_date(0, 9223372036854775807, 0, 0) error time.add_date: time outside of valid range",
		"time.add_date(0, 0.5, 0, 0) type time.add_date: operand 2 must be integer number",
		"time.diff(1580601600000000000, 1583020800000000000) == [0, 0, 28, 0, 0, 0]",
		"time.diff([61000000000, \"UTC\"], [0, \"Asia/Shanghai\"]) == [0, 0, 0, 0, 1, 1]",
		"time.format(1670006453141828752) == \"2022-12-02T18:40:53.141828752Z\"",
		"time.format([1670006453141828752, \"Asia/Kolkata\"]) == \"2022-12-03T00:10:53.141828752+05:30\"",
		"time.format([1670006453141828752, \"Asia/Kolkata\", \"Mon Jan 02 15:04:05 -0700 2006\"]) == \"Sat Dec 03 00:10:53 +0530 2022\"",
		"time.format([1670006453141828752, \"Asia/Kolkata\", \"RFC1123Z\"]) == \"Sat, 03 Dec 2022 00:10:53 +0530\"",
		"time.format([1670006453141828752, \"UTC\", \"Monday, 2-January-06 3:4:5pm MST .000 __2 _2006 Junk\"]) == \"Friday, 2-December-22 6:40:53pm UTC .141 336 _2022 Junk\"",
		"time.format([0, \"America/New_York\", \"RFC822\"]) == \"31 Dec 69 19:00 EST\"",
		"time.parse_ns(\"2006-01-02\", \"2020-02-29\") == 1582934400000000000",
		"time.parse_ns(\"2006-01-02\", \"2021-02-29\") error time.parse_ns: parsing time",
		"time.parse_ns(\"RFC850\", \"Monday, 02-Jan-06 15:04:05 UTC\") == 1136214245000000000",
		"time.parse_ns(\"January 2, 2006 3:04PM -0700\", \"july 4, 1976 12:01am +0100\") error time.parse_ns:",
		"time.parse_ns(\"January 2, 2006 3:04PM -0700\", \"july 4, 1976 12:01AM +0100\") == 205282860000000000",
		"time.parse_ns(\"2006 002\", \"2020 060\") == 1582934400000000000",
		"time.parse_ns(\"15:04\", \"25:00\") error time.parse_ns: parsing time \"25:00\": hour out of range",
		"time.parse_ns(\"2006\", \"2020x\") error time.parse_ns: parsing time \"2020x\" as \"2006\": extra text",
		"time.parse_rfc3339_ns(\"2017-06-02T19:00:00-07:00\") == 1496455200000000000",
		"time.parse_rfc3339_ns(\"2017-06-02T19:00:00.123Z\") == 1496430000123000000",
		"time.parse_rfc3339_ns(\"1677-09-21T00:12:43.145224192-00:00\") == -9223372036854775808",
		"time.parse_rfc3339_ns(\"1677-09-21T00:12:43.145224191-00:00\") error time.parse_rfc3339_ns: time outside of valid range",
		"time.parse_rfc3339_ns(\"2262-04-11T23:47:16.854775808-00:00\") error time.parse_rfc3339_ns: time outside of valid range",
		"time.parse_duration_ns(\"100ms\") == 100000000",
		"time.parse_duration_ns(\"-1h15m30.918s\") == -4530918000000",
		"time.parse_duration_ns(\"1.5d\") == 129600000000000",
		"time.parse_duration_ns(\"1w2d\") == 777600000000000",
		"time.parse_duration_ns(\"1\\u00b5s\") == 1000",
		"time.parse_duration_ns(\"0\") == 0",
		"time.parse_duration_ns(\"1\") error time.parse_duration_ns: time: invalid duration \"1\"",
		"time.parse_duration_ns(\"300y\") error time.parse_duration_ns: time: invalid duration",
		"time.parse_duration_ns(\"\") error time.parse_duration_ns: time: invalid duration",
	};

	(void)state;
	EXPECT_ALL(lines);
}

static void digests(void **state)
{
	static const char *const lines[] = {
		"crypto.md5(\"lorem ipsum\") == \"80a751fde577028640c419000e33eba6\"",
		"crypto.sha1(\"lorem ipsum\") == \"bfb7759a67daeb65410490b4d98bb9da7d1ea2ce\"",
		"crypto.sha256(\"lorem ipsum\") == \"5e2bf57d3f40c4b6df69daf1936cb766f832374b4fc0259a7cbff06e2f70f269\"",
		"crypto.hmac.sha256(\"what do ya want for nothing?\", \"Jefe\") == \"5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843\"",
		"crypto.hmac.md5(\"what do ya want for nothing?\", \"Jefe\") == \"750c783e6ab0b503eaa86e310a5db738\"",
		"crypto.hmac.sha1(\"what do ya want for nothing?\", \"Jefe\") == \"effcdf6ae5eb2fa2d27416d5f184df9c259a7c79\"",
		"crypto.hmac.equal(\"a\", \"a\") == true",
		"crypto.hmac.equal(\"a\", \"b\") == false",
		"crypto.hmac.equal(\"a\", 1) type crypto.hmac.equal: operand 2 must be string but got number",
		"crypto.x509.parse_certificates(\"YmFkc3RyaW5n\") error crypto.x509.parse_certificates: x509: malformed certificate",
		"crypto.x509.parse_certificates(\"foobar\") error crypto.x509.parse_certificates: illegal base64",
		"crypto.x509.parse_certificate_request(\"YmFkc3RyaW5n\") error crypto.x509.parse_certificate_request: asn1: structure error",
		"crypto.x509.parse_and_verify_certificates(\"x\") == [false, []]",
		"crypto.parse_private_keys(\"nope\") == []",
		"crypto.parse_private_keys(\"\") == null",
		"crypto.x509.parse_rsa_private_key(\"invalid\") error crypto.x509.parse_rsa_private_key: illegal base64",
	};

	(void)state;
	EXPECT_ALL(lines);
}

/* The key, the header and the payload of RFC 7515's first example, and its signature. */
#define HS_TOKEN                                                                                   \
	"\"eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQog" \
	"Imh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ."                                          \
	"dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk\""
#define HS_KEY                                                                                     \
	"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"
/* RFC 8037, appendix A */
#define ED_TOKEN                                                                                   \
	"\"eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3" \
	"AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg\""
#define ED_JWK "{\"kty\": \"OKP\", \"crv\": \"Ed25519\", \"d\": \"nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A\", \"x\": \"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}"

static void tokens(void **state)
{
	static const char *const lines[] = {
		"io.jwt.decode(" HS_TOKEN ") == [{\"typ\": \"JWT\", \"alg\": \"HS256\"}, {\"iss\": \"joe\", \"exp\": 1300819380, \"http://example.com/is_root\": true}, \"7418dfb49799e0254ffa607dd8adbbba16d4254d69d6bff05b58055853848d79\"]",
		"io.jwt.decode(\"a.b\") error io.jwt.decode: encoded JWT must have 3 sections, found 2",
		"io.jwt.decode(\"a\") error io.jwt.decode: encoded JWT had no period separators",
		"io.jwt.decode(\"e30.!.x\") error io.jwt.decode: JWT payload had invalid encoding: illegal base64",
		"io.jwt.decode(\"eyJlbmMiOiJ4In0.e30.\") error io.jwt.decode: JWT is a JWE object, which is not supported",
		"io.jwt.verify_hs256(" HS_TOKEN ", \"wrong\") == false",
		"io.jwt.verify_eddsa(" ED_TOKEN ", `{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}`) == true",
		"io.jwt.verify_eddsa(" HS_TOKEN ", `{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}`) == false",
		"io.jwt.verify_rs256(" HS_TOKEN ", \"nonsense\") error io.jwt.verify_rs256: failed to parse a JWK key (set)",
		"io.jwt.encode_sign_raw(`{\"typ\":\"JWT\",\r\n \"alg\":\"HS256\"}`, `{\"iss\":\"joe\",\r\n \"exp\":1300819380,\r\n \"http://example.com/is_root\":true}`, `{\"kty\":\"oct\",\"k\":\"" HS_KEY "\"}`) == " HS_TOKEN,
		"io.jwt.encode_sign_raw(`{\"alg\":\"EdDSA\",\"typ\":\"x\"}`, `no json`, `" ED_JWK "`) == \"eyJhbGciOiJFZERTQSIsInR5cCI6IngifQ.bm8ganNvbg.FwKyKYPVjSdEQKB-8iCphCIGM9QnyvuxxCdkJ5msfVUwMrIdcYjTdwAKAI8fE-tn9SRGB99f-648lJMeLzLaDw\"",
		"io.jwt.encode_sign({\"alg\": \"HS256\"}, {}, {\"kty\": \"oct\", \"k\": \"AyM1\"}) == \"eyJhbGciOiJIUzI1NiJ9.e30.n_RrxQfJXKNDvDd1ffOiXp1UqntjoQtdRd_rL0gWDTI\"",
		"io.jwt.encode_sign({}, {}, {\"kty\": \"oct\", \"k\": \"AyM1\"}) error io.jwt.encode_sign: missing or invalid 'alg' header: jwsbb: header \"alg\" not found",
		"io.jwt.encode_sign({\"alg\": \"dummy\"}, {}, {\"kty\": \"oct\", \"k\": \"AyM1\"}) error io.jwt.encode_sign: unknown JWS algorithm: dummy",
		"io.jwt.encode_sign_raw(`{\"alg\":\"HS256\"}`, `no`, `{\"kty\":\"oct\",\"k\":\"AyM1\"}`) error io.jwt.encode_sign_raw: type is JWT but payload is not JSON",
		"io.jwt.encode_sign_raw(``, `{}`, `{\"kty\":\"oct\",\"k\":\"AyM1\"}`) error io.jwt.encode_sign_raw: missing or invalid 'alg' header: cannot parse JSON: cannot parse empty string",
		"io.jwt.decode_verify(" HS_TOKEN ", {\"secret\": \"x\"}) == [false, {}, {}]",
		"io.jwt.decode_verify(" HS_TOKEN ", {}) error io.jwt.decode_verify: no key constraint",
		"io.jwt.decode_verify(" HS_TOKEN ", {\"secret\": \"x\", \"color\": 1}) error io.jwt.decode_verify: unknown token validation constraint: color",
		"io.jwt.decode_verify(" HS_TOKEN ", {\"cert\": `{\"kty\":\"oct\",\"k\":\"" HS_KEY "\"}`, \"time\": 1300819379000000000}) == [true, {\"typ\": \"JWT\", \"alg\": \"HS256\"}, {\"iss\": \"joe\", \"exp\": 1300819380, \"http://example.com/is_root\": true}]",
		"io.jwt.decode_verify(" HS_TOKEN ", {\"cert\": `{\"kty\":\"oct\",\"k\":\"" HS_KEY "\"}`, \"time\": 1300819380000000000}) == [false, {}, {}]",
		"io.jwt.decode_verify(" HS_TOKEN ", {\"cert\": `{\"kty\":\"oct\",\"k\":\"" HS_KEY "\"}`, \"time\": 1, \"iss\": \"ann\"}) == [false, {}, {}]",
		"io.jwt.decode_verify(" HS_TOKEN ", {\"cert\": `{\"kty\":\"oct\",\"k\":\"" HS_KEY "\"}`, \"time\": 1, \"alg\": \"HS512\"}) == [false, {}, {}]",
		"io.jwt.decode_verify(" HS_TOKEN ", {\"cert\": `{\"kty\":\"oct\",\"k\":\"" HS_KEY "\"}`, \"time\": 1, \"aud\": \"me\"}) == [false, {}, {}]",
	};

	(void)state;
	EXPECT_ALL(lines);
}

static void schemas(void **state)
{
	static const char *const lines[] = {
		"json.match_schema({\"id\": 5}, {\"properties\": {\"id\": {\"type\": \"integer\"}}, \"required\": [\"id\"]}) == [true, []]",
		"json.match_schema(`{\"id\": 5}`, `{\"properties\": {\"id\": {\"type\": \"integer\"}}}`) == [true, []]",
		"json.match_schema({\"id\": \"foo\"}, {\"properties\": {\"id\": {\"type\": \"integer\"}}}) == [false, [{\"desc\": \"Invalid type. Expected: integer, given: string\", \"error\": \"id: Invalid type. Expected: integer, given: string\", \"field\": \"id\", \"type\": \"invalid_type\"}]]",
		"json.match_schema({\"id\": \"foo\"}, {\"properties\": {\"id\": {\"type\": \"unknown\"}}}) error json.match_schema: has a primitive type that is NOT VALID -- given: /unknown/ Expected valid values are:[array boolean integer number null object string]",
		"json.match_schema({}, {\"required\": [\"a\"]}) == [false, [{\"desc\": \"a is required\", \"error\": \"(Root): a is required\", \"field\": \"(Root)\", \"type\": \"required\"}]]",
		"json.match_schema({\"a\": [1, \"x\"]}, {\"properties\": {\"a\": {\"items\": {\"type\": [\"number\", \"null\"]}}}}) == [false, [{\"desc\": \"Invalid type. Expected: [number,null], given: string\", \"error\": \"a.1: Invalid type. Expected: [number,null], given: string\", \"field\": \"a.1\", \"type\": \"invalid_type\"}]]",
		"json.match_schema({\"a\": 3}, {\"properties\": {\"a\": {\"$ref\": \"#/definitions/small\"}}, \"definitions\": {\"small\": {\"maximum\": 2}}}) == [false, [{\"desc\": \"Must be less than or equal to 2\", \"error\": \"a: Must be less than or equal to 2\", \"field\": \"a\", \"type\": \"number_lte\"}]]",
		"json.match_schema({\"b\": 1}, {\"additionalProperties\": false}) == [false, [{\"desc\": \"Additional property b is not allowed\", \"error\": \"(Root): Additional property b is not allowed\", \"field\": \"(Root)\", \"type\": \"additional_property_not_allowed\"}]]",
		"json.match_schema([1, 2, 1], {\"uniqueItems\": true}) == [false, [{\"desc\": \"array items[0,2] must be unique\", \"error\": \"(Root): array items[0,2] must be unique\", \"field\": \"(Root)\", \"type\": \"unique\"}]]",
		"json.match_schema({\"a\": \"b\"}, {\"properties\": {\"a\": {\"enum\": [\"x\", 1]}}}) == [false, [{\"desc\": \"a must be one of the following: \\\"x\\\", 1\", \"error\": \"a: a must be one of the following: \\\"x\\\", 1\", \"field\": \"a\", \"type\": \"enum\"}]]",
		"json.match_schema({\"a\": \"xyz\"}, {\"properties\": {\"a\": {\"pattern\": \"^x.z$\", \"minLength\": 3}}}) == [true, []]",
		"json.match_schema({\"a\": 1}, {\"not\": {\"required\": [\"a\"]}}) == [false, [{\"desc\": \"Must not validate the schema (not)\", \"error\": \"(Root): Must not validate the schema (not)\", \"field\": \"(Root)\", \"type\": \"number_not\"}]]",
		"json.match_schema({\"a\": 1}, {\"anyOf\": [{\"required\": [\"b\"]}, {\"required\": [\"a\"]}]}) == [true, []]",
		"json.match_schema({\"a\": 1}, {\"if\": {\"required\": [\"a\"]}, \"then\": {\"required\": [\"c\"]}}) == [false, [{\"desc\": \"Must validate \\\"then\\\" as \\\"if\\\" was valid\", \"error\": \"(Root): Must validate \\\"then\\\" as \\\"if\\\" was valid\", \"field\": \"(Root)\", \"type\": \"condition_then\"}, {\"desc\": \"c is required\", \"error\": \"(Root): c is required\", \"field\": \"(Root)\", \"type\": \"required\"}]]",
		"json.match_schema({\"ip\": \"1.2.3.4\", \"t\": \"2020-01-01T00:00:00Z\"}, {\"properties\": {\"ip\": {\"format\": \"ipv4\"}, \"t\": {\"format\": \"date-time\"}}}) == [true, []]",
		"json.match_schema({\"a\": {}}, {\"$ref\": \"#\"}) full",
		"json.match_schema(1, {}) error json.match_schema: wrong type, expected string or object",
		"json.verify_schema({\"type\": \"boolean\"}) == [true, null]",
		"json.verify_schema(\"1\") == [false, \"jsonschema: schema is invalid\"]",
		"json.verify_schema(`{\"type\": \"boolean\"}`) == [true, null]",
		"json.verify_schema({\"type\": \"unknown_type\"}) == [false, \"jsonschema: has a primitive type that is NOT VALID -- given: /unknown_type/ Expected valid values are:[array boolean integer number null object string]\"]",
		"json.verify_schema({\"pattern\": \"(\"}) == [false, \"jsonschema: pattern must be a valid regex\"]",
		"json.verify_schema({\"minLength\": -1}) == [false, \"jsonschema: minLength must be greater than or equal to 0\"]",
		"json.verify_schema(\"{\") == [false, \"jsonschema: invalid JSON string\"]",
	};

	(void)state;
	EXPECT_ALL(lines);
}

#define AWS_CONFIG                                                                                 \
	"{\"aws_access_key\": \"MYAWSACCESSKEYGOESHERE\", \"aws_secret_access_key\": "             \
	"\"MYAWSSECRETACCESSKEYGOESHERE\", \"aws_service\": \"s3\", \"aws_region\": \"us-east-1\"}"

static void aws(void **state)
{
	static const char *const lines[] = {
		"providers.aws.sign_req({\"method\": \"get\", \"url\": \"http://example.com\", \"headers\": {\"foo\": \"bar\"}}, " AWS_CONFIG ", 1451311705000000000) == {\"headers\": {\"Authorization\": \"AWS4-HMAC-SHA256 Credential=MYAWSACCESSKEYGOESHERE/20151228/us-east-1/s3/aws4_request,SignedHeaders=foo;host;x-amz-content-sha256;x-amz-date,Signature=8f1dc7c9b9978356a0d0989fd26a95307f4f8a4aa264d8220647b7097d839952\", \"host\": \"example.com\", \"x-amz-content-sha256\": \"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\", \"x-amz-date\": \"20151228T140825Z\", \"foo\": \"bar\"}, \"method\": \"get\", \"url\": \"http://example.com\"}",
		"providers.aws.sign_req({\"method\": \"get\", \"url\": \"http://example.com\"}, {\"aws_service\": \"s3\"}, 0) type providers.aws.sign_req: operand 2 missing required AWS config parameters(s): {\"aws_access_key\", \"aws_region\", \"aws_secret_access_key\"}",
		"providers.aws.sign_req({\"method\": \"get\"}, " AWS_CONFIG ", 0) type providers.aws.sign_req: operand 1 missing required request parameters(s): {\"url\"}",
		"providers.aws.sign_req({\"method\": \"get\", \"url\": \"x\", \"odd\": 1}, " AWS_CONFIG ", 0) type providers.aws.sign_req: operand 1 invalid request parameters(s): {\"odd\"}",
	};

	(void)state;
	EXPECT_ALL(lines);
}

/* --- what an evaluation may cost --- */

/* The layers of a ladder: from each node two ways to the next, 2^n paths in all. */
static struct rf_rv ladder(struct rf_arena *a, int layers)
{
	struct rf_rv_grow g = { 0 };
	struct rf_rv v = RF_RV_NIL;
	bool conflict;

	for (int i = 0; i < layers; i++)
		for (int j = 0; j < 2; j++) {
			struct rf_rv *to = rf_arena_array(a, struct rf_rv, 2);

			to[0] = rf_rv_int(2 * i + 2);
			to[1] = rf_rv_int(2 * i + 3);
			assert_true(rf_rv_put(&g, a, rf_rv_int(2 * i + j), rf_rv_array(to, 2), &conflict));
		}
	assert_true(rf_rv_grown_object(&g, a, &v));
	return v;
}

static void endless_work_is_ended(void **state)
{
	struct rf_arena own = RF_ARENA_INIT;
	struct rf_rv arg[2], start = rf_rv_int(0), ret, twice = rf_rv_str(RF_LIT("x"));
	struct stage s;

	(void)state;
	set_up(&s, 8 << 20);
	arg[0] = ladder(&own, 200);
	arg[1] = rf_rv_array(&start, 1);
	assert_int_equal(rf_rb_call(rf_rb_find(RF_LIT("graph.reachable_paths")), &s.e, arg, &ret, &s.err),
			 RF_RB_FULL);
	rf_arena_done(&s.arena);

	/* a value that is small in memory and endless as text */
	for (int i = 0; i < 60; i++) {
		struct rf_rv *both = rf_arena_array(&own, struct rf_rv, 2);

		both[0] = both[1] = twice;
		twice = rf_rv_array(both, 2);
	}
	set_up(&s, 8 << 20);
	assert_int_equal(rf_rb_call(rf_rb_find(RF_LIT("json.marshal")), &s.e, &twice, &ret, &s.err),
			 RF_RB_FULL);
	rf_arena_done(&s.arena);
	set_up(&s, 8 << 20);
	assert_int_equal(rf_rb_call(rf_rb_find(RF_LIT("walk")), &s.e, &twice, &ret, &s.err), RF_RB_FULL);
	rf_arena_done(&s.arena);
	rf_arena_done(&own);
}

/* A chain as long as the graph: no recursion may follow it. */
static void long_paths_are_found(void **state)
{
	struct rf_arena own = RF_ARENA_INIT;
	struct rf_rv arg[2], start = rf_rv_int(0), ret = RF_RV_NIL;
	struct rf_rv_grow g = { 0 };
	struct stage s;
	bool conflict;

	(void)state;
	for (int i = 0; i < 3000; i++) {
		struct rf_rv *to = rf_arena_array(&own, struct rf_rv, 1);

		to[0] = rf_rv_int(i + 1);
		assert_true(rf_rv_put(&g, &own, rf_rv_int(i), rf_rv_array(to, i < 2999), &conflict));
	}
	assert_true(rf_rv_grown_object(&g, &own, &arg[0]));
	arg[1] = rf_rv_array(&start, 1);
	set_up(&s, 64 << 20);
	assert_int_equal(rf_rb_call(rf_rb_find(RF_LIT("graph.reachable_paths")), &s.e, arg, &ret, &s.err),
			 RF_RB_OK);
	assert_int_equal(ret.n, 1);
	assert_int_equal(ret.items[0].n, 3000);
	rf_arena_done(&s.arena);
	rf_arena_done(&own);
}

/* Whatever the cap is, a call ends in an answer or in RF_RB_FULL, never in a crash. */
static void every_cap_holds(void **state)
{
	static const char *const lines[] = {
		"json.patch({\"a\": [1, 2, {\"b\": 3}]}, [{\"op\": \"add\", \"path\": \"a/2/c\", \"value\": 2}])",
		"object.union_n([{\"a\": {\"x\": 1}}, {\"a\": {\"y\": 1}, \"b\": 2}])",
		"json.match_schema({\"a\": \"b\"}, {\"properties\": {\"a\": {\"enum\": [\"x\", 1]}}})",
		"io.jwt.decode(" HS_TOKEN ")",
		"io.jwt.encode_sign({\"alg\": \"EdDSA\"}, {}, " ED_JWK ")",
		"time.format([1670006453141828752, \"Asia/Kolkata\", \"RFC1123Z\"])",
		"uri.parse(\"https://u:p@example.com:8080/a%2Fb?q=1#top\")",
		"net.cidr_merge([\"10.0.0.1/32\", \"10.0.0.2/32\", \"10.0.0.3/32\"])",
		"units.parse(\"1.5\")",
		"yaml.unmarshal(\"foo:\\n- 1\\n- bar: x\\n\")",
		"providers.aws.sign_req({\"method\": \"get\", \"url\": \"http://example.com\"}, " AWS_CONFIG ", 0)",
	};

	(void)state;
	for (size_t i = 0; i < RF_COUNT(lines); i++)
		for (size_t cap = 0; cap < 6000; cap += 97) {
			struct rf_arena texts = RF_ARENA_INIT;
			struct reader r = { rf_str(lines[i]), &texts };
			struct rf_rv v = RF_RV_NIL;
			enum rf_rb_result result;
			struct stage s;

			set_up(&s, cap + 1);
			result = call(&s, &r, &v);
			if (result != RF_RB_OK && result != RF_RB_FULL)
				fail_msg("%s with %zu bytes: %d %s", lines[i], cap, result, s.err.msg);
			rf_arena_done(&s.arena);
			set_up(&s, 64 << 20);
			s.fuel = (int64_t)cap / 10;
			r.s = rf_str(lines[i]);
			result = call(&s, &r, &v);
			if (result != RF_RB_OK && result != RF_RB_FULL)
				fail_msg("%s with %zu steps: %d %s", lines[i], cap / 10, result, s.err.msg);
			rf_arena_done(&s.arena);
			rf_arena_done(&texts);
		}
}

static void randomness_is_constant_for_an_argument(void **state)
{
	struct rf_rv arg[2] = { rf_rv_str(RF_LIT("key")), rf_rv_int(1000000) }, a, b, c;
	const struct rf_rb *uuid = rf_rb_find(RF_LIT("uuid.rfc4122"));
	struct stage s;

	(void)state;
	set_up(&s, 1 << 20);
	assert_int_equal(rf_rb_call(uuid, &s.e, arg, &a, &s.err), RF_RB_OK);
	assert_int_equal(rf_rb_call(uuid, &s.e, arg, &b, &s.err), RF_RB_OK);
	assert_int_equal(a.n, 36);
	assert_int_equal(a.s[14], '4');
	assert_true(rf_rv_eq(a, b));
	s.e.random[0]++;
	assert_int_equal(rf_rb_call(uuid, &s.e, arg, &c, &s.err), RF_RB_OK);
	assert_false(rf_rv_eq(a, c));
	assert_int_equal(rf_rb_call(rf_rb_find(RF_LIT("rand.intn")), &s.e, arg, &a, &s.err), RF_RB_OK);
	assert_int_equal(rf_rb_call(rf_rb_find(RF_LIT("rand.intn")), &s.e, arg, &b, &s.err), RF_RB_OK);
	assert_true(rf_rv_eq(a, b) && a.i >= 0 && a.i < 1000000);
	rf_arena_done(&s.arena);
}

static void broken_zone_files_are_refused(void **state)
{
	char bytes[200] = "TZif2";
	struct rf_arena a = RF_ARENA_INIT;
	const struct rf_zone *z;

	(void)state;
	for (size_t n = 0; n < sizeof(bytes); n++)
		assert_true(rf_zone_read(&a, rf_str_n(bytes, n), &z, NULL) < 0);
	memset(bytes + 20, 0xff, 24);
	assert_true(rf_zone_read(&a, rf_str_n(bytes, sizeof(bytes)), &z, NULL) < 0);
	rf_arena_done(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arrays),
		cmocka_unit_test(sets),
		cmocka_unit_test(objects),
		cmocka_unit_test(json_paths),
		cmocka_unit_test(patches),
		cmocka_unit_test(graphs),
		cmocka_unit_test(json_text),
		cmocka_unit_test(encodings),
		cmocka_unit_test(units),
		cmocka_unit_test(versions),
		cmocka_unit_test(addresses),
		cmocka_unit_test(times),
		cmocka_unit_test(digests),
		cmocka_unit_test(tokens),
		cmocka_unit_test(schemas),
		cmocka_unit_test(aws),
		cmocka_unit_test(endless_work_is_ended),
		cmocka_unit_test(long_paths_are_found),
		cmocka_unit_test(every_cap_holds),
		cmocka_unit_test(randomness_is_constant_for_an_argument),
		cmocka_unit_test(broken_zone_files_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
