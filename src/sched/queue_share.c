/* Shares: what each queue used, decaying with time, and what each deserves now. */
#include <inttypes.h>

#include "sched/queue_private.h"

#define ONE (UINT64_C(1) << 63)
#define INV_LN2 UINT64_C(6196328019) /* 1 / ln 2, 32 bits behind the point */
#define LEDGER_HEAD "ringfence-ledger 1\n"
#define LEDGER_MAX (16 << 20)
#define PAST_MAX (((rf_u128)1 << 110) - 1) /* more cannot come from usage, and would overflow */
#define LEVEL_SHIFT 24			   /* so that it can be multiplied by a rate */
#define DAY_MS (INT64_C(24) * 3600 * 1000)
#define CREDIT_MS (30 * DAY_MS)
#define OWED_MS (90 * DAY_MS)

/* --- decay ----------------------------------------------------------------------------------- */

static uint64_t root_of(rf_u128 n)
{
	uint64_t root = 0;

	for (int bit = 63; bit >= 0; bit--) {
		uint64_t with = root | (UINT64_C(1) << bit);

		if ((rf_u128)with * with <= n)
			root = with;
	}
	return root;
}

/* halves[i] is 0.5^(2^-(i+1)). Filled once; every filler writes the same. */
static const uint64_t *halves(void)
{
	static uint64_t table[62];

	if (__atomic_load_n(&table[61], __ATOMIC_ACQUIRE) == 0) {
		uint64_t x = ONE / 2, mine[62];

		for (size_t i = 0; i < RF_COUNT(mine); i++)
			mine[i] = x = root_of((rf_u128)x << 63);
		for (size_t i = 0; i < RF_COUNT(mine); i++)
			__atomic_store_n(&table[i], mine[i], __ATOMIC_RELEASE);
	}
	return table;
}

uint64_t rf_queue_decay(int64_t dt_ms, int64_t half_life_ms)
{
	const uint64_t *half = halves();
	uint64_t x, f = ONE;
	int64_t whole;

	if (half_life_ms <= 0)
		return dt_ms > 0 ? 0 : ONE;
	if (dt_ms <= 0)
		return ONE;
	whole = dt_ms / half_life_ms;
	if (whole > 63)
		return 0;
	x = (uint64_t)(((rf_u128)(uint64_t)(dt_ms % half_life_ms) << 62) / (uint64_t)half_life_ms);
	while (x != 0) { /* bit 61 is a half of it, and so on */
		int bit = 63 - __builtin_clzll(x);

		f = (uint64_t)(((rf_u128)f * half[61 - bit] + ONE / 2) >> 63);
		x &= ~(UINT64_C(1) << bit);
	}
	return f >> whole;
}

static rf_u128 scale(rf_u128 n, uint64_t f)
{
	return (((n >> 64) * f) << 1) + (((rf_u128)(uint64_t)n * f) >> 63);
}

/* The past decays, and what ran since is added, itself decayed: rate * (1 - f) * h / ln 2. */
static rf_u128 later(const struct rf_queues *qs, rf_u128 past, uint64_t rate, int64_t dt)
{
	uint64_t f = rf_queue_decay(dt, qs->c.half_life_ms);
	rf_u128 ran;

	if (dt <= 0)
		return past;
	if (qs->c.half_life_ms == 0)
		return 0;
	ran = (rf_u128)(ONE - f) * (uint64_t)qs->c.half_life_ms; /* 63 bits behind the point */
	ran = ((ran >> 32) * INV_LN2) >> 43;			 /* 20 bits */
	return scale(past, f) + ran * rate;
}

static rf_u128 past_at(const struct rf_queues *qs, const struct rf_queue *q, int64_t now)
{
	if (now <= q->past_ms || (q->past == 0 && q->rate == 0))
		return q->past;
	return later(qs, q->past, q->rate, now - q->past_ms);
}

void rf_ledger_to(const struct rf_queues *qs, struct rf_queue *q, int64_t now)
{
	q->past = past_at(qs, q, now);
	q->past_ms = RF_MAX(q->past_ms, now);
}

rf_u128 rf_ledger_key(const struct rf_queues *qs, const struct rf_queue *q)
{
	int64_t ahead = RF_MAX(qs->c.entry_ms, 1); /* 1: at least what runs tells queues apart */

	rf_u128 used = q->past + ((rf_u128)q->rate * (uint64_t)ahead << 20);

	return q->weight == 1 ? used : used / (uint64_t)q->weight; /* that takes long, and most are 1 */
}

/* --- credit ----------------------------------------------------------------------------------- */

