/* The webhook: an HTTPS server on control's loop that answers from the informers' copies, and a timer
 * that keeps its certificate, and what the API server believes of it, as they should be. */
#include "control/private.h"

#include <stdio.h>

#include "net/tls.h"

/* An object may take 1.5 MiB in etcd and six times that as JSON (control characters), and an update shows two.
 * What is larger cannot be stored; what is refused here unread would be let through where failing is open. */
#define BODY_MAX ((size_t)20 << 20)
#define REVIEW_MAX ((size_t)128 << 20) /* what one may grow to as a tree */
#define CONNECTIONS_MAX 256
#define TEND_MS 10000
#define SECRET_MS (3600 * 1000)
#define CONFIGURATION "ringfence"

struct rf_webhook {
	struct rf_control *c;
	struct rf_reviewer reviewer;
	struct rf_arena a; /* the keys' */
	struct rf_arena scratch; /* of one review; keeps its first block for the next */
	struct rf_webhook_keys keys;
	struct rf_http_server *server;
	struct rf_tls *tls;
	uint16_t port;
	uv_timer_t timer;
	uint64_t read_ms; /* when the Secret was read last, of the loop */
	char said[256];	  /* the last complaint: the same one is not logged again and again */
	bool missing[2];  /* the configurations that were not there */
};

static const struct rf_kube_res configurations[] = {
	{ "admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations",
	  "MutatingWebhookConfiguration", false },
	{ "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations",
	  "ValidatingWebhookConfiguration", false },
};

/* --- what the informers know ------------------------------------------------------------------ */

static const struct rf_informer *informer_of(const struct rf_control *c,
					     const struct rf_kube_res *res)
{
	if (res == &RF_TENANTS)
		return c->informers[RF_I_TENANTS];
	if (res == &RF_RESOURCEQUOTAS)
		return c->informers[RF_I_QUOTAS];
	if (res == &RF_QUEUES)
		return c->informers[RF_I_QUEUES];
	return c->informers[res == &RF_PODS ? RF_I_PODS : RF_I_NAMESPACES];
}

static const struct rf_json *get(void *ctx, const struct rf_kube_res *res, struct rf_str ns,
				 struct rf_str name)
{
	return rf_informer_get(informer_of(ctx, res), ns, name);
}

static const struct rf_json *next(void *ctx, const struct rf_kube_res *res, const void **cursor)
{
	const struct rf_map_slot *slot = *cursor;
	const struct rf_json *o = rf_informer_next(informer_of(ctx, res), &slot);

	*cursor = slot;
	return o;
}

static bool is_synced(const struct rf_control *c)
{
	static const enum rf_informer_kind needed[] = { RF_I_TENANTS, RF_I_NAMESPACES, RF_I_PODS,
							RF_I_QUOTAS, RF_I_QUEUES };

	for (size_t i = 0; i < RF_COUNT(needed); i++) {
		const struct rf_informer *in = c->informers[needed[i]];

		if (in == NULL || !rf_informer_synced(in))
			return false;
	}
	return true;
}

static bool is_ready(const struct rf_control *c)
{
	return is_synced(c) && (c->policies == NULL || rf_bookkeeper_loaded(c->policies));
}

/* --- requests --------------------------------------------------------------------------------- */

static void say(struct rf_http_req *req, int status, const char *text)
{
	rf_http_reply(req, status, "text/plain; charset=utf-8", rf_str(text));
}

static void review(struct rf_webhook *w, struct rf_http_req *req, enum rf_review what)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_str text = RF_STR_EMPTY;

	rf_arena_reset(&w->scratch);
	w->reviewer.synced = is_synced(w->c);
	w->reviewer.book = rf_bookkeeper_book(w->c->policies);
	w->reviewer.loaded = rf_bookkeeper_loaded(w->c->policies);
	w->reviewer.inventory = rf_bookkeeper_inventory(w->c->policies);
	w->reviewer.now_ms = (int64_t)uv_now(&w->c->loop);
	if (rf_webhook_review(&w->reviewer, &w->scratch, what, req->body, &text, &err) < 0)
		say(req, rf_code_info(err.code)->http, err.msg);
	else
		rf_http_reply(req, 200, "application/json", text);
}

