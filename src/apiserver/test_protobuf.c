/* Bodies as kubectl sends them, byte for byte, and bodies nobody should send. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "apiserver/decode.h"
#include "apiserver/kinds.h"
#include "apiserver/schema.h"
#include "codec/pb.h"

static struct rf_arena a;

static int done(void **state)
{
	rf_arena_done(&a);
	return 0;
}

static struct rf_json *decode(struct rf_str body)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *o = NULL;

	if (rf_decode_protobuf(&a, body, &o, &err) < 0)
		fail_msg("%s", err.msg);
	return o;
}

static void same(const struct rf_json *o, const char *want)
{
	struct rf_json *w = rf_json_make(&a, want);

	if (!rf_json_equal(o, w))
		fail_msg("got %.*s", RF_STR(rf_json_text_of(&a, o)));
}

static void kubectls_quota_is_understood(void **state)
{
	same(decode(RF_LIT(
		     "k8s\0\n\x13\n\x02v1\x12\rResourceQuota\x12"
		     "F\n\x12\n\x02q1\x12\0\x1a\0\"\0*\0002\0008\0B\0\x12.\n\x0c\n\x04pods\x12\x04"
		     "\n\00210\n\x1e\n\x17requests.nvidia.com/gpu\x12\x03\n\0014\x1a\0\x1a\0\"\0")),
	     "{'apiVersion':'v1','kind':'ResourceQuota','metadata':{'name':'q1','generation':0},"
	     "'spec':{'hard':{'pods':'10','requests.nvidia.com/gpu':'4'}}}");
}

static void kubectls_role_is_understood(void **state)
{
	same(decode(RF_LIT("k8s\0\n+\n\x1crbac.authorization.k8s.io/v1\x12\x0b"
			   "ClusterRole\x12#\n\x12\n\x02"
			   "cr\x12\0\x1a\0\"\0*\0002\0008\0B\0\x12\r\n\x03get"
			   "\x12\0\x1a\x04pods\x1a\0\"\0")),
	     "{'apiVersion':'rbac.authorization.k8s.io/"
	     "v1','kind':'ClusterRole','metadata':{'name':'cr',"
	     "'generation':0},'rules':[{'verbs':['get'],'apiGroups':[''],'resources':['pods']}]}");
}

/* Writes {1: {1: name}} and the like by hand. */
static void put_message(struct rf_buf *out, uint32_t number, struct rf_buf *inner)
{
	rf_pb_put_bytes(out, number, rf_buf_str(inner));
	rf_buf_clear(inner);
}

static void envelope(struct rf_buf *out, const char *version, const char *kind, struct rf_str raw)
{
	rf_auto(buf) meta = RF_BUF_INIT;

	rf_pb_put_bytes(&meta, 1, rf_str(version));
	rf_pb_put_bytes(&meta, 2, rf_str(kind));
	rf_buf_add(out, rf_str_n("k8s\0", 4));
	put_message(out, 1, &meta);
	rf_pb_put_bytes(out, 2, raw);
}

static void maps_bytes_and_times_become_their_json(void **state)
{
	rf_auto(buf) in = RF_BUF_INIT;
	rf_auto(buf) raw = RF_BUF_INIT;
	rf_auto(buf) body = RF_BUF_INIT;

	rf_pb_put_bytes(&in, 1, RF_LIT("s"));
	put_message(&raw, 1, &in);
	rf_pb_put_bytes(&in, 1, RF_LIT("key"));
	rf_pb_put_bytes(&in, 2, rf_str_n("\0\xff", 2));
	put_message(&raw, 2, &in);
	rf_pb_put_varint(&raw, 5, 1);
	envelope(&body, "v1", "Secret", rf_buf_str(&raw));
	same(decode(rf_buf_str(&body)),
	     "{'apiVersion':'v1','kind':'Secret','metadata':{'name':'s'},"
	     "'data':{'key':'AP8='},'immutable':true}");
}

static void fields_of_inlined_types_stand_where_json_has_them(void **state)
{
	rf_auto(buf) in = RF_BUF_INIT;
	rf_auto(buf) source = RF_BUF_INIT;
	rf_auto(buf) volume = RF_BUF_INIT;
	rf_auto(buf) spec = RF_BUF_INIT;
	rf_auto(buf) raw = RF_BUF_INIT;
	rf_auto(buf) body = RF_BUF_INIT;

	rf_pb_put_bytes(&in, 1, RF_LIT("Memory"));
	put_message(&source, 2, &in); /* emptyDir */
	rf_pb_put_bytes(&volume, 1, RF_LIT("v"));
	put_message(&volume, 2, &source);
	put_message(&spec, 1, &volume);
	put_message(&raw, 2, &spec);
	envelope(&body, "v1", "Pod", rf_buf_str(&raw));
	same(decode(rf_buf_str(&body)),
	     "{'apiVersion':'v1','kind':'Pod','spec':{'volumes':[{'name':'v',"
	     "'emptyDir':{'medium':'Memory'}}]}}");
}

static void nonsense_is_refused(void **state)
{
	static const struct {
		const char *p;
		size_t n;
	} BAD[] = {
		{ "", 0 },
		{ "k8s", 3 },
		{ "k8s\0\xff\xff\xff", 7 },
		{ "k8s\0\n\x7f", 6 },
		{ "k8s\0\n\x09\n\x02v1\x12\x03"
		  "Foo",
		  15 },
		{ "k8s\0\n\x0f\n\x02v1\x12\tNamespace\x12\x02\x08\x01", 25 },
	};
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *o;

	for (size_t i = 0; i < RF_COUNT(BAD); i++)
		assert_true(rf_decode_protobuf(&a, rf_str_n(BAD[i].p, BAD[i].n), &o, &err) < 0);
}

