/* Control: takes the core's decisions, holds them against the reference, and writes them one by one. */
#include "sched/test_core_world.h"

/* --- decisions -------------------------------------------------------------------------------- */

struct pod *world_find(struct world *w, struct rf_str uid)
{
	for (int i = 0; i < PODS; i++)
		if (w->pods[i].uid[0] != 0 && (w->pods[i].known || w->pods[i].live) && rf_str_is(uid, w->pods[i].uid))
			return &w->pods[i];
	return NULL;
}

static int number_after(struct rf_str s, const char *prefix)
{
	int64_t n = 0;
	size_t k = strlen(prefix);

	if (!rf_str_starts(s, rf_str(prefix)) || rf_str_int(rf_str_skip(s, k), &n, NULL) < 0)
		return NOBODY;
	return (int)n;
}

static bool read_place(struct world *w, const struct rf_core_decision *d, struct place *ret)
{
	*ret = (struct place){ .node = number_after(d->node, "node-") };
	CHECK(w, ret->node >= 0 && ret->node < NODES, "I1 bind %.*s to %.*s: no such node", RF_STR(d->uid), RF_STR(d->node));
	CHECK(w, d->n_grants <= GRANTS, "I1 bind %.*s: %zu grants", RF_STR(d->uid), d->n_grants);
	for (size_t i = 0; i < d->n_grants; i++) {
		const struct rf_sched_grant *g = &d->grants[i];
		struct held *h = &ret->held[ret->n++];

		*h = (struct held){ .card = number_after(g->device, "gpu-"),
				    .container = number_after(g->container, "c"),
				    .bytes = g->bytes,
				    .milli = g->milli,
				    .start = g->start,
				    .profile = NOBODY,
				    .whole = g->whole };
		for (int k = 0; k < PROFILES; k++)
			if (rf_str_is(g->profile, profile_names[k]))
				h->profile = k;
		CHECK(w, g->profile.n == 0 || h->profile != NOBODY, "I21 bind %.*s: profile %.*s", RF_STR(d->uid), RF_STR(g->profile));
	}
	return true;
}

static void push_write(struct world *w, enum write_kind kind, int pod)
{
	if (w->n_writes == WRITES) {
		broke(w, "I9 more than %d writes wait", WRITES);
		return;
	}
	w->writes[w->n_writes++] = (struct write){ kind, pod, w->pods[pod].serial, w->commits };
}

static uint64_t mix(uint64_t h, struct rf_str s)
{
	for (size_t i = 0; i < s.n; i++)
		h = (h ^ (uint8_t)s.p[i]) * UINT64_C(0x100000001b3);
	return h ^ h >> 31;
}

static uint64_t digest_of(uint64_t h, const struct rf_core_decision *d)
{
	h = mix(h ^ (uint64_t)d->verdict ^ (uint64_t)d->promised << 8 ^ (uint64_t)d->commit_left << 16, d->uid);
	h = mix(mix(mix(h, d->node), d->reason), d->tenant);
	for (size_t i = 0; i < d->n_grants; i++) {
		const struct rf_sched_grant *g = &d->grants[i];

		h = mix(mix(mix(h, g->container), g->device), g->profile);
		h ^= (uint64_t)g->bytes * 3 + (uint64_t)g->milli * 7 + (uint64_t)g->start * 11 + g->whole;
	}
	return h;
}

static void say_decision(struct world *w, const struct rf_core_decision *d)
{
	static const char *const verdicts[] = { "bind", "wait", "release", "evict" };

	if (!w->loud)
		return;
	printf("  %8" PRId64 "  => %s %.*s %.*s%s left %zu", w->now, verdicts[d->verdict], RF_STR(d->uid), RF_STR(d->node),
	       d->promised ? " promised" : "", d->commit_left);
	for (size_t i = 0; i < d->n_grants; i++)
		printf(" [%.*s %.*s%s start %d, %d milli]", RF_STR(d->grants[i].device), RF_STR(d->grants[i].profile),
		       d->grants[i].whole ? "whole" : "", (int)d->grants[i].start, (int)d->grants[i].milli);
	printf(" %.*s\n", RF_STR(d->reason));
}