static bool waits(const struct rf_queues *qs, const struct rf_queue *q)
{
	for (size_t r = 0; r < qs->n_res; r++)
		if (q->v[RF_V_WANT][r] > 0)
			return true;
	return false;
}

/* Where the children are: what was used by weight, the mean over what runs now. Who only waits, or has one card for a
 * year, does not pull it down. False: nothing runs. */
static bool level_of(const struct rf_queues *qs, const struct rf_queue *q, rf_u128 *ret)
{
	rf_u128 sum = 0, rates = 0;

	for (size_t i = 0; i < q->children.n; i++) {
		const struct rf_queue *c = q->children.at[i];

		sum += (rf_ledger_key(qs, c) >> LEVEL_SHIFT) * c->rate;
		rates += c->rate;
	}
	*ret = rates > 0 ? (sum / rates) << LEVEL_SHIFT : 0;
	return rates > 0;
}

static void lift(const struct rf_queues *qs, struct rf_queue *q, rf_u128 least)
{
	rf_u128 key = rf_ledger_key(qs, q);

	if (key < least)
		q->past = RF_MIN(q->past + (least - key) * (uint64_t)q->weight, PAST_MAX);
}

/* Who used less than the others goes before them until it has caught up. So that it does not have everything for
 * weeks after a quiet year, it counts as having used at least what the others did, but for so long of its share. */
static void cut_credit(const struct rf_queues *qs, const struct rf_queue *q)
{
	uint64_t weights = 0;
	rf_u128 level;
	bool any = level_of(qs, q, &level);

	for (size_t i = 0; i < q->children.n; i++)
		weights += (uint64_t)q->children.at[i]->weight;
	for (size_t i = 0; i < q->children.n; i++) {
		struct rf_queue *c = q->children.at[i];
		uint64_t ms = (uint64_t)(waits(qs, c) ? qs->c.owed_ms : qs->c.credit_ms);
		rf_u128 credit = ((rf_u128)q->part * ms << 20) / weights;

		c->part = (uint64_t)((rf_u128)q->part * (uint64_t)c->weight / weights);
		if (any && level > credit)
			lift(qs, c, level - credit);
	}
}

void rf_ledger_all(struct rf_queues *qs, int64_t now)
{
	for (size_t i = 0; i < qs->order.n; i++)
		rf_ledger_to(qs, qs->order.at[i], now);
	qs->root->part = UINT64_C(1) << 32;
	for (size_t i = 0; qs->c.half_life_ms > 0 && i < qs->order.n; i++)
		cut_credit(qs, qs->order.at[i]);
}

void rf_ledger_defaults(struct rf_queues_config *c)
{
	c->credit_ms = c->credit_ms > 0 ? c->credit_ms : CREDIT_MS;
	c->owed_ms = c->owed_ms > 0 ? c->owed_ms : OWED_MS;
}

/* Looking changes nothing, here and below: who comes next does not depend on who looked, and when. */
uint64_t rf_queue_usage(const struct rf_queues *qs, const struct rf_queue *q, int64_t now)
{
	rf_u128 n = past_at(qs, q, now) >> 20;

	return n > UINT64_MAX ? UINT64_MAX : (uint64_t)n;
}

/* --- memory of queues that are not there ------------------------------------------------------ */

/* So that nobody starts anew by deleting a queue and making it again. */
static void remember(struct rf_queues *qs, struct rf_str name, rf_u128 past, int64_t now)
{
	struct rf_past *p;

	if (past == 0 || (qs->gone.n >= RF_QUEUES_MAX && rf_map_get(&qs->gone, name) == NULL))
		return;
	p = rf_new(struct rf_past);
	*p = (struct rf_past){ past, now };
	free(rf_map_set(&qs->gone, name, p));
}

/* What has decayed to nothing makes room. */
static void forget_small(struct rf_queues *qs, int64_t now)
{
	RF_VEC(struct rf_str) small = RF_VEC_INIT;

	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&qs->gone, s)) != NULL;) {
		struct rf_past *p = s->value;

		if (later(qs, p->past, 0, now - p->past_ms) == 0)
			rf_vec_push(&small, rf_map_key(s));
	}
	for (size_t i = 0; i < small.n; i++) {
		/* the map frees its copy of the key */
		rf_auto_free char *key = rf_alloc(small.at[i].n + 1);

		memcpy(key, small.at[i].p, small.at[i].n);
		free(rf_map_del(&qs->gone, rf_str(key)));
	}
	rf_vec_done(&small);
}

