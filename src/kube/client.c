#include "kube/private.h"

#include <stdio.h>

#define TIMEOUT_MS 10000
#define EVENT_MESSAGE_MAX 1024

struct rf_kube {
	uv_loop_t loop;
	struct rf_kube_link link;
	int timeout_ms;
};

int rf_kube_new(const struct rf_kubeconfig *c, struct rf_kube **ret, struct rf_err *err)
{
	struct rf_kube *k = rf_new(struct rf_kube);
	int rc = 0;

	k->timeout_ms = TIMEOUT_MS;
	rc = uv_loop_init(&k->loop);
	if (rc < 0) {
		free(k);
		return rf_fail(err, RF_SYSTEM, "API client: %s", uv_strerror(rc));
	}
	rc = rf_kube_link_open(&k->link, &k->loop, c, err);
	if (rc < 0) {
		uv_loop_close(&k->loop);
		free(k);
		return rc;
	}
	*ret = k;
	return 0;
}

void rf_kube_free(struct rf_kube *k)
{
	if (k == NULL)
		return;
	rf_kube_link_done(&k->link);
	uv_run(&k->loop, UV_RUN_DEFAULT);
	rf_assert(uv_loop_close(&k->loop) == 0);
	free(k);
}

void rf_kube_set_timeout(struct rf_kube *k, int ms)
{
	k->timeout_ms = ms;
}

/* --- one exchange ----------------------------------------------------------------------------- */

struct exchange {
	struct rf_arena *a;
	const char *doing; /* "GET /api/v1/pods" */
	bool write, done;
	int rc;
	struct rf_str body; /* in the arena */
	struct rf_err *err;
};

static void on_done(void *ctx, const struct rf_err *err, const struct rf_http_response *r)
{
	struct exchange *x = ctx;

	x->done = true;
	/* An answer that is too large says nothing of what was done. */
	if (err != NULL)
		x->rc = rf_fail(x->err, x->write && !rf_kube_unknown(-err->code) ? RF_INTERNAL : (enum rf_code)err->code,
				"%s", err->msg);
	else if (r->status < 200 || r->status > 299)
		x->rc = rf_kube_fail_response(r, x->doing, x->err);
	else
		x->body = rf_arena_str(x->a, r->body);
}

static int exchange_once(struct rf_kube *k, struct exchange *x, struct rf_http_call_opts opts)
{
	/* The loop stood still since the last call; let it notice connections the server has
	 * closed. */
	uv_run(&k->loop, UV_RUN_NOWAIT);
	opts.timeout_ms = k->timeout_ms;
	opts.on_done = on_done;
	opts.ctx = x;
	x->done = false;
	x->rc = 0;
	rf_kube_link_call(&k->link, opts);
	while (!x->done)
		uv_run(&k->loop, UV_RUN_ONCE);
	return x->rc;
}

static const char *doing(struct rf_arena *a, const struct rf_http_call_opts *opts)
{
	return rf_arena_printf(a, "%.*s %.*s", RF_STR(opts->method),
			       (int)RF_MIN(opts->target.n, 256u), opts->target.p)
		.p;
}

static int exchange(struct rf_kube *k, struct rf_arena *a, struct rf_http_call_opts opts,
		    struct rf_str *ret_body, struct rf_err *err)
{
	struct exchange x = { .a = a,
			      .doing = doing(a, &opts),
			      .write = !rf_str_is(opts.method, "GET"),
			      .body = RF_STR_EMPTY,
			      .err = err };
	int rc = exchange_once(k, &x, opts);

	if (rc == -RF_UNAVAILABLE && !x.write)
		rc = exchange_once(k, &x, opts);
	if (rc == 0)
		*ret_body = x.body;
	return rc;
}

static int exchange_json(struct rf_kube *k, struct rf_arena *a, struct rf_http_call_opts opts,
			 const struct rf_json *send, struct rf_json **ret, struct rf_err *err)
{
	rf_auto(buf) body = RF_BUF_INIT;
	struct rf_str text = RF_STR_EMPTY;
	int rc = 0;

	if (send != NULL) {
		rf_json_write(&body, send);
		opts.body = rf_buf_str(&body);
		if (opts.content_type.n == 0)
			opts.content_type = RF_LIT("application/json");
	}
	rc = exchange(k, a, opts, &text, err);
	if (rc < 0 || ret == NULL)
		return rc;
	rc = rf_json_parse(a, text, ret, err);
	if (rc == 0)
		return 0;
	if (send != NULL)
		rc = -RF_INTERNAL;
	if (err == NULL)
		return rc;
	err->code = -rc;
	return rf_wrap(err, "answer to %s", doing(a, &opts));
}

bool rf_kube_unknown(int rc)
{
	return rc == -RF_UNAVAILABLE || rc == -RF_TIMEOUT || rc == -RF_INTERNAL || rc == -RF_SYSTEM;
}

#define OPTS(verb, path) ((struct rf_http_call_opts){ .method = RF_LIT(verb), .target = (path) })

int rf_kube_get(struct rf_kube *k, struct rf_arena *a, struct rf_str path, struct rf_json **ret,
		struct rf_err *err)
{
	return exchange_json(k, a, OPTS("GET", path), NULL, ret, err);
}

int rf_kube_create(struct rf_kube *k, struct rf_arena *a, struct rf_str path,
		   const struct rf_json *object, struct rf_json **ret, struct rf_err *err)
{
	return exchange_json(k, a, OPTS("POST", path), object, ret, err);
}

