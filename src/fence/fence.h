/* fence: inside libringfence.so. Public is only what programs already call: the driver's functions,
 * dlsym and dlvsym. What the pieces share is here.
 *
 * Everything the process knows about its fence lives in one struct rf_fence on pages that the
 * kernel wipes in a forked child: the child finds it empty, locks open, and joins for itself. */
#ifndef RF_FENCE_H
#define RF_FENCE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fence/clock.h"
#include "fence/cuda_more.h"
#include "fence/ledger.h"
#include "fence/protocol.h"
#include "fence/share.h"
#include "fence/symbols.h"
#include "fence/table.h"
#include "fence/uuid.h"
#include "gpu/nvml_abi.h"

#define RF_DEVICES 64 /* CUDA ordinals the fence can tell apart */
#define RF_POOLS 256  /* memory pools a process may have at once */
#define RF_FREED_IN 8 /* streams that are asked whether they are through */

struct rf_card {
	uint8_t uuid[16];
	uint64_t cap; /* UINT64_MAX: the whole card */
	uint64_t context_bytes; /* what a context takes for itself; 0: not known */
};

/* A pool is charged for what it has reserved from the card, used or idle; see pool_book.c. */
struct rf_pool {
	CUmemoryPool handle; /* atomic; NULL: a free record */
	int card;	     /* -1: not on a card of the fence */
	CUresult refused;    /* what an allocation from it is answered, if not success */
	bool fixed;	     /* a device's default pool */
	bool seen;	     /* was seen to grow, so that its granule is known */
	bool fine;	     /* was seen to grow by less than a granule */
	bool doomed;	     /* atomic: destroyed by the program, with allocations in use */
	uint64_t granule;
	uint64_t charged;
	uint64_t ahead; /* of it, what the pool has not taken yet */
	uint64_t spent __attribute__((aligned(64))); /* atomic: what begun allocations may cost */
	uint64_t done;				     /* atomic: of those that ended */
	uint64_t limit; /* atomic: how far spent may go unasked; 0: not at all */
};

/* The driver backs the allocations of all graphs on a device from one pool. */
struct rf_graph_pool {
	CUdevice dev;
	bool known;
	uint32_t trims; /* atomic: how often it gave memory back */
	uint64_t charged;
	uint64_t pending; /* of it, what launches under way may take */
	uint64_t riding;  /* what launches under way have already, unless it is trimmed */
};

/* How long a launch of its kind takes, learned from marks. A kind is in its own place or in another of the four of its
 * set, which are one line of the cache. */
struct rf_cost {
	uint64_t key; /* atomic, as the other: also read without the lock */
	uint32_t ns;  /* 0: not known */
	uint32_t longest; /* what one took lately that took clearly more; 0: none did */
};

/* A mark is an event behind some launches of a lane: when it is done, so are they. */
struct rf_mark {
	uint64_t cost;	/* what they were thought to take */
	uint64_t began; /* when the first of them was launched */
	uint16_t launches;
	uint16_t kind;	  /* index of the cost of the dearest of them */
	uint16_t of_kind; /* so many are of that kind */
	uint16_t lane;
	uint32_t dearest; /* what one of them was thought to take */
	uint32_t launching; /* how long the last of them took the thread */
	uint32_t turn;	    /* of the gate, when the first of them was launched */
	bool pure; /* all were queued before the card came to the first: no gap is in their time */
	uint64_t upto;	   /* launched_ns when the event was recorded */
	uint64_t put_at;   /* when that was */
	uint64_t at_least; /* so long after that it was not done */
	CUevent event;
	CUevent from; /* where their time starts on the card; NULL: at the mark before, or unknown */
};

#define RF_LANES 128
#define RF_LANE_EVENTS 16
#define RF_MARKS 64
#define RF_COSTS 4096
#define RF_COST_WAYS 4

/* A stream with work of this process. Its events are used in turn. What every launch looks at that comes
 * under the lock is in one line of the cache, here and in the pace below. */
struct rf_lane {
	_Alignas(64) CUcontext ctx; /* the current one at the launch; NULL: nobody's lane */
	CUstream stream;
	uint32_t thread; /* of a per-thread default stream; 0: any thread may use the stream */
	uint8_t card;
	uint8_t doubt;	     /* so many launches more are measured: work took longer than guessed */
	uint8_t outstanding; /* marks */
	uint8_t next;	     /* event */
	uint64_t launched_at; /* last */
	struct rf_mark open; /* launches behind the last mark */
	uint32_t blocks;     /* of the largest in flight, about */
	bool silent;	     /* events cannot be had: time is guessed */
	CUcontext home; /* the stream's own */
	CUevent last;	  /* the newest mark's */
	CUevent event[RF_LANE_EVENTS];
};
_Static_assert(offsetof(struct rf_lane, open.launching) <= 64, "in one line");