void rf_ledger_remember(struct rf_queues *qs, struct rf_queue *q, int64_t now)
{
	if (qs->gone.n >= RF_QUEUES_MAX)
		forget_small(qs, now);
	rf_ledger_to(qs, q, now);
	remember(qs, rf_str(q->name), q->past, now);
}

void rf_queue_recall(struct rf_queues *qs, struct rf_queue *q, int64_t now)
{
	struct rf_past *p = rf_map_del(&qs->gone, rf_str(q->name));

	if (p == NULL)
		return;
	q->past = later(qs, p->past, 0, now - p->past_ms);
	q->past_ms = RF_MAX(now, p->past_ms);
	free(p);
}

/* --- export, import --------------------------------------------------------------------------- */

struct line {
	struct rf_str name;
	rf_u128 past;
};

static int by_name(const void *a, const void *b)
{
	return rf_str_cmp(((const struct line *)a)->name, ((const struct line *)b)->name);
}

void rf_queues_export(const struct rf_queues *qs, int64_t now, struct rf_buf *ret)
{
	RF_VEC(struct line) lines = RF_VEC_INIT;

	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&qs->names, s)) != NULL;) {
		const struct rf_queue *q = s->value;

		rf_vec_push(&lines, ((struct line){ rf_str(q->name), past_at(qs, q, now) }));
	}
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&qs->gone, s)) != NULL;) {
		struct rf_past *p = s->value;

		rf_vec_push(&lines, ((struct line){ rf_map_key(s),
						    later(qs, p->past, 0, now - p->past_ms) }));
	}
	if (lines.n > 0)
		qsort(lines.at, lines.n, sizeof(lines.at[0]), by_name);
	rf_buf_puts(ret, LEDGER_HEAD);
	rf_buf_printf(ret, "at %" PRId64 "\n", now);
	for (size_t i = 0; i < lines.n; i++) {
		if (lines.at[i].past != 0)
			rf_buf_printf(ret, "%.*s %016" PRIx64 "%016" PRIx64 "\n",
				      RF_STR(lines.at[i].name), (uint64_t)(lines.at[i].past >> 64),
				      (uint64_t)lines.at[i].past);
	}
	rf_vec_done(&lines);
}

static bool read_hex(struct rf_str s, rf_u128 *ret)
{
	rf_u128 n = 0;

	if (s.n != 32)
		return false;
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];

		if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
			return false;
		n = n << 4 | (rf_u128)(c <= '9' ? c - '0' : c - 'a' + 10);
	}
	*ret = n;
	return n <= PAST_MAX;
}

static int read_line(struct rf_str text, size_t number, struct line *ret, struct rf_err *err)
{
	if (!rf_str_cut(&text, ' ', &ret->name) || !rf_str_is_dns_subdomain(ret->name) ||
	    !read_hex(text, &ret->past))
		return rf_fail(err, RF_INVALID, "ledger: line %zu is not a queue and its usage",
			       number);
	return 0;
}

static void take_line(struct rf_queues *qs, const struct line *l, int64_t at, int64_t now)
{
	struct rf_queue *q = rf_queues_find(qs, l->name);

	if (q == NULL) {
		remember(qs, l->name, l->past, at);
		return;
	}
	q->past = later(qs, l->past, 0, now - at);
	q->past_ms = now;
}

int rf_queues_import(struct rf_queues *qs, struct rf_str text, int64_t now, struct rf_err *err)
{
	struct rf_str line, rest;
	struct line l;
	int64_t at;
	size_t number = 2;

	if (text.n > LEDGER_MAX)
		return rf_fail(err, RF_TOO_LARGE, "ledger: more than %d bytes", LEDGER_MAX);
	if (!rf_str_starts(text, RF_LIT(LEDGER_HEAD "at ")))
		return rf_fail(err, RF_INVALID, "ledger: does not start with " LEDGER_HEAD);
	text = rf_str_skip(text, sizeof(LEDGER_HEAD "at ") - 1);
	rf_str_cut(&text, '\n', &line);
	if (rf_str_int(line, &at, err) < 0 || at < 0 || at > now)
		return rf_fail(err, RF_INVALID, "ledger: its time is not one, or not past");
	/* all of it is checked before any of it counts */
	for (rest = text; rest.n > 0;) {
		rf_str_cut(&rest, '\n', &line);
		if (read_line(line, ++number, &l, err) < 0)
			return -err->code;
	}
	for (rest = text; rest.n > 0;) {
		rf_str_cut(&rest, '\n', &line);
		(void)read_line(line, 0, &l, err);
		take_line(qs, &l, at, now);
	}
	qs->stale = true;
	return 0;
}

