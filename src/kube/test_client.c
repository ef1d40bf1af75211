/* The waiting client against a small API server in a thread of its own: TLS, client certificates,
 * the real http code on both sides. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <pthread.h>

#include "kube/kube.h"

static struct {
	uv_loop_t loop;
	uv_async_t quit;
	pthread_t thread;
	struct rf_tls *tls;
	struct rf_http_server *server;
	struct rf_arena a;
	struct rf_kubeconfig config;
	struct rf_kube *k;
	/* What the last request was; read after its answer came. */
	char method[16], target[256], type[64], user[64], authorization[64];
	struct rf_buf body;
} t;

#define STATUS(code, reason, message)                                                              \
	"{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\",\"code\":" code         \
	",\"reason\":\"" reason "\",\"message\":\"" message "\"}"

static const struct {
	const char *path;
	int status;
	const char *body;
} ANSWERS[] = {
	{ "/api/v1/namespaces/a/pods/p", 200, "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\"}}" },
	{ "/missing", 404, STATUS("404", "NotFound", "pods \\\"x\\\" not found") },
	{ "/taken", 409, STATUS("409", "AlreadyExists", "pods \\\"x\\\" already exists") },
	{ "/conflict", 409, STATUS("409", "Conflict", "the object has been modified") },
	{ "/invalid", 422, STATUS("422", "Invalid", "spec.x: Required value") },
	{ "/gone", 410, STATUS("410", "Expired", "too old resource version") },
	{ "/proxy", 502, "<html>bad gateway" },
	{ "/broken", 200, "{\"kind\":" },
	{ "/metrics", 200, "up 1\n" },
};

static void keep(char *to, size_t size, struct rf_str s)
{
	snprintf(to, size, "%.*s", RF_STR(s));
}

static void remember(struct rf_http_req *req)
{
	keep(t.method, sizeof(t.method), req->method);
	keep(t.target, sizeof(t.target), req->target);
	keep(t.type, sizeof(t.type), rf_http_get_header(req, "content-type"));
	keep(t.authorization, sizeof(t.authorization), rf_http_get_header(req, "authorization"));
	keep(t.user, sizeof(t.user), req->peer->has_cert ? req->peer->common_name : RF_STR_EMPTY);
	rf_buf_clear(&t.body);
	rf_buf_add(&t.body, req->body);
}

static void on_gone(void *ctx)
{
}

static void handle(void *ctx, struct rf_http_req *req)
{
	remember(req);
	for (size_t i = 0; i < RF_COUNT(ANSWERS); i++) {
		if (rf_str_is(req->path, ANSWERS[i].path)) {
			rf_http_reply(req, ANSWERS[i].status, "application/json",
				      rf_str(ANSWERS[i].body));
			return;
		}
	}
	if (rf_str_is(req->path, "/silence"))
		rf_http_on_close(req, on_gone, NULL);
	else
		rf_http_reply(req, 201, "application/json", req->body);
}

static void on_quit(uv_async_t *quit)
{
	rf_http_server_close(t.server, NULL, NULL);
	uv_close((uv_handle_t *)quit, NULL);
}

static void *serve(void *arg)
{
	uv_run(&t.loop, UV_RUN_DEFAULT);
	return NULL;
}

static void make_certificates(void)
{
	struct rf_str ca, ca_key, cert, key, host = RF_LIT("127.0.0.1");
	struct rf_pki_ask server = { .common_name = RF_LIT("server"),
				     .hosts = &host,
				     .n_hosts = 1,
				     .server = true,
				     .days = 1 };
	struct rf_pki_ask client = { .common_name = RF_LIT("alice"), .days = 1 };

	assert_int_equal(rf_pki_new_ca(&t.a, RF_LIT("test"), &ca, &ca_key, NULL), 0);
	assert_int_equal(rf_pki_issue(&t.a, ca, ca_key, &server, &cert, &key, NULL), 0);
	assert_int_equal(rf_tls_server(cert, key, ca, &t.tls, NULL), 0);
	t.config = (struct rf_kubeconfig){ .host = host, .ca_pem = ca };
	assert_int_equal(rf_pki_issue(&t.a, ca, ca_key, &client, &t.config.cert_pem,
				      &t.config.key_pem, NULL),
			 0);
}

static int setup(void **state)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_http_server_opts opts = { .address = "127.0.0.1", .handler = handle };

	t.body = (struct rf_buf)RF_BUF_INIT;
	make_certificates();
	opts.tls = t.tls;
	uv_loop_init(&t.loop);
	uv_async_init(&t.loop, &t.quit, on_quit);
	if (rf_http_listen(&t.loop, &opts, &t.server, &err) < 0)
		fail_msg("%s", err.msg);
	t.config.port = rf_http_server_port(t.server);
	pthread_create(&t.thread, NULL, serve, NULL);
	return rf_kube_new(&t.config, &t.k, &err);
}

static int teardown(void **state)
{
	rf_kube_free(t.k);
	uv_async_send(&t.quit);
	pthread_join(t.thread, NULL);
	assert_int_equal(uv_loop_close(&t.loop), 0);
	rf_tls_free(t.tls);
	rf_buf_done(&t.body);
	rf_arena_done(&t.a);
	return 0;
}

