/* What exists from the start: system namespaces, Kubernetes' own PriorityClasses, and roles that say what
 * ringfence's own processes, and tenants, may do. Roles are set back to what is written here at every start. */
#include "apiserver/meta.h"
#include "apiserver/defaults.h"
#include "apiserver/server.h"
#include "apiserver/validate.h"
#include "apiserver/write.h"

static const char *const NAMESPACES[] = { "default", "kube-system", "kube-node-lease",
					  "ringfence-system" };

#define ALL "'get','list','watch','create','update','patch','delete','deletecollection'"
#define READ "'get','list','watch'"
#define RULE(groups, resources, verbs)                                                             \
	"{'apiGroups':[" groups "],'resources':[" resources "],'verbs':[" verbs "]}"
#define RBAC "'rbac.authorization.k8s.io'"

static const struct {
	const char *name;
	const char *rules; /* a template of rf_json_make without arguments */
} ROLES
	[] = {
		{ "cluster-admin",
		  "[" RULE("'*'", "'*'", "'*'") ",{'nonResourceURLs':['*'],'verbs':['*']}]" },
		{ "admin",
		  "[" RULE("''", "'pods','configmaps','secrets','serviceaccounts'", ALL) "," RULE(
			  "''", "'pods/log','pods/status','events','resourcequotas','namespaces'",
			  READ) "," RULE("''", "'pods/eviction','serviceaccounts/token'",
					 "'create'") "," RULE("'ringfence.io'", "'podgroups'",
							      ALL) "," RULE("'resource.k8s.io'",
									    "'resourceclaims'",
									    READ) "," RULE(RBAC,
											   "'roles'"
											   ",'"
											   "rolebin"
											   "dings'",
											   ALL) "]" },
		{ "edit",
		  "[" RULE("''", "'pods','configmaps','secrets','serviceaccounts'", ALL) "," RULE(
			  "''", "'pods/log','pods/status','events','resourcequotas','namespaces'",
			  READ) "," RULE("''", "'pods/eviction'",
					 "'create'") "," RULE("'ringfence.io'", "'podgroups'",
							      ALL) "," RULE("'resource.k8s.io'",
									    "'resourceclaims'",
									    READ) "]" },
		{ "view",
		  "[" RULE(
			  "''",
			  "'pods','pods/log','pods/status','configmaps','serviceaccounts','events',"
			  "'resourcequotas','namespaces'",
			  READ) "," RULE("'ringfence.io'", "'podgroups'",
					 READ) "," RULE("'resource.k8s.io'", "'resourceclaims'",
							READ) "]" },
		{ "system:discovery",
		  "[{'nonResourceURLs':['/api','/api/*','/apis','/apis/*','/healthz','/livez','/"
		  "openapi',"
		  "'/openapi/*','/readyz','/version','/version/'],'verbs':['get']}]" },
		{ "system:basic-user",
		  "[" RULE("'authorization.k8s.io'",
			   "'selfsubjectaccessreviews','selfsubjectrulesreviews'",
			   "'create'") "," RULE("'authentication.k8s.io'", "'selfsubjectreviews'",
						"'create'") ","
		      RULE("'scheduling.k8s.io'", "'priorityclasses'", READ) "]" },
		{ "system:node",
		  "[" RULE("''", "'pods','namespaces'", READ) "," RULE(
			  "''", "'secrets','configmaps','serviceaccounts'",
			  "'get'") "," RULE("''", "'nodes'",
					    "'get','list','watch','create','update','"
					    "patch'") "," RULE("''",
							       "'nodes/status','pods/"
							       "status'",
							       "'get','update','patch'") "," RULE("''",
												  "'pods'",
												  "'delete'") "," RULE("''",
														       "'events'",
														       "'create','update','patch'") "," RULE("''", "'serviceaccounts/token'", "'create'") "," RULE("'resource.k8s.io'", "'resourceclaims'", "'get','list','watch','update','patch'") "," RULE("'resource.k8s.io'", "'resourceclaims/status'", "'get','update','patch'") "," RULE("'resource.k8s.io'",
																																																 "'resourceslices'", ALL) "," RULE("'resource.k8s.io'",
																																																				   "'deviceclasses'", READ) "," RULE("'coordination.k8s.io'",
																																																								     "'leases'", "'get','create','update','patch','delete'") "," RULE("'ringfence.io'",
																																																																      "'tenants','gpupools'", READ) "," RULE("'authentication.k8s.io'", "'tokenreviews'", "'create'") "," RULE("'authorization.k8s.io'",
																																																																													       "'subjectaccessreviews'",
																																																																													       "'create'") "]" },
		{ "system:ringfence:control",
		  "[" RULE("''", "'namespaces','serviceaccounts','resourcequotas'", ALL) "," RULE("''", "'pods'", "'get','list','watch','patch','delete'") "," RULE(
			  "''", "'pods/binding','pods/eviction','serviceaccounts/token'",
			  "'create'") "," RULE("''", "'pods/status','nodes/status'",
					       "'get','update','patch'") "," RULE("''",
										  "'pods/log'", "'get'") "," RULE("''",
														  "'nodes'",
														  "'get','list','watch','update','patch'") "," RULE("''",
																				    "'events'",
																				    "'get','list','watch','create','update','patch'") "," RULE(RBAC, "'roles','rolebindings','clusterroles','clusterrolebindings'",
																											       ALL
																											       ",'bind','escalate'") "," RULE("'resource.k8s.io'", "'resourceclaims','resourceclaims/status'", ALL) "," RULE("'resource.k8s.io'", "'resourceslices','deviceclasses'", READ) "," RULE("'coordination.k8s.io'", "'leases'", ALL) "," RULE("'policy'", "'poddisruptionbudgets'", READ) "," RULE("'ringfence.io'", "'*'", ALL) "," RULE("'authentication.k8s.io'",
																																																													       "'tokenreviews'", "'create'") "," RULE("'authorization.k8s.io'",
																																																																		      "'subjectaccessreviews'",
																																																																		      "'create'") "]" },
		{ "ringfence-defragment",
		  "[" RULE("''", "'namespaces','nodes','pods'", "'get','list'") ","
		      RULE("'resource.k8s.io'", "'resourceclaims','resourceslices'", "'get','list'") ","
		      RULE("'ringfence.io'", "'tenants','queues','gpupools','podgroups'", "'get','list'") ","
		      RULE("'policy'", "'poddisruptionbudgets'", "'get','list'") ","
		      RULE("''", "'pods/eviction','events'", "'create'") "]" },
		{ "ringfence-tenant-owner",
		  "[" RULE("''", "'pods','configmaps','secrets','serviceaccounts'", ALL) "," RULE(
			  "''", "'pods/log','pods/status','events','resourcequotas','namespaces'",
			  READ) "," RULE("''", "'pods/eviction','serviceaccounts/token'",
					 "'create'") "," RULE("'ringfence.io'", "'podgroups'",
							      ALL) "," RULE("'resource.k8s.io'",
									    "'resourceclaims'",
									    READ) "," RULE(RBAC,
											   "'roles'"
											   ",'"
											   "rolebin"
											   "dings'",
											   READ) "]" },
	};

