#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fence/fence.h"

struct rf_fence *rf_the_fence;

static struct rf_fence *fence_pages(void)
{
	struct rf_fence *f = __atomic_load_n(&rf_the_fence, __ATOMIC_ACQUIRE);
	struct rf_fence *none = NULL;

	if (f)
		return f;
	f = mmap(NULL, sizeof(*f), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (f == MAP_FAILED)
		return NULL;
	if (madvise(f, sizeof(*f), MADV_WIPEONFORK) < 0 ||
	    !__atomic_compare_exchange_n(&rf_the_fence, &none, f, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE)) {
		munmap(f, sizeof(*f));
		return none;
	}
	return f;
}

static bool accept_limits(struct rf_fence *f, const struct rf_fence_limits *limits)
{
	f->any_cap = false;
	for (unsigned i = 0; i < limits->count; i++) {
		const struct rf_fence_limit *l = &limits->card[i];
		char uuid[RF_FENCE_UUID + 1] = "";

		memcpy(uuid, l->uuid, RF_FENCE_UUID);
		if (!rf_uuid_parse(uuid, f->card[i].uuid))
			return false;
		f->card[i].cap = l->memory_bytes ? l->memory_bytes : UINT64_MAX;
		f->card[i].context_bytes = l->context_bytes;
		f->any_cap = f->any_cap || l->memory_bytes != 0;
	}
	f->cards = limits->count;
	return true;
}

static bool sit_down(struct rf_fence *f, const struct rf_terms *terms)
{
	struct rf_ledger_place place;

	if (!accept_limits(f, &terms->limits) || rf_ledger_open(&place, terms->ledger_fd) < 0) {
		close(terms->ledger_fd);
		return false;
	}
	if (rf_ledger_sit(&place, f->held) < 0) {
		munmap(place.ledger, sizeof(*place.ledger));
		close(terms->ledger_fd);
		return false;
	}
	f->place = place;
	return true;
}

/* The seat falls with the descriptor. Once joined, other threads may be looking at the pages. */
static void stand_up(struct rf_fence *f)
{
	if (!f->joined)
		munmap(f->place.ledger, sizeof(*f->place.ledger));
	close(f->place.fd);
}

/* Under the join lock. The seat starts with what the process already holds: nothing, unless it lost
 * an earlier seat. */
static bool ask_and_sit(struct rf_fence *f, int patience_ms)
{
	struct rf_terms terms;
	bool ok;

	if (!rf_client_ask(patience_ms, &terms))
		return false;
	ok = sit_down(f, &terms);
	if (terms.gate_fd < 0)
		return ok;
	if (!ok || f->gate) { /* who has a gate asks for another when its arbiter is dead */
		close(terms.gate_fd);
		close(terms.desk_fd);
		return ok;
	}
	ok = rf_share_open(f, terms.gate_fd, terms.desk_fd);
	if (!ok)
		stand_up(f);
	return ok;
}

/* A thread that is cancelled while it asks must not take the lock with it. */
static int lock(struct rf_fence *f)
{
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&f->join_lock);
	return cancel;
}

static void unlock(struct rf_fence *f, int cancel)
{
	pthread_mutex_unlock(&f->join_lock);
	pthread_setcancelstate(cancel, NULL);
}

static void join(struct rf_fence *f)
{
	int cancel = lock(f);

	if (!f->joined) {
		if (ask_and_sit(f, f->failed_once ? 0 : RF_FENCE_PATIENCE_MS))
			__atomic_store_n(&f->joined, 1, __ATOMIC_RELEASE);
		else
			f->failed_once = true;
	}
	unlock(f, cancel);
}

struct rf_fence *rf_join(void)
{
	struct rf_fence *f = fence_pages();

	if (!f)
		return NULL;
	if (!__atomic_load_n(&f->joined, __ATOMIC_ACQUIRE)) {
		int saved = errno;

		join(f);
		errno = saved;
	}
	return __atomic_load_n(&f->joined, __ATOMIC_ACQUIRE) ? f : NULL;
}

bool rf_rejoin(struct rf_fence *f)
{
	int saved = errno, cancel = lock(f);
	bool ok;

	ok = !rf_ledger_lost(&f->place) || ask_and_sit(f, RF_FENCE_PATIENCE_MS);
	unlock(f, cancel);
	errno = saved;
	return ok;
}
