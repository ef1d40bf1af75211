/* Whose turn it is on a card.
 *
 * Every fence has a budget that grows with its share of the time and shrinks with its use. Without
 * burst it is let in only while the budget lasts. Of those that want the card the one with the highest
 * priority, then the one that is furthest behind its share goes first. The holder keeps the card for a
 * quantum.
 *
 * At a handover the holder's gate is shut; the next one is let in just before what is in flight
 * should be done, so that the card finds new work when it turns to it.
 *
 * A fence without work finds its gate standing open, so that its first launch waits for nobody; it
 * tells us and gets the next lease if it is due. While such a fence that uses little of its share is
 * around, the others get short leases and little depth: then it waits for one kernel at most. If it
 * comes at regular times, nobody else is let in just before, unless they are behind themselves. */
#include "fence/arbiter_private.h"

#define RECENT (200 * RF_MS)
#define LIGHT_FOR (1000 * RF_MS) /* a fence seen to use little counts as around for so long */
#define OVERDUE (RF_MS)		 /* guesses may be wrong by so much */
#define STALE (8 * RF_MS)	 /* a process that works and is not alone says so at least every 5 ms */
#define ALONE (500 * RF_MS)	 /* a lease nobody else asks for; it can be called back */
#define GRACE_LONG (5 * RF_MS)   /* nobody wants to follow */
#define GRACE_ALONE (50 * RF_MS) /* there is nobody */
#define PATIENCE (20 * RF_MS) /* with long kernels of whoever should leave, */
#define PATIENCE_LONG (100 * RF_MS) /* if one's own are as long */
#define REMAINDER (RF_MS)	 /* of whoever left, that is done so soon after */
#define REST (60 * RF_MS)	 /* of one that wants more than its share, beside others */
#define DEBT (2000 * RF_MS)	 /* what a fence may owe for long kernels */
#define STEADY 3	      /* intervals alike, to expect the next */
#define FIRM 8		      /* and to be sure of it */
#define STEADIEST 16	      /* so that some times late in a row do not change that */
#define MISSED 3	      /* so many times later it is expected still */
#define JITTER (300 * RF_US)  /* how late one that is expected may be */
#define LATE (1200 * RF_US)   /* if one is sure of it: it costs nothing when it comes in time */
#define HOLD (3 * RF_MS)      /* nobody is held off longer for it */

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static bool wants_card(const struct rf_member *m)
{
	return m->busy || m->wants;
}

/* Whether it is believed to or not: its gate must not stay shut. */
static bool is_waiting(const struct rf_member *m)
{
	return m->wants || m->dallied;
}

static bool may_run(const struct rf_member *m)
{
	return m->burst || !m->resting;
}

static bool others_want(const struct rf_card_state *c, const struct rf_member *than)
{
	for (unsigned i = 0; i < c->n; i++)
		if (c->member[i] != than && wants_card(c->member[i]) && may_run(c->member[i]))
			return true;
	return false;
}

/* One process has the card, nobody else is there, and it may have it all: little has to be known of what it does. */
static bool is_alone(const struct rf_card_state *c)
{
	return c->n == 1 && c->member[0]->burst &&
	       __atomic_load_n(&c->member[0]->desk->top, __ATOMIC_RELAXED) <= 1;
}

/* --- what the processes say --- */

#define SOON (10 * RF_MS)  /* nothing begins later than that after now: it is one clock */
#define FAR (2000 * RF_MS) /* and nobody knows what will be after that */
#define DALLY (5 * RF_MS)  /* who waits at a gate that is open so long is stopped, or lies */
#define LATER (500 * RF_MS) /* of time that was told too early or too late, so much is remembered */
#define ASKED 32	   /* seats whose process is looked for, at a time */

/* What the process says is bounded by the clock, so that no sum below can overflow. */
static void bound(struct rf_desk_seat *s, uint64_t now)
{
	if (s->busy_from > now + SOON)
		s->busy_from = 0;
	s->busy_from = s->busy_from < now ? s->busy_from : now;
	if (s->busy_until > now + FAR)
		s->busy_until = now + FAR;
	if (s->busy_until < s->busy_from)
		s->busy_until = s->busy_from;
}

/* One seat's time with work in flight up to now. Garbage may make it wrap round. */
static uint64_t seat_ns(const struct rf_desk_seat *s, uint64_t now)
{
	if (s->busy_from == 0)
		return s->gpu_ns;
	return s->gpu_ns + (s->busy_until < now ? s->busy_until : now) - s->busy_from;
}

