/* Pods with cards that are bound and whose claim is gone: somebody deleted it between its allocation and the binding, or took it away
 * by force. No node starts such a pod, and it cannot be unbound: it is evicted, so that it is made and placed anew. */
#include "control/private.h"

#define LOOK_MS 5000 /* until one is looked at, and looked at again: informers are not in step */
#define TURN_MAX 16  /* the server is asked about in a turn */

static void note(struct rf_placer *p, struct rf_str ns, struct rf_str pod)
{
	struct rf_unclaimed u = { .next_ms = p->now_ms + LOOK_MS, .ns = rf_str_dup(ns), .name = rf_str_dup(pod) };

	rf_vec_push(&p->unclaimed, u);
}

/* Ours, bound, and no use without a claim. */
static bool needs_claim(const struct rf_placer *p, const struct rf_json *pod)
{
	struct rf_gpu_ask ask = { 0 };

	return pod != NULL && rf_json_str_at(pod, "spec", "nodeName").n > 0 && rf_pod_counts(pod) && !rf_kube_deleting(pod) &&
	       rf_pod_is_for_us(pod, p->scheduler) && rf_gpu_ask_of_pod(pod, &ask, NULL) == 0 && rf_gpu_ask_any(&ask);
}

static bool is_claimed(const struct rf_placer *p, const struct rf_json *pod)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	return p->cluster.get(p->cluster.ctx, &RF_RESOURCECLAIMS, rf_kube_namespace(pod), rf_pod_claim_name(&a, pod)) != NULL;
}

static bool has_tenant(const struct rf_placer *p, struct rf_str ns)
{
	const struct rf_json *o = p->cluster.get(p->cluster.ctx, &RF_NAMESPACES, RF_STR_EMPTY, ns);

	return o != NULL && rf_kube_label(o, RF_TENANT_LABEL).n > 0;
}

void rf_unclaimed_pod(struct rf_placer *p, const struct rf_json *before, const struct rf_json *after)
{
	if ((before == NULL || rf_json_str_at(before, "spec", "nodeName").n == 0) && needs_claim(p, after) && !is_claimed(p, after))
		note(p, rf_kube_namespace(after), rf_kube_name(after));
}

void rf_unclaimed_claim_gone(struct rf_placer *p, const struct rf_json *claim)
{
	struct rf_str ns = rf_kube_namespace(claim), pod = rf_claim_owner(claim, "name");

	if (rf_claim_is_ours(claim) && needs_claim(p, p->cluster.get(p->cluster.ctx, &RF_PODS, ns, pod)))
		note(p, ns, pod);
}

/* Only the server's own word costs a pod. 0: it has no claim; 1: it is as it should be. */
static int ask_server(struct rf_placer *p, struct rf_arena *a, const struct rf_json *seen, struct rf_json **ret_pod)
{
	struct rf_hands *h = &p->hands;
	struct rf_str ns = rf_kube_namespace(seen);
	struct rf_json *claim = NULL;
	int rc = h->get(h->ctx, a, rf_kube_path(a, &RF_RESOURCECLAIMS, ns, rf_pod_claim_name(a, seen), NULL), &claim, NULL);

	if (rc != -RF_NOT_FOUND)
		return rc < 0 ? rc : 1;
	/* The core was told when it was written; of one that came and went in between a watch may say nothing. */
	rf_core_del_claim(p->core, ns, rf_pod_claim_name(a, seen), p->now_ms);
	rc = h->get(h->ctx, a, rf_kube_path(a, &RF_PODS, ns, rf_kube_name(seen), NULL), ret_pod, NULL);
	if (rc < 0)
		return rc == -RF_NOT_FOUND ? 1 : rc;
	return rf_str_eq(rf_kube_uid(*ret_pod), rf_kube_uid(seen)) && needs_claim(p, *ret_pod) ? 0 : 1;
}

/* Negative: it is to be looked at again. */
static int evict(struct rf_placer *p, const struct rf_json *seen)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_hands *h = &p->hands;
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *pod = NULL;
	int rc = ask_server(p, &a, seen, &pod);

	if (rc != 0)
		return RF_MIN(rc, 0);
	rc = h->create(h->ctx, &a, rf_kube_path(&a, &RF_PODS, rf_kube_namespace(pod), rf_kube_name(pod), "eviction"), rf_pod_eviction(&a, pod),
		       NULL, &err);
	if (rc == 0)
		rf_carry_say_evicted(p, &a, pod, "ClaimLost",
				     rf_arena_printf(&a, "claim %.*s is gone, and without it no node starts the pod; it is evicted, to be made and placed anew",
						     RF_STR(rf_pod_claim_name(&a, pod))));
	else if (rc != -RF_NOT_FOUND)
		rf_warn("pod %.*s: its claim is gone; evict it: %s", RF_STR(rf_kube_display(&a, pod)), err.msg);
	return rc == -RF_NOT_FOUND ? 0 : rc;
}

static void shrink(struct rf_placer *p)
{
	size_t left = p->unclaimed.n - p->unclaimed_head;

	if (p->unclaimed_head < left)
		return;
	if (left > 0)
		memmove(p->unclaimed.at, p->unclaimed.at + p->unclaimed_head, left * sizeof(*p->unclaimed.at));
	p->unclaimed.n = left;
	p->unclaimed_head = 0;
}

/* One that may have lost its claim. Negative: it is to be looked at again. */
static int look(struct rf_placer *p, const struct rf_unclaimed *u, size_t *asked)
{
	const struct rf_json *seen = p->cluster.get(p->cluster.ctx, &RF_PODS, rf_str(u->ns), rf_str(u->name));

	if (!needs_claim(p, seen) || is_claimed(p, seen) || !has_tenant(p, rf_str(u->ns)))
		return 0;
	(*asked)++;
	return evict(p, seen);
}

/* They come in the order in which they are due. */
int64_t rf_unclaimed_turn(struct rf_placer *p)
{
	size_t asked = 0;
	int rc = 0;

	while (p->unclaimed_head < p->unclaimed.n) {
		struct rf_unclaimed u = p->unclaimed.at[p->unclaimed_head];

		if (rf_is_away(rc) || !p->hands.may(p->hands.ctx))
			return LOOK_MS;
		if (u.next_ms > p->now_ms || asked == TURN_MAX)
			return RF_MAX(u.next_ms - p->now_ms, 1);
		p->unclaimed_head++;
		rc = look(p, &u, &asked);
		if (rc < 0)
			note(p, rf_str(u.ns), rf_str(u.name));
		free(u.ns);
		free(u.name);
		shrink(p);
	}
	return -1;
}
