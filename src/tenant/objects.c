/* The objects a Tenant becomes. What is written here is what drift is repaired to. */
#include "tenant/tenant.h"

#define OWNER "ringfence-owner"

static struct rf_json *labels(struct rf_arena *a, const struct rf_tenant *t)
{
	return rf_json_make(a, "{'app.kubernetes.io/managed-by':'ringfence',%s:%S}",
			    RF_TENANT_LABEL, t->name);
}

static struct rf_json *namespace_of(struct rf_arena *a, const struct rf_tenant *t, struct rf_str ns)
{
	struct rf_json *l = labels(a, t);

	rf_json_set_str(a, l, "pod-security.kubernetes.io/enforce", RF_LIT("restricted"));
	rf_json_set_str(a, l, "pod-security.kubernetes.io/enforce-version", RF_LIT("latest"));
	return rf_json_make(
		a, "{'apiVersion':'v1','kind':'Namespace','metadata':{'name':%S,'labels':%j}}", ns,
		l);
}

static struct rf_json *account_of(struct rf_arena *a, const struct rf_tenant *t, struct rf_str ns)
{
	return rf_json_make(a,
			    "{'apiVersion':'v1','kind':'ServiceAccount','metadata':{'name':'" OWNER
			    "','namespace':%S,'labels':%j}}",
			    ns, labels(a, t));
}

static struct rf_json *subject_of(struct rf_arena *a, const struct rf_json *owner)
{
	struct rf_str kind = rf_json_str_at(owner, "kind"), name = rf_json_str_at(owner, "name");

	if (rf_str_is(kind, "ServiceAccount"))
		return rf_json_make(a, "{'kind':'ServiceAccount','name':%S,'namespace':%S}", name,
				    rf_json_str_at(owner, "namespace"));
	return rf_json_make(a, "{'kind':%S,'apiGroup':'rbac.authorization.k8s.io','name':%S}", kind,
			    name);
}

/* The accounts of all the tenant's namespaces, so that one kubeconfig reaches the whole tenant. */
static struct rf_json *subjects_of(struct rf_arena *a, const struct rf_json *tenant, const struct rf_tenant *t)
{
	const struct rf_json *owners = rf_json_at(tenant, "spec", "owners");
	struct rf_json *subjects = rf_json_array(a);

	for (size_t i = 0; i < rf_json_len(owners); i++)
		rf_json_push(a, subjects, subject_of(a, rf_json_item(owners, i)));
	for (size_t i = 0; i < t->n_namespaces; i++)
		rf_json_push(a, subjects,
			     rf_json_make(a,
					  "{'kind':'ServiceAccount','name':'" OWNER
					  "','namespace':%S}",
					  t->namespaces[i]));
	return subjects;
}

static struct rf_json *binding_of(struct rf_arena *a, const struct rf_json *tenant,
				  const struct rf_tenant *t, struct rf_str ns)
{
	return rf_json_make(
		a,
		"{'apiVersion':'rbac.authorization.k8s.io/v1','kind':'RoleBinding',"
		"'metadata':{'name':'" OWNER "','namespace':%S,'labels':%j},"
		"'roleRef':{'apiGroup':'rbac.authorization.k8s.io','kind':'ClusterRole',"
		"'name':'ringfence-tenant-owner'},'subjects':%j}",
		ns, labels(a, t), subjects_of(a, tenant, t));
}

struct rf_str rf_tenant_queue_role(struct rf_arena *a, struct rf_str queue)
{
	return rf_arena_printf(a, RF_QUEUE_ROLE "%.*s", RF_STR(queue));
}

/* Queues are the cluster's, so that a role in a namespace cannot show one. */
static void push_queue_role(struct rf_arena *a, const struct rf_json *tenant, const struct rf_tenant *t, struct rf_str queue,
			    struct rf_json *to)
{
	struct rf_str name = rf_tenant_queue_role(a, queue);

