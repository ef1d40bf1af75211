/* Why a pod waits, for a person: how many nodes fail and how, who is in the way, what to do. */
#include "sched/private.h"

#define NODES_SHOWN 3
#define CARDS_SHOWN 8

static const struct {
	const char *what, *remedy;
} texts[RF_UNFIT_COUNT] = {
	[RF_UNFIT_PINNED] = { "other than the one its DaemonSet means",
			      "wait until that node is there" },
	[RF_UNFIT_NOT_READY] = { "not ready",
				 "start the node agent, or wait until a node is ready" },
	[RF_UNFIT_CORDONED] = { "cordoned", "uncordon a node" },
	[RF_UNFIT_OS] = { "of another operating system", "change spec.os of the pod" },
	[RF_UNFIT_SELECTOR] = { "without the labels of its nodeSelector",
				"change spec.nodeSelector or label a node" },
	[RF_UNFIT_TAINT] = { "with a taint that it does not tolerate",
			     "add a toleration or remove the taint" },
	[RF_UNFIT_ISOLATION] = { "with tenants on it that may not meet this one",
				 "wait until their pods have ended, or add a node" },
	[RF_UNFIT_PODS] = { "with no room for another pod", "wait until a pod has ended" },
	[RF_UNFIT_CPU] = { "without enough CPU",
			   "lower requests.cpu, or wait until a pod has ended" },
	[RF_UNFIT_MEMORY] = { "without enough memory",
			      "lower requests.memory, or wait until a pod has ended" },
	[RF_UNFIT_RESOURCE] = { "without enough of another resource it asks for",
				"lower the request, or wait until a pod has ended" },
	[RF_UNFIT_NO_CARDS] = { "without GPUs", "start ringfence's node agent where the GPUs are" },
	[RF_UNFIT_CARDS] = { "without room on the cards",
			     "wait until a card is released, or ask for less" },
};

/* Who is in the way. The reason is read by the tenant that waits: strangers are not named to it. */
static void put_party(struct rf_buf *out, const struct rf_party *p, const struct rf_party *reader)
{
	if (p->tenant.n == 0)
		rf_buf_puts(out, "pods of no tenant");
	else if (!rf_str_eq(p->tenant, reader->tenant) &&
		 !(p->known && reader->known && rf_str_eq(p->trust, reader->trust)))
		rf_buf_puts(out, "another tenant");
	else if (!p->known)
		rf_buf_printf(out, "tenant %.*s (its Tenant is gone)", RF_STR(p->tenant));
	else
		rf_buf_printf(out, "tenant %.*s (isolation %s)", RF_STR(p->tenant),
			      rf_isolation_name(p->isolation));
}

/* The guests come in the order of a hash; the first by name is the one that is told. */
static const struct rf_party *first_stranger(const struct rf_guest *g, const struct rf_party *party,
					     bool (*may)(const struct rf_party *,
							 const struct rf_party *))
{
	const struct rf_party *first = NULL;

	for (; g != NULL; g = g->next) {
		if (may(&g->party, party))
			continue;
		if (first == NULL || rf_str_cmp(g->party.tenant, first->tenant) < 0)
			first = &g->party;
	}
	return first;
}

static void put_card(struct rf_buf *out, const struct rf_card *c, const struct rf_party *party)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	const struct rf_sched_device *d = c->device;
	const struct rf_party *other = first_stranger(c->holders, party, rf_party_shares_card);
	int64_t bytes = RF_MAX(d->memory - c->bytes, 0), milli = RF_MAX(d->milli - c->milli, 0);

	rf_buf_printf(out, "%.*s ", RF_STR(d->name));
	if (d->fault.n > 0) {
		rf_buf_printf(out, "is out of service: %.*s", RF_STR(d->fault));
	} else if (other != NULL) {
		rf_buf_puts(out, "is held by ");
		put_party(out, other, party);
	} else if (!c->held) {
		rf_buf_printf(out, "is free (%.*s)", RF_STR(rf_quantity_bytes(&a, d->memory)));
	} else {
		rf_buf_printf(out, "has %.*s and %lld%% of compute left",
			      RF_STR(rf_quantity_bytes(&a, bytes)), (long long)(milli / 10));
	}
}

static void put_cards(struct rf_buf *out, const struct rf_place *p, const struct rf_party *party)
{
	for (size_t i = 0; i < p->n_cards && i < CARDS_SHOWN; i++) {
		rf_buf_puts(out, i > 0 ? ", " : "");
		put_card(out, &p->cards[i], party);
	}
	if (p->n_cards > CARDS_SHOWN)
		rf_buf_printf(out, ", and %zu more", p->n_cards - CARDS_SHOWN);
}