static bool is_there(const struct rf_member *m, unsigned seat)
{
	return m->ledger_fd < 0 || rf_ledger_holder(m->ledger_fd, seat) != 0;
}

/* How far apart two intervals may be and still be alike. */
static int64_t regular(const struct rf_member *m)
{
	return most(m->period / 16, JITTER / 2);
}

/* It began to work: does it do so at regular times? begun_at follows slowly, since threads wake up late at times
 * and are in step again the next time; who did so for long is still expected where it would have come
 * without the times that it was too late or too early, until those are the most. Some that we did not see, or
 * that it left out, do not matter. */
static void began(struct rf_member *m, int64_t at)
{
	int64_t since = at - m->begun_at, times = 1, off;
	bool known = m->steady >= STEADY;

	if (known)
		times = most(1, (since + m->period / 2) / m->period);
	off = since - times * m->period;
	if (times <= MISSED && off <= regular(m) && off >= -regular(m)) {
		m->steady += m->steady < STEADIEST;
		m->begun_at += times * m->period + (off > 0 ? off / 4 : off / 2);
		m->period = most(1, m->period + off / (4 * times));
	} else if (known && --m->steady >= STEADY && times <= MISSED) {
		m->begun_at += times * m->period;
	} else {
		m->steady = 0;
		m->period = most(1, since);
		m->begun_at = at;
	}
}

/* It has had the card to itself since the last look. */
static bool had_lease(const struct rf_member *m, int64_t now, int64_t passed)
{
	uint64_t until = m->gate->open_until;

	return until < RF_GATE_STANDING && until > (uint64_t)(now - passed);
}

/* Who does not come in at an open gate does not want to. */
static bool dallies(struct rf_member *m, bool waits, int64_t now)
{
	uint64_t until = m->gate->open_until;

	if (!waits || m->busy || m->ended) {
		m->loiters = 0;
		return false;
	}
	m->loiters = m->loiters ? m->loiters : now;
	if (until == 0 || until == RF_GATE_FREE)
		return m->dallied;
	until = until < (uint64_t)now ? until : (uint64_t)now;
	return m->dallied || (int64_t)until - most(m->loiters, m->lease_from) > DALLY;
}

/* More than the clock says cannot be. Less is a guess taken back: half of what was charged for it at
 * most, or one could have the card for nothing by taking everything back. What has ended never gets less:
 * whoever says so is not believed at all. */
static int64_t believe(struct rf_member *m, uint64_t sum, uint64_t finished, bool worked,
		       int64_t overdue, int64_t passed, int64_t floor)
{
	int64_t told = (int64_t)(sum - (uint64_t)m->seen_ns), used;

	told = least(most(told, INT64_MIN / 2), INT64_MAX / 2); /* so that it can be turned round, and added to */
	/* What several processes told at once was cut to the time there was: it is taken back first. */
	if (told < 0) {
		int64_t cut = least(-told, m->cut);

		told += cut;
		m->cut -= cut;
	}
	/* What was guessed to be done, and was not (overdue), may be charged later. */
	used = most(-m->lent / 2, least(told, passed + m->missed));
	if ((int64_t)(finished - (uint64_t)m->finished_ns) < 0)
		used = passed;
	m->cut = worked ? least(m->cut + most(told - used, 0), LATER) : 0;
	m->missed = worked ? most(0, least(m->missed + least(passed - most(used, floor), overdue), LATER)) : 0;
	/* The rent is not lent: taking back starts above it. */
	m->lent = most(0, least(m->lent + least(used, most(0, used - floor)),
				(int64_t)(sum - finished)));
	m->ended = finished != (uint64_t)m->finished_ns;
	m->finished_ns = (int64_t)finished;
	m->seen_ns = (int64_t)sum;
	return used;
}

/* The least that is charged, whatever is said. For a lease that kept the card from others who want it: half of the
 * time if there is something to do, all if it waits at the open gate and does not come in, and for one that says it
 * is done half of what it said it would take: or one could be busy at every other look. At a gate that is shut
 * nothing begins: who has work before and after had it all the time. */
