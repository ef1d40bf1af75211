/* What passes between the API server and a node: logs one way, secrets the other. */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "apiserver/pki.h"
#include "base/fs.h"
#include "apiserver/test_world.h"
#include "net/tls.h"

static struct world w;
static pid_t fake_node;
static int fake_port;

#define PODS "/api/v1/namespaces/default/pods"

/* --- a node agent that only has logs --------------------------------------------------------- */

static void on_request(void *ctx, struct rf_http_req *req)
{
	bool trusted =
		req->peer->has_cert && rf_str_is(req->peer->common_name, "system:apiserver") &&
		req->peer->n_groups == 1 && rf_str_is(req->peer->groups[0], "system:masters");

	if (!trusted) {
		rf_http_reply(req, 403, "text/plain", RF_LIT("who are you?"));
	} else if (rf_str_is(req->path, "/containerLogs/default/talks/c")) {
		rf_http_stream_begin(req, 200, "text/plain");
		rf_http_stream_write(req, RF_LIT("hello\n"));
		rf_http_stream_write(req, req->query);
		rf_http_stream_end(req);
	} else if (rf_str_is(req->path, "/containerLogs/default/endless/c")) {
		rf_http_stream_begin(req, 200, "text/plain");
		rf_http_stream_write(req, RF_LIT("{\"a\":1}\n"));
	} else if (rf_str_is(req->path, "/containerLogs/default/large/c")) {
		rf_auto(buf) big = RF_BUF_INIT;

		while (big.n < 3000000)
			rf_buf_puts(&big, "a line of a long log\n");
		rf_http_reply(req, 200, "text/plain", rf_buf_str(&big));
	} else {
		rf_http_reply(req, 404, "text/plain", RF_LIT("no such container"));
	}
}

static _Noreturn void run_node(int out)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_err err = RF_ERR_INIT;
	struct rf_http_server *s = NULL;
	struct rf_str ca, cert, key;
	struct rf_http_server_opts o = { .address = "127.0.0.1", .handler = on_request };
	uv_loop_t loop;
	int port;

	uv_loop_init(&loop);
	if (rf_fs_read(&a, rf_arena_printf(&a, "%s/pki/ca.crt", w.dir).p, 64 * 1024, &ca, &err) <
		    0 ||
	    rf_fs_read(&a, rf_arena_printf(&a, "%s/pki/server.crt", w.dir).p, 64 * 1024, &cert,
		       &err) < 0 ||
	    rf_fs_read(&a, rf_arena_printf(&a, "%s/pki/server.key", w.dir).p, 64 * 1024, &key,
		       &err) < 0 ||
	    rf_tls_server(cert, key, ca, &o.tls, &err) < 0 ||
	    rf_http_listen(&loop, &o, &s, &err) < 0) {
		fprintf(stderr, "# %s\n", err.msg);
		_exit(1);
	}
	port = rf_http_server_port(s);
	if (write(out, &port, sizeof(port)) != sizeof(port))
		_exit(1);
	uv_run(&loop, UV_RUN_DEFAULT);
	_exit(0);
}

static int start(void **state)
{
	int fds[2];

	world_start(&w);
	assert_int_equal(pipe(fds), 0);
	fake_node = fork();
	if (fake_node == 0)
		run_node(fds[1]);
	close(fds[1]);
	assert_int_equal(read(fds[0], &fake_port, sizeof(fake_port)), sizeof(fake_port));
	close(fds[0]);
	world_create(&w, "/api/v1/nodes",
		     rf_json_make(&w.a,
				  "{'metadata':{'name':'node-1'},'status':{'addresses':[{"
				  "'type':'InternalIP','address':'127.0.0.1'}],'daemonEndpoints':{"
				  "'kubeletEndpoint':{'Port':%d}}}}",
				  fake_port));
	return 0;
}

static int stop(void **state)
{
	kill(fake_node, SIGKILL);
	waitpid(fake_node, NULL, 0);
	world_stop(&w);
	return 0;
}

static void bound_pod(const char *name, const char *node)
{
	world_create(&w, PODS, world_pod(&w, name, "{}"));
	world_create(&w, rf_arena_printf(&w.a, PODS "/%s/binding", name).p,
		     rf_json_make(&w.a, "{'target':{'kind':'Node','name':%s}}", node));
}

static int get_log(const char *target, struct rf_str *ret, struct rf_err *err)
{
	return rf_kube_raw(w.admin, &w.a, rf_arena_printf(&w.a, PODS "/%s", target), ret, err);
}

/* --- logs ----------------------------------------------------------------------------------- */

static void a_log_comes_from_the_node_with_the_options_asked_for(void **state)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_str text;

	bound_pod("talks", "node-1");
	assert_ok(get_log("talks/log?tailLines=5&follow=true&evil=%26x", &text, &err), err);
	assert_true(rf_str_is(text, "hello\ntailLines=5&follow=true"));
}

