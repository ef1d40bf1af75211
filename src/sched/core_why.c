/* Why a pod waits: for a person first, then the same for a machine. Names nothing that the reader may not see:
 * no other tenant, none of their pods, no queue but those on its own path. */
#include <inttypes.h>

#include "sched/core_why.h"

uint64_t co_mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
	return h ^ h >> 29;
}

static uint64_t mix_text(uint64_t h, const char *text)
{
	static const uint8_t fixed[16] = "why a pod waits";

	return co_mix(h, rf_siphash13(fixed, text, strlen(text)));
}

struct rf_str co_line(struct co_words *w, struct rf_str text, const char *resource, const char *level, int64_t need,
		      int64_t have, const char *help)
{
	w->number = co_mix(mix_text(mix_text(mix_text(w->number, resource), level), help), (uint64_t)need) | 1;
	if (w->mute)
		return RF_STR_EMPTY;
	return rf_arena_printf(w->a, "%.*s. resource=%s level=%s need=%" PRId64 " have=%" PRId64 " help=%s",
			       RF_STR(text), resource, level, need, have, help);
}

struct rf_str co_plain(struct co_words *w, struct rf_str text, const char *level, const char *help)
{
	w->number = co_mix(w->number, rf_hash(text)) | 1;
	return rf_arena_printf(w->a, "%.*s. resource=none level=%s need=0 have=0 help=%s", RF_STR(text), level, help);
}

/* --- what bars it ----------------------------------------------------------------------------- */

static struct rf_str why_queue(struct co_words *w)
{
	const struct co_pod *p = w->p;
	const struct co_tenant *t = p->ns->tenant;
	bool by_group = p->group != NULL && p->group->known && p->group->queue != NULL;
	const char *name = by_group ? p->group->queue : p->queue;
	const struct co_queue *q;

	if (t == NULL)
		return co_plain(w, rf_arena_printf(w->a, "asks for queue %s, and its namespace belongs to no tenant", name != NULL ? name : ""),
				"queue", "leave the queue out or use a tenant's namespace");
	if (name == NULL)
		return co_plain(w, rf_arena_printf(w->a, "tenant %s has no queue that pods may wait in", t->name), "queue",
				"name one of its leaf queues or wait");
	q = rf_map_get(&w->c->queue_map, rf_str(name));
	if (q == NULL || (!q->put && !q->own))
		return co_plain(w, rf_arena_printf(w->a, "there is no queue %s", name), "queue",
				"name a queue of its own tenant or have an administrator make it");
	return co_plain(w, rf_arena_printf(w->a, "queue %s is not one in which pods of tenant %s may wait", name, t->name),
			"queue", "name a leaf queue of its own tenant");
}

static struct rf_str why_group(struct co_words *w)
{
	const struct co_pod *p = w->p;
	const struct co_group *g = p->group;

	if (p->bar == CO_BAR_GROUP)
		return co_line(w, rf_arena_printf(w->a, "its group %s is not there", g->name), "pods", "group", 1, 0,
			       "create the PodGroup or take its name off the pod");
	if (p->bar == CO_BAR_COMMIT)
		return co_plain(w, rf_arena_printf(w->a, "others of group %s are started first; it follows them", g->name),
				"group", "wait");
	if (p->bar == CO_BAR_HALF)
		return co_plain(w, rf_arena_printf(w->a, "a part of group %s has places and the rest finds none; that part is let go first", g->name),
				"group", "wait");
	if (g->min > CO_GANG_MAX)
		return co_line(w, rf_arena_printf(w->a, "group %s needs %" PRId64 " pods at once; %d can be started at once", g->name, g->min, CO_GANG_MAX),
			       "pods", "group", g->min, CO_GANG_MAX, "lower its minimum");
	if (g->again_ms > w->c->now)
		return co_plain(w, rf_arena_printf(w->a, "a binding of group %s was refused; all of it is tried again later", g->name), "group",
				"look at what refuses it or wait");
	return co_line(w, rf_arena_printf(w->a, "group %s needs %" PRId64 " pods to start and has %zu that can", g->name, g->min, g->have),
		       "pods", "group", g->min, (int64_t)g->have, "create the others or lower its minimum");
}

static struct rf_str why_barred(struct co_words *w)
{
	const struct co_pod *p = w->p;
	const struct co_form *f = p->shape->form;

	switch ((enum co_bar)p->bar) {
	case CO_BAR_CLAIM:
		return co_plain(w, rf_arena_printf(w->a, "claim %.*s of an earlier attempt is still being removed", RF_STR(p->claim != NULL ? p->claim->name : RF_STR_EMPTY)),
				"node", "wait");
	case CO_BAR_TENANT:
		return co_plain(w, p->ns->known ? rf_arena_printf(w->a, "tenant %s is not known: its namespace names it, but there is no such Tenant", p->ns->tenant->name) :
				rf_arena_printf(w->a, "namespace %s is not known yet", p->ns->name),
				"cluster", "create the Tenant or wait");
	case CO_BAR_SAID:
		return co_plain(w, rf_str(p->unsupported), "cluster", "take the demand out");
	case CO_BAR_NOBODY:
		return co_plain(w, rf_arena_printf(w->a, "namespace %s belongs to no tenant, and GPUs are for tenants", p->ns->name), "cluster",
				"add it to a Tenant's spec.namespaces");
	case CO_BAR_SHARES:
		return co_plain(w, rf_arena_printf(w->a, "tenant %s has isolation %s, which shares no card", p->ns->tenant->name, rf_isolation_name(p->ns->tenant->level)),
				"cluster", "ask for whole cards (" RF_RES_GPU ") or change the Tenant's isolation");
	case CO_BAR_DEVICES: {
		int64_t n = RF_MIN(f->cards, 100000) + RF_MIN(f->slices, 100000) + (f->bytes > 0 ? (int64_t)f->n_parts : 0);

		return co_line(w, rf_arena_printf(w->a, "asks for %" PRId64 " devices, and a claim holds at most %d", n, CO_DEVICES_MAX),
			       "cards", "node", n, CO_DEVICES_MAX, "split the work into several pods");
	}
	case CO_BAR_FORM:
		return co_plain(w, rf_str(f->bad), "cluster", "change what it asks for");
	case CO_BAR_QUEUE:
		return why_queue(w);
	case CO_BAR_GROUP:
	case CO_BAR_MIN:
	case CO_BAR_COMMIT:
	case CO_BAR_HALF:
		return why_group(w);
	case CO_BAR_PAUSE:
		return co_plain(w, rf_arena_printf(w->a, "its binding was refused (%s); it is tried again later", p->failure != NULL ? p->failure : ""), "node",
				"look at what refuses it or wait");
	default:
		return co_plain(w, RF_LIT("the queues cannot count what it asks for"), "queue", "ask for less");
	}
}

