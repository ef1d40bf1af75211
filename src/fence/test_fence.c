/* The fence from outside: an agent (server.c) in this process, tenants in others. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "fence/server.h"
#include "fence/test/fake.h"

#define MIB ((uint64_t)1 << 20)
#define CAP (256 * MIB)

struct agent {
	pthread_t thread;
	int stop_fd;
	struct rf_fence_server *server;
};

static char folder[] = "/tmp/ringfence-fence-XXXXXX";
static struct agent the_agent;

static void *serve(void *arg)
{
	struct agent *g = arg;
	struct pollfd p[] = { { .fd = rf_fence_server_fd(g->server), .events = POLLIN },
			      { .fd = g->stop_fd, .events = POLLIN } };

	while (poll(p, RF_COUNT(p), -1) < 0 || !p[1].revents)
		rf_fence_server_turn(g->server);
	return NULL;
}

static void start_agent_with(struct rf_arbiter *arbiter, const struct rf_fence_card *cards, size_t n)
{
	struct agent *g = &the_agent;
	struct rf_err err = RF_ERR_INIT;

	if (rf_fence_server_start(".", "ledger", cards, n, arbiter, &g->server, &err) < 0)
		fail_msg("%s", err.msg);
	g->stop_fd = eventfd(0, EFD_CLOEXEC);
	assert_true(g->stop_fd >= 0);
	assert_int_equal(pthread_create(&g->thread, NULL, serve, g), 0);
}

static void start_agent(const struct rf_fence_card *cards, size_t n)
{
	start_agent_with(NULL, cards, n);
}

static void stop_agent(void)
{
	struct agent *g = &the_agent;

	assert_int_equal(eventfd_write(g->stop_fd, 1), 0);
	assert_int_equal(pthread_join(g->thread, NULL), 0);
	close(g->stop_fd);
	rf_fence_server_stop(g->server);
	g->server = NULL;
}

static const struct rf_fence_card usual[] = {
	{ .uuid = FAKE_UUID_0, .memory_bytes = CAP },
	{ .uuid = FAKE_UUID_1 },
};

static int make_shared(void)
{
	int fd = open("shared", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 4096), 0);
	return fd;
}

static int each_setup(void **state)
{
	close(make_shared());
	unlink("ledger");
	start_agent(usual, 2);
	return 0;
}

static int each_teardown(void **state)
{
	stop_agent();
	return 0;
}

/* --- tenants --- */

struct tenant {
	pid_t pid;
	int in; /* close it to let the tenant end */
	int out;
};

static struct tenant spawn(const char *program, const char *arg1, const char *arg2)
{
	static char preload[] = "LD_PRELOAD=" FENCE_DIR "/libringfence_test.so";
	static char path[] = "LD_LIBRARY_PATH=" FENCE_DIR;
	static char shared[] = "FAKE_CUDA_SHARED=shared";
	/* What other interposers take their limits from, and what a tenant may try. */
	static char try1[] = "CUDA_DEVICE_MEMORY_LIMIT=0", try2[] = "RF_FENCE_SOCKET=/tmp/none";
	static char try3[] = "CUDA_DISABLE_CONTROL=true", try4[] = "RINGFENCE_DISABLE=1";
	char *env[] = { preload, path, shared, try1, try2, try3, try4, NULL };
	char *argv[] = { (char *)(uintptr_t)program, (char *)(uintptr_t)arg1,
			 (char *)(uintptr_t)arg2, NULL };
	posix_spawn_file_actions_t actions;
	struct tenant t = { .pid = -1 };
	int in[2], out[2];

	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, in[0], 0);
	posix_spawn_file_actions_adddup2(&actions, out[1], 1);
	assert_int_equal(posix_spawn(&t.pid, program, &actions, NULL, argv, env), 0);
	posix_spawn_file_actions_destroy(&actions);
	close(in[0]);
	close(out[1]);
	t.in = in[1];
	t.out = out[0];
	return t;
}

