/* Memory whose address nobody tells: arrays, and what modules take. The driver packs such pieces side by side into pages of
 * 2 MiB, apart from plain allocations and from those of other contexts, and a page stays on the card until the last of them
 * is gone. So the card's free memory is looked at before and after each call that makes or ends one, while nothing else of
 * this process comes or goes. What a heap is charged is never less than its pieces take if they are packed as well as they
 * can be, and never more than they would take with pages of their own: so much a neighbour that allocates or frees in just
 * that moment can spoil. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "fence/fence.h"
#include "fence/pool.h"

#define ROUNDS 3
#define LARGE ((uint64_t)32 << 20)
#define NEAR ((uint64_t)2 << 20)
#define PATIENCE_NS 10000000	    /* for the others' calls, */
#define LONG_PATIENCE_NS 1000000000 /* where what is taken is known by looking only */
#define A_WHILE_NS 50000
#define LOOK_NS 10000000  /* so long a look and what it is to see wait for each other: a thread may be put off for that */
#define AFTER_NS 10000000 /* and after it was in vain there is none for so long */

/* --- what the card has free --- */

static uint64_t held(struct rf_fence *f, unsigned card)
{
	return __atomic_load_n(&f->held[card], __ATOMIC_RELAXED);
}

static uint64_t free_now(void)
{
	size_t free = 0, total = 0;
	int mode = rf_pool_relax();

	if (RF_REAL(cuMemGetInfo_v2)(&free, &total) != CUDA_SUCCESS)
		free = 0;
	rf_pool_restore(mode);
	return free;
}

struct rf_gauge rf_gauge_look(struct rf_fence *f, unsigned card)
{
	return (struct rf_gauge){ .free = free_now(), .held = held(f, card) };
}

uint64_t rf_gauge_taken(const struct rf_gauge *before, const struct rf_gauge *now)
{
	int64_t lost = (int64_t)(before->free - now->free) - (int64_t)(now->held - before->held);

	return lost > 0 ? (uint64_t)lost : 0;
}