static int64_t rent(const struct rf_member *m, bool kept, bool was_busy, bool waits, int64_t said,
		    int64_t passed, int64_t now)
{
	if (was_busy && m->busy && m->gate->open_until <= (uint64_t)(now - passed))
		return most(0, least(now, m->until) - (now - passed));
	if (!kept || !had_lease(m, now, passed))
		return 0;
	if (m->busy || waits)
		return waits && !m->busy && m->dallied ? passed : passed / 2;
	return m->newcomer ? 0 : least(passed, most(said, OVERDUE)) / 2;
}

/* How long it keeps the card once it has launched: seldom seen at its beginning, so at least as long as one of
 * its launches takes. */
static void note_batch(struct rf_member *m, uint64_t finished, uint32_t launches, int64_t now)
{
	int64_t took = (int64_t)(finished - (uint64_t)m->finished_ns);
	int64_t seen = m->busy ? m->until - now : 0;

	if (took > 0) {
		uint32_t n = launches - m->launches;

		seen = n > 0 ? most(seen, took / n) : seen;
		m->launches = launches;
	}
	m->batch = most(took > 0 ? m->batch * 31 / 32 : m->batch, least(seen, FAR));
}

/* Returns the time used since the last look. kept: it held the card since then, and others wanted it. alone: what it tells
 * late takes nothing from anybody. beside: so long the card worked for others that were there, if it shares itself evenly:
 * what was in flight is done so much later than its process thought when it said so. */
static int64_t look(struct rf_member *m, bool kept, bool alone, int64_t beside, int64_t now,
		    int64_t passed)
{
	uint32_t top = __atomic_load_n(&m->desk->top, __ATOMIC_ACQUIRE);
	uint64_t sum = 0, finished = 0;
	uint32_t launches = 0, seqs = 0;
	int64_t used, floor, from = now, came = 0, overdue = 0, said = m->until - (now - passed);
	bool was_busy = m->busy, had_work = m->working, waits = false;
	unsigned asked = 0, first;

	m->newcomer = !wants_card(m);
	m->busy = m->working = false;
	m->until = 0;
	top = top < RF_LEDGER_SEATS ? top : RF_LEDGER_SEATS;
	for (unsigned i = 0; i < top; i++)
		seqs += __atomic_load_n(&m->desk->seat[m->card][i].seq, __ATOMIC_RELAXED);
	/* What it said since then it said knowing most of it. */
	m->slowed = !was_busy ? 0 : seqs != m->seqs ? least(beside, RF_MS / 2) : least(m->slowed + beside, PATIENCE);
	m->seqs = seqs;
	first = top ? (unsigned)((uint64_t)now / RF_US % top) : 0; /* so that all have their chance */
	for (unsigned i = 0; i < top; i++) {
		unsigned seat = (first + i) % top;
		struct rf_desk_seat s = { 0 };
		bool busy;

		rf_desk_read(&m->desk->seat[m->card][seat], &s);
		bound(&s, (uint64_t)now);
		s.busy_until += s.busy_from ? (uint64_t)m->slowed : 0;
		sum += seat_ns(&s, (uint64_t)now);
		finished += s.gpu_ns;
		launches += s.launches;
		busy = s.busy_from && now < (int64_t)s.busy_until + OVERDUE;
		if (s.busy_from) {
			m->working = true;
			overdue = most(overdue, least(passed, now - (int64_t)s.busy_until));
		}
		if (top > 1 && !m->spatial)
			rf_siblings_see(&m->among, seat, &s, seat_ns(&s, (uint64_t)now), busy, now,
					passed);
		if (busy) {
			m->busy = true;
			m->until = most(m->until, (int64_t)s.busy_until);
			from = least(from, (int64_t)s.busy_from);
		} else if (!s.busy_from && now - (int64_t)s.busy_until < passed) {
			came = came ? least(came, (int64_t)s.busy_until) : (int64_t)s.busy_until;
		}
		if (s.waiting && !waits && asked++ < ASKED)
			waits = is_there(m, seat);
	}
	m->lasting = m->working && had_work && !m->busy && !waits;
	m->since = from;
	if (was_busy && !m->busy)
		m->idle_at = now;
	/* What is short may have come and gone since the last look. */
	if (!was_busy && (m->busy || came))
		began(m, m->busy ? from : least(came, now));
	note_batch(m, finished, launches, now);
	floor = rent(m, kept, was_busy, waits, said, passed, now);
	used = believe(m, sum, finished, had_work || m->working || alone, alone ? passed : overdue,
		       passed, floor);
	m->dallied = dallies(m, waits, now);
	m->wants = waits && !m->dallied;
	return floor > 0 ? most(used, floor) : used;
}

