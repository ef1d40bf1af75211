/* Ways around the fence, as a tenant may try them. Each is held, or the process that gained by it is
 * what the agent looks for: a process on the card without a seat, or a card that holds more than the
 * cap. docs/threat-model.md has a row for each, by the name it has here. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "fence/ledger.h"
#include "fence/server.h"
#include "fence/test/elf_names.h"
#include "fence/test/fake.h"
#include "fence/test/sneak.h"

/* --- the agent --- */

struct agent {
	struct rf_fence_server *server;
	struct rf_arbiter *arbiter;
	pthread_mutex_t lock;
	pthread_t thread;
	int stop;
};

static void *serve(void *arg)
{
	struct agent *g = arg;
	struct pollfd p[2] = { { .fd = rf_fence_server_fd(g->server), .events = POLLIN },
			       { .fd = g->stop, .events = POLLIN } };

	while (poll(p, 2, -1) >= 0 && !p[1].revents) {
		pthread_mutex_lock(&g->lock);
		rf_fence_server_turn(g->server);
		pthread_mutex_unlock(&g->lock);
	}
	return NULL;
}

static void start_agent(struct agent *g, const char *folder, const char *ledger,
			const struct rf_fence_card *card, struct rf_arbiter *arbiter)
{
	struct rf_err err = RF_ERR_INIT;

	*g = (struct agent){ .arbiter = arbiter, .lock = PTHREAD_MUTEX_INITIALIZER };
	if (rf_fence_server_start(folder, ledger, card, 1, arbiter, &g->server, &err) < 0)
		fail_msg("%s", err.msg);
	g->stop = eventfd(0, EFD_CLOEXEC);
	assert_int_equal(pthread_create(&g->thread, NULL, serve, g), 0);
}

static void stop_agent(struct agent *g)
{
	uint64_t one = 1;

	if (!g->server)
		return;
	assert_int_equal(write(g->stop, &one, sizeof(one)), sizeof(one));
	pthread_join(g->thread, NULL);
	rf_fence_server_stop(g->server);
	g->server = NULL;
	close(g->stop);
}

/* What the agent's watch goes by: the process sits at the fence's ledger. */
static bool is_seated(struct agent *g, pid_t pid)
{
	pid_t pids[RF_LEDGER_SEATS];
	bool found = false;
	size_t n;

	pthread_mutex_lock(&g->lock);
	n = rf_fence_server_pids(g->server, pids, RF_LEDGER_SEATS);
	pthread_mutex_unlock(&g->lock);
	for (size_t i = 0; i < n; i++)
		found = found || pids[i] == pid;
	return found;
}

static const struct rf_fence_card capped = { .uuid = FAKE_UUID_0, .memory_bytes = SNEAK_CAP };
static const struct rf_fence_card whole = { .uuid = FAKE_UUID_0 };

static char folder[] = "/tmp/ringfence-bypass-XXXXXX";
static char shared_env[128];
static struct agent the_agent;

/* What the card has given out to all processes, whoever counts. */
static uint64_t live_bytes(void)
{
	int fd = open("shared", O_RDONLY | O_CLOEXEC);
	uint64_t live = 0;

	assert_int_equal(pread(fd, &live, sizeof(live), 0), sizeof(live));
	close(fd);
	return live;
}

