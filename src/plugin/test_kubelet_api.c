#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/kubelet_api.h"
#include "plugin/private.h"
#include "plugin/test_golden.h"

#define GOLDEN(name) rf_str_n(name, sizeof(name) - 1)
#define UID RF_LIT("7f6c1c2e-0d6a-4a55-9b46-1f1b2b1c0001")

static void assert_bytes(struct rf_buf *b, struct rf_str golden)
{
	assert_int_equal(b->n, golden.n);
	assert_memory_equal(b->p, golden.p, golden.n);
	rf_buf_done(b);
}

static void assert_str(struct rf_str s, const char *expected)
{
	assert_int_equal(s.n, strlen(expected));
	assert_memory_equal(s.p, expected, s.n);
}

static void what_we_write_is_what_go_writes(void **state RF_UNUSED)
{
	struct rf_buf b = RF_BUF_INIT, d = RF_BUF_INIT;

	rf_kapi_register(&b, RF_LIT("ringfence-0.sock"), RF_LIT("nvidia.com/gpu"));
	assert_bytes(&b, GOLDEN(GO_REGISTER));
	b = (struct rf_buf)RF_BUF_INIT;
	rf_kapi_options(&b);
	assert_bytes(&b, GOLDEN(GO_OPTIONS));
	b = (struct rf_buf)RF_BUF_INIT;
	rf_kapi_device(&b, RF_LIT("slot-0"), true);
	rf_kapi_device(&b, RF_LIT("slot-1"), false);
	assert_bytes(&b, GOLDEN(GO_LIST));
	b = (struct rf_buf)RF_BUF_INIT;
	rf_kapi_allocated(&b, RF_LIT("ringfence.io/gpu=slot-abc"));
	assert_bytes(&b, GOLDEN(GO_ALLOCATED));
	b = (struct rf_buf)RF_BUF_INIT;
	rf_kapi_plugin_info(&b, RF_LIT("ringfence.io"),
			    RF_LIT("/var/lib/kubelet/plugins/ringfence.io/dra.sock"));
	assert_bytes(&b, GOLDEN(GO_INFO));
	b = (struct rf_buf)RF_BUF_INIT;
	rf_kapi_prepared_device(&d, RF_LIT("main"), RF_LIT("n1"), RF_LIT("gpu-0"),
				RF_LIT("ringfence.io/gpu=x"), UID);
	rf_kapi_prepared_device(&d, RF_LIT("main"), RF_LIT("n1"), RF_LIT("gpu-1"), RF_STR_EMPTY,
				RF_STR_EMPTY);
	rf_kapi_prepared(&b, UID, rf_buf_str(&d), RF_STR_EMPTY);
	rf_buf_done(&d);
	assert_bytes(&b, GOLDEN(GO_PREPARED));
	b = (struct rf_buf)RF_BUF_INIT;
	rf_kapi_prepared(&b, UID, RF_STR_EMPTY, RF_LIT("no card"));
	assert_bytes(&b, GOLDEN(GO_PREPARE_FAILED));
	b = (struct rf_buf)RF_BUF_INIT;
	rf_kapi_unprepared(&b, UID, RF_STR_EMPTY);
	assert_bytes(&b, GOLDEN(GO_UNPREPARED));
	b = (struct rf_buf)RF_BUF_INIT;
	rf_kapi_unprepared(&b, UID, RF_LIT("busy"));
	assert_bytes(&b, GOLDEN(GO_UNPREPARE_FAILED));
}

static void requests_are_read(void **state RF_UNUSED)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_err err = RF_ERR_INIT;
	struct rf_kapi_ids *containers, ids;
	struct rf_kapi_claim *claims;
	struct rf_str reason;
	bool registered;
	size_t n;

	assert_int_equal(rf_kapi_read_allocate(&a, GOLDEN(GO_ALLOCATE), &containers, &n, &err), 0);
	assert_int_equal(n, 1);
	assert_int_equal(containers[0].n, 2);
	assert_str(containers[0].at[0], "slot-1");
	assert_int_equal(rf_kapi_read_prestart(&a, GOLDEN(GO_PRESTART), &ids, &err), 0);
	assert_int_equal(ids.n, 1);
	assert_str(ids.at[0], "slot-1");
	assert_int_equal(rf_kapi_read_claims(&a, GOLDEN(GO_CLAIMS), &claims, &n, &err), 0);
	assert_int_equal(n, 2);
	assert_str(claims[0].ns, "lab");
	assert_str(claims[0].name, "train-12345678");
	assert_str(claims[0].uid, UID.p);
	assert_str(claims[1].name, "n2");
	assert_int_equal(rf_kapi_read_status(GOLDEN(GO_STATUS_BAD), &registered, &reason, &err), 0);
	assert_false(registered);
	assert_str(reason, "no");
	assert_int_equal(rf_kapi_read_status(GOLDEN(GO_STATUS_OK), &registered, &reason, &err), 0);
	assert_true(registered);
}

static void what_must_be_in_it_comes_first(void **state RF_UNUSED)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_buf b = RF_BUF_INIT;
	struct rf_err err = RF_ERR_INIT;

	assert_int_equal(rf_kapi_prefer(&a, GOLDEN(GO_PREFER), &b, &err), 0);
	assert_bytes(&b, GOLDEN(GO_PREFERRED));
}

