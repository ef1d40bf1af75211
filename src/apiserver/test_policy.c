/* Policies in the write path: what they refuse is not written, whoever writes it and however fast. */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "apiserver/store.h"
#include "apiserver/test_world.h"
#include "net/tls.h"

#define TEMPLATES "/apis/templates.gatekeeper.sh/v1/constrainttemplates"
#define OLD_TEMPLATES "/apis/templates.gatekeeper.sh/v1beta1/constrainttemplates"
#define CONSTRAINTS "/apis/constraints.gatekeeper.sh/v1beta1"
#define CONFIGMAPS "/api/v1/namespaces/default/configmaps"
#define SYSTEM_CONFIGMAPS "/api/v1/namespaces/ringfence-system/configmaps"
#define PODS "/api/v1/namespaces/default/pods"
#define DENIED "admission webhook \"validation.gatekeeper.sh\" denied the request: "

static struct world w;
static struct rf_kube *control, *node, *alice;

static int start(void **state)
{
	world_start(&w);
	control = world_as(&w, "system:ringfence:control", "system:ringfence");
	node = world_as(&w, "system:node:node-1", "system:nodes");
	alice = world_as(&w, "alice", NULL);
	world_namespace(&w, "team-a", "{'team':'a'}");
	world_create(&w, "/apis/rbac.authorization.k8s.io/v1/namespaces/team-a/rolebindings",
		     rf_json_make(&w.a, "{'metadata':{'name':'alice'},'roleRef':{'kind':"
					"'ClusterRole','name':'admin'},'subjects':[{'kind':'User',"
					"'name':'alice'}]}"));
	return 0;
}

static int stop(void **state)
{
	rf_kube_free(control);
	rf_kube_free(node);
	rf_kube_free(alice);
	world_stop(&w);
	return 0;
}

static void restart(int sig, void (*meanwhile)(const char *db))
{
	world_restart(&w, sig, meanwhile);
	rf_kube_free(control);
	rf_kube_free(node);
	rf_kube_free(alice);
	control = world_as(&w, "system:ringfence:control", "system:ringfence");
	node = world_as(&w, "system:node:node-1", "system:nodes");
	alice = world_as(&w, "alice", NULL);
}

static const char *path(const char *base, const char *name)
{
	return rf_arena_printf(&w.a, "%s/%s", base, name).p;
}

static void remove_one(const char *base, const char *name)
{
	struct rf_err err = RF_ERR_INIT;

	assert_ok(rf_kube_delete(w.admin, &w.a, rf_str(path(base, name)), 0, true, &err), err);
}

/* Between tests nothing is left. */
static int clean(void **state)
{
	static const char *const WHERE[] = { TEMPLATES, SYSTEM_CONFIGMAPS, CONFIGMAPS, PODS };

	for (size_t i = 0; i < RF_COUNT(WHERE); i++) {
		struct rf_json *list = rf_json_at(world_get(&w, WHERE[i]), "items");

		for (size_t j = 0; j < rf_json_len(list); j++)
			remove_one(WHERE[i],
				   rf_arena_cstr(&w.a, rf_kube_name(rf_json_item(list, j))));
	}
	return 0;
}

static void expect(int r, const struct rf_err *err, enum rf_code code, const char *text)
{
	if (r != -(int)code)
		fail_msg("wanted code %d, got %d: %s", code, r, err->msg);
	if (strstr(err->msg, text) == NULL)
		fail_msg("wanted \"%s\" in: %s", text, err->msg);
}

/* --- policies ------------------------------------------------------------------------------- */

static struct rf_json *template(const char *kind, const char *rego)
{
	char name[64];

	snprintf(name, sizeof(name), "%s", kind);
	for (char *p = name; *p != '\0'; p++)
		if (*p >= 'A' && *p <= 'Z')
			*p += 32;
	return rf_json_make(
		&w.a,
		"{'kind':'ConstraintTemplate','apiVersion':'templates.gatekeeper.sh/v1','metadata':"
		"{'name':%s},'spec':{'crd':{'spec':{'names':{'kind':%s},'validation':"
		"{'openAPIV3Schema':{'type':'object','properties':{'labels':{'type':'array',"
		"'items':{'type':'string'}}}}}}},'targets':[{'target':"
		"'admission.k8s.gatekeeper.sh','rego':%s}]}}",
		name, kind, rego);
}

static struct rf_json *constraint(const char *kind, const char *name, const char *spec)
{
	return rf_json_make(
		&w.a,
		"{'kind':%s,'apiVersion':'constraints.gatekeeper.sh/v1beta1','metadata':"
		"{'name':%s},'spec':%j}",
		kind, name, rf_json_make(&w.a, spec));
}

static void add_template(const char *kind, const char *rego)
{
	world_create(&w, TEMPLATES, template(kind, rego));
}

static void add_constraint(const char *kind, const char *name, const char *spec)
{
	char plural[64];

	snprintf(plural, sizeof(plural), "%s", kind);
	for (char *p = plural; *p != '\0'; p++)
		if (*p >= 'A' && *p <= 'Z')
			*p += 32;
	world_create(&w, path(CONSTRAINTS, plural), constraint(kind, name, spec));
}

#define ON_MAPS "'match':{'kinds':[{'apiGroups':[''],'kinds':['ConfigMap']}]}"

static const char LABELS[] = "package labels\n"
			     "violation[{\"msg\": msg}] {\n"
			     "  want := input.parameters.labels[_]\n"
			     "  not input.review.object.metadata.labels[want]\n"
			     "  msg := sprintf(\"%v has no label %v\", [input.review.name, want])\n"
			     "}\n";
static const char ALWAYS[] = "package always\n"
			     "violation[{\"msg\": \"never\"}] { true }\n";
static const char UNIQUE[] = "package unique\n"
			     "violation[{\"msg\": msg}] {\n"
			     "  mine := input.review.object\n"
			     "  other := data.inventory.namespace[ns][_].ConfigMap[name]\n"
			     "  other.data.host == mine.data.host\n"
			     "  other.metadata.name != mine.metadata.name\n"
			     "  msg := sprintf(\"%v has it already\", [name])\n"
			     "}\n";

static void need_owner(void)
{
	add_template("NeedLabels", LABELS);
	add_constraint("NeedLabels", "owned", "{" ON_MAPS ",'parameters':{'labels':['owner']}}");
}

