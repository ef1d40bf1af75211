#include "fence/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* The instant between the check and the booking. Tests hold it open. */
#ifndef RF_LEDGER_WINDOW
#define RF_LEDGER_WINDOW() ((void)0)
#endif

_Static_assert(sizeof(pthread_mutex_t) <= 64, "the ledger leaves 64 bytes for its lock");

void rf_ledger_format(struct rf_ledger *ret)
{
	pthread_mutexattr_t attr;

	memset(ret, 0, sizeof(*ret));
	ret->magic = RF_LEDGER_MAGIC;
	ret->version = RF_LEDGER_VERSION;
	ret->bytes = sizeof(*ret);
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&ret->lock, &attr);
	pthread_mutexattr_destroy(&attr);
}

bool rf_ledger_valid(const struct rf_ledger *l)
{
	return l->magic == RF_LEDGER_MAGIC && l->version == RF_LEDGER_VERSION &&
	       l->bytes == sizeof(*l);
}

pid_t rf_ledger_holder(int fd, unsigned seat)
{
	struct flock lock = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = seat, .l_len = 1
	};

	if (fcntl(fd, F_GETLK, &lock) < 0)
		return -1;
	if (lock.l_type == F_UNLCK)
		return 0;
	return lock.l_pid > 0 ? lock.l_pid : -1;
}

int rf_ledger_read(int fd, struct rf_ledger *ret)
{
	ssize_t n = pread(fd, ret, sizeof(*ret), 0);

	if (n < 0)
		return -errno;
	return n == (ssize_t)sizeof(*ret) && rf_ledger_valid(ret) ? 0 : -EINVAL;
}

int rf_ledger_open(struct rf_ledger_place *p, int fd)
{
	struct stat st;
	struct rf_ledger *l;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size < (off_t)sizeof(*l))
		return -EINVAL;
	l = mmap(NULL, sizeof(*l), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (l == MAP_FAILED)
		return -errno;
	if (!rf_ledger_valid(l)) {
		munmap(l, sizeof(*l));
		return -EINVAL;
	}
	*p = (struct rf_ledger_place){ .ledger = l, .fd = fd, .dev = st.st_dev, .ino = st.st_ino };
	return 0;
}

/* Whatever a process that died inside had not finished hangs on its seat, and goes when the seat is
 * cleared: there is nothing to mend. */
static int lock(struct rf_ledger *l)
{
	int r = pthread_mutex_lock(&l->lock);

	if (r == EOWNERDEAD)
		r = pthread_mutex_consistent(&l->lock);
	return -r;
}

static void unlock(struct rf_ledger *l)
{
	pthread_mutex_unlock(&l->lock);
}

static unsigned top_of(const struct rf_ledger *l)
{
	uint32_t top = __atomic_load_n(&l->top, __ATOMIC_ACQUIRE);

	return top < RF_LEDGER_SEATS ? top : RF_LEDGER_SEATS;
}

