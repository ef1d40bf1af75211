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

/* "2 whole cards", "10Gi of memory of shares". */
static struct rf_str much(struct words *w, int64_t resource, int64_t n)
{
	struct rf_str much = amount(w, resource, n);

	if (resource == CO_CARDS)
		return rf_arena_printf(w->a, "%.*s whole card%s", RF_STR(much), n == 1 ? "" : "s");
	return rf_arena_printf(w->a, "%.*s of %s", RF_STR(much), noun(w->c, resource));
}

static const char *help_of(const struct rf_why *y)
{
	if (y->by == RF_WHY_BY_NOBODY && y->kind == RF_WHY_CAPACITY)
		return y->need > 1 ? "ask for less or add nodes" : "add nodes";
	if (y->by == RF_WHY_BY_NOBODY && y->kind != RF_WHY_GUARANTEE)
		return y->need > 1 ? "ask for less or have the quota raised" : "have the quota raised";
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

/* more: said after it. */
static struct rf_str why_quota(struct words *w, const struct rf_why *y, const char *more)
{
	struct rf_core *c = w->c;
	struct rf_str level = y->level != NULL ? rf_queue_path(w->a, y->level) : RF_LIT("cluster");
	const char *res = c->resources.at[y->resource], *asks = "asks for";
	struct rf_str need, have, text;

	w->number = mix(w->number, y->kind);
	if (w->mute)
		return line(w, RF_STR_EMPTY, res, rf_arena_cstr(w->a, level), y->need, y->have, help_of(y));
	need = much(w, y->resource, y->need);
	have = amount(w, y->resource, y->have);
	if (w->p->work->group != NULL)
		asks = rf_arena_printf(w->a, "group %s needs at once", w->p->work->group->name).p;
	switch (y->kind) {
	case RF_WHY_LIMIT:
		text = rf_arena_printf(w->a, "%s %.*s, and the limit of queue %.*s leaves %.*s", asks, RF_STR(need), RF_STR(level), RF_STR(have));
		break;
	case RF_WHY_GUARANTEE:
		text = rf_arena_printf(w->a, "must not be evicted; %s %.*s, and of what queue %.*s is guaranteed %.*s is left", asks, RF_STR(need), RF_STR(level), RF_STR(have));
		break;
	case RF_WHY_BORROWING:
		text = rf_arena_printf(w->a, "%s %.*s, and queue %.*s may borrow %.*s more", asks, RF_STR(need), RF_STR(level), RF_STR(have));
		break;
	case RF_WHY_RESERVED:
		text = rf_arena_printf(w->a, "%s %.*s, and what is free is kept for a large gang that waits longer; %.*s is left beside it", asks, RF_STR(need), RF_STR(have));
		break;
	case RF_WHY_LENDING:
		text = rf_arena_printf(w->a, "%s %.*s; %.*s is free that is not kept by those whom it is guaranteed to", asks, RF_STR(need), RF_STR(have));
		break;
	default:
		text = rf_arena_printf(w->a, "%s %.*s, and the cluster has %.*s left", asks, RF_STR(need), RF_STR(have));
		break;
	}
	return line(w, rf_arena_printf(w->a, "%.*s%s", RF_STR(text), more), res, rf_arena_cstr(w->a, level), y->need, y->have,
		    help_of(y));
}

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
	[RF_FLEET_NO_MODEL] = { "without cards of a model that will do", "ask for another model or wait" },
	[RF_FLEET_TOO_SMALL] = { "too small even when empty", "ask for less per pod" },
	[RF_FLEET_UNJOINED] = { "whose NVLink islands are too small even when empty", "ask for fewer or do without NVLink" },
	[RF_FLEET_MIG] = { "with too few cards that are not in MIG mode", "ask for MIG slices, or have cards taken out of MIG mode" },
}, no_mig = { "with too few cards in MIG mode", "have cards put into MIG mode" },
  no_quota = { "without cards of a model that will do and of which its quotas leave enough", "ask for another model or have the quota raised" };

struct lack {
	const char *resource, *help;
	int64_t need, have;
};

static const struct rf_fleet_part *first_part(const struct rf_fleet_ask *ask, enum rf_fleet_kind kind)
{
	for (unsigned i = 0; i < ask->n_parts; i++) {
		if (ask->parts[i].kind == kind)
			return &ask->parts[i];
	}
	return NULL;
}

