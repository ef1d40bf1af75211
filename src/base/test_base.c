#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <errno.h>
#include <sys/stat.h>

#include "base/base.h"
#include "base/fs.h"

static void assert_str(struct rf_str got, const char *want)
{
	if (!rf_str_is(got, want))
		fail_msg("got \"%.*s\", want \"%s\"", RF_STR(got), want);
}

static void an_error_carries_code_and_text(void **state)
{
	struct rf_err err = RF_ERR_INIT;

	assert_int_equal(rf_fail(&err, RF_NOT_FOUND, "pod %s: gone", "a/b"), -RF_NOT_FOUND);
	assert_int_equal(rf_wrap(&err, "bind"), -RF_NOT_FOUND);
	assert_string_equal(err.msg, "bind: pod a/b: gone");
	errno = ENOENT;
	assert_int_equal(rf_fail_errno(&err, "open x"), -RF_SYSTEM);
	assert_string_equal(err.msg, "open x: No such file or directory");
}

static void every_code_has_a_row_in_the_table(void **state)
{
	for (int i = 0; i < RF_CODE_COUNT; i++) {
		const struct rf_code_info *info = rf_code_info(i);

		assert_non_null(info->name);
		if (i != RF_OK)
			assert_true(info->http >= 400 && info->exit > 0);
	}
	assert_int_equal(rf_code_from_http(409, "AlreadyExists"), RF_EXISTS);
	assert_int_equal(rf_code_from_http(409, "Conflict"), RF_CONFLICT);
	assert_int_equal(rf_code_from_http(409, ""), RF_CONFLICT);
	assert_int_equal(rf_code_from_http(204, ""), RF_OK);
	assert_int_equal(rf_code_from_http(418, ""), RF_BAD_REQUEST);
}

static void an_error_longer_than_its_room_is_cut_not_overrun(void **state)
{
	struct rf_err err = RF_ERR_INIT;
	char big[3000];

	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	rf_fail(&err, RF_INVALID, "%s", big);
	assert_int_equal(strlen(err.msg), RF_ERR_MAX - 1);
	rf_wrap(&err, "%s", big);
	assert_int_equal(strlen(err.msg), RF_ERR_MAX - 1);
}

static void strings_are_cut_compared_and_trimmed(void **state)
{
	struct rf_str s = RF_LIT("a=b=c"), head;

	assert_true(rf_str_cut(&s, '=', &head));
	assert_str(head, "a");
	assert_str(s, "b=c");
	s = RF_LIT("none");
	assert_false(rf_str_cut(&s, '=', &head));
	assert_str(head, "none");
	assert_int_equal(s.n, 0);
	assert_str(rf_str_trim(RF_LIT(" \tx y\r\n")), "x y");
	assert_true(rf_str_cmp(RF_LIT("a"), RF_LIT("ab")) < 0);
	assert_true(rf_str_cmp(RF_LIT("b"), RF_LIT("ab")) > 0);
	assert_true(rf_str_ieq(RF_LIT("Content-TYPE"), RF_LIT("content-type")));
	assert_true(rf_str_contains(RF_LIT("haystack"), RF_LIT("st")));
	assert_false(rf_str_contains(RF_LIT(""), RF_LIT("st")));
}

static void integers_are_whole_and_in_range(void **state)
{
	int64_t v = 7;

	assert_int_equal(rf_str_int(RF_LIT("-9223372036854775808"), &v, NULL), 0);
	assert_true(v == INT64_MIN);
	assert_int_equal(rf_str_int(RF_LIT("9223372036854775807"), &v, NULL), 0);
	assert_true(v == INT64_MAX);
	v = 7;
	assert_int_equal(rf_str_int(RF_LIT("9223372036854775808"), &v, NULL), -RF_INVALID);
	assert_int_equal(rf_str_int(RF_LIT("12x"), &v, NULL), -RF_INVALID);
	assert_int_equal(rf_str_int(RF_LIT("-"), &v, NULL), -RF_INVALID);
	assert_int_equal(rf_str_int(RF_LIT(""), &v, NULL), -RF_INVALID);
	assert_int_equal(v, 7);
}