/* What may be launched in a lane without the lock, in one line of the cache. All of it is atomic; written under the lock,
 * but for the sum and the three about the dearest launch of what is open. */
struct rf_along {
	_Alignas(64) uint64_t sum; /* not in the books yet: launches * RF_ALONG_ONE + their work, ns */
	uint64_t below;	  /* the sum stays, which limits the launches */
	uint32_t work;	  /* at most; 0: nothing goes along */
	uint32_t cheap;	  /* the dearest takes one more than this */
	uint16_t kind;	  /* of the dearest */
	uint16_t of_kind; /* so many of that kind are in the sum */
	uint32_t depth_us; /* as the gate stood */
	CUstream stream;
	const struct rf_gate_card *gate;
	uint64_t until; /* as the gate stood */
	const struct rf_cost *cost; /* the fence's table */
};
#define RF_ALONG_ONE (1ull << 32)
_Static_assert(sizeof(struct rf_along) == 64, "one line");

/* This process on one card. */
struct rf_pace {
	_Alignas(64) uint64_t inflight; /* what launches in flight are thought to take */
	uint64_t busy_from; /* 0: nothing in flight */
	uint64_t done_at;   /* when the work known to be done was done */
	uint64_t rang_at;   /* since when a ring waits to be heard; 0: none does */
	uint32_t rang;	    /* which */
	uint32_t launches;
	uint32_t sat; /* seat + 1 where it was published last; 0: nowhere at this desk */
	uint32_t waiting;
	bool begun;  /* the arbiter wants to know, after the launch */
	bool orphan; /* the arbiter is gone: the process keeps to its share by itself */
	uint32_t skip; /* when a launch is to be measured, it is the one after so much work */
	uint64_t probe_at;    /* when that is */
	uint64_t begun_at;    /* what busy_from was last */
	uint64_t told_at;     /* when it was published last, */
	uint64_t told_until;  /* and until when there would be work */
	uint64_t progress_at; /* when work was last seen to end, */
	uint32_t stuck;	      /* and so many launches went on since as none did */
	uint64_t gpu_ns;      /* on its seat, with gpu_before of those who sat there before */
	uint64_t held_ns;
	uint64_t gpu_before, held_before;
	uint64_t gpu_gone; /* its own, told elsewhere: nobody is to charge it again */
	uint64_t probe_every; /* alone */
	uint64_t own_until;
	uint64_t own_from;
	uint64_t watch_at; /* work that is late is not looked into before, */
	uint64_t watch;	   /* and then not for so long */
	uint32_t dice;
	uint64_t ask_at; /* for a new gate, not before */
	uint64_t launched_ns; /* what all launches there ever were are thought to take */
	CUevent newest; /* of the mark that was done last; NULL: none was since newest_from, or that is 0 */
	uint16_t newest_lane;
	uint64_t newest_done; /* done_at after it */
	uint64_t newest_from;
	uint64_t newest_upto; /* launched_ns when that mark was put, or then */
	unsigned head, n; /* marks in flight, oldest first */
	struct rf_mark mark[RF_MARKS];
};
_Static_assert(offsetof(struct rf_pace, begun_at) <= 64, "in one line");

/* The limits of a context that make it take memory: CU_LIMIT_STACK_SIZE and the four behind it. */
#define RF_CONTEXT_LIMITS 5

/* A context of this process, made by a call the fence saw. */
struct rf_context {
	struct rf_context *next;
	CUcontext ctx;
	CUdevice dev;
	uint8_t card;
	bool measured; /* base is there */
	unsigned refs; /* primary contexts: retains not released */
	uint64_t bytes;
	uint64_t base[RF_CONTEXT_LIMITS]; /* what the limits took before they were first changed */
	uint64_t extra[RF_CONTEXT_LIMITS]; /* what they take more than that, in bytes */
};

/* A multicast object keeps what is bound to it. */
struct rf_binding {
	struct rf_binding *next;
	uint64_t object; /* 0: given up by this process, but others may keep it */
	uint64_t offset;
	uint64_t handle; /* whose memory is bound */
	CUdevice dev;
};

