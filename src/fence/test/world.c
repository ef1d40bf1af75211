#include "fence/test/world.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "fence/arbiter_private.h"
#include "fence/fence.h"

/* Of the calling thread */
#define LAUNCH_NS (3 * US)
#define RECORD_NS (1 * US)
#define QUERY_NS 300
#define RING_NS (2 * US)
#define WAIT_NS (5 * US)  /* from the end of the work to that of the wait */
#define POLL_NS (10 * US) /* between two */
#define WAKE_NS (60 * US) /* of a thread that sleeps */
/* of the arbiter, */
#define HEAR_NS (20 * US)
/* and of the card. */
#define EVENT_NS 2200
#define SLICE_NS (2 * MS)
#define SWITCH_NS (200 * US)

#define PROCESSORS 132
#define FENCES 8
#define PROCESSES 16
#define QUEUE 1024 /* a launch waits where a stream has so many */
#define ITEMS (2 * QUEUE)
#define EVENTS 4096
#define NEVER UINT64_MAX

struct item {
	uint64_t left; /* it takes so long still */
	unsigned width;
	uint64_t *event; /* which is recorded then; NULL: it is a kernel */
};

struct stream {
	unsigned head, n;
	bool runs; /* its first item does */
	struct item *item;
};

struct process {
	struct rf_fence fence;
	unsigned of; /* number of its fence */
	struct stream stream[WORLD_STREAMS];
	unsigned turn; /* which stream is looked at first */
	uint64_t event_at[EVENTS];
	unsigned events;
	bool asks; /* and there is a new arbiter to answer */
	pthread_t thread;
	sem_t go;
	void (*program)(const void *what);
	const void *what;
	uint64_t at; /* goes on then; NEVER: waits */
	/* for one of these, or */
	const struct stream *empty, *room;
	const uint64_t *event;
	bool all;
	const uint32_t *word; /* until it has another value, or it is late */
	uint32_t value;
	uint64_t late;
};

static struct {
	uint64_t now, end;
	uint64_t arbiter_at;
	struct rf_card_state card;
	struct shared {
		int gate_fd, desk_fd;
		struct rf_gate *gate;
		struct rf_desk *desk;
	} shared[FENCES];
	struct rf_member member[FENCES];
	struct process *process[PROCESSES];
	unsigned fences, processes, last; /* the process that ran last */
	sem_t back;
	bool over;
	/* the card */
	uint64_t card_now, slice_end, switched; /* the switch is over */
	unsigned serves;			/* process */
	uint64_t counted, used[FENCES];
	unsigned launches[FENCES];
	uint64_t dice;
} w;
static __thread struct process *me;

struct rf_fence *rf_the_fence;
void *rf_reals[RF_SYM_COUNT];

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* A tenth more or less: nothing on a machine takes exactly as long each time. */
static uint64_t about(uint64_t ns)
{
	w.dice ^= w.dice << 13;
	w.dice ^= w.dice >> 7;
	w.dice ^= w.dice << 17;
	return ns * 9 / 10 + w.dice % (ns / 5 + 1);
}

/* --- the card --- */

static bool has_work(const struct process *p)
{
	for (unsigned i = 0; i < WORLD_STREAMS; i++)
		if (p->stream[i].n)
			return true;
	return false;
}

/* Starts what fits beside what runs; a process's streams in turn. */
static void fill(struct process *p)
{
	unsigned wide = 0;

	for (unsigned i = 0; i < WORLD_STREAMS; i++)
		wide += p->stream[i].runs ? p->stream[i].item[p->stream[i].head % ITEMS].width : 0;
	for (unsigned i = 0; i < WORLD_STREAMS; i++) {
		struct stream *s = &p->stream[(p->turn + i) % WORLD_STREAMS];
		unsigned width = s->n ? s->item[s->head % ITEMS].width : 0;

		if (s->runs || s->n == 0 || (wide && wide + width > WORLD_WHOLE))
			continue;
		s->runs = true;
		wide += width;
	}
}

static void finish(struct process *p, struct stream *s, uint64_t at)
{
	struct item *i = &s->item[s->head++ % ITEMS];

	if (i->event)
		*i->event = at;
	s->n--;
	s->runs = false;
	p->turn = (unsigned)(s - p->stream + 1) % WORLD_STREAMS;
}