static int finish(struct tenant t)
{
	int status = -1;

	close(t.in);
	close(t.out);
	assert_int_equal(waitpid(t.pid, &status, 0), t.pid);
	return status;
}

static int run(const char *scenario, const char *arg)
{
	return finish(spawn(FENCE_DIR "/fence_probe", scenario, arg));
}

static struct tenant start_holder(const char *mib)
{
	struct tenant t = spawn(FENCE_DIR "/fence_probe", "hold", mib);
	char c = 0;

	assert_int_equal(read(t.out, &c, 1), 1);
	assert_int_equal(c, 'r');
	return t;
}

static struct rf_fence_usage usage(void)
{
	struct rf_fence_usage u;

	assert_int_equal(rf_fence_server_usage(the_agent.server, 0, &u), 0);
	return u;
}

/* --- promises --- */

static void every_counted_path_stops_at_the_cap_and_ends_at_zero(void **state)
{
	static const char *const paths[] = { "alloc",  "pitch", "managed", "async", "async-ptsz",
					     "create", "array", "array3d", "mipmap" };

	for (size_t i = 0; i < RF_COUNT(paths); i++) {
		print_message("  %s\n", paths[i]);
		assert_int_equal(run("path", paths[i]), 0);
		assert_int_equal(usage().used_bytes, 0);
	}
	assert_int_equal(usage().refusals > 0, 1);
}

static void a_pool_is_charged_for_what_it_keeps(void **state)
{
	assert_int_equal(run("own-pool", ""), 0);
}

static void a_mapped_or_retained_handle_stays_charged_after_release(void **state)
{
	assert_int_equal(run("mapped", ""), 0);
}

static void a_failed_call_and_a_wrong_free_leave_the_books_alone(void **state)
{
	assert_int_equal(run("roll-back", ""), 0);
}

static void a_context_takes_its_charges_with_it(void **state)
{
	assert_int_equal(run("contexts", ""), 0);
}

static void cuda_and_nvml_show_the_cap_as_the_card(void **state)
{
	assert_int_equal(run("views", ""), 0);
}

static void what_is_not_counted_is_refused(void **state)
{
	assert_int_equal(run("refusals", ""), 0);
}

static void every_way_to_find_a_function_finds_the_hook(void **state)
{
	assert_int_equal(run("lookups", ""), 0);
	assert_int_equal(run("proc-address", ""), 0);
}

static void a_program_without_a_driver_gets_none_from_the_fence(void **state)
{
	assert_int_equal(finish(spawn(FENCE_DIR "/fence_plain", NULL, NULL)), 0);
}

static void the_environment_changes_nothing(void **state)
{
	assert_int_equal(run("in-vain", ""), 0);
}

static void a_forked_child_counts_for_itself(void **state)
{
	assert_int_equal(run("fork", ""), 0);
	assert_int_equal(usage().used_bytes, 0);
}

static void closing_every_descriptor_does_not_lose_the_charge(void **state)
{
	assert_int_equal(run("closed-fds", ""), 0);
}

static void a_newer_driver_than_the_library_knows_is_one_that_it_knows(void **state)
{
	assert_int_equal(run("newer-driver", ""), 0);
}

static void a_whole_card_is_not_held_back(void **state)
{
	static const struct rf_fence_card whole = { .uuid = FAKE_UUID_0 };

	stop_agent();
	start_agent(&whole, 1);
	assert_int_equal(run("whole", ""), 0);
	assert_int_equal(run("newer-driver-whole", ""), 0);
	assert_int_equal(run("stranger", ""), 0);
}