static void on_request(void *ctx, struct rf_http_req *req)
{
	struct rf_webhook *w = ctx;
	bool post = rf_str_is(req->method, "POST"), read = rf_str_is(req->method, "GET");

	if (rf_str_is(req->path, "/mutate") && post)
		review(w, req, RF_REVIEW_MUTATE);
	else if (rf_str_is(req->path, "/validate") && post)
		review(w, req, RF_REVIEW_VALIDATE);
	else if (rf_str_is(req->path, "/healthz") && read)
		say(req, 200, "ok");
	else if (rf_str_is(req->path, "/readyz") && read && is_ready(w->c))
		say(req, 200, "ok");
	else if (rf_str_is(req->path, "/readyz") && read)
		say(req, 503, "tenants, namespaces, pods and policies have not all been read yet");
	else
		say(req, 404,
		    "there are POST /mutate, POST /validate, GET /healthz and GET /readyz");
}

/* --- serving ---------------------------------------------------------------------------------- */

static void free_tls(void *tls)
{
	rf_tls_free(tls);
}

static void stop_serving(struct rf_webhook *w)
{
	if (w->server != NULL)
		rf_http_server_close(w->server, free_tls, w->tls);
	else
		rf_tls_free(w->tls);
	w->server = NULL;
	w->tls = NULL;
}

/* A certificate is given to a server when it starts to listen. The old one's socket is closed before the
 * new one's is opened, both in this turn of the loop: callers who connect meanwhile are let in. */
static int serve(struct rf_webhook *w, struct rf_err *err)
{
	struct rf_http_server_opts o = { .address = w->c->opts->webhook_address,
					 .port = w->port,
					 .body_max = BODY_MAX,
					 .connections_max = CONNECTIONS_MAX,
					 .handler = on_request,
					 .ctx = w };
	struct rf_tls *tls = NULL;

	if (rf_tls_server(w->keys.cert, w->keys.key, RF_STR_EMPTY, &tls, err) < 0)
		return rf_wrap(err, "webhook");
	stop_serving(w);
	w->tls = o.tls = tls;
	if (rf_http_listen(&w->c->loop, &o, &w->server, err) < 0)
		return rf_wrap(err, "webhook");
	w->port = rf_http_server_port(w->server);
	return 0;
}

static struct rf_str keep(struct rf_webhook *w, struct rf_str s)
{
	return rf_arena_str(&w->a, s);
}

/* Takes the Secret's keys; true in *changed if they are others than before. */
static int read_keys(struct rf_webhook *w, bool *changed, struct rf_err *err)
{
	const char *service = w->c->opts->webhook_service;
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_webhook_keys k = { 0 };

	if (rf_webhook_keys_get(w->c->kube, &a, service != NULL ? service : RF_WEBHOOK_SECRET,
				rf_wall_ms(rf_clock_system()), &k, err) < 0)
		return -err->code;
	w->read_ms = uv_now(&w->c->loop);
	*changed = !rf_str_eq(k.cert, w->keys.cert) || !rf_str_eq(k.key, w->keys.key) ||
		   !rf_str_eq(k.ca_cert, w->keys.ca_cert);
	if (*changed) {
		rf_arena_reset(&w->a);
		w->keys = (struct rf_webhook_keys){ .ca_cert = keep(w, k.ca_cert),
						    .cert = keep(w, k.cert),
						    .key = keep(w, k.key) };
	}
	return 0;
}

static int refresh(struct rf_webhook *w, struct rf_err *err)
{
	bool changed = false;

	if (read_keys(w, &changed, err) < 0)
		return -err->code;
	if (!changed)
		return 0;
	if (serve(w, err) < 0) {
		w->keys =
			(struct rf_webhook_keys){ 0 }; /* not served: still news at the next look */
		return -err->code;
	}
	rf_info("webhook: serves the certificate that the Secret holds now");
	return 0;
}

/* --- what the API server believes --------------------------------------------------------------- */

