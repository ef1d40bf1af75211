#include "fence/test/harness.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fence/ledger.h"
#include "fence/test/fake.h"

static char folder[64];
static int listener = -1, limits_fd = -1, ledger_fd = -1, hold_in = -1;
static pthread_t server;

static void answer(int guest)
{
	struct rf_fence_hello hello;
	struct rf_fence_reply reply = { .magic = RF_FENCE_MAGIC,
					.version = RF_FENCE_VERSION,
					.status = RF_FENCE_OK,
					.fds = 2 };
	struct iovec iov = { .iov_base = &reply, .iov_len = sizeof(reply) };
	int fds[2] = { limits_fd, ledger_fd };
	union {
		char room[CMSG_SPACE(sizeof(fds))];
		struct cmsghdr align;
	} control;
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control.room,
			      .msg_controllen = sizeof(control.room) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(fds));
	memcpy(CMSG_DATA(c), fds, sizeof(fds));
	if (recv(guest, &hello, sizeof(hello), 0) == sizeof(hello))
		sendmsg(guest, &msg, MSG_NOSIGNAL);
}

static void *serve(void *unused)
{
	int guest;

	while ((guest = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		answer(guest);
		close(guest);
	}
	return NULL;
}

static void make_limits(uint64_t cap0, uint64_t cap1, uint64_t context_bytes)
{
	struct rf_fence_limits l = { .magic = RF_FENCE_MAGIC,
				     .version = RF_FENCE_VERSION,
				     .count = 2 };

	strcpy(l.card[0].uuid, FAKE_UUID_0);
	strcpy(l.card[1].uuid, FAKE_UUID_1);
	l.card[0].memory_bytes = cap0;
	l.card[1].memory_bytes = cap1;
	l.card[0].context_bytes = l.card[1].context_bytes = context_bytes;
	limits_fd = memfd_create("limits", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(write(limits_fd, &l, sizeof(l)), sizeof(l));
	assert_int_equal(fcntl(limits_fd, F_ADD_SEALS,
			       F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
			 0);
}

static void make_ledger(void)
{
	struct rf_ledger *l = malloc(sizeof(*l));

	rf_ledger_format(l);
	ledger_fd = open("ledger", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_int_equal(write(ledger_fd, l, sizeof(*l)), sizeof(*l));
	free(l);
}

void harness_start(uint64_t cap0, uint64_t cap1, uint64_t context_bytes)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX, .sun_path = "fence.sock" };

	strcpy(folder, "/tmp/ringfence-ways-XXXXXX");
	assert_non_null(mkdtemp(folder));
	assert_int_equal(chdir(folder), 0);
	make_limits(cap0, cap1, context_bytes);
	make_ledger();
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(listen(listener, 16), 0);
	assert_int_equal(pthread_create(&server, NULL, serve, NULL), 0);
}

void harness_stop(void)
{
	shutdown(listener, SHUT_RDWR);
	pthread_join(server, NULL);
	close(listener);
	close(limits_fd);
	close(ledger_fd);
	unlink("ledger");
	unlink("fence.sock");
	assert_int_equal(chdir("/"), 0);
	rmdir(folder);
}

static pid_t spawn(const char *scenario, int in, int out)
{
	static char preload[] = "LD_PRELOAD=" FENCE_DIR "/libringfence_test.so";
	static char path[] = "LD_LIBRARY_PATH=" FENCE_DIR;
	char *env[] = { preload, path, NULL };
	char *argv[] = { (char *)(uintptr_t) "fence_ways", (char *)(uintptr_t)scenario, NULL };
	posix_spawn_file_actions_t actions;
	pid_t pid = -1;

	posix_spawn_file_actions_init(&actions);
	if (in >= 0)
		posix_spawn_file_actions_adddup2(&actions, in, 0);
	if (out >= 0)
		posix_spawn_file_actions_adddup2(&actions, out, 1);
	assert_int_equal(posix_spawn(&pid, FENCE_DIR "/fence_ways", &actions, NULL, argv, env), 0);
	posix_spawn_file_actions_destroy(&actions);
	return pid;
}

int harness_run(const char *scenario)
{
	int status = -1;
	pid_t pid = spawn(scenario, -1, -1);

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

pid_t harness_hold(const char *scenario)
{
	int in[2], out[2];
	char c = 0;
	pid_t pid;

	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	pid = spawn(scenario, in[0], out[1]);
	close(in[0]);
	close(out[1]);
	hold_in = in[1];
	assert_int_equal(read(out[0], &c, 1), 1);
	close(out[0]);
	return pid;
}

int harness_end(pid_t pid)
{
	int status = -1;

	close(hold_in);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

uint64_t harness_booked(unsigned card)
{
	struct rf_ledger *l = malloc(sizeof(*l));
	uint64_t sum = 0;

	assert_int_equal(rf_ledger_read(ledger_fd, l), 0);
	for (unsigned i = 0; i < RF_LEDGER_SEATS; i++)
		sum += l->used[card][i];
	free(l);
	return sum;
}