static const struct {
	const char *name, *role, *subject_kind, *subject;
} BINDINGS[] = {
	{ "cluster-admin", "cluster-admin", "Group", RF_MASTERS },
	{ "system:discovery", "system:discovery", "Group", "system:authenticated" },
	{ "system:basic-user", "system:basic-user", "Group", "system:authenticated" },
	{ "system:node", "system:node", "Group", RF_NODES_GROUP },
	{ "system:ringfence:control", "system:ringfence:control", "User", RF_CONTROL_USER },
};

/* Writes the object if there is none of its name; field (may be NULL) is set back if it differs. */
static int ensure(struct rf_api *api, struct rf_arena *a, const char *plural, struct rf_json *o,
		  const char *field, struct rf_err *err)
{
	const struct rf_kind *k = rf_kind_get(plural);
	struct rf_json *old = NULL, *after;
	int r = rf_store_get(api->store, a, k, rf_json_str_at(o, "metadata", "namespace"),
			     rf_json_str_at(o, "metadata", "name"), &old, err);

	if (r == -RF_NOT_FOUND) {
		rf_default(a, k, o);
		rf_default_new(a, k, o);
		rf_meta_stamp(api, a, o);
		return rf_write_put(api, a, k, NULL, o, err);
	}
	if (r < 0 || field == NULL || rf_json_equal(rf_json_at(old, field), rf_json_at(o, field)))
		return r;
	after = rf_json_clone(a, old);
	rf_json_set(a, after, rf_str(field), rf_json_at(o, field));
	return rf_write_put(api, a, k, old, after, err);
}

static int namespaces(struct rf_api *api, struct rf_arena *a, struct rf_err *err)
{
	for (size_t i = 0; i < RF_COUNT(NAMESPACES); i++) {
		struct rf_json *ns = rf_json_make(
			a, "{'kind':'Namespace','apiVersion':'v1','metadata':{'name':%s}}",
			NAMESPACES[i]);

		if (ensure(api, a, "namespaces", ns, NULL, err) < 0 ||
		    rf_account_ensure(api, a, rf_str(NAMESPACES[i]), err) < 0)
			return -err->code;
	}
	return 0;
}

static int roles(struct rf_api *api, struct rf_arena *a, struct rf_err *err)
{
	for (size_t i = 0; i < RF_COUNT(ROLES); i++) {
		struct rf_json *o = rf_json_make(
			a,
			"{'kind':'ClusterRole','apiVersion':'rbac.authorization.k8s.io/v1',"
			"'metadata':{'name':%s,'labels':{'app.kubernetes.io/"
			"managed-by':'ringfence'}},"
			"'rules':%j}",
			ROLES[i].name, rf_json_make(a, ROLES[i].rules));

		if (ensure(api, a, "clusterroles", o, "rules", err) < 0)
			return -err->code;
	}
	return 0;
}

