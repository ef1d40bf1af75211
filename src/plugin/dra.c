/* The DRA driver: the kubelet names a claim, and gets CDI devices for the containers it is for. */
#include "base/fs.h"
#include "plugin/private.h"

/* --- registration ------------------------------------------------------------------------------ */

static void on_info(void *ctx, struct rf_grpc_call *call, struct rf_str in RF_UNUSED)
{
	struct rf_plugin *p = ctx;
	rf_auto(buf) out = RF_BUF_INIT;

	rf_kapi_plugin_info(&out, RF_LIT(RF_DRIVER), rf_str(p->dra_socket));
	rf_grpc_reply(call, rf_buf_str(&out));
}

static void on_status(void *ctx, struct rf_grpc_call *call, struct rf_str in)
{
	struct rf_plugin *p = ctx;
	struct rf_err err = RF_ERR_INIT;
	struct rf_str reason;

	if (rf_kapi_read_status(in, &p->dra_registered, &reason, &err) < 0) {
		rf_grpc_fail(call, &err);
		return;
	}
	if (p->dra_registered)
		rf_info("the kubelet knows driver " RF_DRIVER);
	else
		rf_warn("the kubelet does not take driver " RF_DRIVER ": %.*s", RF_STR(reason));
	rf_grpc_reply(call, RF_STR_EMPTY);
}

/* --- claims -------------------------------------------------------------------------------------- */

static const struct rf_json *results_of(const struct rf_json *claim)
{
	return rf_json_at(claim, "status", "allocation", "devices", "results");
}

static bool first_of_request(const struct rf_json *results, size_t i, struct rf_str request)
{
	for (size_t k = 0; k < i; k++)
		if (rf_str_eq(rf_json_str_at(rf_json_item(results, k), "request"), request))
			return false;
	return true;
}

/* Did the container ask with a name of the device plugin? Then its device comes by way of its slots. */
static bool comes_by_slot(const struct rf_json *pod, struct rf_str container)
{
	const struct rf_json *list = rf_json_at(pod, "spec", "containers");
	struct rf_gpu_ask ask;

	for (size_t i = 0; i < rf_json_len(list); i++)
		if (rf_str_eq(rf_json_str_at(rf_json_item(list, i), "name"), container) &&
		    rf_gpu_ask_of_container(rf_json_item(list, i), &ask, NULL) == 0)
			return ask.name != NULL && !rf_str_is(rf_str(ask.name), RF_RES_GPU);
	return false;
}

/* One CDI device per container, told with the first of its cards. */
static int write_devices(struct rf_plugin *p, struct rf_held *h, const struct rf_json *claim,
			 const struct rf_json *pod, struct rf_buf *out, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	const struct rf_json *results = results_of(claim);

	for (size_t i = 0; i < rf_json_len(results); i++) {
		const struct rf_json *r = rf_json_item(results, i);
		struct rf_str request = rf_json_str_at(r, "request"), cdi = RF_STR_EMPTY;
		struct rf_held_box *box = rf_held_box(h, request);
		struct rf_json *edits;

		if (box == NULL)
			return rf_fail(err, RF_FORBIDDEN,
				       "request %.*s is for no container of the pod",
				       RF_STR(request));
		if (first_of_request(results, i, request) && !comes_by_slot(pod, request)) {
			struct rf_str id = rf_cdi_id(&a, h, box);

			if (rf_cdi_edits(&a, p, h, box, &edits, err) < 0 ||
			    rf_cdi_write(p, id, edits, err) < 0)
				return -err->code;
			cdi = rf_arena_printf(&a, RF_CDI_KIND "=%.*s", RF_STR(id));
		}
		rf_kapi_prepared_device(out, request, rf_json_str_at(r, "pool"),
					rf_json_str_at(r, "device"), cdi,
					rf_json_str_at(r, "shareID"));
	}
	return 0;
}

static int prepare(struct rf_plugin *p, const struct rf_kapi_claim *c, struct rf_buf *devices,
		   struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	const struct rf_json *pod;
	struct rf_json *claim;
	struct rf_held *h;

	if (rf_plugin_claim(p, &a, c->ns, c->name, &claim, err) < 0)
		return -err->code;
	if (!rf_str_eq(rf_kube_uid(claim), c->uid))
		return rf_fail(err, RF_CONFLICT, "it was replaced by another of its name");
	struct rf_str pod_name =
		rf_json_str_at(rf_json_item(rf_json_at(claim, "status", "reservedFor"), 0), "name");
	if (pod_name.n == 0)
		return rf_fail(err, RF_UNAVAILABLE, "it is not reserved for a pod yet");
	if (rf_plugin_pod(p, &a, c->ns, pod_name, &pod, err) < 0 ||
	    rf_held_prepare(p, claim, pod, &h, err) < 0)
		return -err->code;
	return write_devices(p, h, claim, pod, devices, err);
}

