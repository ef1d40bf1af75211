/* A new pod that was written for another scheduler: put into ringfence's words before defaults and checks, where
 * an administrator switched that habit on. */
#include "apiserver/admission.h"

#include "apiserver/index.h"
#include "tenant/foreign.h"

struct asker {
	struct rf_req *r;
	struct rf_str tenant;
};

static bool owns_queue(void *ctx, struct rf_str queue)
{
	struct asker *who = ctx;
	struct rf_json *o = NULL;

	return rf_store_get(who->r->api->store, who->r->a, rf_kind_get("queues"), RF_STR_EMPTY, queue, &o, NULL) == 0 &&
	       rf_queue_is_of(o, who->tenant);
}

int rf_admit_foreign(struct rf_req *r, struct rf_json *pod, struct rf_err *err)
{
	struct rf_str name = rf_json_str_at(pod, "metadata", "name");
	struct asker who = { .r = r };
	struct rf_foreign_owner owner = { .owns = owns_queue, .ctx = &who };
	struct rf_json *patch = NULL;

	if (rf_foreign()->habits == 0)
		return 0;
	owner.tenant = who.tenant = rf_index_tenant_of(r->api->store, r->a, r->route.ns);
	if (rf_foreign_rewrite(r->a, rf_foreign(), &owner, pod, &patch, err) == 0)
		return 0;
	if (err->code == RF_INVALID)
		return rf_wrap(err, "Pod \"%.*s\" is invalid", RF_STR(name));
	return rf_wrap(err, "pods \"%.*s\" is forbidden", RF_STR(name));
}