static uint64_t add_up(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* --- loans --- */

static unsigned loans_top(const struct rf_ledger *l)
{
	uint32_t top = __atomic_load_n(&l->loans_top, __ATOMIC_ACQUIRE);

	return top < RF_LEDGER_LOANS ? top : RF_LEDGER_LOANS;
}

static bool is_held(const struct rf_ledger_loan *n)
{
	uint64_t any = 0;

	for (unsigned i = 0; i < RF_LEDGER_SEATS / 64; i++)
		any |= __atomic_load_n(&n->holders[i], __ATOMIC_ACQUIRE);
	return any != 0;
}

static unsigned maker_of(const struct rf_ledger_loan *n)
{
	return __atomic_load_n(&n->maker, __ATOMIC_ACQUIRE);
}

static bool counts(const struct rf_ledger_loan *n, unsigned card)
{
	return n->card == card && maker_of(n) == 0 && is_held(n);
}

static void set_holder(struct rf_ledger_loan *n, unsigned seat)
{
	__atomic_or_fetch(&n->holders[seat / 64], 1ull << seat % 64, __ATOMIC_RELEASE);
}

static void clear_holder(struct rf_ledger_loan *n, unsigned seat)
{
	__atomic_and_fetch(&n->holders[seat / 64], ~(1ull << seat % 64), __ATOMIC_RELEASE);
}

static uint64_t sum_of(const struct rf_ledger *l, unsigned card)
{
	uint64_t sum = 0;

	for (unsigned i = 0, top = top_of(l); i < top; i++)
		sum = add_up(sum, __atomic_load_n(&l->used[card][i], __ATOMIC_RELAXED));
	for (unsigned i = 0, top = loans_top(l); i < top; i++) {
		if (counts(&l->loan[i], card))
			sum = add_up(sum, l->loan[i].bytes);
	}
	return sum;
}

uint64_t rf_ledger_sum(const struct rf_ledger_place *p, unsigned card)
{
	return sum_of(p->ledger, card);
}

static bool is_ledger(const struct rf_ledger_place *p)
{
	struct stat st;

	return fstat(p->fd, &st) == 0 && st.st_dev == p->dev && st.st_ino == p->ino;
}

/* What it has lent counts by itself before the seat's numbers go. Whoever dies in here leaves the pid,
 * and the next one starts over. */
static void clear_seat(struct rf_ledger *l, unsigned seat)
{
	for (unsigned i = 0, top = loans_top(l); i < top; i++) {
		clear_holder(&l->loan[i], seat);
		if (maker_of(&l->loan[i]) == seat + 1)
			__atomic_store_n(&l->loan[i].maker, 0, __ATOMIC_RELEASE);
	}
	for (unsigned card = 0; card < RF_FENCE_CARDS; card++) {
		__atomic_store_n(&l->used[card][seat], 0, __ATOMIC_RELEASE);
		__atomic_store_n(&l->ahead[card][seat], 0, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&l->seat[seat].contexts, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&l->seat[seat].pid, 0, __ATOMIC_RELAXED);
	__atomic_add_fetch(&l->seat[seat].generation, 1, __ATOMIC_RELEASE);
}

/* --- processes on their way out --- */

#define PF_EXITING 4 /* of the kernel's flags, which proc(5) shows */

struct stat_line {
	char state;
	unsigned flags;
	int threads;
	uint32_t started;
};

/* A thread that is cancelled in here would take the ledger's lock with it. */
static int hold_cancel(void)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	return state;
}

static ssize_t read_start(const char *path, char *text, size_t room)
{
	int saved = errno, cancel = hold_cancel(), fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, room);

	if (fd >= 0)
		close(fd);
	pthread_setcancelstate(cancel, NULL);
	errno = saved;
	return n;
}

static bool read_stat(pid_t pid, struct stat_line *ret)
{
	unsigned long long started;
	char path[32], text[1024];
	const char *rest;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	n = read_start(path, text, sizeof(text) - 1);
	if (n < 0)
		return false;
	text[n] = '\0';
	rest = strrchr(text, ')'); /* the program's name may hold anything */
	if (!rest ||
	    sscanf(rest + 1,
		   " %c %*d %*d %*d %*d %*d %u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %d %*d %llu",
		   &ret->state, &ret->flags, &ret->threads, &started) != 4)
		return false;
	ret->started = (uint32_t)started;
	return true;
}

/* Whether the process still maps the ledger: after an exec it does not. */
static bool maps_ledger(const struct rf_ledger_place *p, pid_t pid)
{
	char path[32], text[512], file[64];
	int saved = errno, cancel = hold_cancel();
	bool found = false;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	snprintf(file, sizeof(file), " %02x:%02x %llu ", major(p->dev), minor(p->dev), (unsigned long long)p->ino);
	maps = fopen(path, "re");
	while (maps && !found && fgets(text, sizeof(text), maps))
		found = strstr(text, file) != NULL;
	if (maps)
		fclose(maps);
	pthread_setcancelstate(cancel, NULL);
	errno = saved;
	return found;
}