static void put_left(struct rf_buf *out, const struct rf_place *p, enum rf_unfit why)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	if (why == RF_UNFIT_CPU)
		rf_buf_printf(out, "%.*s left",
			      RF_STR(rf_quantity_format_milli(&a, RF_MAX(p->cpu_left, 0))));
	else
		rf_buf_printf(out, "%.*s left",
			      RF_STR(rf_quantity_bytes(&a, RF_MAX(p->memory_left, 0))));
}

static void put_lack(struct rf_buf *out, const struct rf_place *p, const struct rf_sched_pod *pod)
{
	int64_t left = 0;
	const struct rf_sched_amount *lack = rf_place_lacks(p, pod, &left);

	if (lack != NULL)
		rf_buf_printf(out, "%lld of %.*s asked for, %lld left", (long long)lack->n,
			      RF_STR(lack->name), (long long)left);
}

/* One node's own story, where there is one to tell. */
static bool put_detail(struct rf_buf *out, const struct rf_place *p, const struct rf_sched_pod *pod,
		       const struct rf_party *party, enum rf_unfit why)
{
	switch (why) {
	case RF_UNFIT_ISOLATION:
		rf_buf_printf(out, "%.*s: ", RF_STR(p->node->name));
		put_party(out, first_stranger(p->guests, party, rf_party_shares_node), party);
		return true;
	case RF_UNFIT_CARDS:
		rf_buf_printf(out, "%.*s: ", RF_STR(p->node->name));
		put_cards(out, p, party);
		return true;
	case RF_UNFIT_CPU:
	case RF_UNFIT_MEMORY:
		rf_buf_printf(out, "%.*s: ", RF_STR(p->node->name));
		put_left(out, p, why);
		return true;
	case RF_UNFIT_RESOURCE:
		rf_buf_printf(out, "%.*s: ", RF_STR(p->node->name));
		put_lack(out, p, pod);
		return true;
	default:
		return false;
	}
}

static void put_class(struct rf_buf *out, const struct rf_view *v, const struct rf_sched_pod *pod,
		      const struct rf_party *party, const enum rf_unfit *unfit, enum rf_unfit why)
{
	rf_auto(buf) details = RF_BUF_INIT;
	size_t n = 0;

	for (size_t i = 0; i < v->n; i++) {
		if (unfit[i] != why)
			continue;
		if (n < NODES_SHOWN && details.n > 0)
			rf_buf_puts(&details, "; ");
		if (n < NODES_SHOWN)
			(void)put_detail(&details, &v->places[i], pod, party, why);
		n++;
	}
	if (n == 0)
		return;
	rf_buf_printf(out, "%s%zu %s", rf_str_ends(rf_buf_str(out), RF_LIT(": ")) ? "" : ", ", n,
		      texts[why].what);
	if (details.n > 0)
		rf_buf_printf(out, " (%s)", details.p);
}

static void put_ask(struct rf_buf *out, const struct rf_sched_pod *pod)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	for (size_t i = 0; i < pod->n_containers; i++) {
		const struct rf_gpu_ask *ask = &pod->containers[i].ask;

		if (ask->cards > 0)
			rf_buf_printf(out, "; %.*s asks for %lld whole card%s",
				      RF_STR(pod->containers[i].name), (long long)ask->cards,
				      ask->cards == 1 ? "" : "s");
		if (ask->share_bytes > 0)
			rf_buf_printf(out, "; %.*s asks for %.*s and %lld%% of one card",
				      RF_STR(pod->containers[i].name),
				      RF_STR(rf_quantity_bytes(&a, ask->share_bytes)),
				      (long long)(ask->share_milli / 10));
	}
}

struct rf_str rf_sched_reason(struct rf_arena *a, const struct rf_view *v,
			      const struct rf_sched_pod *pod, const struct rf_party *party,
			      const enum rf_unfit *unfit)
{
	enum rf_unfit closest = RF_UNFIT_PINNED;
	rf_auto(buf) out = RF_BUF_INIT;

	if (v->n == 0)
		return RF_LIT(
			"0/0 nodes fit: there is no node; start `ringfence node` on a machine with "
			"GPUs");
	rf_buf_printf(&out, "0/%zu nodes fit: ", v->n);
	for (int why = RF_UNFIT_PINNED; why < RF_UNFIT_COUNT; why++)
		put_class(&out, v, pod, party, unfit, (enum rf_unfit)why);
	/* The later a filter stands, the closer the node came: its remedy is the one to give. */
	for (size_t i = 0; i < v->n; i++)
		closest = RF_MAX(closest, unfit[i]);
	if (closest == RF_UNFIT_CARDS)
		put_ask(&out, pod);
	rf_buf_printf(&out, "; %s", texts[closest].remedy);
	return rf_arena_str(a, rf_buf_str(&out));
}