/* A library, or what it takes in one context. */
struct rf_library {
	struct rf_library *next;
	CUlibrary lib;
	CUcontext ctx; /* NULL: the library itself */
	uint64_t bytes;
	uint64_t apart; /* at most, in pages of its own */
	uint8_t card;
	bool plain; /* bytes is what its image says */
	bool ended; /* off the books already */
};

/* Arrays, or modules, of a context; see heap.c. */
enum rf_heap_kind { RF_HEAP_ARRAYS, RF_HEAP_MODULES };
struct rf_heap {
	struct rf_heap *next;
	uint64_t ctx;
	uint8_t card;
	uint8_t kind;
	uint64_t whole; /* pages that pieces have to themselves, in bytes */
	uint64_t rest;	/* what lies beside others */
	uint64_t bulky; /* pieces that leave no room for another such in a page */
	uint64_t apart; /* what all take at most */
	uint64_t seen;	/* what the card was seen to lose and not to get back */
	uint64_t charged;
};

/* This process's part in a loan of the ledger, at the same place there. */
struct rf_loan {
	uint8_t name[RF_LEDGER_NAME];
	uint64_t bytes;
	uint32_t opens; /* of a borrowed one */
	uint8_t card;
	bool made;
	bool full; /* its place in the ledger was lost: booked on the seat */
};

/* A capture in progress, by the stream it was begun in. */
#define RF_CAPTURES 64
struct rf_capture {
	CUcontext ctx;	 /* the stream's own */
	CUstream stream; /* NULL: a free place */
	uint32_t thread; /* as a lane's */
};

struct rf_fence {
	/* What every launch looks at comes first, together. */
	int joined; /* atomic; 1 once limits and seat are there */
	unsigned cards;
	const struct rf_gate *gate; /* atomic; NULL: the cards are not shared by time */
	struct rf_desk *desk;
	int captures; /* atomic: stream captures in progress */
	uint32_t pid; /* whose these pages are: a thread that forked remembers another */
	pthread_mutex_t pace_lock;
	uint64_t gate_ino; /* tells a new gate from the same one handed out again */
	pthread_mutex_t join_lock;
	bool failed_once; /* has waited for the agent in vain; later tries do not wait again */
	bool any_cap;
	struct rf_card card[RF_FENCE_CARDS];
	struct rf_ledger_place place;
	uint64_t held[RF_FENCE_CARDS]; /* atomic: what this process has on its seat */
	int card_of[RF_DEVICES];       /* atomic: card + 1 of a CUDA ordinal; 0: not asked yet */
	CUcontext primary[RF_DEVICES]; /* atomic: the primary context, if the fence saw it */
	struct rf_table table;
	unsigned paging;  /* atomic: threads that reserve a page which others may share, or have one in the making; */
	unsigned paged;	  /* atomic: so many have been given back */
	uint64_t imports; /* atomic: of external memory, so far */
	pthread_mutex_t loan_lock; /* comes after the table's */
	struct rf_loan loan[RF_LEDGER_LOANS];
	pthread_mutex_t pool_lock;
	struct rf_pool pool[RF_POOLS];
	unsigned pools; /* atomic: records in use lie below */
	int devices;		    /* atomic; 0: not asked yet */
	int current[RF_DEVICES];    /* atomic: the device's current pool + 1; 0: not known */
	unsigned doomed;	    /* atomic: pools that are */
	unsigned modest;	    /* allocations for which nothing is to be charged ahead */
	uint64_t refusals[RF_FENCE_CARDS]; /* atomic: the ledger's when last looked at */
	uint64_t ahead[RF_FENCE_CARDS];	   /* of all pools on the card */
	CUstream freed_in[RF_FREED_IN];	   /* atomic: streams in which memory was freed lately */
	pthread_mutex_t graph_lock; /* comes after the pools' */
	struct rf_graph_pool graph[RF_FENCE_CARDS];
	bool graph_nodes;     /* atomic: some graph has allocation nodes */
	bool graph_leaves;    /* atomic: some graph leaves allocations behind */
	unsigned graph_execs; /* atomic: executable graphs with allocation nodes */
	pthread_mutex_t context_lock; /* held while contexts come and go */
	struct rf_context *contexts;
	uint32_t context_cards; /* atomic: a bit per card with a context of this process */
	pthread_mutex_t bind_lock;
	struct rf_binding *bindings;
	pthread_mutex_t gauge_lock; /* held while memory taken by a call is measured */
	unsigned moves; /* atomic: calls that just now take or free memory of a card */
	unsigned looks; /* atomic: odd while somebody looks at a card that stands still */
	bool disturbed; /* atomic: and somebody else did not wait for the end of that */
	int64_t look_at; /* atomic: not before, as one has just waited in vain */
	pthread_mutex_t heap_lock;  /* comes after the table's */
	struct rf_heap *heaps;
	pthread_mutex_t library_lock;
	struct rf_library *libraries;
	struct rf_pace pace[RF_FENCE_CARDS]; /* guarded by pace_lock, as what follows */
	uint64_t working[RF_LANES / 64]; /* lanes with launches or marks in flight */
	struct rf_lane lane[RF_LANES];
	struct rf_along along[RF_LANES]; /* of each; not guarded */
	_Alignas(64) struct rf_cost cost[RF_COSTS];
	unsigned replaced; /* kinds that made room for others */
	uint32_t processors[RF_FENCE_CARDS]; /* of the card; 0: not asked yet */
	struct rf_capture capture[RF_CAPTURES];
	unsigned capture_looks;
};
_Static_assert(RF_COST_WAYS * sizeof(struct rf_cost) == 64, "a set is one line");

