/* A fence for tests: an agent in this process, tenants in others. */
#ifndef RF_FENCE_TEST_STAGE_H
#define RF_FENCE_TEST_STAGE_H

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
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fence/server.h"
#include "fence/test/fake.h"

#define MIB ((uint64_t)1 << 20)

static struct {
	char folder[40];
	pthread_t thread;
	int stop_fd;
	struct rf_fence_server *server;
} stage;

static void *stage_serve(void *arg)
{
	struct pollfd p[] = { { .fd = rf_fence_server_fd(stage.server), .events = POLLIN },
			      { .fd = stage.stop_fd, .events = POLLIN } };

	while (poll(p, RF_COUNT(p), -1) < 0 || !p[1].revents)
		rf_fence_server_turn(stage.server);
	return NULL;
}

static void stage_start(uint64_t cap)
{
	struct rf_fence_card cards[] = { { .uuid = FAKE_UUID_0, .memory_bytes = cap },
					 { .uuid = FAKE_UUID_1 } };
	struct rf_err err = RF_ERR_INIT;
	int fd = open("shared", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 4096), 0);
	close(fd);
	unlink("ledger");
	if (rf_fence_server_start(".", "ledger", cards, 2, NULL, &stage.server, &err) < 0)
		fail_msg("%s", err.msg);
	stage.stop_fd = eventfd(0, EFD_CLOEXEC);
	assert_true(stage.stop_fd >= 0);
	assert_int_equal(pthread_create(&stage.thread, NULL, stage_serve, NULL), 0);
}

static void stage_stop(void)
{
	assert_int_equal(eventfd_write(stage.stop_fd, 1), 0);
	assert_int_equal(pthread_join(stage.thread, NULL), 0);
	close(stage.stop_fd);
	rf_fence_server_stop(stage.server);
	stage.server = NULL;
}

static pid_t stage_spawn(const char *program, const char *arg1, const char *arg2)
{
	static char preload[] = "LD_PRELOAD=" FENCE_DIR "/libringfence_test.so";
	static char path[] = "LD_LIBRARY_PATH=" FENCE_DIR;
	static char shared[] = "FAKE_CUDA_SHARED=shared";
	char *env[] = { preload, path, shared, NULL };
	char *argv[] = { (char *)(uintptr_t)program, (char *)(uintptr_t)arg1,
			 (char *)(uintptr_t)arg2, NULL };
	pid_t pid = -1;

	assert_int_equal(posix_spawn(&pid, program, NULL, NULL, argv, env), 0);
	return pid;
}

static int stage_wait(pid_t pid)
{
	int status = -1;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static struct rf_fence_usage stage_usage(void)
{
	struct rf_fence_usage u;

	assert_int_equal(rf_fence_server_usage(stage.server, 0, &u), 0);
	return u;
}

/* What the fake drivers together hold on the card, and the most they ever held. */
static void stage_card(uint64_t *ret_live, uint64_t *ret_peak)
{
	uint64_t live_peak[2];
	int fd = open("shared", O_RDONLY | O_CLOEXEC);

	assert_int_equal(pread(fd, live_peak, sizeof(live_peak), 0), sizeof(live_peak));
	close(fd);
	*ret_live = live_peak[0];
	*ret_peak = live_peak[1];
}

static int stage_setup(void **state)
{
	snprintf(stage.folder, sizeof(stage.folder), "/tmp/ringfence-stage-XXXXXX");
	return mkdtemp(stage.folder) && chdir(stage.folder) == 0 ? 0 : -1;
}

static int stage_teardown(void **state)
{
	unlink("ledger");
	unlink("shared");
	unlink("fence.sock");
	return chdir("/") == 0 && rmdir(stage.folder) == 0 ? 0 : -1;
}

#endif
