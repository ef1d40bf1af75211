/* Reading a cluster: against a small API server in a thread of its own, with the real client. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <pthread.h>

#include "audit/private.h"

static struct {
	uv_loop_t loop;
	uv_async_t quit;
	pthread_t thread;
	struct rf_http_server *server;
	struct rf_kube *k;
	/* what the server was asked; read when nothing is under way */
	int requests, writes, largest_limit, gone_left;
	bool dead, stuck, stranger;
	char last_pods[256];
} t;

#define STATUS(code, reason, message)                                                              \
	"{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\",\"code\":" code         \
	",\"reason\":\"" reason "\",\"message\":\"" message "\"}"
#define RES(name, kind, namespaced, verbs)                                                         \
	"{\"name\":\"" name "\",\"kind\":\"" kind "\",\"namespaced\":" namespaced                  \
	",\"verbs\":[" verbs "]}"

static const struct {
	const char *path;
	int status;
	const char *body;
} ANSWERS[] = {
	{ "/api", 200, "{\"versions\":[\"v1\"]}" },
	{ "/api/v1", 200,
	  "{\"resources\":[" RES("pods", "Pod", "true", "\"list\"") "," RES("pods/log", "Pod", "true", "\"get\"") "," RES(
		  "secrets", "Secret", "true",
		  "\"list\"") "," RES("bindings", "Binding", "true",
				      "\"create\"") "," RES("events", "Event", "true",
							    "\"list\"") "," RES("nodes", "Node",
										"false",
										"\"list\"") "," RES("configmaps",
												    "ConfigMap",
												    "true",
												    "\"list\"") "]}" },
	{ "/apis", 200,
	  "{\"groups\":[{\"name\":\"apps\",\"preferredVersion\":{\"version\":\"v1\"},\"versions\":["
	  "{\"version\":\"v1\"},{\"version\":"
	  "\"v1beta1\"}]},{\"name\":\"down.example.com\",\"preferredVersion\":{\"version\":\"v1\"}}"
	  "]}" },
	{ "/apis/apps/v1", 200,
	  "{\"resources\":[" RES("daemonsets", "DaemonSet", "true", "\"list\"") "]}" },
	{ "/apis/apps/v1beta1", 200,
	  "{\"resources\":[" RES("daemonsets", "DaemonSet", "true",
				 "\"list\"") "," RES("olds", "Old", "true", "\"list\"") "]}" },
	{ "/apis/down.example.com/v1", 503,
	  STATUS("503", "ServiceUnavailable", "nobody is there") },
	{ "/api/v1/secrets", 403,
	  STATUS("403", "Forbidden", "secrets is forbidden: User x cannot list") },
	{ "/apis/apps/v1/daemonsets", 200,
	  "{\"items\":[{\"metadata\":{\"name\":\"d\",\"namespace\":\"n\"}}]}" },
	{ "/apis/apps/v1beta1/olds", 200, "{\"items\":[{\"metadata\":{\"name\":\"o\"}}]}" },
	{ "/api/v1/nodes", 200, "{\"items\":[{\"metadata\":{\"name\":\"n1\"}}]}" },
};

#define PODS 1234

/* Pages of pods; the token is the number of the next pod. */
static void pods(struct rf_http_req *req)
{
	rf_auto(buf) b = RF_BUF_INIT;
	struct rf_str value = RF_STR_EMPTY;
	int64_t limit = 0, at = 0;

	snprintf(t.last_pods, sizeof(t.last_pods), "%.*s", RF_STR(req->target));
	if (rf_http_query(req, "limit", &value))
		rf_str_int(value, &limit, NULL);
	if (rf_http_query(req, "continue", &value) &&
	    rf_str_cut(&value, '/', &(struct rf_str){ 0 }))
		rf_str_int(value, &at, NULL);
	t.largest_limit = RF_MAX(t.largest_limit, (int)limit);
	if (at > 500 && t.gone_left > 0) {
		t.gone_left--;
		rf_http_reply(req, 410, "application/json",
			      rf_str(STATUS("410", "Expired", "the token is too old")));
		return;
	}
	rf_buf_puts(&b, "{\"items\":[");
	for (int64_t i = 0; i < limit && at < PODS; i++, at++)
		rf_buf_printf(&b, "%s{\"metadata\":{\"name\":\"p%lld\",\"namespace\":\"n\"}}",
			      i ? "," : "", (long long)at);
	rf_buf_puts(&b, "],\"metadata\":{");
	if (at < PODS || t.stuck)
		rf_buf_printf(&b, "\"continue\":\"a&b/%lld\"", (long long)(t.stuck ? 7 : at));
	rf_buf_puts(&b, "}}");
	rf_http_reply(req, 200, "application/json", rf_buf_str(&b));
}