/* --- what its quotas say ----------------------------------------------------------------------- */

struct rf_str co_amount(struct co_words *w, int64_t resource, int64_t n)
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

struct rf_str co_much(struct co_words *w, int64_t resource, int64_t n)
{
	struct rf_str much = co_amount(w, resource, n);

	if (resource == CO_CARDS)
		return rf_arena_printf(w->a, "%.*s whole card%s", RF_STR(much), n == 1 ? "" : "s");
	return rf_arena_printf(w->a, "%.*s of %s", RF_STR(much), noun(w->c, resource));
}

static const char *help_of(const struct co_words *w, const struct rf_why *y)
{
	if (y->by == RF_WHY_BY_NOBODY && y->kind == RF_WHY_CAPACITY)
		return y->need > 1 ? "ask for less or add nodes" : "add nodes";
	if (y->by == RF_WHY_BY_NOBODY && y->kind != RF_WHY_GUARANTEE)
		return y->need > 1 ? "ask for less or have the quota raised" : "have the quota raised";
	if (y->by == RF_WHY_BY_BORROWERS)
		return w->p->patient ? "wait until others end: for a class with preemptionPolicy Never nobody is evicted" :
				       "wait until what was lent is taken back";
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

struct rf_str co_why_quota(struct co_words *w, const struct rf_why *y, const char *more)
{
	struct rf_core *c = w->c;
	struct rf_str level = y->level != NULL ? rf_queue_path(w->a, y->level) : RF_LIT("cluster");
	const char *res = c->resources.at[y->resource], *asks = "asks for";
	struct rf_str need, have, text;

	w->number = co_mix(w->number, y->kind);
	if (w->mute)
		return co_line(w, RF_STR_EMPTY, res, rf_arena_cstr(w->a, level), y->need, y->have, help_of(w, y));
	need = co_much(w, y->resource, y->need);
	have = co_amount(w, y->resource, y->have);
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
	return co_line(w, rf_arena_printf(w->a, "%.*s%s", RF_STR(text), more), res, rf_arena_cstr(w->a, level), y->need, y->have,
		       help_of(w, y));
}

/* --- what is said --------------------------------------------------------------------------------- */

/* Whatever ends, it will not help? Then that is to be said, and not what is in the way before. */
static bool waits_in_vain(struct co_words *w, struct co_pod *p)
{
	struct co_shape *s = p->shape;

	if (co_topology_of(p->work) != NULL && co_seats_of(w, p->work)->never)
		return true;
	if (s->form->cards > 0 && (s->form->mask & ~co_models_left(w->c, p->work, p)) != 0)
		return false; /* that is for the quotas to say */
	if (s->vain.nodes != w->c->node_facts)
		s->vain = (struct co_vain){ w->c->node_facts, co_why_never(w->c, s) };
	return s->vain.is;
}

static struct rf_str why_work(struct co_words *w, struct co_pod *p)
{
	const struct co_form *f = p->shape->form;
	struct co_work *work = p->work;
	struct rf_why y;

	rf_workload_why(w->c->queues, work->w, w->c->now, &y);
	if (y.kind >= RF_WHY_LIMIT && (y.by != RF_WHY_BY_NOBODY || y.kind == RF_WHY_CAPACITY) && waits_in_vain(w, p))
		y.kind = RF_WHY_REFUSED;
	if (f->cards > 0 && w->c->model_quotas > 0 && co_never_by_quota(w, work, f->mask, f->cards))
		(void)co_find_quota(w, work, f->mask, co_cards_of(work), &y);
	w->number = co_mix(w->number, y.kind);
	if (y.kind == RF_WHY_REFUSED)
		return work->group != NULL || co_topology_of(work) != NULL ? co_why_gang(w, p) : co_why_place(w, p);
	if (y.kind == RF_WHY_TURN || y.resource < 0)
		return co_plain(w, RF_LIT("nothing is in its way: others come first"), "queue", "wait");
	return co_why_quota(w, &y, "");
}

static struct rf_str why(struct co_words *w, struct co_pod *p)
{
	w->number = (uint64_t)p->state * 64 + p->bar;
	return p->state == CO_QUEUED && p->work != NULL ? why_work(w, p) : why_barred(w);
}

struct rf_str co_why(struct rf_core *c, struct co_pod *p, struct rf_arena *a)
{
	struct co_words w = { .c = c, .a = a, .p = p };

	return why(&w, p);
}

uint64_t co_why_number(struct rf_core *c, struct co_pod *p, struct rf_arena *a)
{
	struct co_words w = { .c = c, .a = a, .p = p, .mute = true };

	(void)why(&w, p);
	return w.number | 1;
}