/* --- charging --- */

/* Together they are charged no more than the time that passed, and what is told late no more than what nobody was
 * charged for before. Whoever left a moment ago is charged only for what the others did not use: its last work is done
 * in the holder's time, and the other way round at the next handover. */
static void divide(struct rf_card_state *c, int64_t passed, int64_t used[RF_MEMBERS])
{
	int64_t left = passed, sum = 0, late[RF_MEMBERS];

	for (unsigned i = 0; i < c->n; i++) {
		late[i] = most(0, used[i] - passed);
		used[i] -= late[i];
	}

	for (unsigned i = 0; i < c->n; i++)
		sum += c->member[i] != c->left ? most(0, used[i]) : 0;
	for (unsigned i = 0; i < c->n; i++) {
		if (c->member[i] == c->left || used[i] <= 0)
			continue;
		used[i] = sum > passed ? (int64_t)((__int128)used[i] * passed / sum) : used[i];
		left -= used[i];
	}
	for (unsigned i = 0; i < c->n; i++)
		if (c->member[i] == c->left)
			used[i] = least(used[i], most(left, 0));
	c->unused = least(c->unused + passed, LATER);
	for (unsigned i = 0; i < c->n; i++) {
		c->unused = most(0, c->unused - most(0, used[i]));
		late[i] = least(late[i], c->unused);
	}
	for (unsigned i = 0; i < c->n; i++) {
		used[i] += late[i];
		c->unused -= late[i];
	}
}

/* Who has been waiting may save up more than who did not want the card; who has not said that its work is done may have
 * used more than it will have told by now. */
static int64_t save(const struct rf_member *m, int64_t budget)
{
	bool wanted = (wants_card(m) && !m->newcomer) || m->lasting;
	/* Time that may still be charged to it is saved beyond that: its work took longer than it said, perhaps. */
	int64_t most_ = wanted ? RF_CREDIT : least(RF_CREDIT, (RF_PERIOD + m->missed) * m->share / 1000);

	return least(budget, most(most_, m->budget));
}

/* It has work in flight, or is just about to. */
static bool has_work(const struct rf_card_state *c, const struct rf_member *m)
{
	return !m->spatial && (m->busy || (m == c->holder && m->wants));
}

static void charge(struct rf_card_state *c, int64_t now)
{
	int64_t passed = now - c->last;
	int64_t used[RF_MEMBERS];

	bool crowded = c->holder && others_want(c, c->holder), alone = is_alone(c);
	unsigned busy = 0;

	for (unsigned i = 0; i < c->n; i++)
		busy += has_work(c, c->member[i]);
	for (unsigned i = 0; i < c->n; i++)
		used[i] = look(c->member[i], crowded && c->member[i] == c->holder, alone,
			       busy > 1 && !c->member[i]->spatial ? passed - passed / busy : 0, now, passed);
	if (c->left && c->left->busy && c->holder && now > c->holder->lease_from + REMAINDER)
		c->left = NULL; /* the card slices its time between them */
	if (!alone)
		divide(c, passed, used);
	for (unsigned i = 0; i < c->n; i++) {
		struct rf_member *m = c->member[i];
		int64_t ns = used[i];
		m->budget = save(m, m->budget + passed * m->share / 1000 - ns);
		m->budget = most(m->budget, m->burst ? -RF_QUANTUM : -DEBT);
		m->behind += ns * 1000 / m->share;
		m->used += ns;
		m->recent += ns;
		if (m->used > (int64_t)m->gate->gpu_ns) /* people's counters never fall */
			__atomic_store_n(&m->gate->gpu_ns, (uint64_t)m->used, __ATOMIC_RELAXED);
	}
	for (; now - c->halved >= RECENT; c->halved += RECENT)
		for (unsigned i = 0; i < c->n; i++) {
			c->member[i]->recent /= 2;
			rf_siblings_halve(&c->member[i]->among);
		}
	c->last = now;
}

/* Who was away does not bring back time that nobody kept for it: at most a quantum. Where nobody is seen to keep the card,
 * those count that worked since the last look: one that works briefly, again and again, may be seen so for ever. */