static void the_owner_is_the_container_with_just_these_slots(void **state RF_UNUSED)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str both[] = { RF_LIT("slot-2"), RF_LIT("slot-1") }, one[] = { RF_LIT("slot-1") };
	struct rf_kapi_ids two_ids = { both, 2 }, one_id = { one, 1 };
	struct rf_kapi_owner o;
	struct rf_err err = RF_ERR_INIT;

	assert_int_equal(rf_kapi_find_owner(&a, GOLDEN(GO_RESOURCES), RF_LIT("nvidia.com/gpu"),
					    &two_ids, &o, &err),
			 0);
	assert_str(o.ns, "lab");
	assert_str(o.pod, "train");
	assert_str(o.container, "main");
	assert_int_equal(rf_kapi_find_owner(&a, GOLDEN(GO_RESOURCES), RF_LIT("nvidia.com/gpu"),
					    &one_id, &o, &err),
			 -RF_NOT_FOUND);
	assert_int_equal(rf_kapi_find_owner(&a, GOLDEN(GO_RESOURCES), RF_LIT("example.com/x"),
					    &one_id, &o, &err),
			 0);
	assert_str(o.pod, "train");
}

/* Cut anywhere, and with any byte changed: an answer or an error, never a crash. */
static void spoilt_messages_are_errors(void **state RF_UNUSED)
{
	const struct rf_str all[] = { GOLDEN(GO_ALLOCATE), GOLDEN(GO_PREFER), GOLDEN(GO_RESOURCES),
				      GOLDEN(GO_CLAIMS), GOLDEN(GO_STATUS_BAD) };
	struct rf_str one[] = { RF_LIT("slot-1") };
	struct rf_kapi_ids ids = { one, 1 };
	size_t refused = 0;

	for (size_t m = 0; m < RF_COUNT(all); m++)
		for (size_t i = 0; i < all[m].n * 2; i++) {
			rf_auto(arena) a = RF_ARENA_INIT;
			rf_auto(buf) out = RF_BUF_INIT;
			struct rf_err err = RF_ERR_INIT;
			char *copy = rf_arena_array(&a, char, all[m].n + 1);

			memcpy(copy, all[m].p, all[m].n);
			struct rf_str in = rf_str_n(copy, i < all[m].n ? i : all[m].n);
			struct rf_kapi_ids *containers;
			struct rf_kapi_claim *claims;
			struct rf_kapi_owner owner;
			struct rf_str reason;
			bool registered;
			size_t n;

			if (i >= all[m].n)
				copy[i - all[m].n] = (char)(copy[i - all[m].n] ^ 0x85);
			refused += rf_kapi_read_allocate(&a, in, &containers, &n, &err) < 0;
			refused += rf_kapi_prefer(&a, in, &out, &err) < 0;
			refused += rf_kapi_read_claims(&a, in, &claims, &n, &err) < 0;
			refused += rf_kapi_read_status(in, &registered, &reason, &err) < 0;
			refused += rf_kapi_find_owner(&a, in, RF_LIT("nvidia.com/gpu"), &ids, &owner,
						      &err) == -RF_BAD_REQUEST;
		}
	assert_true(refused > 100);
}

static void a_flood_of_entries_is_refused(void **state RF_UNUSED)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) in = RF_BUF_INIT;
	struct rf_err err = RF_ERR_INIT;
	struct rf_kapi_claim *claims;
	size_t n;

	for (int i = 0; i <= RF_KAPI_ITEMS_MAX; i++)
		rf_buf_add(&in, rf_str_n("\x0a\x00", 2));
	assert_int_equal(rf_kapi_read_claims(&a, rf_buf_str(&in), &claims, &n, &err), -RF_TOO_LARGE);
}

static void a_pod_is_known_by_its_cgroup(void **state RF_UNUSED)
{
	const struct {
		const char *text, *uid;
	} cases[] = {
		{ "5:memory:/e2e/kubepods/burstable/podf7a1b2c3-0001-4a55-9b46-1f1b2b1c0001/0123abcd\n",
		  "f7a1b2c3-0001-4a55-9b46-1f1b2b1c0001" },
		{ "0::/kubepods.slice/kubepods-besteffort.slice/"
		  "kubepods-besteffort-podf7a1b2c3_0001_4a55_9b46_1f1b2b1c0001.slice/cri-x.scope\n",
		  "f7a1b2c3-0001-4a55-9b46-1f1b2b1c0001" },
		{ "0::/../../podf7a1b2c3-0001-4a55-9b46-1f1b2b1c0001/abc\n",
		  "f7a1b2c3-0001-4a55-9b46-1f1b2b1c0001" },
		{ "1:name=systemd:/kubepods/pod0123456789abcdef0123456789abcdef/c\n",
		  "0123456789abcdef0123456789abcdef" },
		{ "0::/user.slice/podman-1234.scope\n", NULL },
		{ "0::/kubepods/podbad/x\n", NULL },
		{ "0::/tripodf7a1b2c3-0001-4a55-9b46-1f1b2b1c0001/abc\n", NULL },
		{ "", NULL },
	};
	char uid[64];

	for (size_t i = 0; i < RF_COUNT(cases); i++) {
		bool found = rf_procs_parse(rf_str(cases[i].text), uid);

		assert_int_equal(found, cases[i].uid != NULL);
		if (found)
			assert_string_equal(uid, cases[i].uid);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_we_write_is_what_go_writes),
		cmocka_unit_test(requests_are_read),
		cmocka_unit_test(what_must_be_in_it_comes_first),
		cmocka_unit_test(the_owner_is_the_container_with_just_these_slots),
		cmocka_unit_test(spoilt_messages_are_errors),
		cmocka_unit_test(a_flood_of_entries_is_refused),
		cmocka_unit_test(a_pod_is_known_by_its_cgroup),
	};

	return cmocka_run_group_tests_name("kubelet api", tests, NULL, NULL);
}
