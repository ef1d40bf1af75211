#include "net/test_grpc.h"

#include "base/fs.h"
#include "codec/pb.h"
#include "plugin/test_kubelet.h"

#define CALL_MS 10000
#define TURN_MS 10

/* A plugin that registered: one resource. */
struct plugin {
	struct kubelet *k;
	char resource[128], endpoint[128];
	struct rf_grpc_client *client;
	struct rf_grpc_call *registering; /* to be answered once the plugin was called back */
	struct raw stream;
	bool following;
	struct rf_buf list; /* the newest ListAndWatchResponse; empty: none yet */
};

struct assignment {
	char pod[128], container[64], resource[128], slots[128];
};

struct kubelet {
	struct world w; /* for its loop */
	const char *dir;
	struct rf_arena arena;
	struct rf_grpc_server *registration, *resources;
	struct plugin plugins[4];
	size_t n_plugins;
	struct assignment assigned[64];
	size_t n_assigned;
	bool refuse, delay, deaf;
	int asked;
	struct rf_grpc_client *loose; /* of a call nobody waits for */
};

static const char *in_folder(struct kubelet *k, const char *name)
{
	return rf_fs_path(&k->arena, "%s/%s", k->dir, name);
}

static struct rf_str field(struct rf_str in, uint32_t number)
{
	struct rf_str s = RF_STR_EMPTY;
	struct rf_pb_field f;

	while (rf_pb_next(&in, &f, NULL) > 0)
		if (f.number == number && f.wire == RF_PB_BYTES)
			s = f.bytes;
	return s;
}

/* --- calls ------------------------------------------------------------------------------------ */

static int call(struct kubelet *k, const char *socket, const char *method, struct rf_str in,
		struct rf_buf *out, struct rf_err *err)
{
	struct rf_grpc_client *client = rf_grpc_client_new(&k->w.loop, socket);
	auto_answer a = ANSWER_INIT;

	rf_grpc_call_unary(client, method, in, CALL_MS, on_answer, &a);
	wait_for(&k->w, a.calls == 1);
	rf_grpc_client_free(client);
	if (a.code != 0)
		return rf_fail(err, (enum rf_code)a.code, "%s", a.error);
	if (out != NULL)
		rf_buf_add(out, rf_buf_str(&a.body));
	return 0;
}

/* --- device plugins: registration ------------------------------------------------------------- */

static struct plugin *plugin_of(const struct kubelet *k, const char *resource)
{
	for (size_t i = 0; i < k->n_plugins; i++)
		if (strcmp(k->plugins[i].resource, resource) == 0)
			return (struct plugin *)(uintptr_t)&k->plugins[i];
	return NULL;
}

static void stop_following(struct plugin *g)
{
	if (g->following)
		rf_raw_done(&g->stream);
	g->following = false;
	rf_buf_clear(&g->list);
}

static void follow(struct plugin *g)
{
	struct world *w = &g->k->w;

	const char *path = rf_fs_path(&g->k->arena, "%s/device-plugins/%s", g->k->dir, g->endpoint);

	assert_true(strlen(path) < sizeof(w->path));
	memcpy(w->path, path, strlen(path) + 1);
	stop_following(g);
	g->stream = raw_connect(w);
	g->following = true;
	raw_hello(&g->stream);
	raw_ask(&g->stream, 1, "/v1beta1.DevicePlugin/ListAndWatch", RF_STR_EMPTY);
}

static void answer_registration(struct plugin *g)
{
	if (g->registering == NULL || g->k->delay)
		return;
	rf_grpc_reply(g->registering, RF_STR_EMPTY);
	g->registering = NULL;
	follow(g);
}