static void on_prepare(void *ctx, struct rf_grpc_call *call, struct rf_str in)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) out = RF_BUF_INIT;
	struct rf_kapi_claim *claims;
	struct rf_err err = RF_ERR_INIT;
	size_t n;

	if (rf_kapi_read_claims(&a, in, &claims, &n, &err) < 0) {
		rf_grpc_fail(call, &err);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		rf_auto(buf) devices = RF_BUF_INIT;

		if (prepare(ctx, &claims[i], &devices, &err) == 0) {
			rf_info("claim %.*s/%.*s: prepared", RF_STR(claims[i].ns),
				RF_STR(claims[i].name));
			rf_kapi_prepared(&out, claims[i].uid, rf_buf_str(&devices), RF_STR_EMPTY);
			continue;
		}
		rf_warn("claim %.*s/%.*s: cannot be prepared: %s", RF_STR(claims[i].ns),
			RF_STR(claims[i].name), err.msg);
		rf_kapi_prepared(&out, claims[i].uid, RF_STR_EMPTY, rf_str(err.msg));
	}
	rf_grpc_reply(call, rf_buf_str(&out));
}

/* A claim that is not known here is unprepared already, unless something of it is left. */
static int unprepare(struct rf_plugin *p, const struct rf_kapi_claim *c, struct rf_err *err)
{
	struct rf_held *h = rf_held_find(p, c->uid);

	if (h == NULL && rf_map_get(&p->unknown, c->uid) != NULL &&
	    rf_sweep_recover(p, c, &h, err) < 0)
		return -err->code;
	return h != NULL ? rf_held_release(h, err) : 0;
}

static void on_unprepare(void *ctx, struct rf_grpc_call *call, struct rf_str in)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) out = RF_BUF_INIT;
	struct rf_kapi_claim *claims;
	struct rf_err err = RF_ERR_INIT;
	size_t n;

	if (rf_kapi_read_claims(&a, in, &claims, &n, &err) < 0) {
		rf_grpc_fail(call, &err);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		bool gone = unprepare(ctx, &claims[i], &err) == 0;

		if (!gone)
			rf_info("claim %.*s/%.*s: not yet: %s", RF_STR(claims[i].ns),
				RF_STR(claims[i].name), err.msg);
		rf_kapi_unprepared(&out, claims[i].uid, gone ? RF_STR_EMPTY : rf_str(err.msg));
	}
	rf_grpc_reply(call, rf_buf_str(&out));
}

/* --- sockets --------------------------------------------------------------------------------------- */

static const struct rf_grpc_method registration[] = {
	{ "/pluginregistration.Registration/GetInfo", on_info },
	{ "/pluginregistration.Registration/NotifyRegistrationStatus", on_status },
};

#define V1 "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/"
#define V1BETA1 "/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/"
static const struct rf_grpc_method driver[] = {
	{ V1 "NodePrepareResources", on_prepare },
	{ V1 "NodeUnprepareResources", on_unprepare },
	{ V1BETA1 "NodePrepareResources", on_prepare },
	{ V1BETA1 "NodeUnprepareResources", on_unprepare },
};

static int serve(struct rf_plugin *p, const char *path, const struct rf_grpc_method *methods,
		 size_t n, struct rf_grpc_server **server, struct rf_err *err)
{
	if (*server != NULL && rf_fs_exists(path))
		return 0;
	rf_grpc_server_close(*server);
	*server = NULL;
	p->dra_registered = false;
	return rf_grpc_listen(&p->loop, path, 0600, methods, n, p, server, err);
}

/* The driver listens before the kubelet can hear of it. */
static int serve_both(struct rf_plugin *p, struct rf_err *err)
{
	if (serve(p, p->dra_socket, driver, RF_COUNT(driver), &p->dra, err) < 0 ||
	    serve(p, p->registration_socket, registration, RF_COUNT(registration), &p->registration,
		  err) < 0)
		return -err->code;
	return 0;
}

void rf_dra_keep(struct rf_plugin *p)
{
	struct rf_err err = RF_ERR_INIT;

	if (serve_both(p, &err) < 0)
		rf_warn("%s; will be tried again", err.msg);
}

int rf_dra_open(struct rf_plugin *p, struct rf_err *err)
{
	const char *dir = rf_fs_path(&p->arena, "%s/plugins/" RF_DRIVER, p->opts->kubelet_dir);

	p->dra_socket = rf_fs_path(&p->arena, "%s/dra.sock", dir);
	p->registration_socket = rf_fs_path(&p->arena, "%s/plugins_registry/" RF_DRIVER "-reg.sock",
					    p->opts->kubelet_dir);
	if (rf_fs_mkdirs(dir, 0750, err) < 0 ||
	    rf_fs_mkdirs(rf_fs_path(&p->arena, "%s/plugins_registry", p->opts->kubelet_dir), 0750,
			 err) < 0)
		return -err->code;
	return serve_both(p, err);
}

void rf_dra_close(struct rf_plugin *p)
{
	/* The registration first: no kubelet shall look for a driver that has gone. */
	rf_grpc_server_close(p->registration);
	rf_grpc_server_close(p->dra);
	p->registration = p->dra = NULL;
}
