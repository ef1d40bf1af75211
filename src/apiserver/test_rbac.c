/* Who may do what: the rules, and who may hand them on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "apiserver/rbac.h"

static struct {
	struct rf_arena a;
	char dir[64];
	struct rf_store *s;
	struct rf_rbac *b;
	struct rf_err err;
} f;

static int setup(void **state)
{
	memset(&f, 0, sizeof(f));
	snprintf(f.dir, sizeof(f.dir), "/tmp/rf-rbac-XXXXXX");
	assert_non_null(mkdtemp(f.dir));
	assert_int_equal(rf_store_open(rf_arena_printf(&f.a, "%s/db", f.dir).p, rf_clock_system(),
				       &f.s, &f.err),
			 0);
	f.b = rf_rbac_new(f.s);
	return 0;
}

static int teardown(void **state)
{
	char command[128];

	rf_rbac_free(f.b);
	rf_store_free(f.s);
	snprintf(command, sizeof(command), "rm -rf '%s'", f.dir);
	assert_int_equal(system(command), 0);
	rf_arena_done(&f.a);
	return 0;
}

static void put(const char *plural, struct rf_json *o)
{
	assert_int_equal(rf_store_begin(f.s, &f.err), 0);
	assert_int_equal(rf_store_put(f.s, &f.a, rf_kind_get(plural), NULL, o, &f.err), 0);
	assert_int_equal(rf_store_commit(f.s, NULL, NULL, &f.err), 0);
	rf_rbac_changed(f.b);
}

static void cluster_role(const char *name, const char *rules)
{
	put("clusterroles", rf_json_make(&f.a, "{'metadata':{'name':%s},'rules':%j}", name,
					 rf_json_make(&f.a, rules)));
}

static void bind_everywhere(const char *role, const char *kind, const char *subject)
{
	put("clusterrolebindings",
	    rf_json_make(&f.a,
			 "{'metadata':{'name':%S},'roleRef':{'kind':'ClusterRole','name':%s},"
			 "'subjects':[{'kind':%s,'name':%s,'namespace':'ns'}]}",
			 rf_rand_suffix(&f.a, 8), role, kind, subject));
}

static void bind_in(const char *ns, const char *role, const char *kind, const char *subject)
{
	put("rolebindings",
	    rf_json_make(&f.a,
			 "{'metadata':{'name':%S,'namespace':%s},'roleRef':{'kind':'ClusterRole',"
			 "'name':%s},'subjects':[{'kind':%s,'name':%s,'namespace':'ns'}]}",
			 rf_rand_suffix(&f.a, 8), ns, role, kind, subject));
}

static struct rf_user user(const char *name, const char *group)
{
	struct rf_user u = { .name = rf_str(name), .uid = RF_STR_EMPTY };

	if (group != NULL)
		u.groups[u.n_groups++] = rf_str(group);
	return u;
}

/* may("alice", "get", "pods/log", "x", "ns") */
static bool may(struct rf_user u, const char *verb, const char *what, const char *name,
		const char *ns)
{
	struct rf_str sub = rf_str(what), resource;
	struct rf_ask ask = { .verb = rf_str(verb), .name = rf_str(name), .ns = rf_str(ns) };

	rf_str_cut(&sub, '/', &resource);
	ask.resource = resource;
	ask.sub = sub;
	return rf_rbac_allows(f.b, &u, &ask);
}

#define READER "[{'apiGroups':[''],'resources':['pods'],'verbs':['get','list']}]"

static void nothing_is_allowed_until_something_says_so(void **state)
{
	assert_false(may(user("alice", NULL), "get", "pods", "", "ns"));
	cluster_role("reader", READER);
	assert_false(may(user("alice", NULL), "get", "pods", "", "ns"));
	bind_everywhere("reader", "User", "alice");
	assert_true(may(user("alice", NULL), "get", "pods", "", "ns"));
	assert_false(may(user("alice", NULL), "delete", "pods", "", "ns"));
	assert_false(may(user("alice", NULL), "get", "secrets", "", "ns"));
	assert_false(may(user("bob", NULL), "get", "pods", "", "ns"));
}

static void a_role_binding_holds_in_its_namespace_only(void **state)
{
	cluster_role("reader", READER);
	bind_in("team-a", "reader", "Group", "devs");
	assert_true(may(user("alice", "devs"), "list", "pods", "", "team-a"));
	assert_false(may(user("alice", "devs"), "list", "pods", "", "team-b"));
	assert_false(may(user("alice", "devs"), "list", "pods", "", ""));
}

