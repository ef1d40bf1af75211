/* Whose turn it is among the processes of a fence.
 *
 * A card that two processes keep busy switches between them every two milliseconds and loses a tenth of its
 * time by it. So those that want all they can get (rivals) take turns, as long as a lease each and best at the
 * beginning of a lease, where the card switches anyway: all but one of them, the host, are shut out.
 *
 * A process that uses little, or none at all at the moment, is never shut out: it comes in at once, tells us, and
 * the host waits until it is done, for two milliseconds at most and not too often. With one process, or several
 * that do not want the card at the same time, nobody is shut out and nobody tells anything.
 *
 * All of them are one tenant: what they say is not doubted for the sake of fairness, only so that none waits
 * for long for another that is dead, stopped or wrong. */
#include "fence/arbiter_private.h"

#define AROUND (1000 * RF_MS)	/* a process counts as around for so long after it used the card */
#define DALLY (2 * RF_MS)	/* a host that says nothing and has no work is stopped, or dead */
#define PATIENCE (10 * RF_MS)	/* with the work of one whose turn is over */
#define STALE (8 * RF_MS)	/* a process that works says so more often */
#define VISIT (2 * RF_MS)	/* the host waits for one that uses little, at most */
#define VISIT_PAUSE (8 * RF_MS) /* and not again before */

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

void rf_siblings_see(struct rf_siblings *a, unsigned seat, const struct rf_desk_seat *s,
		     uint64_t sum_ns, bool busy, int64_t now, int64_t passed)
{
	struct rf_sibling *x;
	int64_t told;
	bool was_active;

	if (seat >= RF_SIBLINGS)
		return;
	x = &a->seat[seat];
	told = most(-passed, least((int64_t)(sum_ns - x->seen_ns), passed));
	was_active = x->active;
	x->quiet = s->seq == x->seq;
	x->gone = x->gone && x->quiet;
	x->busy = busy && !x->gone;
	x->active = x->busy || (s->waiting && !x->gone);
	x->stays = x->active && was_active ? x->stays + (a->held ? passed : 0) : 0;
	x->recent = most(0, x->recent + told);
	x->until = (int64_t)s->busy_until;
	x->seen_ns = sum_ns;
	x->seq = s->seq;
	if (x->active || told > 0)
		x->active_at = now;
}

void rf_siblings_halve(struct rf_siblings *a)
{
	for (unsigned i = 0; i < a->top; i++)
		a->seat[i].recent /= 2;
	a->open /= 2;
}

/* --- who is there --- */

/* What a look at all of them tells. */
struct stock {
	int64_t heaviest; /* the most that one used lately */
	int64_t heavy_ns; /* what those that want all they can get used together */
	unsigned company; /* around */
	unsigned rivals;
	bool light; /* one that uses little wants the card */
};

static bool is_rival(const struct rf_sibling *x, const struct stock *st)
{
	return x->there && (x->recent * 3 >= st->heaviest * 2 || x->stays > RF_QUANTUM);
}

static void take_stock(struct rf_siblings *a, int64_t now, struct stock *ret)
{
	struct stock st = { 0 };

	for (unsigned i = 0; i < a->top; i++) {
		struct rf_sibling *x = &a->seat[i];

		st.heaviest = most(st.heaviest, x->recent);
		/* The host may just be between two kernels. */
		x->there = x->active ||
			   (i + 1 == a->host && !x->gone && now < x->active_at + RF_GRACE);
	}
	for (unsigned i = 0; i < a->top; i++) {
		const struct rf_sibling *x = &a->seat[i];
		bool rival = is_rival(x, &st);

		st.company += x->active_at && now - x->active_at < AROUND;
		st.rivals += rival;
		st.heavy_ns += rival ? x->recent : 0;
		st.light = st.light || (x->there && !rival);
	}
	*ret = st;
}

static struct rf_sibling *host_of(struct rf_siblings *a)
{
	return a->host ? &a->seat[a->host - 1] : NULL;
}

/* --- turns --- */

/* The turn counts while the fence has the card, or the host's work still does. A host that says nothing is given
 * up: soon if it has no work, at the end of its turn if it should have. */
static void count_turn(struct rf_siblings *a, int64_t passed)
{
	struct rf_sibling *h = host_of(a);

	if (!h || !(a->held ? a->in : h->busy))
		return;
	a->turn_ns += passed;
	if (!a->held)
		return;
	a->silent_ns = h->quiet ? a->silent_ns + passed : 0;
	if (a->rivals < 2)
		return;
	if ((!h->busy && a->silent_ns > DALLY) || a->silent_ns >= RF_QUANTUM) {
		h->gone = true;
		h->active = h->busy = false;
	}
}

static bool keeps_turn(const struct rf_siblings *a, const struct stock *st, bool fresh)
{
	if (!a->host || !is_rival(&a->seat[a->host - 1], st))
		return false;
	/* Where a lease begins a change costs nothing. */
	return st->rivals < 2 || a->turn_ns < (fresh ? RF_QUANTUM * 2 / 5 : RF_QUANTUM);
}