static bool names_pod(struct world *w, const struct rf_core_decision *d, int *ret)
{
	struct pod *p = world_find(w, d->uid);
	int t;

	CHECK(w, p != NULL, "I16 decision %d on %.*s, which is not there", d->verdict, RF_STR(d->uid));
	t = space_tenant(p->space);
	CHECK(w, rf_str_is(d->ns, space_name(p->space)) && rf_str_is(d->name, p->name), "I16 decision on %s names %.*s/%.*s", p->uid,
	      RF_STR(d->ns), RF_STR(d->name));
	CHECK(w, rf_str_is(d->tenant, t != NOBODY ? tenant_names[t] : ""), "I8 decision on %s of %s is for tenant %.*s", p->uid,
	      space_name(p->space), RF_STR(d->tenant));
	*ret = (int)(p - w->pods);
	return true;
}

static bool take_bind(struct world *w, const struct rf_core_decision *d, int i)
{
	struct pod *p = &w->pods[i];
	struct place at;

	if (!read_place(w, d, &at) || !ref_bind(w, d, i, &at))
		return false;
	w->n.binds++;
	w->fresh_binds += !p->remade;
	w->n.promised += d->promised;
	for (int k = 0; k < at.n; k++) {
		w->n.slices += at.held[k].profile != NOBODY;
		w->n.wholes += at.held[k].whole;
		w->n.shares += !at.held[k].whole && at.held[k].profile == NOBODY;
	}
	if (!d->promised)
		p->place = at;
	p->flying = true;
	p->why[0] = 0;
	return true;
}

/* Members that are there or promised and do not go, as far as the core was told. */
static int64_t members(const struct world *w, int group)
{
	int64_t n = 0;

	for (int i = 0; i < PODS; i++) {
		const struct pod *p = &w->pods[i];
		int node;

		if (p->group != group || !p->known || p->evicted || (!p->dirty && (!p->live || p->ended || p->deleting)))
			continue;
		n += p->flying || p->node != NOBODY || p->claim_dirty || ref_there(p, &node);
	}
	return n;
}

/* Those that have a place and are not to go with their gang, or had one and ended well. That one ended or goes, and nobody
 * told yet, is not known. */
static int64_t left_of(const struct world *w, int group)
{
	int64_t n = 0;

	for (int i = 0; i < PODS; i++) {
		const struct pod *p = &w->pods[i];

		if (p->group == group && p->known && p->node != NOBODY && !(p->evicted && !p->ended && p->whole))
			n += p->dirty || (p->live && !p->deleting && (!p->ended || ref_ended_well(p)));
	}
	return n;
}

/* I10: what is decided makes the gang whole, the first time and whenever none of it is left. */
static bool gang_whole(struct world *w, int group, bool says_anew)
{
	int64_t n;

	if (group == NOBODY || !w->groups[group].exists || (w->groups[group].started && left_of(w, group) > 0))
		return true;
	CHECK(w, !w->groups[group].started || says_anew, "I10 gang %s starts anew, and does not say so", w->groups[group].name);
	n = members(w, group);
	CHECK(w, n >= w->groups[group].min, "I10 gang %s gets %d members, min is %d", w->groups[group].name, (int)n,
	      (int)w->groups[group].min);
	return true;
}

/* A commit: all claims before the first binding. */
static bool take_commit(struct world *w, const struct rf_core_decision *d, size_t n)
{
	int pods[PODS], fresh[PODS] = { 0 };
	size_t n_fresh = 0;

	CHECK(w, n <= PODS, "I10 a commit of %zu", n);
	w->commits++;
	for (size_t i = 0; i < n; i++) {
		CHECK(w, d[i].commit_left == n - 1 - i, "I10 commit_left is %zu at %zu of %zu", d[i].commit_left, i, n);
		CHECK(w, d[i].verdict == RF_CORE_BIND, "I10 a commit with verdict %d", d[i].verdict);
		if (!names_pod(w, &d[i], &pods[i]) || !take_bind(w, &d[i], pods[i]))
			return false;
		if (!d[i].promised)
			fresh[n_fresh++] = pods[i];
	}
	if (!ref_wishes(w, fresh, n_fresh))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!gang_whole(w, w->pods[pods[i]].group, d[i].group.n > 0))
			return false;
	w->n.gangs += n > 1;
	if (d->group.n > 0)
		push_write(w, W_ANEW, pods[0]);
	for (int kind = W_CLAIM; kind <= W_BIND; kind++)
		for (size_t i = 0; i < n; i++)
			if (kind == W_BIND || (d[i].n_grants > 0 && !d[i].promised && (kind != W_CLAIM || !w->pods[pods[i]].claimed)))
				push_write(w, (enum write_kind)kind, pods[i]);
	return true;
}