static void on_called_back(void *ctx, const struct rf_err *err, struct rf_str options)
{
	struct plugin *g = ctx;
	struct rf_pb_field f = { .number = 0 };

	if (err != NULL) {
		if (g->registering != NULL)
			rf_grpc_fail(g->registering, err);
		g->registering = NULL;
		return;
	}
	assert_int_equal(rf_pb_next(&options, &f, NULL), 1);
	assert_int_equal(f.number, 1); /* pre_start_required */
	assert_int_equal(f.value, 1);
	answer_registration(g);
}

static void on_caller_gone(void *ctx)
{
	((struct plugin *)ctx)->registering = NULL;
}

static void handle_register(void *ctx, struct rf_grpc_call *c, struct rf_str in)
{
	struct kubelet *k = ctx;
	rf_auto(arena) a = RF_ARENA_INIT;
	const char *resource = rf_arena_cstr(&a, field(in, 3));
	struct plugin *g = plugin_of(k, resource);

	k->asked++;
	assert_true(rf_str_is(field(in, 1), "v1beta1"));
	if (k->refuse) {
		rf_grpc_finish(c, RF_GRPC_FAILED_PRECONDITION, "not now");
		return;
	}
	if (g == NULL) {
		g = &k->plugins[k->n_plugins++];
		*g = (struct plugin){ .k = k, .list = RF_BUF_INIT };
		snprintf(g->resource, sizeof(g->resource), "%s", resource);
	}
	snprintf(g->endpoint, sizeof(g->endpoint), "%.*s", RF_STR(field(in, 2)));
	g->registering = c;
	rf_grpc_on_cancel(c, on_caller_gone, g);
	rf_grpc_client_free(g->client);
	g->client = rf_grpc_client_new(&k->w.loop,
				       rf_fs_path(&a, "%s/device-plugins/%s", k->dir, g->endpoint));
	rf_grpc_call_unary(g->client, "/v1beta1.DevicePlugin/GetDevicePluginOptions", RF_STR_EMPTY,
			   CALL_MS, on_called_back, g);
}

/* --- device plugins: lists -------------------------------------------------------------------- */

/* Messages are small: each comes in a frame of its own. */
static void read_stream(struct plugin *g)
{
	auto_frame f = FRAME_INIT;

	raw_receive(&g->stream);
	while (has_frame(&g->stream.in)) {
		cut_frame(&g->stream, &f);
		if (f.type == NGHTTP2_DATA && f.length > 5) {
			rf_buf_clear(&g->list);
			rf_buf_add(&g->list, rf_str_n(f.payload.p + 5, f.length - 5));
		}
	}
	if (g->stream.eof)
		stop_following(g);
}

bool kubelet_follows(const struct kubelet *k, const char *resource)
{
	const struct plugin *g = plugin_of(k, resource);

	return g != NULL && g->following && g->list.n > 0;
}

void kubelet_unfollow(struct kubelet *k, const char *resource)
{
	stop_following(plugin_of(k, resource));
}

int kubelet_health(const struct kubelet *k, const char *resource, const char *slot)
{
	const struct plugin *g = plugin_of(k, resource);
	struct rf_str in = g != NULL ? rf_buf_str(&g->list) : RF_STR_EMPTY;
	struct rf_pb_field f;

	while (rf_pb_next(&in, &f, NULL) > 0)
		if (f.number == 1 && rf_str_is(field(f.bytes, 1), slot))
			return rf_str_is(field(f.bytes, 2), "Healthy");
	return -1;
}

size_t kubelet_slots(const struct kubelet *k, const char *resource)
{
	const struct plugin *g = plugin_of(k, resource);
	struct rf_str in = g != NULL ? rf_buf_str(&g->list) : RF_STR_EMPTY;
	struct rf_pb_field f;
	size_t n = 0;

	while (rf_pb_next(&in, &f, NULL) > 0)
		n += f.number == 1;
	return n;
}

/* --- device plugins: containers --------------------------------------------------------------- */

static void put_slots(struct rf_buf *out, uint32_t number, const char *slots)
{
	struct rf_str rest = rf_str(slots), slot;

	while (rest.n > 0) {
		rf_str_cut(&rest, ' ', &slot);
		rf_pb_put_bytes(out, number, slot);
	}
}

