/* Why a pod waits: for a person first, then the same for a machine. Names nothing that the reader may not see:
 * no other tenant, none of their pods, no queue but those on its own path. */
#include <inttypes.h>

#include "sched/core_private.h"

struct words {
	struct rf_core *c;
	struct rf_arena *a;
	const struct co_pod *p;
	uint64_t number;
	bool mute; /* only the number matters */
};

static uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
	return h ^ h >> 29;
}

static uint64_t mix_text(uint64_t h, const char *text)
{
	static const uint8_t fixed[16] = "why a pod waits";

	return mix(h, rf_siphash13(fixed, text, strlen(text)));
}

/* have may change without the reason being another. */
static struct rf_str line(struct words *w, struct rf_str text, const char *resource, const char *level, int64_t need,
			  int64_t have, const char *help)
{
	w->number = mix(mix_text(mix_text(mix_text(w->number, resource), level), help), (uint64_t)need) | 1;
	if (w->mute)
		return RF_STR_EMPTY;
	return rf_arena_printf(w->a, "%.*s. resource=%s level=%s need=%" PRId64 " have=%" PRId64 " help=%s",
			       RF_STR(text), resource, level, need, have, help);
}

static struct rf_str plain(struct words *w, struct rf_str text, const char *level, const char *help)
{
	w->number = mix(w->number, rf_hash(text)) | 1;
	return rf_arena_printf(w->a, "%.*s. resource=none level=%s need=0 have=0 help=%s", RF_STR(text), level, help);
}

/* --- what bars it ----------------------------------------------------------------------------- */

static struct rf_str why_queue(struct words *w)
{
	const struct co_pod *p = w->p;
	const struct co_tenant *t = p->ns->tenant;
	bool by_group = p->group != NULL && p->group->known && p->group->queue != NULL;
	const char *name = by_group ? p->group->queue : p->queue;

	if (t == NULL)
		return plain(w, rf_arena_printf(w->a, "asks for queue %s, and its namespace belongs to no tenant", name != NULL ? name : ""),
			     "queue", "leave the queue out or use a tenant's namespace");
	if (name == NULL)
		return plain(w, rf_arena_printf(w->a, "tenant %s has no queue that pods may wait in", t->name), "queue",
			     "name one of its leaf queues or wait");
	return plain(w, rf_arena_printf(w->a, "queue %s is not one in which pods of tenant %s may wait", name, t->name),
		     "queue", "name a leaf queue of its own tenant");
}

static struct rf_str why_group(struct words *w)
{
	const struct co_pod *p = w->p;
	const struct co_group *g = p->group;

	if (p->bar == CO_BAR_GROUP)
		return line(w, rf_arena_printf(w->a, "its group %s is not there", g->name), "pods", "group", 1, 0,
			    "create the PodGroup or take its name off the pod");
	if (p->bar == CO_BAR_COMMIT)
		return plain(w, rf_arena_printf(w->a, "others of group %s are started first; it follows them", g->name),
			     "group", "wait");
	if (p->bar == CO_BAR_HALF)
		return plain(w, rf_arena_printf(w->a, "a part of group %s has places and the rest finds none; that part is let go first", g->name),
			     "group", "wait");
	if (g->min > CO_GANG_MAX)
		return line(w, rf_arena_printf(w->a, "group %s needs %" PRId64 " pods at once; %d can be started at once", g->name, g->min, CO_GANG_MAX),
			    "pods", "group", g->min, CO_GANG_MAX, "lower its minimum");
	if (g->again_ms > w->c->now)
		return plain(w, rf_arena_printf(w->a, "a binding of group %s was refused; all of it is tried again later", g->name), "group",
			     "look at what refuses it or wait");
	return line(w, rf_arena_printf(w->a, "group %s needs %" PRId64 " pods to start and has %zu that can", g->name, g->min, g->have),
		    "pods", "group", g->min, (int64_t)g->have, "create the others or lower its minimum");
}

static struct rf_str why_barred(struct words *w)
{
	const struct co_pod *p = w->p;
	const struct co_form *f = p->shape->form;