static void catch_up(struct rf_card_state *c)
{
	int64_t front = INT64_MAX, worked = INT64_MAX;

	for (unsigned i = 0; i < c->n; i++) {
		const struct rf_member *m = c->member[i];

		if (wants_card(m) && !m->newcomer)
			front = least(front, m->behind);
		if (m->busy || m->ended)
			worked = least(worked, m->behind);
	}
	front = front == INT64_MAX ? worked : front;
	if (front == INT64_MAX)
		return;
	c->settled = most(c->settled, front);
	for (unsigned i = 0; i < c->n; i++)
		c->member[i]->behind = most(c->member[i]->behind,
					    c->settled - RF_QUANTUM * 1000 / c->member[i]->share);
}

/* --- gates --- */

/* Whether one of the fence's processes may come in that could not before. */
static bool set_shut(struct rf_member *m)
{
	struct rf_gate_card *g = m->gate;
	bool opened = false;

	for (unsigned i = 0; i < RF_SIBLINGS / 64; i++) {
		opened = opened || (g->shut[i] & ~m->among.shut[i]);
		if (g->shut[i] != m->among.shut[i])
			__atomic_store_n(&g->shut[i], m->among.shut[i], __ATOMIC_RELAXED);
	}
	if (g->host != m->among.host)
		__atomic_store_n(&g->host, m->among.host, __ATOMIC_RELAXED);
	return opened;
}

static void set_gate(struct rf_member *m, uint64_t until, int64_t depth, uint32_t tell,
		     void (*woken)(struct rf_gate_card *g))
{
	struct rf_gate_card *g = m->gate;
	uint64_t before = g->open_until;
	bool opened = set_shut(m);

	__atomic_store_n(&g->depth_us, (uint32_t)(depth / RF_US), __ATOMIC_RELAXED);
	__atomic_store_n(&g->tell, tell, __ATOMIC_RELEASE);
	if (before != until)
		__atomic_store_n(&g->open_until, until, __ATOMIC_RELEASE);
	if (until > before || (opened && until)) {
		__atomic_add_fetch(&g->turn, 1, __ATOMIC_RELEASE);
		woken(g);
	}
}

/* --- choosing --- */

/* Uses clearly less of its share than the other of its own, and has some left. */
static bool is_lighter(const struct rf_member *m, const struct rf_member *than)
{
	return m->budget > 0 && m->recent * than->share * 3 < than->recent * m->share * 2;
}

/* Whether a goes before b, both wanting the card. Priority counts within one's own share; above it
 * those come first that are still within theirs. */
static bool before(const struct rf_member *a, const struct rf_member *b)
{
	const struct rf_member *high = a->priority > b->priority ? a : b;
	const struct rf_member *low = high == a ? b : a;

	if (a->priority == b->priority)
		return a->behind < b->behind;
	return high->budget > 0 || low->budget <= 0 ? high == a : low == a;
}

static struct rf_member *best(const struct rf_card_state *c)
{
	struct rf_member *top = NULL;

	for (unsigned i = 0; i < c->n; i++) {
		struct rf_member *m = c->member[i];

		if (wants_card(m) && may_run(m) && (!top || before(m, top)))
			top = m;
	}
	return top;
}

/* A fence rests when its budget is used up, until it has enough for a while: a period's worth, beside others for a whole
 * lease, where each handover costs, if it need not rest too long for it. */
static int64_t enough(const struct rf_card_state *c, const struct rf_member *m)
{
	int64_t ns = RF_PERIOD * m->share / 1000;

	if (m->spatial || !others_want(c, m))
		return ns;
	return most(ns, least(RF_QUANTUM * (1000 - m->share) / 1000, REST * m->share / 1000));
}

/* What is left in the end is not worth a lease: it would be over before all streams have come in. */
static void rest(const struct rf_card_state *c, struct rf_member *m)
{
	if (m->budget <= enough(c, m) / 16)
		m->resting = true;
	else if (m->budget >= enough(c, m) || !m->wants)
		m->resting = false;
}

static int64_t rested_at(const struct rf_card_state *c, const struct rf_member *m, int64_t now)
{
	return now + most((enough(c, m) - m->budget) * 1000 / m->share, RF_US);
}

