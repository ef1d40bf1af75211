/* MPS daemons as an agent keeps them, with the stand-in of the simulation; and who shares by MPS at all. Daemons have a
 * tmpfs each, which needs root; says so and stops otherwise. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fs.h"
#include "node/cards.h"
#include "node/mps.h"
#include "node/sharing.h"

#define STAND_IN SIM_LIB_DIR "/" RF_MPS_PROGRAM

static struct {
	struct rf_arena arena;
	char dir[32];
	struct rf_clock_manual clock;
	struct rf_mps *m;
	struct rf_err err;
} t;

static const struct rf_gpu_card CARDS[] = { { .index = 0, .uuid = "GPU-a" }, { .index = 3, .uuid = "GPU-b" } };

static const char *at(const char *path)
{
	return rf_fs_path(&t.arena, "%s/mps%s%s", t.dir, path[0] ? "/" : "", path);
}

static void open_with(const char *program)
{
	struct rf_mps_opts o = { .dir = at(""), .program = program, .clock = &t.clock.clock };

	t.m = rf_mps_open(&o);
}

/* As if another agent came: this one is forgotten, whatever it was about to do. */
static void next_agent(void)
{
	rf_mps_close(t.m);
	open_with(STAND_IN);
}

static int join(int card, const char *domain, const char *owner)
{
	t.err = (struct rf_err)RF_ERR_INIT;
	return rf_mps_join(t.m, &CARDS[card], rf_str(domain), rf_str(owner), &t.err);
}

/* A busy machine may take longer than the agent waits at once. */
static void joins(int card, const char *domain, const char *owner)
{
	for (int i = 0; join(card, domain, owner) < 0; i++) {
		if (i == 5000 || strstr(t.err.msg, "is starting") == NULL)
			fail_msg("%s", t.err.msg);
		usleep(1000);
	}
}

static void does_not_join(int card, const char *domain, const char *owner, int code, const char *because)
{
	assert_int_equal(join(card, domain, owner), -code);
	if (strstr(t.err.msg, because) == NULL)
		fail_msg("\"%s\", not \"%s\"", t.err.msg, because);
}

static size_t processes(int index)
{
	return rf_mps_kill_all(rf_fs_path(&t.arena, "CUDA_MPS_PIPE_DIRECTORY=%s/%d/pipe", at(""), index), 0, NULL);
}

/* It listens before it writes its number down. */
static pid_t daemon_of(int index)
{
	const char *path = at(rf_fs_path(&t.arena, "%d/pipe/nvidia-cuda-mps-control.pid", index));
	struct rf_str text;
	int64_t pid = 0;

	for (int ms = 0; ms < 5000 && pid == 0; ms++) {
		usleep(ms > 0 ? 1000 : 0);
		if (rf_fs_read(&t.arena, path, 64, &text, NULL) < 0 || rf_str_int(rf_str_trim(text), &pid, NULL) < 0)
			pid = 0;
	}
	return (pid_t)pid;
}

static bool is_empty(const char *path)
{
	struct rf_str *names;
	size_t n = 0;

	assert_int_equal(rf_fs_list(&t.arena, path, &names, &n, NULL), 0);
	return n == 0;
}

static bool nothing_is_left(void)
{
	return processes(0) + processes(3) == 0 && is_empty(at(""));
}

static void kill_daemon(int index)
{
	pid_t pid = daemon_of(index);

	assert_true(pid > 0);
	kill(pid, SIGKILL);
	while (rf_mps_started(pid) != 0)
		usleep(1000);
}

/* What a program does: by the path that it has. */
static int connect_client(int index)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(a.sun_path, sizeof(a.sun_path), "%s/control", rf_mps_client_dir(&t.arena, t.m, index));
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0)
		return fd;
	close(fd);
	return -1;
}

/* Sooner or later: it answers before it has written all down. */
static bool log_says(int index, const char *what)
{
	struct rf_str text = RF_STR_EMPTY;

	for (int ms = 0; ms < 5000 && memmem(text.p, text.n, what, strlen(what)) == NULL; ms++) {
		usleep(ms > 0 ? 1000 : 0);
		(void)rf_fs_read(&t.arena, at(rf_fs_path(&t.arena, "%d/log/control.log", index)), 1 << 20, &text, NULL);
	}
	return memmem(text.p, text.n, what, strlen(what)) != NULL;
}

