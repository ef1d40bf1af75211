#include "fence/launch/registry.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <time.h>

#include "fence/dial.h"
#include "fence/launch/launch.h"

#define MEMBERS_MAX 256
#define MEMBERS_PER_USER 32
#define MEMBERS_KEPT 32 /* for root: a user may have many numbers */
#define ARRIVALS 64	/* that a turn looks at */
#define RETRY_MS 20
#define RETRY_SLOW_MS 500 /* after so many tries in vain */
#define RETRIES 50
#define ANSWER_MS 2000 /* an arbiter that has not answered by then is asked anew */
#define TICK_MS                                                                                    \
	2000 /* as chief: for those who came and do not ask, and to look for root's arbiter */
#define FIRST_GATE_MS 10000
#define SOCKET "arbiter"
#define LOCK "arbiter.lock" /* the chief's while it lives; only its owner can open it */

/* A launcher that registers here. */
struct member {
	int fd;
	uid_t uid;
	bool registered;
	int64_t until; /* when it must have asked */
	int id;	       /* of its fence at the arbiter */
	struct rf_fence_limits limits;
};

enum place {
	SEEKING, /* the timer says when to try again */
	ASKING,	 /* peer is connected and has been asked */
	MEMBER,	 /* peer has given a gate; its end is the arbiter's */
	CHIEF,	 /* the arbiter is here */
	PAUSED,
};

struct rf_registry {
	enum place place;
	int epoll_fd;
	int timer_fd;
	struct rf_folder folder;
	struct rf_fence_limits limits;
	int ledger_fd; /* -1: no fence here, only the arbiter */
	int gate_fd, desk_fd;
	uint32_t promised[RF_FENCE_CARDS]; /* to all fences, when ours came */
	bool changed;
	unsigned tries;	   /* since there was a gate */
	struct rf_err why; /* the last thing that went wrong */
	int peer_fd;
	pid_t peer_pid;
	int listen_fd; /* as chief */
	int lock_fd;
	bool warned; /* of other users' arbiters */
	struct rf_arbiter *arbiter;
	struct member members[MEMBERS_MAX];
	size_t n_members;
};

static int64_t now_ms(void)
{
	return rf_mono_ns(rf_clock_system()) / 1000000;
}

static bool watch(struct rf_registry *r, int fd)
{
	struct epoll_event e = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, fd, &e) == 0;
}

static void set_timer(struct rf_registry *r, int ms)
{
	struct itimerspec t = { .it_value = { .tv_sec = ms / 1000,
					      .tv_nsec = (long)(ms % 1000) * 1000000 } };

	timerfd_settime(r->timer_fd, 0, &t, NULL);
}

static void try_again(struct rf_registry *r)
{
	set_timer(r, r->tries++ < RETRIES ? RETRY_MS : RETRY_SLOW_MS);
}

static void close_one(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void new_gate(struct rf_registry *r, int gate, int desk)
{
	close_one(&r->gate_fd);
	close_one(&r->desk_fd);
	r->gate_fd = gate;
	r->desk_fd = desk;
	r->changed = true;
	if (gate >= 0)
		r->tries = 0;
}

/* --- messages with descriptors --- */

static bool send_with(int fd, const void *p, size_t size, const int *fds, size_t n)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * 2)] = { 0 };
	struct iovec iov = { (void *)(uintptr_t)p, size };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (n > 0) {
		msg.msg_control = control;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * n);
		struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * n);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * n);
	}
	return sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size;
}

/* The size of the message, -1 if there is none; fds that did not come along are -1. */
static ssize_t receive_with(int fd, void *p, size_t size, int fds[2])
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * 2)] = { 0 };
	struct iovec iov = { p, size };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	struct cmsghdr *c = n < 0 ? NULL : CMSG_FIRSTHDR(&msg);

	fds[0] = fds[1] = -1;
	if (c != NULL && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(fds, CMSG_DATA(c), RF_MIN(c->cmsg_len - CMSG_LEN(0), sizeof(int) * 2));
	return n;
}

/* --- as chief --- */