static pid_t sitter(const struct rf_ledger_place *p, unsigned seat)
{
	return seat == p->seat ? getpid() : rf_ledger_holder(p->fd, seat);
}

/* Whether a process whose lock is gone still has what it had. It ends thread by thread, and that is gone when the last has
 * ended. Or the program has closed all its descriptors. One that cannot be seen counts as gone. */
static bool is_there(const struct rf_ledger_place *p, unsigned seat)
{
	const struct rf_ledger_seat *s = &p->ledger->seat[seat];
	struct stat_line line;

	if (s->pid == 0 || !read_stat((pid_t)s->pid, &line) || line.started != s->started)
		return false;
	if (line.state == 'Z' || line.state == 'X')
		return line.threads > 1;
	if (line.flags & PF_EXITING)
		return true;
	return (pid_t)s->pid != getpid() && maps_ledger(p, (pid_t)s->pid);
}

/* Clears seats whose process is gone. Under the lock. */
static void reap(struct rf_ledger_place *p)
{
	struct rf_ledger *l = p->ledger;

	for (unsigned i = 0, top = top_of(l); i < top; i++) {
		if (i != p->seat && l->seat[i].pid != 0 && rf_ledger_holder(p->fd, i) == 0 && !is_there(p, i))
			clear_seat(l, i);
	}
}

static bool lock_seat(const struct rf_ledger_place *p, unsigned seat)
{
	struct flock lk = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = seat, .l_len = 1 };

	if (fcntl(p->fd, F_SETLK, &lk) < 0)
		return false;
	if (!is_there(p, seat))
		return true;
	lk.l_type = F_UNLCK;
	fcntl(p->fd, F_SETLK, &lk);
	return false;
}

#define TRIES 4

/* A seat somebody died on, if a few tries find one; then the first never taken, so that hundreds of
 * processes starting at once do not try each other's; then any. */
static bool find_seat(struct rf_ledger_place *p, unsigned *ret)
{
	struct rf_ledger *l = p->ledger;
	unsigned top = top_of(l);

	for (unsigned i = 0; i < TRIES && i < top; i++) {
		*ret = l->cursor++ % top;
		if (lock_seat(p, *ret))
			return true;
	}
	for (unsigned i = 0; i < RF_LEDGER_SEATS; i++) {
		*ret = (top + i) % RF_LEDGER_SEATS;
		if (lock_seat(p, *ret))
			return true;
	}
	return false;
}

/* Seats it had before: it lost them, or was another program then. */
static void clear_former(struct rf_ledger_place *p)
{
	struct rf_ledger_seat *all = p->ledger->seat;

	for (unsigned i = 0, top = top_of(p->ledger); i < top; i++) {
		if (i != p->seat && all[i].pid == all[p->seat].pid && all[i].started == all[p->seat].started &&
		    rf_ledger_holder(p->fd, i) == 0)
			clear_seat(p->ledger, i);
	}
}

static int sit(struct rf_ledger_place *p, const uint64_t held[RF_FENCE_CARDS])
{
	struct rf_ledger *l = p->ledger;
	struct stat_line line;
	unsigned seat;

	if (!find_seat(p, &seat))
		return -ENOSPC;
	clear_seat(l, seat);
	p->seat = seat;
	p->generation = l->seat[seat].generation;
	l->seat[seat].started = read_stat(getpid(), &line) ? line.started : 0;
	l->seat[seat].pid = (uint32_t)getpid();
	for (unsigned card = 0; card < RF_FENCE_CARDS; card++)
		__atomic_store_n(&l->used[card][seat], held[card], __ATOMIC_RELAXED);
	if (seat >= top_of(l))
		__atomic_store_n(&l->top, seat + 1, __ATOMIC_RELEASE);
	clear_former(p);
	return 0;
}

int rf_ledger_sit(struct rf_ledger_place *p, const uint64_t held[RF_FENCE_CARDS])
{
	int r = lock(p->ledger);

	if (r < 0)
		return r;
	r = sit(p, held);
	unlock(p->ledger);
	return r;
}

