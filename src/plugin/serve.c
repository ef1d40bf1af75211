/* The agent's own HTTPS: health for probes, metrics for those whom Kubernetes lets read them. */
#include <stdlib.h>

#include "node/fence_server.h"
#include "plugin/private.h"

#define VERDICT_MS 30000
#define VERDICTS_MAX 32
#define REVIEWS_PER_SECOND 8

/* What Kubernetes said about a token. */
struct rf_verdict {
	struct rf_verdict *next;
	char *token;
	int64_t until_ms;
	bool allowed;
};

static void answer(struct rf_http_req *req, int status, const char *text)
{
	rf_http_reply(req, status, "text/plain; charset=utf-8", rf_str(text));
}

/* --- who may read ------------------------------------------------------------------------------ */

static int review_token(struct rf_plugin *p, struct rf_arena *a, struct rf_str token,
			struct rf_json **ret_user, struct rf_err *err)
{
	struct rf_json *review = rf_json_make(
		a, "{'apiVersion':'authentication.k8s.io/v1','kind':'TokenReview','spec':{'token':%S}}",
		token);

	if (rf_kube_create(p->kube, a, RF_LIT("/apis/authentication.k8s.io/v1/tokenreviews"), review,
			   &review, err) < 0)
		return -err->code;
	if (!rf_json_is_true(rf_json_at(review, "status", "authenticated")))
		return rf_fail(err, RF_UNAUTHENTICATED, "the token is not good");
	*ret_user = rf_json_at(review, "status", "user");
	return 0;
}

static int review_access(struct rf_plugin *p, struct rf_arena *a, const struct rf_json *user,
			 bool *ret_allowed, struct rf_err *err)
{
	struct rf_json *spec = rf_json_make(
		a, "{'user':%S,'uid':%S,'nonResourceAttributes':{'path':'/metrics','verb':'get'}}",
		rf_json_str_at(user, "username"), rf_json_str_at(user, "uid"));
	struct rf_json *review;

	if (rf_json_at(user, "groups") != NULL)
		rf_json_set(a, spec, RF_LIT("groups"), rf_json_clone(a, rf_json_at(user, "groups")));
	if (rf_json_at(user, "extra") != NULL)
		rf_json_set(a, spec, RF_LIT("extra"), rf_json_clone(a, rf_json_at(user, "extra")));
	review = rf_json_make(a,
			      "{'apiVersion':'authorization.k8s.io/v1','kind':"
			      "'SubjectAccessReview','spec':%j}",
			      spec);
	if (rf_kube_create(p->kube, a, RF_LIT("/apis/authorization.k8s.io/v1/subjectaccessreviews"),
			   review, &review, err) < 0)
		return -err->code;
	*ret_allowed = rf_json_is_true(rf_json_at(review, "status", "allowed"));
	return 0;
}

static int64_t now_ms(struct rf_plugin *p)
{
	return (int64_t)uv_now(&p->loop);
}

static struct rf_verdict *known(struct rf_plugin *p, struct rf_str token)
{
	struct rf_verdict **at = &p->verdicts;
	struct rf_verdict *found = NULL;

	while (*at != NULL) {
		struct rf_verdict *v = *at;

		if (v->until_ms <= now_ms(p)) {
			*at = v->next;
			free(v->token);
			free(v);
			continue;
		}
		if (rf_str_is(token, v->token))
			found = v;
		at = &v->next;
	}
	return found;
}

void rf_plugin_forget_readers(struct rf_plugin *p)
{
	while (p->verdicts != NULL) {
		struct rf_verdict *v = p->verdicts;

		p->verdicts = v->next;
		free(v->token);
		free(v);
	}
}

/* Strangers can make us ask: not often, and not for ever. */
static bool may_ask(struct rf_plugin *p)
{
	static int64_t second;
	static int asked;
	size_t n = 0;

	for (const struct rf_verdict *v = p->verdicts; v != NULL; v = v->next)
		n++;
	if (now_ms(p) / 1000 != second)
		asked = 0;
	second = now_ms(p) / 1000;
	return n < VERDICTS_MAX && asked++ < REVIEWS_PER_SECOND;
}

static void remember(struct rf_plugin *p, struct rf_str token, bool allowed)
{
	struct rf_verdict *v = rf_new(struct rf_verdict);

	v->token = rf_alloc(token.n + 1);
	memcpy(v->token, token.p, token.n);
	v->until_ms = now_ms(p) + VERDICT_MS;
	v->allowed = allowed;
	v->next = p->verdicts;
	p->verdicts = v;
}

