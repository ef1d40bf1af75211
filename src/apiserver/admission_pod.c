/* A new pod: pod security, its service account, its GPUs, its tenant. */
#include "apiserver/admission.h"

#include "apiserver/index.h"
#include "policy/podsecurity.h"
#include "tenant/admit.h"

/* --- pod security --------------------------------------------------------------------------- */

/* A header has room for so much. */
#define WARNING_MAX 4096u

/* Nothing is allowed for user namespaces: ringfence's nodes give pods none. */
static int check_security(struct rf_req *r, const struct rf_json *ns, const struct rf_json *pod,
			  struct rf_err *err)
{
	rf_auto(buf) why = RF_BUF_INIT;
	rf_auto(buf) rules = RF_BUF_INIT;
	struct rf_ps_rules enforce, warn;

	rf_ps_read_labels(rf_json_at(ns, "metadata", "labels"), &enforce, &warn);
	rf_ps_put_rules(&rules, &enforce);
	if (!rf_ps_judge(&enforce, pod, &why))
		return rf_fail(err, RF_FORBIDDEN, "violates PodSecurity \"%s\": %s", rules.p,
			       why.p);
	rf_buf_clear(&rules);
	rf_ps_put_rules(&rules, &warn);
	if (!rf_ps_judge(&warn, pod, &why))
		rf_buf_printf(&r->warnings, "would violate PodSecurity \"%s\": %.*s\n", rules.p,
			      (int)RF_MIN(why.n, WARNING_MAX), why.p);
	return 0;
}

/* --- who and where -------------------------------------------------------------------------- */

static int check_account(struct rf_req *r, const struct rf_json *pod, struct rf_err *err)
{
	struct rf_str ns = r->route.ns, name = rf_json_str_at(pod, "spec", "serviceAccountName");

	if (rf_store_has(r->api->store, rf_kind_get("serviceaccounts"), ns, name))
		return 0;
	return rf_fail(
		err, RF_FORBIDDEN,
		"error looking up service account %.*s/%.*s: serviceaccount \"%.*s\" not found",
		RF_STR(ns), RF_STR(name), RF_STR(name));
}

/* --- GPUs and the tenant -------------------------------------------------------------------- */

/* In whole units, rounded up: no quota is exceeded by rounding. */
static int64_t used_by(struct rf_req *r, struct rf_str tenant, struct rf_str resource)
{
	return (rf_index_tenant_used(r->api->store, tenant, resource) + 999) / 1000;
}

/* NULL in *ret: there is none of that name. */
static int find_queue(struct rf_req *r, struct rf_str name, const struct rf_json **ret, struct rf_err *err)
{
	struct rf_json *queue = NULL;
	int n = name.n > 0 ? rf_store_get(r->api->store, r->a, rf_kind_get("queues"), RF_STR_EMPTY, name, &queue, err) : 0;

	*ret = n == 0 ? queue : NULL;
	return n == -RF_NOT_FOUND ? 0 : n;
}

static int judge_pod(struct rf_req *r, const struct rf_json *pod, struct rf_err *err)
{
	struct rf_str name = rf_index_tenant_of(r->api->store, r->a, r->route.ns);
	struct rf_admission ask = { .pod = pod,
				    .ns = r->route.ns,
				    .tenant_name = name,
				    .platform = rf_user_is_platform(&r->user) };
	struct rf_json *tenant = NULL;
	int n = find_queue(r, rf_json_str_at(pod, "metadata", "labels", RF_QUEUE_LABEL), &ask.queue, err);

	if (n < 0)
		return n;
	if (name.n > 0) {
		n = rf_store_get(r->api->store, r->a, rf_kind_get("tenants"), RF_STR_EMPTY, name,
				 &tenant, err);
		if (n < 0 && n != -RF_NOT_FOUND)
			return n;
		ask.tenant = n == 0 ? tenant : NULL;
		ask.used = (struct rf_tenant_use){
			used_by(r, name, RF_LIT("requests." RF_RES_GPU)),
			used_by(r, name, RF_LIT("requests." RF_RES_GPU_MEMORY)),
			used_by(r, name, RF_LIT("pods")),
		};
	}
	return rf_tenant_admit(r->a, &ask, err);
}

int rf_admit_pod(struct rf_req *r, struct rf_json *pod, struct rf_err *err)
{
	struct rf_json *ns;

	if (rf_store_get(r->api->store, r->a, rf_kind_get("namespaces"), RF_STR_EMPTY, r->route.ns,
			 &ns, err) < 0 ||
	    check_security(r, ns, pod, err) < 0 || check_account(r, pod, err) < 0)
		return -err->code;
	return judge_pod(r, pod, err);
}

int rf_admit_group(struct rf_req *r, const struct rf_json *group, struct rf_err *err)
{
	const struct rf_json *queue = NULL;
	int n = find_queue(r, rf_json_str_at(group, "spec", "queue"), &queue, err);

	return n < 0 ? n : rf_tenant_admit_group(group, r->route.ns, rf_index_tenant_of(r->api->store, r->a, r->route.ns), queue, err);
}