/* Whom the card serves: the next one with work, if this one's slice is over or it has none. */
static void choose(void)
{
	if (w.processes == 0)
		return;
	if (has_work(w.process[w.serves]) && w.card_now < w.slice_end)
		return;
	for (unsigned i = 1; i <= w.processes; i++) {
		unsigned next = (w.serves + i) % w.processes;

		if (!has_work(w.process[next]))
			continue;
		w.switched = next != w.serves ? w.card_now + SWITCH_NS : w.switched;
		w.slice_end = (next != w.serves ? w.switched : w.card_now) + SLICE_NS;
		w.serves = next;
		return;
	}
}

/* When the next item ends, if nothing else happens; fills the card. */
static uint64_t next_end(void)
{
	uint64_t at = NEVER;
	struct process *p;

	choose();
	if (w.processes == 0 || !has_work(w.process[w.serves]))
		return NEVER;
	p = w.process[w.serves];
	fill(p);
	for (unsigned i = 0; i < WORLD_STREAMS; i++)
		if (p->stream[i].runs)
			at = least(at, p->stream[i].item[p->stream[i].head % ITEMS].left);
	return (w.card_now > w.switched ? w.card_now : w.switched) + at;
}

/* All that runs goes on for so long. */
static void work(uint64_t ns)
{
	struct process *p = w.process[w.serves];
	bool used = false;

	for (unsigned i = 0; i < WORLD_STREAMS; i++) {
		struct stream *s = &p->stream[i];
		struct item *item = s->runs ? &s->item[s->head % ITEMS] : NULL;

		if (!item)
			continue;
		item->left -= ns;
		used = used || !item->event;
		if (item->left == 0)
			finish(p, s, w.card_now + ns);
	}
	w.used[p->of] += used ? ns : 0;
}

static void run_card(uint64_t until)
{
	while (w.card_now < until) {
		uint64_t to = next_end();

		to = least(to, until);
		if (w.slice_end > w.card_now)
			to = least(to, w.slice_end);
		if (w.card_now < w.switched)
			to = least(to, w.switched);
		else if (w.processes)
			work(to - w.card_now);
		w.card_now = to;
	}
}

static void put(unsigned stream, uint64_t ns, unsigned width, uint64_t *event)
{
	struct stream *s = &me->stream[stream];

	run_card(w.now);
	if (!s->item)
		s->item = malloc(ITEMS * sizeof(*s->item));
	assert_true(s->item && s->n < ITEMS);
	s->item[(s->head + s->n++) % ITEMS] =
		(struct item){ .left = ns, .width = width, .event = event };
}

/* --- whose turn it is --- */

static bool is_met(const struct process *p)
{
	if (p->word)
		return *p->word != p->value || w.now >= p->late;
	if (p->event)
		return *p->event <= w.now;
	if (p->room)
		return p->room->n < QUEUE;
	return p->all ? !has_work(p) : p->empty->n == 0;
}

/* Those that waited for what has come go on in a moment. */
static void wake(void)
{
	for (unsigned i = 0; i < w.processes; i++) {
		struct process *p = w.process[i];

		if (p->at != NEVER || !is_met(p))
			continue;
		p->at = w.now + about(p->word ? WAKE_NS : WAIT_NS);
		p->word = NULL;
		p->event = NULL;
		p->empty = p->room = NULL;
		p->all = false;
	}
}

/* When something happens that a process might not do by itself. */
static uint64_t next_time(const struct process *but)
{
	uint64_t at = w.arbiter_at;
	bool waits = false;

	for (unsigned i = 0; i < w.processes; i++) {
		const struct process *p = w.process[i];

		if (p == but)
			continue;
		at = least(at, p->at);
		if (p->at == NEVER && p->word)
			at = least(at, p->late);
		waits = waits || (p->at == NEVER && !p->word);
	}
	if (waits && w.now < at) {
		run_card(w.now);
		at = least(at, next_end());
		if (w.slice_end > w.now)
			at = least(at, w.slice_end);
	}
	return at;
}

static void woken(struct rf_gate_card *g)
{
}

static void yield(void)
{
	sem_post(&w.back);
	while (sem_wait(&me->go) < 0)
		;
	if (w.over)
		pthread_exit(NULL);
	rf_the_fence = &me->fence;
}

void world_pass(uint64_t ns)
{
	uint64_t at = w.now + ns;

	if (at <= w.end && at < next_time(me)) {
		w.now = at;
		return;
	}
	me->at = at;
	yield();
}