/* What a launch rarely needs is kept apart from what it always does: each line of code that has to be fetched again,
 * as the driver has pushed it out of the cache, is seen in its time. */
#define RF_RARELY(x) __builtin_expect(!!(x), 0)
#define RF_RARE __attribute__((noinline, cold))

/* --- join.c: from nothing to limits and a seat --- */

/* The fence, joined; NULL if the agent gave no limits: the caller then answers "not permitted". */
struct rf_fence *rf_join(void);
/* Sits down again after the seat was lost. False: could not. */
bool rf_rejoin(struct rf_fence *f);
extern struct rf_fence *rf_the_fence; /* atomic; the pages stay, their content does not survive fork */
/* The fence if this process has joined it, else NULL; never asks. Here, and the one below, since every launch comes
 * by: where the driver has pushed all else out of the caches, a call more is seen. */
static inline struct rf_fence *rf_joined(void)
{
	struct rf_fence *f = __atomic_load_n(&rf_the_fence, __ATOMIC_RELAXED);

	return f && __atomic_load_n(&f->joined, __ATOMIC_ACQUIRE) ? f : NULL;
}

/* --- client.c: the handshake --- */
struct rf_terms {
	struct rf_fence_limits limits;
	int ledger_fd;
	int gate_fd; /* -1: the cards are not shared by time */
	int desk_fd;
};
/* Tries until patience_ms is over; 0 tries once. */
bool rf_client_ask(int patience_ms, struct rf_terms *ret);
/* A new gate and desk after the arbiter died; asks once. */
bool rf_client_ask_gate(int *ret_gate, int *ret_desk);

/* --- real.c: the driver's own functions --- */

/* Never NULL: a function the driver lacks answers "not found". */
void *rf_real(enum rf_symbol_id id);
extern void *rf_reals[RF_SYM_COUNT]; /* atomic; NULL: not looked up yet */
/* As rf_real, but NULL if the driver lacks it or, with load false, is not loaded. */
void *rf_real_or_null(enum rf_symbol_id id, bool load);
static inline void *rf_real_known(enum rf_symbol_id id)
{
	void *p = __atomic_load_n(&rf_reals[id], __ATOMIC_ACQUIRE);

	return RF_RARELY(!p) ? rf_real(id) : p;
}
#define RF_REAL(name) ((__typeof__(&name))rf_real_known(RF_SYM_##name))
typedef void *rf_dlsym_fn(void *handle, const char *name);
typedef void *rf_dlvsym_fn(void *handle, const char *name, const char *version);
rf_dlsym_fn *rf_real_dlsym(void);
rf_dlvsym_fn *rf_real_dlvsym(void);

/* --- lookup.c: names and pointers to hooks --- */
struct rf_symbol {
	const char *name;
	const char *base;
	int since;
	const void *hook; /* NULL: not replaced */
};
extern const struct rf_symbol rf_symbols[RF_SYM_COUNT];
/* What to hand out instead of the driver's pointer for cuGetProcAddress; ptr itself if nothing. */
void *rf_translate(const char *base, int version, bool per_thread, void *ptr);
/* Where a stub (stub.h) goes on: to target with its arguments untouched, or back with result. */
struct rf_way {
	void *target; /* NULL: return result */
	uintptr_t result;
};

/* --- charge.c: reservations --- */

/* What a call reserved before it went to the driver. */
struct rf_charge {
	struct rf_fence *fence;
	unsigned card;
	uint64_t bytes;
	uint64_t owner;
	bool paged; /* an end of it lies within a page (page.c) */
};