static const char *socket_of(struct kubelet *k, const char *resource)
{
	const struct plugin *g = plugin_of(k, resource);

	assert_non_null(g);
	return rf_fs_path(&k->arena, "%s/device-plugins/%s", k->dir, g->endpoint);
}

int kubelet_allocate(struct kubelet *k, const char *resource, const char *slots, char ret_cdi[128],
		     struct rf_err *err)
{
	rf_auto(buf) container = RF_BUF_INIT;
	rf_auto(buf) in = RF_BUF_INIT;
	rf_auto(buf) out = RF_BUF_INIT;

	put_slots(&container, 1, slots);
	rf_pb_put_bytes(&in, 1, rf_buf_str(&container));
	if (call(k, socket_of(k, resource), "/v1beta1.DevicePlugin/Allocate", rf_buf_str(&in), &out,
		 err) < 0)
		return -err->code;
	struct rf_str name = field(field(field(rf_buf_str(&out), 1), 5), 1);
	snprintf(ret_cdi, 128, "%.*s", RF_STR(name));
	return 0;
}

int kubelet_prestart(struct kubelet *k, const char *resource, const char *slots, struct rf_err *err)
{
	rf_auto(buf) in = RF_BUF_INIT;

	put_slots(&in, 1, slots);
	return call(k, socket_of(k, resource), "/v1beta1.DevicePlugin/PreStartContainer",
		    rf_buf_str(&in), NULL, err);
}

static void on_nothing(void *ctx RF_UNUSED, const struct rf_err *err RF_UNUSED,
		       struct rf_str answer RF_UNUSED)
{
}

void kubelet_begin_prestart(struct kubelet *k, const char *resource, const char *slots)
{
	rf_auto(buf) in = RF_BUF_INIT;

	put_slots(&in, 1, slots);
	rf_grpc_client_free(k->loose);
	k->loose = rf_grpc_client_new(&k->w.loop, socket_of(k, resource));
	rf_grpc_call_unary(k->loose, "/v1beta1.DevicePlugin/PreStartContainer", rf_buf_str(&in),
			   CALL_MS, on_nothing, NULL);
}

void kubelet_assign(struct kubelet *k, const char *pod, const char *container, const char *resource,
		    const char *slots)
{
	struct assignment *a = &k->assigned[k->n_assigned++];

	assert_true(k->n_assigned <= RF_COUNT(k->assigned));
	snprintf(a->pod, sizeof(a->pod), "%s", pod);
	snprintf(a->container, sizeof(a->container), "%s", container);
	snprintf(a->resource, sizeof(a->resource), "%s", resource);
	snprintf(a->slots, sizeof(a->slots), "%s", slots);
}

void kubelet_unassign(struct kubelet *k, const char *pod)
{
	for (size_t i = k->n_assigned; i-- > 0;)
		if (pod == NULL || strcmp(k->assigned[i].pod, pod) == 0)
			k->assigned[i] = k->assigned[--k->n_assigned];
}

/* PodResources { name=1, namespace=2, containers=3 { name=1, devices=2 { resource=1, ids=2 } } } */
static void handle_resources(void *ctx, struct rf_grpc_call *c, struct rf_str in RF_UNUSED)
{
	struct kubelet *k = ctx;
	rf_auto(buf) out = RF_BUF_INIT;

	if (k->deaf) {
		rf_grpc_on_cancel(c, on_cancelled, &k->w);
		return;
	}
	for (size_t i = 0; i < k->n_assigned; i++) {
		const struct assignment *a = &k->assigned[i];
		rf_auto(buf) devices = RF_BUF_INIT;
		rf_auto(buf) container = RF_BUF_INIT;
		rf_auto(buf) pod = RF_BUF_INIT;

		rf_pb_put_bytes(&devices, 1, rf_str(a->resource));
		put_slots(&devices, 2, a->slots);
		rf_pb_put_bytes(&container, 1, rf_str(a->container));
		rf_pb_put_bytes(&container, 2, rf_buf_str(&devices));
		rf_pb_put_bytes(&pod, 1, rf_str(a->pod));
		rf_pb_put_bytes(&pod, 2, RF_LIT("team-a"));
		rf_pb_put_bytes(&pod, 3, rf_buf_str(&container));
		rf_pb_put_bytes(&out, 1, rf_buf_str(&pod));
	}
	rf_grpc_reply(c, rf_buf_str(&out));
}