static void service_accounts_are_named_with_their_namespace(void **state)
{
	cluster_role("reader", READER);
	bind_in("team-a", "reader", "ServiceAccount", "bot");
	assert_true(may(user("system:serviceaccount:ns:bot", NULL), "get", "pods", "", "team-a"));
	assert_false(
		may(user("system:serviceaccount:team-a:bot", NULL), "get", "pods", "", "team-a"));
}

static void subresources_names_and_stars_mean_what_they_say(void **state)
{
	cluster_role("logs", "[{'apiGroups':[''],'resources':['pods/log'],'verbs':['get']}]");
	cluster_role("one", "[{'apiGroups':[''],'resources':['secrets'],'resourceNames':['s'],'"
			    "verbs':['get']}]");
	cluster_role("stati", "[{'apiGroups':['*'],'resources':['*/status'],'verbs':['*']}]");
	bind_everywhere("logs", "User", "l");
	bind_everywhere("one", "User", "o");
	bind_everywhere("stati", "User", "s");
	assert_true(may(user("l", NULL), "get", "pods/log", "p", "ns"));
	assert_false(may(user("l", NULL), "get", "pods", "p", "ns"));
	assert_true(may(user("o", NULL), "get", "secrets", "s", "ns"));
	assert_false(may(user("o", NULL), "get", "secrets", "t", "ns"));
	assert_false(may(user("o", NULL), "list", "secrets", "", "ns"));
	assert_true(may(user("s", NULL), "patch", "nodes/status", "n", ""));
	assert_false(may(user("s", NULL), "patch", "nodes", "n", ""));
}

static void masters_always_get_in(void **state)
{
	assert_true(may(user("root", RF_MASTERS), "delete", "nodes", "n", ""));
}

static int grants(struct rf_user u, const char *ns, const char *rules)
{
	return rf_rbac_covers(f.b, &u, rf_str(ns), rf_json_make(&f.a, rules), &f.err);
}

static void nobody_grants_more_than_he_has(void **state)
{
	cluster_role("reader", READER);
	bind_in("team-a", "reader", "User", "alice");
	assert_int_equal(grants(user("alice", NULL), "team-a", READER), 0);
	assert_int_equal(grants(user("alice", NULL), "team-a",
				"[{'apiGroups':[''],'resources':['pods'],'resourceNames':['x'],"
				"'verbs':['get']}]"),
			 0);
	assert_int_equal(grants(user("alice", NULL), "team-b", READER), -RF_FORBIDDEN);
	assert_int_equal(grants(user("alice", NULL), "", READER), -RF_FORBIDDEN);
	assert_int_equal(
		grants(user("alice", NULL), "team-a",
		       "[{'apiGroups':[''],'resources':['pods','secrets'],'verbs':['get']}]"),
		-RF_FORBIDDEN);
	assert_non_null(strstr(f.err.msg, "Resources:[\"secrets\"]"));
	assert_int_equal(grants(user("alice", NULL), "team-a",
				"[{'apiGroups':[''],'resources':['*'],'verbs':['get']}]"),
			 -RF_FORBIDDEN);
	assert_int_equal(grants(user("alice", NULL), "team-a",
				"[{'apiGroups':[''],'resources':['pods'],'verbs':['*']}]"),
			 -RF_FORBIDDEN);
	assert_int_equal(grants(user("alice", NULL), "team-a",
				"[{'nonResourceURLs':['/x'],'verbs':['get']}]"),
			 -RF_FORBIDDEN);
}

static void paths_match_exactly_or_by_prefix(void **state)
{
	struct rf_user u = user("p", NULL);
	struct rf_ask ask = { .verb = RF_LIT("get"), .path = RF_LIT("/openapi/v3") };

	cluster_role("paths", "[{'nonResourceURLs':['/openapi/*','/version'],'verbs':['get']}]");
	bind_everywhere("paths", "User", "p");
	assert_true(rf_rbac_allows(f.b, &u, &ask));
	ask.path = RF_LIT("/versions");
	assert_false(rf_rbac_allows(f.b, &u, &ask));
	ask.path = RF_LIT("/metrics");
	assert_false(rf_rbac_allows(f.b, &u, &ask));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(nothing_is_allowed_until_something_says_so, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_role_binding_holds_in_its_namespace_only, setup,
						teardown),
		cmocka_unit_test_setup_teardown(service_accounts_are_named_with_their_namespace,
						setup, teardown),
		cmocka_unit_test_setup_teardown(subresources_names_and_stars_mean_what_they_say,
						setup, teardown),
		cmocka_unit_test_setup_teardown(masters_always_get_in, setup, teardown),
		cmocka_unit_test_setup_teardown(nobody_grants_more_than_he_has, setup, teardown),
		cmocka_unit_test_setup_teardown(paths_match_exactly_or_by_prefix, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