static bool light_one_around(const struct rf_card_state *c, const struct rf_member *than,
			     int64_t now)
{
	for (unsigned i = 0; i < c->n; i++) {
		const struct rf_member *m = c->member[i];

		if (m != than && now - m->begun_at < LIGHT_FOR && is_lighter(m, than))
			return true;
	}
	return false;
}

/* How long by waits for m, who is expected. One that must pause anyway has time: half of its pauses. */
static int64_t lateness(const struct rf_member *m, const struct rf_member *by)
{
	int64_t patience = least(LATE, m->period / 8);

	if (m->steady < FIRM)
		return JITTER;
	if (!by->burst)
		patience = most(patience, least(HOLD, m->period * (1000 - by->share) / 2000));
	return most(JITTER, patience);
}

/* When it should come next, as seen by one that would wait for it. */
static int64_t due(const struct rf_member *m, const struct rf_member *by, int64_t now)
{
	int64_t at = m->begun_at + m->period;

	for (int i = 1; i < MISSED && now >= at + lateness(m, by); i++)
		at += m->period;
	return at;
}

/* Is m around, uses little, comes at regular times, and is not there just now? */
static bool is_expected(const struct rf_member *m, const struct rf_member *by)
{
	return m != by && m->steady >= STEADY && is_lighter(m, by) && !wants_card(m);
}

/* The last moment for m to begin something that is done before another one comes that is expected. */
static int64_t clear_until(const struct rf_card_state *c, const struct rf_member *m, int64_t now)
{
	int64_t end = INT64_MAX;

	if (m->budget > RF_CREDIT / 2)
		return end;
	for (unsigned i = 0; i < c->n; i++) {
		const struct rf_member *e = c->member[i];
		int64_t at = due(e, m, now);

		if (is_expected(e, m) && at > now && m->batch < HOLD)
			end = least(end, at - m->batch);
	}
	return most(end, now + 100 * RF_US);
}

/* Gives the card to m, or lets it go on. */
static void lease(struct rf_card_state *c, struct rf_member *m, int64_t now)
{
	bool light = light_one_around(c, m, now);
	int64_t quantum = light ? RF_QUANTUM_SHORT : RF_QUANTUM;

	if (!light && !others_want(c, m))
		quantum = ALONE;
	if (!m->burst && m->share < 1000) /* budget grows while it runs */
		quantum = least(quantum, most(m->budget * 1000 / (1000 - m->share), 100 * RF_US));
	m->lease_from = now;
	m->lease_end = least(now + quantum, clear_until(c, m, now));
	c->holder = m;
}

static int64_t grace(const struct rf_card_state *c)
{
	if (others_want(c, c->holder) || rf_siblings_compete(&c->holder->among))
		return RF_GRACE;
	return is_alone(c) ? GRACE_ALONE : GRACE_LONG;
}

/* A long lease was for as long as nobody else asks. */
static int64_t lease_end(const struct rf_member *h)
{
	return least(h->lease_end, h->lease_from + RF_QUANTUM);
}

static bool keeps(const struct rf_card_state *c, const struct rf_member *next, int64_t now)
{
	const struct rf_member *h = c->holder;

	if (!h || !may_run(h))
		return false;
	if (!wants_card(h))
		return now < h->idle_at + grace(c);
	if (now >= (next && next != h ? lease_end(h) : h->lease_end))
		return false;
	if (!next || next == h)
		return true;
	/* Who uses little or has priority need not wait for the end of the lease. */
	return !is_lighter(next, h) && !(next->priority > h->priority && next->budget > 0);
}

/* Whether the one that leaves is as good as gone. Who came in by a standing gate is there already. */
static bool may_follow(const struct rf_card_state *c, const struct rf_member *next, int64_t now)
{
	const struct rf_member *l = c->leaving;

	return !l || l == next || !l->busy || next->busy || now >= l->until - RF_LEAD ||
	       now >= c->leave_by;
}

/* Until when next must wait for one that is expected to come first; 0: not at all. */
static int64_t held_for(const struct rf_card_state *c, const struct rf_member *next, int64_t now)
{
	if (next->budget > RF_CREDIT / 2)
		return 0;
	for (unsigned i = 0; i < c->n; i++) {
		const struct rf_member *m = c->member[i];
		int64_t at = due(m, next, now), late = lateness(m, next);

		if (is_expected(m, next) && now < at + late &&
		    at - now < least(next->batch + JITTER / 2, HOLD))
			return at + late;
	}
	return 0;
}