static void names_follow_kubernetes_rules(void **state)
{
	char long_label[65];

	memset(long_label, 'a', 64);
	long_label[64] = '\0';
	assert_true(rf_str_is_dns_label(RF_LIT("team-a")));
	assert_false(rf_str_is_dns_label(RF_LIT("Team")));
	assert_false(rf_str_is_dns_label(RF_LIT("-a")));
	assert_false(rf_str_is_dns_label(RF_LIT("a.b")));
	assert_false(rf_str_is_dns_label(rf_str(long_label)));
	assert_true(rf_str_is_dns_subdomain(RF_LIT("gpu-1.rack2.example")));
	assert_false(rf_str_is_dns_subdomain(RF_LIT("a..b")));
	assert_true(rf_str_is_label_key(RF_LIT("ringfence.io/tenant")));
	assert_false(rf_str_is_label_key(RF_LIT("/x")));
	assert_true(rf_str_is_label_value(RF_LIT("")));
	assert_false(rf_str_is_label_value(RF_LIT("a b")));
}

static void an_arena_refuses_past_its_cap(void **state)
{
	rf_auto(arena) a = RF_ARENA_CAPPED(1000);

	assert_non_null(rf_arena_try(&a, 600));
	assert_null(rf_arena_try(&a, 600));
	assert_null(rf_arena_try(&a, SIZE_MAX - 100));
	assert_non_null(rf_arena_alloc(&a, 600)); /* ringfence's own needs are not the tenant's cap */
}

static void arena_memory_is_zero_also_after_a_reset(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	unsigned char *p = rf_arena_alloc(&a, 100);

	memset(p, 0xff, 100);
	(void)rf_arena_printf(&a, "%s", "hello");
	rf_arena_reset(&a);
	assert_int_equal(a.used, 0);
	p = rf_arena_alloc(&a, 4000);
	for (int i = 0; i < 4000; i++)
		assert_int_equal(p[i], 0);
}

static void a_buffer_grows_and_stays_terminated(void **state)
{
	rf_auto(buf) b = RF_BUF_INIT;

	assert_int_equal(b.p[0], '\0');
	for (int i = 0; i < 1000; i++)
		rf_buf_printf(&b, "%d,", i);
	assert_int_equal(strlen(b.p), b.n);
	rf_buf_drop(&b, 2);
	assert_true(rf_str_starts(rf_buf_str(&b), RF_LIT("1,2,3,")));
	rf_buf_clear(&b);
	assert_int_equal(b.n, 0);
}

static void a_map_holds_what_was_put_in(void **state)
{
	struct rf_map m = RF_MAP_INIT;
	struct rf_prng r = { .state = 42 };
	static char present[512];
	int live = 0;

	for (int step = 0; step < 20000; step++) {
		uint64_t k = rf_prng_below(&r, 512);
		char key[16];

		snprintf(key, sizeof(key), "key-%d", (int)k);
		if (rf_prng_below(&r, 2) == 0) {
			void *before = rf_map_set(&m, rf_str(key), &present[k]);

			assert_true((before != NULL) == (present[k] != 0));
			live += before == NULL;
			present[k] = 1;
		} else {
			void *gone = rf_map_del(&m, rf_str(key));

			assert_true((gone != NULL) == (present[k] != 0));
			live -= gone != NULL;
			present[k] = 0;
		}
		assert_int_equal(m.n, live);
	}
	for (int k = 0; k < 512; k++) {
		char key[16];

		snprintf(key, sizeof(key), "key-%d", k);
		assert_ptr_equal(rf_map_get(&m, rf_str(key)), present[k] ? &present[k] : NULL);
	}
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&m, s)) != NULL;)
		live--;
	assert_int_equal(live, 0);
	rf_map_done(&m);
}

static void siphash_gives_the_reference_value(void **state)
{
	/* SipHash-1-3 of 00..0e under key 00..0f, from the reference implementation's vectors. */
	uint8_t key[16], data[15];

	for (uint8_t i = 0; i < 16; i++)
		key[i] = i;
	for (uint8_t i = 0; i < 15; i++)
		data[i] = i;
	assert_true(rf_siphash13(key, data, 0) == 0xabac0158050fc4dcULL);
	assert_true(rf_siphash13(key, data, 1) == 0xc9f49bf37d57ca93ULL);
	assert_true(rf_siphash13(key, data, 7) == 0xd3927d989bb11140ULL);
	assert_true(rf_siphash13(key, data, 8) == 0x369095118d299a8eULL);
	assert_true(rf_siphash13(key, data, 9) == 0x25a48eb36c063de4ULL);
	assert_true(rf_siphash13(key, data, 15) == 0xd320d86d2a519956ULL);
}