static struct rf_json *map(const char *name, const char *labels, const char *data)
{
	return rf_json_make(&w.a, "{'metadata':{'name':%s,'labels':%j},'data':%j}", name,
			    rf_json_make(&w.a, labels), rf_json_make(&w.a, data));
}

static int try_map(struct rf_kube *k, const char *name, const char *labels, struct rf_err *err)
{
	return world_try(k, &w, CONFIGMAPS, map(name, labels, "{}"), err);
}

static void add_plain(const char *name, const char *rego)
{
	world_create(&w, SYSTEM_CONFIGMAPS,
		     rf_json_make(&w.a,
				  "{'metadata':{'name':%s,'labels':{'openpolicyagent.org/policy':"
				  "'rego'}},'data':{'p.rego':%s}}",
				  name, rego));
}

/* --- tests ---------------------------------------------------------------------------------- */

static void what_violates_is_denied_and_not_written(void **state)
{
	struct rf_err err = RF_ERR_INIT;

	need_owner();
	expect(try_map(w.admin, "a", "{}", &err), &err, RF_FORBIDDEN,
	       DENIED "[owned] a has no label owner");
	assert_int_equal(rf_kube_get(w.admin, &w.a, RF_LIT(CONFIGMAPS "/a"), NULL, &err),
			 -RF_NOT_FOUND);
	assert_ok(try_map(w.admin, "a", "{'owner':'me'}", &err), err);
	expect(rf_kube_patch(w.admin, &w.a, RF_LIT(CONFIGMAPS "/a"), RF_PATCH_MERGE,
			     rf_json_make(&w.a, "{'metadata':{'labels':{'owner':%j}}}",
					  rf_json_null(&w.a)),
			     NULL, &err),
	       &err, RF_FORBIDDEN, DENIED "[owned] a has no label owner");
	assert_true(rf_str_is(rf_kube_label(world_get(&w, CONFIGMAPS "/a"), "owner"), "me"));
	expect(world_try(w.admin, &w, CONFIGMAPS "?dryRun=All", map("b", "{}", "{}"), &err), &err,
	       RF_FORBIDDEN, "[owned] b has no label owner");
	expect(world_try(alice, &w, "/api/v1/namespaces/team-a/configmaps", map("b", "{}", "{}"),
			 &err),
	       &err, RF_FORBIDDEN, "[owned] b has no label owner");
}

struct answer {
	struct rf_str body;
	int status;
	bool over;
};

static void on_answer(void *ctx, const struct rf_err *err, const struct rf_http_response *response)
{
	struct answer *a = ctx;

	assert_null(err);
	a->status = response->status;
	a->body = rf_arena_str(&w.a, response->body);
	a->over = true;
}

/* The answer as it comes, which a client would cut. */
static struct answer post(const char *target, const struct rf_json *o)
{
	struct rf_http_client_opts co = { .host = w.admin_config.host,
					  .port = w.admin_config.port };
	struct answer got = { .over = false };
	struct rf_http_call_opts call = { .method = RF_LIT("POST"),
					  .target = rf_str(target),
					  .content_type = RF_LIT("application/json"),
					  .body = rf_json_text_of(&w.a, o),
					  .on_done = on_answer,
					  .ctx = &got };
	struct rf_err err = RF_ERR_INIT;
	struct rf_http_client *c;
	uv_loop_t loop;

	assert_ok(rf_tls_client(w.admin_config.ca_pem, w.admin_config.cert_pem,
				w.admin_config.key_pem, &co.tls, &err),
		  err);
	uv_loop_init(&loop);
	c = rf_http_client_new(&loop, &co);
	rf_http_call(c, &call);
	while (!got.over)
		uv_run(&loop, UV_RUN_ONCE);
	rf_http_client_free(c);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
	rf_tls_free(co.tls);
	return got;
}

static void a_long_denial_is_not_cut(void **state)
{
	struct rf_json *status = NULL;
	struct answer got;

	add_template("Long", "package long\n"
			     "violation[{\"msg\": msg}] {\n"
			     "  x := numbers.range(100, 400)[_]\n"
			     "  msg := sprintf(\"line %v of many\", [x])\n"
			     "}\n");
	add_constraint("Long", "long", "{" ON_MAPS "}");
	got = post(CONFIGMAPS, map("a", "{}", "{}"));
	assert_int_equal(got.status, 403);
	assert_int_equal(rf_json_parse(&w.a, got.body, &status, NULL), 0);
	assert_true(rf_str_is(rf_json_str_at(status, "reason"), "Forbidden"));
	assert_int_equal(rf_json_int(rf_json_at(status, "code"), 0), 403);
	assert_true(rf_str_starts(rf_json_str_at(status, "message"),
				  RF_LIT(DENIED "[long] line 100 of many\n[long] line 101 of")));
	assert_true(
		rf_str_ends(rf_json_str_at(status, "message"), RF_LIT("[long] line 400 of many")));
}

static void a_policy_that_cannot_be_used_is_refused(void **state)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *t;

	expect(world_try(w.admin, &w, TEMPLATES,
			 template("Broken", "package broken\nviolation[{\"msg\": x}] { y }\n"),
			 &err),
	       &err, RF_INVALID, "2:");
	expect(world_try(w.admin, &w, TEMPLATES, template("Broken", "package broken\n\n}"), &err),
	       &err, RF_INVALID, "3:1");
	assert_int_equal(rf_kube_get(w.admin, &w.a, RF_LIT(TEMPLATES "/broken"), NULL, &err),
			 -RF_NOT_FOUND);
	t = template("Wrong", ALWAYS);
	rf_json_set_str(&w.a, rf_json_at(t, "metadata"), "name", RF_LIT("other"));
	expect(world_try(w.admin, &w, TEMPLATES, t, &err), &err, RF_INVALID, "lower case");
	expect(world_try(w.admin, &w, TEMPLATES, template("No such kind", ALWAYS), &err), &err,
	       RF_INVALID, "");
	expect(world_try(w.admin, &w, TEMPLATES, template("No\\\"Kind", ALWAYS), &err), &err,
	       RF_INVALID, "");
	need_owner();
	expect(world_try(w.admin, &w, CONSTRAINTS "/needlabels",
			 constraint("NeedLabels", "bad", "{'parameters':{'labels':'owner'}}"),
			 &err),
	       &err, RF_INVALID, "labels");
	expect(world_try(w.admin, &w, SYSTEM_CONFIGMAPS,
			 rf_json_make(&w.a,
				      "{'metadata':{'name':'p','labels':"
				      "{'openpolicyagent.org/policy':'rego'}},'data':"
				      "{'p.rego':'package kubernetes.admission\\n\\np if {'}}"),
			 &err),
	       &err, RF_INVALID, "3:");
	/* What was in force stays so when its change is refused. */
	t = world_get(&w, TEMPLATES "/needlabels");
	rf_json_set_str(&w.a, rf_json_item(rf_json_at(t, "spec", "targets"), 0), "rego",
			RF_LIT("package x\n}"));
	expect(rf_kube_update(w.admin, &w.a, RF_LIT(TEMPLATES "/needlabels"), t, NULL, &err), &err,
	       RF_INVALID, "2:1");
	expect(try_map(w.admin, "a", "{}", &err), &err, RF_FORBIDDEN, "[owned]");
}

