/* The store by itself: history, transactions, and what survives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/wait.h>

#include "apiserver/store.h"

struct fixture {
	struct rf_arena a;
	char dir[64];
	const char *path;
	struct rf_clock_manual clock;
	struct rf_store *s;
	const struct rf_kind *k;
	struct rf_err err;
};

static struct fixture f;

static void open_store(void)
{
	if (rf_store_open(f.path, &f.clock.clock, &f.s, &f.err) < 0)
		fail_msg("%s", f.err.msg);
}

static int setup(void **state)
{
	f = (struct fixture){ .dir = "/tmp/rf-store-XXXXXX" };
	assert_non_null(mkdtemp(f.dir));
	f.path = rf_arena_printf(&f.a, "%s/state.db", f.dir).p;
	rf_clock_manual_init(&f.clock, 1700000000000);
	f.k = rf_kind_get("configmaps");
	open_store();
	return 0;
}

static int teardown(void **state)
{
	char command[128];

	rf_store_free(f.s);
	snprintf(command, sizeof(command), "rm -rf '%s'", f.dir);
	assert_int_equal(system(command), 0);
	rf_arena_done(&f.a);
	return 0;
}

static struct rf_json *object(const char *name, int n)
{
	return rf_json_make(&f.a,
			    "{'metadata':{'name':%s,'namespace':'ns','uid':'u'},'data':{'n':%d}}",
			    name, n);
}

static int put(struct rf_store *s, const struct rf_json *before, struct rf_json *o)
{
	if (rf_store_begin(s, &f.err) < 0)
		return -1;
	if (rf_store_put(s, &f.a, f.k, before, o, &f.err) < 0) {
		rf_store_rollback(s);
		return -1;
	}
	return rf_store_commit(s, NULL, NULL, &f.err);
}

static int count(void *ctx, const struct rf_change *c)
{
	++*(int *)ctx;
	return 0;
}

static int last_prev(void *ctx, const struct rf_change *c)
{
	*(struct rf_str *)ctx = rf_arena_str(&f.a, c->prev);
	return 0;
}

static void versions_only_grow_and_a_rollback_takes_none(void **state)
{
	struct rf_json *o;

	assert_int_equal(put(f.s, NULL, object("a", 1)), 0);
	assert_int_equal(rf_store_rv(f.s), 1);
	assert_int_equal(rf_store_begin(f.s, &f.err), 0);
	assert_int_equal(rf_store_put(f.s, &f.a, f.k, NULL, object("b", 1), &f.err), 0);
	rf_store_rollback(f.s);
	assert_int_equal(rf_store_rv(f.s), 1);
	assert_int_equal(rf_store_get(f.s, &f.a, f.k, RF_LIT("ns"), RF_LIT("b"), &o, &f.err),
			 -RF_NOT_FOUND);
	assert_string_equal(f.err.msg, "configmaps \"b\" not found");
}

static void history_is_told_with_what_was_before(void **state)
{
	struct rf_json *one = object("a", 1), *two = object("a", 2);
	struct rf_str prev = RF_STR_EMPTY;
	int n = 0;

	assert_int_equal(put(f.s, NULL, one), 0);
	assert_int_equal(put(f.s, one, two), 0);
	assert_int_equal(rf_store_history(f.s, f.k, 0, count, &n, &f.err), 0);
	assert_int_equal(n, 2);
	assert_int_equal(rf_store_history(f.s, f.k, 1, last_prev, &prev, &f.err), 0);
	assert_true(rf_str_eq(prev, rf_json_text_of(&f.a, one)));
}

static const struct rf_keep FEW = { .ms = 1000, .rows = 5, .bytes = 1 << 20 };
static const struct rf_keep SHORT = { .ms = 1000, .rows = 1000, .bytes = 1 << 20 };
static const struct rf_keep SMALL = { .ms = 1000, .rows = 1000, .bytes = 2000 };

static void history_is_kept_small_too(void **state)
{
	for (int i = 0; i < 200; i++) {
		char name[16];

		snprintf(name, sizeof(name), "o%d", i);
		assert_int_equal(put(f.s, NULL, object(name, i)), 0);
	}
	while (rf_store_trim(f.s, &SMALL, &f.err) > 0)
		;
	assert_true(rf_store_oldest(f.s) > 100 && rf_store_oldest(f.s) < 200);
}

static void forgotten_history_is_gone_and_the_counter_stays(void **state)
{
	int n = 0;

	for (int i = 0; i < 20; i++) {
		char name[16];

		snprintf(name, sizeof(name), "o%d", i);
		assert_int_equal(put(f.s, NULL, object(name, i)), 0);
	}
	assert_int_equal(rf_store_trim(f.s, &FEW, &f.err), 1);
	assert_int_equal(rf_store_oldest(f.s), 15);
	assert_int_equal(rf_store_history(f.s, f.k, 14, count, &n, &f.err), -RF_GONE);
	assert_int_equal(rf_store_history(f.s, f.k, 15, count, &n, &f.err), 0);
	assert_int_equal(n, 5);
	rf_clock_manual_advance(&f.clock, 5000);
	assert_int_equal(rf_store_trim(f.s, &SHORT, &f.err), 1);
	assert_int_equal(rf_store_trim(f.s, &SHORT, &f.err), 0);
	assert_int_equal(rf_store_count(f.s, f.k, RF_LIT("ns")), 20);
	rf_store_free(f.s);
	open_store();
	assert_int_equal(rf_store_rv(f.s), 20);
	assert_int_equal(rf_store_oldest(f.s), 19);
}

static void an_object_that_is_too_large_is_refused(void **state)
{
	struct rf_json *o = object("big", 1);
	size_t n = RF_OBJECT_MAX + RF_OBJECT_ROOM;
	char *text = rf_alloc(n);

	memset(text, 'x', n);
	rf_json_set_str(&f.a, o, "text", rf_str_n(text, n));
	free(text);
	assert_int_equal(put(f.s, NULL, o), -1);
	assert_int_equal(f.err.code, RF_TOO_LARGE);
}

/* Writes objects and says each number once it is acknowledged, until somebody kills it. */
static _Noreturn void writer(int out)
{
	struct rf_store *s = NULL;

	if (rf_store_open(f.path, rf_clock_system(), &s, &f.err) < 0)
		_exit(1);
	for (int i = 0;; i++) {
		char name[16];

		snprintf(name, sizeof(name), "k%d", i);
		if (put(s, NULL, object(name, i)) != 0 || write(out, &i, sizeof(i)) != sizeof(i))
			_exit(1);
		rf_arena_reset(&f.a);
	}
}

