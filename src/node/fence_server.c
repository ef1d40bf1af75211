#include "node/fence_server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#include "fence/ledger.h"
#include "fence/protocol.h"

#define SOCKET_NAME "fence.sock"
#define BACKLOG 1024
/* Connections that have not said hello yet; more wait in the backlog. Few, since a tenant can have many
 * containers and all of them together must leave the agent descriptors. */
#define MAX_GUESTS 8
#define GUEST_PATIENCE_MS 2000
#define LOOK_NS (100LL * 1000 * 1000)

struct guest {
	struct rf_fence_server *server;
	uv_poll_t poll;
	uv_timer_t timer;
	unsigned open_handles;
	int fd;
};

struct rf_fence_server {
	uv_loop_t *loop;
	uv_poll_t poll;
	bool listening; /* poll is active */
	bool stopping;
	int listen_fd;
	int dir_fd;
	int limits_fd;
	int ledger_fd;
	size_t cards;
	struct rf_fence_limits limits;
	struct guest *guests[MAX_GUESTS];
	size_t n_guests;
	size_t open_handles; /* the listener's and every guest's */
	uint64_t handshakes;
	int64_t patience_ns;
	bool jammed;
};

/* --- the two things handed out --- */

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

static void fill_limits(struct rf_fence_limits *l, const struct rf_fence_card *cards, size_t n)
{
	*l = (struct rf_fence_limits){ .magic = RF_FENCE_MAGIC,
				       .version = RF_FENCE_VERSION,
				       .count = (uint32_t)n };
	for (size_t i = 0; i < n; i++) {
		snprintf(l->card[i].uuid, sizeof(l->card[i].uuid), "%s", cards[i].uuid);
		l->card[i].memory_bytes = cards[i].memory_bytes;
		l->card[i].compute_milli = cards[i].compute_milli;
	}
}

static int seal_limits(struct rf_fence_limits limits, int *ret_fd, struct rf_err *err)
{
	rf_auto_close int fd = memfd_create("ringfence-limits", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return rf_fail_errno(err, "create the fence's limits");
	if (write(fd, &limits, sizeof(limits)) != (ssize_t)sizeof(limits))
		return rf_fail_errno(err, "write the fence's limits");
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return rf_fail_errno(err, "seal the fence's limits");
	*ret_fd = rf_take_fd(fd);
	return 0;
}

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

/* --- guests: connections that have not been answered yet --- */

static void listen_or_pause(struct rf_fence_server *s);

static void close_fds(struct rf_fence_server *s)
{
	int *fds[] = { &s->listen_fd, &s->dir_fd, &s->limits_fd, &s->ledger_fd };

	for (size_t i = 0; i < RF_COUNT(fds); i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
}

static void handle_closed(struct rf_fence_server *s)
{
	s->open_handles--;
	if (s->stopping && s->open_handles == 0) {
		close_fds(s);
		free(s);
	}
}

static void on_guest_closed(uv_handle_t *h)
{
	struct guest *g = h->data;
	struct rf_fence_server *s = g->server;

	if (--g->open_handles == 0) {
		close(g->fd);
		free(g);
	}
	handle_closed(s);
}

static void dismiss(struct guest *g)
{
	struct rf_fence_server *s = g->server;

	for (size_t i = 0; i < s->n_guests; i++) {
		if (s->guests[i] == g)
			s->guests[i] = s->guests[--s->n_guests];
	}
	uv_close((uv_handle_t *)&g->poll, on_guest_closed);
	uv_close((uv_handle_t *)&g->timer, on_guest_closed);
	if (!s->stopping)
		listen_or_pause(s);
}

static void send_reply(struct guest *g, uint32_t status)
{
	struct rf_fence_reply reply = { .magic = RF_FENCE_MAGIC,
					.version = RF_FENCE_VERSION,
					.status = status,
					.fds = status == RF_FENCE_OK ? 2 : 0 };
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * 2)] = { 0 };
	int fds[2] = { g->server->limits_fd, g->server->ledger_fd };
	struct iovec iov = { &reply, sizeof(reply) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (status == RF_FENCE_OK) {
		msg.msg_control = control;
		msg.msg_controllen = sizeof(control);
		struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(fds));
		memcpy(CMSG_DATA(c), fds, sizeof(fds));
	}
	/* A guest that went away meanwhile is its own business: it has no limits and so no card. */
	if (sendmsg(g->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof(reply) &&
	    status == RF_FENCE_OK)
		g->server->handshakes++;
}

static void on_guest(uv_poll_t *poll, int status, int events)
{
	struct guest *g = poll->data;
	struct rf_fence_hello hello = { 0 };
	ssize_t n = status < 0 ? -1 : recv(g->fd, &hello, sizeof(hello), MSG_DONTWAIT | MSG_TRUNC);

	if (n < 0 && status == 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n == (ssize_t)sizeof(hello) && hello.magic == RF_FENCE_MAGIC) {
		trim_ledger(g->server->ledger_fd);
		send_reply(g,
			   hello.version == RF_FENCE_VERSION ? RF_FENCE_OK : RF_FENCE_BAD_VERSION);
	}
	dismiss(g);
}

static void on_guest_late(uv_timer_t *timer)
{
	dismiss(timer->data);
}

static void greet(struct rf_fence_server *s, int fd)
{
	struct guest *g = rf_new(struct guest);

	*g = (struct guest){ .server = s, .fd = fd, .open_handles = 2 };
	if (uv_poll_init(s->loop, &g->poll, fd) < 0) {
		close(fd);
		free(g);
		return;
	}
	uv_timer_init(s->loop, &g->timer);
	g->poll.data = g;
	g->timer.data = g;
	s->open_handles += 2;
	s->guests[s->n_guests++] = g;
	uv_poll_start(&g->poll, UV_READABLE | UV_DISCONNECT, on_guest);
	uv_timer_start(&g->timer, on_guest_late, GUEST_PATIENCE_MS, 0);
}

static void on_connect(uv_poll_t *poll, int status, int events)
{
	struct rf_fence_server *s = poll->data;

	while (s->n_guests < MAX_GUESTS) {
		int fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0)
			break;
		greet(s, fd);
	}
	listen_or_pause(s);
}