/* How long next waits for the work of l to end, before the card has to slice its time between them: who uses all it can
 * get has less haste, and whose own kernels are long even less. */
static int64_t patience(const struct rf_member *next, const struct rf_member *l)
{
	if (!next || !l || is_lighter(next, l))
		return PATIENCE;
	return most(2 * PATIENCE, least(next->batch, PATIENCE_LONG));
}

static void hand_over(struct rf_card_state *c, struct rf_member *next, int64_t now)
{
	bool stays = c->holder == next;

	if (c->holder && c->holder->busy && c->holder != next) {
		c->leaving = c->holder;
		c->shut_at = now;
	}
	c->leave_by = c->shut_at + patience(next, c->leaving);
	c->holder = NULL;
	c->held_until = next ? held_for(c, next, now) : 0;
	if (!next || c->held_until || !may_follow(c, next, now))
		return;
	c->left = c->leaving && c->leaving != next && c->leaving->until <= now + RF_LEAD
			  ? c->leaving
			  : NULL;
	c->leaving = NULL;
	lease(c, next, now);
	next->fresh = !stays;
}

/* The holder tells when it has no work any more, but not again and again: a program that waits for
 * each of its kernels would do little else. In between we look by ourselves. */
static uint32_t tell_end(const struct rf_card_state *c, struct rf_member *m, int64_t now)
{
	if (wants_card(m) && (m->gate->tell & RF_TELL_END) && !m->ended)
		return RF_TELL_END;
	if (!wants_card(m) || now < m->tell_at)
		return 0;
	m->tell_at = now + grace(c);
	return RF_TELL_END;
}

/* How the gate stands for one without work. One that may just be between two kernels must not start the next
 * in the way of somebody who is expected. */
static uint64_t standing(const struct rf_card_state *c, const struct rf_member *m, int64_t now)
{
	int64_t end = clear_until(c, m, now);

	if (held_for(c, m, now))
		return 0;
	return end == INT64_MAX ? RF_GATE_STANDING : (uint64_t)end;
}

/* Whose turn it is within the fence. Without a lease and without work everybody may come in. */
static void share_inside(struct rf_member *m, bool holds, int64_t now, int64_t passed)
{
	uint32_t top = __atomic_load_n(&m->desk->top, __ATOMIC_RELAXED);
	unsigned host = m->among.host;

	if (m->spatial)
		return;
	rf_siblings_turn(&m->among, holds || wants_card(m) ? top : 0, holds, holds && m->fresh, now,
			 passed);
	m->fresh = false;
	if (m->among.host != host)
		m->loiters = 0; /* another one may come in, who did not dally */
}

static void write_gates(struct rf_card_state *c, int64_t now, int64_t passed,
			void (*woken)(struct rf_gate_card *g))
{
	for (unsigned i = 0; i < c->n; i++) {
		struct rf_member *m = c->member[i];
		bool holds = m == c->holder;
		bool light = light_one_around(c, m, now) || rf_siblings_light(&m->among);
		int64_t depth = light ? RF_DEPTH_SHORT : is_alone(c) ? RF_DEPTH_ALONE : RF_DEPTH;

		share_inside(m, holds, now, passed);
		if (m == c->leaving)
			set_gate(m, 0, depth, RF_TELL_END, woken);
		else if (holds)
			set_gate(m, (uint64_t)m->lease_end, depth,
				 tell_end(c, m, now) | rf_siblings_tell(&m->among, now), woken);
		else if (!wants_card(m) && !m->resting)
			set_gate(m, standing(c, m, now), depth, RF_TELL_BEGIN, woken);
		else
			set_gate(m, 0, depth, 0, woken);
	}
}

/* --- all have the card together --- */

static int64_t together(struct rf_card_state *c, int64_t now, void (*woken)(struct rf_gate_card *g))
{
	int64_t next = INT64_MAX;

	for (unsigned i = 0; i < c->n; i++) {
		struct rf_member *m = c->member[i];
		bool light = light_one_around(c, m, now);
		int64_t depth = light ? RF_DEPTH_SHORT : RF_DEPTH;
		int64_t held = wants_card(m) ? held_for(c, m, now) : 0;
		int64_t lasts =
			least(light ? RF_QUANTUM_SHORT : RF_QUANTUM, most(m->budget, RF_MS));
		int64_t end = least(now + lasts, clear_until(c, m, now));

		rest(c, m);
		if (!may_run(m) || held) {
			set_gate(m, 0, depth, 0, woken);
			if (is_waiting(m))
				next = least(next, held ? held : rested_at(c, m, now));
		} else if (!wants_card(m)) {
			set_gate(m, standing(c, m, now), depth, RF_TELL_BEGIN, woken);
		} else if (m->wants || m->gate->tell & RF_TELL_BEGIN) {
			set_gate(m, (uint64_t)end, depth, RF_TELL_END, woken);
		}
	}
	return next == INT64_MAX ? next : most(next, now + 20 * RF_US);
}