/* A pod's spec (2) with one field, as it would lie on the wire. */
static int decode_spec(uint32_t number, const char *text)
{
	rf_auto(buf) spec = RF_BUF_INIT;
	rf_auto(buf) raw = RF_BUF_INIT;
	rf_auto(buf) body = RF_BUF_INIT;
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *o = NULL;

	rf_pb_put_bytes(&spec, number, rf_str(text));
	put_message(&raw, 2, &spec);
	envelope(&body, "v1", "Pod", rf_buf_str(&raw));
	return rf_decode_protobuf(&a, rf_buf_str(&body), &o, &err);
}

static void text_that_is_not_utf8_is_refused(void **state)
{
	static const uint32_t NODE_SELECTOR = 7, NODE_NAME = 10;

	assert_int_equal(decode_spec(NODE_NAME, "n\xc3\xa9"), 0);
	assert_int_equal(decode_spec(NODE_NAME, "n\xff"), -RF_BAD_REQUEST);
	assert_int_equal(decode_spec(NODE_NAME, "n\xc3"), -RF_BAD_REQUEST);
	assert_int_equal(decode_spec(NODE_SELECTOR, "\n\x02kx\x12\x01v"), 0);
	assert_int_equal(decode_spec(NODE_SELECTOR, "\n\x02k\xff\x12\x01v"), -RF_BAD_REQUEST);
	assert_int_equal(decode_spec(NODE_SELECTOR, "\n\x01k\x12\x01\xff"), -RF_BAD_REQUEST);
}

static void no_bytes_at_all_can_break_the_decoder(void **state)
{
	static const char *const KINDS[] = { "Pod", "Secret", "Role", "Event", "ResourceSlice" };
	struct rf_prng r = { .state = 42 };

	for (int i = 0; i < 20000; i++) {
		rf_auto(buf) body = RF_BUF_INIT;
		rf_auto(arena) mine = RF_ARENA_CAPPED(1 << 20);
		char raw[64];
		size_t n = rf_prng_below(&r, sizeof(raw));
		struct rf_err err = RF_ERR_INIT;
		struct rf_json *o = NULL;

		for (size_t j = 0; j < n; j++)
			raw[j] = (char)rf_prng_below(&r, j % 2 ? 16 : 128);
		envelope(&body, "v1", KINDS[rf_prng_below(&r, RF_COUNT(KINDS))], rf_str_n(raw, n));
		if (rf_decode_protobuf(&mine, rf_buf_str(&body), &o, &err) == 0)
			assert_non_null(rf_json_at(o, "kind"));
	}
}

/* --- the table itself ------------------------------------------------------------------------ */

static void every_type_named_in_the_schema_exists(void **state)
{
	for (size_t i = 0; rf_schema_table[i].name != NULL; i++) {
		struct rf_str fields = rf_str(rf_schema_table[i].fields);
		struct rf_schema_field f;

		if (i > 0)
			assert_true(strcmp(rf_schema_table[i - 1].name, rf_schema_table[i].name) <
				    0);
		while (rf_schema_next(&fields, &f)) {
			struct rf_str t = f.type;

			while (strchr("[{^", t.p[0]) != NULL)
				t = rf_str_skip(t, 1);
			if (t.p[0] >= 'A' && t.p[0] <= 'Z')
				assert_non_null(rf_schema_find(t));
			else
				assert_non_null(strchr("sibfytmqor", t.p[0]));
		}
	}
	for (size_t i = 0; i < rf_n_kinds; i++)
		if (rf_kinds[i].schema != NULL)
			assert_non_null(rf_schema_find(rf_str(rf_kinds[i].schema)));
}

static void unknown_fields_are_named_and_taken_out(void **state)
{
	struct rf_json *o =
		rf_json_make(&a, "{'kind':'Pod','spec':{'contaners':[],'containers':[{'name':'c',"
				 "'imge':'x','resources':{'limits':{'ringfence.io/gpu':2}}}]},"
				 "'metadata':{'creationTimestamp':null}}");
	rf_auto(buf) unknown = RF_BUF_INIT;
	struct rf_err err = RF_ERR_INIT;

	assert_int_equal(rf_schema_prune(rf_schema_find(RF_LIT("Pod")), o, &unknown, &err), 0);
	assert_string_equal(
		unknown.p,
		"unknown field \"spec.contaners\", unknown field \"spec.containers[0].imge\"");
	same(o, "{'kind':'Pod','spec':{'containers':[{'name':'c','resources':{'limits':{"
		"'ringfence.io/gpu':'2'}}}]},'metadata':{}}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kubectls_quota_is_understood),
		cmocka_unit_test(kubectls_role_is_understood),
		cmocka_unit_test(maps_bytes_and_times_become_their_json),
		cmocka_unit_test(fields_of_inlined_types_stand_where_json_has_them),
		cmocka_unit_test(nonsense_is_refused),
		cmocka_unit_test(text_that_is_not_utf8_is_refused),
		cmocka_unit_test(no_bytes_at_all_can_break_the_decoder),
		cmocka_unit_test(every_type_named_in_the_schema_exists),
		cmocka_unit_test(unknown_fields_are_named_and_taken_out),
	};

	return cmocka_run_group_tests(tests, NULL, done);
}