static bool take_release(struct world *w, int i)
{
	struct pod *p = &w->pods[i];

	CHECK(w, p->claimed || p->claim_dirty, "I7 release of %s, which has no claim", p->uid);
	CHECK(w, p->node == NOBODY || p->ended, "I7 release of %s, which is bound", p->uid);
	w->n.releases++;
	w->commits++;
	push_write(w, W_RELEASE, i);
	return true;
}

/* One of it was just told to go. */
static void note_torn(const struct world *w, struct group *g, int i)
{
	int64_t going;
	bool torn = ref_staying(w, i, &going) < g->min;

	if (g->torn == 0) /* who is meant is known from then on, however long it takes to tell them all */
		g->torn_at = w->now;
	/* this one counts, too, if it is gone by now and the core does not know */
	g->torn = !torn ? 0 : g->torn > 0 ? g->torn + 1 : RF_MAX(going, 1);
	g->lost = 0;
}

/* All of it the core was told. */
static bool is_told(const struct world *w, int group)
{
	for (int i = 0; i < PODS; i++) {
		if (w->pods[i].group == group && w->pods[i].dirty)
			return false;
	}
	return true;
}

static bool take_evict(struct world *w, const struct rf_core_decision *d, int i)
{
	bool half = ref_half_made(w, &w->pods[i]), torn = w->pods[i].group != NOBODY && w->groups[w->pods[i].group].torn > 0;

	if (!ref_evict(w, i) || !ref_told_to_go(w, &w->pods[i], d))
		return false;
	w->n.evicts++;
	w->pods[i].evictions++;
	w->plan_evicts += !half && !torn; /* what is left of a gang that went is no plan */
	w->commits++;
	w->pods[i].evicted = true;
	w->pods[i].whole = d->group.n > 0;
	w->pods[i].refused = false;
	if (w->pods[i].group != NOBODY && !half)
		note_torn(w, &w->groups[w->pods[i].group], w->pods[i].group);
	CHECK(w, d->group.n > 0 || half || torn || w->pods[i].group == NOBODY || w->groups[w->pods[i].group].torn == 0 || !is_told(w, w->pods[i].group),
	      "I10 %s goes, and too few of its group stay, but it is not said to go with it", w->pods[i].uid);
	CHECK(w, d->group.n == 0 || (w->pods[i].group != NOBODY && rf_str_is(d->group, w->groups[w->pods[i].group].name)),
	      "I10 %s goes with %.*s, which is not its group", w->pods[i].uid, RF_STR(d->group));
	if (d->group.n > 0)
		push_write(w, W_ENDING, i);
	push_write(w, W_EVICT, i);
	return true;
}

static bool take_wait(struct world *w, const struct rf_core_decision *d, int i)
{
	struct pod *p = &w->pods[i];

	w->n.waits++;
	CHECK(w, p->node == NOBODY, "I18 %s waits, but it is bound", p->uid);
	CHECK(w, d->reason.n > 0, "I18 %s waits without a reason", p->uid);
	snprintf(p->why, sizeof(p->why), "%.*s", RF_STR(d->reason));
	return true;
}

