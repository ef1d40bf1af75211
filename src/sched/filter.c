/* Hard filters: what makes a node impossible for a pod, cards aside. */
#include "sched/private.h"

static bool has_label(const struct rf_sched_node *n, const struct rf_sched_pair *want)
{
	for (size_t i = 0; i < n->n_labels; i++) {
		if (rf_str_eq(n->labels[i].key, want->key))
			return rf_str_eq(n->labels[i].value, want->value);
	}
	return false;
}

static bool selected(const struct rf_sched_node *n, const struct rf_sched_pod *pod)
{
	for (size_t i = 0; i < pod->n_selector; i++) {
		if (!has_label(n, &pod->selector[i]))
			return false;
	}
	return true;
}

static bool tolerates(const struct rf_sched_toleration *t, const struct rf_sched_taint *taint)
{
	if (t->effect.n > 0 && !rf_str_eq(t->effect, taint->effect))
		return false;
	if (t->key.n == 0)
		return t->any_value;
	return rf_str_eq(t->key, taint->key) && (t->any_value || rf_str_eq(t->value, taint->value));
}

static bool repels(const struct rf_sched_taint *taint, const struct rf_sched_pod *pod)
{
	if (!rf_str_is(taint->effect, "NoSchedule") && !rf_str_is(taint->effect, "NoExecute"))
		return false;
	for (size_t i = 0; i < pod->n_tolerations; i++) {
		if (tolerates(&pod->tolerations[i], taint))
			return false;
	}
	return true;
}

static bool tainted(const struct rf_sched_node *n, const struct rf_sched_pod *pod)
{
	for (size_t i = 0; i < n->n_taints; i++) {
		if (repels(&n->taints[i], pod))
			return true;
	}
	return false;
}

static bool in_good_company(const struct rf_place *p, const struct rf_party *party)
{
	for (const struct rf_guest *g = p->guests; g != NULL; g = g->next) {
		if (!rf_party_shares_node(&g->party, party))
			return false;
	}
	return true;
}

/* Pods without an os run on Linux, and so does every node that does not say otherwise. */
static bool right_system(const struct rf_sched_node *n, const struct rf_sched_pod *pod)
{
	struct rf_str want = pod->os.n > 0 ? pod->os : RF_LIT("linux"), has = RF_LIT("linux");

	for (size_t i = 0; i < n->n_labels; i++) {
		if (rf_str_is(n->labels[i].key, "kubernetes.io/os"))
			has = n->labels[i].value;
	}
	return rf_str_eq(want, has);
}

/* Nodes that do not speak of these are not short of them: storage that nobody counts, and cards,
 * which are counted by claims. */
static bool may_be_unsaid(struct rf_str resource)
{
	for (size_t i = 0; rf_gpu_name(i) != NULL; i++) {
		if (rf_str_is(resource, rf_gpu_name(i)))
			return true;
	}
	return rf_str_is(resource, "ephemeral-storage");
}

static int64_t left_of(const struct rf_place *p, const struct rf_sched_amount *want)
{
	for (size_t i = 0; i < p->node->n_more; i++) {
		if (rf_str_eq(p->node->more[i].name, want->name))
			return p->more_left[i];
	}
	return may_be_unsaid(want->name) ? INT64_MAX : 0;
}

const struct rf_sched_amount *rf_place_lacks(const struct rf_place *p,
					     const struct rf_sched_pod *pod, int64_t *ret_left)
{
	for (size_t i = 0; i < pod->n_more; i++) {
		int64_t left = left_of(p, &pod->more[i]);

		if (pod->more[i].n <= 0 || pod->more[i].n <= left)
			continue;
		*ret_left = RF_MAX(left, 0);
		return &pod->more[i];
	}
	return NULL;
}

enum rf_unfit rf_filter_node(const struct rf_place *p, const struct rf_sched_pod *pod,
			     const struct rf_party *party)
{
	const struct rf_sched_node *n = p->node;
	int64_t left = 0;

	if (pod->only_node.n > 0 && !rf_str_eq(pod->only_node, n->name))
		return RF_UNFIT_PINNED;
	if (!n->ready)
		return RF_UNFIT_NOT_READY;
	if (n->cordoned)
		return RF_UNFIT_CORDONED;
	if (!right_system(n, pod))
		return RF_UNFIT_OS;
	if (!selected(n, pod))
		return RF_UNFIT_SELECTOR;
	if (tainted(n, pod))
		return RF_UNFIT_TAINT;
	if (!in_good_company(p, party))
		return RF_UNFIT_ISOLATION;
	if (p->pods_left < 1)
		return RF_UNFIT_PODS;
	if (pod->cpu_milli > 0 && pod->cpu_milli > p->cpu_left)
		return RF_UNFIT_CPU;
	if (pod->memory > 0 && pod->memory > p->memory_left)
		return RF_UNFIT_MEMORY;
	if (rf_place_lacks(p, pod, &left) != NULL)
		return RF_UNFIT_RESOURCE;
	return RF_FITS;
}

bool rf_card_open_to(const struct rf_card *c, const struct rf_party *party)
{
	if (c->device->fault.n > 0)
		return false;
	for (const struct rf_guest *g = c->holders; g != NULL; g = g->next) {
		if (!rf_party_shares_card(&g->party, party))
			return false;
	}
	return true;
}
