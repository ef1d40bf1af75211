/* `ringfence fence stats`: asks every launcher that listens on this machine. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>

#include "fence/launch/report.h"

#define LAUNCHERS_MAX 1024
#define WAIT_MS 1000	  /* for the first that does not answer */
#define WAIT_AGAIN_MS 100 /* for others: anybody may have made many of them */

struct fence {
	pid_t launcher;
	struct rf_buf bytes; /* the report, checked */
};

struct fences {
	RF_VEC(struct fence) list;
	RF_VEC(pid_t) silent;
};

/* --- asking --- */

/* The name may be anybody's. */
static bool is_launcher(int fd, pid_t pid)
{
	struct ucred who = { .pid = 0 };
	socklen_t size = sizeof(who);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.pid == pid &&
	       (who.uid == geteuid() || geteuid() == 0);
}

static int receive_fd(int fd)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = { 0 };
	char byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC);
	struct cmsghdr *c = n == 1 ? CMSG_FIRSTHDR(&msg) : NULL;
	int got = -1;

	if (c != NULL && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
	    c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(&got, CMSG_DATA(c), sizeof(int));
	return got;
}

/* 1: here is the report's descriptor, 0: no launcher, or not for us, -1: it does not answer */
static int ask(const char *path, pid_t pid, int wait_ms, int *ret_fd)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct timeval wait = { .tv_sec = wait_ms / 1000, .tv_usec = wait_ms % 1000 * 1000L };
	rf_auto_close int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0 || strlen(path) >= sizeof(addr.sun_path))
		return 0;
	memcpy(addr.sun_path, path, strlen(path));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
		return errno == EAGAIN ? -1 : 0;
	if (!is_launcher(fd, pid))
		return 0;
	*ret_fd = receive_fd(fd);
	return *ret_fd >= 0 ? 1 : -1;
}

/* --- believing --- */

static bool has(struct rf_str s, size_t n)
{
	return s.n >= n;
}

static bool is_report(struct rf_str s)
{
	struct rf_report_head head;
	struct rf_report_card card;

	if (!has(s, sizeof(head)))
		return false;
	memcpy(&head, s.p, sizeof(head));
	s = rf_str_skip(s, sizeof(head));
	if (head.magic != RF_REPORT_MAGIC || head.version != RF_REPORT_VERSION ||
	    head.cards > RF_FENCE_CARDS)
		return false;
	for (uint32_t i = 0; i < head.cards; i++) {
		if (!has(s, sizeof(card)))
			return false;
		memcpy(&card, s.p, sizeof(card));
		s = rf_str_skip(s, sizeof(card));
		if (card.processes > RF_LEDGER_SEATS ||
		    !has(s, card.processes * sizeof(struct rf_fence_process)))
			return false;
		s = rf_str_skip(s, card.processes * sizeof(struct rf_fence_process));
	}
	return s.n == 0;
}

/* Only from a file in memory that cannot change: reading it can neither stall nor surprise. */
static bool read_report(int fd, struct rf_buf *ret)
{
	int want = F_SEAL_WRITE | F_SEAL_SHRINK;
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	if (seals < 0 || (seals & want) != want || fstat(fd, &st) < 0 || st.st_size <= 0 ||
	    st.st_size > (off_t)RF_REPORT_BYTES_MAX)
		return false;
	rf_buf_reserve(ret, (size_t)st.st_size);
	if (pread(fd, ret->p, (size_t)st.st_size, 0) != st.st_size)
		return false;
	ret->n = (size_t)st.st_size;
	return is_report(rf_buf_str(ret));
}

static void ask_at(struct fences *all, const char *path)
{
	struct fence f = { .bytes = RF_BUF_INIT };
	rf_auto_close int fd = -1;
	int64_t pid = 0;
	int r;

	if (rf_str_int(rf_str(strrchr(path, '.') + 1), &pid, NULL) < 0 || pid <= 0 ||
	    pid > INT32_MAX)
		return;
	f.launcher = (pid_t)pid;
	r = ask(path, f.launcher, all->silent.n ? WAIT_AGAIN_MS : WAIT_MS, &fd);
	if (r > 0 && read_report(fd, &f.bytes)) {
		rf_vec_push(&all->list, f);
		return;
	}
	rf_buf_done(&f.bytes);
	if (r != 0)
		rf_vec_push(&all->silent, f.launcher);
}

/* Folders that the caller may not look into are skipped; root sees all. */
static void ask_all(struct fences *all)
{
	glob_t found = { .gl_pathc = 0 };

	glob("/run/ringfence/stats.*", 0, NULL, &found);
	glob("/tmp/ringfence-*/stats.*", GLOB_APPEND, NULL, &found);
	glob("/run/user/*/ringfence/stats.*", GLOB_APPEND, NULL, &found);
	for (size_t i = 0; i < found.gl_pathc && i < LAUNCHERS_MAX; i++)
		ask_at(all, found.gl_pathv[i]);
	globfree(&found);
}

/* --- walking through what was read --- */

struct reader {
	struct rf_str rest;
	struct rf_report_head head;
	struct rf_report_card card;
};