static bool still_mine(const struct rf_ledger_place *p)
{
	return __atomic_load_n(&p->ledger->seat[p->seat].generation, __ATOMIC_ACQUIRE) ==
	       p->generation;
}

bool rf_ledger_lost(const struct rf_ledger_place *p)
{
	return !still_mine(p) || !is_ledger(p);
}

/* Under the lock. */
static int reserve(struct rf_ledger_place *p, unsigned card, uint64_t bytes, uint64_t cap)
{
	struct rf_ledger *l = p->ledger;

	if (!still_mine(p))
		return -ESTALE;
	if (add_up(sum_of(l, card), bytes) > cap) {
		if (!is_ledger(p))
			return -ESTALE;
		reap(p);
	}
	if (add_up(sum_of(l, card), bytes) > cap) {
		__atomic_add_fetch(&l->refusals[card], 1, __ATOMIC_RELAXED);
		return -ENOMEM;
	}
	RF_LEDGER_WINDOW();
	__atomic_add_fetch(&l->used[card][p->seat], bytes, __ATOMIC_RELAXED);
	return 0;
}

int rf_ledger_reserve(struct rf_ledger_place *p, unsigned card, uint64_t bytes, uint64_t cap)
{
	int r = lock(p->ledger);

	if (r < 0)
		return r;
	r = reserve(p, card, bytes, cap);
	unlock(p->ledger);
	return r;
}

int rf_ledger_book(struct rf_ledger_place *p, unsigned card, uint64_t bytes)
{
	return rf_ledger_reserve(p, card, bytes, UINT64_MAX);
}

bool rf_ledger_ahead(struct rf_ledger_place *p, unsigned card, uint64_t bytes, uint64_t most)
{
	struct rf_ledger *l = p->ledger;
	uint64_t sum = 0;

	if (!still_mine(p))
		return bytes == 0;
	/* Noted first and added up then: of two who do so at once, one sees the other. */
	__atomic_store_n(&l->ahead[card][p->seat], bytes, __ATOMIC_SEQ_CST);
	if (bytes == 0)
		return true;
	for (unsigned i = 0, top = top_of(l); i < top; i++)
		sum = add_up(sum, __atomic_load_n(&l->ahead[card][i], __ATOMIC_SEQ_CST));
	if (sum <= most)
		return true;
	__atomic_store_n(&l->ahead[card][p->seat], 0, __ATOMIC_SEQ_CST);
	return false;
}

/* The living loan of that name, or RF_LEDGER_LOANS. Under the lock. */
static unsigned find_loan(const struct rf_ledger *l, const uint8_t name[RF_LEDGER_NAME])
{
	for (unsigned i = 0, top = loans_top(l); i < top; i++) {
		const struct rf_ledger_loan *n = &l->loan[i];

		if ((maker_of(n) || is_held(n)) && memcmp(l->name[i], name, RF_LEDGER_NAME) == 0)
			return i;
	}
	return RF_LEDGER_LOANS;
}

static unsigned free_loan(const struct rf_ledger *l)
{
	unsigned i = 0;

	while (i < RF_LEDGER_LOANS && (maker_of(&l->loan[i]) || is_held(&l->loan[i])))
		i++;
	return i;
}

/* Nobody sees the record before maker or holder is there. */
static void write_loan(struct rf_ledger *l, unsigned i, const uint8_t name[RF_LEDGER_NAME],
		       unsigned card, uint64_t bytes)
{
	memcpy(l->name[i], name, RF_LEDGER_NAME);
	l->loan[i].bytes = bytes;
	l->loan[i].card = card;
	l->loan[i].shut = 0;
	if (i >= loans_top(l))
		__atomic_store_n(&l->loans_top, i + 1, __ATOMIC_RELEASE);
}