/* Not for ever: whoever has it may wait for work that waits for this thread. */
static bool gauge_lock(struct rf_fence *f, int64_t patience_ns)
{
	int64_t end = rf_clock_ns() + patience_ns;
	int saved = errno, cancel;

	while (pthread_mutex_trylock(&f->gauge_lock) != 0) {
		if (rf_clock_ns() > end)
			return false;
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
		nanosleep(&(struct timespec){ .tv_nsec = A_WHILE_NS }, NULL);
		pthread_setcancelstate(cancel, NULL);
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

/* --- a call while nothing else comes or goes --- */

static bool looks(const struct rf_fence *f, unsigned look)
{
	return (look & 1) && !__atomic_load_n(&f->disturbed, __ATOMIC_RELAXED);
}

static void wait_for_look(struct rf_fence *f)
{
	unsigned look = __atomic_load_n(&f->looks, __ATOMIC_SEQ_CST), now = look;
	int64_t end = rf_clock_ns() + LOOK_NS;

	for (; now == look && looks(f, look); now = __atomic_load_n(&f->looks, __ATOMIC_SEQ_CST)) {
		if (rf_clock_ns() > end)
			__atomic_store_n(&f->disturbed, true, __ATOMIC_RELAXED);
		sched_yield();
	}
}

RF_RARE void rf_move_wait(struct rf_fence *f)
{
	do {
		__atomic_sub_fetch(&f->moves, 1, __ATOMIC_SEQ_CST);
		wait_for_look(f);
		__atomic_add_fetch(&f->moves, 1, __ATOMIC_SEQ_CST);
	} while (looks(f, __atomic_load_n(&f->looks, __ATOMIC_SEQ_CST)));
}

struct still {
	struct rf_fence *fence;
	unsigned card;
	bool open; /* others wait */
	bool good;
	struct rf_gauge before, after;
};

static bool nothing_moves(struct rf_fence *f)
{
	return __atomic_load_n(&f->moves, __ATOMIC_SEQ_CST) == 0;
}

static void next_look(struct rf_fence *f)
{
	__atomic_add_fetch(&f->looks, 1, __ATOMIC_SEQ_CST);
}

/* Until still_close others wait, for a moment. False: they do not, and the call is a move like theirs. */
static bool still_open(struct still *s)
{
	struct rf_fence *f = s->fence;
	int64_t now = rf_clock_ns(), end = now + LOOK_NS;

	if (now < __atomic_load_n(&f->look_at, __ATOMIC_RELAXED) || !gauge_lock(f, PATIENCE_NS))
		return false;
	__atomic_store_n(&f->disturbed, false, __ATOMIC_RELAXED);
	next_look(f);
	while (!(s->open = nothing_moves(f)) && now < end) {
		sched_yield();
		now = rf_clock_ns();
	}
	if (s->open)
		return true;
	__atomic_store_n(&f->look_at, now + AFTER_NS, __ATOMIC_RELAXED);
	next_look(f);
	rf_gauge_unlock(f);
	return false;
}

static void still_close(struct still *s)
{
	if (!s->open)
		return;
	next_look(s->fence);
	rf_gauge_unlock(s->fence);
}

static void still_before(struct still *s)
{
	s->good = s->open || nothing_moves(s->fence);
	s->before.held = held(s->fence, s->card);
	s->before.free = free_now();
}

/* False: it was not still. */
static bool still_after(struct still *s)
{
	s->after.free = free_now();
	s->after.held = held(s->fence, s->card);
	/* Those who come meanwhile are moves for the moment before they wait. */
	if (s->open ? __atomic_load_n(&s->fence->disturbed, __ATOMIC_RELAXED) : !nothing_moves(s->fence))
		s->good = false;
	return s->good && s->after.held == s->before.held && s->before.free != 0 && s->after.free != 0;
}

/* --- the books --- */

static uint64_t clamp(uint64_t n, uint64_t least, uint64_t most)
{
	return n < least ? least : n > most ? most : n;
}

/* With the lock. */
static struct rf_heap *find(struct rf_fence *f, const struct rf_heap_part *p)
{
	struct rf_heap *h = f->heaps;

	while (h && (h->ctx != p->ctx || h->card != p->card || h->kind != p->kind))
		h = h->next;
	return h;
}

bool rf_heap_room(struct rf_fence *f, const struct rf_heap_part *p)
{
	struct rf_heap *h;

	pthread_mutex_lock(&f->heap_lock);
	h = find(f, p);
	if (!h && (h = malloc(sizeof(*h)))) {
		*h = (struct rf_heap){ .next = f->heaps,
				       .ctx = p->ctx,
				       .card = (uint8_t)p->card,
				       .kind = (uint8_t)p->kind };
		f->heaps = h;
	}
	pthread_mutex_unlock(&f->heap_lock);
	return h != NULL;
}

/* An array that is larger than a page starts with one, and no array crosses the border of two: of those whose rest is more
 * than half of a page there is one in each. A module may be many small pieces. */
static uint64_t own_pages(const struct rf_heap_part *p)
{
	return p->kind == RF_HEAP_ARRAYS ? p->bytes / RF_PAGE * RF_PAGE : 0;
}

static uint64_t is_bulky(const struct rf_heap_part *p, uint64_t rest)
{
	return p->kind == RF_HEAP_ARRAYS && rest > RF_PAGE / 2;
}

static void count_in(struct rf_heap *h, const struct rf_heap_part *p)
{
	uint64_t whole = own_pages(p), rest = p->bytes - whole;

	h->whole += whole;
	h->rest += rest;
	h->bulky += is_bulky(p, rest);
	h->apart += p->apart;
}

static uint64_t minus(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* Never below nothing: the piece may be of an older context of that name. */
static void count_out(struct rf_heap *h, const struct rf_heap_part *p)
{
	uint64_t whole = own_pages(p), rest = p->bytes - whole;

	h->whole = minus(h->whole, whole);
	h->rest = minus(h->rest, rest);
	h->bulky = minus(h->bulky, is_bulky(p, rest));
	h->apart = minus(h->apart, p->apart);
}

static uint64_t at_least(const struct rf_heap *h)
{
	uint64_t pages = rf_whole_pages(h->rest), bulky = h->bulky * RF_PAGE;

	return h->whole + (pages > bulky ? pages : bulky);
}

static void recount(struct rf_heap *h, uint64_t seen)
{
	h->seen = seen < h->apart ? seen : h->apart;
	h->charged = seen > at_least(h) ? seen : at_least(h);
	h->charged = h->charged < h->apart ? h->charged : h->apart;
}

bool rf_heap_add(struct rf_fence *f, const struct rf_heap_part *p, uint64_t took, uint64_t reserved)
{
	uint64_t before = 0, after = 0;
	struct rf_heap *h;

	pthread_mutex_lock(&f->heap_lock);
	h = find(f, p);
	if (h) {
		before = h->charged;
		count_in(h, p);
		recount(h, took == RF_HEAP_UNSEEN ? clamp(h->seen, at_least(h), UINT64_MAX) : h->seen + took);
		after = h->charged;
	}
	pthread_mutex_unlock(&f->heap_lock);
	rf_release(f, p->card, minus(reserved, minus(after, before)));
	return h != NULL;
}

/* Pages that an array had to itself are gone with it in any case. */
void rf_heap_leave(struct rf_fence *f, const struct rf_heap_part *p, uint64_t gave)
{
	uint64_t before = 0, after = 0;
	struct rf_heap *h;

	if (gave == RF_HEAP_UNSEEN)
		gave = own_pages(p);
	if (gave > p->apart)
		gave = p->apart;
	pthread_mutex_lock(&f->heap_lock);
	h = find(f, p);
	if (h) {
		before = h->charged;
		count_out(h, p);
		recount(h, minus(h->seen, gave));
		after = h->charged;
	}
	pthread_mutex_unlock(&f->heap_lock);
	rf_release(f, p->card, minus(before, after));
}

void rf_heap_context_gone(struct rf_fence *f, CUcontext ctx)
{
	struct rf_heap *gone = NULL;

	pthread_mutex_lock(&f->heap_lock);
	for (struct rf_heap **p = &f->heaps; *p;) {
		struct rf_heap *h = *p;

		if (h->ctx != (uintptr_t)ctx) {
			p = &h->next;
			continue;
		}
		*p = h->next;
		h->next = gone;
		gone = h;
	}
	pthread_mutex_unlock(&f->heap_lock);
	while (gone) {
		struct rf_heap *next = gone->next;

		rf_release(f, gone->card, gone->charged);
		free(gone);
		gone = next;
	}
}

static bool is_measured(const struct rf_fence *f, unsigned card)
{
	return f->card[card].cap != UINT64_MAX;
}

/* --- making --- */

/* It may have found room in others' pages, and keep them when those are gone. */
uint64_t rf_heap_most(uint64_t took)
{
	return rf_whole_pages(took) + 2 * RF_PAGE;
}

/* What is seen of a call that takes no more than whole, or whole. */
static CUresult make_told(struct still *s, const struct rf_making *m, uint64_t *ret_key, uint64_t *ret_took)
{
	uint64_t whole = rf_whole_pages(m->apart);
	CUresult r;

	still_before(s);
	r = m->make(m->call, ret_key);
	*ret_took = still_after(s) ? rf_gauge_taken(&s->before, &s->after) : whole;
	if (*ret_took > whole)
		*ret_took = whole;
	return r;
}

static uint64_t middle(const uint64_t v[ROUNDS])
{
	uint64_t low = v[0] < v[1] ? v[0] : v[1], high = v[0] < v[1] ? v[1] : v[0];

	return clamp(v[2], low, high);
}

static bool agree(uint64_t a, uint64_t b)
{
	return (a > b ? a - b : b - a) <= NEAR;
}

/* Where much more was taken than is known of, perhaps by a neighbour, it is made again. */
static CUresult make_rounds(struct rf_fence *f, unsigned card, const struct rf_making *m, uint64_t *ret_key,
			    uint64_t *ret_took)
{
	uint64_t seen[ROUNDS];

	for (unsigned i = 0; i < ROUNDS; i++) {
		struct rf_gauge before = rf_gauge_look(f, card), now;
		CUresult r = m->make(m->call, ret_key);

		if (r != CUDA_SUCCESS)
			return r;
		now = rf_gauge_look(f, card);
		*ret_took = seen[i] = rf_gauge_taken(&before, &now);
		if (seen[i] <= rf_whole_pages(m->apart) + LARGE || m->once || (i > 0 && agree(seen[i], seen[i - 1])))
			return CUDA_SUCCESS;
		if (i + 1 < ROUNDS && m->unmake(*ret_key) != CUDA_SUCCESS)
			return CUDA_SUCCESS;
	}
	*ret_took = middle(seen);
	return CUDA_SUCCESS;
}

static CUresult make(struct still *s, const struct rf_making *m, uint64_t *ret_key, uint64_t *ret_took)
{
	bool locked;
	CUresult r;

	*ret_took = 0;
	if (!is_measured(s->fence, s->card))
		return m->make(m->call, ret_key);
	if (m->told)
		return make_told(s, m, ret_key, ret_took);
	locked = rf_gauge_lock(s->fence);
	r = make_rounds(s->fence, s->card, m, ret_key, ret_took);
	if (locked)
		rf_gauge_unlock(s->fence);
	return r;
}

static struct rf_heap_part part_of(const struct rf_entry *e)
{
	return (struct rf_heap_part){ .ctx = e->owner,
				      .card = e->card,
				      .kind = e->space == RF_SPACE_MODULE ? RF_HEAP_MODULES
									  : RF_HEAP_ARRAYS,
				      .bytes = e->bytes,
				      .apart = e->maps * RF_PAGE };
}

/* What was made is entered, or ended if it does not fit. */
static CUresult enter(struct rf_charge *c, const struct rf_making *m, uint64_t key, uint64_t took)
{
	uint64_t apart = m->told ? c->bytes : rf_heap_most(took > c->bytes ? took : c->bytes);
	struct rf_entry e = { .key = key,
			      .bytes = m->bytes,
			      .owner = c->owner,
			      .refs = 1,
			      .maps = (uint32_t)(apart / RF_PAGE),
			      .space = (uint8_t)m->space,
			      .card = (uint8_t)c->card };
	struct rf_heap_part part = part_of(&e);
	CUresult r = rf_heap_room(c->fence, &part) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;

	if (r == CUDA_SUCCESS && took > c->bytes) {
		r = rf_reserve_or_squeeze(c->fence, c->card, took - c->bytes);
		c->bytes = r == CUDA_SUCCESS ? took : c->bytes;
	}
	if (r != CUDA_SUCCESS) {
		m->unmake(key);
		return rf_charge_undo(c, r);
	}
	if (rf_heap_add(c->fence, &part, took, c->bytes))
		rf_charge_enter(c->fence, &e);
	else /* its context has gone meanwhile, and it with that */
		rf_table_waive(&c->fence->table);
	return CUDA_SUCCESS;
}

static CUresult make_and_enter(struct still *s, const struct rf_making *m, uint64_t *ret_key)
{
	struct rf_charge c;
	uint64_t took = 0;
	CUresult r = rf_charge_begin(&c, rf_whole_pages(m->apart));

	if (r != CUDA_SUCCESS)
		return r;
	r = make(s, m, ret_key, &took);
	return r == CUDA_SUCCESS ? enter(&c, m, *ret_key, took) : rf_charge_undo(&c, r);
}

/* A module may take as long to load as a compiler does: others do not wait for that, and do not count as in its way
 * either. */
CUresult rf_heap_make(const struct rf_making *m, uint64_t *ret_key)
{
	struct still s = { .fence = rf_join() };
	bool moves = false;
	CUresult r;

	if (!s.fence)
		return CUDA_ERROR_NOT_PERMITTED;
	r = rf_current_card(s.fence, &s.card);
	if (r != CUDA_SUCCESS)
		return r;
	if (m->space != RF_SPACE_MODULE)
		moves = !is_measured(s.fence, s.card) || !still_open(&s);
	if (moves)
		rf_move_begin(s.fence);
	r = make_and_enter(&s, m, ret_key);
	if (moves)
		rf_move_end(s.fence);
	still_close(&s);
	return r;
}

/* --- ending --- */

void rf_heap_gone(struct rf_fence *f, const struct rf_entry *e)
{
	struct rf_heap_part part = part_of(e);

	rf_heap_leave(f, &part, RF_HEAP_UNSEEN);
}

/* The card is asked in the context that the thing is of, which need not be the current one. */
static bool enter_context(uint64_t ctx, bool *ret_pushed)
{
	CUcontext now = NULL;

	*ret_pushed = RF_REAL(cuCtxGetCurrent)(&now) == CUDA_SUCCESS && (uintptr_t)now != ctx;
	return !*ret_pushed || RF_REAL(cuCtxPushCurrent_v2)((CUcontext)(uintptr_t)ctx) == CUDA_SUCCESS;
}

static CUresult unmake_seen(struct still *s, const struct rf_heap_part *p, CUresult (*unmake)(uint64_t key), uint64_t key)
{
	uint64_t gave = RF_HEAP_UNSEEN;
	CUresult r;

	still_before(s);
	r = unmake(key);
	if (still_after(s))
		gave = minus(s->after.free, s->before.free);
	if (r == CUDA_SUCCESS)
		rf_heap_leave(s->fence, p, gave);
	return r;
}

static CUresult unmake_unseen(struct rf_fence *f, const struct rf_heap_part *p, CUresult (*unmake)(uint64_t key),
			      uint64_t key)
{
	CUresult r;

	rf_move_begin(f);
	r = unmake(key);
	if (r == CUDA_SUCCESS && p)
		rf_heap_leave(f, p, RF_HEAP_UNSEEN);
	rf_move_end(f);
	return r;
}

CUresult rf_heap_unmake(struct rf_fence *f, const struct rf_heap_part *p, CUresult (*unmake)(uint64_t key), uint64_t key)
{
	struct still s = { .fence = f, .card = p ? p->card : 0 };
	bool pushed = false;
	CUcontext popped;
	CUresult r;

	if (!p || !is_measured(f, p->card) || !still_open(&s))
		return unmake_unseen(f, p, unmake, key);
	if (enter_context(p->ctx, &pushed)) {
		r = unmake_seen(&s, p, unmake, key);
		if (pushed)
			RF_REAL(cuCtxPopCurrent_v2)(&popped);
	} else {
		r = unmake(key);
		if (r == CUDA_SUCCESS)
			rf_heap_leave(f, p, RF_HEAP_UNSEEN);
	}
	still_close(&s);
	return r;
}

CUresult rf_heap_end(enum rf_space space, uint64_t key, CUresult (*unmake)(uint64_t key))
{
	struct rf_fence *f = rf_join();
	struct rf_heap_part part;
	struct rf_entry e;
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (!rf_table_take(&f->table, space, key, &e))
		return rf_heap_unmake(f, NULL, unmake, key);
	part = part_of(&e);
	r = rf_heap_unmake(f, &part, unmake, key);
	if (r == CUDA_SUCCESS)
		rf_table_waive(&f->table);
	else
		rf_table_put(&f->table, &e);
	return r;
}