/* The rival whose last turn is the longest ago, plus one; 0: none. */
static unsigned next_rival(const struct rf_siblings *a, const struct stock *st)
{
	unsigned next = 0;

	for (unsigned i = 0; i < a->top; i++)
		if (is_rival(&a->seat[i], st) &&
		    (!next || a->seat[i].turn_at < a->seat[next - 1].turn_at))
			next = i + 1;
	return next;
}

/* What a turn was too short or too long the next one makes up for, within bounds. */
static void pass_on(struct rf_siblings *a, const struct stock *st, int64_t now)
{
	struct rf_sibling *old = host_of(a);
	unsigned next;

	if (old) {
		old->turn_at = now;
		old->ahead = most(-RF_QUANTUM / 2, least(a->turn_ns - RF_QUANTUM, RF_QUANTUM / 2));
	}
	next = next_rival(a, st);
	if (old && next != a->host && old->busy) {
		a->leaving = a->host;
		a->leave_by = now + PATIENCE;
	}
	a->host = next;
	a->turn_ns = next ? a->seat[next - 1].ahead : 0;
	a->silent_ns = 0;
	a->in = false;
}

/* Whether the one before is as good as gone. Without a lease nobody is in, and at its beginning neither. */
static bool has_left(const struct rf_siblings *a, bool holds, bool fresh, int64_t now)
{
	const struct rf_sibling *l;

	if (!a->leaving || a->leaving > a->top || !holds || fresh)
		return true;
	l = &a->seat[a->leaving - 1];
	return !l->busy || now >= l->until - RF_LEAD || now >= a->leave_by;
}

/* One that uses little is there: the host lets it go first. */
static void visit(struct rf_siblings *a, const struct stock *st, bool holds, int64_t now)
{
	const struct rf_sibling *h = host_of(a);

	if (a->visited && (!st->light || !holds || now >= a->visit_end)) {
		a->visited = false;
		a->visit_at = now + VISIT_PAUSE;
	} else if (!a->visited && st->light && holds && a->hogged && h && h->active &&
		   now >= a->visit_at) {
		a->visited = true;
		a->visit_end = now + VISIT;
	}
}

static void shut_out(struct rf_siblings *a, const struct stock *st)
{
	for (unsigned i = 0; i < RF_SIBLINGS / 64; i++)
		a->shut[i] = 0;
	if (st->rivals < 2 && !a->visited)
		return;
	for (unsigned i = 0; i < a->top; i++)
		if (is_rival(&a->seat[i], st) && (!a->in || i + 1 != a->host))
			a->shut[i / 64] |= 1ull << i % 64;
}

/* Everybody may come in. What they used is not forgotten. */
static void disband(struct rf_siblings *a, bool holds)
{
	a->host = a->leaving = a->rivals = 0;
	a->hogged = a->visited = a->light = a->in = false;
	for (unsigned i = 0; i < RF_SIBLINGS / 64; i++)
		a->shut[i] = 0;
	a->held = holds;
}

void rf_siblings_turn(struct rf_siblings *a, unsigned top, bool holds, bool fresh, int64_t now,
		      int64_t passed)
{
	struct stock st;

	a->top = top < RF_SIBLINGS ? top : RF_SIBLINGS;
	a->open += a->held ? passed : 0;
	if (a->top < 2) {
		disband(a, holds);
		return;
	}
	a->host = a->host <= a->top ? a->host : 0;
	count_turn(a, passed);
	take_stock(a, now, &st);
	if (st.company < 2) {
		disband(a, holds);
		return;
	}
	a->rivals = st.rivals;
	a->hogged = st.heavy_ns * 2 >= a->open;
	a->light = a->hogged && st.rivals < st.company;
	if (!keeps_turn(a, &st, fresh))
		pass_on(a, &st, now);
	if (has_left(a, holds, fresh, now))
		a->leaving = 0;
	visit(a, &st, holds, now);
	a->in = !a->leaving && !a->visited;
	a->held = holds;
	shut_out(a, &st);
}

int64_t rf_siblings_when(const struct rf_siblings *a, int64_t now)
{
	const struct rf_sibling *h = a->host ? &a->seat[a->host - 1] : NULL;
	int64_t next = INT64_MAX;

	if (!a->held)
		return next;
	if (a->leaving)
		next = least(a->seat[a->leaving - 1].until - RF_LEAD, a->leave_by);
	if (a->visited)
		next = least(next, a->visit_end);
	else if (a->light && now < a->visit_at)
		next = least(next, a->visit_at);
	if (!h || a->rivals < 2 || !a->in)
		return next;
	next = least(next, now + RF_QUANTUM - a->turn_ns);
	if (!h->active)
		return least(next, h->active_at + RF_GRACE);
	return least(next, h->busy ? most(h->until, now) + STALE : now + DALLY - a->silent_ns);
}

bool rf_siblings_compete(const struct rf_siblings *a)
{
	return a->rivals > 1;
}

bool rf_siblings_light(const struct rf_siblings *a)
{
	return a->light;
}

uint32_t rf_siblings_tell(const struct rf_siblings *a, int64_t now)
{
	uint32_t tell = a->leaving ? RF_TELL_END : 0;

	if (a->visited || (a->light && now >= a->visit_at))
		tell |= RF_TELL_BESIDE;
	return tell;
}
