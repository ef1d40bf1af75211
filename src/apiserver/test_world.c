#include "apiserver/test_world.h"
#include "base/fs.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "apiserver/apiserver.h"
#include "apiserver/pki.h"
#include "net/tls.h"

#define RAW_TIMEOUT_MS 5000

/* --- the server ----------------------------------------------------------------------------- */

static _Noreturn void child(const char *dir, int out)
{
	struct rf_apiserver_opts o = { .data_dir = dir,
				       .listen_address = "127.0.0.1",
				       .node_name = "node-1" };
	struct rf_err err = RF_ERR_INIT;
	int r;

	dup2(out, STDOUT_FILENO);
	rf_log_init("apiserver", RF_LOG_ERROR);
	r = rf_apiserver_run(&o, &err);
	if (r < 0)
		fprintf(stderr, "# %s\n", err.msg);
	_exit(r == 0 ? 0 : 1);
}

static void spawn(struct world *w)
{
	char line[128] = "";
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	fflush(stdout); /* what waits there must not be said twice */
	w->server = fork();
	assert_true(w->server >= 0);
	if (w->server == 0)
		child(w->dir, fds[1]);
	close(fds[1]);
	assert_true(read(fds[0], line, sizeof(line) - 1) > 0); /* blocks until it serves, or ends */
	assert_memory_equal(line, "apiserver https://", 18);
	close(fds[0]);
}

static void connect_admin(struct world *w)
{
	struct rf_err err = RF_ERR_INIT;
	const char *path = rf_arena_printf(&w->a, "%s/kubeconfig/admin", w->dir).p;

	assert_ok(rf_kubeconfig_load(&w->a, path, &w->admin_config, &err), err);
	assert_ok(rf_kube_new(&w->admin_config, &w->admin, &err), err);
}

void world_start(struct world *w)
{
	*w = (struct world){ .dir = "/tmp/rf-api-XXXXXX" };
	assert_non_null(mkdtemp(w->dir));
	spawn(w);
	connect_admin(w);
}

static int reap(struct world *w, int sig)
{
	int status = 0;

	kill(w->server, sig);
	assert_int_equal(waitpid(w->server, &status, 0), w->server);
	return status;
}

void world_restart(struct world *w, int sig, void (*meanwhile)(const char *db))
{
	reap(w, sig);
	if (meanwhile != NULL)
		meanwhile(rf_arena_printf(&w->a, "%s/state.db", w->dir).p);
	rf_kube_free(w->admin);
	spawn(w);
	connect_admin(w);
}

void world_stop(struct world *w)
{
	char command[128];
	int status;

	rf_kube_free(w->admin);
	status = reap(w, SIGTERM);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	snprintf(command, sizeof(command), "rm -rf '%s'", w->dir);
	assert_int_equal(system(command), 0);
	rf_arena_done(&w->a);
}

/* --- clients -------------------------------------------------------------------------------- */

struct rf_kube *world_as(struct world *w, const char *user, const char *group)
{
	struct rf_str g = rf_str(group), ca, key;
	struct rf_pki_ask ask = { .common_name = rf_str(user),
				  .groups = &g,
				  .n_groups = group != NULL ? 1 : 0,
				  .days = 1 };
	struct rf_kubeconfig c = w->admin_config;
	struct rf_err err = RF_ERR_INIT;
	struct rf_kube *k;

	assert_ok(rf_fs_read(&w->a, rf_arena_printf(&w->a, "%s/pki/ca.crt", w->dir).p, 64 * 1024,
			     &ca, &err),
		  err);
	assert_ok(rf_fs_read(&w->a, rf_arena_printf(&w->a, "%s/pki/ca.key", w->dir).p, 64 * 1024,
			     &key, &err),
		  err);
	assert_ok(rf_pki_issue(&w->a, ca, key, &ask, &c.cert_pem, &c.key_pem, &err), err);
	assert_ok(rf_kube_new(&c, &k, &err), err);
	return k;
}

struct rf_kube *world_with_token(struct world *w, struct rf_str token)
{
	struct rf_kubeconfig c = w->admin_config;
	struct rf_err err = RF_ERR_INIT;
	struct rf_kube *k;

