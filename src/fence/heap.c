/* Memory whose address nobody tells: arrays, and what modules take. The driver packs such pieces side by side into pages of
 * 2 MiB, apart from plain allocations, and a page stays on the card until the last of them is gone. So the card's free
 * memory is looked at before and after each call that makes or ends one. What a heap is charged is never less than its
 * pieces take side by side, and never more than they would take with pages of their own: so much a neighbour that
 * allocates or frees in just that moment can spoil. */
#include <errno.h>
#include <time.h>

#include "fence/fence.h"
#include "fence/pool.h"

#define ROUNDS 3
#define LARGE ((uint64_t)32 << 20)
#define NEAR ((uint64_t)2 << 20)
#define PATIENCE_NS 10000000   /* for the others' calls, */
#define LONG_PATIENCE_NS 1000000000 /* where what is taken is known by looking only */
#define A_WHILE_NS 50000

/* --- what the card has free --- */

struct rf_gauge rf_gauge_look(struct rf_fence *f, unsigned card)
{
	size_t free = 0, total = 0;
	int mode = rf_pool_relax();

	if (RF_REAL(cuMemGetInfo_v2)(&free, &total) != CUDA_SUCCESS)
		free = 0;
	rf_pool_restore(mode);
	return (struct rf_gauge){ .free = free,
				  .held = __atomic_load_n(&f->held[card], __ATOMIC_RELAXED) };
}

uint64_t rf_gauge_taken(const struct rf_gauge *before, const struct rf_gauge *now)
{
	int64_t lost = (int64_t)(before->free - now->free) - (int64_t)(now->held - before->held);

	return lost > 0 ? (uint64_t)lost : 0;
}

/* Nobody else of this process allocates or frees just now what is in the table. */
static bool is_alone(struct rf_fence *f)
{
	return rf_table_in_the_making(&f->table) <= 1;
}

/* Not for ever: whoever has it may wait for work that waits for this thread. */
static bool gauge_lock(struct rf_fence *f, int64_t patience_ns)
{
	int64_t end = rf_clock_ns() + patience_ns;
	int saved = errno;

	while (pthread_mutex_trylock(&f->gauge_lock) != 0) {
		if (rf_clock_ns() > end)
			return false;
		nanosleep(&(struct timespec){ .tv_nsec = A_WHILE_NS }, NULL);
		errno = saved;
	}
	return true;
}

bool rf_gauge_lock(struct rf_fence *f)
{
	return gauge_lock(f, LONG_PATIENCE_NS);
}

void rf_gauge_unlock(struct rf_fence *f)
{
	pthread_mutex_unlock(&f->gauge_lock);
}

/* --- the books --- */

static uint64_t clamp(uint64_t n, uint64_t least, uint64_t most)
{
	return n < least ? least : n > most ? most : n;
}

/* With the lock. */
static void recount(struct rf_heap *h, uint64_t seen)
{
	h->seen = seen < h->apart ? seen : h->apart;
	h->charged = clamp(seen, rf_whole_pages(h->side_by_side), h->apart);
}

void rf_heap_add(struct rf_fence *f, const struct rf_heap_part *p, uint64_t took, uint64_t reserved)
{
	struct rf_heap *h = &f->heap[p->card][p->kind];
	uint64_t before, after;

	pthread_mutex_lock(&f->heap_lock);
	before = h->charged;
	h->side_by_side += p->bytes;
	h->apart += p->apart;
	if (took == RF_HEAP_UNSEEN)
		recount(h, clamp(h->seen, rf_whole_pages(h->side_by_side), UINT64_MAX));
	else
		recount(h, h->seen + took);
	after = h->charged;
	pthread_mutex_unlock(&f->heap_lock);
	rf_release(f, p->card, reserved - (after - before));
}

void rf_heap_leave(struct rf_fence *f, const struct rf_heap_part *p, uint64_t gave)
{
	struct rf_heap *h = &f->heap[p->card][p->kind];
	uint64_t before, after;

	if (gave > p->apart)
		gave = p->apart;
	pthread_mutex_lock(&f->heap_lock);
	before = h->charged;
	h->side_by_side -= p->bytes;
	h->apart -= p->apart;
	recount(h, h->seen > gave ? h->seen - gave : 0);
	after = h->charged;
	pthread_mutex_unlock(&f->heap_lock);
	rf_release(f, p->card, before - after);
}

static bool is_measured(const struct rf_fence *f, unsigned card)
{
	return f->card[card].cap != UINT64_MAX;
}

/* --- making --- */

static uint64_t middle(const uint64_t v[ROUNDS])
{
	uint64_t low = v[0] < v[1] ? v[0] : v[1], high = v[0] < v[1] ? v[1] : v[0];

	return clamp(v[2], low, high);
}

static bool agree(uint64_t a, uint64_t b)
{
	return (a > b ? a - b : b - a) <= NEAR;
}

/* Whether round i was disturbed by nobody, as far as can be seen. */
static bool is_believed(const struct rf_making *m, const uint64_t seen[ROUNDS], unsigned i, bool alone)
{
	if (m->told)
		return alone && seen[i] <= rf_whole_pages(m->bytes);
	return seen[i] <= LARGE || (i > 0 && agree(seen[i], seen[i - 1]));
}

