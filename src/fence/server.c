#include "fence/server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <time.h>

#define SOCKET_NAME "fence.sock"
#define BACKLOG 1024
/* Connections that have not said hello yet; more wait in the backlog. Few, since a tenant can have many
 * containers and all of them together must leave the agent descriptors. */
#define MAX_GUESTS 8
#define GUEST_PATIENCE_NS (2000LL * 1000 * 1000)
#define ARRIVALS 64 /* that a turn looks at: strangers are sent away and cost time too */
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#define LOOK_NS (100LL * 1000 * 1000)
#define MAX_WAITING 4096		     /* threads of one process that are believed */
#define CARD_BYTES_MOST ((uint64_t)16 << 40) /* 16 TiB: no card comes near it */

struct guest {
	int fd;
	int64_t until;
};

struct rf_fence_server {
	int epoll_fd;
	int timer_fd;
	int listen_fd;
	int dir_fd; /* -1: the socket is not in a folder */
	int limits_fd;
	int ledger_fd;
	int gate_fd;
	int desk_fd;
	bool gated; /* without a gate nobody is answered */
	bool listening;
	struct rf_fence_limits limits;
	const struct rf_gate *gate;
	const struct rf_desk *desk;
	struct rf_arbiter *arbiter; /* NULL, or arbiter_id is to be removed from it */
	int arbiter_id;
	bool (*admit)(void *ctx, pid_t pid);
	void *admit_ctx;
	struct guest guests[MAX_GUESTS];
	size_t n_guests;
	uint64_t handshakes;
	int64_t patience_ns;
	bool jammed;
	/* Seats change hands and gates are replaced; sums only go up. */
	uint64_t gone_gpu_ns[RF_FENCE_CARDS]; /* charged at earlier gates */
	uint64_t held_ns[RF_FENCE_CARDS];
	uint64_t looked_at[RF_FENCE_CARDS];
	uint64_t seen_held[RF_FENCE_CARDS][RF_LEDGER_SEATS];
};

static int64_t now_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* --- limits --- */

static int check_cards(const struct rf_fence_card *cards, size_t n, struct rf_err *err)
{
	if (n == 0 || n > RF_FENCE_CARDS)
		return rf_fail(err, RF_INVALID, "a fence holds 1 to %d cards, not %zu",
			       RF_FENCE_CARDS, n);
	for (size_t i = 0; i < n; i++) {
		if (cards[i].uuid[0] == '\0' || !memchr(cards[i].uuid, '\0', RF_FENCE_UUID))
			return rf_fail(err, RF_INVALID, "card %zu of a fence has no proper UUID",
				       i);
	}
	return 0;
}

int rf_fence_limits_fill(struct rf_fence_limits *ret, const struct rf_fence_card *cards, size_t n,
			 struct rf_err *err)
{
	if (check_cards(cards, n, err) < 0)
		return -err->code;
	*ret = (struct rf_fence_limits){ .magic = RF_FENCE_MAGIC,
					 .version = RF_FENCE_VERSION,
					 .count = (uint32_t)n };
	for (size_t i = 0; i < n; i++) {
		struct rf_fence_limit *l = &ret->card[i];

		snprintf(l->uuid, sizeof(l->uuid), "%s", cards[i].uuid);
		l->memory_bytes = cards[i].memory_bytes;
		l->context_bytes = cards[i].context_bytes;
		l->compute_milli = cards[i].compute_milli;
		l->priority = cards[i].priority;
		l->flags = (cards[i].burst ? RF_FENCE_BURST : 0) |
			   (cards[i].spatial ? RF_FENCE_SPATIAL : 0);
	}
	return 0;
}

bool rf_fence_limits_shared(const struct rf_fence_limits *l)
{
	for (uint32_t i = 0; i < l->count; i++) {
		const struct rf_fence_limit *c = &l->card[i];

		if (c->memory_bytes != 0 || (c->compute_milli != 0 && c->compute_milli != 1000) ||
		    c->flags != 0)
			return true;
	}
	return false;
}