/* --- the turn --- */

static bool all_spatial(const struct rf_card_state *c)
{
	for (unsigned i = 0; i < c->n; i++)
		if (!c->member[i]->spatial)
			return false;
	return true;
}

/* How long nothing need be heard of the holder after its work should be done. It may be done and not say so, as a program
 * that looks by itself; or still have to say what it launched since. */
static int64_t silence(const struct rf_card_state *c, const struct rf_member *h)
{
	return others_want(c, h) ? most(OVERDUE, least((h->until - h->since) / 2, STALE)) : STALE;
}

static int64_t when(const struct rf_card_state *c, int64_t now)
{
	const struct rf_member *h = c->holder;
	int64_t next = INT64_MAX;

	for (unsigned i = 0; i < c->n; i++)
		if (c->member[i]->resting && is_waiting(c->member[i]))
			next = least(next, rested_at(c, c->member[i], now));
	if (c->leaving)
		next = least(next, others_want(c, c->leaving) ?
					   least(c->leaving->until - RF_LEAD, c->leave_by) :
					   now + RF_MS / 4);
	if (!h && c->held_until)
		next = least(next, c->held_until);
	if (h && wants_card(h) && !(h->gate->tell & RF_TELL_END))
		next = least(next, h->tell_at);
	if (h)
		next = least(next, rf_siblings_when(&h->among, now));
	if (h && wants_card(h))
		next = least(next, most(h->until, now) + silence(c, h));
	if (h && !wants_card(h))
		next = least(next, h->idle_at + grace(c));
	else if (h && others_want(c, h)) /* who is still first then keeps it for a while */
		next = least(next, now < lease_end(h) ? lease_end(h) : now + RF_MS);
	return next == INT64_MAX ? next : most(next, now + 20 * RF_US);
}

int64_t rf_turns(struct rf_card_state *c, int64_t now, void (*woken)(struct rf_gate_card *g))
{
	int64_t passed = now - c->last;
	struct rf_member *next;

	charge(c, now);
	catch_up(c);
	if (c->leaving && !c->leaving->busy)
		c->leaving = NULL;
	if (c->n == 1 && c->member[0]->share >= 1000 && !c->member[0]->spatial) {
		rf_siblings_turn(&c->member[0]->among, 0, true, false, now, passed);
		set_gate(c->member[0], RF_GATE_FREE, RF_DEPTH, 0, woken);
		return INT64_MAX;
	}
	if (all_spatial(c))
		return together(c, now, woken);
	for (unsigned i = 0; i < c->n; i++)
		rest(c, c->member[i]);
	next = best(c);
	if (!keeps(c, next, now))
		hand_over(c, next, now);
	write_gates(c, now, passed, woken);
	return when(c, now);
}

void rf_turns_add(struct rf_card_state *c, struct rf_member *m, int64_t now)
{
	if (c->n == 0)
		c->last = c->halved = now;
	m->share = m->share > 0 && m->share < 1000 ? m->share : 1000;
	m->behind = c->settled;
	m->budget = RF_PERIOD * m->share / 1000;
	m->begun_at = now; /* it may turn out to use little */
	m->gate->share_milli = (uint32_t)m->share;
	for (unsigned i = 0; i < c->n; i++)
		c->member[i]->missed = 0; /* of the time in which it was alone */
	c->member[c->n++] = m;
}

void rf_turns_remove(struct rf_card_state *c, struct rf_member *m)
{
	for (unsigned i = 0; i < c->n; i++) {
		if (c->member[i] == m) {
			c->member[i] = c->member[--c->n];
			break;
		}
	}
	if (c->holder == m)
		c->holder = NULL;
	if (c->leaving == m)
		c->leaving = NULL;
	if (c->left == m)
		c->left = NULL;
}