	switch ((enum co_bar)p->bar) {
	case CO_BAR_CLAIM:
		return plain(w, rf_arena_printf(w->a, "claim %.*s of an earlier attempt is still being removed", RF_STR(p->claim != NULL ? p->claim->name : RF_STR_EMPTY)),
			     "node", "wait");
	case CO_BAR_TENANT:
		return plain(w, p->ns->known ? rf_arena_printf(w->a, "tenant %s is not known: its namespace names it, but there is no such Tenant", p->ns->tenant->name) :
					       rf_arena_printf(w->a, "namespace %s is not known yet", p->ns->name),
			     "cluster", "create the Tenant or wait");
	case CO_BAR_SAID:
		return plain(w, rf_str(p->unsupported), "cluster", "take the demand out");
	case CO_BAR_NOBODY:
		return plain(w, rf_arena_printf(w->a, "namespace %s belongs to no tenant, and GPUs are for tenants", p->ns->name), "cluster",
			     "add it to a Tenant's spec.namespaces");
	case CO_BAR_SHARES:
		return plain(w, rf_arena_printf(w->a, "tenant %s has isolation %s, which shares no card", p->ns->tenant->name, rf_isolation_name(p->ns->tenant->level)),
			     "cluster", "ask for whole cards (" RF_RES_GPU ") or change the Tenant's isolation");
	case CO_BAR_DEVICES: {
		int64_t n = RF_MIN(f->cards, 100000) + RF_MIN(f->slices, 100000) + (f->bytes > 0 ? (int64_t)f->n_parts : 0);

		return line(w, rf_arena_printf(w->a, "asks for %" PRId64 " devices, and a claim holds at most %d", n, CO_DEVICES_MAX),
			    "cards", "node", n, CO_DEVICES_MAX, "split the work into several pods");
	}
	case CO_BAR_FORM:
		return plain(w, rf_str(f->bad), "cluster", "change what it asks for");
	case CO_BAR_QUEUE:
		return why_queue(w);
	case CO_BAR_GROUP:
	case CO_BAR_MIN:
	case CO_BAR_COMMIT:
	case CO_BAR_HALF:
		return why_group(w);
	case CO_BAR_PAUSE:
		return plain(w, rf_arena_printf(w->a, "its binding was refused (%s); it is tried again later", p->failure != NULL ? p->failure : ""), "node",
			     "look at what refuses it or wait");
	default:
		return plain(w, RF_LIT("the queues cannot count what it asks for"), "queue", "ask for less");
	}
}

/* --- what its quotas say ----------------------------------------------------------------------- */

static struct rf_str amount(struct words *w, int64_t resource, int64_t n)
{
	if (resource == CO_BYTES || resource == CO_MEMORY)
		return rf_quantity_bytes(w->a, n);
	if (resource == CO_CPU)
		return rf_quantity_format_milli(w->a, n);
	return rf_arena_printf(w->a, "%" PRId64, n);
}

static const char *noun(const struct rf_core *c, int64_t resource)
{
	switch (resource) {
	case CO_CARDS:
		return "whole cards";
	case CO_BYTES:
		return "memory of shares";
	case CO_MILLI:
		return "thousandths of cards";
	case CO_CPU:
		return "CPU";
	case CO_MEMORY:
		return "memory";
	default:
		return c->resources.at[resource];
	}
}

static const char *help_of(const struct rf_why *y)
{
	if (y->by == RF_WHY_BY_NOBODY && y->kind >= RF_WHY_LIMIT && y->kind <= RF_WHY_CAPACITY)
		return "ask for less or have the quota raised";
	if (y->by == RF_WHY_BY_BORROWERS)
		return "wait until what was lent is taken back";
	switch (y->kind) {
	case RF_WHY_LIMIT:
	case RF_WHY_BORROWING:
		return "wait until work of this queue has ended or have the quota raised";
	case RF_WHY_GUARANTEE:
		return "let it be evicted if need be or have the guarantee raised";
	case RF_WHY_RESERVED:
		return "set a shorter run limit or wait";
	default:
		return "wait";
	}
}

