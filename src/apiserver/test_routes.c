/* What a path asks for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "apiserver/routes.h"

static int parse(const char *method, const char *path, struct rf_route *r)
{
	struct rf_err err = RF_ERR_INIT;

	return rf_route_parse(rf_str(method), rf_str(path), false, r, &err);
}

static void paths_name_kind_namespace_name_and_subresource(void **state)
{
	static const struct {
		const char *method, *path, *kind, *ns, *name, *sub, *verb;
	} CASES[] = {
		{ "GET", "/api/v1/pods", "Pod", "", "", "", "list" },
		{ "GET", "/api/v1/namespaces/a/pods", "Pod", "a", "", "", "list" },
		{ "GET", "/api/v1/namespaces/a/pods/p", "Pod", "a", "p", "", "get" },
		{ "PUT", "/api/v1/namespaces/a/pods/p/status", "Pod", "a", "p", "status",
		  "update" },
		{ "POST", "/api/v1/namespaces/a/pods/p/binding", "Pod", "a", "p", "binding",
		  "create" },
		{ "GET", "/api/v1/namespaces", "Namespace", "", "", "", "list" },
		{ "GET", "/api/v1/namespaces/a", "Namespace", "", "a", "", "get" },
		{ "PUT", "/api/v1/namespaces/a/status", "Namespace", "", "a", "status", "update" },
		{ "PATCH", "/apis/ringfence.io/v1alpha1/tenants/t", "Tenant", "", "t", "",
		  "patch" },
		{ "DELETE", "/apis/rbac.authorization.k8s.io/v1/namespaces/a/roles", "Role", "a",
		  "", "", "deletecollection" },
		{ "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
		  "SelfSubjectAccessReview", "", "", "", "create" },
	};
	struct rf_route r;

	for (size_t i = 0; i < RF_COUNT(CASES); i++) {
		assert_int_equal(parse(CASES[i].method, CASES[i].path, &r), 0);
		assert_string_equal(r.kind->kind, CASES[i].kind);
		assert_true(rf_str_is(r.ns, CASES[i].ns));
		assert_true(rf_str_is(r.name, CASES[i].name));
		assert_true(rf_str_is(r.sub, CASES[i].sub));
		assert_string_equal(r.verb, CASES[i].verb);
	}
}

static void what_does_not_exist_is_not_found(void **state)
{
	static const char *const PATHS[] = {
		"/",
		"/api/v1/foos",
		"/api/v2/pods",
		"/apis/nobody.io/v1/things",
		"/api/v1/pods/p",
		"/api/v1/namespaces/a/nodes",
		"/api/v1/namespaces/a/pods/p/exec",
		"/api/v1/namespaces/a/pods/p/status/more",
		"/api/v1//pods",
		"/api/v1/namespaces//pods",
		"/elsewhere/v1/pods",
	};
	struct rf_route r;

	for (size_t i = 0; i < RF_COUNT(PATHS); i++)
		assert_int_equal(parse("GET", PATHS[i], &r), -RF_NOT_FOUND);
}

static void methods_that_make_no_sense_are_not_allowed(void **state)
{
	struct rf_route r;

	assert_int_equal(parse("POST", "/api/v1/pods", &r), -RF_NOT_ALLOWED);
	assert_int_equal(parse("DELETE", "/api/v1/pods", &r), -RF_NOT_ALLOWED);
	assert_int_equal(parse("PUT", "/api/v1/namespaces/a/pods", &r), -RF_NOT_ALLOWED);
	assert_int_equal(parse("GET", "/api/v1/namespaces/a/pods/p/binding", &r), -RF_NOT_ALLOWED);
	assert_int_equal(parse("POST", "/api/v1/namespaces/a/pods/p/log", &r), -RF_NOT_ALLOWED);
	assert_int_equal(parse("GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &r),
			 -RF_NOT_ALLOWED);
	assert_int_equal(parse("BREW", "/api/v1/pods", &r), -RF_NOT_ALLOWED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths_name_kind_namespace_name_and_subresource),
		cmocka_unit_test(what_does_not_exist_is_not_found),
		cmocka_unit_test(methods_that_make_no_sense_are_not_allowed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
