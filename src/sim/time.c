/* The fluid model of time-slicing. See state.h. */
#include "sim/state.h"

#include <string.h>
#include <time.h>

uint64_t sim_clock(const struct sim_card *c)
{
	struct timespec ts;

	if (c->s->is_virtual)
		return c->s->virtual_ns;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

uint64_t sim_stamp_us(const struct sim_card *c)
{
	struct timespec ts;

	if (c->s->is_virtual)
		return c->s->virtual_ns / 1000;
	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000ULL + (uint64_t)ts.tv_nsec / 1000;
}

static void busy_add_bucket(struct sim_busy *b, uint64_t number, uint64_t ns)
{
	unsigned i = number % SIM_BUCKETS;

	if (b->bucket[i] != number) {
		b->bucket[i] = number;
		b->ns[i] = 0;
	}
	b->ns[i] += ns;
}

/* Busy from `from` to `to`, at one n-th of the card. */
static void busy_add(struct sim_busy *b, uint64_t from, uint64_t to, unsigned n)
{
	uint64_t kept = SIM_BUCKET_NS * SIM_BUCKETS;

	b->total_ns += (to - from) / n;
	if (to - from > kept)
		from = to - kept;
	while (from < to) {
		uint64_t number = from / SIM_BUCKET_NS, end = (number + 1) * SIM_BUCKET_NS;

		end = end < to ? end : to;
		busy_add_bucket(b, number, (end - from) / n);
		from = end;
	}
}

/* Over the last ten tenths of a second, the running one included. */
unsigned sim_busy_percent(const struct sim_busy *b, uint64_t now_ns)
{
	uint64_t number = now_ns / SIM_BUCKET_NS, sum = 0, span;

	for (unsigned i = 0; i < SIM_BUCKETS; i++)
		if (b->bucket[i] <= number && b->bucket[i] + 10 > number)
			sum += b->ns[i];
	span = 9 * SIM_BUCKET_NS + now_ns % SIM_BUCKET_NS;
	return sum >= span ? 100 : (unsigned)(sum * 100 / span);
}

static bool runs(const struct sim_ctx *x, uint32_t part)
{
	return sim_ctx_pending(x) && x->part == part;
}

static int top(const struct sim_state *s)
{
	return s->ctx_top < SIM_CTXS ? (int)s->ctx_top : SIM_CTXS;
}

/* How long n contexts take for `work` each. Rounded up, so that it is done by then. */
static uint64_t span(const struct sim_state *s, uint64_t work, unsigned n)
{
	uint64_t kept = 1000 - s->switch_milli;

	return n > 1 && s->switch_milli > 0 ? (work * n * 1000 + kept - 1) / kept : work * n;
}

/* How much each of n contexts gets done in `ns`. */
static uint64_t done_in(const struct sim_state *s, uint64_t ns, unsigned n)
{
	return n > 1 && s->switch_milli > 0 ? ns * (1000 - s->switch_milli) / (1000ULL * n)
					    : ns / n;
}

static unsigned count_running(const struct sim_state *s, uint32_t part)
{
	unsigned n = 0;

	for (int i = 0; i < top(s); i++)
		n += runs(&s->ctxs[i], part);
	return n;
}

static uint64_t backlog(const struct sim_ctx *x)
{
	return x->submitted > x->done ? x->submitted - x->done : 0;
}

/* The least work that any running context has left: until then n stays what it is. */
static uint64_t least_backlog(const struct sim_state *s, uint32_t part)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < top(s); i++)
		if (runs(&s->ctxs[i], part) && backlog(&s->ctxs[i]) < least)
			least = backlog(&s->ctxs[i]);
	return least;
}

/* Does `work` nanoseconds of the context's queue, from `now` on, at one n-th. */
static void run_ctx(struct sim_state *s, int i, uint64_t now, uint64_t work, unsigned n)
{
	struct sim_ctx *x = &s->ctxs[i];
	uint64_t start = x->done;

	x->done += work;
	while (x->tail < x->head && s->ops[i][x->tail % SIM_QUEUE].target <= x->done) {
		struct sim_op *op = &s->ops[i][x->tail % SIM_QUEUE];

		op->end_ns = now + span(s, op->target > start ? op->target - start : 0, n);
		x->tail++;
	}
	if (work > 0 && x->proc < SIM_PROCS)
		busy_add(&s->procs[x->proc].busy, now, now + span(s, work, n), n);
}