/* --- DRA -------------------------------------------------------------------------------------- */

int kubelet_register_driver(struct kubelet *k, struct rf_err *err)
{
	const char *socket = in_folder(k, "plugins_registry/ringfence.io-reg.sock");
	rf_auto(buf) info = RF_BUF_INIT;
	rf_auto(buf) status = RF_BUF_INIT;

	if (call(k, socket, "/pluginregistration.Registration/GetInfo", RF_STR_EMPTY, &info, err) <
	    0)
		return -err->code;
	assert_true(rf_str_is(field(rf_buf_str(&info), 1), "DRAPlugin"));
	assert_true(rf_str_is(field(rf_buf_str(&info), 2), "ringfence.io"));
	assert_true(rf_str_is(field(rf_buf_str(&info), 3),
			      in_folder(k, "plugins/ringfence.io/dra.sock")));
	rf_pb_put_varint(&status, 1, 1);
	return call(k, socket, "/pluginregistration.Registration/NotifyRegistrationStatus",
		    rf_buf_str(&status), NULL, err);
}

static int call_driver(struct kubelet *k, const char *method, struct kubelet_claim c,
		       uint32_t error_number, struct rf_buf *ret, struct rf_err *err)
{
	rf_auto(buf) claim = RF_BUF_INIT;
	rf_auto(buf) in = RF_BUF_INIT;
	rf_auto(buf) out = RF_BUF_INIT;

	rf_pb_put_bytes(&claim, 1, RF_LIT("team-a"));
	rf_pb_put_bytes(&claim, 2, rf_str(c.uid));
	rf_pb_put_bytes(&claim, 3, rf_str(c.name));
	rf_pb_put_bytes(&in, 1, rf_buf_str(&claim));
	if (call(k, in_folder(k, "plugins/ringfence.io/dra.sock"), method, rf_buf_str(&in), &out,
		 err) < 0)
		return -err->code;
	struct rf_str entry = field(rf_buf_str(&out), 1);
	assert_true(rf_str_is(field(entry, 1), c.uid));
	struct rf_str error = field(field(entry, 2), error_number);
	if (error.n > 0)
		return rf_fail(err, RF_FORBIDDEN, "%.*s", RF_STR(error));
	rf_buf_add(ret, field(entry, 2));
	return 0;
}

#define DRIVER "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/"

int kubelet_prepare(struct kubelet *k, struct kubelet_claim c, struct rf_buf *ret_devices,
		    struct rf_err *err)
{
	rf_auto(buf) answer = RF_BUF_INIT;
	struct rf_pb_field f;

	if (call_driver(k, DRIVER "NodePrepareResources", c, 2, &answer, err) < 0)
		return -err->code;
	struct rf_str in = rf_buf_str(&answer);
	while (rf_pb_next(&in, &f, NULL) > 0)
		if (f.number == 1)
			rf_buf_printf(ret_devices, "%.*s %.*s %.*s %.*s\n",
				      RF_STR(field(f.bytes, 1)), RF_STR(field(f.bytes, 2)),
				      RF_STR(field(f.bytes, 3)), RF_STR(field(f.bytes, 4)));
	return 0;
}