static int begin(void **state RF_UNUSED)
{
	snprintf(t.dir, sizeof(t.dir), "/tmp/rf-mps-XXXXXX");
	assert_non_null(mkdtemp(t.dir));
	rf_clock_manual_init(&t.clock, 1000000);
	open_with(STAND_IN);
	return 0;
}

static bool nobody(void *ctx RF_UNUSED, struct rf_str owner RF_UNUSED)
{
	return false;
}

/* A sweep does not wait; the ticks after it see to the end. */
static void sweep(bool (*wanted)(void *ctx, struct rf_str owner), int index)
{
	rf_mps_sweep(t.m, wanted, NULL);
	while (rf_fs_exists(at(rf_fs_path(&t.arena, "gpu-%d.json", index)))) {
		usleep(1000);
		rf_clock_manual_advance(&t.clock, 10);
		rf_mps_tick(t.m);
	}
}

static int end(void **state RF_UNUSED)
{
	sweep(nobody, 0);
	sweep(nobody, 3);
	rf_mps_close(t.m);
	t.m = NULL;
	assert_int_equal(rf_fs_remove_tree(t.dir, NULL), 0); /* and nothing is mounted there */
	rf_arena_done(&t.arena);
	t.arena = (struct rf_arena)RF_ARENA_INIT;
	return 0;
}

/* --- coming and going -------------------------------------------------------------------------- */

static void a_daemon_lives_from_the_first_owner_to_the_last(void **state RF_UNUSED)
{
	pid_t pid;

	assert_true(nothing_is_left());
	joins(0, "research", "one");
	pid = daemon_of(0);
	assert_true(rf_mps_started(pid) != 0);
	joins(0, "research", "two");
	joins(0, "research", "two");
	assert_int_equal(daemon_of(0), pid);
	assert_true(rf_mps_has(t.m, 0, RF_LIT("one")) && !rf_mps_has(t.m, 3, RF_LIT("one")));
	assert_int_equal(rf_mps_leave(t.m, RF_LIT("one"), &t.err), 0);
	assert_false(rf_mps_has(t.m, 0, RF_LIT("one")));
	rf_mps_tick(t.m);
	assert_int_equal(daemon_of(0), pid);
	assert_int_equal(rf_mps_leave(t.m, RF_LIT("two"), &t.err), 0);
	assert_true(nothing_is_left());
	assert_int_equal(rf_mps_leave(t.m, RF_LIT("two"), &t.err), 0);
}

static void it_is_told_its_card_and_to_serve_all_users(void **state RF_UNUSED)
{
	joins(1, "research", "one");
	assert_true(log_says(3, "cards GPU-b, one server for all users"));
	assert_int_equal(processes(0), 0);
}