static int seal_limits(const struct rf_fence_limits *limits, int *ret_fd, struct rf_err *err)
{
	rf_auto_close int fd = memfd_create("ringfence-limits", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return rf_fail_errno(err, "create the fence's limits");
	if (write(fd, limits, sizeof(*limits)) != (ssize_t)sizeof(*limits))
		return rf_fail_errno(err, "write the fence's limits");
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return rf_fail_errno(err, "seal the fence's limits");
	*ret_fd = rf_take_fd(fd);
	return 0;
}

/* --- the ledger's file --- */

/* Appears whole or not at all. */
static int create_ledger(const char *path, struct rf_err *err)
{
	rf_auto(buf) tmp = RF_BUF_INIT;
	rf_auto_free char *page = rf_alloc(sizeof(struct rf_ledger));
	rf_auto_close int fd = -1;

	rf_buf_printf(&tmp, "%s.new", path);
	rf_ledger_format((struct rf_ledger *)page);
	fd = open(tmp.p, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return rf_fail_errno(err, "create %s", tmp.p);
	if (write(fd, page, sizeof(struct rf_ledger)) != (ssize_t)sizeof(struct rf_ledger))
		return rf_fail_errno(err, "write %s", tmp.p);
	if (rename(tmp.p, path) < 0)
		return rf_fail_errno(err, "rename %s", tmp.p);
	return 0;
}

/* The tenant may have made the file longer; it is only ever as long as a ledger. */
static void trim_ledger(int fd)
{
	struct stat st;

	if (fstat(fd, &st) == 0 && st.st_size > (off_t)sizeof(struct rf_ledger) &&
	    ftruncate(fd, sizeof(struct rf_ledger)) < 0)
		rf_warn("fence: cannot shorten a ledger: %s", strerror(errno));
}

/* O_NONBLOCK: a lease on the file must not hold up the agent. */
static int open_ledger(const char *path, int *ret_fd, struct rf_err *err)
{
	rf_auto_free char *page = rf_alloc(sizeof(struct rf_ledger));
	int flags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
	rf_auto_close int fd = open(path, flags);

	if (fd < 0 && errno == ENOENT) {
		if (create_ledger(path, err) < 0)
			return rf_wrap(err, "ledger");
		fd = open(path, flags);
	}
	if (fd < 0)
		return rf_fail_errno(err, "open ledger %s", path);
	trim_ledger(fd);
	if (rf_ledger_read(fd, (struct rf_ledger *)page) < 0)
		return rf_fail(
			err, RF_CONFLICT,
			"%s is not a ledger of this version, or the container spoiled it; end the "
			"container and remove the file",
			path);
	*ret_fd = rf_take_fd(fd);
	return 0;
}

/* --- the socket --- */

/* Bound through the folder's descriptor, since a socket's path has room for 107 characters only. */
static int bind_socket(int dir_fd, int fd, struct rf_err *err)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	snprintf(addr.sun_path, sizeof(addr.sun_path), "/proc/self/fd/%d/" SOCKET_NAME, dir_fd);
	if (unlinkat(dir_fd, SOCKET_NAME, 0) < 0 && errno != ENOENT)
		return rf_fail_errno(err, "remove the stale " SOCKET_NAME);
	/* Open to all users of the container from the start: a chmod would go by name. */
	mode_t kept = umask(0111);
	int rc = bind(fd, (struct sockaddr *)&addr, sizeof(addr));
	umask(kept);
	if (rc < 0)
		return rf_fail_errno(err, "bind " SOCKET_NAME);
	if (listen(fd, BACKLOG) < 0)
		return rf_fail_errno(err, "listen on " SOCKET_NAME);
	return 0;
}

static int open_socket(const char *run_dir, int *ret_dir, int *ret_fd, struct rf_err *err)
{
	rf_auto_close int dir = -1;
	rf_auto_close int fd = -1;

	if (mkdir(run_dir, 0755) < 0 && errno != EEXIST)
		return rf_fail_errno(err, "create %s", run_dir);
	dir = open(run_dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return rf_fail_errno(err, "open %s", run_dir);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return rf_fail_errno(err, "socket");
	if (bind_socket(dir, fd, err) < 0)
		return rf_wrap(err, "in %s", run_dir);
	*ret_dir = rf_take_fd(dir);
	*ret_fd = rf_take_fd(fd);
	return 0;
}

/* --- gate and desk --- */

/* NULL unless the file has just that size and keeps it. */
static const void *map_shared(int fd, size_t size)
{
	int want = F_SEAL_SHRINK | F_SEAL_GROW;
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;
	void *p;

	if (seals < 0 || (seals & want) != want || fstat(fd, &st) < 0 || st.st_size != (off_t)size)
		return NULL;
	p = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	return p == MAP_FAILED ? NULL : p;
}

static void unmap(const void *p, size_t size)
{
	if (p)
		munmap((void *)(uintptr_t)p, size);
}

static uint64_t charged(const struct rf_fence_server *s, size_t card)
{
	uint64_t here =
		s->gate ? __atomic_load_n(&s->gate->card[card].gpu_ns, __ATOMIC_RELAXED) : 0;

	return s->gone_gpu_ns[card] + here;
}

static void drop_gate(struct rf_fence_server *s)
{
	for (size_t i = 0; i < s->limits.count; i++)
		s->gone_gpu_ns[i] = charged(s, i);
	unmap(s->gate, sizeof(*s->gate));
	unmap(s->desk, sizeof(*s->desk));
	s->gate = NULL;
	s->desk = NULL;
	if (s->gate_fd >= 0)
		close(s->gate_fd);
	if (s->desk_fd >= 0)
		close(s->desk_fd);
	s->gate_fd = s->desk_fd = -1;
}

int rf_fence_server_set_gate(struct rf_fence_server *s, int gate_fd, int desk_fd)
{
	drop_gate(s);
	s->gated = true;
	s->gate_fd = gate_fd;
	s->desk_fd = desk_fd;
	if (gate_fd < 0 && desk_fd < 0)
		return 0;
	s->gate = map_shared(gate_fd, sizeof(*s->gate));
	s->desk = map_shared(desk_fd, sizeof(*s->desk));
	if (s->gate && s->desk && s->gate->magic == RF_GATE_MAGIC &&
	    s->desk->magic == RF_DESK_MAGIC)
		return 0;
	drop_gate(s);
	return -EINVAL;
}

static int ask_arbiter(struct rf_fence_server *s, struct rf_arbiter *arbiter, struct rf_err *err)
{
	int gate = -1, desk = -1;
	int r;

	if (!arbiter || !rf_fence_limits_shared(&s->limits))
		return 0;
	r = rf_arbiter_add(arbiter, &s->limits, s->ledger_fd, &s->arbiter_id, &gate, &desk);
	if (r < 0)
		return rf_fail(err, RF_SYSTEM, "share the fence's cards by time: %s", strerror(-r));
	s->arbiter = arbiter;
	r = rf_fence_server_set_gate(s, gate, desk);
	return r < 0 ? rf_fail(err, RF_INTERNAL, "the arbiter gave a gate that is none") : 0;
}

/* --- guests: connections that have not been answered yet --- */

static bool watch(struct rf_fence_server *s, int fd)
{
	struct epoll_event e = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &e) == 0;
}

static void listen_or_pause(struct rf_fence_server *s)
{
	bool want = s->n_guests < MAX_GUESTS;
	struct epoll_event e = { .events = want ? EPOLLIN : 0, .data.fd = s->listen_fd };

	if (want != s->listening)
		epoll_ctl(s->epoll_fd, EPOLL_CTL_MOD, s->listen_fd, &e);
	s->listening = want;
}

/* Goes off when the guest that has been here longest is late. */
static void set_timer(struct rf_fence_server *s)
{
	struct itimerspec when = { .it_value = { 0 } };
	int64_t first = INT64_MAX;

	for (size_t i = 0; i < s->n_guests; i++)
		first = RF_MIN(first, s->guests[i].until);
	if (s->n_guests > 0)
		when.it_value = (struct timespec){ .tv_sec = first / 1000000000,
						   .tv_nsec = first % 1000000000 };
	timerfd_settime(s->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void dismiss(struct rf_fence_server *s, size_t i)
{
	close(s->guests[i].fd); /* nobody else has it: epoll forgets it too */
	s->guests[i] = s->guests[--s->n_guests];
	set_timer(s);
	listen_or_pause(s);
}

static void dismiss_late(struct rf_fence_server *s)
{
	int64_t now = now_ns(CLOCK_MONOTONIC);
	uint64_t times;

	if (read(s->timer_fd, &times, sizeof(times)) < 0 && errno != EAGAIN)
		rf_warn("fence: timer: %s", strerror(errno));
	for (size_t i = s->n_guests; i-- > 0;) {
		if (s->guests[i].until <= now)
			dismiss(s, i);
	}
}

static void send_reply(struct rf_fence_server *s, int fd, uint32_t status, const int *fds,
		       uint32_t count)
{
	struct rf_fence_reply reply = {
		.magic = RF_FENCE_MAGIC, .version = RF_FENCE_VERSION, .status = status, .fds = count
	};
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * RF_FENCE_FDS)] = { 0 };
	struct iovec iov = { &reply, sizeof(reply) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (count > 0) {
		msg.msg_control = control;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * count);
		struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * count);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * count);
	}
	/* A guest that went away meanwhile is its own business: it has no limits and so no card. */
	if (sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof(reply) &&
	    status == RF_FENCE_OK)
		s->handshakes++;
}