int kubelet_unprepare(struct kubelet *k, struct kubelet_claim c, struct rf_err *err)
{
	rf_auto(buf) answer = RF_BUF_INIT;

	return call_driver(k, DRIVER "NodeUnprepareResources", c, 1, &answer, err);
}

/* --- beginning and end ------------------------------------------------------------------------ */

static const struct rf_grpc_method registration_methods[] = {
	{ "/v1beta1.Registration/Register", handle_register },
};
static const struct rf_grpc_method resources_methods[] = {
	{ "/v1.PodResourcesLister/List", handle_resources },
};

static void remove_sockets(struct kubelet *k)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	const char *dir = rf_fs_path(&a, "%s/device-plugins", k->dir);
	struct rf_str *names;
	size_t n;

	assert_int_equal(rf_fs_list(&a, dir, &names, &n, NULL), 0);
	for (size_t i = 0; i < n; i++)
		unlink(rf_fs_path(&a, "%s/%.*s", dir, RF_STR(names[i])));
}

void kubelet_start(struct kubelet *k, bool clean)
{
	struct rf_err err = RF_ERR_INIT;

	k->asked = 0;
	if (clean)
		remove_sockets(k);
	ok(rf_grpc_listen(&k->w.loop, in_folder(k, "device-plugins/kubelet.sock"), 0600,
			  registration_methods, RF_COUNT(registration_methods), k, &k->registration,
			  &err),
	   &err);
	ok(rf_grpc_listen(&k->w.loop, in_folder(k, "pod-resources/kubelet.sock"), 0600,
			  resources_methods, RF_COUNT(resources_methods), k, &k->resources, &err),
	   &err);
}

void kubelet_stop(struct kubelet *k)
{
	for (size_t i = 0; i < k->n_plugins; i++) {
		stop_following(&k->plugins[i]);
		rf_grpc_client_free(k->plugins[i].client);
		rf_buf_done(&k->plugins[i].list);
	}
	rf_grpc_server_close(k->registration);
	rf_grpc_server_close(k->resources);
	k->registration = k->resources = NULL;
	k->n_plugins = 0;
}

void kubelet_refuse(struct kubelet *k, bool refuse)
{
	k->refuse = refuse;
}

void kubelet_delay(struct kubelet *k, bool delay)
{
	k->delay = delay;
	for (size_t i = 0; i < k->n_plugins; i++)
		answer_registration(&k->plugins[i]);
}

void kubelet_deaf(struct kubelet *k, bool deaf)
{
	k->deaf = deaf;
}

int kubelet_asked(const struct kubelet *k)
{
	return k->registration != NULL ? k->asked : -1;
}

void kubelet_turn(struct kubelet *k)
{
	uv_run(&k->w.loop, UV_RUN_ONCE); /* the tick ends it */
	for (size_t i = 0; i < k->n_plugins; i++)
		if (k->plugins[i].following)
			read_stream(&k->plugins[i]);
}

struct kubelet *kubelet_new(const char *dir)
{
	static const char *const folders[] = { "device-plugins", "plugins_registry", "plugins",
					       "pod-resources" };
	struct kubelet *k = rf_new(struct kubelet);

	k->dir = dir;
	k->arena = (struct rf_arena)RF_ARENA_INIT;
	uv_loop_init(&k->w.loop);
	uv_timer_init(&k->w.loop, &k->w.tick);
	uv_timer_start(&k->w.tick, on_tick, TURN_MS, TURN_MS);
	for (size_t i = 0; i < RF_COUNT(folders); i++)
		assert_int_equal(rf_fs_mkdirs(in_folder(k, folders[i]), 0755, NULL), 0);
	return k;
}

void kubelet_free(struct kubelet *k)
{
	kubelet_stop(k);
	rf_grpc_client_free(k->loose);
	uv_close((uv_handle_t *)&k->w.tick, NULL);
	uv_run(&k->w.loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&k->w.loop), 0);
	rf_arena_done(&k->arena);
	free(k);
}
