#include "fence/arbiter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "fence/arbiter_private.h"
#include "fence/uuid.h"

#define WATCHED 127  /* as many words as one futex_waitv can watch, less our own */
#define FENCES 16384 /* more is a mistake */
#define CARDS 64
#define PAUSE (30 * RF_US) /* between two looks, however often somebody rings */
#define POLL (1 * RF_MS) /* for those who cannot be watched, and on kernels without futex_waitv */

struct fence {
	int id; /* 0: none */
	struct rf_gate *gate;
	struct rf_desk *desk;
	int ledger_fd;
	unsigned cards;
	struct rf_card_state *on[RF_FENCE_CARDS];
	struct rf_member member[RF_FENCE_CARDS];
};

struct rf_arbiter {
	pthread_t thread;
	pthread_mutex_t lock; /* guards all but bell */
	uint32_t bell;	      /* futex: fences come and go */
	bool stop;
	int next_id;
	struct fence **fence; /* the first WATCHED of them are watched */
	unsigned fences, room;
	unsigned out; /* the next to make room for one that is not watched and rang */
	struct rf_card_state card[CARDS];
	unsigned cards;
};

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t least_of(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static void wake(uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static void wake_gate(struct rf_gate_card *g)
{
	wake(&g->turn);
}

/* --- waiting for somebody to ring --- */

struct waited { /* struct futex_waitv, which old headers lack */
	uint64_t val;
	uint64_t uaddr;
	uint32_t flags;
	uint32_t reserved;
};

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

static void wait_for(const struct waited *words, unsigned n, int64_t until)
{
	static bool missing;
	struct timespec t = { .tv_sec = until / 1000000000, .tv_nsec = until % 1000000000 };

	if (!missing &&
	    syscall(SYS_futex_waitv, words, n, 0, until == INT64_MAX ? NULL : &t, CLOCK_MONOTONIC) <
		    0 &&
	    errno == ENOSYS)
		missing = true;
	if (missing) {
		until = until < now_ns() + POLL ? until : now_ns() + POLL;
		t = (struct timespec){ .tv_sec = until / 1000000000,
				       .tv_nsec = until % 1000000000 };
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
	}
}

static struct waited word(uint32_t *p, uint32_t seen)
{
	return (struct waited){ .val = seen, .uaddr = (uintptr_t)p, .flags = 2 /* 32 bits */ };
}

static bool rang(const struct fence *f)
{
	return __atomic_load_n(&f->desk->ring, __ATOMIC_ACQUIRE) != f->gate->heard;
}

/* Under the lock. Whoever rang is the likeliest to ring again: it is watched from now on. */
static void choose_watched(struct rf_arbiter *a)
{
	for (unsigned i = WATCHED; i < a->fences; i++) {
		struct fence *f = a->fence[i];

		if (!rang(f))
			continue;
		a->out = (a->out + 1) % WATCHED;
		a->fence[i] = a->fence[a->out];
		a->fence[a->out] = f;
	}
}

/* Under the lock. Fills in what to wait for; what rings from now on ends the wait at once, or after POLL if
 * it is not among them. */
static unsigned listen_to(struct rf_arbiter *a, struct waited words[WATCHED + 1])
{
	unsigned n = 0;

	choose_watched(a);
	words[n++] = word(&a->bell, __atomic_load_n(&a->bell, __ATOMIC_ACQUIRE));
	for (unsigned i = 0; i < a->fences; i++) {
		struct fence *f = a->fence[i];
		uint32_t ring = __atomic_load_n(&f->desk->ring, __ATOMIC_ACQUIRE);

		__atomic_store_n(&f->gate->heard, ring, __ATOMIC_RELEASE);
		if (i < WATCHED)
			words[n++] = word(&f->desk->ring, ring);
	}
	return n;
}

static bool is_quiet(struct rf_arbiter *a, uint32_t bell)
{
	bool quiet;

	pthread_mutex_lock(&a->lock);
	quiet = __atomic_load_n(&a->bell, __ATOMIC_ACQUIRE) == bell;
	for (unsigned i = 0; quiet && i < a->fences; i++)
		quiet = !rang(a->fence[i]);
	pthread_mutex_unlock(&a->lock);
	return quiet;
}

static void wait_for_all(struct rf_arbiter *a, const struct waited *words, unsigned n, bool all,
			 int64_t next)
{
	int64_t until;

	do {
		until = all ? next : least_of(next, now_ns() + POLL);
		wait_for(words, n, until);
	} while (until < next && is_quiet(a, (uint32_t)words[0].val));
}

static void rest_until(int64_t at)
{
	struct timespec t = { .tv_sec = at / 1000000000, .tv_nsec = at % 1000000000 };

	if (now_ns() < at)
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static void *run(void *arg)
{
	struct rf_arbiter *a = arg;
	struct waited words[WATCHED + 1];

	prctl(PR_SET_TIMERSLACK, 1000);
	for (int64_t last = 0;;) {
		int64_t next = INT64_MAX, now;
		bool all;
		unsigned n;

		pthread_mutex_lock(&a->lock);
		if (a->stop) {
			pthread_mutex_unlock(&a->lock);
			return NULL;
		}
		n = listen_to(a, words);
		all = a->fences <= WATCHED;
		now = last = now_ns();
		for (unsigned i = 0; i < a->cards; i++) {
			int64_t at =
				a->card[i].n ? rf_turns(&a->card[i], now, wake_gate) : INT64_MAX;

			next = at < next ? at : next;
		}
		pthread_mutex_unlock(&a->lock);
		wait_for_all(a, words, n, all, next);
		rest_until(last + PAUSE);
	}
}

static void ring_bell(struct rf_arbiter *a)
{
	__atomic_add_fetch(&a->bell, 1, __ATOMIC_ACQ_REL);
	wake(&a->bell);
}

/* --- fences come and go --- */

static void *make_shared(const char *name, size_t size, bool read_only, int *ret_fd)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *p = MAP_FAILED;

	if (fd >= 0 && ftruncate(fd, (off_t)size) == 0)
		p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED ||
	    fcntl(fd, F_ADD_SEALS,
		  F_SEAL_SHRINK | F_SEAL_GROW | (read_only ? F_SEAL_FUTURE_WRITE : 0) |
			  F_SEAL_SEAL) < 0) {
		int saved = errno;

		if (p != MAP_FAILED)
			munmap(p, size);
		if (fd >= 0)
			close(fd);
		errno = saved;
		return NULL;
	}
	*ret_fd = fd;
	return p;
}

static void free_fence(struct fence *f)
{
	if (f->gate)
		munmap(f->gate, sizeof(*f->gate));
	if (f->desk)
		munmap(f->desk, sizeof(*f->desk));
	if (f->ledger_fd >= 0)
		close(f->ledger_fd);
	free(f);
}

static struct rf_card_state *card_for(struct rf_arbiter *a, const uint8_t uuid[16])
{
	struct rf_card_state *empty = NULL;

	for (unsigned i = 0; i < a->cards; i++) {
		if (memcmp(a->card[i].uuid, uuid, 16) == 0)
			return &a->card[i];
		if (a->card[i].n == 0 && !empty)
			empty = &a->card[i];
	}
	if (!empty && a->cards < CARDS)
		empty = &a->card[a->cards++];
	if (!empty)
		return NULL;
	*empty = (struct rf_card_state){ 0 };
	memcpy(empty->uuid, uuid, 16);
	return empty;
}

static struct fence *make_fence(const struct rf_fence_limits *limits, int ledger_fd, int *gate_fd,
				int *desk_fd)
{
	struct fence *f = calloc(1, sizeof(*f));

	*gate_fd = *desk_fd = -1;
	if (!f)
		return NULL;
	f->ledger_fd = fcntl(ledger_fd, F_DUPFD_CLOEXEC, 0);
	f->gate = f->ledger_fd < 0 ? NULL
				   : make_shared("ringfence-gate", sizeof(*f->gate), true, gate_fd);
	f->desk = !f->gate ? NULL : make_shared("ringfence-desk", sizeof(*f->desk), false, desk_fd);
	if (!f->desk) {
		free_fence(f);
		if (*gate_fd >= 0)
			close(*gate_fd);
		return NULL;
	}
	f->cards = limits->count;
	f->desk->magic = RF_DESK_MAGIC;
	f->desk->bytes = sizeof(*f->desk);
	f->gate->cards = limits->count;
	f->gate->bytes = sizeof(*f->gate);
	f->gate->magic = RF_GATE_MAGIC;
	return f;
}

/* Under the lock. */
static int make_room(struct rf_arbiter *a)
{
	unsigned room = a->room ? a->room * 2 : WATCHED;
	struct fence **more;

	if (a->fences < a->room)
		return 0;
	if (a->fences == FENCES)
		return -ENOSPC;
	more = realloc(a->fence, room * sizeof(struct fence *));
	if (!more)
		return -ENOMEM;
	a->fence = more;
	a->room = room;
	return 0;
}

/* Under the lock. */
static int place(struct rf_arbiter *a, struct fence *f, const struct rf_fence_limits *limits)
{
	int64_t now = now_ns();
	int r = make_room(a);

	if (r < 0)
		return r;
	for (unsigned i = 0; i < f->cards; i++) {
		const struct rf_fence_limit *l = &limits->card[i];
		struct rf_member *m = &f->member[i];
		uint8_t uuid[16];

		if (!memchr(l->uuid, '\0', sizeof(l->uuid)) || !rf_uuid_parse(l->uuid, uuid))
			return -EINVAL;
		f->on[i] = card_for(a, uuid);
		if (!f->on[i] || f->on[i]->n == RF_MEMBERS)
			return -ENOSPC;
		*m = (struct rf_member){ .gate = &f->gate->card[i],
					 .desk = f->desk,
					 .card = i,
					 .ledger_fd = f->ledger_fd,
					 .share = l->compute_milli,
					 .priority = l->priority,
					 .burst = l->flags & RF_FENCE_BURST,
					 .spatial = l->flags & RF_FENCE_SPATIAL };
		rf_turns_add(f->on[i], m, now);
	}
	f->id = ++a->next_id;
	a->fence[a->fences++] = f;
	return 0;
}

static void displace(struct fence *f)
{
	for (unsigned i = 0; i < f->cards; i++)
		if (f->on[i])
			rf_turns_remove(f->on[i], &f->member[i]);
}

/* Its processes find no arbiter any more. */
static void dissolve(struct fence *f)
{
	displace(f);
	__atomic_store_n(&f->gate->magic, 0, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < f->cards; i++) {
		__atomic_store_n(&f->gate->card[i].open_until, 0, __ATOMIC_RELEASE);
		__atomic_add_fetch(&f->gate->card[i].turn, 1, __ATOMIC_RELEASE);
		wake(&f->gate->card[i].turn);
	}
	free_fence(f);
}

int rf_arbiter_add(struct rf_arbiter *a, const struct rf_fence_limits *limits, int ledger_fd,
		   int *ret_id, int *ret_gate, int *ret_desk)
{
	struct fence *f;
	int gate, desk, r;

	if (limits->count == 0 || limits->count > RF_FENCE_CARDS)
		return -EINVAL;
	f = make_fence(limits, ledger_fd, &gate, &desk);
	if (!f)
		return errno ? -errno : -ENOMEM;
	pthread_mutex_lock(&a->lock);
	r = place(a, f, limits);
	if (r < 0)
		displace(f);
	pthread_mutex_unlock(&a->lock);
	if (r < 0) {
		free_fence(f);
		close(gate);
		close(desk);
		return r;
	}
	*ret_id = f->id;
	*ret_gate = gate;
	*ret_desk = desk;
	ring_bell(a);
	return 0;
}

void rf_arbiter_remove(struct rf_arbiter *a, int id)
{
	pthread_mutex_lock(&a->lock);
	for (unsigned i = 0; i < a->fences; i++) {
		if (a->fence[i]->id == id) {
			dissolve(a->fence[i]);
			a->fence[i] = a->fence[--a->fences];
			break;
		}
	}
	pthread_mutex_unlock(&a->lock);
	ring_bell(a);
}

/* --- the thread --- */

int rf_arbiter_start(struct rf_arbiter **ret)
{
	struct rf_arbiter *a = calloc(1, sizeof(*a));
	int r;

	if (!a)
		return -ENOMEM;
	pthread_mutex_init(&a->lock, NULL);
	r = pthread_create(&a->thread, NULL, run, a);
	if (r != 0) {
		free(a);
		return -r;
	}
	*ret = a;
	return 0;
}

void rf_arbiter_stop(struct rf_arbiter *a)
{
	if (!a)
		return;
	pthread_mutex_lock(&a->lock);
	a->stop = true;
	pthread_mutex_unlock(&a->lock);
	ring_bell(a);
	pthread_join(a->thread, NULL);
	while (a->fences > 0)
		dissolve(a->fence[--a->fences]);
	pthread_mutex_destroy(&a->lock);
	free(a->fence);
	free(a);
}