static void nothing_acknowledged_is_lost_by_kill_9(void **state)
{
	int fds[2], last = -1, got, status;
	pid_t pid;

	f.path = rf_arena_printf(&f.a, "%s/kill.db", f.dir).p;
	f.path = rf_strdup(f.path);
	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (pid == 0)
		writer(fds[1]);
	close(fds[1]);
	while (last < 200 && read(fds[0], &got, sizeof(got)) == sizeof(got))
		last = got;
	kill(pid, SIGKILL);
	while (read(fds[0], &got, sizeof(got)) == sizeof(got))
		last = got;
	close(fds[0]);
	waitpid(pid, &status, 0);
	assert_true(WIFSIGNALED(status) && last >= 200);
	rf_store_free(f.s);
	open_store();
	for (int i = 0; i <= last; i++) {
		char name[16];

		snprintf(name, sizeof(name), "k%d", i);
		assert_true(rf_store_has(f.s, f.k, RF_LIT("ns"), rf_str(name)));
	}
	assert_true(rf_store_rv(f.s) >= last + 1);
	free((char *)f.path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(versions_only_grow_and_a_rollback_takes_none, setup,
						teardown),
		cmocka_unit_test_setup_teardown(history_is_told_with_what_was_before, setup,
						teardown),
		cmocka_unit_test_setup_teardown(forgotten_history_is_gone_and_the_counter_stays,
						setup, teardown),
		cmocka_unit_test_setup_teardown(history_is_kept_small_too, setup, teardown),
		cmocka_unit_test_setup_teardown(an_object_that_is_too_large_is_refused, setup,
						teardown),
		cmocka_unit_test_setup_teardown(nothing_acknowledged_is_lost_by_kill_9, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