static void a_dry_run_of_a_policy_changes_nothing(void **state)
{
	struct rf_err err = RF_ERR_INIT;

	assert_ok(world_try(w.admin, &w, TEMPLATES "?dryRun=All", template("Dry", ALWAYS), &err),
		  err);
	assert_int_equal(rf_kube_get(w.admin, &w.a, RF_LIT(CONSTRAINTS "/dry"), NULL, &err),
			 -RF_NOT_FOUND);
	add_template("Dry", ALWAYS);
	assert_ok(world_try(w.admin, &w, CONSTRAINTS "/dry?dryRun=All",
			    constraint("Dry", "all", "{}"), &err),
		  err);
	assert_ok(try_map(w.admin, "a", "{}", &err), err);
	add_constraint("Dry", "all", "{}");
	expect(try_map(w.admin, "b", "{}", &err), &err, RF_FORBIDDEN, "[all] never");
	assert_ok(
		rf_kube_delete(w.admin, &w.a, RF_LIT(TEMPLATES "/dry?dryRun=All"), 0, false, &err),
		err);
	expect(try_map(w.admin, "b", "{}", &err), &err, RF_FORBIDDEN, "[all] never");
}

static void only_administrators_write_policies(void **state)
{
	struct rf_err err = RF_ERR_INIT;

	need_owner();
	expect(world_try(alice, &w, TEMPLATES, template("Mine", ALWAYS), &err), &err, RF_FORBIDDEN,
	       "cannot create resource \"constrainttemplates\"");
	expect(world_try(alice, &w, CONSTRAINTS "/needlabels", constraint("NeedLabels", "x", "{}"),
			 &err),
	       &err, RF_FORBIDDEN, "cannot create resource \"needlabels\"");
	expect(world_try(alice, &w, SYSTEM_CONFIGMAPS,
			 map("x", "{'openpolicyagent.org/policy':'rego'}", "{}"), &err),
	       &err, RF_FORBIDDEN, "cannot create resource \"configmaps\"");
	/* In her own namespace the label is a label, and what is in it no policy. */
	assert_ok(world_try(alice, &w, "/api/v1/namespaces/team-a/configmaps",
			    map("x", "{'openpolicyagent.org/policy':'rego','owner':'alice'}",
				"{'p.rego':'no Rego at all'}"),
			    &err),
		  err);
	remove_one("/api/v1/namespaces/team-a/configmaps", "x");
}

static void the_platform_is_never_locked(void **state)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *o;

	world_create(&w, PODS, world_pod(&w, "p", "{}"));
	add_template("DenyAll", ALWAYS);
	add_constraint("DenyAll", "all", "{}");
	expect(try_map(w.admin, "a", "{}", &err), &err, RF_FORBIDDEN, "[all] never");
	expect(world_try(w.admin, &w, PODS "/p/binding",
			 rf_json_make(&w.a, "{'target':{'kind':'Node','name':'node-1'}}"), &err),
	       &err, RF_FORBIDDEN, "[all] never");
	assert_ok(world_try(control, &w, PODS "/p/binding",
			    rf_json_make(&w.a, "{'target':{'kind':'Node','name':'node-1'}}"), &err),
		  err);
	assert_ok(rf_kube_patch(node, &w.a, RF_LIT(PODS "/p/status"), RF_PATCH_MERGE,
				rf_json_make(&w.a, "{'status':{'phase':'Running'}}"), NULL, &err),
		  err);
	assert_ok(rf_kube_patch(w.admin, &w.a, RF_LIT(PODS "/p/status"), RF_PATCH_MERGE,
				rf_json_make(&w.a, "{'status':{'phase':'Succeeded'}}"), NULL, &err),
		  err);
	assert_ok(world_try(node, &w,
			    "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
			    rf_json_make(&w.a, "{'metadata':{'name':'node-1'},'spec':{}}"), &err),
		  err);
	/* Policies can be written, changed and deleted whatever policies say. */
	add_template("Other", ALWAYS);
	add_constraint("Other", "one", "{'enforcementAction':'dryrun'}");
	add_plain("plain", "package kubernetes.admission\n");
	o = world_get(&w, CONSTRAINTS "/denyall/all");
	rf_json_set(&w.a, rf_json_at(o, "spec"), RF_LIT("enforcementAction"),
		    rf_json_string(&w.a, RF_LIT("dryrun")));
	assert_ok(rf_kube_update(w.admin, &w.a, RF_LIT(CONSTRAINTS "/denyall/all"), o, NULL, &err),
		  err);
	assert_ok(try_map(w.admin, "a", "{}", &err), err);
	remove_one(PODS, "p");
}

