/* pods/log: the node that runs the pod has the log; this passes it on as it comes. */
#include "apiserver/api.h"

#define PENDING_MAX (256 * 1024) /* with a reader this far behind, the node has to wait */

struct relay {
	struct rf_api *api;
	struct rf_http_req *http;
	struct rf_http_client *client;
	struct rf_http_call *call;
	struct rf_route route;
	bool started;
};

/* --- where the log is ----------------------------------------------------------------------- */

static bool has_container(const struct rf_json *pod, struct rf_str name)
{
	static const char *const LISTS[] = { "containers", "initContainers" };

	for (size_t l = 0; l < RF_COUNT(LISTS); l++) {
		const struct rf_json *list = rf_json_at(pod, "spec", LISTS[l]);

		for (size_t i = 0; i < rf_json_len(list); i++)
			if (rf_str_eq(rf_json_str_at(rf_json_item(list, i), "name"), name))
				return true;
	}
	return false;
}

static int choose_container(struct rf_req *r, const struct rf_json *pod, struct rf_str *ret,
			    struct rf_err *err)
{
	const struct rf_json *list = rf_json_at(pod, "spec", "containers");
	struct rf_str name = rf_query(r, "container");

	if (name.n == 0)
		name = rf_json_str_at(pod, "metadata", "annotations",
				      "kubectl.kubernetes.io/default-container");
	if (name.n == 0 && rf_json_len(list) == 1)
		name = rf_json_str_at(rf_json_item(list, 0), "name");
	if (name.n == 0)
		return rf_fail(
			err, RF_BAD_REQUEST,
			"a container name must be specified for pod %.*s; it has %zu containers",
			RF_STR(r->route.name), rf_json_len(list));
	if (!has_container(pod, name))
		return rf_fail(err, RF_BAD_REQUEST, "container %.*s is not valid for pod %.*s",
			       RF_STR(name), RF_STR(r->route.name));
	*ret = name;
	return 0;
}

static int find_node(struct rf_req *r, const struct rf_json *pod, struct rf_http_client_opts *ret,
		     struct rf_err *err)
{
	struct rf_str name = rf_json_str_at(pod, "spec", "nodeName");
	const struct rf_json *addresses;
	struct rf_json *node;
	int64_t port;

	if (name.n == 0)
		return rf_fail(err, RF_BAD_REQUEST, "pod %.*s does not have a host assigned",
			       RF_STR(r->route.name));
	if (rf_store_get(r->api->store, r->a, rf_kind_get("nodes"), RF_STR_EMPTY, name, &node,
			 err) < 0)
		return -err->code;
	addresses = rf_json_at(node, "status", "addresses");
	for (size_t i = 0; i < rf_json_len(addresses) && ret->host.n == 0; i++)
		if (rf_str_is(rf_json_str_at(rf_json_item(addresses, i), "type"), "InternalIP"))
			ret->host = rf_json_str_at(rf_json_item(addresses, i), "address");
	port = rf_json_int(rf_json_at(node, "status", "daemonEndpoints", "kubeletEndpoint", "Port"),
			   0);
	if (ret->host.n == 0 || port < 1 || port > 65535 || r->api->node_tls == NULL)
		return rf_fail(err, RF_UNAVAILABLE,
			       "node %.*s does not say where its agent listens; is it running?",
			       RF_STR(name));
	ret->port = (uint16_t)port;
	ret->tls = r->api->node_tls;
	return 0;
}

/* Only what we know is passed on, and numbers only as numbers. */
static struct rf_str target(struct rf_req *r, struct rf_str container)
{
	static const char *const NUMBERS[] = { "tailLines", "sinceSeconds", "limitBytes" };
	static const char *const FLAGS[] = { "follow", "timestamps", "previous" };
	rf_auto(buf) out = RF_BUF_INIT;
	int64_t n;