/* The process that connected, and not another with its number, is still there. Kernels before 6.5 cannot
 * tell. */
static bool is_there(int fd)
{
	rf_auto_close int pidfd = -1;
	socklen_t size = sizeof(pidfd);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) < 0)
		return errno == ENOPROTOOPT;
	return poll(&(struct pollfd){ .fd = pidfd, .events = POLLIN }, 1, 0) == 0;
}

static bool welcome(const struct rf_fence_server *s, int fd)
{
	struct ucred who = { .pid = 0 };
	socklen_t size = sizeof(who);
	uid_t me = geteuid();

	if (!s->admit)
		return true;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) < 0 || who.pid <= 0)
		return false;
	return (me == 0 || who.uid == me || who.uid == 0) && s->admit(s->admit_ctx, who.pid) &&
	       is_there(fd);
}

static void answer(struct rf_fence_server *s, int fd, const struct rf_fence_hello *hello, size_t n)
{
	int fds[RF_FENCE_FDS] = { s->limits_fd, s->ledger_fd, s->gate_fd, s->desk_fd };
	bool gate = hello->wants == RF_FENCE_WANT_GATE;

	if (hello->version != RF_FENCE_VERSION)
		return send_reply(s, fd, RF_FENCE_BAD_VERSION, NULL, 0);
	if (n != sizeof(*hello) || (gate && !s->gated))
		return;
	trim_ledger(s->ledger_fd);
	send_reply(s, fd, RF_FENCE_OK, gate ? fds + 2 : fds, s->gated && !gate ? 4 : 2);
}