int rf_kube_update(struct rf_kube *k, struct rf_arena *a, struct rf_str path,
		   const struct rf_json *object, struct rf_json **ret, struct rf_err *err)
{
	return exchange_json(k, a, OPTS("PUT", path), object, ret, err);
}

int rf_kube_patch(struct rf_kube *k, struct rf_arena *a, struct rf_str path,
		  enum rf_patch_type type, const struct rf_json *patch, struct rf_json **ret,
		  struct rf_err *err)
{
	static const char *const TYPES[] = {
		[RF_PATCH_MERGE] = "application/merge-patch+json",
		[RF_PATCH_JSON] = "application/json-patch+json",
		[RF_PATCH_STRATEGIC] = "application/strategic-merge-patch+json",
	};
	struct rf_http_call_opts opts = OPTS("PATCH", path);

	opts.content_type = rf_str(TYPES[type]);
	return exchange_json(k, a, opts, patch, ret, err);
}

static int send_delete(struct rf_kube *k, struct rf_arena *a, struct rf_str path, const struct rf_json *options,
		       bool missing_ok, struct rf_err *err)
{
	int rc = exchange_json(k, a, OPTS("DELETE", path), options, NULL, err);

	if (rc != -RF_NOT_FOUND || !missing_ok)
		return rc;
	if (err != NULL)
		*err = (struct rf_err)RF_ERR_INIT;
	return 0;
}

int rf_kube_delete(struct rf_kube *k, struct rf_arena *a, struct rf_str path, int grace_s,
		   bool missing_ok, struct rf_err *err)
{
	struct rf_json *options = rf_json_make(a, "{'apiVersion':'v1','kind':'DeleteOptions'}");

	if (grace_s >= 0)
		rf_json_set_int(a, options, "gracePeriodSeconds", grace_s);
	return send_delete(k, a, path, options, missing_ok, err);
}

int rf_kube_delete_this(struct rf_kube *k, struct rf_arena *a, struct rf_str path, struct rf_str uid,
			struct rf_str rv, struct rf_err *err)
{
	struct rf_json *options = rf_json_make(
		a, "{'apiVersion':'v1','kind':'DeleteOptions','preconditions':{'uid':%S}}", uid);

	if (rv.n > 0)
		rf_json_set_str(a, rf_json_at(options, "preconditions"), "resourceVersion", rv);
	return send_delete(k, a, path, options, true, err);
}

int rf_kube_raw(struct rf_kube *k, struct rf_arena *a, struct rf_str path, struct rf_str *ret_text,
		struct rf_err *err)
{
	struct rf_http_call_opts opts = OPTS("GET", path);

	opts.accept = RF_LIT("*/*");
	return exchange(k, a, opts, ret_text, err);
}

/* --- events ----------------------------------------------------------------------------------- */

/* At most max bytes, and no character cut in two. */
static struct rf_str shortened(struct rf_str s, size_t max)
{
	if (s.n <= max)
		return s;
	while (max > 0 && ((unsigned char)s.p[max] & 0xC0) == 0x80)
		max--;
	return rf_str_n(s.p, max);
}

static struct rf_json *event_object(struct rf_arena *a, const struct rf_json *about,
				    struct rf_str ns, struct rf_str name)
{
	struct rf_json *involved =
		rf_json_make(a, "{'apiVersion':%S,'kind':%S,'name':%S,'uid':%S}",
			     rf_json_str_at(about, "apiVersion"), rf_json_str_at(about, "kind"),
			     rf_kube_name(about), rf_kube_uid(about));

	if (rf_kube_namespace(about).n > 0)
		rf_json_set_str(a, involved, "namespace", rf_kube_namespace(about));
	return rf_json_make(
		a,
		"{'apiVersion':'v1','kind':'Event','metadata':{'name':%S,'namespace':%S},"
		"'involvedObject':%j,'count':1}",
		name, ns, involved);
}

int rf_kube_event(struct rf_kube *k, const struct rf_json *about, const char *type,
		  const char *reason, const char *component, const char *fmt, ...)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str ns = rf_kube_namespace(about), suffix = rf_rand_suffix(&a, 16), name, now;
	struct rf_json *event = NULL;
	va_list ap;

	if (ns.n == 0)
		ns = RF_LIT("default");
	name = shortened(rf_kube_name(about), 230);
	name = rf_arena_printf(&a, "%.*s.%.*s", RF_STR(name), RF_STR(suffix));
	event = event_object(&a, about, ns, name);
	va_start(ap, fmt);
	rf_json_set_str(&a, event, "message",
			shortened(rf_arena_vprintf(&a, fmt, ap), EVENT_MESSAGE_MAX));
	va_end(ap);
	now = rf_time_format(&a, rf_wall_ms(rf_clock_system()));
	rf_json_set_str(&a, event, "type", rf_str(type));
	rf_json_set_str(&a, event, "reason", rf_str(reason));
	rf_json_set(&a, event, RF_LIT("source"), rf_json_make(&a, "{'component':%s}", component));
	rf_json_set_str(&a, event, "reportingComponent", rf_str(component));
	rf_json_set_str(&a, event, "firstTimestamp", now);
	rf_json_set_str(&a, event, "lastTimestamp", now);
	return rf_kube_create(k, &a, rf_kube_path(&a, &RF_EVENTS, ns, RF_STR_EMPTY, NULL), event,
			      NULL, NULL);
}