	rf_buf_printf(&out, "/containerLogs/%.*s/%.*s/%.*s?", RF_STR(r->route.ns),
		      RF_STR(r->route.name), RF_STR(container));
	for (size_t i = 0; i < RF_COUNT(NUMBERS); i++)
		if (rf_str_int(rf_query(r, NUMBERS[i]), &n, NULL) == 0 && n >= 0)
			rf_buf_printf(&out, "%s=%lld&", NUMBERS[i], (long long)n);
	for (size_t i = 0; i < RF_COUNT(FLAGS); i++)
		if (rf_query_true(r, FLAGS[i]))
			rf_buf_printf(&out, "%s=true&", FLAGS[i]);
	out.n--;
	return rf_arena_str(r->http->arena, rf_buf_str(&out));
}

/* --- passing it on -------------------------------------------------------------------------- */

static void release(struct relay *l)
{
	rf_http_client_free(l->client);
	free(l);
}

static void start(struct relay *l)
{
	if (!l->started)
		rf_http_stream_begin(l->http, 200, "text/plain");
	l->started = true;
}

static void on_close(void *ctx)
{
	release(ctx);
}

static void on_data(void *ctx, struct rf_str data)
{
	struct relay *l = ctx;

	start(l);
	rf_http_stream_write(l->http, data);
	if (rf_http_stream_pending(l->http) > PENDING_MAX)
		rf_http_call_pause(l->call, true);
}

static void on_drain(void *ctx)
{
	struct relay *l = ctx;

	rf_http_call_pause(l->call, false);
}

static void fail(struct relay *l, const struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_req r = {
		.api = l->api, .http = l->http, .a = &a, .route = l->route, .warnings = RF_BUF_INIT
	};

	rf_reply_error(&r, err);
}

static void on_done(void *ctx, const struct rf_err *err, const struct rf_http_response *response)
{
	struct relay *l = ctx;
	struct rf_err e = RF_ERR_INIT;

	rf_http_on_close(l->http, NULL, NULL);
	rf_http_on_drain(l->http, NULL, NULL);
	if (err != NULL && !l->started) {
		rf_fail(&e, RF_UNAVAILABLE, "the pod's node does not answer: %s", err->msg);
		fail(l, &e);
	} else if (response != NULL && response->status >= 300) {
		rf_fail(&e, rf_code_from_http(response->status, ""), "the pod's node says: %.*s",
			(int)RF_MIN(response->body.n, (size_t)512), response->body.p);
		fail(l, &e);
	} else {
		start(l);
		rf_http_stream_end(l->http);
	}
	release(l);
}

static void begin(struct rf_req *r, const struct rf_http_client_opts *node, struct rf_str path)
{
	struct relay *l = rf_new(struct relay);
	struct rf_http_call_opts o = { .method = RF_LIT("GET"),
				       .target = path,
				       .accept = RF_LIT("text/plain"),
				       .on_data = on_data,
				       .on_done = on_done,
				       .ctx = l };

	l->api = r->api;
	l->http = r->http;
	l->route = r->route;
	l->route.ns = rf_arena_str(r->http->arena, r->route.ns);
	l->route.name = rf_arena_str(r->http->arena, r->route.name);
	l->client = rf_http_client_new(r->api->loop, node);
	l->call = rf_http_call(l->client, &o);
	rf_http_on_drain(r->http, on_drain, l);
	rf_http_on_close(r->http, on_close, l); /* last: it may call back at once */
}

int rf_verb_log(struct rf_req *r, struct rf_err *err)
{
	struct rf_http_client_opts node = { .host = RF_STR_EMPTY, .bearer = RF_STR_EMPTY };
	struct rf_str container = RF_STR_EMPTY;
	struct rf_json *pod;

	if (rf_store_get(r->api->store, r->a, r->route.kind, r->route.ns, r->route.name, &pod,
			 err) < 0 ||
	    choose_container(r, pod, &container, err) < 0 || find_node(r, pod, &node, err) < 0)
		return -err->code;
	begin(r, &node, target(r, container));
	return 0;
}