static int each_setup(void **state)
{
	int fd = open("shared", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_int_equal(ftruncate(fd, 4096), 0);
	close(fd);
	unlink("ledger");
	start_agent(&the_agent, ".", "ledger", &capped, NULL);
	return 0;
}

static int each_teardown(void **state)
{
	stop_agent(&the_agent);
	return 0;
}

/* --- tenants --- */

struct tenant {
	pid_t pid;
	int in, out, err; /* close in to let it end */
};

#define LIBRARY FENCE_DIR "/libringfence_test.so"
#define SNEAK FENCE_DIR "/fence_sneak"

static struct tenant start(char *const argv[], char *const env[], const char *where)
{
	posix_spawn_file_actions_t actions;
	struct tenant t = { .pid = -1 };
	int in[2], out[2], err[2];

	assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC) | pipe2(err, O_CLOEXEC), 0);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, in[0], 0);
	posix_spawn_file_actions_adddup2(&actions, out[1], 1);
	posix_spawn_file_actions_adddup2(&actions, err[1], 2);
	posix_spawn_file_actions_addclosefrom_np(&actions, 3); /* whatever we inherited ourselves */
	posix_spawn_file_actions_addchdir_np(&actions, where);
	assert_int_equal(posix_spawn(&t.pid, argv[0], &actions, NULL, argv, env), 0);
	posix_spawn_file_actions_destroy(&actions);
	close(in[0]);
	close(out[1]);
	close(err[1]);
	t.in = in[1];
	t.out = out[0];
	t.err = err[0];
	return t;
}

/* What it said on stderr goes to ours; returns how much that was. */
static size_t finish(struct tenant t, int *ret_status)
{
	size_t said = 0;
	char text[512];
	ssize_t n;

	close(t.in);
	while ((n = read(t.err, text, sizeof(text))) > 0) {
		said += (size_t)n;
		assert_int_equal(write(STDERR_FILENO, text, (size_t)n), n);
	}
	close(t.out);
	close(t.err);
	assert_int_equal(waitpid(t.pid, ret_status, 0), t.pid);
	return said;
}

/* --- attempts --- */

enum outcome {
	HELD,	 /* has exactly the cap */
	NO_SEAT, /* gains, and sits at no ledger: the agent's watch ends it */
	COUNTED, /* gains, and is seated: the agent's look at the card finds more than the cap */
	DIES,
};