	c.cert_pem = c.key_pem = RF_STR_EMPTY;
	c.token = token;
	assert_ok(rf_kube_new(&c, &k, &err), err);
	return k;
}

/* --- objects -------------------------------------------------------------------------------- */

int world_try(struct rf_kube *k, struct world *w, const char *path, struct rf_json *o,
	      struct rf_err *err)
{
	return rf_kube_create(k, &w->a, rf_str(path), o, NULL, err);
}

struct rf_json *world_create(struct world *w, const char *path, struct rf_json *o)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *made = NULL;

	assert_ok(rf_kube_create(w->admin, &w->a, rf_str(path), o, &made, &err), err);
	return made;
}

struct rf_json *world_get(struct world *w, const char *path)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *o = NULL;

	assert_ok(rf_kube_get(w->admin, &w->a, rf_str(path), &o, &err), err);
	return o;
}

void world_namespace(struct world *w, const char *name, const char *labels)
{
	world_create(w, "/api/v1/namespaces",
		     rf_json_make(&w->a, "{'metadata':{'name':%s,'labels':%j}}", name,
				  rf_json_make(&w->a, labels)));
}

struct rf_json *world_pod(struct world *w, const char *name, const char *resources)
{
	return rf_json_make(&w->a,
			    "{'metadata':{'name':%s},'spec':{'containers':[{'name':'c','image':'x',"
			    "'resources':%j}]}}",
			    name, rf_json_make(&w->a, resources));
}

/* --- watches -------------------------------------------------------------------------------- */

struct reading {
	struct world *w;
	struct rf_buf text;
	struct rf_json *events;
	size_t want;
	bool over;
};

static void on_data(void *ctx, struct rf_str data)
{
	struct reading *r = ctx;
	char *nl;

	rf_buf_add(&r->text, data);
	while ((nl = memchr(r->text.p, '\n', r->text.n)) != NULL) {
		struct rf_err err = RF_ERR_INIT;
		struct rf_json *o;

		assert_ok(rf_json_parse(&r->w->a, rf_str_n(r->text.p, (size_t)(nl - r->text.p)), &o,
					&err),
			  err);
		rf_json_push(&r->w->a, r->events, o);
		rf_buf_drop(&r->text, (size_t)(nl - r->text.p) + 1);
	}
	r->over |= rf_json_len(r->events) >= r->want;
}

static void on_done(void *ctx, const struct rf_err *err, const struct rf_http_response *response)
{
	struct reading *r = ctx;

	r->over = true;
}

static void on_timeout(uv_timer_t *t)
{
	struct reading *r = t->data;

	r->over = true;
}

struct rf_json *world_watch(struct world *w, const char *path, size_t want)
{
	struct reading r = {
		.w = w, .text = RF_BUF_INIT, .events = rf_json_array(&w->a), .want = want
	};
	struct rf_http_client_opts co = { .host = w->admin_config.host,
					  .port = w->admin_config.port };
	struct rf_http_call_opts o = { .method = RF_LIT("GET"),
				       .target = rf_str(path),
				       .on_data = on_data,
				       .on_done = on_done,
				       .ctx = &r };
	struct rf_err err = RF_ERR_INIT;
	struct rf_http_client *c;
	struct rf_tls *tls;
	uv_timer_t timer;
	uv_loop_t loop;

	assert_ok(rf_tls_client(w->admin_config.ca_pem, w->admin_config.cert_pem,
				w->admin_config.key_pem, &tls, &err),
		  err);
	uv_loop_init(&loop);
	uv_timer_init(&loop, &timer);
	timer.data = &r;
	uv_timer_start(&timer, on_timeout, RAW_TIMEOUT_MS, 0);
	co.tls = tls;
	c = rf_http_client_new(&loop, &co);
	rf_http_call(c, &o);
	while (!r.over)
		uv_run(&loop, UV_RUN_ONCE);
	rf_http_client_free(c);
	uv_close((uv_handle_t *)&timer, NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
	rf_tls_free(tls);
	rf_buf_done(&r.text);
	return r.events;
}