static int lend(struct rf_ledger_place *p, const uint8_t name[RF_LEDGER_NAME], unsigned card,
		uint64_t bytes, unsigned *ret_loan)
{
	struct rf_ledger *l = p->ledger;
	unsigned i = find_loan(l, name);

	if (!still_mine(p))
		return -ESTALE;
	if (i == RF_LEDGER_LOANS && free_loan(l) < RF_LEDGER_LOANS) {
		i = free_loan(l);
	} else { /* unless the dead alone are in the way */
		reap(p);
		if (i < RF_LEDGER_LOANS && find_loan(l, name) == i) {
			l->loan[i].shut = 1;
			return -EEXIST;
		}
		i = free_loan(l);
	}
	if (i == RF_LEDGER_LOANS)
		return -ENOSPC;
	write_loan(l, i, name, card, bytes);
	RF_LEDGER_WINDOW();
	__atomic_store_n(&l->loan[i].maker, p->seat + 1, __ATOMIC_RELEASE);
	*ret_loan = i;
	return 0;
}

int rf_ledger_lend(struct rf_ledger_place *p, const uint8_t name[RF_LEDGER_NAME], unsigned card,
		   uint64_t bytes, unsigned *ret_loan)
{
	int r = lock(p->ledger);

	if (r < 0)
		return r;
	r = lend(p, name, card, bytes, ret_loan);
	unlock(p->ledger);
	return r;
}

int rf_ledger_borrow(struct rf_ledger_place *p, const uint8_t name[RF_LEDGER_NAME],
		     unsigned *ret_loan)
{
	struct rf_ledger *l = p->ledger;
	int r = lock(l);
	unsigned i;

	if (r < 0)
		return r;
	i = find_loan(l, name);
	if (!still_mine(p))
		r = -ESTALE;
	else if (i == RF_LEDGER_LOANS)
		r = -ENOENT;
	else if (l->loan[i].shut)
		r = -EBUSY;
	if (r == 0)
		set_holder(&l->loan[i], p->seat);
	if (r == 0 || r == -EBUSY)
		*ret_loan = i;
	unlock(l);
	return r;
}

void rf_ledger_recall(struct rf_ledger_place *p, unsigned loan, unsigned card, uint64_t bytes)
{
	struct rf_ledger_loan *n = &p->ledger->loan[loan];
	bool locked = lock(p->ledger) == 0;

	if (still_mine(p) && maker_of(n) == p->seat + 1)
		__atomic_store_n(&n->maker, 0, __ATOMIC_RELEASE);
	RF_LEDGER_WINDOW();
	rf_ledger_release(p, card, bytes);
	if (locked)
		unlock(p->ledger);
}

void rf_ledger_return(struct rf_ledger_place *p, unsigned loan)
{
	if (still_mine(p))
		clear_holder(&p->ledger->loan[loan], p->seat);
}

int rf_ledger_renew(struct rf_ledger_place *p, unsigned loan, const uint8_t name[RF_LEDGER_NAME],
		    unsigned card, uint64_t bytes, bool maker)
{
	struct rf_ledger *l = p->ledger;
	struct rf_ledger_loan *n = &l->loan[loan];
	int r = lock(l);

	if (r < 0)
		return r;
	if (maker_of(n))
		reap(p); /* it may be the seat that was lost */
	if (!maker_of(n) && !is_held(n))
		write_loan(l, loan, name, card, bytes);
	if (memcmp(l->name[loan], name, RF_LEDGER_NAME) != 0 || (maker && maker_of(n)))
		r = -EEXIST;
	else if (maker)
		__atomic_store_n(&n->maker, p->seat + 1, __ATOMIC_RELEASE);
	else
		set_holder(n, p->seat);
	unlock(l);
	return r;
}