static void a_long_log_comes_whole(void **state)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_str text;

	bound_pod("large", "node-1");
	assert_ok(get_log("large/log", &text, &err), err);
	assert_true(text.n >= 3000000 && rf_str_ends(text, RF_LIT("long log\n")));
}

static void a_follower_may_leave_in_the_middle(void **state)
{
	struct rf_json *lines;

	bound_pod("endless", "node-1");
	lines = world_watch(&w, PODS "/endless/log?follow=true", 1);
	assert_int_equal(rf_json_len(lines), 1);
	world_get(&w, PODS "/endless");
}

static void what_the_node_says_is_passed_on(void **state)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_str text;

	bound_pod("silent", "node-1");
	assert_int_equal(get_log("silent/log", &text, &err), -RF_NOT_FOUND);
	assert_int_equal(get_log("silent/log?container=zzz", &text, &err), -RF_BAD_REQUEST);
	world_create(&w, PODS, world_pod(&w, "waiting", "{}"));
	assert_int_equal(get_log("waiting/log", &text, &err), -RF_BAD_REQUEST);
	assert_non_null(strstr(err.msg, "does not have a host assigned"));
}

static void a_node_that_is_gone_is_said_so(void **state)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_str text;

	world_create(&w, "/api/v1/nodes",
		     rf_json_make(&w.a,
				  "{'metadata':{'name':'dead'},'status':{'addresses':[{"
				  "'type':'InternalIP','address':'127.0.0.1'}],'daemonEndpoints':{"
				  "'kubeletEndpoint':{'Port':1}}}}"));
	bound_pod("lost", "dead");
	assert_int_equal(get_log("lost/log", &text, &err), -RF_UNAVAILABLE);
	assert_non_null(strstr(err.msg, "does not answer"));
}

/* --- secrets -------------------------------------------------------------------------------- */

static void a_node_reads_the_secrets_its_pods_name_only(void **state)
{
	struct rf_kube *node = world_as(&w, "system:node:node-1", "system:nodes");
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *o;

	world_create(&w, "/api/v1/namespaces/default/secrets",
		     rf_json_make(&w.a, "{'metadata':{'name':'mine'}}"));
	world_create(&w, "/api/v1/namespaces/default/secrets",
		     rf_json_make(&w.a, "{'metadata':{'name':'other'}}"));
	world_create(&w, PODS,
		     rf_json_make(&w.a,
				  "{'metadata':{'name':'reads'},'spec':{'containers':[{'name':'c',"
				  "'image':'x','envFrom':[{'secretRef':{'name':'mine'}}]}]}}"));
	assert_int_equal(rf_kube_get(node, &w.a, RF_LIT("/api/v1/namespaces/default/secrets/mine"),
				     &o, &err),
			 -RF_FORBIDDEN);
	world_create(&w, PODS "/reads/binding",
		     rf_json_make(&w.a, "{'target':{'kind':'Node','name':'node-1'}}"));
	assert_ok(rf_kube_get(node, &w.a, RF_LIT("/api/v1/namespaces/default/secrets/mine"), &o,
			      &err),
		  err);
	assert_int_equal(rf_kube_get(node, &w.a, RF_LIT("/api/v1/namespaces/default/secrets/other"),
				     &o, &err),
			 -RF_FORBIDDEN);
	assert_int_equal(
		rf_kube_get(node, &w.a, RF_LIT("/api/v1/namespaces/default/secrets"), &o, &err),
		-RF_FORBIDDEN);
	rf_kube_free(node);
}

static void a_node_gets_tokens_for_its_own_pods_only(void **state)
{
	const char *path = "/api/v1/namespaces/default/serviceaccounts/default/token";
	struct rf_kube *node = world_as(&w, "system:node:node-1", "system:nodes");
	struct rf_err err = RF_ERR_INIT;

	bound_pod("here", "node-1");
	bound_pod("there", "node-2");
	assert_int_equal(world_try(node, &w, path, rf_json_make(&w.a, "{'spec':{}}"), &err),
			 -RF_FORBIDDEN);
	assert_int_equal(
		world_try(node, &w, path,
			  rf_json_make(&w.a,
				       "{'spec':{'boundObjectRef':{'kind':'Pod','name':'there'}}}"),
			  &err),
		-RF_FORBIDDEN);
	assert_ok(
		world_try(node, &w, path,
			  rf_json_make(&w.a,
				       "{'spec':{'boundObjectRef':{'kind':'Pod','name':'here'}}}"),
			  &err),
		err);
	rf_kube_free(node);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_log_comes_from_the_node_with_the_options_asked_for),
		cmocka_unit_test(a_long_log_comes_whole),
		cmocka_unit_test(a_follower_may_leave_in_the_middle),
		cmocka_unit_test(what_the_node_says_is_passed_on),
		cmocka_unit_test(a_node_that_is_gone_is_said_so),
		cmocka_unit_test(a_node_reads_the_secrets_its_pods_name_only),
		cmocka_unit_test(a_node_gets_tokens_for_its_own_pods_only),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