static void get_gives_the_object_and_shows_the_certificate(void **state)
{
	struct rf_json *pod = NULL;
	struct rf_err err = RF_ERR_INIT;
	struct rf_str path = rf_kube_path(&t.a, &RF_PODS, RF_LIT("a"), RF_LIT("p"), NULL);

	for (int i = 0; i < 3; i++) {
		if (rf_kube_get(t.k, &t.a, path, &pod, &err) < 0)
			fail_msg("%s", err.msg);
		assert_true(rf_str_is(rf_kube_name(pod), "p"));
	}
	assert_string_equal(t.user, "alice");
	assert_string_equal(t.authorization, "");
}

static void writes_carry_their_body_and_content_type(void **state)
{
	struct rf_json *object = rf_json_make(&t.a, "{'a':1}"), *back = NULL;

	assert_int_equal(rf_kube_create(t.k, &t.a, RF_LIT("/x"), object, &back, NULL), 0);
	assert_true(rf_json_equal(object, back));
	assert_string_equal(t.method, "POST");
	assert_string_equal(t.type, "application/json");
	assert_int_equal(rf_kube_update(t.k, &t.a, RF_LIT("/x"), object, NULL, NULL), 0);
	assert_string_equal(t.method, "PUT");
	assert_int_equal(
		rf_kube_patch(t.k, &t.a, RF_LIT("/x"), RF_PATCH_STRATEGIC, object, NULL, NULL), 0);
	assert_string_equal(t.method, "PATCH");
	assert_string_equal(t.type, "application/strategic-merge-patch+json");
	assert_int_equal(rf_kube_delete(t.k, &t.a, RF_LIT("/x"), 0, false, NULL), 0);
	assert_string_equal(t.method, "DELETE");
	assert_non_null(strstr(t.body.p, "\"gracePeriodSeconds\":0"));
	assert_int_equal(rf_kube_delete(t.k, &t.a, RF_LIT("/x"), -1, false, NULL), 0);
	assert_null(strstr(t.body.p, "gracePeriodSeconds"));
	assert_null(strstr(t.body.p, "preconditions"));
	assert_int_equal(rf_kube_delete_this(t.k, &t.a, RF_LIT("/x"), RF_LIT("u1"), RF_STR_EMPTY, NULL), 0);
	assert_string_equal(t.method, "DELETE");
	assert_non_null(strstr(t.body.p, "\"preconditions\":{\"uid\":\"u1\"}"));
	assert_int_equal(rf_kube_delete_this(t.k, &t.a, RF_LIT("/x"), RF_LIT("u1"), RF_LIT("7"), NULL), 0);
	assert_non_null(strstr(t.body.p, "\"preconditions\":{\"uid\":\"u1\",\"resourceVersion\":\"7\"}"));
}

/* Who tries again without looking may do it twice. */
static void what_became_of_a_write_is_unknown_unless_the_server_said_no(void **state)
{
	struct rf_json *object = rf_json_make(&t.a, "{'a':1}"), *back = NULL;

	assert_true(rf_kube_unknown(rf_kube_create(t.k, &t.a, RF_LIT("/proxy"), object, &back, NULL)));
	assert_true(rf_kube_unknown(rf_kube_update(t.k, &t.a, RF_LIT("/broken"), object, &back, NULL)));
	assert_false(rf_kube_unknown(rf_kube_update(t.k, &t.a, RF_LIT("/conflict"), object, &back, NULL)));
	assert_false(rf_kube_unknown(rf_kube_create(t.k, &t.a, RF_LIT("/invalid"), object, &back, NULL)));
	assert_false(rf_kube_unknown(rf_kube_delete_this(t.k, &t.a, RF_LIT("/missing"), RF_LIT("u"), RF_STR_EMPTY, NULL)));
	assert_true(rf_kube_unknown(-(int)rf_code_from_http(500, "InternalError")));
	assert_true(rf_kube_unknown(-(int)rf_code_from_http(504, "Timeout")));
	assert_false(rf_kube_unknown(-(int)rf_code_from_http(429, "TooManyRequests")));
}

static void raw_text_comes_as_it_is(void **state)
{
	struct rf_str text = RF_STR_EMPTY;

	assert_int_equal(rf_kube_raw(t.k, &t.a, RF_LIT("/metrics"), &text, NULL), 0);
	assert_true(rf_str_is(text, "up 1\n"));
}

static void fails_with(const char *path, int code, const char *message)
{
	struct rf_json *v = NULL;
	struct rf_err err = RF_ERR_INIT;

	assert_int_equal(rf_kube_get(t.k, &t.a, rf_str(path), &v, &err), -code);
	assert_int_equal(err.code, code);
	assert_null(v);
	if (strstr(err.msg, message) == NULL)
		fail_msg("%s: got \"%s\", want \"%s\"", path, err.msg, message);
}