static void start_reading(struct reader *r, const struct fence *f)
{
	r->rest = rf_buf_str(&f->bytes);
	memcpy(&r->head, r->rest.p, sizeof(r->head));
	r->rest = rf_str_skip(r->rest, sizeof(r->head));
	r->head.name[sizeof(r->head.name) - 1] = '\0';
	for (char *p = r->head.name; *p != '\0'; p++)
		if ((unsigned char)*p < 0x20 || (unsigned char)*p >= 0x7f)
			*p = '?';
}

static void next_card(struct reader *r)
{
	memcpy(&r->card, r->rest.p, sizeof(r->card));
	r->card.limit.uuid[RF_FENCE_UUID - 1] = '\0';
	r->rest = rf_str_skip(r->rest, sizeof(r->card));
}

static struct rf_fence_process next_process(struct reader *r)
{
	struct rf_fence_process p;

	memcpy(&p, r->rest.p, sizeof(p));
	r->rest = rf_str_skip(r->rest, sizeof(p));
	return p;
}

static unsigned share_of(const struct rf_fence_limit *l)
{
	return l->compute_milli == 0 ? 1000 : RF_MIN(l->compute_milli, 1000u);
}

/* --- JSON --- */

static void json_text(struct rf_buf *b, const char *text)
{
	rf_buf_add_c(b, '"');
	for (const unsigned char *p = (const unsigned char *)text; *p != '\0'; p++) {
		if (*p == '"' || *p == '\\')
			rf_buf_printf(b, "\\%c", *p);
		else if (*p < 0x20)
			rf_buf_printf(b, "\\u%04x", *p);
		else
			rf_buf_add_c(b, (char)*p);
	}
	rf_buf_add_c(b, '"');
}

static void json_seconds(struct rf_buf *b, const char *key, uint64_t ns)
{
	rf_buf_printf(b, "\"%s\": %llu.%06llu", key, (unsigned long long)(ns / 1000000000),
		      (unsigned long long)(ns % 1000000000 / 1000));
}

static void json_times(struct rf_buf *b, uint64_t gpu_ns, uint64_t held_ns)
{
	json_seconds(b, "gpuSeconds", gpu_ns);
	rf_buf_puts(b, ", ");
	json_seconds(b, "heldSeconds", held_ns);
}

static void json_card(struct rf_buf *b, struct reader *r)
{
	const struct rf_report_card *c = &r->card;

	next_card(r);
	rf_buf_printf(b, "\n      {\"index\": %d, \"uuid\": ", c->index);
	json_text(b, c->limit.uuid);
	rf_buf_printf(b,
		      ", \"capBytes\": %llu, \"usedBytes\": %llu, \"contextBytes\": %llu, "
		      "\"sharePercent\": "
		      "%u.%u, \"burst\": %s, \"priority\": %d, ",
		      (unsigned long long)c->usage.cap_bytes,
		      (unsigned long long)c->usage.used_bytes,
		      (unsigned long long)c->limit.context_bytes, share_of(&c->limit) / 10,
		      share_of(&c->limit) % 10, c->limit.flags & RF_FENCE_BURST ? "true" : "false",
		      c->limit.priority);
	json_times(b, c->usage.gpu_ns, c->usage.held_ns);
	rf_buf_printf(b, ", \"waiting\": %u, \"refusals\": %llu, \"processes\": [",
		      c->usage.waiting, (unsigned long long)c->usage.refusals);
	for (uint32_t i = 0; i < c->processes; i++) {
		struct rf_fence_process p = next_process(r);

		rf_buf_printf(b, "%s\n        {\"pid\": %d, \"usedBytes\": %llu, ", i ? "," : "",
			      (int)p.pid, (unsigned long long)p.bytes);
		json_times(b, p.gpu_ns, p.held_ns);
		rf_buf_puts(b, "}");
	}
	rf_buf_puts(b, "]}");
}

static void json_fence(struct rf_buf *b, const struct fence *f)
{
	struct reader r;

	start_reading(&r, f);
	rf_buf_puts(b, "\n  {\"name\": ");
	json_text(b, r.head.name);
	rf_buf_printf(b, ", \"launcher\": %d, \"cards\": [", (int)f->launcher);
	for (uint32_t i = 0; i < r.head.cards; i++) {
		rf_buf_puts(b, i ? "," : "");
		json_card(b, &r);
	}
	rf_buf_puts(b, "]}");
}

static void json_all(struct rf_buf *b, const struct fences *all)
{
	rf_buf_puts(b, "[");
	for (size_t i = 0; i < all->list.n; i++) {
		rf_buf_puts(b, i ? "," : "");
		json_fence(b, &all->list.at[i]);
	}
	for (size_t i = 0; i < all->silent.n; i++)
		rf_buf_printf(b,
			      "%s\n  {\"name\": null, \"launcher\": %d, \"answers\": false, "
			      "\"cards\": []}",
			      all->list.n + i ? "," : "", (int)all->silent.at[i]);
	rf_buf_puts(b, all->list.n + all->silent.n ? "\n]\n" : "]\n");
}

/* --- table --- */