static bool take_one(struct world *w, const struct rf_core_decision *d)
{
	int i = 0;

	if (!names_pod(w, d, &i))
		return false;
	switch (d->verdict) {
	case RF_CORE_WAIT:
		return take_wait(w, d, i);
	case RF_CORE_RELEASE:
		return take_release(w, i);
	case RF_CORE_EVICT:
		return take_evict(w, d, i);
	case RF_CORE_BIND:
		break;
	}
	return true;
}

static bool twins_agree(struct world *w, size_t most, const struct rf_core_decision *d, size_t n)
{
	struct rf_core_decision *other = NULL;
	size_t m;

	if (w->twin == NULL)
		return true;
	rf_arena_reset(&w->twin_arena);
	m = rf_core_decide(w->twin, w->now, most, &w->twin_arena, &other);
	for (size_t i = 0; i < RF_MIN(n, m); i++)
		CHECK(w, digest_of(1, &d[i]) == digest_of(1, &other[i]),
		      "I16 decision %zu: %d %.*s %.*s (%.*s) here, %d %.*s %.*s (%.*s) there", i, d[i].verdict, RF_STR(d[i].uid),
		      RF_STR(d[i].node), RF_STR(d[i].reason), other[i].verdict, RF_STR(other[i].uid), RF_STR(other[i].node),
		      RF_STR(other[i].reason));
	CHECK(w, n == m, "I16 %zu decisions here, %zu there", n, m);
	return true;
}

/* Has it an excuse to stay when its gang goes? Once that runs further members are on their own: who was on its way when the
 * others were told to go, and who came when the gang was whole and was within its own minimum run time then. Whose eviction the API
 * refused stays until it is tried again; that it is, is looked at at rest. */
static bool is_excused(const struct world *w, const struct pod *p)
{
	const struct group *g = &w->groups[p->group];

	return p->late || (p->refused && g->torn > 0) || ref_is_late(w, p, g->torn_at);
}

/* I14: what is left of a gang that ran is enough, or nothing. Judged by what was there when the last of it was told to go: who
 * ends by itself after that leaves the others as they are, as it does where nobody was told to go. */
static bool gangs_kept(struct world *w)
{
	for (int g = 0; g < GROUPS; g++) {
		int64_t left = 0, going = 0, excused = 0;
		bool untold = false;

		for (int i = 0; i < PODS; i++) {
			const struct pod *p = &w->pods[i];

			untold |= p->group == g && p->dirty; /* by what the core knew it may have been right */
			if (p->group != g || !p->live || p->ended || p->node == NOBODY)
				continue;
			left += !p->evicted && !p->deleting;
			excused += !p->evicted && !p->deleting && is_excused(w, p);
			going += p->evicted && !p->deleting;
		}
		CHECK(w, untold || going == 0 || left == excused || left + w->groups[g].lost >= w->groups[g].min || !w->groups[g].exists ||
				 left + going < w->groups[g].min,
		      "I14 gang %s is left with %d members of %d", w->groups[g].name, (int)left, (int)w->groups[g].min);
	}
	return true;
}

size_t world_decided(struct world *w, size_t most, bool *ok)
{
	struct rf_core_decision *d = NULL;
	size_t n;

	rf_arena_reset(&w->arena);
	n = rf_core_decide(w->core, w->now, most, &w->arena, &d);
	SAY(w, "decide (at most %zu): %zu", most, n);
	*ok = twins_agree(w, most, d, n);
	for (size_t i = 0; *ok && i < n;) {
		size_t k = d[i].verdict == RF_CORE_BIND ? d[i].commit_left + 1 : 1;

		for (size_t j = i; j < n && j < i + k; j++) {
			say_decision(w, &d[j]);
			w->digest = digest_of(w->digest, &d[j]);
		}
		*ok = i + k <= n || broke(w, "I10 a commit is cut: %zu of %zu", n - i, k);
		if (*ok)
			*ok = d[i].verdict == RF_CORE_BIND ? take_commit(w, &d[i], k) : take_one(w, &d[i]);
		i += k;
	}
	if (*ok && n < most)
		*ok = gangs_kept(w);
	ref_gangs_again(w);
	return n;
}

bool world_decide(struct world *w, size_t most)
{
	bool ok = true;

	(void)world_decided(w, most, &ok);
	return ok;
}