static struct rf_str why_quota(struct words *w, const struct rf_why *y)
{
	struct rf_core *c = w->c;
	struct rf_str level = y->level != NULL ? rf_queue_path(w->a, y->level) : RF_LIT("cluster");
	const char *what = noun(c, y->resource), *res = c->resources.at[y->resource];
	struct rf_str need, have, text;

	w->number = mix(w->number, y->kind);
	if (w->mute)
		return line(w, RF_STR_EMPTY, res, rf_arena_cstr(w->a, level), y->need, y->have, help_of(y));
	need = amount(w, y->resource, y->need);
	have = amount(w, y->resource, y->have);
	switch (y->kind) {
	case RF_WHY_LIMIT:
		text = rf_arena_printf(w->a, "asks for %.*s of %s, and the limit of queue %.*s leaves %.*s", RF_STR(need), what, RF_STR(level), RF_STR(have));
		break;
	case RF_WHY_GUARANTEE:
		text = rf_arena_printf(w->a, "must not be evicted and asks for %.*s of %s; of what queue %.*s is guaranteed %.*s is left", RF_STR(need), what, RF_STR(level), RF_STR(have));
		break;
	case RF_WHY_BORROWING:
		text = rf_arena_printf(w->a, "asks for %.*s of %s, and queue %.*s may borrow %.*s more", RF_STR(need), what, RF_STR(level), RF_STR(have));
		break;
	case RF_WHY_RESERVED:
		text = rf_arena_printf(w->a, "asks for %.*s of %s, and what is free is kept for a large gang that waits longer; %.*s is left beside it", RF_STR(need), what, RF_STR(have));
		break;
	case RF_WHY_LENDING:
		text = rf_arena_printf(w->a, "asks for %.*s of %s; %.*s is free that is not kept by those whom it is guaranteed to", RF_STR(need), what, RF_STR(have));
		break;
	default:
		text = rf_arena_printf(w->a, "asks for %.*s of %s, and the cluster has %.*s left", RF_STR(need), what, RF_STR(have));
		break;
	}
	return line(w, text, res, rf_arena_cstr(w->a, level), y->need, y->have, help_of(y));
}

/* --- what the machines say --------------------------------------------------------------------- */

static const struct {
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
	[RF_FLEET_NO_MODEL] = { "without cards of a model that will do", "ask for another model or wait" },
	[RF_FLEET_UNHEALTHY] = { "whose cards are out of service", "wait until they are repaired" },
	[RF_FLEET_UNSCRUBBED] = { "whose cards are being cleaned", "wait" },
	[RF_FLEET_NUMA] = { "with others on cards of one NUMA node, while this tenant or they have isolation numa", "wait until their pods have ended or add a node" },
	[RF_FLEET_NVLINK] = { "with others on cards joined by NVLink, while this tenant or they have isolation nvlink", "wait until their pods have ended or add a node" },
	[RF_FLEET_TAKEN] = { "whose cards are taken", "ask for fewer or wait" },
	[RF_FLEET_KEPT] = { "kept for a large gang that waits longer", "set a shorter run limit or wait" },
	[RF_FLEET_TOO_SMALL] = { "too small even when empty", "ask for less per pod" },
};

struct lack {
	const char *resource, *help;
	int64_t need, have;
};

/* What is scarcest, and the most of it that an allowed node has. */
static struct lack find_lack(const struct co_form *f, const struct rf_fleet_most *m, const char *help)
{
	int64_t bytes = 0, milli = 0;

	for (size_t i = 0; i < f->n_parts; i++) {
		bytes = RF_MAX(bytes, f->parts[i].ask.share_bytes);
		milli = RF_MAX(milli, f->parts[i].ask.share_milli);
	}
	if (f->cards > m->cards)
		return (struct lack){ "cards", help, f->cards, m->cards };
	if (bytes > m->bytes)
		return (struct lack){ "share-bytes", help, bytes, m->bytes };
	if (milli > m->milli)
		return (struct lack){ "share-milli", help, milli, m->milli };
	if (f->cpu > m->cpu_milli)
		return (struct lack){ "cpu", help, f->cpu, m->cpu_milli };
	if (f->memory > m->memory)
		return (struct lack){ "memory", help, f->memory, m->memory };
	if (m->pods < 1)
		return (struct lack){ "pods", help, 1, RF_MAX(m->pods, 0) };
	if (f->slices > 0)
		return (struct lack){ "slices", help, f->slices, 0 };
	return (struct lack){ "nodes", help, 1, 0 };
}

