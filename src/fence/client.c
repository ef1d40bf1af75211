#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "fence/dial.h"
#include "fence/fence.h"

/* Above what programs use, so that a daemon's "close everything up to n" is less likely to hit it.
 */
#define LEDGER_FD_FROM 500
#define PAUSE_MS 50

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static bool say_hello(int fd, uint32_t wants)
{
	struct rf_fence_hello hello = { .magic = RF_FENCE_MAGIC,
					.version = RF_FENCE_VERSION,
					.wants = wants };
	ssize_t n;

	do
		n = send(fd, &hello, sizeof(hello), MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof(hello);
}

static void close_all(const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
}

/* The reply's descriptors, 2 or 4; 0: it was no good. */
static size_t hear_reply(int fd, int ret_fds[RF_FENCE_FDS])
{
	struct rf_fence_reply reply = { 0 };
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * RF_FENCE_FDS)] = { 0 };
	struct iovec iov = { &reply, sizeof(reply) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *c;
	size_t count;
	ssize_t n;

	do
		n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	c = n < 0 ? NULL : CMSG_FIRSTHDR(&msg);
	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
		return 0;
	count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	memcpy(ret_fds, CMSG_DATA(c), sizeof(int) * count);
	if ((count == 2 || count == RF_FENCE_FDS) && n == (ssize_t)sizeof(reply) &&
	    reply.magic == RF_FENCE_MAGIC && reply.version == RF_FENCE_VERSION &&
	    reply.status == RF_FENCE_OK && reply.fds == count)
		return count;
	close_all(ret_fds, count);
	return 0;
}

/* Believes only limits that can no longer change. */
static bool read_limits(int fd, struct rf_fence_limits *ret)
{
	int want = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || (seals & want) != want)
		return false;
	if (pread(fd, ret, sizeof(*ret), 0) != (ssize_t)sizeof(*ret))
		return false;
	if (ret->magic != RF_FENCE_MAGIC || ret->version != RF_FENCE_VERSION)
		return false;
	return ret->count <= RF_FENCE_CARDS;
}

static int move_up(int fd)
{
	int high = fcntl(fd, F_DUPFD_CLOEXEC, LEDGER_FD_FROM);

	if (high < 0)
		return fd;
	close(fd);
	return high;
}

static bool ask_once(struct rf_terms *ret)
{
	int fds[RF_FENCE_FDS];
	size_t n = 0;
	bool ok;
	int fd = rf_fence_dial(NULL);

	if (fd < 0)
		return false;
	if (say_hello(fd, RF_FENCE_WANT_ALL))
		n = hear_reply(fd, fds);
	close(fd);
	if (n == 0)
		return false;
	ok = read_limits(fds[0], &ret->limits);
	close(fds[0]);
	if (!ok) {
		close_all(fds + 1, n - 1);
		return false;
	}
	ret->ledger_fd = move_up(fds[1]);
	ret->gate_fd = n == RF_FENCE_FDS ? fds[2] : -1;
	ret->desk_fd = n == RF_FENCE_FDS ? fds[3] : -1;
	return true;
}

bool rf_client_ask(int patience_ms, struct rf_terms *ret)
{
	int64_t end = now_ms() + patience_ms;
	struct timespec pause = { .tv_nsec = PAUSE_MS * 1000000L };

	while (!ask_once(ret)) {
		if (now_ms() >= end)
			return false;
		nanosleep(&pause, NULL);
	}
	return true;
}

bool rf_client_ask_gate(int *ret_gate, int *ret_desk)
{
	int fds[RF_FENCE_FDS];
	size_t n = 0;
	int fd = rf_fence_dial(NULL);

	if (fd < 0)
		return false;
	if (say_hello(fd, RF_FENCE_WANT_GATE))
		n = hear_reply(fd, fds);
	close(fd);
	if (n != 2) {
		close_all(fds, n);
		return false;
	}
	*ret_gate = fds[0];
	*ret_desk = fds[1];
	return true;
}