static const struct attempt {
	const char *what; /* as in docs/threat-model.md */
	enum outcome outcome;
	const char *way, *arg;
	const char *env; /* one more variable, or LD_PRELOAD= for none */
	const char *program, *where;
} attempts[] = {
	{ "an ordinary program", HELD, "plain" },
	{ "LD_PRELOAD unset", NO_SEAT, "plain", .env = "LD_PRELOAD=" },
	{ "exec with a cleaned environment", NO_SEAT, "executed", SNEAK },
	{ "posix_spawn with a cleaned environment", NO_SEAT, "spawned", "clean" },
	{ "posix_spawn and vfork", HELD, "spawned", "same" },
	{ "fork without exec", HELD, "forked" },
	{ "a static program", NO_SEAT, .program = FENCE_DIR "/fence_sneak_static" },
	{ "variables of other interposers", HELD, "plain", .env = "CUDA_DISABLE_CONTROL=true" },
	{ "variables of other interposers", HELD, "plain", .env = "CUDA_DEVICE_MEMORY_LIMIT=0" },
	{ "variables of other interposers", HELD, "plain",
	  .env = "CUDA_DEVICE_MEMORY_LIMIT_0=64g" },
	{ "variables of other interposers", HELD, "plain",
	  .env = "CUDA_DEVICE_MEMORY_SHARED_CACHE=/tmp/new.cache" },
	{ "guessed variables of ringfence", HELD, "plain", .env = "RINGFENCE_DISABLE=1" },
	{ "guessed variables of ringfence", HELD, "plain",
	  .env = "RINGFENCE_SOCKET=/tmp/own.sock" },
	{ "guessed variables of ringfence", HELD, "plain", .env = "RF_FENCE_SOCKET=/tmp/own.sock" },
	{ "guessed variables of ringfence", HELD, "plain", .env = "RINGFENCE_MEMORY_BYTES=0" },
	{ "variables of MPS", HELD, "plain", .env = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=64G" },
	{ "variables of MPS", HELD, "plain", .env = "CUDA_MPS_PIPE_DIRECTORY=/tmp/none" },
	{ "variables of MPS", HELD, "plain", .env = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=100" },
	{ "GLIBC_TUNABLES", HELD, "plain",
	  .env = "GLIBC_TUNABLES=glibc.rtld.optional_static_tls=0" },
	{ "LD_LIBRARY_PATH to another copy of the driver", HELD, "other-file", "libcuda.so.1",
	  .env = "LD_LIBRARY_PATH=copy" },
	{ "a copy of the driver under another name", HELD, "other-file", "./mycuda.so" },
	{ "dlvsym", HELD, "by-version" },
	{ "the _ptsz names", HELD, "per-thread" },
	{ "memory that graphs allocate", HELD, "graphs" },
	{ "memory handed over by CUDA IPC", HELD, "handed-over" },
	{ "dlmopen of the driver", HELD, "other-namespace", "libcuda.so.1" },
	{ "dlmopen of a library linked to the driver", NO_SEAT, "deep-namespace",
	  FENCE_DIR "/libsneak_deep.so" },
	{ "RTLD_DEEPBIND", NO_SEAT, "deep", FENCE_DIR "/libsneak_deep.so" },
	{ "the driver's symbols read by hand", NO_SEAT, "by-hand" },
	{ "joining first, then the driver by hand", COUNTED, "joined-first" },
	{ "LD_AUDIT", NO_SEAT, "plain", .env = "LD_AUDIT=" FENCE_DIR "/libsneak_audit.so" },
	{ "patching the hooks", NO_SEAT, "patched" },
	{ "ptrace", NO_SEAT, "traced" },
	{ "unmapping the library", DIES, "unmapped" },
	{ "dlclose of the library", HELD, "unloaded", LIBRARY },
	{ "closing every descriptor", HELD, "closed" },
	{ "closing every descriptor beside another process", HELD, "closed-beside" },
	{ "spoiling the ledger", COUNTED, "spoiled" },
	{ "a seat without the library", COUNTED, "false-seat", .env = "LD_PRELOAD=" },
	{ "a server of one's own", NO_SEAT, "plain", .where = "own" },
};

static bool says(const char *name, const char *env)
{
	return env && strncmp(env, name, strlen(name)) == 0;
}

static struct tenant start_attempt(const struct attempt *a)
{
	const char *program = a->program ? a->program : SNEAK;
	char *argv[] = { (char *)(uintptr_t)program, (char *)(uintptr_t)a->way,
			 (char *)(uintptr_t)a->arg, NULL };
	char *env[5] = { shared_env };
	size_t n = 1;

	if (!says("LD_PRELOAD=", a->env))
		env[n++] = (char *)(uintptr_t) "LD_PRELOAD=" LIBRARY;
	if (!says("LD_LIBRARY_PATH=", a->env))
		env[n++] = (char *)(uintptr_t) "LD_LIBRARY_PATH=" FENCE_DIR;
	if (a->env)
		env[n++] = (char *)(uintptr_t)a->env;
	return start(argv, env, a->where ? a->where : ".");
}

static const char *judge(const struct attempt *a, const struct sneak_report *r)
{
	bool gained = r->bytes > SNEAK_CAP;
	bool seated = is_seated(&the_agent, r->pid);

	if (a->outcome == HELD)
		return r->bytes == SNEAK_CAP && live_bytes() <= SNEAK_CAP ? NULL
									  : "does not hold the cap";
	if (!gained)
		return "did not gain: if it is held now, say so here and in the threat model";
	if (live_bytes() <= SNEAK_CAP)
		return "gained, and the card did not notice";
	if (a->outcome == NO_SEAT)
		return seated ? "is seated: the agent's watch would not find it" : NULL;
	return seated ? NULL : "is not seated: a case for the agent's watch";
}

static void try_one(const struct attempt *a)
{
	struct tenant t = start_attempt(a);
	struct sneak_report r = { 0 };
	ssize_t n = read(t.out, &r, sizeof(r));
	const char *wrong = NULL;
	int status = -1;

	if (a->outcome != DIES)
		wrong = n == (ssize_t)sizeof(r) ? judge(a, &r) : "did not get so far";
	finish(t, &status);
	print_message("  %s: %llu MiB\n", a->what, (unsigned long long)(r.bytes / SNEAK_MIB));
	if (a->outcome == DIES && (n != 0 || !WIFSIGNALED(status) || live_bytes() != 0))
		wrong = "lives, or holds something";
	if (wrong)
		fail_msg("%s (%s): %s; %llu bytes, the driver's last answer %d, wait status %d",
			 a->what, a->env ? a->env : "", wrong, (unsigned long long)r.bytes, r.error,
			 status);
}

static void copy_file(const char *from, const char *to)
{
	int in = open(from, O_RDONLY | O_CLOEXEC);
	int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
	char text[65536];
	ssize_t n;

	assert_true(in >= 0 && out >= 0);
	while ((n = read(in, text, sizeof(text))) > 0)
		assert_int_equal(write(out, text, (size_t)n), n);
	assert_int_equal(n, 0);
	close(in);
	close(out);
}

static void every_way_around_is_held_or_found(void **state)
{
	struct agent own;

	copy_file(FENCE_DIR "/libcuda.so.1", "mycuda.so");
	assert_true(mkdir("copy", 0700) == 0 || errno == EEXIST);
	copy_file(FENCE_DIR "/libcuda.so.1", "copy/libcuda.so.1");
	start_agent(&own, "own", "own-ledger", &whole, NULL);
	for (size_t i = 0; i < RF_COUNT(attempts); i++) {
		each_teardown(NULL); /* each begins with an empty card and empty books */
		each_setup(NULL);
		try_one(&attempts[i]);
	}
	stop_agent(&own);
}

static void the_threat_model_has_a_row_for_each(void **state)
{
	static char text[256 * 1024];
	int fd = open(THREAT_MODEL, O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, text, sizeof(text) - 1);
	char row[160];

	assert_true(n > 0);
	close(fd);
	for (size_t i = 1; i < RF_COUNT(attempts); i++) {
		snprintf(row, sizeof(row), "\n| %s |", attempts[i].what);
		if (!strstr(text, row))
			fail_msg("docs/threat-model.md: no row \"| %s |\"", attempts[i].what);
	}
}

/* The first process of a container, before there is anything to configure it. */
static void without_an_agent_nothing_is_unlimited(void **state)
{
	struct attempt first = { "no agent yet", HELD, "plain" };
	struct sneak_report r = { .bytes = 1 };
	struct tenant t;
	int status;

	stop_agent(&the_agent);
	t = start_attempt(&first);
	assert_int_equal(read(t.out, &r, sizeof(r)), sizeof(r));
	assert_int_equal(r.bytes, 0);
	assert_int_equal(r.error, 800); /* CUDA_ERROR_NOT_PERMITTED */
	finish(t, &status);
	assert_int_equal(status, 0);
	start_agent(&the_agent, ".", "ledger", &capped, NULL);
	try_one(&first);
}

/* A card of which the fence has a share of the time: then there is a gate too. */
static void limits_and_gate_cannot_be_written(void **state)
{
	struct rf_fence_card half = capped;
	struct attempt write_all = { "rewriting the limits and the gate", HELD, "rewrite" };
	struct rf_arbiter *arbiter = NULL;
	struct sneak_report r = { .bytes = 1 };
	struct tenant t;
	int status;

	half.compute_milli = 500;
	assert_int_equal(rf_arbiter_start(&arbiter), 0);
	stop_agent(&the_agent);
	start_agent(&the_agent, ".", "ledger", &half, arbiter);
	t = start_attempt(&write_all);
	assert_int_equal(read(t.out, &r, sizeof(r)), sizeof(r));
	finish(t, &status);
	assert_int_equal(status, 0);
	assert_int_equal(r.error, 4); /* limits, ledger, gate, desk */
	assert_int_equal(r.bytes, 0);
	stop_agent(&the_agent);
	rf_arbiter_stop(arbiter);
	start_agent(&the_agent, ".", "ledger", &capped, NULL);
}

/* --- good manners --- */

static void run_citizen(const char *mode)
{
	static char program[] = FENCE_DIR "/fence_citizen";
	static char preload[] = "LD_PRELOAD=" LIBRARY, path[] = "LD_LIBRARY_PATH=" FENCE_DIR;
	char *argv[] = { program, (char *)(uintptr_t)mode, NULL };
	char *env[] = { preload, path, NULL };
	int status = -1;
	struct tenant t = start(argv, env, ".");

	assert_int_equal(finish(t, &status), 0); /* not a word */
	assert_int_equal(status, 0);
}

static void a_program_without_cuda_is_left_alone(void **state)
{
	run_citizen("idle");
}

static void a_program_with_cuda_keeps_its_own_state(void **state)
{
	run_citizen("use");
}

static void check_import(void *ctx, const char *name, bool defined)
{
	static const char *const never[] = {
		"exit",		  "_exit",	   "_Exit",	      "quick_exit",
		"abort",	  "atexit",	   "printf",	      "fprintf",
		"vprintf",	  "vfprintf",	   "dprintf",	      "puts",
		"putchar",	  "fputs",	   "fputc",	      "fwrite",
		"perror",	  "psignal",	   "syslog",	      "vsyslog",
		"__printf_chk",	  "stderr",	   "stdout",	      "signal",
		"sigaction",	  "sigprocmask",   "pthread_sigmask", "raise",
		"kill",		  "umask",	   "setlocale",	      "uselocale",
		"setenv",	  "putenv",	   "getenv",	      "system",
		"environ",	  "fork",	   "execve",	      "err",
		"warn",		  "error",	   "__environ",	      "secure_getenv",
		"pthread_create", "__fprintf_chk", "pthread_atfork",  "__register_atfork",
		"prctl",	  "chdir",
	};
	int *count = ctx;

	if (defined)
		return;
	(*count)++;
	for (size_t i = 0; i < RF_COUNT(never); i++) {
		if (strcmp(name, never[i]) == 0)
			fail_msg(
				"libringfence.so calls %s: it ends, prints, or changes what is the "
				"program's own",
				name);
	}
}

static void the_library_cannot_end_the_program_or_print(void **state)
{
	int count = 0;

	assert_true(elf_names(RINGFENCE_LIB, check_import, &count));
	assert_true(count > 10);
}

static int setup(void **state)
{
	if (!mkdtemp(folder) || chdir(folder) != 0)
		return -1;
	snprintf(shared_env, sizeof(shared_env), "FAKE_CUDA_SHARED=%s/shared", folder);
	return 0;
}

static int teardown(void **state)
{
	static const char *const files[] = { "ledger",		 "shared",    "fence.sock",
					     "own/fence.sock",	 "mycuda.so", "own-ledger",
					     "copy/libcuda.so.1" };

	for (size_t i = 0; i < RF_COUNT(files); i++)
		unlink(files[i]);
	rmdir("own");
	rmdir("copy");
	return chdir("/") == 0 && rmdir(folder) == 0 ? 0 : -1;
}

#define PROMISE(f) cmocka_unit_test_setup_teardown(f, each_setup, each_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		PROMISE(every_way_around_is_held_or_found),
		cmocka_unit_test(the_threat_model_has_a_row_for_each),
		PROMISE(without_an_agent_nothing_is_unlimited),
		PROMISE(limits_and_gate_cannot_be_written),
		PROMISE(a_program_without_cuda_is_left_alone),
		PROMISE(a_program_with_cuda_keeps_its_own_state),
		cmocka_unit_test(the_library_cannot_end_the_program_or_print),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