static void a_slot_of_a_map_is_made_once_and_keeps_its_key(void **state)
{
	struct rf_map m = RF_MAP_INIT;
	struct rf_map_slot *s = rf_map_slot(&m, RF_LIT("first"));
	struct rf_str key = rf_map_key(s);
	char name[16];
	int value = 1;

	assert_null(s->value);
	s->value = &value;
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "%d", i);
		rf_map_set(&m, rf_str(name), &value);
	}
	assert_str(key, "first"); /* though all slots have moved */
	assert_ptr_equal(rf_map_key(rf_map_slot(&m, RF_LIT("first"))).p, key.p);
	assert_ptr_equal(rf_map_slot(&m, RF_LIT("first"))->value, &value);
	assert_int_equal(m.n, 1001);
	rf_map_done(&m);
}

static void numbers_are_added_to_a_buffer_byte_by_byte(void **state)
{
	rf_auto(buf) a = RF_BUF_INIT;
	rf_auto(buf) b = RF_BUF_INIT;

	for (uint64_t i = 0; i < 100; i++) {
		uint64_t n = i * 0x0123456789abcdefULL;

		rf_buf_add_n(&a, n);
		rf_buf_add(&b, rf_str_n((const char *)&n, sizeof(n)));
		assert_true(rf_str_eq(rf_buf_str(&a), rf_buf_str(&b)));
		assert_int_equal(a.p[a.n], 0);
	}
}

static void times_are_written_and_read_back(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	int64_t ms = 0;

	assert_str(rf_time_format(&a, 1794803515000), "2026-11-16T04:31:55Z");
	assert_int_equal(rf_time_parse(RF_LIT("2026-11-16T04:31:55Z"), &ms, NULL), 0);
	assert_true(ms == 1794803515000);
	assert_int_equal(rf_time_parse(RF_LIT("2026-11-16T06:31:55.123456+02:00"), &ms, NULL), 0);
	assert_true(ms == 1794803515123);
	assert_int_equal(rf_time_parse(RF_LIT("2026-13-16T04:31:55Z"), &ms, NULL), -RF_INVALID);
	assert_int_equal(rf_time_parse(RF_LIT("yesterday"), &ms, NULL), -RF_INVALID);
	assert_str(rf_time_age(&a, 45000), "45s");
	assert_str(rf_time_age(&a, 200000), "3m20s");
	assert_str(rf_time_age(&a, 3600000LL * 50), "2d2h");
}

static void check_quantity(const char *text, int64_t milli)
{
	int64_t v = -1;
	struct rf_err err = RF_ERR_INIT;

	if (rf_quantity_milli(rf_str(text), &v, &err) < 0)
		fail_msg("%s: %s", text, err.msg);
	if (v != milli)
		fail_msg("%s is %lld thousandths, want %lld", text, (long long)v, (long long)milli);
}

static void quantities_are_exact(void **state)
{
	check_quantity("0", 0);
	check_quantity("2", 2000);
	check_quantity("500m", 500);
	check_quantity("1.5", 1500);
	check_quantity(".5", 500);
	check_quantity("2.", 2000);
	check_quantity("20Gi", 20LL * 1024 * 1024 * 1024 * 1000);
	check_quantity("1e3", 1000000);
}

static void malformed_quantities_are_refused(void **state)
{
	static const char *const bad[] = { "", "x", "1x", "--1", "1 Gi", ".", "-", "1e", "1e99",
					   "9999999999999999999", "1Zi", "0x10", "1..2" };
	int64_t v = 7;

	for (size_t i = 0; i < RF_COUNT(bad); i++)
		if (rf_quantity_milli(rf_str(bad[i]), &v, NULL) == 0)
			fail_msg("%s was taken as %lld", bad[i], (long long)v);
	assert_int_equal(v, 7);
}

