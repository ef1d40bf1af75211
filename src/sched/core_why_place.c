/* Why no node does, and which quota of a model is in the way. */
#include <inttypes.h>

#include "sched/core_why.h"

/* --- what the machines say --------------------------------------------------------------------- */

static const struct fault {
	const char *what, *help;
} wish_words[RF_WISH_UNFITS] = {
	[RF_WISH_NODE] = { "other than the one its DaemonSet means", "wait until that node is there" },
	[RF_WISH_OS] = { "of another operating system", "change spec.os of the pod" },
	[RF_WISH_SELECTOR] = { "without the labels of its nodeSelector", "change spec.nodeSelector or label a node" },
	[RF_WISH_AFFINITY] = { "that its node affinity rules out", "change spec.affinity or label a node" },
	[RF_WISH_TAINT] = { "with a taint that it does not tolerate", "add a toleration or remove the taint" },
	[RF_WISH_RESOURCE] = { "without enough of another resource it asks for", "lower the request or wait until a pod has ended" },
	[RF_WISH_APART] = { "that anti-affinity rules out", "change the anti-affinity or wait until a pod has ended" },
	[RF_WISH_NEAR] = { "without the pods it wants to be near", "start those first or change the affinity" },
	[RF_WISH_SPREAD] = { "that its topology spread rules out", "change the spread or wait" },
}, fleet_words[RF_FLEET_UNFITS] = {
	[RF_FLEET_CORDONED] = { "cordoned or not ready", "uncordon a node or wait until one is ready" },
	[RF_FLEET_NO_RACK] = { "in no rack, while this tenant's isolation is rack", "label the nodes with " RF_RACK_LABEL },
	[RF_FLEET_ISOLATION] = { "with others on it, on its cards or in its rack who may not meet this tenant", "wait until their pods have ended or add a node" },
	[RF_FLEET_NO_PODS] = { "with no room for another pod", "wait until a pod has ended" },
	[RF_FLEET_NO_CPU] = { "without enough CPU", "lower requests.cpu or wait until a pod has ended" },
	[RF_FLEET_NO_MEMORY] = { "without enough memory", "lower requests.memory or wait until a pod has ended" },
	[RF_FLEET_UNHEALTHY] = { "whose cards are out of service", "wait until they are repaired" },
	[RF_FLEET_UNSCRUBBED] = { "whose cards are being cleaned", "wait" },
	[RF_FLEET_NUMA] = { "with others on cards of one NUMA node, while this tenant or they have isolation numa", "wait until their pods have ended or add a node" },
	[RF_FLEET_NVLINK] = { "with others on cards joined by NVLink, while this tenant or they have isolation nvlink", "wait until their pods have ended or add a node" },
	[RF_FLEET_TAKEN] = { "whose cards are taken", "wait until a pod has ended or ask for less" },
	[RF_FLEET_APART] = { "with cards enough, but not on one NVLink island", "wait until a pod has ended, ask for fewer or do without NVLink" },
	[RF_FLEET_KEPT] = { "kept for a large gang that waits longer", "set a shorter run limit or wait" },
	[RF_FLEET_UNLENT] = { "whose free cards are guaranteed to others who do not lend them", "wait or have the guarantee raised" },
	[RF_FLEET_NO_MODEL] = { "without cards of a model that will do", "ask for another model or wait" },
	[RF_FLEET_TOO_SMALL] = { "too small even when empty", "ask for less per pod" },
	[RF_FLEET_UNJOINED] = { "whose NVLink islands are too small even when empty", "ask for fewer or do without NVLink" },
	[RF_FLEET_MIG] = { "with too few cards that are not in MIG mode", "ask for MIG slices, or have cards taken out of MIG mode" },
}, no_mig = { "with too few cards in MIG mode", "have cards put into MIG mode" },
  no_quota = { "without cards of a model that will do and of which its quotas leave enough", "ask for another model or have the quota raised" };

static const struct rf_fleet_part *first_part(const struct rf_fleet_ask *ask, enum rf_fleet_kind kind)
{
	for (unsigned i = 0; i < ask->n_parts; i++) {
		if (ask->parts[i].kind == kind)
			return &ask->parts[i];
	}
	return NULL;
}