static void ends_are_judged_by_who_speaks_of_them(void **state)
{
	struct rf_err err = RF_ERR_INIT;

	world_create(&w, CONFIGMAPS, map("before", "{}", "{}"));
	need_owner();
	assert_ok(rf_kube_delete(w.admin, &w.a, RF_LIT(CONFIGMAPS "/before"), 0, false, &err), err);
	remove_one(TEMPLATES, "needlabels");
	world_create(&w, CONFIGMAPS, map("keep", "{'keep':'yes'}", "{}"));
	world_create(&w, CONFIGMAPS, map("go", "{}", "{}"));
	world_create(&w, PODS, world_pod(&w, "p", "{}"));
	add_template("Keep", "package keep\n"
			     "violation[{\"msg\": \"is kept\"}] {\n"
			     "  input.review.operation == \"DELETE\"\n"
			     "  input.review.oldObject.metadata.labels.keep\n"
			     "}\n"
			     "violation[{\"msg\": msg}] {\n"
			     "  input.review.kind == {\"group\": \"policy\", \"version\": \"v1\", "
			     "\"kind\": \"Eviction\"}\n"
			     "  input.review.subResource == \"eviction\"\n"
			     "  msg := sprintf(\"%v stays\", [input.review.name])\n"
			     "}\n");
	add_constraint("Keep", "keep", "{}");
	expect(rf_kube_delete(w.admin, &w.a, RF_LIT(CONFIGMAPS "/keep"), 0, false, &err), &err,
	       RF_FORBIDDEN, "[keep] is kept");
	expect(rf_kube_delete(w.admin, &w.a, RF_LIT(CONFIGMAPS), 0, false, &err), &err,
	       RF_FORBIDDEN, "[keep] is kept");
	world_get(&w, CONFIGMAPS "/go"); /* all of a collection, or none */
	assert_ok(rf_kube_delete(w.admin, &w.a, RF_LIT(CONFIGMAPS "/go"), 0, false, &err), err);
	expect(world_try(w.admin, &w, PODS "/p/eviction",
			 rf_json_make(&w.a, "{'metadata':{'name':'p'}}"), &err),
	       &err, RF_FORBIDDEN, "[keep] p stays");
	world_get(&w, PODS "/p");
	remove_one(TEMPLATES, "keep");
	add_plain(
		"plain",
		"package kubernetes.admission\n\n"
		"deny contains \"plainly kept\" if input.request.oldObject.metadata.labels.keep\n");
	/* A dry run that takes the policy away does not. */
	world_create(&w, SYSTEM_CONFIGMAPS, map("z", "{'keep':'yes'}", "{}"));
	assert_ok(rf_kube_delete(w.admin, &w.a, RF_LIT(SYSTEM_CONFIGMAPS "?dryRun=All"), 0, false,
				 &err),
		  err);
	expect(rf_kube_delete(w.admin, &w.a, RF_LIT(SYSTEM_CONFIGMAPS "/z"), 0, false, &err), &err,
	       RF_FORBIDDEN, "plainly kept");
	expect(rf_kube_delete(w.admin, &w.a, RF_LIT(CONFIGMAPS "/keep"), 0, false, &err), &err,
	       RF_FORBIDDEN, "plainly kept");
}

static void a_policy_sees_the_request_as_in_kubernetes(void **state)
{
	static const struct {
		const char *path;
		const char *want;
	} WANT[] = {
		{ "kind", "{\"group\": \"\", \"kind\": \"ConfigMap\", \"version\": \"v1\"}" },
		{ "requestKind",
		  "{\"group\": \"\", \"kind\": \"ConfigMap\", \"version\": \"v1\"}" },
		{ "resource",
		  "{\"group\": \"\", \"resource\": \"configmaps\", \"version\": \"v1\"}" },
		{ "operation", "\"CREATE\"" },
		{ "name", "\"seen\"" },
		{ "namespace", "\"team-a\"" },
		{ "dryRun", "false" },
		{ "userInfo", "{\"groups\": [\"system:authenticated\"], \"username\": \"alice\"}" },
		{ "oldObject", "null" },
		{ "object.data", "{\"a\": \"b\"}" },
		{ "options", "{\"apiVersion\": \"meta.k8s.io/v1\", \"kind\": \"CreateOptions\"}" },
		{ "namespaceObject.metadata.labels.team", "\"a\"" },
	};
	struct rf_err err = RF_ERR_INIT;

	for (size_t i = 0; i < RF_COUNT(WANT); i++) {
		add_plain("see",
			  rf_arena_printf(&w.a,
					  "package kubernetes.admission\n\n"
					  "deny contains sprintf(\"<%%v>\", [input.request.%s]) if "
					  "input.request.name == \"seen\"\n",
					  WANT[i].path)
				  .p);
		if (world_try(alice, &w, "/api/v1/namespaces/team-a/configmaps",
			      map("seen", "{}", "{'a':'b'}"), &err) != -RF_FORBIDDEN)
			fail_msg("%s is undefined: %s", WANT[i].path, err.msg);
		if (strstr(err.msg,
			   rf_arena_printf(&w.a, "<%.*s>", (int)strlen(WANT[i].want), WANT[i].want)
				   .p) == NULL &&
		    strstr(err.msg, rf_arena_printf(&w.a, "<%.*s>", (int)strlen(WANT[i].want) - 2,
						    WANT[i].want + 1)
					    .p) == NULL)
			fail_msg("%s: wanted %s, got %s", WANT[i].path, WANT[i].want, err.msg);
		remove_one(SYSTEM_CONFIGMAPS, "see");
	}
}

static void a_kind_may_be_called_as_others_are(void **state)
{
	static const char *const NAMES[] = { "Pods", "Namespaces", "ResourceClaims", "ObjectMeta" };
	struct rf_err err = RF_ERR_INIT;

	for (size_t i = 0; i < RF_COUNT(NAMES); i++) {
		add_template(NAMES[i], LABELS);
		add_constraint(NAMES[i], "default",
			       "{" ON_MAPS ",'parameters':{'labels':['owner']}}");
		expect(try_map(w.admin, "a", "{}", &err), &err, RF_FORBIDDEN, "[default]");
		remove_one(TEMPLATES, rf_arena_cstr(&w.a, rf_kube_name(template(NAMES[i], ""))));
	}
	world_get(&w, "/api/v1/namespaces/default");
	assert_ok(try_map(w.admin, "a", "{}", &err), err);
}