/* --- control's writes ------------------------------------------------------------------------- */

/* Its place may be another pod's by now: that one has nothing to do with it. */
static struct pod *pod_of(struct world *w, const struct write *x)
{
	return w->pods[x->pod].serial == x->serial ? &w->pods[x->pod] : NULL;
}

static void note_failed(const struct world *w, struct pod *p)
{
	if (p == NULL)
		return;
	p->flying = false;
	p->fails++;
	p->failed_at = w->now;
}

/* The rest of its commit is not tried. */
static void drop_commit(struct world *w, uint64_t commit)
{
	int n = 0;

	for (int i = 0; i < w->n_writes; i++) {
		if (w->writes[i].commit == commit)
			note_failed(w, pod_of(w, &w->writes[i]));
		else
			w->writes[n++] = w->writes[i];
	}
	w->n_writes = n;
}

static void write_failed(struct world *w, const struct write *x, const char *why)
{
	enum rf_core_verdict what = x->kind <= W_BIND ? RF_CORE_BIND : x->kind == W_RELEASE ? RF_CORE_RELEASE : RF_CORE_EVICT;
	struct pod *p = pod_of(w, x);
	char uid[24];

	w->n.failures++;
	w->disturbed = true;
	snprintf(uid, sizeof(uid), "u%" PRIu64, x->serial);
	SAY(w, "write %d of %s failed: %s", x->kind, uid, why);
	note_failed(w, p);
	if (p != NULL && what == RF_CORE_EVICT) {
		p->evicted = false;
		p->refused = true;
		if (p->group != NOBODY && w->groups[p->group].torn > 0)
			w->groups[p->group].torn--;
	} else if (p != NULL) {
		p->lost = x->kind == W_BIND && w->late_binds && p->node == NOBODY;
	}
	drop_commit(w, x->commit);
	BOTH(w, rf_core_failed, what, rf_str(uid), rf_str(why), w->now);
	ref_gangs_again(w); /* by what the core knows now, whoever ends before it decides */
}

/* Who was to go when the core crashed is left, and the gang one that started, also when others go before it says so. */
void world_see_gangs(struct world *w)
{
	for (int g = 0; g < GROUPS; g++)
		w->groups[g].seen_whole = w->groups[g].exists && left_of(w, g) >= w->groups[g].min;
}

static bool says_started(const struct world *w, int group)
{
	return rf_core_started(w->core, rf_str(space_name(w->groups[group].space)), rf_str(w->groups[group].name));
}

/* What the core says of it. */
static void write_started(struct world *w, int group)
{
	struct group *g = &w->groups[group];

	if (!g->exists || g->started == says_started(w, group))
		return;
	if (!g->started && left_of(w, group) < g->min && !g->seen_whole)
		broke(w, "I10 gang %s says that it started with %d of %d", g->name, (int)left_of(w, group), (int)g->min);
	g->started = !g->started;
	g->seen_whole = !g->started; /* should those stay after all who were to go */
	g->whole_at = g->started ? w->now : 0;
	world_tell_group(w, group);
}

static bool any_bound(const struct world *w, int group)
{
	for (int i = 0; i < PODS; i++)
		if (w->pods[i].group == group && w->pods[i].live && !w->pods[i].ended && w->pods[i].node != NOBODY)
			return true;
	return false;
}

static void do_bind(struct world *w, struct pod *p)
{
	if (p->group != NOBODY && !any_bound(w, p->group))
		w->groups[p->group].seen_whole = false; /* it starts anew */
	p->node = p->place.node;
	p->started = w->now;
	p->flying = false;
	p->late = p->group != NOBODY && w->groups[p->group].torn > 0;
	p->prepared = p->claimed;
	p->ends = p->run_limit > 0 ? w->now + 1 + (int64_t)(p->serial * 7919 % (uint64_t)p->run_limit) : NONE;
	if (p->group != NOBODY && w->groups[p->group].exists && w->groups[p->group].run_limit > 0)
		p->ends = w->now + w->groups[p->group].run_limit;
	world_tell_pod(w, p);
	ref_gangs_again(w);
	if (p->group != NOBODY)
		write_started(w, p->group);
}

