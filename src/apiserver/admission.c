#include "apiserver/admission.h"

#include "apiserver/policies.h"
#include "apiserver/quota.h"
#include "tenant/admit.h"
#include "tenant/tenant.h"

static const char SYSTEM_NAMESPACES[] = "default kube-system kube-node-lease ringfence-system";

/* Says which object was refused, in the words that go with the kind of refusal. */
static int refuse(const struct rf_kind *k, const struct rf_json *o, struct rf_arena *a,
		  struct rf_err *err)
{
	if (err->code == RF_INVALID)
		return rf_wrap(err, "%s \"%.*s\" is invalid", k->kind,
			       RF_STR(rf_json_str_at(o, "metadata", "name")));
	if (err->code != RF_FORBIDDEN)
		return -err->code;
	return rf_wrap(err, "%.*s \"%.*s\" is forbidden", RF_STR(rf_kind_resource(a, k)),
		       RF_STR(rf_json_str_at(o, "metadata", "name")));
}

/* --- namespaces ----------------------------------------------------------------------------- */

static int namespace_lives(struct rf_req *r, const struct rf_kind *k, struct rf_err *err)
{
	struct rf_json *ns;

	if (!k->namespaced)
		return 0;
	if (rf_store_get(r->api->store, r->a, rf_kind_get("namespaces"), RF_STR_EMPTY, r->route.ns,
			 &ns, err) < 0)
		return -err->code;
	if (rf_json_at(ns, "metadata", "deletionTimestamp") == NULL)
		return 0;
	return rf_fail(
		err, RF_FORBIDDEN,
		"unable to create new content in namespace %.*s because it is being terminated",
		RF_STR(r->route.ns));
}

static bool same_label(const struct rf_json *old, const struct rf_json *o, struct rf_str key)
{
	return rf_str_eq(rf_json_str(rf_json_get(rf_json_at(old, "metadata", "labels"), key)),
			 rf_json_str(rf_json_get(rf_json_at(o, "metadata", "labels"), key)));
}

static bool same_pod_security(const struct rf_json *a, const struct rf_json *b)
{
	const struct rf_json *labels = rf_json_at(a, "metadata", "labels");

	for (size_t i = 0; i < rf_json_len(labels); i++)
		if (rf_str_starts(labels->members[i].key, RF_LIT("pod-security.kubernetes.io/")) &&
		    !same_label(a, b, labels->members[i].key))
			return false;
	return true;
}

/* Whose namespace it is, and how its pods are fenced, is not for those inside to say. */
static int admit_namespace(struct rf_req *r, const struct rf_json *old, const struct rf_json *o,
			   struct rf_err *err)
{
	struct rf_str tenant = RF_LIT(RF_TENANT_LABEL);
	bool owned = rf_json_str_at(old, "metadata", "labels", RF_TENANT_LABEL).n > 0 ||
		     rf_json_str_at(o, "metadata", "labels", RF_TENANT_LABEL).n > 0;

	if (rf_user_is_platform(&r->user))
		return 0;
	if (!same_label(old, o, tenant))
		return rf_fail(
			err, RF_FORBIDDEN,
			"label %s may only be set by administrators and ringfence's control; "
			"add the namespace to Tenant.spec.namespaces instead",
			RF_TENANT_LABEL);
	if (owned && (!same_pod_security(old, o) || !same_pod_security(o, old)))
		return rf_fail(err, RF_FORBIDDEN,
			       "pod-security labels of a tenant's namespace may only be changed by "
			       "administrators");
	return 0;
}

static int admit_namespace_delete(const struct rf_json *old, struct rf_err *err)
{
	if (!rf_word_in(SYSTEM_NAMESPACES, rf_json_str_at(old, "metadata", "name")))
		return 0;
	return rf_fail(err, RF_FORBIDDEN, "this namespace may not be deleted");
}

/* --- entry ---------------------------------------------------------------------------------- */

static int admit(struct rf_req *r, const struct rf_kind *k, const struct rf_json *old,
		 struct rf_json *o, struct rf_err *err)
{
	if (rf_admit_node(r, k, old, o, err) < 0 || rf_quota_check_bytes(r, k, old, o, err) < 0)
		return -err->code;
	if (rf_kind_is(k, "namespaces"))
		return admit_namespace(r, old, o, err);
	if (rf_policies_check(r->api->policies, r->a, k, old, o, err) < 0)
		return -err->code;
	if (rf_kind_is_rbac(k))
		return rf_admit_rbac(r, k, old, o, err);
	if (rf_kind_is(k, "resourceclaims"))
		return rf_admit_claim(r, old, o, err);
	if (rf_kind_is(k, "priorityclasses"))
		return rf_admit_priority_class(r, o, err);
	return 0;
}

int rf_admit_create(struct rf_req *r, const struct rf_kind *k, struct rf_json *o,
		    struct rf_err *err)
{
	if (namespace_lives(r, k, err) < 0)
		return -err->code;
	if ((rf_kind_is(k, "pods") && rf_admit_priority(r, o, err) < 0) || admit(r, k, NULL, o, err) < 0 ||
	    (rf_kind_is(k, "pods") && rf_admit_pod(r, o, err) < 0) ||
	    (rf_kind_is(k, "podgroups") && rf_admit_group(r, o, err) < 0) ||
	    rf_quota_check(r->api, r->a, k, o, err) < 0)
		return refuse(k, o, r->a, err);
	return rf_policies_judge(r, "CREATE", NULL, o, err);
}

int rf_admit_update(struct rf_req *r, const struct rf_kind *k, const struct rf_json *old,
		    struct rf_json *o, struct rf_err *err)
{
	if (admit(r, k, old, o, err) < 0 ||
	    (rf_kind_is(k, "pods") && rf_tenant_admit_change(old, o, err) < 0))
		return refuse(k, o, r->a, err);
	return rf_policies_judge(r, "UPDATE", old, o, err);
}

int rf_admit_delete(struct rf_req *r, const struct rf_kind *k, const struct rf_json *old,
		    struct rf_err *err)
{
	int n = rf_admit_node(r, k, old, NULL, err);

	if (n == 0 && rf_kind_is(k, "namespaces"))
		n = admit_namespace_delete(old, err);
	if (n == 0 && rf_kind_is(k, "resourceclaims"))
		n = rf_admit_claim_delete(r, old, err);
	return n < 0 ? refuse(k, old, r->a, err) : 0;
}