/* It would be found among the others later, and every comparison with them refused. */
static void a_number_that_policies_cannot_read_is_not_stored(void **state)
{
	static const char *const NUMBERS[] = { "1e400000", "-1e309",
					       "1111111111111111111111111111111111111111111111111111111111111111"
					       "1111111111111111111111111111111111" };
	struct rf_err err = RF_ERR_INIT;

	for (size_t i = 0; i < RF_COUNT(NUMBERS); i++) {
		struct rf_json *o = NULL;

		assert_ok(rf_json_parse(&w.a,
					rf_arena_printf(&w.a,
							"{\"metadata\":{\"name\":\"p\"},\"spec\":{\"x\":[{\"y\":%s}]}}",
							NUMBERS[i]),
					&o, &err),
			  err);
		expect(world_try(w.admin, &w, "/apis/ringfence.io/v1alpha1/namespaces/default/podgroups", o, &err),
		       &err, RF_BAD_REQUEST, "is out of range");
	}
}

/* Nothing else is answered while one request is worked on, so the sum of its judgements is bounded. */
static void a_collection_that_takes_too_long_stays_as_it_is(void **state)
{
	static const size_t N = 400;
	struct rf_err err = RF_ERR_INIT;

	for (size_t i = 0; i < N; i++)
		assert_ok(try_map(w.admin, rf_arena_printf(&w.a, "m%zu", i).p, "{'go':'y'}", &err), err);
	add_template("SlowEnd", "package slowend\n"
				"violation[{\"msg\": \"never\"}] {\n"
				"  input.review.operation == \"DELETE\"\n"
				"  a := numbers.range(1, 2000)[_]\n"
				"  b := numbers.range(1, 1000)[_]\n  a + b < 0\n}\n");
	add_constraint("SlowEnd", "slow", "{" ON_MAPS "}");
	rf_kube_set_timeout(w.admin, 60000);
	expect(rf_kube_delete(w.admin, &w.a, RF_LIT(CONFIGMAPS "?labelSelector=go%3Dy"), -1, false, &err),
	       &err, RF_TOO_LARGE, "none was deleted");
	assert_int_equal(rf_json_len(rf_json_at(world_get(&w, CONFIGMAPS), "items")), N);
	remove_one(TEMPLATES, "slowend");
	assert_ok(rf_kube_delete(w.admin, &w.a, RF_LIT(CONFIGMAPS "?labelSelector=go%3Dy"), -1, false, &err),
		  err);
	assert_int_equal(rf_json_len(rf_json_at(world_get(&w, CONFIGMAPS), "items")), 0);
	rf_kube_set_timeout(w.admin, 10000);
}

static void a_policy_that_breaks_refuses(void **state)
{
	struct rf_err err = RF_ERR_INIT;

	add_template("Endless", "package endless\n"
				"violation[{\"msg\": \"never\"}] {\n"
				"  x := numbers.range(1, 100000)\n"
				"  a := x[_]\n  b := x[_]\n  a + b < 0\n}\n");
	add_constraint("Endless", "endless", "{" ON_MAPS "}");
	rf_kube_set_timeout(w.admin, 60000);
	expect(try_map(w.admin, "a", "{}", &err), &err, RF_FORBIDDEN, "[endless]");
	rf_kube_set_timeout(w.admin, 10000);
}

/* --- templates come and go ------------------------------------------------------------------ */

static void with_a_template_go_its_constraints(void **state)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *events;
	int64_t before;

	need_owner();
	add_constraint("NeedLabels", "held", "{'enforcementAction':'dryrun'}");
	assert_ok(rf_kube_patch(w.admin, &w.a, RF_LIT(CONSTRAINTS "/needlabels/held"),
				RF_PATCH_MERGE,
				rf_json_make(&w.a, "{'metadata':{'finalizers':['a.example/b']}}"),
				NULL, &err),
		  err);
	before = rf_kube_rv(world_get(&w, CONSTRAINTS "/needlabels"));
	remove_one(TEMPLATES, "needlabels");
	assert_int_equal(rf_kube_get(w.admin, &w.a, RF_LIT(CONSTRAINTS "/needlabels"), NULL, &err),
			 -RF_NOT_FOUND);
	assert_ok(try_map(w.admin, "free", "{}", &err), err);
	add_template("NeedLabels", LABELS);
	assert_int_equal(rf_json_len(rf_json_at(world_get(&w, CONSTRAINTS "/needlabels"), "items")),
			 0);
	events = world_watch(&w,
			     rf_arena_printf(&w.a,
					     CONSTRAINTS "/needlabels?watch=1&resourceVersion=%lld",
					     (long long)before)
				     .p,
			     2);
	assert_int_equal(rf_json_len(events), 2);
	for (size_t i = 0; i < 2; i++)
		assert_true(rf_str_is(rf_json_str_at(rf_json_item(events, i), "type"), "DELETED"));
}

static void a_changed_template_holds_at_once(void **state)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *t;

	need_owner();
	t = world_get(&w, TEMPLATES "/needlabels");
	rf_json_set_str(&w.a, rf_json_item(rf_json_at(t, "spec", "targets"), 0), "rego",
			RF_LIT("package labels\nviolation[{\"msg\": \"changed\"}] { true }\n"));
	assert_ok(rf_kube_update(w.admin, &w.a, RF_LIT(TEMPLATES "/needlabels"), t, NULL, &err),
		  err);
	expect(try_map(w.admin, "a", "{'owner':'me'}", &err), &err, RF_FORBIDDEN,
	       "[owned] changed");
	t = world_get(&w, TEMPLATES "/needlabels");
	rf_json_set_str(&w.a, rf_json_at(t, "spec", "crd", "spec", "names"), "kind",
			RF_LIT("Needlabels"));
	expect(rf_kube_update(w.admin, &w.a, RF_LIT(TEMPLATES "/needlabels"), t, NULL, &err), &err,
	       RF_INVALID, "immutable");
	remove_one(CONSTRAINTS "/needlabels", "owned");
	assert_ok(try_map(w.admin, "a", "{}", &err), err);
}