static void *live(void *arg)
{
	int gate, desk;

	me = arg;
	while (sem_wait(&me->go) < 0)
		;
	if (w.over)
		return NULL;
	rf_the_fence = &me->fence;
	assert_true(rf_client_ask_gate(&gate, &desk) && rf_share_open(&me->fence, gate, desk));
	me->program(me->what);
	me->at = NEVER;
	me->word = &me->value; /* for ever */
	me->late = NEVER;
	yield();
	return NULL;
}

void world_run(uint64_t ns)
{
	w.end = w.now + ns;
	for (;;) {
		uint64_t at = next_time(NULL);
		struct process *p = NULL;

		if (at > w.end)
			break;
		w.now = at > w.now ? at : w.now;
		run_card(w.now);
		if (w.now >= w.arbiter_at) {
			for (unsigned i = 0; i < w.fences; i++)
				w.shared[i].gate->heard = w.shared[i].desk->ring;
			w.arbiter_at = (uint64_t)rf_turns(&w.card, (int64_t)w.now, woken);
		}
		wake();
		for (unsigned i = 1; i <= w.processes && !p; i++) {
			unsigned next = (w.last + i) % w.processes;

			if (w.process[next]->at <= w.now)
				p = w.process[w.last = next];
		}
		if (!p)
			continue;
		sem_post(&p->go);
		while (sem_wait(&w.back) < 0)
			;
	}
	w.now = w.end;
	run_card(w.now);
}

int clock_gettime(clockid_t id, struct timespec *t)
{
	t->tv_sec = (time_t)(w.now / 1000000000u);
	t->tv_nsec = (long)(w.now % 1000000000u);
	return 0;
}

long syscall(long number, ...)
{
	va_list args;
	const uint32_t *word;
	uint32_t value;
	int op;

	if (number != SYS_futex)
		return number == SYS_gettid ? 1 : -1;
	va_start(args, number);
	word = va_arg(args, uint32_t *);
	op = va_arg(args, int);
	value = va_arg(args, uint32_t);
	if (op == FUTEX_WAIT) {
		const struct timespec *t = va_arg(args, const struct timespec *);

		me->word = word;
		me->value = value;
		me->late = w.now + (uint64_t)t->tv_nsec + (uint64_t)t->tv_sec * 1000000000u;
		me->at = NEVER;
		yield();
	} else {
		w.arbiter_at = least(w.arbiter_at, w.now + RING_NS + about(HEAR_NS));
		world_pass(RING_NS);
	}
	va_end(args);
	return 0;
}

/* --- the driver --- */

#define THE_CONTEXT ((CUcontext)(uintptr_t)0x55d0c0de1000)

static CUstream handle(unsigned stream)
{
	return (CUstream)(uintptr_t)(0x55d0c1000000 + stream * 0x3b0);
}

static unsigned number(CUstream s)
{
	return (unsigned)(((uintptr_t)s - (uintptr_t)handle(0)) / 0x3b0);
}

static CUresult get_current(CUcontext *ctx)
{
	*ctx = THE_CONTEXT;
	return CUDA_SUCCESS;
}

static CUresult get_home(CUstream s, CUcontext *ctx)
{
	return get_current(ctx);
}

static CUresult exchange_mode(int *mode)
{
	return CUDA_SUCCESS;
}

static CUresult create_event(CUevent *e, unsigned int flags)
{
	assert_true(me->events < EVENTS);
	*e = (CUevent)(void *)&me->event_at[me->events++];
	return CUDA_SUCCESS;
}

static CUresult destroy_event(CUevent e)
{
	return CUDA_SUCCESS;
}

static CUresult record_event(CUevent e, CUstream s)
{
	world_pass(about(RECORD_NS));
	*(uint64_t *)(void *)e = NEVER;
	put(number(s), EVENT_NS, 0, (uint64_t *)(void *)e);
	return CUDA_SUCCESS;
}