/* Those whose promise stands; without it they would have to be looked at again before they are taken back (control/carry.c). */
void world_late_binds(struct world *w)
{
	for (int i = 0; i < PODS; i++) {
		struct pod *p = &w->pods[i];

		if (p->lost && p->live && p->node == NOBODY && !p->deleting && !p->ended && p->claimed && p->allocated && !p->claim_deleting) {
			SAY(w, "the binding of %s is done after all", p->uid);
			w->disturbed = true;
			do_bind(w, p);
		}
		p->lost = false;
	}
}

/* What the core says of it. */
static void write_ending(struct world *w, int group)
{
	struct group *g = &w->groups[group];
	int64_t ms = rf_core_ending(w->core, rf_str(space_name(g->space)), rf_str(g->name));

	if (!g->exists || g->ending == ms)
		return;
	g->ending = ms;
	world_tell_group(w, group);
}

/* What is over is taken back, sooner or later. */
void world_write_groups(struct world *w)
{
	for (int g = 0; g < GROUPS; g++) {
		if (w->groups[g].ending != 0 && rf_core_ending(w->core, rf_str(space_name(w->groups[g].space)), rf_str(w->groups[g].name)) == 0)
			write_ending(w, g);
		write_started(w, g);
	}
}

static bool is_budgeted(const struct world *w, const struct pod *p)
{
	return p->budget == 1 && p->space < BUDGETS && w->budgets[p->space] >= 0;
}

static void do_write(struct world *w, const struct write *x)
{
	struct pod *p = &w->pods[x->pod];

	SAY(w, "write %d of %s", x->kind, p->uid);
	switch (x->kind) {
	case W_ANEW:
		write_started(w, p->group);
		return;
	case W_CLAIM:
		p->claimed = true;
		p->allocated = p->claim_deleting = p->prepared = false;
		break;
	case W_ALLOCATE:
		p->allocated = true;
		break;
	case W_BIND:
		do_bind(w, p);
		return;
	case W_RELEASE:
		if (!p->claimed || p->serial != x->serial)
			return; /* gone already */
		p->claim_deleting = true;
		if (!p->prepared)
			p->claimed = p->allocated = p->claim_deleting = false;
		break;
	case W_ENDING:
		if (p->live && p->serial == x->serial)
			write_ending(w, p->group);
		return;
	case W_EVICT:
		p->deleting = true;
		p->gone_at = w->now + p->grace;
		if (is_budgeted(w, p)) {
			w->budgets[p->space]--;
			BOTH(w, world_put_budget, w, p->space);
		}
		world_tell_pod(w, p);
		return;
	}
	world_tell_claim(w, p);
}

/* Would the API say yes? */
static const char *refuses(const struct world *w, const struct write *x)
{
	const struct pod *p = &w->pods[x->pod];

	if (x->kind == W_RELEASE)
		return NULL;
	if (!p->live || p->serial != x->serial)
		return "not found";
	if (x->kind == W_ENDING)
		return NULL;
	if (x->kind == W_EVICT)
		return is_budgeted(w, p) && w->budgets[p->space] == 0 ? "its budget is used up" : NULL;
	if (p->deleting || p->ended)
		return "it is being deleted";
	if (x->kind == W_BIND && p->node != NOBODY)
		return "it is bound";
	if (x->kind == W_ALLOCATE && (!p->claimed || p->claim_deleting))
		return "not found";
	return NULL;
}

bool world_write(struct world *w, bool fails)
{
	struct write x;
	const char *why;

	if (w->n_writes == 0)
		return true;
	x = w->writes[0];
	memmove(w->writes, w->writes + 1, sizeof(x) * (size_t)--w->n_writes);
	why = refuses(w, &x);
	if (why == NULL && fails)
		why = "conflict";
	if (why == NULL)
		do_write(w, &x);
	else
		write_failed(w, &x, why);
	if (++w->writes_done == w->crash_at_write)
		return world_crash(w, (uint64_t)w->writes_done * 31 + 7);
	return true;
}