/* 200, or the status to answer with. */
static int may_read(struct rf_plugin *p, struct rf_http_req *req)
{
	struct rf_str token = rf_http_get_header(req, "authorization");
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *user = NULL;
	bool allowed = false;

	if (!rf_str_starts(token, RF_LIT("Bearer ")) || token.n > 16 * 1024)
		return 401;
	token = rf_str_skip(token, 7);
	const struct rf_verdict *v = known(p, token);
	if (v != NULL)
		return v->allowed ? 200 : 403;
	if (!may_ask(p))
		return 429;
	int rc = review_token(p, req->arena, token, &user, &err);
	if (rc == 0)
		rc = review_access(p, req->arena, user, &allowed, &err);
	if (rc < 0 && rc != -RF_UNAUTHENTICATED) {
		rf_warn("metrics: ask who reads them: %s", err.msg);
		return 503;
	}
	remember(p, token, allowed);
	return rc < 0 ? 401 : allowed ? 200 : 403;
}

/* --- metrics ------------------------------------------------------------------------------------- */

static void box_metrics(struct rf_metrics *m, const struct rf_held *h, const struct rf_held_box *b)
{
	for (size_t i = 0; b->fence != NULL && i < b->grant.n; i++) {
		struct rf_fence_usage u = { .used_bytes = 0 };

		/* A spoiled ledger still says the cap; the rest is then zero. */
		(void)rf_fence_server_usage(b->fence, i, &u);
		rf_card_use_metrics(
			m, &(struct rf_card_use){
				   .node = h->plugin->name,
				   .tenant = rf_str(h->tenant),
				   .ns = rf_str(h->ns),
				   .pod = rf_str(h->pod),
				   .container = rf_str(b->name),
				   .index = b->grant.cards[i].index,
				   .used = (int64_t)RF_MIN(u.used_bytes, INT64_MAX),
				   .cap = (int64_t)u.cap_bytes,
				   .processes = u.processes,
				   .refusals = (int64_t)RF_MIN(u.refusals, INT64_MAX),
				   .compute_milli = b->grant.cards[i].compute_milli });
	}
}

static void write_metrics(struct rf_plugin *p, struct rf_buf *out)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_metrics m;
	struct rf_label l[] = { { "node", p->name } };

	rf_metrics_init(&m, &a);
	rf_cards_metrics(&m, &p->cards, p->name);
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&p->held, s)) != NULL;) {
		const struct rf_held *h = s->value;

		for (size_t i = 0; i < h->n_boxes; i++)
			box_metrics(&m, h, &h->boxes[i]);
	}
	rf_metrics_int(&m, "ringfence_node_claims", RF_METRIC_GAUGE, "Claims prepared on this node.", l,
		       1, (int64_t)p->held.n);
	rf_metrics_process(&m);
	rf_metrics_write(&m, out);
}

static void metrics(struct rf_plugin *p, struct rf_http_req *req)
{
	rf_auto(buf) out = RF_BUF_INIT;
	int status = may_read(p, req);

	if (status == 200) {
		write_metrics(p, &out);
		rf_http_reply(req, 200, RF_METRICS_CONTENT_TYPE, rf_buf_str(&out));
	} else if (status == 401) {
		rf_http_add_header(req, "WWW-Authenticate", RF_LIT("Bearer"));
		answer(req, 401, "a bearer token of the cluster is needed\n");
	} else {
		answer(req, status,
		       status == 403 ? "not allowed: bind the reader to ClusterRole "
				       "ringfence-metrics-reader\n"
				     : "try again in a moment\n");
	}
}

static void handle(void *ctx, struct rf_http_req *req)
{
	struct rf_plugin *p = ctx;

	if (!rf_str_is(req->method, "GET"))
		return answer(req, 405, "only GET is served\n");
	if (rf_str_is(req->path, "/healthz"))
		return answer(req, 200, "ok\n");
	if (rf_str_is(req->path, "/readyz"))
		return answer(req, p->ready ? 200 : 503, p->ready ? "ok\n" : "starting\n");
	if (rf_str_is(req->path, "/metrics"))
		return metrics(p, req);
	answer(req, 404, "not found\n");
}

int rf_plugin_serve(struct rf_plugin *p, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str ca, ca_key, cert, key;
	struct rf_str hosts[] = { p->name, RF_LIT("localhost"), RF_LIT("127.0.0.1") };
	/* Made at each start: who wants to check it has to know the cluster's word for the address. */
	struct rf_pki_ask ask = { .common_name = p->name,
				  .hosts = hosts,
				  .n_hosts = RF_COUNT(hosts),
				  .server = true,
				  .days = 365 };
	struct rf_http_server_opts opts = { .address = p->opts->listen_address,
					    .port = p->opts->listen_port,
					    .connections_max = 64,
					    .handler = handle,
					    .ctx = p };

	if (rf_pki_new_ca(&a, RF_LIT("ringfence-node"), &ca, &ca_key, err) < 0 ||
	    rf_pki_issue(&a, ca, ca_key, &ask, &cert, &key, err) < 0 ||
	    rf_tls_server(cert, key, RF_STR_EMPTY, &p->tls, err) < 0)
		return rf_wrap(err, "the agent's certificate");
	opts.tls = p->tls;
	return rf_http_listen(&p->loop, &opts, &p->server, err);
}