static void expel(struct rf_registry *r, size_t i)
{
	struct member *m = &r->members[i];

	if (m->registered)
		rf_arbiter_remove(r->arbiter, m->id);
	close(m->fd);
	r->members[i] = r->members[--r->n_members];
}

static bool limits_ok(const struct rf_fence_limits *l)
{
	if (l->magic != RF_FENCE_MAGIC || l->version != RF_FENCE_VERSION || l->count == 0 ||
	    l->count > RF_FENCE_CARDS)
		return false;
	for (uint32_t i = 0; i < l->count; i++) {
		if (!memchr(l->card[i].uuid, '\0', RF_FENCE_UUID) ||
		    l->card[i].compute_milli > 1000 || l->card[i].priority < -1000 ||
		    l->card[i].priority > 1000)
			return false;
	}
	return true;
}

/* A file that can neither stall nor fault whoever looks into it: in memory, and of this size for good. */
static bool ledger_ok(int fd)
{
	int want = F_SEAL_SHRINK | F_SEAL_GROW;
	int seals = fd < 0 ? -1 : fcntl(fd, F_GET_SEALS);
	struct stat st;

	return seals >= 0 && (seals & want) == want && fstat(fd, &st) == 0 &&
	       st.st_size == (off_t)sizeof(struct rf_ledger);
}

static uint32_t judge(const struct rf_registry *r, uid_t uid)
{
	size_t same = 0;

	if (uid != geteuid() && uid != 0 && geteuid() != 0)
		return RF_REGISTRY_NOT_YOU;
	for (size_t i = 0; i < r->n_members; i++)
		same += r->members[i].uid == uid;
	return same >= MEMBERS_PER_USER ||
			       r->n_members >= MEMBERS_MAX - (uid == 0 ? 0 : MEMBERS_KEPT)
		       ? RF_REGISTRY_FULL
		       : RF_REGISTRY_OK;
}

static uint32_t share_of(const struct rf_fence_limits *l, const char *uuid)
{
	for (uint32_t i = 0; i < l->count; i++)
		if (strcmp(l->card[i].uuid, uuid) == 0)
			return l->card[i].compute_milli ? l->card[i].compute_milli : 1000;
	return 0;
}

/* What all fences together have of the cards of one that comes. */
static void add_up(const struct rf_registry *r, const struct rf_fence_limits *l,
		   uint32_t ret[RF_FENCE_CARDS])
{
	for (uint32_t c = 0; c < l->count; c++) {
		ret[c] = share_of(&r->limits, l->card[c].uuid);
		for (size_t i = 0; i < r->n_members; i++)
			if (r->members[i].registered)
				ret[c] += share_of(&r->members[i].limits, l->card[c].uuid);
	}
}

/* Takes the fence in. False: the member is of no use any more. */
static bool enrol(struct rf_registry *r, struct member *m, const struct rf_registry_ask *ask,
		  int ledger_fd)
{
	struct rf_registry_reply reply = { .magic = RF_REGISTRY_MAGIC,
					   .version = RF_REGISTRY_VERSION };
	int fds[2] = { -1, -1 };
	bool sent;

	if (ask->version != RF_REGISTRY_VERSION)
		reply.status = RF_REGISTRY_OTHER_VERSION;
	else if (!limits_ok(&ask->limits) || !ledger_ok(ledger_fd))
		reply.status = RF_REGISTRY_FAILED;
	if (reply.status == RF_REGISTRY_OK) {
		int rc = rf_arbiter_add(r->arbiter, &ask->limits, ledger_fd, &m->id, &fds[0],
					&fds[1]);

		reply.status = rc == 0	       ? RF_REGISTRY_OK
			       : rc == -ENOSPC ? RF_REGISTRY_FULL
					       : RF_REGISTRY_FAILED;
	}
	m->registered = reply.status == RF_REGISTRY_OK;
	if (m->registered) {
		m->limits = ask->limits;
		add_up(r, &m->limits, reply.promised);
	}
	sent = send_with(m->fd, &reply, sizeof(reply), fds, m->registered ? 2 : 0);
	close_one(&fds[0]);
	close_one(&fds[1]);
	return sent && m->registered;
}

