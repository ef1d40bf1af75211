/* A new pod: pod security, its service account, its GPUs, its tenant. */
#include "apiserver/admission.h"

#include "apiserver/index.h"
#include "apiserver/quota.h"
#include "policy/podsecurity.h"
#include "tenant/tenant.h"

/* --- pod security --------------------------------------------------------------------------- */

static int judge(const struct rf_json *ns, const char *label, enum rf_ps_level *ret)
{
	struct rf_str name = rf_json_str_at(ns, "metadata", "labels", label);

	*ret = RF_PS_PRIVILEGED;
	if (name.n > 0 && !rf_ps_level_parse(name, ret))
		*ret = RF_PS_RESTRICTED; /* a level nobody knows: the strictest */
	return name.n > 0;
}

static int check_security(struct rf_req *r, const struct rf_json *ns, const struct rf_json *pod,
			  struct rf_err *err)
{
	rf_auto(buf) why = RF_BUF_INIT;
	enum rf_ps_level level;

	if (judge(ns, "pod-security.kubernetes.io/warn", &level) && !rf_ps_check(level, pod, &why))
		rf_buf_printf(&r->warnings, "would violate PodSecurity \"%s:latest\": %s",
			      rf_ps_level_name(level), why.p);
	rf_buf_clear(&why);
	judge(ns, "pod-security.kubernetes.io/enforce", &level);
	if (rf_ps_check(level, pod, &why))
		return 0;
	return rf_fail(err, RF_FORBIDDEN, "violates PodSecurity \"%s:latest\": %s",
		       rf_ps_level_name(level), why.p);
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

/* A pod that names its node passes the scheduler by, and with it every rule about who may meet. */
static int check_placement(struct rf_req *r, const struct rf_json *pod, struct rf_err *err)
{
	if (rf_json_str_at(pod, "spec", "nodeName").n == 0 || rf_user_is_platform(&r->user))
		return 0;
	return rf_fail(err, RF_FORBIDDEN,
		       "spec.nodeName may only be set by the scheduler; leave it out, or use "
		       "spec.nodeSelector");
}

/* --- GPUs and the tenant -------------------------------------------------------------------- */

static int read_tenant(struct rf_req *r, struct rf_str name, struct rf_tenant *ret,
		       struct rf_err *err)
{
	struct rf_json *o;
	int n = rf_store_get(r->api->store, r->a, rf_kind_get("tenants"), RF_STR_EMPTY, name, &o,
			     err);

	if (n == -RF_NOT_FOUND)
		return rf_fail(
			err, RF_FORBIDDEN,
			"namespace \"%.*s\" belongs to tenant \"%.*s\", which does not exist; "
			"create the Tenant or remove the namespace's label %s",
			RF_STR(r->route.ns), RF_STR(name), RF_TENANT_LABEL);
	if (n < 0)
		return n;
	if (rf_json_at(o, "metadata", "deletionTimestamp") != NULL)
		return rf_fail(err, RF_FORBIDDEN, "tenant \"%.*s\" is being deleted", RF_STR(name));
	return rf_tenant_parse(r->a, o, ret, err);
}

static int check_tenant(struct rf_req *r, const struct rf_json *pod, struct rf_err *err)
{
	struct rf_str name = rf_index_tenant_of(r->api->store, r->a, r->route.ns);
	struct rf_gpu_ask ask;
	struct rf_tenant t;

	if (rf_gpu_ask_of_pod(pod, &ask, err) < 0)
		return -err->code;
	if (name.n == 0) {
		if (!rf_gpu_ask_any(&ask))
			return 0;
		return rf_fail(
			err, RF_FORBIDDEN,
			"asks for GPUs, but namespace \"%.*s\" belongs to no tenant; use a "
			"tenant's namespace or ask an administrator to create a Tenant for it",
			RF_STR(r->route.ns));
	}
	if (read_tenant(r, name, &t, err) < 0)
		return -err->code;
	if (rf_gpu_ask_any(&ask) && rf_tenant_allows(&t, pod, &ask, err) < 0)
		return -err->code;
	return rf_quota_check_tenant(r->api, r->a, &t, pod, err);
}

int rf_admit_pod(struct rf_req *r, struct rf_json *pod, struct rf_err *err)
{
	struct rf_json *ns;

	if (rf_store_get(r->api->store, r->a, rf_kind_get("namespaces"), RF_STR_EMPTY, r->route.ns,
			 &ns, err) < 0 ||
	    check_security(r, ns, pod, err) < 0 || check_account(r, pod, err) < 0 ||
	    check_placement(r, pod, err) < 0)
		return -err->code;
	return check_tenant(r, pod, err);
}