static int bindings(struct rf_api *api, struct rf_arena *a, struct rf_err *err)
{
	for (size_t i = 0; i < RF_COUNT(BINDINGS); i++) {
		struct rf_json *o = rf_json_make(
			a,
			"{'kind':'ClusterRoleBinding','apiVersion':'rbac.authorization.k8s.io/v1',"
			"'metadata':{'name':%s,'labels':{'app.kubernetes.io/"
			"managed-by':'ringfence'}},"
			"'roleRef':{'kind':'ClusterRole','name':%s},"
			"'subjects':[{'kind':%s,'name':%s}]}",
			BINDINGS[i].name, BINDINGS[i].role, BINDINGS[i].subject_kind,
			BINDINGS[i].subject);

		if (ensure(api, a, "clusterrolebindings", o, NULL, err) < 0)
			return -err->code;
	}
	return 0;
}

struct pods {
	struct rf_arena *a;
	struct rf_json *all;
	struct rf_err *err;
};

static int note_priority(void *ctx, const struct rf_row *row)
{
	struct pods *p = ctx;
	struct rf_json *o = NULL;

	if (rf_json_parse(p->a, row->json, &o, p->err) < 0)
		return -p->err->code;
	if (rf_json_int(rf_json_at(o, "spec", "priority"), 0) != 0)
		rf_json_push(p->a, p->all, o);
	return 0;
}

/* In a store from before there were classes pods have the priority that their authors wrote. It is no class's: they have
 * none, as one that names no class. */
static int drop_own_priorities(struct rf_api *api, struct rf_arena *a, struct rf_err *err)
{
	const struct rf_kind *k = rf_kind_get("pods");
	struct pods p = { a, rf_json_array(a), err };
	struct rf_list l = { .kind = k, .each = note_priority, .ctx = &p };

	if (rf_store_count(api->store, rf_kind_get("priorityclasses"), RF_STR_EMPTY) > 0)
		return 0;
	if (rf_store_list(api->store, &l, err) < 0)
		return -err->code;
	for (size_t i = 0; i < rf_json_len(p.all); i++) {
		struct rf_json *after = rf_json_clone(a, rf_json_item(p.all, i));

		rf_json_set_int(a, rf_json_at(after, "spec"), "priority", 0);
		if (rf_write_put(api, a, k, rf_json_item(p.all, i), after, err) < 0)
			return -err->code;
	}
	return 0;
}

static int priority_classes(struct rf_api *api, struct rf_arena *a, struct rf_err *err)
{
	for (size_t i = 0; i < RF_COUNT(rf_system_classes); i++) {
		struct rf_json *o = rf_json_make(
			a,
			"{'kind':'PriorityClass','apiVersion':'scheduling.k8s.io/v1','metadata':{'name':%s},"
			"'value':%D,'description':%s}",
			rf_system_classes[i].name, rf_system_classes[i].value, rf_system_classes[i].description);

		if (ensure(api, a, "priorityclasses", o, NULL, err) < 0)
			return -err->code;
	}
	return 0;
}

/* Past usage of the queues, which control keeps over restarts; no other ConfigMap is its business. */
static int ledger(struct rf_api *api, struct rf_arena *a, struct rf_err *err)
{
	struct rf_json *role = rf_json_make(
		a, "{'kind':'Role','apiVersion':'rbac.authorization.k8s.io/v1','metadata':{'name':"
		   "'ringfence-control','namespace':'ringfence-system','labels':"
		   "{'app.kubernetes.io/managed-by':'ringfence'}},'rules':["
		   "{'apiGroups':[''],'resources':['configmaps'],'resourceNames':['ringfence-ledger'],"
		   "'verbs':['get','update']},"
		   "{'apiGroups':[''],'resources':['configmaps'],'verbs':['create']}]}");
	struct rf_json *binding = rf_json_make(
		a, "{'kind':'RoleBinding','apiVersion':'rbac.authorization.k8s.io/v1','metadata':{'name':"
		   "'ringfence-control','namespace':'ringfence-system','labels':"
		   "{'app.kubernetes.io/managed-by':'ringfence'}},'roleRef':{'kind':'Role','name':"
		   "'ringfence-control'},'subjects':[{'kind':'User','name':'" RF_CONTROL_USER "'}]}");

	if (ensure(api, a, "roles", role, "rules", err) < 0)
		return -err->code;
	return ensure(api, a, "rolebindings", binding, NULL, err);
}

int rf_bootstrap(struct rf_api *api, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	if (rf_write_begin(api, err) < 0)
		return -err->code;
	if (namespaces(api, &a, err) < 0 || roles(api, &a, err) < 0 || bindings(api, &a, err) < 0 ||
	    drop_own_priorities(api, &a, err) < 0 || priority_classes(api, &a, err) < 0 || ledger(api, &a, err) < 0) {
		rf_write_rollback(api);
		return rf_wrap(err, "create the system objects");
	}
	return rf_write_commit(api, false, err);
}