static void eight_processes_of_eight_threads_never_pass_the_cap(void **state)
{
	struct tenant t[8];
	int fd = make_shared();
	uint64_t live_peak[2];

	for (int i = 0; i < 8; i++) {
		char number[8];

		snprintf(number, sizeof(number), "%d", i);
		t[i] = spawn(FENCE_DIR "/fence_probe", "hammer", number);
	}
	for (int i = 0; i < 8; i++)
		assert_int_equal(finish(t[i]), 0);
	assert_int_equal(pread(fd, live_peak, sizeof(live_peak), 0), sizeof(live_peak));
	print_message("  peak %llu of %llu bytes, %llu refusals\n",
		      (unsigned long long)live_peak[1], (unsigned long long)CAP,
		      (unsigned long long)usage().refusals);
	assert_int_equal(live_peak[0], 0);
	assert_true(live_peak[1] <= CAP);
	assert_true(usage().refusals > 0);
	assert_int_equal(usage().used_bytes, 0);
	close(fd);
}

static void a_killed_process_leaves_no_charge(void **state)
{
	struct tenant a = start_holder("200");
	pid_t pids[4];

	assert_int_equal(usage().used_bytes, 200 * MIB);
	assert_int_equal(usage().processes, 1);
	assert_int_equal(rf_fence_server_pids(the_agent.server, pids, 4), 1);
	assert_int_equal(pids[0], a.pid);
	assert_int_equal(kill(a.pid, SIGKILL), 0);
	assert_int_equal(finish(a), SIGKILL);
	assert_int_equal(usage().used_bytes, 0);
	assert_int_equal(rf_fence_server_pids(the_agent.server, pids, 4), 0);
	assert_int_equal(run("in-vain", ""), 0); /* the whole cap is free again */
}

/* Killed wherever they happen to be, in the lock or in the driver, they block nobody. */
static void processes_killed_at_random_leave_the_ledger_usable(void **state)
{
	struct rf_prng r = { .state = 20261115 };

	for (int i = 0; i < 60; i++) {
		struct tenant t = spawn(FENCE_DIR "/fence_probe", "hammer", "1");
		struct timespec nap = { .tv_nsec = (long)rf_prng_below(&r, 12000000) };

		nanosleep(&nap, NULL); /* not waiting for anything: the moment is the point */
		kill(t.pid, SIGKILL);
		finish(t);
		assert_int_equal(usage().used_bytes, 0);
	}
	assert_int_equal(run("in-vain", ""), 0);
}

static void without_an_agent_there_is_no_card(void **state)
{
	stop_agent();
	assert_int_equal(run("no-agent", ""), 0);
	start_agent(usual, 2);
}

static void a_restarted_agent_takes_over_the_ledger(void **state)
{
	struct tenant a = start_holder("200");
	pid_t pid = 0;

	stop_agent();
	start_agent(usual, 2);
	assert_int_equal(usage().used_bytes, 200 * MIB);
	assert_int_equal(rf_fence_server_pids(the_agent.server, &pid, 1), 1);
	assert_int_equal(pid, a.pid);
	assert_int_equal(WEXITSTATUS(run("ask", "100")), 2); /* CUDA_ERROR_OUT_OF_MEMORY */
	assert_int_equal(finish(a), 0);
	assert_int_equal(run("ask", "100"), 0);
}

static void a_ledger_that_the_tenant_spoiled_is_not_believed(void **state)
{
	struct rf_fence_usage u;
	struct rf_fence_server *s = NULL;
	struct rf_err err = RF_ERR_INIT;
	struct tenant a = start_holder("10");
	uint64_t lie = UINT64_MAX;
	int fd = open("ledger", O_RDWR | O_CLOEXEC);
	struct stat st;

	for (unsigned i = 0; i < RF_LEDGER_SEATS; i++)
		assert_int_equal(
			pwrite(fd, &lie, 8, (off_t)offsetof(struct rf_ledger, used) + i * 8), 8);
	assert_int_equal(usage().used_bytes, CAP);
	assert_int_equal(ftruncate(fd, 1 << 26), 0);
	assert_int_equal(usage().used_bytes, CAP);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, sizeof(struct rf_ledger));
	kill(a.pid, SIGKILL); /* it would meet a file that is gone under its mapping */
	finish(a);
	assert_int_equal(ftruncate(fd, 10), 0);
	assert_int_equal(rf_fence_server_usage(the_agent.server, 0, &u), -RF_CONFLICT);
	assert_int_equal(u.cap_bytes, CAP);
	close(fd);
	assert_int_equal(
		rf_fence_server_start("other", "ledger", usual, 2, NULL, &s, &err),
		-RF_CONFLICT);
}