/* More than one object at a time is more than the client takes. */
static void fat(struct rf_http_req *req)
{
	rf_auto(buf) b = RF_BUF_INIT;
	struct rf_str value = RF_STR_EMPTY;
	size_t filler;

	rf_http_query(req, "limit", &value);
	filler = rf_str_is(value, "1") ? 10 : (size_t)70 << 20;
	rf_buf_puts(&b, "{\"items\":[{\"metadata\":{\"name\":\"c\",\"namespace\":\"n\"},\"data\":{"
			"\"x\":\"");
	rf_buf_reserve(&b, filler);
	for (size_t i = 0; i < filler; i++)
		rf_buf_add_c(&b, 'x');
	rf_buf_puts(&b, "\"}}]}");
	rf_http_reply(req, 200, "application/json", rf_buf_str(&b));
}

static void handle(void *ctx, struct rf_http_req *req)
{
	(void)ctx;
	t.requests++;
	t.writes += !rf_str_is(req->method, "GET");
	if (t.stranger) {
		rf_http_reply(req, 401, "application/json",
			      rf_str(STATUS("401", "Unauthorized", "who are you?")));
		return;
	}
	if (t.dead && !rf_str_is(req->path, "/api/v1") && !rf_str_is(req->path, "/apis")) {
		rf_http_reply(req, 503, "application/json",
			      rf_str(STATUS("503", "ServiceUnavailable", "shutting down")));
		return;
	}
	if (rf_str_is(req->path, "/api/v1/pods") ||
	    rf_str_is(req->path, "/api/v1/namespaces/n/pods")) {
		pods(req);
		return;
	}
	if (rf_str_is(req->path, "/api/v1/configmaps")) {
		fat(req);
		return;
	}
	for (size_t i = 0; i < RF_COUNT(ANSWERS); i++)
		if (rf_str_is(req->path, ANSWERS[i].path)) {
			rf_http_reply(req, ANSWERS[i].status, "application/json",
				      rf_str(ANSWERS[i].body));
			return;
		}
	rf_http_reply(req, 404, "application/json",
		      rf_str(STATUS("404", "NotFound", "no such path")));
}

static void on_quit(uv_async_t *quit)
{
	rf_http_server_close(t.server, NULL, NULL);
	uv_close((uv_handle_t *)quit, NULL);
}

static void *serve(void *arg)
{
	(void)arg;
	uv_run(&t.loop, UV_RUN_DEFAULT);
	return NULL;
}

static int setup(void **state)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_http_server_opts opts = { .address = "127.0.0.1", .handler = handle };
	struct rf_kubeconfig config = { .host = RF_LIT("127.0.0.1") };

	(void)state;
	memset(&t, 0, sizeof(t));
	uv_loop_init(&t.loop);
	uv_async_init(&t.loop, &t.quit, on_quit);
	if (rf_http_listen(&t.loop, &opts, &t.server, &err) < 0)
		fail_msg("%s", err.msg);
	config.port = rf_http_server_port(t.server);
	pthread_create(&t.thread, NULL, serve, NULL);
	return rf_kube_new(&config, &t.k, &err);
}

static int teardown(void **state)
{
	(void)state;
	rf_kube_free(t.k);
	uv_async_send(&t.quit);
	pthread_join(t.thread, NULL);
	assert_int_equal(uv_loop_close(&t.loop), 0);
	return 0;
}

static const char *why_unseen(const struct rf_audit *x, const char *kind)
{
	for (size_t i = 0; i < x->unseen.n; i++)
		if (rf_str_is(x->unseen.at[i].what, kind))
			return x->unseen.at[i].why.p;
	return NULL;
}