#define RF_PAGE ((uint64_t)2 << 20)
/* The pages that n bytes take by themselves. */
uint64_t rf_whole_pages(uint64_t n);
/* What the driver takes from the card for an allocation of n bytes. */
uint64_t rf_footprint(uint64_t n);
/* Cards by CUDA ordinal, found by UUID. NOT_PERMITTED for one that is not in the fence. */
CUresult rf_card_of(struct rf_fence *f, CUdevice dev, unsigned *ret_card);
CUresult rf_current_card(struct rf_fence *f, unsigned *ret_card);
uint64_t rf_room(struct rf_fence *f, unsigned card); /* cap - used, never below 0 */

CUresult rf_reserve(struct rf_fence *f, unsigned card, uint64_t bytes);
/* The same, after giving back what pools hold idle if it does not fit. */
CUresult rf_reserve_or_squeeze(struct rf_fence *f, unsigned card, uint64_t bytes);
/* What the card has lost already is booked whatever the cap: nothing else is handed out then. */
void rf_book(struct rf_fence *f, unsigned card, uint64_t bytes);
void rf_release(struct rf_fence *f, unsigned card, uint64_t bytes);

/* Joins, finds the current context's card, reserves and makes room in the table. */
CUresult rf_charge_begin(struct rf_charge *c, uint64_t bytes);
CUresult rf_charge_begin_on(struct rf_charge *c, struct rf_fence *f, unsigned card, uint64_t bytes);
/* Gives everything back and returns r. */
CUresult rf_charge_undo(struct rf_charge *c, CUresult r);
/* Brings the reservation to what it turned out to be; on failure everything is given back. */
CUresult rf_charge_settle(struct rf_charge *c, uint64_t actual);
/* Enters the new thing into the table. */
void rf_charge_keep(struct rf_charge *c, enum rf_space space, uint64_t key);
/* Such an entry. */
void rf_charge_enter(struct rf_fence *f, const struct rf_entry *e);
/* The same for what may be there already and charged: then it only has one reference more. */
void rf_charge_keep_once(struct rf_charge *c, enum rf_space space, uint64_t key);
/* undo or keep, as the driver's answer r says. */
CUresult rf_charge_end(struct rf_charge *c, CUresult r, enum rf_space space, const void *key);
/* The driver was asked to let go of what e, taken from the table, stands for and said r: gives the
 * charge back, or puts e back. Returns r. */
CUresult rf_charge_drop(struct rf_fence *f, const struct rf_entry *e, CUresult r);
/* Only the last part of that: gives back what e is charged. */
void rf_charge_give_back(struct rf_fence *f, const struct rf_entry *e);
/* Changes a thing's counts; gives its charge back when nothing holds it any more, and says so. Handles are counted down when
 * the driver has let go: until then whoever maps them finds them. */
bool rf_charge_count(struct rf_fence *f, enum rf_space space, uint64_t key, int refs, int maps);
/* So many more references and mappings if the thing is known. */
bool rf_charge_again(struct rf_fence *f, enum rf_space space, uint64_t key, int refs, int maps);
/* Takes the thing out if one reference is all that holds it. */
bool rf_charge_take_last(struct rf_fence *f, enum rf_space space, uint64_t key,
			 struct rf_entry *ret);

/* --- page.c: plain allocations, and the pages that they share --- */

/* Around the driver's call for bytes: reserves; then gives that back, or enters what was made at ptr and is as large as
 * bytes now says, as the driver's answer r says. What does not fit after all is freed. cards: on which further cards
 * c->bytes are reserved. */
CUresult rf_plain_begin(struct rf_charge *c, uint64_t bytes);
CUresult rf_plain_end(struct rf_charge *c, uint32_t cards, CUresult r, CUdeviceptr ptr, uint64_t bytes);
/* The driver was not asked, or said no. */
CUresult rf_plain_undo(struct rf_charge *c, uint32_t cards, CUresult r);
/* What e lies in is not kept by it any more. */
void rf_pages_leave(struct rf_fence *f, const struct rf_entry *e);
/* With the table's lock: e is to be lent, and is charged with pages of its own in place of shared ones. Those it still has to
 * leave, as ret_was, without the lock. */
bool rf_pages_own(struct rf_fence *f, struct rf_entry *e, struct rf_entry *ret_was);

/* --- heap.c: what lies in pages nobody tells the address of --- */

