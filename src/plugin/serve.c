/* The agent's own HTTPS: health for probes, metrics for those whom Kubernetes lets read them. */
#include "node/fence_server.h"
#include "plugin/private.h"

static void answer(struct rf_http_req *req, int status, const char *text)
{
	rf_http_reply(req, status, "text/plain; charset=utf-8", rf_str(text));
}

/* --- metrics ------------------------------------------------------------------------------------- */

static void box_metrics(struct rf_metrics *m, const struct rf_held *h, const struct rf_held_box *b)
{
	for (size_t i = 0; b->fence != NULL && i < b->grant.n; i++) {
		struct rf_fence_usage u = { .used_bytes = 0 };
		const struct rf_slice *slice = rf_held_slice(h, b, i);

		/* A spoiled ledger still says the cap; the rest is then zero. */
		(void)rf_fence_server_usage(b->fence->server, i, &u);
		if (slice != NULL) { /* what the fence does not count, the driver does */
			u.used_bytes = (uint64_t)RF_MAX(rf_slices_used(&h->plugin->cards, slice), 0);
			u.cap_bytes = (uint64_t)slice->gpu.memory_bytes;
		}
		rf_card_use_metrics(m, &(struct rf_card_use){
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
					       .gpu_us = (int64_t)(u.gpu_ns / 1000),
					       .held_us = (int64_t)(u.held_ns / 1000),
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
	rf_mps_metrics(&m, p->mps, p->name);
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&p->held, s)) != NULL;) {
		const struct rf_held *h = s->value;

		for (size_t i = 0; i < h->n_boxes; i++)
			box_metrics(&m, h, &h->boxes[i]);
	}
	rf_metrics_int(&m, "ringfence_node_claims", RF_METRIC_GAUGE,
		       "Claims prepared on this node.", l, 1, (int64_t)p->held.n);
	rf_metrics_process(&m);
	rf_metrics_write(&m, out);
}

static void metrics(struct rf_plugin *p, struct rf_http_req *req)
{
	rf_auto(buf) out = RF_BUF_INIT;
	int status = rf_readers_judge(p, req->arena, rf_http_get_header(req, "authorization"));

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
					    .body_max = 1024,
					    .connections_max = 128,
					    .idle_ms = 15000,
					    .request_ms = 5000,
					    .handler = handle,
					    .ctx = p };

	if (rf_pki_new_ca(&a, RF_LIT("ringfence-node"), &ca, &ca_key, err) < 0 ||
	    rf_pki_issue(&a, ca, ca_key, &ask, &cert, &key, err) < 0 ||
	    rf_tls_server(cert, key, RF_STR_EMPTY, &p->tls, err) < 0)
		return rf_wrap(err, "the agent's certificate");
	opts.tls = p->tls;
	return rf_http_listen(&p->loop, &opts, &p->server, err);
}