static void everything_is_read_in_pages_and_by_get_alone(void **state)
{
	rf_auto_ptr(audit) x = rf_audit_new();
	struct rf_err err = RF_ERR_INIT;

	(void)state;
	if (rf_audit_fetch(x, t.k, RF_STR_EMPTY, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(x->of[AU_POD].n, PODS);
	assert_true(rf_str_is(x->of[AU_POD].at[PODS - 1]->name, "p1233"));
	assert_int_equal(t.largest_limit, 500);
	assert_int_equal(x->of[AU_DAEMONSET].n, 1); /* once, though two versions have it */
	assert_true(
		rf_str_is(rf_json_str_at(x->of[AU_DAEMONSET].at[0]->o, "apiVersion"), "apps/v1"));
	assert_int_equal(x->of[AU_NODE].n, 1);
	assert_int_equal(x->of[AU_OTHER].n, 1); /* what only an old version has; no events */
	assert_int_equal(t.writes, 0);
}

static void what_may_not_be_listed_is_noted(void **state)
{
	rf_auto_ptr(audit) x = rf_audit_new();
	struct rf_err err = RF_ERR_INIT;

	(void)state;
	assert_int_equal(rf_audit_fetch(x, t.k, RF_STR_EMPTY, &err), 0);
	assert_non_null(strstr(why_unseen(x, "Secret"), "secrets is forbidden"));
	assert_non_null(strstr(why_unseen(x, "*.down.example.com"), "nobody is there"));
	assert_null(why_unseen(x, "Pod"));
}

static void a_page_that_is_too_large_is_asked_for_in_smaller_ones(void **state)
{
	rf_auto_ptr(audit) x = rf_audit_new();
	struct rf_err err = RF_ERR_INIT;

	(void)state;
	assert_int_equal(rf_audit_fetch(x, t.k, RF_STR_EMPTY, &err), 0);
	assert_int_equal(x->of[AU_CONFIGMAP].n, 1);
	assert_null(why_unseen(x, "ConfigMap"));
}

static void a_list_that_expires_is_begun_anew_once(void **state)
{
	rf_auto_ptr(audit) x = rf_audit_new();
	rf_auto_ptr(audit) y = rf_audit_new();
	struct rf_err err = RF_ERR_INIT;

	(void)state;
	t.gone_left = 1;
	assert_int_equal(rf_audit_fetch(x, t.k, RF_STR_EMPTY, &err), 0);
	assert_int_equal(x->of[AU_POD].n, PODS); /* none twice */
	assert_null(why_unseen(x, "Pod"));
	t.gone_left = 1000;
	assert_int_equal(rf_audit_fetch(y, t.k, RF_STR_EMPTY, &err), 0);
	assert_non_null(strstr(why_unseen(y, "Pod"), "too old"));
}

static void a_server_that_does_not_go_on_is_left(void **state)
{
	rf_auto_ptr(audit) x = rf_audit_new();
	struct rf_err err = RF_ERR_INIT;

	(void)state;
	t.stuck = true;
	assert_int_equal(rf_audit_fetch(x, t.k, RF_STR_EMPTY, &err), 0);
	assert_non_null(strstr(why_unseen(x, "Pod"), "does not go on"));
}

static void one_namespace_is_asked_for_by_path(void **state)
{
	rf_auto_ptr(audit) x = rf_audit_new();
	struct rf_err err = RF_ERR_INIT;

	(void)state;
	assert_int_equal(rf_audit_fetch(x, t.k, RF_LIT("n"), &err), 0);
	assert_non_null(
		strstr(t.last_pods, "/api/v1/namespaces/n/pods?limit=500&continue=a%26b%2F"));
	assert_int_equal(x->of[AU_NODE].n, 1); /* has no namespace */
}

static void memory_that_is_used_up_is_told_by_kind(void **state)
{
	rf_auto_ptr(audit) x = rf_audit_new();
	struct rf_err err = RF_ERR_INIT;

	(void)state;
	x->budget = 200000;
	assert_int_equal(rf_audit_fetch(x, t.k, RF_STR_EMPTY, &err), 0);
	assert_true(x->of[AU_POD].n > 0 && x->of[AU_POD].n < PODS);
	assert_non_null(strstr(why_unseen(x, "Pod"), "--namespace"));
	assert_non_null(strstr(why_unseen(x, "Node"), "--namespace"));
}

static void a_server_that_dies_ends_the_audit(void **state)
{
	rf_auto_ptr(audit) x = rf_audit_new();
	struct rf_err err = RF_ERR_INIT;

	(void)state;
	t.dead = true;
	assert_int_equal(rf_audit_fetch(x, t.k, RF_STR_EMPTY, &err), -RF_UNAVAILABLE);
	assert_true(t.requests < 10);
}

static void a_stranger_is_told_so(void **state)
{
	rf_auto_ptr(audit) x = rf_audit_new();
	struct rf_err err = RF_ERR_INIT;

	(void)state;
	t.stranger = true;
	assert_int_equal(rf_audit_fetch(x, t.k, RF_STR_EMPTY, &err), -RF_UNAUTHENTICATED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(everything_is_read_in_pages_and_by_get_alone, setup,
						teardown),
		cmocka_unit_test_setup_teardown(what_may_not_be_listed_is_noted, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_page_that_is_too_large_is_asked_for_in_smaller_ones, setup, teardown),
		cmocka_unit_test_setup_teardown(a_list_that_expires_is_begun_anew_once, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_server_that_does_not_go_on_is_left, setup,
						teardown),
		cmocka_unit_test_setup_teardown(one_namespace_is_asked_for_by_path, setup,
						teardown),
		cmocka_unit_test_setup_teardown(memory_that_is_used_up_is_told_by_kind, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_server_that_dies_ends_the_audit, setup, teardown),
		cmocka_unit_test_setup_teardown(a_stranger_is_told_so, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