/* "2 MIG slices 1g.10gb", or of several profiles "3 MIG slices (2 of 1g.10gb, 1 of 2g.20gb)". */
static const char *slices_of(struct words *w, const struct co_form *f)
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

static struct rf_str headline(struct words *w, const struct co_form *f, const struct lack *l)
{
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
	if (strcmp(l->resource, "slices") == 0)
		return rf_arena_printf(w->a, "needs %s on one node; no allowed node has room for that", slices_of(w, f));
	return RF_LIT("no node has all that it asks for at once");
}

/* By the level of who asks; what others accept is not told. */
static const char *met(struct words *w, const struct rf_fleet_ask *ask)
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
static const char *short_of(struct words *w, struct co_pod *p)
{
	struct rf_str name;
	int64_t need, left;

	if (!rf_wish_short(w->c->wishes, p->shape->wish, &name, &need, &left))
		return wish_words[RF_WISH_RESOURCE].what;
	return rf_arena_printf(w->a, "short of a resource (%" PRId64 " of %.*s asked, %" PRId64 " left)", need,
			       (int)RF_MIN(name.n, (size_t)128), name.p, left)
		.p;
}

/* Nodes by what is wrong with them. */
struct counts {
	uint32_t wish[RF_WISH_UNFITS], fleet[RF_FLEET_UNFITS];
};

/* For those that came closest. */
static const char *help_for(const struct counts *n)
{
	const char *help = NULL;

	for (int i = 1; i < RF_WISH_UNFITS; i++)
		help = n->wish[i] > 0 ? wish_words[i].help : help;
	for (int i = RF_FLEET_CORDONED; i < RF_FLEET_UNFITS; i++)
		help = n->fleet[i] > 0 && (i != RF_FLEET_TOO_SMALL || help == NULL) ? fleet_words[i].help : help;
	return help;
}

static struct rf_str list_nodes(struct words *w, struct co_pod *p, const struct rf_fleet_ask *ask, const struct counts *n,
				struct rf_str text)
{
	rf_auto(buf) b = RF_BUF_INIT;

	for (int i = 1; i < RF_WISH_UNFITS; i++)
		count(&b, n->wish[i], i == RF_WISH_RESOURCE && n->wish[i] > 0 ? short_of(w, p) : wish_words[i].what);
	for (int i = RF_FLEET_CORDONED; i < RF_FLEET_UNFITS; i++)
		count(&b, n->fleet[i], i == RF_FLEET_ISOLATION && n->fleet[i] > 0 ? met(w, ask) : fleet_words[i].what);
	return b.n > 0 ? rf_arena_printf(w->a, "%.*s (nodes: %s)", RF_STR(text), b.p) : text;
}

static struct rf_str say_models(struct words *w, const struct co_form *f)
{
	struct rf_str text = RF_LIT("there is no card in the cluster");

	if (f->mask != 0)
		text = RF_LIT("the quotas of its queues leave no room on any card model that would do");
	else if (w->mute)
		text = RF_STR_EMPTY;
	else if (f->slices > 0)
		text = rf_arena_printf(w->a, "needs %s, and no card here has that MIG profile", slices_of(w, f));
	else if (f->models.n > 0)
		text = rf_arena_printf(w->a, "no card here is of a model it asks for (%.*s)", RF_STR(f->models));
	return line(w, text, f->slices > 0 ? "slices" : "cards", "cluster", RF_MAX(f->cards + f->slices, 1), 0,
		    "ask for another model or wait");
}

static struct rf_str fill_why(struct words *w, struct co_pod *p, uint64_t models)
{
	struct co_shape *s = p->shape;
	const struct co_form *f = s->form;
	struct rf_core *c = w->c;
	struct rf_str text = RF_STR_EMPTY;
	struct rf_fleet_most most;
	struct rf_fleet_ask ask;
	struct counts counts;
	struct lack lack;
	const char *help;