static void older_versions_are_the_same_object(void **state)
{
	struct rf_json *t = template("NeedLabels", LABELS), *o = NULL, *events;
	struct rf_err err = RF_ERR_INIT;

	rf_json_set_str(&w.a, t, "apiVersion", RF_LIT("templates.gatekeeper.sh/v1beta1"));
	o = world_create(&w, OLD_TEMPLATES, t);
	assert_true(rf_str_is(rf_json_str_at(o, "apiVersion"), "templates.gatekeeper.sh/v1beta1"));
	assert_true(rf_json_is_true(rf_json_at(o, "status", "created")));
	o = world_get(&w, TEMPLATES "/needlabels");
	assert_true(rf_str_is(rf_json_str_at(o, "apiVersion"), "templates.gatekeeper.sh/v1"));
	o = world_get(&w, OLD_TEMPLATES);
	assert_true(rf_str_is(rf_json_str_at(o, "apiVersion"), "templates.gatekeeper.sh/v1beta1"));
	assert_true(rf_str_is(rf_json_str_at(rf_json_item(rf_json_at(o, "items"), 0), "apiVersion"),
			      "templates.gatekeeper.sh/v1beta1"));
	events = world_watch(&w, OLD_TEMPLATES "?watch=1", 1);
	assert_true(rf_str_is(rf_json_str_at(rf_json_item(events, 0), "object", "apiVersion"),
			      "templates.gatekeeper.sh/v1beta1"));
	assert_ok(rf_kube_patch(w.admin, &w.a, RF_LIT(OLD_TEMPLATES "/needlabels"), RF_PATCH_MERGE,
				rf_json_make(&w.a, "{'metadata':{'labels':{'a':'b'}}}"), &o, &err),
		  err);
	assert_true(rf_str_is(rf_json_str_at(o, "apiVersion"), "templates.gatekeeper.sh/v1beta1"));
	rf_json_set_str(&w.a, t, "apiVersion", RF_LIT("templates.gatekeeper.sh/v1"));
	expect(world_try(w.admin, &w, "/apis/templates.gatekeeper.sh/v2/constrainttemplates", t,
			 &err),
	       &err, RF_NOT_FOUND, "");
}

static void policies_survive_a_crash(void **state)
{
	struct rf_err err = RF_ERR_INIT;

	need_owner();
	add_plain("plain", "package kubernetes.admission\n\n"
			   "deny contains \"no such name\" if input.request.name == \"evil\"\n");
	restart(SIGKILL, NULL);
	expect(try_map(w.admin, "a", "{}", &err), &err, RF_FORBIDDEN, "[owned]");
	expect(try_map(w.admin, "evil", "{'owner':'me'}", &err), &err, RF_FORBIDDEN,
	       "no such name");
	assert_int_equal(rf_json_len(rf_json_at(world_get(&w, CONSTRAINTS "/needlabels"), "items")),
			 1);
	/* A policy stops being one with its label. */
	assert_ok(
		rf_kube_patch(w.admin, &w.a, RF_LIT(SYSTEM_CONFIGMAPS "/plain"), RF_PATCH_MERGE,
			      rf_json_make(&w.a, "{'metadata':{'labels':%j}}", rf_json_null(&w.a)),
			      NULL, &err),
		err);
	assert_ok(try_map(w.admin, "evil", "{'owner':'me'}", &err), err);
}

static void modules_may_need_each_other(void **state)
{
	struct rf_err err = RF_ERR_INIT;

	add_plain("z-lib", "package kubernetes.lib\n\nbad(name) if startswith(name, \"evil\")\n");
	add_plain("a-rule",
		  "package kubernetes.admission\n\n"
		  "deny contains \"no evil\" if data.kubernetes.lib.bad(input.request.name)\n");
	expect(try_map(w.admin, "evil", "{}", &err), &err, RF_FORBIDDEN, "no evil");
	expect(rf_kube_delete(w.admin, &w.a, RF_LIT(SYSTEM_CONFIGMAPS "/z-lib"), 0, false, &err),
	       &err, RF_FORBIDDEN, "other policies need it");
	world_get(&w, SYSTEM_CONFIGMAPS "/z-lib");
	expect(try_map(w.admin, "evil", "{}", &err), &err, RF_FORBIDDEN, "no evil");
	restart(SIGTERM, NULL); /* now a-rule is read before what it needs */
	expect(try_map(w.admin, "evil", "{}", &err), &err, RF_FORBIDDEN, "no evil");
	assert_ok(try_map(w.admin, "good", "{}", &err), err);
	remove_one(CONFIGMAPS, "good");
	assert_ok(rf_kube_delete(w.admin, &w.a, RF_LIT(SYSTEM_CONFIGMAPS), 0, false, &err), err);
	assert_ok(try_map(w.admin, "evil", "{}", &err), err);
}

static void spoil(const char *db)
{
	sqlite3 *s = NULL;

	assert_int_equal(sqlite3_open(db, &s), SQLITE_OK);
	assert_int_equal(
		sqlite3_exec(s,
			     "UPDATE obj SET json=replace(json,'package labels','pack labels')"
			     " WHERE kind='constrainttemplates.templates.gatekeeper.sh'",
			     NULL, NULL, NULL),
		SQLITE_OK);
	sqlite3_close(s);
}

static void a_policy_that_no_longer_compiles_refuses_until_mended(void **state)
{
	struct rf_json *t, *fresh = template("NeedLabels", LABELS);
	struct rf_err err = RF_ERR_INIT;

	need_owner();
	restart(SIGTERM, spoil);
	expect(try_map(w.admin, "a", "{'owner':'me'}", &err), &err, RF_SYSTEM,
	       "needlabels cannot be used, change or delete it");
	assert_ok(rf_kube_patch(control, &w.a, RF_LIT("/api/v1/namespaces/default"), RF_PATCH_MERGE,
				rf_json_make(&w.a, "{'metadata':{'labels':{'a':'b'}}}"), NULL,
				&err),
		  err);
	assert_int_equal(rf_json_len(rf_json_at(world_get(&w, CONSTRAINTS "/needlabels"), "items")),
			 1);
	t = world_get(&w, TEMPLATES "/needlabels");
	rf_json_set(&w.a, t, RF_LIT("spec"), rf_json_at(fresh, "spec"));
	assert_ok(rf_kube_update(w.admin, &w.a, RF_LIT(TEMPLATES "/needlabels"), t, NULL, &err),
		  err);
	assert_ok(try_map(w.admin, "a", "{'owner':'me'}", &err), err);
	expect(try_map(w.admin, "b", "{}", &err), &err, RF_FORBIDDEN, "[owned]");
	restart(SIGTERM, spoil);
	remove_one(TEMPLATES, "needlabels");
	assert_ok(try_map(w.admin, "b", "{}", &err), err);
}