/* As quotas call it. */
static const char *slice_name(struct co_words *w, const struct co_form *f)
{
	for (size_t i = 0; i < f->n_parts; i++) {
		if (f->parts[i].ask.slices > 0)
			return rf_arena_printf(w->a, "mig/%.*s", RF_STR(f->parts[i].ask.profile)).p;
	}
	return "slices";
}

/* What is scarcest, and the most of it that an allowed node has. */
struct co_lack co_find_lack(struct co_words *w, const struct co_form *f, const struct rf_fleet_ask *ask, const struct rf_fleet_most *m,
			    const char *help)
{
	const struct rf_fleet_part *slice = first_part(ask, RF_FLEET_SLICE);
	int64_t bytes = 0, milli = 0, cards = f->one_island ? 0 : f->cards;

	for (unsigned i = 0; f->one_island && i < ask->n_parts; i++) /* each part is on one */
		cards = ask->parts[i].kind == RF_FLEET_WHOLE ? RF_MAX(cards, ask->parts[i].n) : cards;
	for (size_t i = 0; i < f->n_parts; i++) {
		bytes = RF_MAX(bytes, f->parts[i].ask.share_bytes);
		milli = RF_MAX(milli, f->parts[i].ask.share_milli);
	}
	if (f->cards > 0 && cards > m->cards)
		return (struct co_lack){ "cards", help, cards, m->cards };
	if (bytes > m->bytes)
		return (struct co_lack){ "share-bytes", help, bytes, m->bytes };
	if (milli > m->milli)
		return (struct co_lack){ "share-milli", help, milli, m->milli };
	if (slice != NULL && slice->n > m->slices)
		return (struct co_lack){ slice_name(w, f), help, slice->n, m->slices };
	if (f->cpu > m->cpu_milli)
		return (struct co_lack){ "cpu", help, f->cpu, m->cpu_milli };
	if (f->memory > m->memory)
		return (struct co_lack){ "memory", help, f->memory, m->memory };
	if (m->pods < 1)
		return (struct co_lack){ "pods", help, 1, RF_MAX(m->pods, 0) };
	return (struct co_lack){ "nodes", help, 1, 0 };
}

/* Cards that it would touch first; where that is not what it lacks, what it asks for. */
static struct co_lack find_unlent(struct co_words *w, const struct co_form *f, const struct rf_fleet_ask *ask)
{
	struct co_lack l = { "cards", fleet_words[RF_FLEET_UNLENT].help, 0, rf_fleet_may_open(w->c->fleet, ask), true };

	for (unsigned i = 0; i < ask->n_parts; i++)
		l.need += ask->parts[i].n;
	if (l.have < l.need && f->cards > 0)
		return l;
	l.have = 0;
	l.kinds = true;
	if (f->slices > 0)
		l.resource = slice_name(w, f);
	else if (f->bytes > 0)
		l = (struct co_lack){ "share-bytes", l.help, f->bytes, 0, true, true };
	return l;
}

/* "2 MIG slices 1g.10gb", or of several profiles "3 MIG slices (2 of 1g.10gb, 1 of 2g.20gb)". */
static const char *slices_of(struct co_words *w, const struct co_form *f)
{
	const char *s = f->slices == 1 ? "" : "s";
	struct rf_str list = RF_STR_EMPTY, first = RF_STR_EMPTY;
	bool several = false;

	for (size_t i = 0; i < f->n_parts; i++) {
		struct rf_str profile = f->parts[i].ask.profile;
		int64_t n = 0;
		bool before = false;

		for (size_t k = 0; k < f->n_parts; k++) {
			bool same = rf_str_eq(f->parts[k].ask.profile, profile);

			before = before || (same && k < i);
			n += same ? f->parts[k].ask.slices : 0;
		}
		if (n == 0 || before)
			continue;
		several = first.n > 0;
		first = first.n > 0 ? first : profile;
		list = rf_arena_printf(w->a, "%.*s%s%" PRId64 " of %.*s", RF_STR(list), list.n > 0 ? ", " : "", n, RF_STR(profile));
	}
	if (several)
		return rf_arena_printf(w->a, "%" PRId64 " MIG slice%s (%.*s)", f->slices, s, RF_STR(list)).p;
	return rf_arena_printf(w->a, "%" PRId64 " MIG slice%s %.*s", f->slices, s, RF_STR(first)).p;
}