	rf_json_push(a, to,
		     rf_json_make(a,
				  "{'apiVersion':'rbac.authorization.k8s.io/v1','kind':'ClusterRole','metadata':{'name':%S,"
				  "'labels':%j},'rules':[{'apiGroups':['ringfence.io'],'resources':['queues'],"
				  "'resourceNames':[%S],'verbs':['get']}]}",
				  name, labels(a, t), queue));
	rf_json_push(a, to,
		     rf_json_make(a,
				  "{'apiVersion':'rbac.authorization.k8s.io/v1','kind':'ClusterRoleBinding','metadata':"
				  "{'name':%S,'labels':%j},'roleRef':{'apiGroup':'rbac.authorization.k8s.io','kind':"
				  "'ClusterRole','name':%S},'subjects':%j}",
				  name, labels(a, t), name, subjects_of(a, tenant, t)));
}

/* Each namespace may use the tenant's whole quota; the sum over its namespaces is held to it by
 * admission and by the scheduler. */
static struct rf_json *quota_of(struct rf_arena *a, const struct rf_tenant *t, struct rf_str ns)
{
	struct rf_str gpus = rf_arena_printf(a, "%lld", (long long)t->quota_gpus);
	struct rf_json *hard = rf_json_object(a);

	if (t->quota_pods >= 0)
		rf_json_set_str(a, hard, "pods",
				rf_arena_printf(a, "%lld", (long long)t->quota_pods));
	rf_json_set_str(a, hard, "requests." RF_RES_GPU, gpus);
	/* Kubernetes counts each name by itself; the sum is for admission and the scheduler. */
	for (size_t i = 0; rf_gpu_name(i) != NULL; i++)
		rf_json_set_str(a, hard, rf_arena_printf(a, "requests.%s", rf_gpu_name(i)).p, gpus);
	rf_json_set_str(a, hard, "requests." RF_RES_GPU_MEMORY,
			rf_quantity_bytes(a, t->quota_gpu_memory));
	return rf_json_make(
		a,
		"{'apiVersion':'v1','kind':'ResourceQuota','metadata':{'name':'ringfence',"
		"'namespace':%S,'labels':%j},'spec':{'hard':%j}}",
		ns, labels(a, t), hard);
}

static void set_amount(struct rf_arena *a, struct rf_json *o, const char *field, int64_t n)
{
	bool cores = rf_str_is(rf_json_str_at(o, "name"), "cpu");

	if (n >= 0)
		rf_json_set(a, o, rf_str(field), rf_json_make(a, "%D", cores ? n / 1000 : n));
}

static struct rf_json *queue_of(struct rf_arena *a, const struct rf_tenant *t)
{
	struct rf_json *list = rf_json_array(a), *spec = NULL;

	for (size_t i = 0; i < t->n_queue_amounts; i++) {
		const struct rf_queue_amount *q = &t->queue_amounts[i];
		struct rf_json *o = rf_json_make(a, "{'name':%S}", q->name);

		set_amount(a, o, "guaranteed", q->guaranteed);
		set_amount(a, o, "limit", q->limit);
		set_amount(a, o, "lendingLimit", q->lending);
		set_amount(a, o, "borrowingLimit", q->borrowing);
		rf_json_push(a, list, o);
	}
	spec = rf_json_make(a, "{'tenant':%S,'weight':%D,'resources':%j}", t->name, t->queue_weight, list);
	if (t->queue_parent.n > 0)
		rf_json_set_str(a, spec, "parent", t->queue_parent);
	return rf_json_make(
		a,
		"{'apiVersion':'ringfence.io/v1alpha1','kind':'Queue','metadata':{'name':%S,"
		"'labels':%j},'spec':%j}",
		t->name, labels(a, t), spec);
}

struct rf_json *rf_tenant_objects(struct rf_arena *a, const struct rf_json *tenant, const struct rf_tenant *parsed,
				  const struct rf_str *more, size_t n_more)
{
	struct rf_json *all = rf_json_array(a);

	rf_json_push(a, all, queue_of(a, parsed));
	for (size_t i = 0; i < parsed->n_namespaces; i++) {
		struct rf_str ns = parsed->namespaces[i];

		/* The quota before the people: nobody can create a pod between the two. */
		rf_json_push(a, all, namespace_of(a, parsed, ns));
		rf_json_push(a, all, quota_of(a, parsed, ns));
		rf_json_push(a, all, account_of(a, parsed, ns));
		rf_json_push(a, all, binding_of(a, tenant, parsed, ns));
	}
	push_queue_role(a, tenant, parsed, parsed->name, all);
	for (size_t i = 0; i < n_more; i++)
		push_queue_role(a, tenant, parsed, more[i], all);
	return all;
}
