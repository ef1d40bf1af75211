/* What the arbiter lets a process do, and what it does by itself while there is none. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fence/share_private.h"

#define ASKING (5000 * MS)  /* asking for a new one takes no longer */
#define ASK_PAUSE (30 * MS) /* and is not done more often */
#define OWN_LEASE (5 * MS)  /* of a process that must pace itself */

/* A standing gate is open to whoever says that it came. It must also be heard: a dead arbiter never shuts it. */
static bool is_unheard(const struct rf_gate *gate, struct rf_pace *p, uint64_t now)
{
	if (p->rang_at == 0 || now - p->rang_at <= UNHEARD)
		return false;
	rf_desk_check(gate, p, now);
	return p->rang_at != 0;
}

/* Whether it is the turn of another process of the fence; the arbiter knows this one by the seat it told last. */
static bool is_shut_out(const struct rf_gate_card *g, const struct rf_pace *p)
{
	unsigned seat = p->sat - 1;

	return seat < RF_SIBLINGS &&
	       __atomic_load_n(&g->shut[seat / 64], __ATOMIC_RELAXED) >> seat % 64 & 1;
}

uint64_t rf_gate_open_until(struct rf_fence *f, const struct rf_gate_card *g, struct rf_pace *p,
			    uint64_t now)
{
	if (!p->orphan) {
		uint64_t until = __atomic_load_n(&g->open_until, __ATOMIC_ACQUIRE);

		if (until == RF_GATE_FREE)
			return until;
		if (is_shut_out(g, p) || (until == RF_GATE_STANDING && is_unheard(f->gate, p, now)))
			return 0;
		return until;
	}
	if (now < p->own_from)
		return 0;
	if (p->own_until == 0 || (p->busy_from == 0 && now >= p->own_until))
		p->own_until = now + OWN_LEASE;
	return p->own_until;
}

bool rf_gate_should_ask(const struct rf_pace *p, uint64_t now)
{
	return p->orphan && now >= p->ask_at && now >= p->own_from;
}

/* Without the lock, since it may take a while. */
void rf_gate_ask_again(struct rf_fence *f, struct rf_pace *p, uint64_t now)
{
	int gate, desk;
	bool ok;

	p->ask_at = now + ASKING; /* one thread is enough */
	pthread_mutex_unlock(&f->pace_lock);
	ok = rf_client_ask_gate(&gate, &desk);
	pthread_mutex_lock(&f->pace_lock);
	/* A server that answers slowly must not take up the time there is for launches. */
	p->ask_at = now_ns() + ASK_PAUSE + 10 * (now_ns() - now);
	if (ok)
		rf_share_open(f, gate, desk);
}

static void *map(int fd, size_t size, int prot)
{
	int want = F_SEAL_SHRINK | F_SEAL_GROW;
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;
	void *p;

	if (seals < 0 || (seals & want) != want || fstat(fd, &st) < 0 || st.st_size < (off_t)size)
		return NULL;
	p = mmap(NULL, size, prot, MAP_SHARED, fd, 0);
	return p == MAP_FAILED ? NULL : p;
}

static void unmap(void *p, size_t size)
{
	if (p)
		munmap(p, size);
}

static bool is_good(const struct rf_gate *gate, const struct rf_desk *desk)
{
	return gate && desk && gate->magic == RF_GATE_MAGIC && desk->magic == RF_DESK_MAGIC &&
	       gate->bytes == sizeof(*gate) && desk->bytes == sizeof(*desk);
}

static void change_gate(struct rf_fence *f, const struct rf_gate *gate, struct rf_desk *desk)
{
	if (!f->gate) /* later others read it without the lock */
		f->pid = (uint32_t)getpid();
	f->desk = desk;
	__atomic_store_n(&f->gate, gate, __ATOMIC_RELEASE);
	RF_FOR_WORKING(f, l)
	rf_lane_settle(f, l); /* whoever goes along looks at the old gate */
	for (unsigned i = 0; i < f->cards; i++) {
		f->pace[i].sat = 0;
		f->pace[i].orphan = false;
		f->pace[i].rang_at = 0;
		/* it has heard all there is */
		f->pace[i].rang = __atomic_load_n(&gate->heard, __ATOMIC_RELAXED);
		rf_desk_tell(f, i, now_ns());
	}
}

/* An older gate stays mapped: other threads may be looking at it. */
bool rf_share_open(struct rf_fence *f, int gate_fd, int desk_fd)
{
	struct stat st = { 0 };
	bool same = fstat(gate_fd, &st) == 0 && f->gate && st.st_ino == f->gate_ino;
	struct rf_gate *gate = same ? NULL : map(gate_fd, sizeof(*gate), PROT_READ);
	struct rf_desk *desk = same ? NULL : map(desk_fd, sizeof(*desk), PROT_READ | PROT_WRITE);

	close(gate_fd);
	close(desk_fd);
	if (same)
		return true; /* its arbiter is late, or nobody knows yet that it is dead */
	if (!is_good(gate, desk)) {
		unmap(gate, sizeof(*gate));
		unmap(desk, sizeof(*desk));
		return false;
	}
	f->gate_ino = st.st_ino;
	change_gate(f, gate, desk);
	return true;
}
