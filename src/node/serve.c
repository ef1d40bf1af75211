/* The agent's own HTTPS: health, metrics, logs. */
#include <stdio.h>

#include "base/fs.h"
#include "node/agent.h"
#include "observe/metrics.h"

#define PEM_MAX (64 * 1024)

static bool in_group(const struct rf_http_req *req, const char *group)
{
	for (size_t i = 0; req->peer->has_cert && i < req->peer->n_groups; i++)
		if (rf_str_is(req->peer->groups[i], group))
			return true;
	return false;
}

static void answer(struct rf_http_req *req, int status, const char *text)
{
	rf_http_reply(req, status, "text/plain; charset=utf-8", rf_str(text));
}

static void metrics(struct rf_agent *g, struct rf_http_req *req)
{
	rf_auto(buf) out = RF_BUF_INIT;

	rf_agent_metrics(g, &out);
	rf_http_reply(req, 200, RF_METRICS_CONTENT_TYPE, rf_buf_str(&out));
}

static void handle(void *ctx, struct rf_http_req *req)
{
	struct rf_agent *g = ctx;
	bool master = in_group(req, "system:masters");

	if (!rf_str_is(req->method, "GET"))
		return answer(req, 405, "only GET is served\n");
	if (rf_str_is(req->path, "/healthz"))
		return answer(req, g->ready ? 200 : 503, g->ready ? "ok\n" : "starting\n");
	if (rf_str_is(req->path, "/metrics") &&
	    (master || in_group(req, "system:ringfence:metrics")))
		return metrics(g, req);
	if (!master)
		return answer(req, 403, "a client certificate of group system:masters is needed\n");
	if (rf_str_starts(req->path, RF_LIT("/containerLogs/")))
		return rf_agent_logs(g, req);
	answer(req, 404, "not found\n");
}

static int read_ca(struct rf_agent *g, struct rf_arena *a, struct rf_str *cert, struct rf_str *key,
		   struct rf_err *err)
{
	const char *dir = g->opts->pki_dir;

	if (rf_fs_read(a, rf_fs_path(a, "%s/ca.crt", dir), PEM_MAX, cert, err) < 0 ||
	    rf_fs_read(a, rf_fs_path(a, "%s/ca.key", dir), PEM_MAX, key, err) < 0)
		return rf_wrap(err, "certificate authority");
	return 0;
}

int rf_agent_serve(struct rf_agent *g, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str ca = RF_STR_EMPTY, ca_key = RF_STR_EMPTY, cert = RF_STR_EMPTY,
		      key = RF_STR_EMPTY;
	struct rf_str hosts[] = { rf_str(g->opts->listen_address), g->name, RF_LIT("127.0.0.1"),
				  RF_LIT("localhost") };
	struct rf_str groups[] = { RF_LIT("system:nodes") };
	struct rf_pki_ask ask = { .common_name =
					  rf_arena_printf(&a, "system:node:%.*s", RF_STR(g->name)),
				  .groups = groups,
				  .n_groups = 1,
				  .hosts = hosts,
				  .n_hosts = RF_COUNT(hosts),
				  .server = true,
				  .days = 365 };
	struct rf_http_server_opts opts = { .address = g->opts->listen_address,
					    .port = g->opts->listen_port,
					    .handler = handle,
					    .ctx = g };

	if (read_ca(g, &a, &ca, &ca_key, err) < 0 ||
	    rf_pki_issue(&a, ca, ca_key, &ask, &cert, &key, err) < 0 ||
	    rf_tls_server(cert, key, ca, &g->tls, err) < 0)
		return rf_wrap(err, "the agent's certificate");
	opts.tls = g->tls;
	return rf_http_listen(&g->loop, &opts, &g->server, err);
}
