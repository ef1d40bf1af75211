#include "node/sharing.h"

#include <stdio.h>

#include "kube/kube.h"
#include "sched/sched.h"
#include "tenant/tenant.h"

static int read_sharing(const struct rf_json *pool, bool *ret, struct rf_err *err)
{
	const struct rf_json *v = rf_json_at(pool, "spec", "sharing");
	struct rf_str word = rf_json_str(v);

	if (v != NULL && v->type != RF_JSON_NULL && !rf_str_is(word, "mps") && !rf_str_is(word, "timeslice"))
		return rf_fail(err, RF_UNAVAILABLE, "GPUPool %.*s: spec.sharing is neither timeslice nor mps",
			       RF_STR(rf_kube_name(pool)));
	*ret = rf_str_is(word, "mps");
	return 0;
}

int rf_sharing_of_node(const struct rf_sharing_source *s, struct rf_str node, bool *ret, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *o;
	struct rf_str pool;
	int rc;

	if (s->get(s->ctx, &a, rf_kube_path(&a, &RF_NODES, RF_STR_EMPTY, node, NULL), &o, err) < 0)
		return rf_wrap(err, "read node %.*s", RF_STR(node));
	pool = rf_kube_label(o, RF_POOL_LABEL);
	if (!rf_str_is_dns_label(pool)) {
		*ret = false;
		return 0;
	}
	rc = s->get(s->ctx, &a, rf_kube_path(&a, &RF_GPUPOOLS, RF_STR_EMPTY, pool, NULL), &o, err);
	if (rc == -RF_NOT_FOUND) {
		*ret = false; /* as for placing: a pool that is not there says nothing */
		return 0;
	}
	if (rc < 0)
		return rf_wrap(err, "read GPUPool %.*s", RF_STR(pool));
	return read_sharing(o, ret, err);
}

int rf_sharing_of_tenant(const struct rf_sharing_source *s, struct rf_str node, struct rf_str tenant,
			 struct rf_sharing *ret, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *o;
	struct rf_tenant t;
	bool mps = false;

	*ret = (struct rf_sharing){ .mps = false };
	if (rf_sharing_of_node(s, node, &mps, err) < 0)
		return -err->code;
	if (!mps)
		return 0;
	if (s->get(s->ctx, &a, rf_kube_path(&a, &RF_TENANTS, RF_STR_EMPTY, tenant, NULL), &o, err) < 0)
		return rf_wrap(err, "read tenant %.*s", RF_STR(tenant));
	if (rf_tenant_parse(&a, o, &t, err) < 0)
		return rf_wrap(err, "tenant %.*s", RF_STR(tenant));
	if (t.isolation != RF_ISOLATION_COOPERATIVE)
		return 0;
	ret->mps = true;
	snprintf(ret->domain, sizeof(ret->domain), "%.*s", RF_STR(t.trust_domain));
	return 0;
}
