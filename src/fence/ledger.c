#include "fence/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
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

/* A process that died inside left at most one finished store behind, so there is nothing to mend.
 */
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

static uint64_t sum_of(const struct rf_ledger *l, unsigned card)
{
	uint64_t sum = 0;

	for (unsigned i = 0, top = top_of(l); i < top; i++)
		sum = add_up(sum, __atomic_load_n(&l->used[card][i], __ATOMIC_RELAXED));
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

static void clear_seat(struct rf_ledger *l, unsigned seat)
{
	for (unsigned card = 0; card < RF_FENCE_CARDS; card++)
		__atomic_store_n(&l->used[card][seat], 0, __ATOMIC_RELAXED);
	__atomic_store_n(&l->seat[seat].contexts, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&l->seat[seat].pid, 0, __ATOMIC_RELAXED);
	__atomic_add_fetch(&l->seat[seat].generation, 1, __ATOMIC_RELEASE);
}

/* Clears seats whose process is gone. Under the lock. */
static void reap(struct rf_ledger_place *p)
{
	struct rf_ledger *l = p->ledger;

	for (unsigned i = 0, top = top_of(l); i < top; i++) {
		if (i != p->seat && l->seat[i].pid != 0 && rf_ledger_holder(p->fd, i) == 0)
			clear_seat(l, i);
	}
}

static bool lock_seat(int fd, unsigned seat)
{
	struct flock lk = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = seat, .l_len = 1 };

	return fcntl(fd, F_SETLK, &lk) == 0;
}

static int sit(struct rf_ledger_place *p, const uint64_t held[RF_FENCE_CARDS])
{
	struct rf_ledger *l = p->ledger;
	unsigned seat = 0;

	while (seat < RF_LEDGER_SEATS && !lock_seat(p->fd, seat))
		seat++;
	if (seat == RF_LEDGER_SEATS)
		return -ENOSPC;
	clear_seat(l, seat);
	p->seat = seat;
	p->generation = l->seat[seat].generation;
	l->seat[seat].pid = (uint32_t)getpid();
	for (unsigned card = 0; card < RF_FENCE_CARDS; card++)
		__atomic_store_n(&l->used[card][seat], held[card], __ATOMIC_RELAXED);
	if (seat >= top_of(l))
		__atomic_store_n(&l->top, seat + 1, __ATOMIC_RELEASE);
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

static pid_t sitter(const struct rf_ledger_place *p, unsigned seat)
{
	return seat == p->seat ? getpid() : rf_ledger_holder(p->fd, seat);
}

uint64_t rf_ledger_used(const struct rf_ledger_place *p, unsigned card)
{
	uint64_t sum = 0;

	for (unsigned i = 0, top = top_of(p->ledger); i < top; i++) {
		uint64_t bytes = __atomic_load_n(&p->ledger->used[card][i], __ATOMIC_RELAXED);

		if (bytes != 0 && sitter(p, i) != 0)
			sum = add_up(sum, bytes);
	}
	return sum;
}

size_t rf_ledger_list(const struct rf_ledger_place *p, unsigned card, struct rf_ledger_process *ret,
		      size_t room)
{
	size_t n = 0;

	for (unsigned i = 0, top = top_of(p->ledger); i < top; i++) {
		uint64_t bytes = __atomic_load_n(&p->ledger->used[card][i], __ATOMIC_RELAXED);
		uint32_t contexts =
			__atomic_load_n(&p->ledger->seat[i].contexts, __ATOMIC_RELAXED);
		pid_t pid = bytes != 0 || contexts >> card & 1 ? sitter(p, i) : 0;

		if (pid <= 0)
			continue;
		if (n < room)
			ret[n] = (struct rf_ledger_process){ .pid = pid, .bytes = bytes };
		n++;
	}
	return n;
}