/* --- what referential policies see ---------------------------------------------------------- */

#define ROUNDS 200

struct lane {
	atomic_int arrived;
	atomic_int got[ROUNDS];
};

/* One of two who want the same; both begin a round together. */
static _Noreturn void racer(struct lane *lane, int id)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_kube *k;

	if (rf_kube_new(&w.admin_config, &k, &err) < 0)
		_exit(1);
	for (int i = 0; i < ROUNDS; i++) {
		char name[32], host[32];
		int r;

		snprintf(name, sizeof(name), "race-%d-%d", i, id);
		snprintf(host, sizeof(host), "{'host':'h%d'}", i);
		atomic_fetch_add(&lane->arrived, 1);
		while (atomic_load(&lane->arrived) < 2 * (i + 1))
			sched_yield();
		r = world_try(k, &w, CONFIGMAPS, map(name, "{}", host), &err);
		if (r != 0 && r != -RF_FORBIDDEN)
			_exit(2);
		atomic_fetch_add(&lane->got[i], r == 0);
	}
	_exit(0);
}

static void of_two_that_race_one_wins(void **state)
{
	struct lane *lane = mmap(NULL, sizeof(*lane), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct rf_json *t = template("Unique", UNIQUE);
	pid_t pids[2];

	assert_true(lane != MAP_FAILED);
	rf_json_set_str(&w.a, rf_json_ensure(&w.a, t, "metadata", "annotations"),
			"metadata.gatekeeper.sh/requires-sync-data",
			RF_LIT("\"[[{\"groups\": [\"\"], \"versions\": [\"v1\"], \"kinds\": "
			       "[\"ConfigMap\"]}]]\"\n"));
	world_create(&w, TEMPLATES, t);
	add_constraint("Unique", "unique", "{" ON_MAPS "}");
	for (int i = 0; i < 2; i++) {
		pids[i] = fork();
		if (pids[i] == 0)
			racer(lane, i);
	}
	for (int i = 0; i < 2; i++) {
		int status;

		waitpid(pids[i], &status, 0);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	for (int i = 0; i < ROUNDS; i++)
		assert_int_equal(atomic_load(&lane->got[i]), 1);
	munmap(lane, sizeof(*lane));
}

/* How many of a kind a policy finds: it refuses with the number. */
static void sees(const char *what, const char *number)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *t = world_get(&w, TEMPLATES "/count");

	rf_json_set_str(&w.a, rf_json_item(rf_json_at(t, "spec", "targets"), 0), "rego",
			rf_arena_printf(&w.a,
					"package count\nviolation[{\"msg\": msg}] {\n"
					"  n := count([x | x := data.inventory.%s])\n"
					"  msg := sprintf(\"found %%v\", [n])\n}\n",
					what));
	assert_ok(rf_kube_update(w.admin, &w.a, RF_LIT(TEMPLATES "/count"), t, NULL, &err), err);
	expect(try_map(w.admin, "one-more", "{}", &err), &err, RF_FORBIDDEN, number);
}

static void the_inventory_has_what_templates_name_or_all(void **state)
{
	struct rf_err err = RF_ERR_INIT;

	world_create(&w, CONFIGMAPS, map("m", "{}", "{}"));
	world_create(&w, "/api/v1/namespaces/default/secrets",
		     rf_json_make(&w.a, "{'metadata':{'name':'s'},'stringData':{'a':'b'}}"));
	add_template("Count", ALWAYS);
	add_constraint("Count", "count", "{" ON_MAPS "}");
	sees("cluster.v1.Namespace[_]", "[count] found 5");
	sees("namespace[\"default\"].v1.ConfigMap[_]", "[count] found 1");
	sees("namespace[\"default\"].v1.Secret[\"s\"]", "[count] found 1");
	sees("cluster[_].ConstraintTemplate[_]", "[count] found 0");
	assert_ok(rf_kube_patch(w.admin, &w.a, RF_LIT(TEMPLATES "/count"), RF_PATCH_MERGE,
				rf_json_make(&w.a,
					     "{'metadata':{'annotations':{"
					     "'metadata.gatekeeper.sh/requires-sync-data':"
					     "'[[{\\'groups\\':[\\'\\'],\\'versions\\':[\\'v1\\'],"
					     "\\'kinds\\':[\\'Secret\\']}]]'}}}"),
				NULL, &err),
		  err);
	remove_one("/api/v1/namespaces/default/secrets", "s");
}

static void a_named_kind_is_all_there_is(void **state)
{
	struct rf_json *t = template("Count", ALWAYS);

	world_create(&w, CONFIGMAPS, map("m", "{}", "{}"));
	rf_json_set_str(
		&w.a, rf_json_ensure(&w.a, t, "metadata", "annotations"),
		"metadata.gatekeeper.sh/requires-sync-data",
		RF_LIT("[[{\"groups\":[\"\"],\"versions\":[\"v1\"],\"kinds\":[\"Namespace\"]}]]"));
	world_create(&w, TEMPLATES, t);
	add_constraint("Count", "count", "{" ON_MAPS "}");
	sees("cluster.v1.Namespace[_]", "[count] found 5");
	sees("namespace[_].v1.ConfigMap[_]", "[count] found 0");
}

static void gatekeepers_own_settings_are_heard(void **state)
{
#define CONFIGS "/apis/config.gatekeeper.sh/v1alpha1/namespaces/gatekeeper-system/configs"
#define SYNCSETS "/apis/syncset.gatekeeper.sh/v1alpha1/syncsets"
	struct rf_json *t = template("Count", ALWAYS);
	struct rf_err err = RF_ERR_INIT;

	world_namespace(&w, "gatekeeper-system", "{}");
	world_create(&w, CONFIGMAPS, map("m", "{}", "{}"));
	rf_json_set_str(
		&w.a, rf_json_ensure(&w.a, t, "metadata", "annotations"),
		"metadata.gatekeeper.sh/requires-sync-data",
		RF_LIT("[[{\"groups\":[\"\"],\"versions\":[\"v1\"],\"kinds\":[\"Node\"]}]]"));
	world_create(&w, TEMPLATES, t);
	add_constraint("Count", "count", "{" ON_MAPS "}");
	sees("cluster.v1.Namespace[_]", "[count] found 0");
	sees("namespace[_].v1.ConfigMap[_]", "[count] found 0");
	world_create(&w, SYNCSETS,
		     rf_json_make(&w.a, "{'metadata':{'name':'s'},'spec':{'gvks':[{'group':'',"
					"'version':'v1','kind':'ConfigMap'}]}}"));
	sees("namespace[_].v1.ConfigMap[_]", "[count] found 1");
	world_create(&w, CONFIGS,
		     rf_json_make(&w.a,
				  "{'metadata':{'name':'config'},'spec':{'sync':{'syncOnly':["
				  "{'group':'','version':'v1','kind':'Namespace'}]},'match':["
				  "{'excludedNamespaces':['team-*'],'processes':['webhook']},"
				  "{'excludedNamespaces':['default'],'processes':['audit']}]}}"));
	sees("cluster.v1.Namespace[\"default\"]", "[count] found 1");
	assert_ok(world_try(w.admin, &w, "/api/v1/namespaces/team-a/configmaps",
			    map("left-alone", "{}", "{}"), &err),
		  err);
	remove_one(CONFIGS, "config");
	expect(world_try(w.admin, &w, "/api/v1/namespaces/team-a/configmaps",
			 map("judged", "{}", "{}"), &err),
	       &err, RF_FORBIDDEN, "[count]");
	expect(world_try(alice, &w, CONFIGS, rf_json_make(&w.a, "{'metadata':{'name':'config'}}"),
			 &err),
	       &err, RF_FORBIDDEN, "cannot create resource \"configs\"");
	remove_one(SYNCSETS, "s");
	remove_one("/api/v1/namespaces/team-a/configmaps", "left-alone");
}

static void discovery_knows_what_there_is(void **state)
{
	struct rf_json *o;

	o = world_get(&w, "/apis/templates.gatekeeper.sh");
	assert_int_equal(rf_json_len(rf_json_at(o, "versions")), 3);
	assert_true(rf_str_is(rf_json_str_at(o, "preferredVersion", "version"), "v1"));
	o = world_get(&w, "/apis/templates.gatekeeper.sh/v1alpha1");
	assert_true(
		rf_str_is(rf_json_str_at(o, "groupVersion"), "templates.gatekeeper.sh/v1alpha1"));
	assert_int_equal(rf_json_len(rf_json_at(o, "resources")), 2); /* and its status */
	assert_null(rf_json_at(world_get(&w, "/openapi/v3"), "paths",
			       "apis/constraints.gatekeeper.sh/v1beta1"));
	add_template("NeedLabels", LABELS);
	add_template("Other", ALWAYS);
	o = world_get(&w, CONSTRAINTS);
	assert_int_equal(rf_json_len(rf_json_at(o, "resources")), 4);
	o = rf_json_item(rf_json_at(o, "resources"), 0);
	assert_true(rf_str_is(rf_json_str_at(o, "name"), "needlabels"));
	assert_true(rf_str_is(rf_json_str_at(o, "kind"), "NeedLabels"));
	assert_int_equal(rf_json_len(rf_json_at(o, "categories")), 2);
	assert_non_null(rf_json_at(world_get(&w, "/openapi/v3"), "paths",
				   "apis/constraints.gatekeeper.sh/v1beta1"));
	o = world_get(&w, "/openapi/v3/apis/constraints.gatekeeper.sh/v1beta1");
	assert_non_null(rf_json_at(o, "paths", CONSTRAINTS "/needlabels/{name}", "patch"));
	assert_non_null(rf_json_at(o, "components", "schemas", "constraint.Other"));
	assert_non_null(
		rf_json_at(world_get(&w, "/openapi/v3/apis/templates.gatekeeper.sh/v1beta1"),
			   "paths", OLD_TEMPLATES "/{name}"));
}

static void an_inventory_that_is_too_large_refuses(void **state)
{
	struct rf_err err = RF_ERR_INIT;
	size_t n = 1000 * 1000;
	char *text = rf_alloc(n + 1);

	memset(text, 'x', n);
	for (int i = 0; i < 17; i++)
		world_create(&w, CONFIGMAPS,
			     rf_json_make(&w.a, "{'metadata':{'name':%S},'data':{'a':%s}}",
					  rf_arena_printf(&w.a, "large-%d", i), text));
	free(text);
	add_template("Unique", UNIQUE);
	add_constraint("Unique", "unique", "{" ON_MAPS "}");
	expect(world_try(w.admin, &w, CONFIGMAPS, map("a", "{}", "{'host':'a'}"), &err), &err,
	       RF_SYSTEM, "more than 16 MiB; name those that are needed");
	remove_one(CONFIGMAPS, "large-0");
	assert_ok(world_try(w.admin, &w, CONFIGMAPS, map("a", "{}", "{'host':'a'}"), &err), err);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_teardown(f, clean)
	const struct CMUnitTest tests[] = {
		TEST(what_violates_is_denied_and_not_written),
		TEST(a_long_denial_is_not_cut),
		TEST(a_policy_that_cannot_be_used_is_refused),
		TEST(a_dry_run_of_a_policy_changes_nothing),
		TEST(only_administrators_write_policies),
		TEST(the_platform_is_never_locked),
		TEST(ends_are_judged_by_who_speaks_of_them),
		TEST(a_policy_sees_the_request_as_in_kubernetes),
		TEST(a_kind_may_be_called_as_others_are),
		TEST(a_policy_that_breaks_refuses),
		TEST(a_collection_that_takes_too_long_stays_as_it_is),
		TEST(a_number_that_policies_cannot_read_is_not_stored),
		TEST(with_a_template_go_its_constraints),
		TEST(a_changed_template_holds_at_once),
		TEST(older_versions_are_the_same_object),
		TEST(policies_survive_a_crash),
		TEST(modules_may_need_each_other),
		TEST(a_policy_that_no_longer_compiles_refuses_until_mended),
		TEST(of_two_that_race_one_wins),
		TEST(the_inventory_has_what_templates_name_or_all),
		TEST(a_named_kind_is_all_there_is),
		TEST(gatekeepers_own_settings_are_heard),
		TEST(discovery_knows_what_there_is),
		TEST(an_inventory_that_is_too_large_refuses),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