void rf_ledger_release(struct rf_ledger_place *p, unsigned card, uint64_t bytes)
{
	uint64_t *used = &p->ledger->used[card][p->seat];
	uint64_t now = __atomic_load_n(used, __ATOMIC_RELAXED);

	if (!still_mine(p))
		return;
	while (!__atomic_compare_exchange_n(used, &now, now > bytes ? now - bytes : 0, true,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

void rf_ledger_mark(struct rf_ledger_place *p, uint32_t cards)
{
	if (still_mine(p))
		__atomic_store_n(&p->ledger->seat[p->seat].contexts, cards, __ATOMIC_RELAXED);
}

/* --- who has what --- */

/* Who is alive, asked once. */
struct census {
	bool (*alive)(void *ctx, unsigned seat);
	void *ctx;
	uint8_t known[RF_LEDGER_SEATS]; /* 1: alive, 2: not */
};

static bool lives(struct census *c, unsigned seat)
{
	if (!c->known[seat])
		c->known[seat] = c->alive(c->ctx, seat) ? 1 : 2;
	return c->known[seat] == 1;
}

/* The first holder that is alive; RF_LEDGER_SEATS: none, or the loan is still on its maker's seat. */
static unsigned bearer(const struct rf_ledger_loan *n, struct census *c)
{
	unsigned maker = maker_of(n), seat = 0;

	if (!is_held(n) || (maker > 0 && maker <= RF_LEDGER_SEATS && lives(c, maker - 1)))
		return RF_LEDGER_SEATS;
	while (seat < RF_LEDGER_SEATS &&
	       !((n->holders[seat / 64] >> seat % 64 & 1) && lives(c, seat)))
		seat++;
	return seat;
}

void rf_ledger_orphans(const struct rf_ledger *l, unsigned card,
		       bool (*alive)(void *ctx, unsigned seat), void *ctx,
		       uint64_t ret[RF_LEDGER_SEATS])
{
	struct census c = { .alive = alive, .ctx = ctx };

	memset(ret, 0, RF_LEDGER_SEATS * sizeof(ret[0]));
	for (unsigned i = 0, top = loans_top(l); i < top; i++) {
		const struct rf_ledger_loan *n = &l->loan[i];
		unsigned seat = n->card == card ? bearer(n, &c) : RF_LEDGER_SEATS;

		if (seat < RF_LEDGER_SEATS)
			ret[seat] = add_up(ret[seat], n->bytes);
	}
}

/* Who has what is booked on the seat; 0: nobody. */
static pid_t owner(const struct rf_ledger_place *p, unsigned seat)
{
	pid_t pid = sitter(p, seat);

	return pid == 0 && is_there(p, seat) ? (pid_t)p->ledger->seat[seat].pid : pid;
}

static bool is_sat_on(void *place, unsigned seat)
{
	return owner(place, seat) != 0;
}

/* What the seats have, loans that count by themselves with one of those who hold them. */
static void look(const struct rf_ledger_place *p, unsigned card, uint64_t ret[RF_LEDGER_SEATS])
{
	struct rf_ledger_place place = *p;

	rf_ledger_orphans(p->ledger, card, is_sat_on, &place, ret);
	for (unsigned i = 0, top = top_of(p->ledger); i < top; i++)
		ret[i] = add_up(ret[i], __atomic_load_n(&p->ledger->used[card][i], __ATOMIC_RELAXED));
}

uint64_t rf_ledger_used(const struct rf_ledger_place *p, unsigned card)
{
	uint64_t bytes[RF_LEDGER_SEATS];
	uint64_t sum = 0;

	look(p, card, bytes);
	for (unsigned i = 0, top = top_of(p->ledger); i < top; i++) {
		if (bytes[i] != 0 && owner(p, i) != 0)
			sum = add_up(sum, bytes[i]);
	}
	return sum;
}

size_t rf_ledger_list(const struct rf_ledger_place *p, unsigned card, struct rf_ledger_process *ret,
		      size_t room)
{
	uint64_t bytes[RF_LEDGER_SEATS];
	size_t n = 0;

	look(p, card, bytes);
	for (unsigned i = 0, top = top_of(p->ledger); i < top; i++) {
		uint32_t contexts =
			__atomic_load_n(&p->ledger->seat[i].contexts, __ATOMIC_RELAXED);
		pid_t pid = bytes[i] != 0 || contexts >> card & 1 ? owner(p, i) : 0;

		if (pid <= 0)
			continue;
		if (n < room)
			ret[n] = (struct rf_ledger_process){ .pid = pid, .bytes = bytes[i] };
		n++;
	}
	return n;
}