/* False: it has said nothing yet. */
static bool hear(struct rf_fence_server *s, int fd)
{
	struct rf_fence_hello hello = { 0 };
	ssize_t n = recv(fd, &hello, sizeof(hello), MSG_DONTWAIT | MSG_TRUNC);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	/* Magic and version stand first in all versions. */
	if (n >= 8 && hello.magic == RF_FENCE_MAGIC && (s->gate || !s->gated))
		answer(s, fd, &hello, (size_t)n);
	return true;
}

/* One that waited is looked at again: it may be gone, and its number another's. */
static void hear_guest(struct rf_fence_server *s, size_t i)
{
	if (!welcome(s, s->guests[i].fd) || hear(s, s->guests[i].fd))
		dismiss(s, i);
}

/* Most have said hello by the time they are let in, and need no place to wait. */
static void let_in(struct rf_fence_server *s, int fd)
{
	int64_t until = now_ns(CLOCK_MONOTONIC) + GUEST_PATIENCE_NS;

	if (!welcome(s, fd) || hear(s, fd) || !watch(s, fd)) {
		close(fd);
		return;
	}
	s->guests[s->n_guests++] = (struct guest){ .fd = fd, .until = until };
	set_timer(s);
}

static void greet(struct rf_fence_server *s)
{
	for (int i = 0; i < ARRIVALS && s->n_guests < MAX_GUESTS; i++) {
		int fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0)
			break;
		let_in(s, fd);
	}
	listen_or_pause(s);
}

static void attend(struct rf_fence_server *s, int fd)
{
	if (fd == s->listen_fd)
		return greet(s);
	if (fd == s->timer_fd)
		return dismiss_late(s);
	for (size_t i = 0; i < s->n_guests; i++) {
		if (s->guests[i].fd == fd)
			return hear_guest(s, i);
	}
}