/* Where it was disturbed it is made again, if that is cheap and harmless. */
static CUresult make_measured(struct rf_fence *f, unsigned card, const struct rf_making *m,
			      uint64_t *ret_took)
{
	unsigned rounds = m->once ? 1 : ROUNDS, i;
	uint64_t seen[ROUNDS];

	for (i = 0; i < rounds; i++) {
		struct rf_gauge before = rf_gauge_look(f, card), now;
		bool alone = is_alone(f);
		CUresult r = m->make(m->call);

		if (r != CUDA_SUCCESS)
			return r;
		now = rf_gauge_look(f, card);
		alone = alone && is_alone(f) && now.held == before.held;
		*ret_took = seen[i] = rf_gauge_taken(&before, &now);
		if (is_believed(m, seen, i, alone))
			return CUDA_SUCCESS;
		if (i + 1 == rounds || m->unmake(*(const uint64_t *)m->key) != CUDA_SUCCESS)
			break;
	}
	if (m->told)
		*ret_took = rf_whole_pages(m->bytes);
	else if (i + 1 == ROUNDS)
		*ret_took = middle(seen);
	return CUDA_SUCCESS;
}

static CUresult make(struct rf_fence *f, unsigned card, const struct rf_making *m, uint64_t *ret_took)
{
	bool measured = is_measured(f, card), locked;
	CUresult r;

	*ret_took = 0;
	if (!measured)
		return m->make(m->call);
	locked = gauge_lock(f, m->told ? PATIENCE_NS : LONG_PATIENCE_NS);
	*ret_took = rf_whole_pages(m->bytes);
	r = locked || !m->told ? make_measured(f, card, m, ret_took) : m->make(m->call);
	if (locked)
		rf_gauge_unlock(f);
	return r;
}

static struct rf_heap_part part_of(const struct rf_entry *e)
{
	return (struct rf_heap_part){ .card = e->card,
				      .kind = e->space == RF_SPACE_MODULE ? RF_HEAP_MODULES
									  : RF_HEAP_ARRAYS,
				      .bytes = e->bytes,
				      .apart = e->maps * RF_PAGE };
}

CUresult rf_heap_make(const struct rf_making *m)
{
	struct rf_entry e = { .bytes = m->bytes, .refs = 1, .space = (uint8_t)m->space };
	struct rf_heap_part part;
	struct rf_charge c;
	uint64_t took = 0;
	CUresult r = rf_charge_begin(&c, rf_whole_pages(m->bytes));

	if (r != CUDA_SUCCESS)
		return r;
	r = make(c.fence, c.card, m, &took);
	if (r != CUDA_SUCCESS)
		return rf_charge_undo(&c, r);
	e.key = *(const uint64_t *)m->key;
	if (took > c.bytes && rf_reserve_or_squeeze(c.fence, c.card, took - c.bytes) != CUDA_SUCCESS) {
		m->unmake(e.key);
		return rf_charge_undo(&c, CUDA_ERROR_OUT_OF_MEMORY);
	}
	if (took > c.bytes)
		c.bytes = took;
	e.maps = (uint32_t)(rf_whole_pages(c.bytes) / RF_PAGE);
	e.card = (uint8_t)c.card;
	e.owner = c.owner;
	part = part_of(&e);
	rf_heap_add(c.fence, &part, took, c.bytes);
	rf_charge_enter(c.fence, &e);
	return CUDA_SUCCESS;
}

/* --- ending --- */

void rf_heap_gone(struct rf_fence *f, const struct rf_entry *e)
{
	struct rf_heap_part part = part_of(e);

	rf_heap_leave(f, &part, 0);
}

uint64_t rf_heap_gave(struct rf_fence *f, unsigned card, CUresult (*unmake)(uint64_t key), uint64_t key,
		      CUresult *ret)
{
	bool locked = is_measured(f, card) && gauge_lock(f, PATIENCE_NS), alone;
	struct rf_gauge before, now;

	if (!locked) {
		*ret = unmake(key);
		return 0;
	}
	before = rf_gauge_look(f, card);
	alone = is_alone(f);
	*ret = unmake(key);
	now = rf_gauge_look(f, card);
	alone = alone && is_alone(f) && now.held == before.held;
	rf_gauge_unlock(f);
	return alone && now.free > before.free ? now.free - before.free : 0;
}

CUresult rf_heap_end(enum rf_space space, uint64_t key, CUresult (*unmake)(uint64_t key))
{
	struct rf_fence *f = rf_join();
	struct rf_heap_part part;
	struct rf_entry e;
	uint64_t gave;
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (!rf_table_take(&f->table, space, key, &e))
		return unmake(key);
	gave = rf_heap_gave(f, e.card, unmake, key, &r);
	if (r != CUDA_SUCCESS) {
		rf_table_put(&f->table, &e);
		return r;
	}
	rf_table_waive(&f->table);
	part = part_of(&e);
	rf_heap_leave(f, &part, gave);
	return r;
}
