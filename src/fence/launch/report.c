#include "fence/launch/report.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define ANSWERS 8 /* at a time: the fence has other things to do */

static void add(struct rf_buf *b, const void *p, size_t n)
{
	rf_buf_add(b, rf_str_n(p, n));
}

static void add_card(struct rf_buf *b, const struct rf_report *r, size_t i)
{
	struct rf_fence_process list[RF_LEDGER_SEATS];
	struct rf_report_card c = { .limit = r->limits.card[i], .index = r->index[i] };

	/* A spoiled ledger still says the cap; the rest is then zero. */
	(void)rf_fence_server_usage(r->server, i, &c.usage);
	c.processes = (uint32_t)RF_MIN(
		rf_fence_server_processes(r->server, i, list, RF_COUNT(list)), RF_COUNT(list));
	add(b, &c, sizeof(c));
	add(b, list, sizeof(list[0]) * c.processes);
}

static int write_report(const struct rf_report *r)
{
	rf_auto(buf) b = RF_BUF_INIT;
	struct rf_report_head head = { .magic = RF_REPORT_MAGIC,
				       .version = RF_REPORT_VERSION,
				       .cards = r->limits.count };
	rf_auto_close int fd = memfd_create("ringfence-stats", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	memcpy(head.name, r->name, sizeof(head.name));
	add(&b, &head, sizeof(head));
	for (size_t i = 0; i < r->limits.count; i++)
		add_card(&b, r, i);
	if (fd < 0 || write(fd, b.p, b.n) != (ssize_t)b.n ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return -1;
	return rf_take_fd(fd);
}

static bool may_read(int fd)
{
	struct ucred who = { .pid = 0 };
	socklen_t size = sizeof(who);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 &&
	       (who.uid == 0 || who.uid == geteuid());
}

static void send_report(int fd, int report_fd)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = { 0 };
	char byte = 'r';
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &report_fd, sizeof(int));
	(void)sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT); /* who left does not want it */
}

void rf_report_answer(int listen_fd, const struct rf_report *r)
{
	rf_auto_close int report_fd = -1;

	for (int i = 0; i < ANSWERS; i++) {
		int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0)
			return;
		if (may_read(fd)) {
			report_fd = report_fd < 0 ? write_report(r) : report_fd;
			if (report_fd >= 0)
				send_report(fd, report_fd);
		}
		close(fd);
	}
}