/* --- the fair share ---------------------------------------------------------------------------- */

struct part {
	struct rf_queue *q;
	int64_t floor, need; /* what it has for certain, and what it could use on top */
	rf_u128 rest;
};

/* What a queue could use: what it uses and waits for, as far as its limits let it. */
static int64_t demand(const struct rf_queue *q, size_t r)
{
	int64_t most = RF_MIN(q->v[RF_V_LIMIT][r],
			      rf_queue_add(q->v[RF_V_GUAR][r], q->v[RF_V_BORROWING][r]));
	int64_t sum = 0;

	if (rf_queue_is_leaf(q))
		sum = q->v[RF_V_USED][r] + q->v[RF_V_WANT][r];
	for (size_t i = 0; i < q->children.n; i++)
		sum += q->children.at[i]->v[RF_V_FAIR][r]; /* holds its demand for now */
	sum = RF_MIN(sum, most);
	return RF_MAX(sum, q->v[RF_V_LOCAL][r]);
}

static int by_need(const void *pa, const void *pb)
{
	const struct part *a = pa, *b = pb;
	__int128 x = (__int128)a->need * b->q->weight, y = (__int128)b->need * a->q->weight;

	return x != y ? (x < y ? -1 : 1) : strcmp(a->q->name, b->q->name);
}

static int by_rest(const void *pa, const void *pb)
{
	const struct part *a = pa, *b = pb;

	if (a->rest != b->rest)
		return a->rest > b->rest ? -1 : 1;
	return strcmp(a->q->name, b->q->name);
}

/* Pours what is left over those who need more, by weight: who needs less than its part gets what it
 * needs, the others share the rest; the last units go where the largest fraction was cut off. */
static void pour(struct part *p, size_t n, int64_t left, size_t r)
{
	int64_t weights = 0, given = 0;
	size_t i = 0;

	for (size_t k = 0; k < n; k++)
		weights += p[k].q->weight;
	qsort(p, n, sizeof(*p), by_need);
	for (; i < n && (__int128)p[i].need * weights <= (__int128)left * p[i].q->weight; i++) {
		p[i].q->v[RF_V_FAIR][r] = p[i].floor + p[i].need;
		left -= p[i].need;
		weights -= p[i].q->weight;
	}
	for (size_t k = i; k < n; k++) {
		rf_u128 share = (rf_u128)(uint64_t)left * (uint64_t)p[k].q->weight;
		int64_t one = (int64_t)(share / (uint64_t)weights);

		p[k].rest = share % (uint64_t)weights;
		p[k].q->v[RF_V_FAIR][r] = p[k].floor + one;
		given += one;
	}
	if (i == n)
		return;
	qsort(p + i, n - i, sizeof(*p), by_rest);
	for (size_t k = i; k < n && given < left; k++, given++)
		p[k].q->v[RF_V_FAIR][r]++;
}

static void fill_children(struct rf_queue *q, size_t r, struct part *parts)
{
	int64_t left = q->v[RF_V_FAIR][r];

	for (size_t i = 0; i < q->children.n; i++) {
		struct rf_queue *c = q->children.at[i];
		int64_t wants = c->v[RF_V_FAIR][r];
		int64_t floor = RF_MIN(c->v[RF_V_GUAR][r], wants);

		parts[i] = (struct part){ .q = c, .floor = floor, .need = wants - floor };
		left -= floor;
	}
	/* only if something is guaranteed without bound, or was shrunk below what is local */
	pour(parts, q->children.n, RF_MAX(left, 0), r);
}

void rf_share_fill(struct rf_queues *qs)
{
	struct part *parts;

	if (!qs->fair_stale)
		return;
	parts = rf_alloc(qs->order.n * sizeof(*parts));
	for (size_t r = 0; r < qs->n_res; r++) {
		for (size_t i = qs->order.n; i-- > 0;) {
			struct rf_queue *q = qs->order.at[i];

			q->v[RF_V_FAIR][r] = demand(q, r);
		}
		if (qs->root->v[RF_V_LIMIT][r] == RF_QUEUE_NO_LIMIT)
			continue; /* enough for everybody */
		qs->root->v[RF_V_FAIR][r] = qs->root->v[RF_V_LIMIT][r];
		for (size_t i = 0; i < qs->order.n; i++) {
			if (qs->order.at[i]->children.n > 0)
				fill_children(qs->order.at[i], r, parts);
		}
	}
	free(parts);
	qs->fair_stale = false;
}