struct rf_str co_headline(struct co_words *w, const struct co_form *f, const struct co_lack *l)
{
	if (l->kinds)
		return RF_LIT("what is free of cards for it is guaranteed to others who do not lend it");
	if (l->unlent)
		return rf_arena_printf(w->a, "needs %" PRId64 " card%s that nobody is on; %" PRId64 " more may be used without those that are guaranteed to others who do not lend them", l->need, l->need == 1 ? "" : "s", l->have);
	if (strcmp(l->resource, "cards") == 0 && f->one_island && l->need > 1)
		return rf_arena_printf(w->a, "needs %" PRId64 " whole cards on one NVLink island; the most any allowed node has free on one is %" PRId64, l->need, l->have);
	if (strcmp(l->resource, "cards") == 0)
		return rf_arena_printf(w->a, "needs %" PRId64 " whole card%s on one node; the most any allowed node has free is %" PRId64, l->need, l->need == 1 ? "" : "s", l->have);
	if (strcmp(l->resource, "share-bytes") == 0)
		return rf_arena_printf(w->a, "needs %.*s of one card; the most any allowed card has left is %.*s", RF_STR(rf_quantity_bytes(w->a, l->need)), RF_STR(rf_quantity_bytes(w->a, l->have)));
	if (strcmp(l->resource, "share-milli") == 0)
		return rf_arena_printf(w->a, "needs %" PRId64 "%% of one card's time; the most any allowed card has left is %" PRId64 "%%", l->need / 10, l->have / 10);
	if (strcmp(l->resource, "cpu") == 0)
		return rf_arena_printf(w->a, "needs %.*s CPU on one node; the most any allowed node has left is %.*s", RF_STR(rf_quantity_format_milli(w->a, l->need)), RF_STR(rf_quantity_format_milli(w->a, RF_MAX(l->have, 0))));
	if (strcmp(l->resource, "memory") == 0)
		return rf_arena_printf(w->a, "needs %.*s of memory on one node; the most any allowed node has left is %.*s", RF_STR(rf_quantity_bytes(w->a, l->need)), RF_STR(rf_quantity_bytes(w->a, RF_MAX(l->have, 0))));
	if (strncmp(l->resource, "mig/", 4) == 0)
		return rf_arena_printf(w->a, "needs %s on one node; the most of %s any allowed node has room for is %" PRId64, slices_of(w, f), l->resource + 4, l->have);
	return RF_LIT("no node has all that it asks for at once");
}

/* By the level of who asks; what others accept is not told. */
static const char *met(struct co_words *w, const struct rf_fleet_ask *ask)
{
	return rf_arena_printf(w->a, "%s (its isolation is %s)", fleet_words[RF_FLEET_ISOLATION].what,
			       rf_isolation_name(ask->owner.level))
		.p;
}

static void count(struct rf_buf *b, uint32_t n, const char *what)
{
	if (n > 0)
		rf_buf_printf(b, "%s%u %s", b->n > 0 ? ", " : "", n, what);
}

/* By its name, which is the pod's own word. */
static const char *short_of(struct co_words *w, struct co_pod *p)
{
	struct rf_str name;
	int64_t need, left;

	if (!rf_wish_short(w->c->wishes, p->shape->wish, &name, &need, &left))
		return wish_words[RF_WISH_RESOURCE].what;
	return rf_arena_printf(w->a, "short of a resource (%" PRId64 " of %.*s asked, %" PRId64 " left)", need,
			       (int)RF_MIN(name.n, (size_t)128), name.p, left)
		.p;
}

static void find_short(struct co_words *w, struct co_pod *p, struct co_lack *ret)
{
	struct rf_str name;
	int64_t need, left;

	if (rf_wish_short(w->c->wishes, p->shape->wish, &name, &need, &left) && left < need)
		*ret = (struct co_lack){ rf_arena_printf(w->a, "%.*s", (int)RF_MIN(name.n, (size_t)128), name.p).p, ret->help, need, left };
}