/* As quotas call it. */
static const char *slice_name(struct words *w, const struct co_form *f)
{
	for (size_t i = 0; i < f->n_parts; i++) {
		if (f->parts[i].ask.slices > 0)
			return rf_arena_printf(w->a, "mig/%.*s", RF_STR(f->parts[i].ask.profile)).p;
	}
	return "slices";
}

/* What is scarcest, and the most of it that an allowed node has. */
static struct lack find_lack(struct words *w, const struct co_form *f, const struct rf_fleet_ask *ask, const struct rf_fleet_most *m,
			     const char *help)
{
	const struct rf_fleet_part *slice = first_part(ask, RF_FLEET_SLICE);
	int64_t bytes = 0, milli = 0, cards = f->cards;

	for (unsigned i = 0; f->one_island && i < ask->n_parts; i++) /* each container's are on one */
		cards = i == 0 ? ask->parts[i].n : RF_MAX(cards, ask->parts[i].n);
	for (size_t i = 0; i < f->n_parts; i++) {
		bytes = RF_MAX(bytes, f->parts[i].ask.share_bytes);
		milli = RF_MAX(milli, f->parts[i].ask.share_milli);
	}
	if (f->cards > 0 && cards > m->cards)
		return (struct lack){ "cards", help, cards, m->cards };
	if (bytes > m->bytes)
		return (struct lack){ "share-bytes", help, bytes, m->bytes };
	if (milli > m->milli)
		return (struct lack){ "share-milli", help, milli, m->milli };
	if (slice != NULL && slice->n > m->slices)
		return (struct lack){ slice_name(w, f), help, slice->n, m->slices };
	if (f->cpu > m->cpu_milli)
		return (struct lack){ "cpu", help, f->cpu, m->cpu_milli };
	if (f->memory > m->memory)
		return (struct lack){ "memory", help, f->memory, m->memory };
	if (m->pods < 1)
		return (struct lack){ "pods", help, 1, RF_MAX(m->pods, 0) };
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

static void find_short(struct words *w, struct co_pod *p, struct lack *ret)
{
	struct rf_str name;
	int64_t need, left;

	if (rf_wish_short(w->c->wishes, p->shape->wish, &name, &need, &left) && left < need)
		*ret = (struct lack){ rf_arena_printf(w->a, "%.*s", (int)RF_MIN(name.n, (size_t)128), name.p).p, ret->help, need, left };
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
	return help != NULL ? help : never;
}

static struct rf_str list_nodes(struct words *w, struct co_pod *p, const struct rf_fleet_ask *ask, const struct counts *n,
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

static struct rf_str no_model(struct words *w, const struct co_form *f)
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
	return line(w, text, f->slices > 0 ? slice_name(w, f) : "cards", "cluster", RF_MAX(f->cards + f->slices, 1), 0, help);
}

/* The quota that is in the way of so many cards of any of these models: where it leaves most, its own before others'. */
static bool find_quota(struct words *w, const struct co_work *work, uint64_t models, int64_t need, struct rf_why *ret)
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
static bool never_by_quota(struct words *w, const struct co_work *work, uint64_t models, int64_t need)
{
	struct rf_why y;

	for (uint64_t left = models; left != 0; left &= left - 1) {
		if (!find_quota(w, work, left & -left, need, &y) || y.by != RF_WHY_BY_NOBODY)
			return false;
	}
	return models != 0;
}

/* The least that a member of it needs: less than this on a model rules it out for all (co_models_left). */
static int64_t least_cards(const struct co_work *work)
{
	int64_t need = 0;

	for (const struct co_pod *p = work->first; p != NULL; p = p->work_next) {
		int64_t n = p->shape->form->cards;

		need = n > 0 && (need == 0 || n < need) ? n : need;
	}
	return need;
}

static struct rf_str why_models(struct words *w, const struct co_pod *p, uint64_t left)
{
	const struct co_form *f = p->shape->form;
	uint64_t out = f->mask & ~left;
	struct rf_why y;

	if (!find_quota(w, p->work, out, least_cards(p->work), &y))
		return no_model(w, f);
	if ((f->mask & left) != 0)
		return why_quota(w, &y, "; there is no room on other models that would do");
	return why_quota(w, &y, (out & (out - 1)) != 0 ? "; other models that would do are limited, too" : "");
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

/* Would it fit now, did its quotas not rule models out? */
static bool fits_without_quotas(struct rf_core *c, const struct co_form *f, const struct rf_fleet_ask *ask)
{
	struct rf_fleet_ask any = *ask;
	uint32_t counts[RF_FLEET_UNFITS];

	any.models = f->mask;
	rf_fleet_why(c->fleet, &any, counts);
	return counts[RF_FLEET_FITS] > 0;
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
	bool limited;

	w->number = 0;
	(void)co_ask(c, s, models, &ask);
	limited = f->cards > 0 && (f->mask & ~models) != 0;
	ask.class = rf_wish_why(c->wishes, s->wish, counts.wish);
	ask.may_kept = s->why_kept;
	if (rf_wish_moves(s->wish))
		c->looked += c->by_handle.n / 16; /* these are looked at only briefly */
	rf_fleet_most(c->fleet, &ask, &most);
	rf_fleet_why(c->fleet, &ask, counts.fleet);
	s->why_fits = counts.fleet[RF_FLEET_FITS] > 0;
	s->why_quota = limited && !s->why_fits && fits_without_quotas(c, f, &ask);
	s->why_never = !limited && is_never(&counts);
	if (s->why_fits)
		return plain(w, RF_LIT("there is room for it, and others come first there: they were promised it or have their turn before"),
			     "cluster", "wait");
	help = help_for(f, &counts, limited);
	lack = (struct lack){ "nodes", help != NULL ? help : "start a node with GPUs", 1, 0 };
	if (most.nodes > 0)
		lack = find_lack(w, f, &ask, &most, lack.help);
	else if (lack.help == wish_words[RF_WISH_RESOURCE].help)
		find_short(w, p, &lack);
	if (!w->mute)
		text = list_nodes(w, p, &ask, &counts, limited, most.nodes > 0 ? headline(w, f, &lack) : RF_LIT("no node will do"));
	return line(w, text, lack.resource, most.nodes > 0 ? "node" : "cluster", lack.need, RF_MAX(lack.have, 0), lack.help);
}

/* Worked out once for all who ask the same, and again only when something changed; what quotas say is in no version. False: no
 * model is left to it. */
static bool refresh(struct words *w, struct co_pod *p, uint64_t models)
{
	struct co_shape *s = p->shape;
	uint64_t fleet, wish, looks = rf_fleet_looks(w->c->fleet), number = w->number;
	uint16_t may_kept = co_ahead_may(w->c, p->work);
	struct rf_fleet_ask ask;
	struct rf_str text;

	if (!co_ask(w->c, s, models, &ask) && s->form->n_parts > 0)
		return false;
	fleet = rf_fleet_version(w->c->fleet, &ask);
	wish = rf_wish_version(w->c->wishes, s->wish);
	/* versions tell of what got better: not that the room there is has been taken */
	if (s->why_number != 0 && !s->why_fits && s->why_fleet == fleet && s->why_wish == wish && s->why_models == models &&
	    s->why_kept == may_kept && (s->why != NULL || w->mute))
		return true;
	s->why_kept = may_kept;
	text = fill_why(w, p, models);
	free(s->why);
	s->why = w->mute ? NULL : co_dup(text);
	s->why_number = w->number;
	w->number = number;
	w->c->looked += rf_fleet_looks(w->c->fleet) - looks;
	s->why_fleet = fleet;
	s->why_wish = wish;
	s->why_models = models;
	return true;
}

static struct rf_str why_place(struct words *w, struct co_pod *p)
{
	uint64_t models = co_models_left(w->c, p->work, p);
	struct co_shape *s = p->shape;

	if (!refresh(w, p, models) || s->why_quota)
		return why_models(w, p, models);
	w->number = s->why_number;
	return w->mute ? RF_STR_EMPTY : rf_arena_str(w->a, rf_str(s->why));
}

/* --- gangs ---------------------------------------------------------------------------------------- */

static const char *topology_of(const struct co_work *work)
{
	const struct co_group *g = work->first->group;

	return g != NULL && g->known ? g->topology : NULL;
}

/* So many such pods the domain with most room would hold if nobody else were there. */
static size_t room_when_empty(const struct rf_core *c, const struct co_gang *g)
{
	const struct rf_gang *v = &g->gang;
	size_t *room = rf_alloc(RF_MAX(v->n_domain, 1) * sizeof(*room)), most = 0;

	for (uint32_t i = 0; i < v->n_domain; i++) {
		uint32_t d = v->domain[i];

		if (d == RF_FLEET_NONE || (v->held != RF_FLEET_NONE && d != v->held))
			continue;
		rf_assert(d < v->n_domain); /* numbers are used again: there are no more than nodes */
		room[d] += rf_fleet_room_ever(c->fleet, i, &v->asks[0]);
		most = RF_MAX(most, room[d]);
	}
	free(room);
	return most;
}

/* How many of those that must start together would find places; by_quota: all, but for quotas of models. */
static void count_gang(struct words *w, struct co_work *work, struct co_seats *ret)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	size_t n = work->alike ? (size_t)RF_MAX(work->min, 1) : work->n;
	struct rf_core *c = w->c;
	struct co_gang g;

	if (co_gang_of(c, work, n, co_models_left(c, work, work->first), &a, &g)) {
		g.gang.ctx = &g;
		ret->have = rf_gang_most(c->fleet, &g.gang);
	}
	if (!co_gang_of(c, work, n, ~UINT64_C(0), &a, &g))
		return;
	g.gang.ctx = &g;
	g.tight = false;
	ret->by_quota = c->model_quotas > 0 && ret->have < g.gang.min && rf_gang_most(c->fleet, &g.gang) >= g.gang.min;
	for (size_t i = 0; i < g.gang.n_domain && !ret->domains; i++)
		ret->domains = g.gang.domain[i] != RF_FLEET_NONE;
	ret->never = g.gang.domain != NULL && work->alike && room_when_empty(c, &g) < g.gang.min;
}

/* Kept for all of the gang while nothing came that may help it. Where they ask for different things it is not known what that
 * would be. */
static const struct co_seats *seats_of(struct words *w, struct co_work *work)
{
	struct rf_core *c = w->c;
	struct co_shape *s = work->first->shape;
	struct co_seats now = { .known = true, .quotas = c->model_quotas > 0 ? c->ticks : 0 };
	struct rf_fleet_ask ask;

	(void)co_ask(c, s, ~UINT64_C(0), &ask);
	now.fleet = work->alike ? rf_fleet_version(c->fleet, &ask) : c->ticks;
	now.wish = work->alike ? rf_wish_version(c->wishes, s->wish) : 0;
	now.may_kept = co_ahead_may(c, work);
	if (work->seats.known && (int64_t)work->seats.have < RF_MAX(work->min, 1) && work->seats.fleet == now.fleet && work->seats.wish == now.wish &&
	    work->seats.quotas == now.quotas && work->seats.may_kept == now.may_kept)
		return &work->seats;
	count_gang(w, work, &now);
	c->looked += c->by_handle.n / 4;
	work->seats = now;
	return &work->seats;
}

static int64_t cards_of(const struct co_work *work)
{
	int64_t cards = 0, n = RF_MAX(work->min, 1);

	for (const struct co_pod *p = work->first; p != NULL && n > 0; p = p->work_next, n--)
		cards += RF_MIN(p->shape->form->cards, RF_FLEET_CARDS_MAX);
	return cards;
}

static struct rf_str too_few_seats(struct words *w, const struct co_pod *p, const struct co_seats *seats)
{
	const char *key = topology_of(p->work), *name = p->group->name;
	int64_t need = RF_MAX(p->work->min, 1), have = RF_MIN((int64_t)seats->have, need - 1);
	bool rest = p->group->started || p->work->group == NULL;
	struct rf_str text = RF_STR_EMPTY;
	const char *help = "wait until pods have ended, ask for less per pod or lower the group's minimum";

	if (key != NULL && seats->never)
		help = "ask for less per pod, lower the group's minimum or have its spec.topologyKey taken out";
	else if (key != NULL)
		help = "wait until pods have ended, ask for less per pod or have the group's spec.topologyKey taken out";
	if (key != NULL && !seats->domains)
		help = "label the nodes or have the group's spec.topologyKey taken out";
	if (!w->mute && key != NULL && !seats->domains)
		text = rf_arena_printf(w->a, "group %s needs nodes with one value of label %s, and no node has that label", name, key);
	else if (!w->mute && key != NULL)
		text = rf_arena_printf(w->a, "group %s needs places for %" PRId64 " pods at once on nodes with one value of %s%s; the best has room for %" PRId64 "%s", name, need, key, rest ? ", where the rest of it is" : "", have, seats->never ? ", and for too few even when empty" : "");
	else if (!w->mute)
		text = rf_arena_printf(w->a, "group %s needs places for %" PRId64 " pods at once, and there is room for %" PRId64, name, need, have);
	return line(w, text, "pods", key != NULL ? key : "cluster", need, have, help);
}

/* What is said of one pod, if that alone has no place; else how many of them have. */
static struct rf_str why_gang(struct words *w, struct co_pod *p)
{
	struct co_work *work = p->work;
	const struct co_seats *seats = seats_of(w, work);
	uint64_t number = w->number;
	struct rf_str one;
	struct rf_why y;

	if (seats->by_quota && find_quota(w, work, p->shape->form->mask, cards_of(work), &y))
		return why_quota(w, &y, "");
	one = why_place(w, p);
	if ((p->shape->why_fits || seats->never) && (int64_t)seats->have < RF_MAX(work->min, 1)) {
		w->number = number;
		return too_few_seats(w, p, seats);
	}
	w->number = mix(w->number, work->n) | 1;
	if (w->mute || p->shape->why_fits)
		return one;
	return rf_arena_printf(w->a, "group %s: there is no place for %" PRId64 " of its pods at once; each %.*s", p->group->name, RF_MAX(work->min, 1), RF_STR(one));
}

/* Whatever ends, it will not help? Then that is to be said, and not what is in the way before. */
static bool waits_in_vain(struct words *w, struct co_pod *p)
{
	if (topology_of(p->work) != NULL && seats_of(w, p->work)->never)
		return true;
	return refresh(w, p, co_models_left(w->c, p->work, p)) ? p->shape->why_never : p->shape->form->mask == 0;
}

static struct rf_str why_work(struct words *w, struct co_pod *p)
{
	const struct co_form *f = p->shape->form;
	struct co_work *work = p->work;
	struct rf_why y;

	rf_workload_why(w->c->queues, work->w, w->c->now, &y);
	if (y.kind >= RF_WHY_LIMIT && (y.by != RF_WHY_BY_NOBODY || y.kind == RF_WHY_CAPACITY) && waits_in_vain(w, p))
		y.kind = RF_WHY_REFUSED;
	if (f->cards > 0 && w->c->model_quotas > 0 && never_by_quota(w, work, f->mask, f->cards))
		(void)find_quota(w, work, f->mask, f->cards, &y);
	w->number = mix(w->number, y.kind);
	if (y.kind == RF_WHY_REFUSED)
		return work->group != NULL || topology_of(work) != NULL ? why_gang(w, p) : why_place(w, p);
	if (y.kind == RF_WHY_TURN || y.resource < 0)
		return plain(w, RF_LIT("nothing is in its way: others come first"), "queue", "wait");
	return why_quota(w, &y, "");
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

/* --- why it goes ---------------------------------------------------------------------------------- */

/* What its queue, or one above it, uses beyond what that is guaranteed, of what is held: rather of what was asked for. */
static bool find_borrowed(struct rf_core *c, const struct co_work *work, const struct co_charge *held, const struct co_charge *asked,
			  struct rf_why *ret)
{
	for (int any = 0; any < 2; any++) {
		for (const struct rf_queue *q = work->queue != NULL ? work->queue->at : NULL; q != NULL; q = rf_queue_parent(q)) {
			for (size_t i = 0; i < held->n; i++) {
				int64_t r = held->ask[i].resource, over = rf_queue_over_by(c->queues, q, r);
				struct rf_queue_view v;
				bool wanted = any;

				for (size_t k = 0; k < asked->n && !wanted; k++)
					wanted = asked->ask[k].resource == r;
				if (over <= 0 || !wanted)
					continue;
				rf_queue_view(c->queues, q, r, c->now, &v);
				*ret = (struct rf_why){ .resource = r, .level = q, .need = v.used, .have = v.used - over };
				return true;
			}
		}
	}
	return false;
}

/* Of what it holds itself, or else of what those hold that go with it. */
static bool find_given_back(struct words *w, const struct co_plan *plan, struct rf_why *ret)
{
	struct co_charge asked = { .n = 0 }, held = { .n = 0 };

	co_charge_pod(w->c, plan->work->first, &asked);
	co_charge_held(w->c, w->p, &held);
	if (find_borrowed(w->c, w->p->work, &held, &asked, ret))
		return true;
	for (const struct co_pod *p = w->p->group != NULL ? w->p->group->pods : NULL; p != NULL; p = p->group_next) {
		if (p->seat != NULL)
			co_charge_held(w->c, p, &held);
	}
	return find_borrowed(w->c, w->p->work, &held, &asked, ret);
}

/* What others hold whose queue is not there either is none of its business. */
static struct rf_str why_queueless(struct words *w, const struct co_plan *plan)
{
	struct co_charge asked = { .n = 0 }, held = { .n = 0 };
	size_t i = 0;

	co_charge_pod(w->c, plan->work->first, &asked);
	co_charge_held(w->c, w->p, &held);
	for (size_t k = 0; k < asked.n; k++) {
		for (i = 0; i < held.n && held.ask[i].resource != asked.ask[k].resource;)
			i++;
		if (i < held.n)
			break;
	}
	i = i < held.n ? i : 0; /* a pod at least */
	return line(w, rf_arena_printf(w->a, "its queue is not there, so nothing is guaranteed to it; it holds %.*s, and those to whom that is guaranteed need it", RF_STR(much(w, held.ask[i].resource, held.ask[i].amount))),
		    w->c->resources.at[held.ask[i].resource], "queue", held.ask[i].amount, 0, "name a queue of its tenant or wait until it can start again");
}

static struct rf_str why_reclaimed(struct words *w, const struct co_plan *plan)
{
	const char *help = "wait until it can start again or have the guarantee raised";
	struct rf_workload_view v;
	struct rf_str level;
	struct rf_why y;

	if (w->p->work->queue == NULL)
		return why_queueless(w, plan);
	if (find_given_back(w, plan, &y)) {
		level = rf_queue_path(w->a, y.level);
		return line(w, rf_arena_printf(w->a, "queue %.*s uses %.*s and is guaranteed %.*s; the rest is borrowed, and those to whom it is guaranteed need it", RF_STR(level), RF_STR(much(w, y.resource, y.need)), RF_STR(amount(w, y.resource, y.have))),
			    w->c->resources.at[y.resource], rf_arena_cstr(w->a, level), y.need, y.have, help);
	}
	rf_workload_view(w->p->work->w, &v);
	if (v.backfilled)
		return plain(w, RF_LIT("was let past work that waited longer, because it can be stopped, and that work is due now"), "cluster",
			     "wait until it can start again or set a run limit");
	return plain(w, RF_LIT("runs on what its queue borrowed, and those to whom it is guaranteed need it"), "queue", help);
}

/* What the other one lacks: it is of the same queue. */
static struct rf_str why_preempted(struct words *w, struct co_plan *plan)
{
	const char *help = "raise its priority or wait until it can start again", *text = "makes room for work of its own queue with a higher priority";
	struct co_pod *first = plan->work->first;
	struct rf_fleet_most most;
	struct rf_fleet_ask ask;
	struct lack lack;
	struct rf_why y;

	rf_workload_why(w->c->queues, plan->work->w, w->c->now, &y);
	if (y.resource >= 0)
		return line(w, rf_arena_printf(w->a, "%s, which needs %.*s where %.*s is left", text, RF_STR(much(w, y.resource, y.need)), RF_STR(amount(w, y.resource, y.have))),
			    w->c->resources.at[y.resource], y.level != NULL ? rf_arena_cstr(w->a, rf_queue_path(w->a, y.level)) : "cluster",
			    y.need, y.have, help);
	(void)co_ask(w->c, first->shape, ~UINT64_C(0), &ask);
	ask.class = rf_wish_class(w->c->wishes, first->shape->wish, false);
	ask.may_kept = co_ahead_may(w->c, plan->work);
	rf_fleet_most(w->c->fleet, &ask, &most);
	lack = find_lack(w, first->shape->form, &ask, &most, help);
	return line(w, strcmp(lack.resource, "nodes") == 0 ? rf_str(text) : rf_arena_printf(w->a, "%s, which %.*s", text, RF_STR(headline(w, first->shape->form, &lack))),
		    lack.resource, "node", lack.need, RF_MAX(lack.have, 0), lack.help);
}

struct rf_str co_why_goes(struct rf_core *c, struct co_pod *p, struct co_plan *plan, struct rf_arena *a)
{
	struct words w = { .c = c, .a = a, .p = p };

	return p->by_priority ? why_preempted(&w, plan) : why_reclaimed(&w, plan);
}