static void hear_member(struct rf_registry *r, size_t i)
{
	struct member *m = &r->members[i];
	struct rf_registry_ask ask = { .magic = 0 };
	int fds[2];
	ssize_t n = receive_with(m->fd, &ask, sizeof(ask), fds);
	bool keep = n < 0 && (errno == EAGAIN || errno == EINTR);

	/* The first two fields stay where they are in all versions. */
	if (n >= 8 && ask.magic == RF_REGISTRY_MAGIC && !m->registered &&
	    (n == (ssize_t)sizeof(ask) || ask.version != RF_REGISTRY_VERSION))
		keep = enrol(r, m, &ask, fds[0]);
	close_one(&fds[0]);
	close_one(&fds[1]);
	if (!keep)
		expel(r, i);
}

/* Who may not come is told so and sent away, before it takes anybody's place. */
static void admit(struct rf_registry *r, int fd)
{
	struct rf_registry_reply no = { .magic = RF_REGISTRY_MAGIC,
					.version = RF_REGISTRY_VERSION };
	struct ucred who = { .pid = 0 };
	socklen_t size = sizeof(who);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) < 0) {
		close(fd);
		return;
	}
	no.status = judge(r, who.uid);
	if (no.status != RF_REGISTRY_OK || !watch(r, fd)) {
		(void)send_with(fd, &no, sizeof(no), NULL, 0);
		close(fd);
		return;
	}
	r->members[r->n_members++] =
		(struct member){ .fd = fd, .uid = who.uid, .until = now_ms() + ANSWER_MS };
}

static void admit_members(struct rf_registry *r)
{
	for (int i = 0; i < ARRIVALS; i++) {
		int fd = accept4(r->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0)
			return;
		admit(r, fd);
	}
}

/* --- becoming something --- */

static void let_go(struct rf_registry *r, enum place next)
{
	/* Nobody may find the old door once others are sent away. */
	if (r->listen_fd >= 0)
		rf_folder_remove(&r->folder, SOCKET);
	close_one(&r->listen_fd);
	close_one(&r->lock_fd);
	while (r->n_members > 0)
		expel(r, r->n_members - 1);
	rf_arbiter_stop(r->arbiter);
	r->arbiter = NULL;
	close_one(&r->peer_fd);
	new_gate(r, -1, -1);
	r->place = next;
	set_timer(r, 0);
	if (next == SEEKING)
		try_again(r);
}

static void warn_of_others(struct rf_registry *r)
{
	uid_t other;

	if (r->folder.which == 0 || r->warned || !rf_folder_others(&other))
		return;
	r->warned = true;
	fprintf(stderr,
		"ringfence fence: user %u has fences here too; fences of several users keep their "
		"shares only if root runs: ringfence fence arbiter\n",
		(unsigned)other);
}

static int start_arbiter(struct rf_registry *r, int *ret_gate, int *ret_desk)
{
	int id;
	int rc = rf_arbiter_start(&r->arbiter);

	if (rc < 0 || r->ledger_fd < 0)
		return rc;
	return rf_arbiter_add(r->arbiter, &r->limits, r->ledger_fd, &id, ret_gate, ret_desk);
}

/* The lock is ours, and so is the socket's name. */
static void become_chief(struct rf_registry *r)
{
	int gate = -1, desk = -1;
	int rc = start_arbiter(r, &gate, &desk);

	if (rc < 0)
		rf_fail(&r->why, RF_SYSTEM, "run the arbiter: %s", strerror(-rc));
	else if (rf_folder_listen(&r->folder, SOCKET, 64, &r->listen_fd, &r->why) == 0 &&
		 !watch(r, r->listen_fd))
		rc = rf_fail_errno(&r->why, "run the arbiter");
	if (rc < 0 || r->listen_fd < 0) {
		close_one(&gate);
		close_one(&desk);
		let_go(r, SEEKING);
		return;
	}
	r->place = CHIEF;
	set_timer(r, TICK_MS);
	add_up(r, &r->limits, r->promised);
	new_gate(r, gate, desk);
	warn_of_others(r);
}