static int dial(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX, .sun_path = "fence.sock" };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	return fd;
}

static void a_look_at_the_seats_comes_to_an_end(void **state)
{
	struct tenant t = start_holder("64");
	pid_t pid;

	assert_int_equal(rf_fence_server_pids(the_agent.server, &pid, 1), 1);
	assert_false(rf_fence_server_jammed(the_agent.server));
	rf_fence_server_set_patience(the_agent.server, -1); /* as if the kernel took long */
	assert_int_equal(rf_fence_server_pids(the_agent.server, &pid, 1), 0);
	assert_true(rf_fence_server_jammed(the_agent.server));
	assert_int_equal(finish(t), 0);
}

static void guests_who_talk_nonsense_or_nothing_do_not_stop_others(void **state)
{
	int silent[100];
	struct rf_fence_hello old = { .magic = RF_FENCE_MAGIC, .version = 999 };
	struct rf_fence_reply reply;
	char junk[4096] = "junk";
	int fd = dial();

	assert_int_equal(send(fd, junk, sizeof(junk), 0), sizeof(junk));
	assert_int_equal(recv(fd, &reply, sizeof(reply), 0), 0);
	close(fd);
	fd = dial();
	assert_int_equal(send(fd, &old, sizeof(old), 0), sizeof(old));
	assert_int_equal(recv(fd, &reply, sizeof(reply), 0), sizeof(reply));
	assert_int_equal(reply.status, RF_FENCE_BAD_VERSION);
	close(fd);
	for (size_t i = 0; i < RF_COUNT(silent); i++)
		silent[i] = dial();
	for (size_t i = 0; i < RF_COUNT(silent); i++)
		close(silent[i]);
	assert_int_equal(run("in-vain", ""), 0);
}

static int setup(void **state)
{
	return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int teardown(void **state)
{
	unlink("ledger");
	unlink("shared");
	unlink("fence.sock");
	rmdir("other");
	return chdir("/") == 0 && rmdir(folder) == 0 ? 0 : -1;
}

#define PROMISE(f) cmocka_unit_test_setup_teardown(f, each_setup, each_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		PROMISE(every_counted_path_stops_at_the_cap_and_ends_at_zero),
		PROMISE(a_pool_is_charged_for_what_it_keeps),
		PROMISE(a_mapped_or_retained_handle_stays_charged_after_release),
		PROMISE(a_failed_call_and_a_wrong_free_leave_the_books_alone),
		PROMISE(a_context_takes_its_charges_with_it),
		PROMISE(cuda_and_nvml_show_the_cap_as_the_card),
		PROMISE(what_is_not_counted_is_refused),
		PROMISE(every_way_to_find_a_function_finds_the_hook),
		PROMISE(a_program_without_a_driver_gets_none_from_the_fence),
		PROMISE(the_environment_changes_nothing),
		PROMISE(a_forked_child_counts_for_itself),
		PROMISE(closing_every_descriptor_does_not_lose_the_charge),
		PROMISE(a_newer_driver_than_the_library_knows_is_one_that_it_knows),
		PROMISE(a_whole_card_is_not_held_back),
		PROMISE(eight_processes_of_eight_threads_never_pass_the_cap),
		PROMISE(a_killed_process_leaves_no_charge),
		PROMISE(processes_killed_at_random_leave_the_ledger_usable),
		PROMISE(without_an_agent_there_is_no_card),
		PROMISE(a_restarted_agent_takes_over_the_ledger),
		PROMISE(a_ledger_that_the_tenant_spoiled_is_not_believed),
		PROMISE(a_look_at_the_seats_comes_to_an_end),
		PROMISE(guests_who_talk_nonsense_or_nothing_do_not_stop_others),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