/* Another replica may have made a new CA: before theirs is overwritten, the Secret is asked. */
static int tend_one(struct rf_webhook *w, size_t i, bool *fresh, struct rf_err *err)
{
	const struct rf_kube_res *res = &configurations[i];
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str path = rf_kube_path(&a, res, RF_STR_EMPTY, RF_LIT(CONFIGURATION), NULL);
	struct rf_json *is = NULL, *patch = NULL;
	int rc = rf_kube_get(w->c->kube, &a, path, &is, err);

	if (rc == -RF_NOT_FOUND && !w->missing[i])
		rf_info("webhook: there is no %s \"" CONFIGURATION "\"; nobody asks us", res->kind);
	w->missing[i] = rc == -RF_NOT_FOUND;
	if (rc < 0)
		return w->missing[i] ? 0 : rf_wrap(err, "%s \"" CONFIGURATION "\"", res->kind);
	if (rf_webhook_ca_patch(&a, is, w->keys.ca_cert) == NULL)
		return 0;
	if (!*fresh && refresh(w, err) < 0)
		return -err->code;
	*fresh = true;
	patch = rf_webhook_ca_patch(&a, is, w->keys.ca_cert);
	if (patch == NULL)
		return 0;
	if (rf_kube_patch(w->c->kube, &a, path, RF_PATCH_STRATEGIC, patch, NULL, err) < 0)
		return rf_wrap(err, "%s \"" CONFIGURATION "\": write the CA", res->kind);
	rf_info("webhook: wrote the CA into %s \"" CONFIGURATION "\"", res->kind);
	return 0;
}

int rf_webhook_tend(struct rf_webhook *w, bool look_again, struct rf_err *err)
{
	bool fresh = look_again || uv_now(&w->c->loop) - w->read_ms >= SECRET_MS;

	if (fresh && refresh(w, err) < 0)
		return -err->code;
	for (size_t i = 0; i < RF_COUNT(configurations); i++) {
		if (tend_one(w, i, &fresh, err) < 0)
			return -err->code;
	}
	return 0;
}

/* The server answers on with what it has, whatever goes wrong here. */
static void on_timer(uv_timer_t *timer)
{
	struct rf_webhook *w = timer->data;
	struct rf_err err = RF_ERR_INIT;

	if (rf_webhook_tend(w, false, &err) == 0) {
		w->said[0] = '\0';
		return;
	}
	if (w->server == NULL) { /* the port is gone: whoever started us starts us again */
		rf_control_fail(w->c, &err);
		return;
	}
	if (strncmp(w->said, err.msg, sizeof(w->said) - 1) != 0)
		rf_warn("webhook: %s; trying again", err.msg);
	snprintf(w->said, sizeof(w->said), "%.*s", (int)sizeof(w->said) - 1, err.msg);
}

/* --- beginning and end ------------------------------------------------------------------------ */

uint16_t rf_webhook_port(const struct rf_webhook *w)
{
	return w->port;
}

static void on_closed(uv_handle_t *timer)
{
	struct rf_webhook *w = timer->data;

	rf_arena_done(&w->a);
	rf_arena_done(&w->scratch);
	free(w);
}

void rf_webhook_stop(struct rf_webhook *w)
{
	if (w == NULL)
		return;
	stop_serving(w);
	uv_close((uv_handle_t *)&w->timer, on_closed);
}

int rf_control_webhook(struct rf_control *c, bool *again, struct rf_err *err)
{
	struct rf_webhook *w = NULL;
	bool changed = false;

	*again = false;
	if (c->opts->webhook_address == NULL || c->webhook != NULL)
		return 0;
	w = rf_new(struct rf_webhook);
	w->c = c;
	w->scratch.cap = REVIEW_MAX;
	w->port = c->opts->webhook_port;
	w->reviewer.cluster = (struct rf_cluster){ .get = get, .next = next, .ctx = c };
	w->reviewer.scheduler =
		c->opts->scheduler_name != NULL ? c->opts->scheduler_name : RF_SCHEDULER;
	w->reviewer.closed = c->opts->policy_closed;
	w->reviewer.exempt = c->opts->policy_exempt;
	(void)uv_timer_init(&c->loop, &w->timer);
	w->timer.data = w;
	*again = read_keys(w, &changed, err) < 0;
	if (*again || serve(w, err) < 0) {
		rf_webhook_stop(w);
		return -err->code;
	}
	uv_timer_start(&w->timer, on_timer, 0, TEND_MS);
	printf("webhook https://%s:%u\n", c->opts->webhook_address, w->port);
	fflush(stdout);
	c->webhook = w;
	return 0;
}