static void programs_get_one_socket_and_nothing_to_command_with(void **state RF_UNUSED)
{
	struct rf_str *names;
	struct stat st;
	size_t n;
	int fd;

	joins(0, "research", "one");
	assert_int_equal(rf_fs_list(&t.arena, rf_mps_client_dir(&t.arena, t.m, 0), &names, &n, NULL), 0);
	assert_int_equal(n, 1);
	assert_true(rf_str_is(names[0], "control"));
	/* Whoever is no root does not come by the others from the outside either. */
	assert_int_equal(stat(at("0"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	fd = connect_client(0);
	assert_true(fd >= 0);
	while (!log_says(0, rf_fs_path(&t.arena, "NEW CLIENT %d from user 0", (int)getpid())))
		usleep(1000);
	close(fd);
}

static void a_tenant_cannot_fill_more_than_the_daemons_room(void **state RF_UNUSED)
{
	rf_auto(buf) big = RF_BUF_INIT;
	size_t put = 0;

	joins(0, "research", "one");
	rf_buf_reserve(&big, 1 << 20);
	memset(big.p, 'x', 1 << 20);
	big.n = 1 << 20;
	while (rf_fs_write(at(rf_fs_path(&t.arena, "0/log/fill-%zu", put)), rf_buf_str(&big), 0600, false, NULL) == 0 &&
	       put < 100)
		put++;
	assert_true(put > 4 && put < 20);
	assert_int_equal(rf_mps_leave(t.m, RF_LIT("one"), &t.err), 0);
	assert_true(nothing_is_left());
}

static void a_card_never_has_clients_of_two_trust_domains(void **state RF_UNUSED)
{
	joins(0, "research", "one");
	does_not_join(0, "elsewhere", "two", RF_UNAVAILABLE,
		      "is shared by MPS in trust domain research; a pod of trust domain elsewhere does not join it");
	assert_false(rf_mps_has(t.m, 0, RF_LIT("two")));
	joins(1, "elsewhere", "two");
	assert_true(daemon_of(0) != daemon_of(3));
	assert_int_equal(rf_mps_leave(t.m, RF_LIT("one"), &t.err), 0);
	joins(0, "elsewhere", "three");
	does_not_join(0, "", "four", RF_INVALID, "is not a trust domain");
}

static void without_the_program_nobody_joins_and_it_says_what_to_do(void **state RF_UNUSED)
{
	rf_auto(buf) page = RF_BUF_INIT;
	struct rf_metrics m;

	rf_mps_close(t.m);
	open_with("/nonexistent/" RF_MPS_PROGRAM);
	does_not_join(0, "research", "one", RF_UNAVAILABLE, "install the driver's compute utilities");
	assert_true(nothing_is_left());
	rf_metrics_init(&m, &t.arena);
	rf_mps_metrics(&m, t.m, RF_LIT("n"));
	rf_metrics_write(&m, &page);
	assert_non_null(strstr(page.p, "ringfence_mps_missing{node=\"n\"} 1"));
}

static void a_folder_with_a_path_too_long_for_a_socket_is_told(void **state RF_UNUSED)
{
	struct rf_mps_opts o = { .program = STAND_IN, .clock = &t.clock.clock };

	rf_mps_close(t.m);
	o.dir = rf_fs_path(&t.arena, "%s/%0100d", t.dir, 7);
	t.m = rf_mps_open(&o);
	does_not_join(0, "research", "one", RF_UNAVAILABLE, "use a data folder with a shorter one");
	assert_int_equal(rf_mps_leave(t.m, RF_LIT("one"), &t.err), 0);
}

/* --- dying --------------------------------------------------------------------------------------- */

static void a_death_is_told_to_all_owners_and_no_client_comes_before_it_was_heard(void **state RF_UNUSED)
{
	pid_t pid;
	int index = -1, fd;

	joins(0, "research", "one");
	joins(0, "research", "two");
	joins(1, "research", "three");
	fd = connect_client(0); /* so that there is a server */
	while (processes(0) < 2)
		usleep(1000);
	close(fd);
	pid = daemon_of(0);
	kill_daemon(0);
	rf_mps_tick(t.m);
	while (processes(0) > 0) /* the server that it left was ended */
		usleep(1000);
	assert_int_equal(connect_client(0), -1);
	assert_true(rf_mps_lost(t.m, RF_LIT("one"), &index) && index == 0);
	assert_true(rf_mps_lost(t.m, RF_LIT("two"), &index));
	assert_false(rf_mps_lost(t.m, RF_LIT("three"), &index));
	does_not_join(0, "research", "one", RF_UNAVAILABLE, "are being ended");
	rf_mps_mourned(t.m, 0, RF_LIT("one"));
	assert_false(rf_mps_lost(t.m, RF_LIT("one"), &index));
	assert_true(rf_mps_lost(t.m, RF_LIT("two"), &index));
	does_not_join(0, "research", "one", RF_UNAVAILABLE, "it is started again after a pause");
	assert_false(rf_mps_is_up(t.m, 0));
	rf_clock_manual_advance(&t.clock, 1000);
	rf_mps_tick(t.m);
	joins(0, "research", "one");
	assert_true(rf_mps_is_up(t.m, 0));
	assert_true(rf_mps_lost_on(t.m, 0, RF_LIT("two")) && !rf_mps_lost_on(t.m, 0, RF_LIT("one")));
	assert_true(daemon_of(0) > 0 && daemon_of(0) != pid);
	fd = connect_client(0);
	assert_true(fd >= 0);
	close(fd);
}

static void pauses_grow_while_it_dies_at_once_and_begin_anew_when_it_lived(void **state RF_UNUSED)
{
	const char *script = rf_fs_path(&t.arena, "%s/dies", t.dir);
#define PAUSED "ended by itself: no such card; it is started again after a pause"
	static const int pauses[] = { 1, 2, 4, 8, 16, 32, 60, 60 };
	int index;

	assert_int_equal(rf_fs_write(script, RF_LIT("#!/bin/sh\necho no such card >&2\nexit 3\n"), 0755, false, NULL), 0);
	rf_mps_close(t.m);
	open_with(script);
	while (join(0, "research", "one") < 0 && strstr(t.err.msg, "is starting") != NULL)
		;
	assert_non_null(strstr(t.err.msg, "ended by itself: no such card"));
	rf_mps_mourned(t.m, 0, RF_LIT("one"));
	for (size_t i = 0; i < RF_COUNT(pauses); i++) {
		does_not_join(0, "research", "one", RF_UNAVAILABLE, PAUSED);
		rf_clock_manual_advance(&t.clock, pauses[i] * 1000 - 1);
		does_not_join(0, "research", "one", RF_UNAVAILABLE, PAUSED); /* and in the same words */
		rf_clock_manual_advance(&t.clock, 1);
		while (!rf_mps_lost(t.m, RF_LIT("one"), &index)) /* it takes a moment to be started and to end */
			rf_mps_tick(t.m);
		rf_mps_mourned(t.m, 0, RF_LIT("one"));
	}
	rf_mps_close(t.m);
	open_with(STAND_IN);
	rf_clock_manual_advance(&t.clock, 60000);
	rf_mps_tick(t.m);
	joins(0, "research", "one");
	rf_clock_manual_advance(&t.clock, 60000);
	kill_daemon(0);
	rf_mps_tick(t.m);
	rf_mps_mourned(t.m, 0, RF_LIT("one"));
	rf_clock_manual_advance(&t.clock, 999);
	does_not_join(0, "research", "one", RF_UNAVAILABLE, "it is started again after a pause");
	rf_clock_manual_advance(&t.clock, 1);
	joins(0, "research", "one");
}

static void one_that_does_not_listen_is_killed_after_a_while(void **state RF_UNUSED)
{
	pid_t pid;

	joins(0, "research", "one");
	pid = daemon_of(0);
	kill(pid, SIGSTOP);
	assert_int_equal(rf_mps_leave(t.m, RF_LIT("one"), &t.err), -RF_UNAVAILABLE);
	assert_non_null(strstr(t.err.msg, "still ending"));
	assert_true(rf_mps_has(t.m, 0, RF_LIT("one")));
	does_not_join(0, "research", "two", RF_UNAVAILABLE, "just ending");
	does_not_join(0, "research", "one", RF_UNAVAILABLE, "just ending");
	rf_clock_manual_advance(&t.clock, 3000);
	assert_int_equal(rf_mps_leave(t.m, RF_LIT("one"), &t.err), 0);
	assert_int_equal(rf_mps_started(pid), 0);
	assert_true(nothing_is_left());
}

static void *wait_for_ever(void *ctx RF_UNUSED)
{
	while (true)
		pause();
	return NULL;
}

/* A process of several threads, the first of which ends when told to (by its input): no environment can be read of it
 * then, though it is there. So is every process for a moment when it ends. */
static int be_half_dead(void)
{
	pthread_t thread;
	char c;

	if (pthread_create(&thread, NULL, wait_for_ever, NULL) != 0 || write(1, "+", 1) != 1 || read(0, &c, 1) != 0)
		return 1;
	syscall(SYS_exit, 0);
	return 1;
}

static pid_t start_half_dead(int index, int *ret_tell)
{
	const char *env[] = { rf_fs_path(&t.arena, "CUDA_MPS_PIPE_DIRECTORY=%s/%d/pipe", at(""), index), NULL };
	int in[2], out[2];
	char c;
	pid_t pid;

	assert_int_equal(pipe(in) | pipe(out), 0);
	pid = fork();
	if (pid == 0) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		close(in[1]);
		execle("/proc/self/exe", "test_mps", "half-dead", (char *)NULL, (char *const *)(uintptr_t)env);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	assert_int_equal(read(out[0], &c, 1), 1);
	close(out[0]);
	*ret_tell = in[1];
	return pid;
}

static void it_has_not_ended_while_a_process_of_it_is_ending(void **state RF_UNUSED)
{
	int tell;
	pid_t daemon, server;

	joins(0, "research", "one");
	daemon = daemon_of(0);
	server = start_half_dead(0, &tell);
	assert_int_equal(processes(0), 2);
	kill(daemon, SIGSTOP);
	assert_int_equal(rf_mps_leave(t.m, RF_LIT("one"), &t.err), -RF_UNAVAILABLE);
	close(tell);
	while (rf_mps_env_has(server, rf_fs_path(&t.arena, "CUDA_MPS_PIPE_DIRECTORY=%s/0/pipe", at("")), false))
		usleep(1000);
	assert_true(rf_mps_started(server) != 0);
	rf_clock_manual_advance(&t.clock, 3000);
	assert_int_equal(rf_mps_leave(t.m, RF_LIT("one"), &t.err), -RF_UNAVAILABLE);
	assert_int_equal(rf_mps_started(daemon), 0);
	rf_mps_tick(t.m);
	assert_true(rf_mps_has(t.m, 0, RF_LIT("one")));
	does_not_join(0, "elsewhere", "two", RF_UNAVAILABLE, "just ending");
	next_agent();
	assert_int_equal(rf_mps_leave(t.m, RF_LIT("one"), &t.err), -RF_UNAVAILABLE);
	kill(server, SIGKILL);
	assert_int_equal(waitpid(server, NULL, 0), server);
	assert_int_equal(rf_mps_leave(t.m, RF_LIT("one"), &t.err), 0);
	assert_true(nothing_is_left());
}

static void nobody_waits_twice_for_the_same_daemon(void **state RF_UNUSED)
{
	const char *script = rf_fs_path(&t.arena, "%s/sleeps", t.dir);
	int64_t before;

	assert_int_equal(rf_fs_write(script, RF_LIT("#!/bin/sh\nexec sleep 600\n"), 0755, false, NULL), 0);
	rf_mps_close(t.m);
	open_with(script);
	does_not_join(0, "research", "one", RF_UNAVAILABLE, "is starting");
	rf_clock_manual_advance(&t.clock, 1000);
	before = rf_mono_ns(rf_clock_system());
	for (int i = 0; i < 20; i++)
		does_not_join(0, "research", "two", RF_UNAVAILABLE, "is starting");
	assert_true(rf_mono_ns(rf_clock_system()) - before < 5 * 1000000000LL); /* of 10 s */
}

static void who_comes_back_while_it_ends_gets_another(void **state RF_UNUSED)
{
	pid_t pid;

	joins(0, "research", "one");
	pid = daemon_of(0);
	kill(pid, SIGSTOP);
	assert_int_equal(rf_mps_leave(t.m, RF_LIT("one"), &t.err), -RF_UNAVAILABLE);
	rf_clock_manual_advance(&t.clock, 3000);
	joins(0, "research", "one");
	assert_true(daemon_of(0) != pid);
	assert_int_equal(processes(0), 1);
}

static void one_that_never_listens_is_given_up(void **state RF_UNUSED)
{
	const char *script = rf_fs_path(&t.arena, "%s/sleeps", t.dir);
	int index;

	assert_int_equal(rf_fs_write(script, RF_LIT("#!/bin/sh\nexec sleep 600\n"), 0755, false, NULL), 0);
	rf_mps_close(t.m);
	open_with(script);
	does_not_join(0, "research", "one", RF_UNAVAILABLE, "is starting");
	rf_mps_tick(t.m);
	assert_int_equal(processes(0), 1);
	assert_false(rf_mps_lost(t.m, RF_LIT("one"), &index));
	rf_clock_manual_advance(&t.clock, 10000);
	rf_mps_tick(t.m);
	while (processes(0) > 0)
		usleep(1000);
	rf_mps_tick(t.m);
	assert_true(rf_mps_lost(t.m, RF_LIT("one"), &index));
}

static void a_full_log_does_not_keep_the_next_one_from_starting(void **state RF_UNUSED)
{
	joins(0, "research", "one");
	assert_true(system(rf_fs_path(&t.arena, "head -c 100M /dev/zero >%s 2>/dev/null", at("0/log/control.log"))) != 0);
	kill_daemon(0);
	rf_mps_tick(t.m);
	rf_mps_mourned(t.m, 0, RF_LIT("one"));
	rf_clock_manual_advance(&t.clock, 1000);
	joins(0, "research", "one");
}

/* As in the agent's pod on Kubernetes, whose file system is not the machine's. */
static void from_a_container_it_is_started_in_the_machines_namespaces(void **state RF_UNUSED)
{
	static const char *const argv[] = { "/bin/sleep", "600", NULL }, *const env[] = { "A=1", NULL };
	struct rf_mps_run r = { .argv = argv, .env = env, .output = rf_fs_path(&t.arena, "%s/out", t.dir), .beside = getpid() };
	struct stat ours, its;
	int status;
	pid_t agent = fork();

	if (agent == 0) {
		struct rf_err err = RF_ERR_INIT;
		pid_t pid = 0;

		if (unshare(CLONE_NEWNS) < 0)
			_exit(77);
		if (rf_mps_run(&r, &pid, &err) < 0)
			_exit(1);
		(void)stat(rf_fs_path(&t.arena, "/proc/%d/ns/mnt", (int)r.beside), &ours);
		(void)stat(rf_fs_path(&t.arena, "/proc/%d/ns/mnt", (int)pid), &its);
		status = rf_mps_started(pid) != 0 && ours.st_ino == its.st_ino ? 0 : 2;
		(void)stat("/proc/self/ns/mnt", &ours);
		status = ours.st_ino != its.st_ino ? status : 3;
		kill(pid, SIGKILL);
		while (rf_mps_started(pid) != 0)
			usleep(1000);
		_exit(status);
	}
	assert_int_equal(waitpid(agent, &status, 0), agent);
	for (int i = 0; rmdir(RF_MPS_HOST_CGROUP) < 0 && errno == EBUSY && i < 1000; i++)
		usleep(1000);
	if (WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(status, 0);
}

/* --- the next agent ------------------------------------------------------------------------------- */

static void the_next_agent_takes_a_daemon_over(void **state RF_UNUSED)
{
	pid_t pid;
	int index;

	joins(0, "research", "one");
	pid = daemon_of(0);
	next_agent();
	rf_mps_tick(t.m);
	assert_int_equal(daemon_of(0), pid);
	assert_true(rf_mps_has(t.m, 0, RF_LIT("one")));
	assert_false(rf_mps_lost(t.m, RF_LIT("one"), &index));
	joins(0, "whatever", "one"); /* it is in already */
	does_not_join(0, "elsewhere", "two", RF_UNAVAILABLE, "trust domain research");
	joins(0, "research", "two");
	assert_int_equal(daemon_of(0), pid);
}

static void a_death_that_no_agent_saw_is_told_by_the_next(void **state RF_UNUSED)
{
	int index = -1;

	joins(0, "research", "one");
	kill_daemon(0);
	next_agent();
	rf_mps_tick(t.m);
	next_agent(); /* and again, before anybody was told */
	assert_true(rf_mps_lost(t.m, RF_LIT("one"), &index));
	rf_mps_mourned(t.m, 0, RF_LIT("one"));
	next_agent();
	assert_false(rf_mps_lost(t.m, RF_LIT("one"), &index));
}

static bool is_one(void *ctx RF_UNUSED, struct rf_str owner)
{
	return rf_str_is(owner, "one");
}

static void who_is_not_wanted_any_more_leaves(void **state RF_UNUSED)
{
	joins(0, "research", "one");
	joins(0, "research", "two");
	joins(1, "research", "two");
	next_agent();
	sweep(is_one, 3);
	assert_true(rf_mps_has(t.m, 0, RF_LIT("one")));
	assert_false(rf_mps_has(t.m, 0, RF_LIT("two")));
	assert_int_equal(processes(3), 0);
	sweep(nobody, 0);
	assert_true(nothing_is_left());
}

static void spoil(const char *text)
{
	assert_int_equal(rf_fs_write(at("gpu-0.json"), rf_str(text), 0600, false, NULL), 0);
}

static void a_daemon_nobody_can_tell_of_is_ended(void **state RF_UNUSED)
{
	static const char *const texts[] = { "", "{", "[]", "{\"boot\":\"another\",\"domain\":\"x\",\"pid\":1,\"start\":1}" };

	for (size_t i = 0; i < RF_COUNT(texts); i++) {
		joins(0, "research", "one");
		spoil(texts[i]);
		next_agent();
		assert_true(nothing_is_left());
		assert_false(rf_mps_has(t.m, 0, RF_LIT("one")));
	}
}

static void the_number_of_another_process_is_not_taken_for_the_daemon(void **state RF_UNUSED)
{
	int index;

	joins(0, "research", "one");
	kill_daemon(0);
	spoil(rf_fs_path(&t.arena,
			 "{\"boot\":\"%.*s\",\"card\":\"GPU-a\",\"domain\":\"research\",\"pid\":%d,\"start\":1,"
			 "\"owners\":[{\"uid\":\"one\",\"lost\":false}]}",
			 RF_STR(rf_cards_boot(&t.arena)), (int)getpid()));
	next_agent();
	rf_mps_tick(t.m); /* and we live on */
	assert_true(rf_mps_lost(t.m, RF_LIT("one"), &index));
	rf_mps_mourned(t.m, 0, RF_LIT("one"));
}

static void a_daemon_whose_number_was_not_written_down_is_replaced(void **state RF_UNUSED)
{
	pid_t pid;

	joins(0, "research", "one");
	pid = daemon_of(0);
	spoil(rf_fs_path(&t.arena,
			 "{\"boot\":\"%.*s\",\"card\":\"GPU-a\",\"domain\":\"research\",\"pid\":0,\"start\":0,"
			 "\"owners\":[{\"uid\":\"one\",\"lost\":false}]}",
			 RF_STR(rf_cards_boot(&t.arena))));
	next_agent();
	while (rf_mps_started(pid) != 0) /* it was killed; a daemon that runs on would let this test hang */
		usleep(1000);
	joins(0, "research", "one");
	assert_int_equal(processes(0), 1);
}

static void only_what_was_started_for_it_is_ours(void **state RF_UNUSED)
{
	const char *up = rf_fs_path(&t.arena, "%s/up", t.dir);
	pid_t pid, other;

	joins(0, "research", "one");
	pid = daemon_of(0);
	assert_true(rf_mps_is_ours(t.m, pid));
	assert_false(rf_mps_is_ours(t.m, getpid()));
	assert_false(rf_mps_is_ours(t.m, 1 << 23));
	/* In another pid namespace, as every container is, the environment says nothing. */
	other = fork();
	if (other == 0) {
		execl("/usr/bin/unshare", "unshare", "--pid", "--fork", "--kill-child", "env",
		      rf_fs_path(&t.arena, "CUDA_MPS_PIPE_DIRECTORY=%s/0/pipe", at("")), "sh", "-c",
		      rf_fs_path(&t.arena, "echo > %s; exec sleep 600", up), (char *)NULL);
		_exit(127);
	}
	while (!rf_fs_exists(up) && waitpid(other, NULL, WNOHANG) == 0)
		usleep(1000);
	assert_true(rf_fs_exists(up));
	assert_int_equal(processes(0), 1);
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
}

/* --- who shares by MPS ------------------------------------------------------------------------------ */

struct api {
	const char *label, *pool, *tenant; /* NULL: not there */
	int fails;			   /* at the n-th question */
};

static int fake_get(void *ctx, struct rf_arena *a, struct rf_str path, struct rf_json **ret, struct rf_err *err)
{
	struct api *api = ctx;
	bool node = rf_str_ends(path, RF_LIT("/nodes/n")), pool = rf_str_ends(path, RF_LIT("/gpupools/p"));
	const char *text = node ? "{'metadata':{'name':'n'}}" : pool ? api->pool : api->tenant;

	assert_true(node || pool || rf_str_ends(path, RF_LIT("/tenants/t")));
	if (api->fails > 0 && --api->fails == 0)
		return rf_fail(err, RF_UNAVAILABLE, "nobody answers");
	if (text == NULL)
		return rf_fail(err, RF_NOT_FOUND, "there is none");
	*ret = rf_json_make(a, "%j", rf_json_make(a, text));
	if (node && api->label != NULL)
		rf_json_set(a, rf_json_at(*ret, "metadata"), RF_LIT("labels"),
			    rf_json_make(a, "{'ringfence.io/pool':%s}", api->label));
	return 0;
}

#define TENANT(isolation) "{'metadata':{'name':'t'},'spec':{'isolation':'" isolation "','trustDomain':'d'}}"

static void only_those_who_agreed_share_by_mps_and_only_in_such_a_pool(void **state RF_UNUSED)
{
	static const struct {
		struct api api;
		int rc;
		bool mps;
	} cases[] = {
		{ { "p", "{'spec':{'sharing':'mps'}}", TENANT("cooperative") }, 0, true },
		{ { "p", "{'spec':{'sharing':'mps'}}", "{'metadata':{'name':'t'},'spec':{'isolation':'cooperative'}}" }, 0, true },
		{ { "p", "{'spec':{'sharing':'mps'}}", TENANT("share") }, 0, false },
		{ { "p", "{'spec':{'sharing':'mps'}}", TENANT("gpu") }, 0, false },
		{ { "p", "{'spec':{'sharing':'timeslice'}}", TENANT("cooperative") }, 0, false },
		{ { "p", "{'spec':{}}", TENANT("cooperative") }, 0, false },
		{ { "p", "{}", TENANT("cooperative") }, 0, false },
		{ { NULL, "{'spec':{'sharing':'mps'}}", TENANT("cooperative") }, 0, false },
		{ { "../x", "{'spec':{'sharing':'mps'}}", TENANT("cooperative") }, 0, false },
		{ { "p", NULL, TENANT("cooperative") }, 0, false },
		/* What is not known is not guessed. */
		{ { "p", "{'spec':{'sharing':'mps'}}", NULL }, -RF_NOT_FOUND, false },
		{ { "p", "{'spec':{'sharing':'green'}}", TENANT("cooperative") }, -RF_UNAVAILABLE, false },
		{ { "p", "{'spec':{'sharing':'mps'}}", "{'metadata':{'name':'t'},'spec':{'isolation':'odd'}}" }, -RF_INVALID, false },
		{ { "p", "{'spec':{'sharing':'mps'}}", TENANT("cooperative"), 1 }, -RF_UNAVAILABLE, false },
		{ { "p", "{'spec':{'sharing':'mps'}}", TENANT("cooperative"), 2 }, -RF_UNAVAILABLE, false },
		{ { "p", "{'spec':{'sharing':'mps'}}", TENANT("cooperative"), 3 }, -RF_UNAVAILABLE, false },
	};

	for (size_t i = 0; i < RF_COUNT(cases); i++) {
		struct api api = cases[i].api;
		struct rf_sharing_source source = { fake_get, &api };
		struct rf_sharing sharing = { .mps = true };
		struct rf_err err = RF_ERR_INIT;

		assert_int_equal(rf_sharing_of_tenant(&source, RF_LIT("n"), RF_LIT("t"), &sharing, &err), cases[i].rc);
		assert_int_equal(sharing.mps, cases[i].mps);
		if (cases[i].mps)
			assert_string_equal(sharing.domain, i == 1 ? "t" : "d");
	}
}

static void a_question_without_an_answer_changes_nothing(void **state RF_UNUSED)
{
	for (int fails = 1; fails <= 2; fails++)
		for (int before = 0; before <= 1; before++) {
			struct api api = { "p", before ? "{'spec':{}}" : "{'spec':{'sharing':'mps'}}", NULL, fails };
			struct rf_sharing_source source = { fake_get, &api };
			struct rf_err err = RF_ERR_INIT;
			bool mps = before;

			assert_int_equal(rf_sharing_of_node(&source, RF_LIT("n"), &mps, &err), -RF_UNAVAILABLE);
			assert_int_equal(mps, before);
			assert_int_equal(rf_sharing_of_node(&source, RF_LIT("n"), &mps, &err), 0);
			assert_int_equal(mps, !before);
		}
}

int main(int argc, char **argv)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(a_daemon_lives_from_the_first_owner_to_the_last),
		TEST(it_is_told_its_card_and_to_serve_all_users),
		TEST(programs_get_one_socket_and_nothing_to_command_with),
		TEST(a_tenant_cannot_fill_more_than_the_daemons_room),
		TEST(a_card_never_has_clients_of_two_trust_domains),
		TEST(without_the_program_nobody_joins_and_it_says_what_to_do),
		TEST(a_folder_with_a_path_too_long_for_a_socket_is_told),
		TEST(a_death_is_told_to_all_owners_and_no_client_comes_before_it_was_heard),
		TEST(pauses_grow_while_it_dies_at_once_and_begin_anew_when_it_lived),
		TEST(one_that_does_not_listen_is_killed_after_a_while),
		TEST(it_has_not_ended_while_a_process_of_it_is_ending),
		TEST(nobody_waits_twice_for_the_same_daemon),
		TEST(who_comes_back_while_it_ends_gets_another),
		TEST(one_that_never_listens_is_given_up),
		TEST(a_full_log_does_not_keep_the_next_one_from_starting),
		TEST(from_a_container_it_is_started_in_the_machines_namespaces),
		TEST(the_next_agent_takes_a_daemon_over),
		TEST(a_death_that_no_agent_saw_is_told_by_the_next),
		TEST(who_is_not_wanted_any_more_leaves),
		TEST(a_daemon_nobody_can_tell_of_is_ended),
		TEST(the_number_of_another_process_is_not_taken_for_the_daemon),
		TEST(a_daemon_whose_number_was_not_written_down_is_replaced),
		TEST(only_what_was_started_for_it_is_ours),
		cmocka_unit_test(only_those_who_agreed_share_by_mps_and_only_in_such_a_pool),
		cmocka_unit_test(a_question_without_an_answer_changes_nothing),
	};

	if (argc == 2 && strcmp(argv[1], "half-dead") == 0)
		return be_half_dead();
	if (geteuid() != 0) {
		printf("1..1\nok 1 - # SKIP daemons have a tmpfs each, which needs root\n");
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