static void listen_or_pause(struct rf_fence_server *s)
{
	bool want = s->n_guests < MAX_GUESTS;

	if (want && !s->listening)
		uv_poll_start(&s->poll, UV_READABLE, on_connect);
	else if (!want && s->listening)
		uv_poll_stop(&s->poll);
	s->listening = want;
}

/* --- start, stop --- */

static int start(struct rf_fence_server *s, const char *run_dir, const char *ledger_path,
		 struct rf_err *err)
{
	int r;

	if (seal_limits(s->limits, &s->limits_fd, err) < 0)
		return -err->code;
	if (open_ledger(ledger_path, &s->ledger_fd, err) < 0)
		return -err->code;
	if (open_socket(run_dir, &s->dir_fd, &s->listen_fd, err) < 0)
		return -err->code;
	r = uv_poll_init(s->loop, &s->poll, s->listen_fd);
	if (r < 0)
		return rf_fail(err, RF_SYSTEM, "watch the fence's socket: %s", uv_strerror(r));
	s->poll.data = s;
	s->open_handles = 1;
	listen_or_pause(s);
	return 0;
}

int rf_fence_server_start(uv_loop_t *loop, const char *run_dir, const char *ledger_path,
			  const struct rf_fence_card *cards, size_t n, struct rf_fence_server **ret,
			  struct rf_err *err)
{
	struct rf_err own = RF_ERR_INIT;
	struct rf_fence_server *s;

	err = err ? err : &own;
	if (check_cards(cards, n, err) < 0)
		return -err->code;
	s = rf_new(struct rf_fence_server);
	*s = (struct rf_fence_server){ .loop = loop,
				       .cards = n,
				       .patience_ns = LOOK_NS,
				       .listen_fd = -1,
				       .dir_fd = -1,
				       .limits_fd = -1,
				       .ledger_fd = -1 };
	fill_limits(&s->limits, cards, n);
	if (start(s, run_dir, ledger_path, err) < 0) {
		close_fds(s);
		free(s);
		return rf_wrap(err, "start fence server");
	}
	*ret = s;
	return 0;
}

static void on_closed(uv_handle_t *h)
{
	handle_closed(h->data);
}

void rf_fence_server_stop(struct rf_fence_server *s)
{
	if (!s)
		return;
	s->stopping = true;
	unlinkat(s->dir_fd, SOCKET_NAME, 0);
	while (s->n_guests > 0)
		dismiss(s->guests[0]);
	uv_close((uv_handle_t *)&s->poll, on_closed);
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
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The seat's holder, or nobody once the look that began then has lasted too long. */
static pid_t holder(struct rf_fence_server *s, unsigned seat, int64_t began)
{
	if (spent_ns() - began > s->patience_ns)
		s->jammed = true;
	return s->jammed ? 0 : rf_ledger_holder(s->ledger_fd, seat);
}

static uint64_t clamp(uint64_t n, uint64_t cap)
{
	return cap != 0 && n > cap ? cap : n;
}

static void add_up(struct rf_fence_server *s, const struct rf_ledger *l, size_t card,
		   struct rf_fence_usage *u)
{
	int64_t began = spent_ns();

	for (unsigned i = 0; i < RF_LEDGER_SEATS; i++) {
		uint64_t bytes = l->used[card][i];

		if (bytes == 0 || holder(s, i, began) == 0)
			continue;
		u->processes++;
		if (__builtin_add_overflow(u->used_bytes, bytes, &u->used_bytes))
			u->used_bytes = UINT64_MAX;
	}
	u->used_bytes = clamp(u->used_bytes, u->cap_bytes);
	u->refusals = l->refusals[card];
}

int rf_fence_server_usage(struct rf_fence_server *s, size_t card, struct rf_fence_usage *ret)
{
	rf_auto_free char *page = rf_alloc(sizeof(struct rf_ledger));
	const struct rf_ledger *l = (const struct rf_ledger *)page;

	if (card >= s->cards)
		return -RF_NOT_FOUND;
	*ret = (struct rf_fence_usage){ .cap_bytes = s->limits.card[card].memory_bytes };
	trim_ledger(s->ledger_fd);
	if (rf_ledger_read(s->ledger_fd, (struct rf_ledger *)page) < 0)
		return -RF_CONFLICT;
	add_up(s, l, card, ret);
	return 0;
}

static bool known(const pid_t *list, size_t n, pid_t pid)
{
	for (size_t i = 0; i < n; i++) {
		if (list[i] == pid)
			return true;
	}
	return false;
}

size_t rf_fence_server_pids(struct rf_fence_server *s, pid_t *ret, size_t room)
{
	int64_t began = spent_ns();
	size_t n = 0;

	for (unsigned i = 0; i < RF_LEDGER_SEATS; i++) {
		pid_t pid = holder(s, i, began);

		if (pid <= 0 || known(ret, RF_MIN(n, room), pid))
			continue;
		if (n < room)
			ret[n] = pid;
		n++;
	}
	return n;
}

uint64_t rf_fence_server_handshakes(const struct rf_fence_server *s)
{
	return s->handshakes;
}