static void quantities_are_written_in_the_unit_that_fits(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	assert_str(rf_quantity_bytes(&a, 20LL << 30), "20Gi");
	assert_str(rf_quantity_bytes(&a, 1536LL << 20), "1536Mi");
	assert_str(rf_quantity_bytes(&a, 1001), "1001");
	assert_str(rf_quantity_bytes(&a, 0), "0");
	assert_str(rf_quantity_format_milli(&a, 2500), "2500m");
	assert_str(rf_quantity_format_milli(&a, 3000), "3");
}

static void uuids_are_version_4(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str u = rf_rand_uuid(&a);

	assert_int_equal(u.n, 36);
	assert_int_equal(u.p[14], '4');
	assert_non_null(strchr("89ab", u.p[19]));
	assert_false(rf_str_eq(u, rf_rand_uuid(&a)));
}

static void a_file_is_written_whole_and_read_back_under_its_cap(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	char dir[] = "/tmp/rf-base-XXXXXX";
	struct rf_err err = RF_ERR_INIT;
	struct rf_str text = RF_STR_EMPTY;
	struct stat st = { 0 };
	const char *path = NULL;

	assert_non_null(mkdtemp(dir));
	path = rf_fs_path(&a, "%s/x", dir);
	assert_int_equal(rf_fs_read(&a, path, 100, &text, &err), -RF_NOT_FOUND);
	assert_int_equal(rf_fs_write(path, RF_LIT("hello"), 0640, true, &err), 0);
	assert_int_equal(rf_fs_read(&a, path, 5, &text, &err), 0);
	assert_str(text, "hello");
	assert_int_equal(rf_fs_read(&a, path, 4, &text, &err), -RF_TOO_LARGE);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0640);
	assert_int_equal(rf_fs_remove_tree(dir, &err), 0);
	assert_false(rf_fs_exists(dir));
}

static void what_lies_ready_is_not_written_through(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	char dir[] = "/tmp/rf-base-XXXXXX";
	struct rf_err err = RF_ERR_INIT;
	struct rf_str text = RF_STR_EMPTY;

	/* Somebody expects our temporary name and puts a link there. */
	assert_non_null(mkdtemp(dir));
	assert_int_equal(rf_fs_write(rf_fs_path(&a, "%s/victim", dir), RF_LIT("his"), 0600, false, &err), 0);
	assert_int_equal(symlink("victim", rf_fs_path(&a, "%s/secret.tmp", dir)), 0);
	assert_int_equal(rf_fs_write(rf_fs_path(&a, "%s/secret", dir), RF_LIT("ours"), 0600, false, &err), 0);
	assert_int_equal(rf_fs_read(&a, rf_fs_path(&a, "%s/victim", dir), 100, &text, &err), 0);
	assert_str(text, "his");
	assert_int_equal(rf_fs_remove_tree(dir, &err), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_error_carries_code_and_text),
		cmocka_unit_test(every_code_has_a_row_in_the_table),
		cmocka_unit_test(an_error_longer_than_its_room_is_cut_not_overrun),
		cmocka_unit_test(strings_are_cut_compared_and_trimmed),
		cmocka_unit_test(integers_are_whole_and_in_range),
		cmocka_unit_test(names_follow_kubernetes_rules),
		cmocka_unit_test(an_arena_refuses_past_its_cap),
		cmocka_unit_test(arena_memory_is_zero_also_after_a_reset),
		cmocka_unit_test(a_buffer_grows_and_stays_terminated),
		cmocka_unit_test(a_map_holds_what_was_put_in),
		cmocka_unit_test(siphash_gives_the_reference_value),
		cmocka_unit_test(a_slot_of_a_map_is_made_once_and_keeps_its_key),
		cmocka_unit_test(numbers_are_added_to_a_buffer_byte_by_byte),
		cmocka_unit_test(times_are_written_and_read_back),
		cmocka_unit_test(quantities_are_exact),
		cmocka_unit_test(malformed_quantities_are_refused),
		cmocka_unit_test(quantities_are_written_in_the_unit_that_fits),
		cmocka_unit_test(uuids_are_version_4),
		cmocka_unit_test(a_file_is_written_whole_and_read_back_under_its_cap),
		cmocka_unit_test(what_lies_ready_is_not_written_through),
	};

	return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