static CUresult query_event(CUevent e)
{
	world_pass(QUERY_NS);
	run_card(w.now);
	return *(uint64_t *)(void *)e <= w.now ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult elapsed(float *ms, CUevent from, CUevent to)
{
	uint64_t a = *(uint64_t *)(void *)from, b = *(uint64_t *)(void *)to;

	world_pass(QUERY_NS);
	*ms = (float)((double)b - (double)a) / 1e6f;
	return a <= w.now && b <= w.now ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult get_attribute(int *ret, int what, CUdevice dev)
{
	assert_int_equal(what, 16); /* CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT */
	*ret = PROCESSORS;
	return CUDA_SUCCESS;
}

static CUresult query_stream(CUstream s)
{
	world_pass(QUERY_NS);
	run_card(w.now);
	return me->stream[number(s)].n == 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult unexpected(void)
{
	fail_msg("the driver was asked for something else");
	return CUDA_ERROR_NOT_FOUND;
}

void *rf_real(enum rf_symbol_id id)
{
	return (void *)unexpected;
}

CUresult rf_current_card(struct rf_fence *f, unsigned *ret)
{
	*ret = 0;
	return CUDA_SUCCESS;
}

bool rf_client_ask_gate(int *ret_gate, int *ret_desk)
{
	if (!me->asks)
		return false;
	me->asks = false;
	*ret_gate = dup(w.shared[me->of].gate_fd);
	*ret_desk = dup(w.shared[me->of].desk_fd);
	return true;
}

/* --- programs --- */

uint64_t world_now(void)
{
	return w.now;
}

/* For the streams to be empty, or one of them, or to have room again, or for an event. */
static void wait_for(const struct stream *empty, const struct stream *room, const uint64_t *event)
{
	run_card(w.now);
	me->empty = empty;
	me->room = room;
	me->event = event;
	me->all = !empty && !room && !event;
	if (is_met(me)) {
		me->empty = me->room = NULL;
		me->event = NULL;
		me->all = false;
		world_pass(QUERY_NS);
		return;
	}
	me->at = NEVER;
	yield();
}

void world_launch(unsigned stream, uint64_t kind, uint64_t ns, unsigned width)
{
	uint64_t blocks = width * PROCESSORS / WORLD_WHOLE;
	uint64_t key = kind * 64 + (63 ^ (uint64_t)__builtin_clzll(blocks | 1));
	bool passes = rf_share_passes(key, handle(stream));

	if (!passes)
		rf_share_before(key, handle(stream));
	world_pass(about(LAUNCH_NS));
	if (me->stream[stream].n >= QUEUE)
		wait_for(NULL, &me->stream[stream], NULL);
	put(stream, ns, width, NULL);
	w.launches[me->of]++;
	if (!passes)
		rf_share_after(handle(stream), true);
}

void world_wait(unsigned stream)
{
	rf_share_syncing();
	wait_for(&me->stream[stream], NULL, NULL);
	rf_share_synced(handle(stream));
}

void world_wait_all(void)
{
	rf_share_syncing();
	wait_for(NULL, NULL, NULL);
	rf_share_synced_all(NULL);
}

static uint64_t *own_event(unsigned stream)
{
	uint64_t *e = &me->event_at[EVENTS - 1 - stream];

	record_event((CUevent)(void *)e, handle(stream));
	return e;
}

void world_wait_event(unsigned stream)
{
	const uint64_t *e = own_event(stream);

	rf_share_syncing();
	wait_for(NULL, NULL, e);
	rf_share_told(true);
}

void world_poll_event(unsigned stream)
{
	uint64_t *e = own_event(stream);

	while (query_event((CUevent)(void *)e) != CUDA_SUCCESS) {
		rf_share_syncing();
		world_pass(about(POLL_NS));
	}
	rf_share_told(false);
}

void world_wait_unseen(unsigned stream)
{
	wait_for(NULL, NULL, own_event(stream));
}

/* --- beginning and end --- */

/* Threads that never run at once pass the turn on much faster where they are together. */
static void stay_on_one_cpu(void)
{
	cpu_set_t one;
	int cpu = sched_getcpu();

	CPU_ZERO(&one);
	CPU_SET(cpu > 0 ? (unsigned)cpu : 0, &one);
	(void)sched_setaffinity(0, sizeof(one), &one);
}

void world_begin(void)
{
	memset(&w, 0, sizeof(w));
	stay_on_one_cpu();
	w.now = w.card_now = w.counted = 1000 * MS;
	w.dice = 88172645463325252ull;
	sem_init(&w.back, 0, 0);
	w.arbiter_at = w.now;
	rf_reals[RF_SYM_cuCtxGetCurrent] = (void *)get_current;
	rf_reals[RF_SYM_cuStreamGetCtx] = (void *)get_home;
	rf_reals[RF_SYM_cuThreadExchangeStreamCaptureMode] = (void *)exchange_mode;
	rf_reals[RF_SYM_cuEventCreate] = (void *)create_event;
	rf_reals[RF_SYM_cuEventDestroy_v2] = (void *)destroy_event;
	rf_reals[RF_SYM_cuEventRecord] = (void *)record_event;
	rf_reals[RF_SYM_cuEventQuery] = (void *)query_event;
	rf_reals[RF_SYM_cuEventElapsedTime] = (void *)elapsed;
	rf_reals[RF_SYM_cuStreamQuery] = (void *)query_stream;
	rf_reals[RF_SYM_cuDeviceGetAttribute] = (void *)get_attribute;
}

static void *share_memory(size_t size, int *ret_fd)
{
	void *p;

	*ret_fd = memfd_create("world", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_true(*ret_fd >= 0 && ftruncate(*ret_fd, (off_t)size) == 0);
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, *ret_fd, 0);
	assert_true(p != MAP_FAILED);
	assert_int_equal(fcntl(*ret_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	return p;
}

static void open_desk(unsigned i, int64_t share, bool burst)
{
	struct shared *s = &w.shared[i];

	s->gate = share_memory(sizeof(*s->gate), &s->gate_fd);
	s->desk = share_memory(sizeof(*s->desk), &s->desk_fd);
	s->gate->magic = RF_GATE_MAGIC;
	s->gate->bytes = sizeof(*s->gate);
	s->desk->magic = RF_DESK_MAGIC;
	s->desk->bytes = sizeof(*s->desk);
	w.member[i] = (struct rf_member){ .gate = &s->gate->card[0],
					  .desk = s->desk,
					  .ledger_fd = -1,
					  .share = share,
					  .burst = burst };
	rf_turns_add(&w.card, &w.member[i], (int64_t)w.now);
	w.arbiter_at = w.now;
}

static void close_desk(unsigned i)
{
	close(w.shared[i].gate_fd);
	close(w.shared[i].desk_fd);
	munmap(w.shared[i].gate, sizeof(*w.shared[i].gate));
	munmap(w.shared[i].desk, sizeof(*w.shared[i].desk));
}

unsigned world_fence(int64_t share, bool burst)
{
	assert_true(w.fences < FENCES);
	open_desk(w.fences, share, burst);
	return w.fences++;
}

void world_new_arbiter(void)
{
	memset(&w.card, 0, sizeof(w.card));
	for (unsigned i = 0; i < w.fences; i++) {
		struct rf_member was = w.member[i];

		close_desk(i);
		open_desk(i, was.share, was.burst);
	}
	for (unsigned i = 0; i < w.processes; i++)
		w.process[i]->asks = true;
}

void world_start(unsigned fence, void (*program)(const void *what), const void *what)
{
	struct process *p = calloc(1, sizeof(*p));
	unsigned seat = 0;

	assert_true(p && w.processes < PROCESSES);
	for (unsigned i = 0; i < w.processes; i++)
		seat += w.process[i]->of == fence;
	p->of = fence;
	p->program = program;
	p->what = what;
	p->at = w.now;
	p->fence.joined = 1;
	p->fence.cards = 1;
	p->fence.card_of[0] = 1;
	p->asks = true;
	p->fence.pid = w.processes + 1;
	p->fence.place.seat = seat;
	sem_init(&p->go, 0, 0);
	w.process[w.processes++] = p;
	assert_int_equal(pthread_create(&p->thread, NULL, live, p), 0);
}

void world_end(void)
{
	w.over = true;
	for (unsigned i = 0; i < w.processes; i++) {
		struct process *p = w.process[i];

		sem_post(&p->go);
		pthread_join(p->thread, NULL);
		for (unsigned j = 0; j < WORLD_STREAMS; j++)
			free(p->stream[j].item);
		free(p);
	}
	for (unsigned i = 0; i < w.fences; i++)
		close_desk(i);
}

void world_count(void)
{
	w.counted = w.now;
	memset(w.used, 0, sizeof(w.used));
	memset(w.launches, 0, sizeof(w.launches));
}

double world_used(unsigned fence)
{
	return 100 * (double)w.used[fence] / (double)(w.now - w.counted);
}

unsigned world_launches(unsigned fence)
{
	return w.launches[fence];
}