/* Nodes by what is wrong with them. */
struct counts {
	uint32_t wish[RF_WISH_UNFITS], fleet[RF_FLEET_UNFITS];
};

/* How a kind of nodes is spoken of to this pod. limited: its quotas rule out models that it would take. */
static const struct fault *fault_of(const struct co_form *f, int i, bool limited)
{
	if (i == RF_FLEET_MIG && f->slices > 0)
		return &no_mig;
	return i == RF_FLEET_NO_MODEL && limited ? &no_quota : &fleet_words[i];
}

/* For those that came closest; where waiting helps nobody only if there are no others. */
static const char *help_for(const struct co_form *f, const struct counts *n, bool limited)
{
	const char *help = NULL, *never = NULL;

	for (int i = 1; i < RF_WISH_UNFITS; i++)
		help = n->wish[i] > 0 ? wish_words[i].help : help;
	for (int i = RF_FLEET_CORDONED; i < RF_FLEET_NO_MODEL; i++)
		help = n->fleet[i] > 0 ? fleet_words[i].help : help;
	for (int i = RF_FLEET_NO_MODEL; i < RF_FLEET_UNFITS; i++)
		never = n->fleet[i] > 0 ? fault_of(f, i, limited)->help : never;
	if (limited && n->fleet[RF_FLEET_NO_MODEL] > 0)
		never = no_quota.help; /* these could be large enough */
	return help != NULL ? help : never;
}

static struct rf_str list_nodes(struct co_words *w, struct co_pod *p, const struct rf_fleet_ask *ask, const struct counts *n,
				bool limited, struct rf_str text)
{
	rf_auto(buf) b = RF_BUF_INIT;

	for (int i = 1; i < RF_WISH_UNFITS; i++)
		count(&b, n->wish[i], i == RF_WISH_RESOURCE && n->wish[i] > 0 ? short_of(w, p) : wish_words[i].what);
	for (int i = RF_FLEET_CORDONED; i < RF_FLEET_UNFITS; i++)
		count(&b, n->fleet[i],
		      i == RF_FLEET_ISOLATION && n->fleet[i] > 0 ? met(w, ask) : fault_of(p->shape->form, i, limited)->what);
	return b.n > 0 ? rf_arena_printf(w->a, "%.*s (nodes: %s)", RF_STR(text), b.p) : text;
}

/* --- which models its quotas leave -------------------------------------------------------------- */

static struct rf_str no_model(struct co_words *w, const struct co_form *f)
{
	struct rf_str text = RF_LIT("there is no card in the cluster");
	const char *help = "start a node with GPUs";

	if (f->slices > 0) {
		text = rf_arena_printf(w->a, "needs %s, and no card here has that MIG profile", slices_of(w, f));
		help = "ask for a profile that a card here has";
	} else if (f->models.n > 0) {
		text = rf_arena_printf(w->a, "no card here is of a model it asks for (%.*s)", RF_STR(f->models));
		help = "ask for another model or wait";
	}
	return co_line(w, text, f->slices > 0 ? slice_name(w, f) : "cards", "cluster", RF_MAX(f->cards + f->slices, 1), 0, help);
}

/* The quota that is in the way of so many cards of any of these models: where it leaves most, its own before others'. */
bool co_find_quota(struct co_words *w, const struct co_work *work, uint64_t models, int64_t need, struct rf_why *ret)
{
	bool found = false;

	for (int m; (m = co_first_model(w->c, models)) >= 0; models &= ~(UINT64_C(1) << m)) {
		int64_t r = w->c->models[m].resource;
		struct rf_why y;

		if (r < 0 || !rf_workload_why_of(w->c->queues, work->w, r, need, w->c->now, &y))
			continue;
		if (found && ((y.level != NULL) < (ret->level != NULL) ||
			      ((y.level != NULL) == (ret->level != NULL) && y.have <= ret->have)))
			continue;
		*ret = y;
		found = true;
	}
	return found;
}