static void a_status_becomes_an_error_with_the_servers_words(void **state)
{
	struct rf_err err = RF_ERR_INIT;

	fails_with("/missing", RF_NOT_FOUND, "pods \"x\" not found");
	fails_with("/taken", RF_EXISTS, "already exists");
	fails_with("/conflict", RF_CONFLICT, "has been modified");
	fails_with("/invalid", RF_INVALID, "Required value");
	fails_with("/gone", RF_GONE, "too old");
	fails_with("/proxy", RF_INTERNAL, "GET /proxy: the server answered 502: <html>");
	fails_with("/broken", RF_BAD_REQUEST, "answer to GET /broken");
	assert_int_equal(rf_kube_delete(t.k, &t.a, RF_LIT("/missing"), -1, false, &err),
			 -RF_NOT_FOUND);
	assert_int_equal(rf_kube_delete(t.k, &t.a, RF_LIT("/missing"), -1, true, &err), 0);
	assert_int_equal(err.code, RF_OK);
	assert_int_equal(rf_kube_get(t.k, &t.a, RF_LIT("/missing"), NULL, NULL), -RF_NOT_FOUND);
}

static void silence_and_absence_are_told_apart(void **state)
{
	struct rf_kube *nobody = NULL;
	struct rf_kubeconfig c = t.config;
	struct rf_err err = RF_ERR_INIT;

	rf_kube_set_timeout(t.k, 50);
	fails_with("/silence", RF_TIMEOUT, "/silence");
	rf_kube_set_timeout(t.k, 10000);
	fails_with("/missing", RF_NOT_FOUND, "not found");
	c.port = 1;
	assert_int_equal(rf_kube_new(&c, &nobody, &err), 0);
	assert_int_equal(rf_kube_get(nobody, &t.a, RF_LIT("/x"), NULL, &err), -RF_UNAVAILABLE);
	rf_kube_free(nobody);
}

static void a_token_is_sent_as_bearer(void **state)
{
	struct rf_kubeconfig c = t.config;
	struct rf_kube *k = NULL;

	c.cert_pem = c.key_pem = RF_STR_EMPTY;
	c.token = RF_LIT("abc");
	assert_int_equal(rf_kube_new(&c, &k, NULL), 0);
	assert_int_equal(rf_kube_get(k, &t.a, RF_LIT("/metrics"), NULL, NULL), 0);
	assert_string_equal(t.authorization, "Bearer abc");
	assert_string_equal(t.user, "");
	rf_kube_free(k);
}

static void plain_http_is_for_loopback_only(void **state)
{
	struct rf_kubeconfig c = { .host = RF_LIT("10.0.0.1"),
				   .port = 80,
				   .token = RF_LIT("secret") };
	struct rf_kube *k = NULL;
	struct rf_err err = RF_ERR_INIT;

	assert_int_equal(rf_kube_new(&c, &k, &err), -RF_INVALID);
	assert_null(k);
	assert_non_null(strstr(err.msg, "loopback"));
}

static void an_event_is_recorded_where_its_object_lives(void **state)
{
	struct rf_json *pod =
		rf_json_make(&t.a, "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p',"
				   "'namespace':'a','uid':'u'}}");
	struct rf_json *node =
		rf_json_make(&t.a, "{'apiVersion':'v1','kind':'Node','metadata':{'name':'n'}}");
	struct rf_json *e = NULL;

	assert_int_equal(
		rf_kube_event(t.k, pod, "Warning", "FailedScheduling", "ringfence", "0 of %d", 3),
		0);
	assert_string_equal(t.target, "/api/v1/namespaces/a/events");
	assert_int_equal(rf_json_parse(&t.a, rf_buf_str(&t.body), &e, NULL), 0);
	assert_true(rf_str_is(rf_json_str_at(e, "message"), "0 of 3"));
	assert_true(rf_str_is(rf_json_str_at(e, "involvedObject", "namespace"), "a"));
	assert_true(rf_str_is(rf_json_str_at(e, "involvedObject", "uid"), "u"));
	assert_true(rf_str_is(rf_json_str_at(e, "source", "component"), "ringfence"));
	assert_int_equal(rf_json_int(rf_json_at(e, "count"), 0), 1);
	assert_true(rf_str_starts(rf_kube_name(e), RF_LIT("p.")));
	assert_int_equal(rf_json_str_at(e, "firstTimestamp").n, strlen("2026-01-01T00:00:00Z"));
	assert_int_equal(rf_kube_event(t.k, node, "Normal", "Ready", "ringfence", "up"), 0);
	assert_string_equal(t.target, "/api/v1/namespaces/default/events");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(get_gives_the_object_and_shows_the_certificate),
		cmocka_unit_test(writes_carry_their_body_and_content_type),
		cmocka_unit_test(what_became_of_a_write_is_unknown_unless_the_server_said_no),
		cmocka_unit_test(raw_text_comes_as_it_is),
		cmocka_unit_test(a_status_becomes_an_error_with_the_servers_words),
		cmocka_unit_test(silence_and_absence_are_told_apart),
		cmocka_unit_test(a_token_is_sent_as_bearer),
		cmocka_unit_test(plain_http_is_for_loopback_only),
		cmocka_unit_test(an_event_is_recorded_where_its_object_lives),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