static bool lock(struct rf_registry *r)
{
	r->lock_fd = openat(r->folder.fd, LOCK, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (r->lock_fd >= 0 && flock(r->lock_fd, LOCK_EX | LOCK_NB) == 0)
		return true;
	close_one(&r->lock_fd);
	return false;
}

/* False: nobody listens there. */
static bool ask_at(struct rf_registry *r, unsigned which, int folder_fd)
{
	struct rf_registry_ask a = { .magic = RF_REGISTRY_MAGIC,
				     .version = RF_REGISTRY_VERSION,
				     .limits = r->limits };
	struct ucred who = { .pid = 0 };

	r->peer_fd = rf_fence_connect(which, folder_fd, SOCKET, 0, &who);
	if (r->peer_fd < 0 && errno != EAGAIN)
		return false;
	r->peer_pid = who.pid;
	if (r->peer_fd >= 0 && (who.uid == 0 || who.uid == geteuid()) &&
	    send_with(r->peer_fd, &a, sizeof(a), &r->ledger_fd, 1) && watch(r, r->peer_fd)) {
		r->place = ASKING;
		set_timer(r, ANSWER_MS);
		return true;
	}
	close_one(&r->peer_fd);
	try_again(r);
	return true;
}

/* Root's arbiter is for all users, wherever it listens; theirs are for each alone. */
static bool ask_root(struct rf_registry *r)
{
	rf_auto_close int fd = r->folder.which == 0 ? -1 : rf_fence_folder_open(0);

	return fd >= 0 && ask_at(r, 0, fd);
}

static bool root_listens(const struct rf_registry *r)
{
	rf_auto_close int dir = r->folder.which == 0 ? -1 : rf_fence_folder_open(0);
	struct ucred who;
	rf_auto_close int fd = dir < 0 ? -1 : rf_fence_connect(0, dir, SOCKET, 0, &who);

	return fd >= 0;
}

static void elect(struct rf_registry *r)
{
	bool fence = r->ledger_fd >= 0;

	if (fence && ask_root(r))
		return;
	if (lock(r))
		return become_chief(r);
	if (!fence || !ask_at(r, r->folder.which, r->folder.fd))
		try_again(r);
}

static void tick(struct rf_registry *r)
{
	int64_t now = now_ms();

	for (size_t i = r->n_members; i-- > 0;)
		if (!r->members[i].registered && r->members[i].until <= now)
			expel(r, i);
	if (r->ledger_fd >= 0 && root_listens(r))
		let_go(r, SEEKING);
	else
		set_timer(r, TICK_MS);
}

/* --- as member --- */

static void refused(struct rf_registry *r, uint32_t status)
{
	static const char *const texts[] = {
		[RF_REGISTRY_OTHER_VERSION] = "is of another version of ringfence; end it first",
		[RF_REGISTRY_NOT_YOU] = "is another user's",
		[RF_REGISTRY_FULL] = "has too many fences already",
		[RF_REGISTRY_FAILED] = "did not take the fence",
	};

	rf_fail(&r->why, RF_UNAVAILABLE, "process %d, which runs the arbiter, %s", (int)r->peer_pid,
		status < RF_COUNT(texts) && texts[status] ? texts[status] : "talks nonsense");
}

static void hear_chief(struct rf_registry *r)
{
	struct rf_registry_reply reply = { .magic = 0 };
	int fds[2];
	ssize_t n = receive_with(r->peer_fd, &reply, sizeof(reply), fds);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (r->place == ASKING && n == (ssize_t)sizeof(reply) && reply.magic == RF_REGISTRY_MAGIC &&
	    reply.status == RF_REGISTRY_OK && fds[0] >= 0 && fds[1] >= 0) {
		r->place = MEMBER;
		set_timer(r, 0);
		memcpy(r->promised, reply.promised, sizeof(r->promised));
		new_gate(r, fds[0], fds[1]);
		return;
	}
	/* Older ones say less, but that they say first. */
	if (n >= (ssize_t)offsetof(struct rf_registry_reply, promised))
		refused(r, reply.status);
	close_one(&fds[0]);
	close_one(&fds[1]);
	let_go(r, SEEKING);
}

/* --- for the launcher --- */

static void attend(struct rf_registry *r, int fd)
{
	uint64_t times;

	if (fd == r->timer_fd) {
		if (read(fd, &times, sizeof(times)) < 0)
			return;
		if (r->place == ASKING) {
			rf_fail(&r->why, RF_TIMEOUT,
				"process %d, which runs the arbiter, does not answer; if it is "
				"stopped, let it go on or end it",
				(int)r->peer_pid);
			let_go(r, SEEKING);
		}
		if (r->place == CHIEF)
			tick(r);
		else if (r->place == SEEKING)
			elect(r);
	} else if (fd == r->peer_fd) {
		hear_chief(r);
	} else if (fd == r->listen_fd) {
		admit_members(r);
	} else {
		for (size_t i = 0; i < r->n_members; i++)
			if (r->members[i].fd == fd)
				return hear_member(r, i);
	}
}

void rf_registry_turn(struct rf_registry *r)
{
	struct epoll_event events[16];
	int n = epoll_wait(r->epoll_fd, events, (int)RF_COUNT(events), 0);

	for (int i = 0; i < n; i++)
		attend(r, events[i].data.fd);
}

int rf_registry_fd(const struct rf_registry *r)
{
	return r->epoll_fd;
}

bool rf_registry_changed(struct rf_registry *r, int *ret_gate, int *ret_desk)
{
	if (!r->changed)
		return false;
	r->changed = false;
	*ret_gate = rf_take_fd(r->gate_fd);
	*ret_desk = rf_take_fd(r->desk_fd);
	return true;
}

uint32_t rf_registry_promised(const struct rf_registry *r, size_t card)
{
	return r->promised[card];
}

void rf_registry_pause(struct rf_registry *r)
{
	let_go(r, PAUSED);
}

void rf_registry_resume(struct rf_registry *r)
{
	if (r->place != PAUSED)
		return;
	r->place = SEEKING;
	elect(r);
}

void rf_registry_close(struct rf_registry *r)
{
	if (r == NULL)
		return;
	let_go(r, PAUSED);
	close_one(&r->folder.fd);
	close_one(&r->epoll_fd);
	close_one(&r->timer_fd);
	free(r);
}

/* What will not get better by waiting. */
static bool hopeless(const struct rf_registry *r)
{
	return r->why.code == RF_FORBIDDEN || r->why.code == RF_UNAVAILABLE;
}

static int wait_for_gate(struct rf_registry *r, struct rf_err *err)
{
	int64_t end = now_ms() + FIRST_GATE_MS;

	elect(r);
	while (r->gate_fd < 0) {
		struct pollfd p = { .fd = r->epoll_fd, .events = POLLIN };

		if (hopeless(r) || now_ms() >= end)
			return rf_fail(err, r->why.code ? (enum rf_code)r->why.code : RF_TIMEOUT,
				       "%s", r->why.code ? r->why.msg : "no arbiter answers");
		poll(&p, 1, 100);
		rf_registry_turn(r);
	}
	return 0;
}

int rf_registry_open(const struct rf_fence_limits *limits, int ledger_fd, struct rf_registry **ret,
		     struct rf_err *err)
{
	struct rf_registry *r = rf_new(struct rf_registry);

	if (limits != NULL)
		r->limits = *limits;
	r->ledger_fd = ledger_fd;
	r->gate_fd = r->desk_fd = r->peer_fd = r->listen_fd = r->lock_fd = r->folder.fd = -1;
	r->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	r->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (r->epoll_fd < 0 || r->timer_fd < 0 || !watch(r, r->timer_fd)) {
		rf_fail_errno(err, "watch for the arbiter");
		rf_registry_close(r);
		return -err->code;
	}
	if (rf_folder_open(&r->folder, err) < 0 || (ledger_fd >= 0 && wait_for_gate(r, err) < 0)) {
		rf_registry_close(r);
		return -err->code;
	}
	if (ledger_fd < 0)
		elect(r);
	*ret = r;
	return 0;
}