	w->number = 0;
	if (!co_ask(c, s, models, &ask) && f->n_parts > 0)
		return say_models(w, f);
	ask.class = rf_wish_why(c->wishes, s->wish, counts.wish);
	ask.may_kept = s->why_kept;
	if (rf_wish_moves(s->wish))
		c->looked += c->by_handle.n / 16; /* these are looked at only briefly */
	rf_fleet_most(c->fleet, &ask, &most);
	rf_fleet_why(c->fleet, &ask, counts.fleet);
	help = help_for(&counts);
	lack = find_lack(f, &most, help != NULL ? help : "start a node with GPUs");
	if (!w->mute)
		text = list_nodes(w, p, &ask, &counts, most.nodes > 0 ? headline(w, f, &lack) : RF_LIT("no node will do"));
	return line(w, text, lack.resource, most.nodes > 0 ? "node" : "cluster", lack.need, RF_MAX(lack.have, 0), lack.help);
}

/* Worked out once for all who ask the same, and again only when something changed. */
static struct rf_str why_place(struct words *w, struct co_pod *p)
{
	struct co_shape *s = p->shape;
	uint64_t models = p->work != NULL ? co_models_left(w->c, p->work, p) : ~UINT64_C(0), fleet, wish;
	uint16_t may_kept = p->work != NULL ? co_ahead_may(w->c, p->work) : 0;
	struct rf_fleet_ask ask;

	(void)co_ask(w->c, s, models, &ask);
	fleet = rf_fleet_version(w->c->fleet, &ask);
	wish = rf_wish_version(w->c->wishes, s->wish);
	if (s->why_number == 0 || s->why_fleet != fleet || s->why_wish != wish || s->why_models != models ||
	    s->why_kept != may_kept) {
		free(s->why);
		s->why = NULL;
		s->why_number = 0;
	}
	if (s->why_number == 0 || (s->why == NULL && !w->mute)) {
		uint64_t looks = rf_fleet_looks(w->c->fleet);
		struct rf_str text;

		s->why_kept = may_kept;
		text = fill_why(w, p, models);
		s->why = w->mute ? NULL : co_dup(text);
		s->why_number = w->number;
		w->c->looked += rf_fleet_looks(w->c->fleet) - looks;
	}
	s->why_fleet = fleet;
	s->why_wish = wish;
	s->why_models = models;
	w->number = s->why_number;
	return w->mute ? RF_STR_EMPTY : rf_arena_str(w->a, rf_str(s->why));
}

static struct rf_str why_work(struct words *w, struct co_pod *p)
{
	struct co_work *work = p->work;
	struct rf_why y;

	rf_workload_why(w->c->queues, work->w, w->c->now, &y);
	w->number = mix(w->number, y.kind);
	if (y.kind == RF_WHY_REFUSED) {
		struct rf_str one = why_place(w, p);

		if (work->n == 1)
			return one;
		w->number = mix(w->number, work->n) | 1;
		if (w->mute)
			return RF_STR_EMPTY;
		return rf_arena_printf(w->a, "group %s: there is no place for %" PRId64 " of its pods at once; each %.*s", p->group->name, work->min, RF_STR(one));
	}
	if (y.kind == RF_WHY_TURN || y.resource < 0)
		return plain(w, RF_LIT("nothing is in its way: others come first"), "queue", "wait");
	return why_quota(w, &y);
}

static struct rf_str why(struct words *w, struct co_pod *p)
{
	w->number = (uint64_t)p->state * 64 + p->bar;
	return p->state == CO_QUEUED && p->work != NULL ? why_work(w, p) : why_barred(w);
}

struct rf_str co_why(struct rf_core *c, struct co_pod *p, struct rf_arena *a)
{
	struct words w = { .c = c, .a = a, .p = p };

	return why(&w, p);
}

uint64_t co_why_number(struct rf_core *c, struct co_pod *p, struct rf_arena *a)
{
	struct words w = { .c = c, .a = a, .p = p, .mute = true };

	(void)why(&w, p);
	return w.number | 1;
}