/* More of each of these models than a quota would ever leave? */
bool co_never_by_quota(struct co_words *w, const struct co_work *work, uint64_t models, int64_t need)
{
	struct rf_why y;

	for (uint64_t left = models; left != 0; left &= left - 1) {
		if (!co_find_quota(w, work, left & -left, need, &y) || y.by != RF_WHY_BY_NOBODY)
			return false;
	}
	return models != 0;
}

int64_t co_cards_of(const struct co_work *work)
{
	int64_t cards = 0, n = RF_MAX(work->min, 1);

	for (const struct co_pod *p = work->first; p != NULL && n > 0; p = p->work_next, n--)
		cards += RF_MIN(p->shape->form->cards, RF_FLEET_CARDS_MAX);
	return cards;
}

static struct rf_str why_models(struct co_words *w, const struct co_pod *p, uint64_t left)
{
	const struct co_form *f = p->shape->form;
	uint64_t out = f->mask & ~left;
	struct rf_why y;

	if (!co_find_quota(w, p->work, out, co_cards_of(p->work), &y))
		return no_model(w, f);
	if ((f->mask & left) != 0)
		return co_why_quota(w, &y, "; there is no room on other models that would do");
	return co_why_quota(w, &y, (out & (out - 1)) != 0 ? "; other models that would do are limited, too" : "");
}

/* --- places -------------------------------------------------------------------------------------- */

/* Is there no node that could ever do, or do again when others are gone from it? */
static bool is_never(const struct counts *n)
{
	static const bool moves[RF_WISH_UNFITS] = {
		[RF_WISH_RESOURCE] = true, [RF_WISH_APART] = true, [RF_WISH_NEAR] = true, [RF_WISH_SPREAD] = true
	};
	uint32_t some = 0, could = n->fleet[RF_FLEET_FITS];

	for (int i = 1; i < RF_WISH_UNFITS; i++) {
		some += n->wish[i];
		could += moves[i] ? n->wish[i] : 0;
	}
	for (int i = RF_FLEET_CORDONED; i < RF_FLEET_UNFITS; i++) {
		some += n->fleet[i];
		could += i < RF_FLEET_NO_MODEL ? n->fleet[i] : 0;
	}
	return some > 0 && could == 0;
}

/* Whoever asks: so what is known of nodes serves all of them. */
bool co_why_never(struct rf_core *c, struct co_shape *s)
{
	struct rf_fleet_ask ask;
	struct counts counts;

	if (!co_ask(c, s, ~UINT64_C(0), &ask) && s->form->n_parts > 0)
		return s->form->mask == 0;
	ask.owner = (struct rf_fleet_owner){ .system = true };
	ask.class = rf_wish_why(c->wishes, s->wish, counts.wish);
	ask.may_kept = UINT16_MAX;
	if (rf_wish_moves(s->wish))
		c->looked += c->by_handle.n / 16;
	rf_fleet_why(c->fleet, &ask, counts.fleet);
	return is_never(&counts);
}

/* Would it fit now, did its quotas not rule models out? Machines that are too small for it only by the cards they leave are
 * without them. */
static bool fits_without_quotas(struct rf_core *c, const struct co_form *f, const struct rf_fleet_ask *ask, uint32_t *counts)
{
	static const enum rf_fleet_unfit small[] = { RF_FLEET_TOO_SMALL, RF_FLEET_UNJOINED, RF_FLEET_MIG };
	struct rf_fleet_ask any = *ask;
	uint32_t all[RF_FLEET_UNFITS];

	any.models = f->mask;
	rf_fleet_why(c->fleet, &any, all);
	for (size_t i = 0; i < RF_COUNT(small); i++) {
		uint32_t less = counts[small[i]] - RF_MIN(counts[small[i]], all[small[i]]);

		counts[small[i]] -= less;
		counts[RF_FLEET_NO_MODEL] += less;
	}
	return all[RF_FLEET_FITS] > 0;
}

static struct rf_str fill_why(struct co_words *w, struct co_pod *p, uint64_t models, const struct rf_fleet_leave *leave)
{
	struct co_shape *s = p->shape;
	const struct co_form *f = s->form;
	struct rf_core *c = w->c;
	struct rf_str text = RF_STR_EMPTY;
	struct rf_fleet_most most;
	struct rf_fleet_ask ask;
	struct counts counts;
	struct co_lack lack;
	const char *help;
	bool limited;