/* What a card had free, and what this process had booked on it. */
struct rf_gauge {
	uint64_t free;
	uint64_t held;
};
/* Of the current context's card, which is that. */
struct rf_gauge rf_gauge_look(struct rf_fence *f, unsigned card);
/* Taken from the card in between, other than by what was booked in between. */
uint64_t rf_gauge_taken(const struct rf_gauge *before, const struct rf_gauge *now);
/* Around calls that are measured, so that they do not measure each other. False after a second. */
bool rf_gauge_lock(struct rf_fence *f);
void rf_gauge_unlock(struct rf_fence *f);

/* Around calls that take or free memory, with their books: they wait a moment where somebody just looks at the card. */
void rf_move_wait(struct rf_fence *f);
static inline void rf_move_begin(struct rf_fence *f)
{
	__atomic_add_fetch(&f->moves, 1, __ATOMIC_SEQ_CST);
	if (RF_RARELY(__atomic_load_n(&f->looks, __ATOMIC_SEQ_CST) & 1))
		rf_move_wait(f);
}
static inline void rf_move_end(struct rf_fence *f)
{
	__atomic_sub_fetch(&f->moves, 1, __ATOMIC_RELEASE);
}

/* What something in a heap counts for. */
struct rf_heap_part {
	uint64_t ctx;
	unsigned card;
	enum rf_heap_kind kind;
	uint64_t bytes; /* side by side with others */
	uint64_t apart; /* alone in its pages */
};
/* There is, or was made, a place for the context's. */
bool rf_heap_room(struct rf_fence *f, const struct rf_heap_part *p);
/* What a piece takes at most of which only is known what it was seen to take. */
uint64_t rf_heap_most(uint64_t took);
/* It was made, and the card was seen to lose took; if nobody looked, at least what it takes side by side with the others. Gives
 * back what is not needed of what was reserved: took, and the whole pages of its bytes, or more. False: its context is gone, and
 * all is given back. */
#define RF_HEAP_UNSEEN UINT64_MAX
bool rf_heap_add(struct rf_fence *f, const struct rf_heap_part *p, uint64_t took, uint64_t reserved);
/* It is gone, and the card was seen to get back gave, or RF_HEAP_UNSEEN. */
void rf_heap_leave(struct rf_fence *f, const struct rf_heap_part *p, uint64_t gave);
/* The same for an entry taken from the table. */
void rf_heap_gone(struct rf_fence *f, const struct rf_entry *e);
/* The context is gone, and all that was in it. */
void rf_heap_context_gone(struct rf_fence *f, CUcontext ctx);

/* How to make an array or a module. */
struct rf_making {
	CUresult (*make)(const void *call, uint64_t *ret_key);
	const void *call;
	CUresult (*unmake)(uint64_t key);
	enum rf_space space;
	uint64_t bytes; /* what it takes side by side with others; */
	uint64_t apart; /* or alone, */
	bool told;	/* and no more than that in whole pages */
	bool once;	/* not told, and not to be made again to measure it once more */
};
CUresult rf_heap_make(const struct rf_making *m, uint64_t *ret_key);
/* Ends it: what is not known of the space, without the books. */
CUresult rf_heap_end(enum rf_space space, uint64_t key, CUresult (*unmake)(uint64_t key));
/* Asks the driver to end what p is of, and if it does, takes it off the books, unless p is NULL. */
CUresult rf_heap_unmake(struct rf_fence *f, const struct rf_heap_part *p, CUresult (*unmake)(uint64_t key), uint64_t key);

/* --- vmm.c --- */
/* What memory a descriptor stands for, if it is a handle's: its card and size; size 0: it is not. */
CUresult rf_vmm_behind(struct rf_fence *f, int fd, unsigned *ret_card, uint64_t *ret_bytes);

/* --- share*.c: time on the card --- */

/* A stream as the calls below want it: the default one of a _ptsz or _ptds function is the thread's own. */
static inline CUstream rf_stream(CUstream stream, bool per_thread)
{
	return per_thread && !stream ? CU_STREAM_PER_THREAD : stream;
}

/* Whether launches are held up or counted at all. */
static inline bool rf_share_paced(void)
{
	const struct rf_fence *f = rf_joined();
	const struct rf_gate *gate = f ? __atomic_load_n(&f->gate, __ATOMIC_ACQUIRE) : NULL;

	return gate &&
	       (f->cards != 1 ||
		__atomic_load_n(&gate->card[0].open_until, __ATOMIC_RELAXED) != RF_GATE_FREE);
}

