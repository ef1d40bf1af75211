/* What was admitted a moment ago: between the answer to a review and the informer's news of the pod
 * there is a gap, in which a second pod would be given the same quota. */
#include "control/private.h"

static bool keep(char *to, size_t size, struct rf_str s)
{
	if (s.n >= size)
		return false;
	memcpy(to, s.p, s.n);
	to[s.n] = '\0';
	return true;
}

static bool is_named(const struct rf_recent *r, struct rf_str ns, struct rf_str name)
{
	return rf_str_is(ns, r->ns) && rf_str_is(name, r->name);
}

/* The slot of that name, a free one, or the oldest one's. */
static struct rf_recent *slot_for(struct rf_recents *r, struct rf_str ns, struct rf_str name)
{
	struct rf_recent *oldest = &r->at[0];

	for (size_t i = 0; i < r->n; i++) {
		if (is_named(&r->at[i], ns, name))
			return &r->at[i];
		if (r->at[i].until_ms < oldest->until_ms)
			oldest = &r->at[i];
	}
	return r->n < RF_RECENTS_MAX ? &r->at[r->n++] : oldest;
}

void rf_recents_put(struct rf_recents *r, struct rf_str ns, struct rf_str name, struct rf_str uid,
		    const struct rf_tenant_use *use, int64_t now_ms)
{
	struct rf_recent one = { .use = *use, .until_ms = now_ms + RF_RECENT_MS };

	/* No pod has a longer name than fits: the API server will refuse this one by itself. */
	if (keep(one.ns, sizeof(one.ns), ns) && keep(one.name, sizeof(one.name), name) &&
	    keep(one.uid, sizeof(one.uid), uid))
		*slot_for(r, ns, name) = one;
}

static bool is_shown(const struct rf_recent *r, const struct rf_cluster *c)
{
	const struct rf_json *pod = c->get(c->ctx, &RF_PODS, rf_str(r->ns), rf_str(r->name));

	return pod != NULL && (r->uid[0] == '\0' || rf_str_is(rf_kube_uid(pod), r->uid));
}

void rf_recents_count(struct rf_recents *r, const struct rf_cluster *c, struct rf_str tenant,
		      struct rf_str ns, struct rf_str name, int64_t now_ms,
		      struct rf_tenant_use *use)
{
	for (size_t i = 0; i < r->n;) {
		struct rf_recent *one = &r->at[i];
		const struct rf_json *in = NULL;

		if (one->until_ms <= now_ms || is_shown(one, c)) {
			*one = r->at[--r->n];
			continue;
		}
		in = c->get(c->ctx, &RF_NAMESPACES, RF_STR_EMPTY, rf_str(one->ns));
		if (!is_named(one, ns, name) &&
		    rf_str_eq(rf_kube_label(in, RF_TENANT_LABEL), tenant))
			rf_tenant_use_add(use, &one->use);
		i++;
	}
}