	w->number = 0;
	(void)co_ask(c, s, models, &ask);
	limited = f->cards > 0 && (f->mask & ~models) != 0;
	ask.class = rf_wish_why(c->wishes, s->wish, counts.wish);
	ask.may_kept = s->why_kept;
	ask.leave = leave;
	if (rf_wish_moves(s->wish))
		c->looked += c->by_handle.n / 16; /* these are looked at only briefly */
	rf_fleet_most(c->fleet, &ask, &most);
	rf_fleet_why(c->fleet, &ask, counts.fleet);
	s->why_fits = counts.fleet[RF_FLEET_FITS] > 0;
	s->why_quota = limited && !s->why_fits && fits_without_quotas(c, f, &ask, counts.fleet);
	s->why_never = !limited && is_never(&counts);
	if (s->why_fits)
		return co_plain(w, RF_LIT("there is room for it, and others come first there: they were promised it or have their turn before"),
				"cluster", "wait");
	help = help_for(f, &counts, limited);
	lack = (struct co_lack){ "nodes", help != NULL ? help : "start a node with GPUs", 1, 0 };
	if (counts.fleet[RF_FLEET_UNLENT] > 0)
		lack = find_unlent(w, f, &ask);
	else if (most.nodes > 0)
		lack = co_find_lack(w, f, &ask, &most, lack.help);
	else if (lack.help == wish_words[RF_WISH_RESOURCE].help)
		find_short(w, p, &lack);
	if (!w->mute)
		text = list_nodes(w, p, &ask, &counts, limited, most.nodes > 0 ? co_headline(w, f, &lack) : RF_LIT("no node will do"));
	return co_line(w, text, lack.resource, most.nodes > 0 && !lack.unlent ? "node" : "cluster", lack.need, RF_MAX(lack.have, 0), lack.help);
}

/* Worked out once for all who ask the same, and again only when something changed; what quotas say is in no version. False: no
 * model is left to it. */
bool co_why_refresh(struct co_words *w, struct co_pod *p, uint64_t models)
{
	struct co_shape *s = p->shape;
	uint64_t fleet, wish, looks = rf_fleet_looks(w->c->fleet), number = w->number;
	uint16_t may_kept = co_ahead_may(w->c, p->work);
	const struct rf_fleet_leave *leave = co_leave(w->c, p->work, w->a);
	uint64_t sign = co_leave_sign(leave);
	struct rf_fleet_ask ask;
	struct rf_str text;

	if (!co_ask(w->c, s, models, &ask) && s->form->n_parts > 0) {
		s->why_fits = s->why_quota = s->why_never = false;
		s->why_number = 0;
		return false;
	}
	ask.leave = leave;
	fleet = rf_fleet_version(w->c->fleet, &ask);
	wish = rf_wish_version(w->c->wishes, s->wish);
	/* versions tell of what got better: not that the room there is has been taken */
	if (s->why_number != 0 && !s->why_fits && s->why_fleet == fleet && s->why_wish == wish && s->why_models == models &&
	    s->why_kept == may_kept && s->why_leave == sign && (s->why != NULL || w->mute))
		return true;
	s->why_kept = may_kept;
	s->why_leave = sign;
	text = fill_why(w, p, models, leave);
	free(s->why);
	s->why = w->mute ? NULL : rf_str_dup(text);
	s->why_number = w->number;
	w->number = number;
	w->c->looked += rf_fleet_looks(w->c->fleet) - looks;
	s->why_fleet = fleet;
	s->why_wish = wish;
	s->why_models = models;
	return true;
}

struct rf_str co_why_place(struct co_words *w, struct co_pod *p)
{
	uint64_t models = co_models_left(w->c, p->work, p);
	struct co_shape *s = p->shape;

	if (!co_why_refresh(w, p, models) || s->why_quota)
		return why_models(w, p, models);
	w->number = s->why_number;
	return w->mute ? RF_STR_EMPTY : rf_arena_str(w->a, rf_str(s->why));
}