/* The place of a kind in the table of costs. */
static inline unsigned rf_share_place(uint64_t key)
{
	return (uint32_t)key * 0x9e3779b1u / (UINT32_MAX / RF_COSTS + 1);
}
/* What this thread's next launch may go along with; NULL: nothing. */
extern _Thread_local __attribute__((tls_model("initial-exec"))) struct rf_along *rf_share_mine;
/* How much work may go along in the stream; 0: none, or not any more since the gate has moved. */
static inline __attribute__((always_inline)) uint32_t rf_share_granted(const struct rf_along *a,
								       CUstream stream)
{
	uint32_t work = a ? __atomic_load_n(&a->work, __ATOMIC_ACQUIRE) : 0;
	const struct rf_gate_card *g;

	if (RF_RARELY(!work) || RF_RARELY(stream != __atomic_load_n(&a->stream, __ATOMIC_RELAXED)))
		return 0;
	g = __atomic_load_n(&a->gate, __ATOMIC_RELAXED);
	if (RF_RARELY(__atomic_load_n(&g->open_until, __ATOMIC_RELAXED) !=
		      __atomic_load_n(&a->until, __ATOMIC_RELAXED)) ||
	    RF_RARELY(__atomic_load_n(&g->depth_us, __ATOMIC_RELAXED) !=
		      __atomic_load_n(&a->depth_us, __ATOMIC_RELAXED)))
		return 0;
	return work;
}
/* Most launches go along with one that was looked at (share.c), of this thread or another: programs hand a stream from one
 * to the other. All they do is here: no lock, and no instruction that locks, which would wait for whatever the program
 * wrote last. So if two launch in one stream at the same instant, or what was granted changes meanwhile, up to what was
 * granted is lost in the books or counted twice, or goes into the lane of another context's default stream, of the same
 * card. */
static inline __attribute__((always_inline)) bool rf_share_along(uint64_t key, CUstream stream)
{
	struct rf_along *a = rf_share_mine;
	unsigned kind = rf_share_place(key);
	uint32_t work = rf_share_granted(a, stream), ns;
	const struct rf_cost *c;
	uint64_t sum;

	if (RF_RARELY(!work))
		return false;
	c = &__atomic_load_n(&a->cost, __ATOMIC_RELAXED)[kind];
	ns = __atomic_load_n(&c->ns, __ATOMIC_RELAXED);
	sum = __atomic_load_n(&a->sum, __ATOMIC_RELAXED) + RF_ALONG_ONE + ns;
	if (RF_RARELY(__atomic_load_n(&c->key, __ATOMIC_RELAXED) != key || (uint32_t)sum > work ||
		      sum >= __atomic_load_n(&a->below, __ATOMIC_RELAXED)))
		return false;
	if (RF_RARELY(kind == __atomic_load_n(&a->kind, __ATOMIC_RELAXED))) {
		if (ns == 0)
			return false;
		__atomic_store_n(&a->of_kind, __atomic_load_n(&a->of_kind, __ATOMIC_RELAXED) + 1,
				 __ATOMIC_RELAXED);
	} else if (RF_RARELY(ns - 1 >= __atomic_load_n(&a->cheap, __ATOMIC_RELAXED))) {
		return false;
	}
	__atomic_store_n(&a->sum, sum, __ATOMIC_RELAXED);
	return true;
}
/* Whether a launch goes on to the driver at once, and nothing is to be done after it. */
static inline __attribute__((always_inline)) bool rf_share_passes(uint64_t key, CUstream stream)
{
	return rf_share_along(key, stream) || !rf_share_paced();
}
/* Where launches are paced: waits until the fence may use the card, and counts the launch; neither when the stream is
 * capturing. key is what is launched: 64 times a function, plus the order of its blocks;
 * or a graph, plus 63; or what copies, plus the order of its bytes. */
void rf_share_before(uint64_t key, CUstream stream);
/* The driver took the launch, or not. Always called after the call above. */
void rf_share_after(CUstream stream, bool launched);
/* The thread is about to wait for work, and says so below when it has. */
void rf_share_syncing(void);
/* Everything in the stream of the current context is done. */
void rf_share_synced(CUstream stream);
/* An event, or a stream, told that something is done: the thread waited for it, or asked. */
void rf_share_told(bool waited);
/* Everything in the context is done; NULL: the current one. */
void rf_share_synced_all(CUcontext ctx);
void rf_share_stream_gone(CUstream stream);
void rf_share_context_gone(CUcontext ctx); /* before it goes */
/* --- share_capture.c --- */
void rf_share_capture(int change); /* captures in progress: +1, -1 */
/* In which stream one is that was counted. */
void rf_share_capture_began(CUstream stream);
/* The stream's own ends, perhaps: from here on it is only counted. False: it has none. */
bool rf_share_capture_leaves(CUstream stream, struct rf_capture *ret);
void rf_share_capture_is(const struct rf_capture *is); /* it did not end */
void rf_share_capture_context_gone(CUcontext ctx); /* after it is */
bool rf_capturing(void); /* any, in this process */
/* Takes the descriptors over: maps and closes them. False: they are no good. */
bool rf_share_open(struct rf_fence *f, int gate_fd, int desk_fd);