int rf_fence_server_fd(const struct rf_fence_server *s)
{
	return s->epoll_fd;
}

/* A descriptor that was closed and given to another guest in the same turn is merely looked at. */
void rf_fence_server_turn(struct rf_fence_server *s)
{
	struct epoll_event events[MAX_GUESTS + 2];
	int n = epoll_wait(s->epoll_fd, events, (int)RF_COUNT(events), 0);

	for (int i = 0; i < n; i++)
		attend(s, events[i].data.fd);
}

/* --- start, stop --- */

static struct rf_fence_server *new_server(const struct rf_fence_limits *limits)
{
	struct rf_fence_server *s = rf_new(struct rf_fence_server);

	s->epoll_fd = s->timer_fd = s->listen_fd = s->dir_fd = -1;
	s->limits_fd = s->ledger_fd = s->gate_fd = s->desk_fd = -1;
	s->patience_ns = LOOK_NS;
	s->limits = *limits;
	for (size_t i = 0; i < RF_FENCE_CARDS; i++)
		s->looked_at[i] = (uint64_t)now_ns(CLOCK_MONOTONIC);
	return s;
}

static void free_server(struct rf_fence_server *s)
{
	int fds[] = {
		s->epoll_fd, s->timer_fd, s->listen_fd, s->dir_fd, s->limits_fd, s->ledger_fd
	};

	if (s->arbiter)
		rf_arbiter_remove(s->arbiter, s->arbiter_id);
	drop_gate(s);
	for (size_t i = 0; i < s->n_guests; i++)
		close(s->guests[i].fd);
	for (size_t i = 0; i < RF_COUNT(fds); i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
	free(s);
}

/* Socket and ledger are there. */
static int open_for_guests(struct rf_fence_server *s, struct rf_err *err)
{
	if (seal_limits(&s->limits, &s->limits_fd, err) < 0)
		return -err->code;
	s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	s->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (s->epoll_fd < 0 || s->timer_fd < 0 || !watch(s, s->listen_fd) || !watch(s, s->timer_fd))
		return rf_fail_errno(err, "watch the fence's socket");
	s->listening = true;
	return 0;
}

int rf_fence_server_start(const char *run_dir, const char *ledger_path,
			  const struct rf_fence_card *cards, size_t n, struct rf_arbiter *arbiter,
			  struct rf_fence_server **ret, struct rf_err *err)
{
	struct rf_err own = RF_ERR_INIT;
	struct rf_fence_limits limits;
	struct rf_fence_server *s;

	err = err ? err : &own;
	if (rf_fence_limits_fill(&limits, cards, n, err) < 0)
		return -err->code;
	s = new_server(&limits);
	if (open_ledger(ledger_path, &s->ledger_fd, err) < 0 || ask_arbiter(s, arbiter, err) < 0 ||
	    open_socket(run_dir, &s->dir_fd, &s->listen_fd, err) < 0 ||
	    open_for_guests(s, err) < 0) {
		free_server(s);
		return rf_wrap(err, "start fence server");
	}
	*ret = s;
	return 0;
}

int rf_fence_server_start_at(int listen_fd, int ledger_fd, const struct rf_fence_limits *limits,
			     bool (*admit)(void *ctx, pid_t pid), void *ctx,
			     struct rf_fence_server **ret, struct rf_err *err)
{
	struct rf_err own = RF_ERR_INIT;
	struct rf_fence_server *s = new_server(limits);

	err = err ? err : &own;
	s->listen_fd = listen_fd;
	s->ledger_fd = ledger_fd;
	s->admit = admit;
	s->admit_ctx = ctx;
	if (open_for_guests(s, err) < 0) {
		free_server(s);
		return rf_wrap(err, "start fence server");
	}
	*ret = s;
	return 0;
}

void rf_fence_server_stop(struct rf_fence_server *s)
{
	if (!s)
		return;
	if (s->dir_fd >= 0)
		unlinkat(s->dir_fd, SOCKET_NAME, 0);
	free_server(s);
}

/* --- what the tenant has booked --- */

void rf_fence_server_set_patience(struct rf_fence_server *s, int64_t ns)
{
	s->patience_ns = ns;
}

bool rf_fence_server_jammed(const struct rf_fence_server *s)
{
	return s->jammed;
}

/* Processor time: that a busy machine let the agent wait is not the tenant's doing. */
static int64_t spent_ns(void)
{
	return now_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* The seat's holder, or nobody once the look that began then has lasted too long. */
static pid_t holder(struct rf_fence_server *s, unsigned seat, int64_t began)
{
	if (spent_ns() - began > s->patience_ns)
		s->jammed = true;
	return s->jammed ? 0 : rf_ledger_holder(s->ledger_fd, seat);
}

/* The books may stand above the cap: what the card has lost is booked whatever the cap (README, "Beyond
 * the cap, but in the books"). But the tenant can write anything there, and it ends in metrics that are
 * added up: what is more than any card has is not believed. */
static uint64_t believed(uint64_t bytes, uint64_t cap)
{
	if (bytes <= CARD_BYTES_MOST)
		return bytes;
	return cap != 0 ? cap : CARD_BYTES_MOST;
}

/* What the processes on the seat say of their time. It can be no more than there was. */
static struct rf_desk_seat read_seat(const struct rf_fence_server *s, size_t card, unsigned seat)
{
	uint64_t now = (uint64_t)now_ns(CLOCK_MONOTONIC);
	struct rf_desk_seat d = { 0 };

	if (!s->desk)
		return d;
	rf_desk_read(&s->desk->seat[card][seat], &d);
	d.gpu_ns = RF_MIN(d.gpu_ns, now);
	d.held_ns = RF_MIN(d.held_ns, now);
	d.gpu_before = RF_MIN(d.gpu_before, d.gpu_ns);
	d.gpu_gone_ms = (uint32_t)RF_MIN(d.gpu_gone_ms, (now - d.gpu_ns) / 1000000);
	d.held_before = RF_MIN(d.held_before, d.held_ns);
	d.waiting = RF_MIN(d.waiting, MAX_WAITING);
	return d;
}

struct census {
	struct rf_fence_server *server;
	int64_t began;
};

static bool is_sat_on(void *census, unsigned seat)
{
	struct census *c = census;

	return holder(c->server, seat, c->began) != 0;
}

/* What each seat has on the card, with memory whose maker is gone by one of those who hold it. */
static void read_bytes(struct rf_fence_server *s, const struct rf_ledger *l, size_t card,
		       uint64_t ret[RF_LEDGER_SEATS])
{
	struct census c = { .server = s, .began = spent_ns() };

	rf_ledger_orphans(l, (unsigned)card, is_sat_on, &c, ret);
	for (unsigned i = 0; i < RF_LEDGER_SEATS; i++) {
		if (__builtin_add_overflow(ret[i], l->used[card][i], &ret[i]))
			ret[i] = UINT64_MAX;
	}
}

static void add_memory(struct rf_fence_server *s, const struct rf_ledger *l, size_t card,
		       struct rf_fence_usage *u)
{
	uint64_t has[RF_LEDGER_SEATS];
	int64_t began = spent_ns();

	read_bytes(s, l, card, has);
	for (unsigned i = 0; i < RF_LEDGER_SEATS; i++) {
		uint64_t bytes = has[i];

		if (bytes == 0 || holder(s, i, began) == 0)
			continue;
		u->processes++;
		if (__builtin_add_overflow(u->used_bytes, bytes, &u->used_bytes))
			u->used_bytes = UINT64_MAX;
	}
	u->used_bytes = believed(u->used_bytes, u->cap_bytes);
	u->refusals = l->refusals[card];
}

/* A seat counts for what it has grown by since the last look, or from zero if it is another process's;
 * at most for the time between. */
static void add_time(struct rf_fence_server *s, size_t card, struct rf_fence_usage *u)
{
	uint64_t now = (uint64_t)now_ns(CLOCK_MONOTONIC);
	uint64_t passed = now - s->looked_at[card];
	int64_t began = spent_ns();

	for (unsigned i = 0; s->desk && i < RF_LEDGER_SEATS; i++) {
		struct rf_desk_seat d = read_seat(s, card, i);
		uint64_t *seen = &s->seen_held[card][i];

		s->held_ns[card] +=
			RF_MIN(d.held_ns >= *seen ? d.held_ns - *seen : d.held_ns, passed);
		*seen = d.held_ns;
		if (d.waiting > 0 && holder(s, i, began) != 0)
			u->waiting += d.waiting;
	}
	s->looked_at[card] = now;
	u->held_ns = s->held_ns[card];
	u->gpu_ns = charged(s, card);
}

int rf_fence_server_usage(struct rf_fence_server *s, size_t card, struct rf_fence_usage *ret)
{
	rf_auto_free char *page = rf_alloc(sizeof(struct rf_ledger));
	const struct rf_ledger *l = (const struct rf_ledger *)page;

	if (card >= s->limits.count)
		return -RF_NOT_FOUND;
	*ret = (struct rf_fence_usage){ .cap_bytes = s->limits.card[card].memory_bytes };
	trim_ledger(s->ledger_fd);
	if (rf_ledger_read(s->ledger_fd, (struct rf_ledger *)page) < 0)
		return -RF_CONFLICT;
	add_memory(s, l, card, ret);
	add_time(s, card, ret);
	return 0;
}

size_t rf_fence_server_processes(struct rf_fence_server *s, size_t card,
				 struct rf_fence_process *ret, size_t room)
{
	rf_auto_free char *page = rf_alloc(sizeof(struct rf_ledger));
	const struct rf_ledger *l = (const struct rf_ledger *)page;
	uint64_t has[RF_LEDGER_SEATS];
	int64_t began = spent_ns();
	size_t n = 0;

	if (card >= s->limits.count || rf_ledger_read(s->ledger_fd, (struct rf_ledger *)page) < 0)
		return 0;
	read_bytes(s, l, card, has);
	for (unsigned i = 0; i < RF_LEDGER_SEATS; i++) {
		struct rf_desk_seat d = read_seat(s, card, i);
		uint64_t bytes = believed(has[i], s->limits.card[card].memory_bytes);
		uint64_t gpu_ns = d.gpu_ns - d.gpu_before + d.gpu_gone_ms * 1000000ull;
		uint64_t held_ns = d.held_ns - d.held_before;
		bool there = bytes || gpu_ns || held_ns || (l->seat[i].contexts >> card & 1);
		pid_t pid = there ? holder(s, i, began) : 0;

		if (pid <= 0)
			continue;
		if (n < room)
			ret[n] = (struct rf_fence_process){
				.pid = pid, .bytes = bytes, .gpu_ns = gpu_ns, .held_ns = held_ns
			};
		n++;
	}
	return n;
}

static bool known(const pid_t *list, size_t n, pid_t pid)
{
	for (size_t i = 0; i < n; i++) {
		if (list[i] == pid)
			return true;
	}
	return false;
}

struct pids {
	pid_t *pid;
	size_t n, room;
};

/* One question per holder and one per gap, not one per seat. */
static void ask_seats(struct rf_fence_server *s, unsigned from, unsigned to, int64_t began,
		      struct pids *ret)
{
	struct flock lock = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = from, .l_len = to - from
	};
	unsigned at, after;

	if (from >= to || spent_ns() - began > s->patience_ns) {
		s->jammed = s->jammed || from < to;
		return;
	}
	if (fcntl(s->ledger_fd, F_GETLK, &lock) < 0 || lock.l_type == F_UNLCK)
		return;
	at = (unsigned)RF_MAX(lock.l_start, (off_t)from);
	after = lock.l_len == 0 ? to : (unsigned)RF_MIN(lock.l_start + lock.l_len, (off_t)to);
	if (lock.l_pid > 0 && !known(ret->pid, RF_MIN(ret->n, ret->room), lock.l_pid)) {
		if (ret->n < ret->room)
			ret->pid[ret->n] = lock.l_pid;
		ret->n++;
	}
	ask_seats(s, from, at, began, ret);
	ask_seats(s, after, to, began, ret);
}

size_t rf_fence_server_pids(struct rf_fence_server *s, pid_t *ret, size_t room)
{
	struct pids list = { .pid = ret, .room = room };

	if (!s->jammed)
		ask_seats(s, 0, RF_LEDGER_SEATS, spent_ns(), &list);
	return list.n;
}

uint64_t rf_fence_server_handshakes(const struct rf_fence_server *s)
{
	return s->handshakes;
}