static void run_part(struct sim_state *s, uint32_t part, uint64_t work, unsigned n)
{
	struct sim_part *p = &s->parts[part];

	for (int i = 0; i < top(s); i++)
		if (runs(&s->ctxs[i], part))
			run_ctx(s, i, p->now_ns, work, n);
	busy_add(&p->busy, p->now_ns, p->now_ns + span(s, work, n), 1);
	p->now_ns += span(s, work, n);
}

/* Brings a partition up to `to`. Progress is whole nanoseconds of work for each context, so the
 * model may stop up to n-1 ns short; the rest is done by the next call and nothing is lost. */
void sim_advance(struct sim_card *c, uint32_t part, uint64_t to)
{
	struct sim_state *s = c->s;
	struct sim_part *p = &s->parts[part];
	unsigned n;

	while (p->now_ns <= to && (n = count_running(s, part)) > 0) {
		uint64_t least = least_backlog(s, part), can = done_in(s, to - p->now_ns, n);

		if (s->hung) {
			busy_add(&p->busy, p->now_ns, to, 1);
			break;
		}
		run_part(s, part, least < can ? least : can, n);
		if (least >= can && count_running(s, part) == n)
			return;
	}
	if (p->now_ns < to)
		p->now_ns = to;
}

void sim_advance_all(struct sim_card *c)
{
	uint64_t now = sim_clock(c);

	for (uint32_t part = 0; part < SIM_PARTS; part++)
		sim_advance(c, part, now);
}

int sim_ctx_take(struct sim_card *c, int proc, uint32_t part)
{
	for (int i = 0; i < SIM_CTXS; i++) {
		if (c->s->ctxs[i].used)
			continue;
		c->s->ctxs[i] = (struct sim_ctx){ .used = 1, .proc = (uint32_t)proc, .part = part };
		if (c->s->ctx_top <= (uint32_t)i)
			c->s->ctx_top = (uint32_t)i + 1;
		c->s->procs[proc].contexts++;
		return i;
	}
	return -1;
}

void sim_ctx_drop(struct sim_card *c, int slot)
{
	struct sim_ctx *x = &c->s->ctxs[slot];

	/* Others had to share with it until now. */
	if (x->part < SIM_PARTS)
		sim_advance(c, x->part, sim_clock(c));
	if (x->proc < SIM_PROCS && c->s->procs[x->proc].contexts > 0)
		c->s->procs[x->proc].contexts--;
	memset(x, 0, sizeof(*x));
	while (top(c->s) > 0 && !c->s->ctxs[top(c->s) - 1].used)
		c->s->ctx_top = (uint32_t)top(c->s) - 1;
}

uint64_t sim_op_push(struct sim_card *c, int ctx, uint64_t cost_ns)
{
	struct sim_ctx *x = &c->s->ctxs[ctx];
	uint64_t number = x->head;

	x->submitted += cost_ns;
	c->s->ops[ctx][number % SIM_QUEUE] = (struct sim_op){ .target = x->submitted };
	x->head++;
	return number;
}

/* Plays the drain forward on copies of the backlogs: contexts leave in the order of what they have
 * left, and each leaving one speeds up the rest. */
uint64_t sim_op_predict(struct sim_card *c, int ctx, uint64_t op)
{
	struct sim_state *s = c->s;
	const struct sim_ctx *x = &s->ctxs[ctx];
	uint64_t target = s->ops[ctx][op % SIM_QUEUE].target, t, level = 0, mine;

	if (s->hung)
		return UINT64_MAX;
	t = s->parts[x->part].now_ns;
	mine = target > x->done ? target - x->done : 0;
	while (level < mine) {
		uint64_t next = mine;
		unsigned n = 0;

		for (int i = 0; i < top(s); i++) {
			if (!runs(&s->ctxs[i], x->part) || backlog(&s->ctxs[i]) <= level)
				continue;
			n++;
			if (backlog(&s->ctxs[i]) < next)
				next = backlog(&s->ctxs[i]);
		}
		if (n == 0)
			break;
		t += span(s, next - level, n);
		level = next;
	}
	return t;
}