/* --- graph.c: memory of graphs --- */

/* What a launch reserved; fence NULL: nothing. */
struct rf_graph_launch {
	struct rf_fence *fence;
	CUgraphExec exec;
	CUstream stream;
	bool per_thread;
	uint32_t cards; /* a bit per card it has allocations on */
	uint32_t rides; /* and of them, where it has its memory already */
	uint32_t trims[RF_FENCE_CARDS];
	uint64_t bytes[RF_FENCE_CARDS];
};

/* Around each launch of a graph; after only if before was a success. */
CUresult rf_graph_before(struct rf_graph_launch *g, CUgraphExec exec, CUstream stream,
			 bool per_thread);
void rf_graph_after(struct rf_graph_launch *g, CUresult r);
/* An allocation node is about to be made. */
void rf_graph_expect(struct rf_fence *f);
/* Gives back what graphs on the card hold idle; false if they hold nothing. */
bool rf_graph_squeeze(struct rf_fence *f, unsigned card);
/* Brings the charges up to date. */
void rf_graph_refresh(struct rf_fence *f);

/* --- context.c --- */
/* Says at the ledger on which cards the process has contexts. */
void rf_context_tell(struct rf_fence *f);

/* --- module.c --- */
/* The context is gone, and what libraries took in it. */
void rf_module_context_gone(struct rf_fence *f, CUcontext ctx);

/* --- ipc.c --- */

/* Memory handed around inside the fence counts once (ledger.h). A loan is its place + 1, as in
 * struct rf_entry; 0: it could not be entered, and whoever opens the memory is charged in full. */
uint16_t rf_loan_make(struct rf_fence *f, const void *name, unsigned card, uint64_t bytes);
/* The process lets go of what it has lent, or of what it has borrowed. */
void rf_loan_recall(struct rf_fence *f, uint16_t loan, unsigned card, uint64_t bytes);
void rf_loan_return(struct rf_fence *f, uint16_t loan);
/* e, taken from the table, is about to be freed. A pool's pointer is recalled first: the pool may let go of
 * the memory, and of its charge, at any time after the free. */
void rf_loan_before_free(struct rf_fence *f, struct rf_entry *e);
/* Memory that another process made, and that the driver is about to open: borrowed if it was lent, else
 * charged when its size is known. */
struct rf_opening {
	struct rf_fence *fence;
	uint16_t loan;
	struct rf_charge charge; /* fence NULL: nothing is reserved yet */
};
struct rf_opened {
	enum rf_space space;
	uint64_t key;
	uint64_t owner;
	unsigned card; /* these two only if it was not borrowed */
	uint64_t bytes;
};
/* least: what it will take at least; 0: not known. */
CUresult rf_open_begin(struct rf_opening *o, struct rf_fence *f, const void *name, uint64_t least);
CUresult rf_open_cancel(struct rf_opening *o, CUresult r);
/* On failure everything is given back, and the caller lets the driver close it. */
CUresult rf_open_end(struct rf_opening *o, const struct rf_opened *what);
/* Enters all loans again on a new seat. */
void rf_loan_tell(struct rf_fence *f);

/* A pointer or mipmap that may be mapped external memory was freed. */
CUresult rf_ipc_buffer_gone(struct rf_fence *f, const struct rf_entry *e, CUresult r);

/* --- pool_book.c --- */

/* The program has waited for its work: gives back what is charged ahead. Cheap if nothing is. */
void rf_pool_calm(struct rf_fence *f);
/* Memory was freed in the stream, or will be by a graph in it: asked at the cap how far it is. */
void rf_pool_freed_in(struct rf_fence *f, CUstream stream, bool per_thread);
/* The stream is about to be destroyed; NULL: some streams are. */
void rf_pool_stream_gone(struct rf_fence *f, CUstream stream);
/* Gives back what this process's pools and graphs hold idle on the card; false if there are none. */
bool rf_pool_squeeze(struct rf_fence *f, unsigned card);
/* Brings the charges of pools and graphs up to date. */
void rf_pool_refresh(struct rf_fence *f);
/* Something was freed that is not in the table. */
void rf_pool_freed(struct rf_fence *f);

#endif