#define COLUMNS 10
struct row {
	struct rf_str cell[COLUMNS];
};
struct table {
	struct rf_arena *a;
	RF_VEC(struct row) rows;
};

static struct rf_str bytes_text(struct rf_arena *a, uint64_t bytes)
{
	uint64_t mib = (bytes + (1 << 20) - 1) >> 20;

	return rf_arena_printf(a, "%lluMi", (unsigned long long)mib);
}

static struct rf_str seconds_text(struct rf_arena *a, uint64_t ns)
{
	return rf_arena_printf(a, "%llu.%llus", (unsigned long long)(ns / 1000000000),
			       (unsigned long long)(ns % 1000000000 / 100000000));
}

static struct rf_str share_text(struct rf_arena *a, const struct rf_fence_limit *l)
{
	unsigned milli = share_of(l);
	const char *plus = l->flags & RF_FENCE_BURST ? "+" : "";

	return milli % 10 ? rf_arena_printf(a, "%u.%u%%%s", milli / 10, milli % 10, plus)
			  : rf_arena_printf(a, "%u%%%s", milli / 10, plus);
}

/* p NULL: nobody is on the card. */
static void add_row(struct table *t, const struct fence *f, const struct reader *r,
		    const struct rf_fence_process *p)
{
	const struct rf_report_card *c = &r->card;
	struct rf_arena *a = t->a;
	struct row row = { .cell = {
				   rf_arena_str(a, rf_str(r->head.name)),
				   rf_arena_printf(a, "%d", c->index),
				   rf_arena_printf(a, "%d", (int)f->launcher),
				   p ? rf_arena_printf(a, "%d", (int)p->pid) : RF_LIT("-"),
				   bytes_text(a, p ? p->bytes : 0),
				   c->usage.cap_bytes ? bytes_text(a, c->usage.cap_bytes)
						      : RF_LIT("-"),
				   seconds_text(a, p ? p->gpu_ns : c->usage.gpu_ns),
				   share_text(a, &c->limit),
				   seconds_text(a, p ? p->held_ns : c->usage.held_ns),
				   rf_arena_printf(a, "%llu",
						   (unsigned long long)c->usage.refusals),
			   } };

	rf_vec_push(&t->rows, row);
}

static void add_fence(struct table *t, const struct fence *f)
{
	struct reader r;

	start_reading(&r, f);
	for (uint32_t i = 0; i < r.head.cards; i++) {
		next_card(&r);
		if (r.card.processes == 0)
			add_row(t, f, &r, NULL);
		for (uint32_t k = 0; k < r.card.processes; k++) {
			struct rf_fence_process p = next_process(&r);

			add_row(t, f, &r, &p);
		}
	}
}

static void write_table(struct rf_buf *b, const struct table *t)
{
	size_t width[COLUMNS] = { 0 };

	for (size_t r = 0; r < t->rows.n; r++)
		for (size_t c = 0; c < COLUMNS; c++)
			width[c] = RF_MAX(width[c], t->rows.at[r].cell[c].n);
	for (size_t r = 0; r < t->rows.n; r++) {
		for (size_t c = 0; c + 1 < COLUMNS; c++)
			rf_buf_printf(b, "%-*.*s", (int)width[c] + 3,
				      RF_STR(t->rows.at[r].cell[c]));
		rf_buf_printf(b, "%.*s\n", RF_STR(t->rows.at[r].cell[COLUMNS - 1]));
	}
}

static void table_all(struct rf_buf *b, const struct fences *all)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct table t = { .a = &a, .rows = RF_VEC_INIT };
	struct row head = { .cell = { RF_LIT("NAME"), RF_LIT("CARD"), RF_LIT("LAUNCHER"),
				      RF_LIT("PID"), RF_LIT("USED"), RF_LIT("CAP"),
				      RF_LIT("GPU TIME"), RF_LIT("SHARE"), RF_LIT("HELD"),
				      RF_LIT("REFUSALS") } };

	if (all->list.n == 0 && all->silent.n == 0)
		rf_buf_puts(b, "no fence runs here\n");
	rf_vec_push(&t.rows, head);
	for (size_t i = 0; i < all->list.n; i++)
		add_fence(&t, &all->list.at[i]);
	if (all->list.n > 0)
		write_table(b, &t);
	for (size_t i = 0; i < all->silent.n; i++)
		rf_buf_printf(b,
			      "launcher %d does not answer: it is stopped, or of another version\n",
			      (int)all->silent.at[i]);
	rf_vec_done(&t.rows);
}

int rf_launch_stats(bool json, struct rf_err *err)
{
	rf_auto(buf) b = RF_BUF_INIT;
	struct fences all = { .list = RF_VEC_INIT, .silent = RF_VEC_INIT };

	ask_all(&all);
	if (json)
		json_all(&b, &all);
	else
		table_all(&b, &all);
	fwrite(b.p, 1, b.n, stdout);
	for (size_t i = 0; i < all.list.n; i++)
		rf_buf_done(&all.list.at[i].bytes);
	rf_vec_done(&all.list);
	rf_vec_done(&all.silent);
	return 0;
}
