/* The agent: puts its parts on one loop and takes them off again. */
#include "node/node.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>

#include "base/fs.h"
#include "fence/arbiter.h"
#include "node/agent.h"
#include "node/cgroup.h"
#include "node/volume.h"

#define TICK_MS 1000
#define HEARTBEAT_MS 10000
#define API_TIMEOUT_MS 5000
#define DRAIN_MAX_MS 15000
#define CONTAINER_FILES_MAX 65536

/* --- changes in the API ---------------------------------------------------------------------- */

static void on_pod(void *ctx, const struct rf_json *before, const struct rf_json *after)
{
	struct rf_agent *g = ctx;

	/* A pod of the same name may be another one: the old one is gone then. */
	if (before != NULL &&
	    (after == NULL || !rf_str_eq(rf_kube_uid(before), rf_kube_uid(after))))
		rf_worker_gone(g, before);
	if (after != NULL)
		rf_worker_seen(g, after);
}

static void on_api_error(void *ctx RF_UNUSED, const struct rf_err *err)
{
	rf_warn("API server: %s; will be tried again", err->msg);
}

static void on_claim(void *ctx, const struct rf_json *before RF_UNUSED, const struct rf_json *after)
{
	struct rf_agent *g = ctx;
	struct rf_str uid =
		rf_json_str_at(rf_json_item(rf_json_at(after, "status", "reservedFor"), 0), "uid");
	struct rf_worker *w = uid.n > 0 ? rf_map_get(&g->workers, uid) : NULL;

	if (w == NULL || w->state != RF_POD_PREPARING)
		return;
	w->retry_ms = 0; /* it may be what the pod waits for */
	rf_worker_step(w);
}

/* --- time ------------------------------------------------------------------------------------ */

static void announce(struct rf_agent *g)
{
	if (g->ready || !g->node_registered || g->slice_sent.n == 0 ||
	    !rf_informer_synced(g->pods) || !rf_informer_synced(g->claims))
		return;
	g->ready = true;
	printf("node ready\n");
	fflush(stdout);
	rf_info("node %.*s ready: %zu cards, port %u", RF_STR(g->name), rf_gpu_count(g->cards.gpu),
		(unsigned)rf_http_server_port(g->server));
}

static bool is_due(const struct rf_worker *w, bool all)
{
	if (all)
		return w->state != RF_POD_DONE || rf_worker_unwanted(w);
	return w->due_ms != 0 && w->due_ms <= rf_agent_now();
}

static void step_workers(struct rf_agent *g, bool everyone)
{
	RF_VEC(struct rf_worker *) all = RF_VEC_INIT;

	/* A step may free its worker, so the map is not walked meanwhile. */
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&g->workers, s)) != NULL;)
		if (is_due(s->value, everyone))
			rf_vec_push(&all, s->value);
	for (size_t i = 0; i < all.n; i++)
		rf_worker_step(all.at[i]);
	rf_vec_done(&all);
}

static bool runs(const struct rf_worker *w)
{
	for (size_t i = 0; i < w->n_containers; i++)
		if (w->containers[i].state == RF_CONTAINER_RUNNING)
			return true;
	return false;
}

static bool drained(const struct rf_agent *g)
{
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&g->workers, s)) != NULL;) {
		const struct rf_worker *w = s->value;

		if (runs(w) || w->state == RF_POD_STOPPING || w->state == RF_POD_CLEANING)
			return false;
	}
	return true;
}

static void end_when_drained(struct rf_agent *g)
{
	if (g->draining && (drained(g) || rf_agent_now() >= g->drain_deadline_ms))
		uv_stop(&g->loop);
}

/* The whole platform stops: running pods end as on a machine that is shut down. Those that wait go
 * on waiting, for the next start. */
static void drain(struct rf_agent *g)
{
	g->draining = true;
	g->drain_deadline_ms = rf_agent_now() + DRAIN_MAX_MS;
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&g->workers, s)) != NULL;)
		if (runs(s->value))
			rf_worker_refuse(s->value, "NodeShutdown",
					 "ringfence was stopped on this node, and the pod with it");
	step_workers(g, true);
	end_when_drained(g);
}

static void on_soon(uv_timer_t *t)
{
	struct rf_agent *g = t->data;

	g->soon_ms = 0;
	step_workers(g, false);
	end_when_drained(g);
}

void rf_agent_wake(struct rf_agent *g, int64_t at_ms)
{
	int64_t now = rf_agent_now();

	if (g->soon_ms != 0 && g->soon_ms <= at_ms)
		return;
	g->soon_ms = at_ms;
	uv_timer_start(&g->soon, on_soon, (uint64_t)RF_MAX(at_ms - now, 0) + 1, 0);
}

/* Of a pod that is not prepared yet nobody knows which cards it is on. */
static bool is_held(void *ctx, int index)
{
	struct rf_agent *g = ctx;

	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&g->workers, s)) != NULL;) {
		const struct rf_worker *w = s->value;

		if (w->state == RF_POD_DONE)
			continue;
		if (!w->prepared || rf_worker_holds(w, index))
			return true;
	}
	return false;
}

static void measure_contexts(struct rf_agent *g)
{
	if (g->orphans_swept && !g->draining)
		rf_cards_measure(&g->cards, is_held, g);
}

static void on_tick(uv_timer_t *t)
{
	struct rf_agent *g = t->data;
	struct rf_err err = RF_ERR_INIT;

	rf_cards_poll(&g->cards);
	rf_agent_watch_caps(g);
	rf_agent_watch_mps(g);
	measure_contexts(g);
	if (!g->node_registered && rf_agent_register(g, &err) < 0)
		rf_warn("%s; will be tried again", err.msg);
	else if (rf_agent_publish(g, &err) < 0)
		rf_warn("%s; will be tried again", err.msg);
	step_workers(g, true);
	if (!g->orphans_swept)
		rf_agent_sweep(g);
	announce(g);
	end_when_drained(g);
}

static void on_heartbeat(uv_timer_t *t)
{
	rf_agent_heartbeat(t->data);
	rf_agent_sweep(t->data);
}

static void on_sync(void *ctx)
{
	struct rf_agent *g = ctx;

	rf_agent_sweep(g);
	measure_contexts(g);
	announce(g);
}

/* --- beginning ------------------------------------------------------------------------------- */

static int check_machine(const struct rf_node_opts *o, struct rf_err *err)
{
	if (geteuid() != 0)
		return rf_fail(err, RF_FORBIDDEN,
			       "the node agent runs containers and needs root; start it as root");
	if (system("command -v crun >/dev/null 2>&1") != 0 &&
	    system("command -v runc >/dev/null 2>&1") != 0)
		return rf_fail(err, RF_UNAVAILABLE, "no container runtime: install crun (or runc)");
	if (!rf_str_is_dns_subdomain(rf_str(o->name)))
		return rf_fail(err, RF_INVALID, "node name \"%s\": must be a DNS name", o->name);
	return 0;
}

/* Bind mounts need absolute paths, and what is hidden is compared by path. */
static int make_absolute(struct rf_agent *g, const char **path, struct rf_err *err)
{
	char real[PATH_MAX];

	if (*path == NULL)
		return 0;
	if (realpath(*path, real) == NULL)
		return rf_fail_errno(err, "folder %s", *path);
	*path = rf_arena_cstr(&g->arena, rf_str(real));
	return 0;
}

static int resolve_options(struct rf_agent *g, const struct rf_node_opts *opts, struct rf_err *err)
{
	struct rf_node_opts *o = &g->absolute;

	*o = *opts;
	g->opts = o;
	if (make_absolute(g, &o->sim_dir, err) < 0 ||
	    make_absolute(g, &o->driver_lib_dir, err) < 0 ||
	    make_absolute(g, &o->tools_dir, err) < 0 || make_absolute(g, &o->images_dir, err) < 0 ||
	    make_absolute(g, &o->pki_dir, err) < 0)
		return -err->code;
	return 0;
}

static const char *find_fence_lib(struct rf_agent *g)
{
	static const char *const places[] = { "%s/libringfence.so",
					      "%s/../lib/ringfence/libringfence.so",
					      "%s/../lib/libringfence.so" };
	char real[PATH_MAX];

	for (size_t i = 0; g->opts->tools_dir != NULL && i < RF_COUNT(places); i++) {
		char path[PATH_MAX];

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		snprintf(path, sizeof(path), places[i], g->opts->tools_dir);
#pragma GCC diagnostic pop
		if (realpath(path, real) != NULL)
			return rf_arena_cstr(&g->arena, rf_str(real));
	}
	rf_warn("libringfence.so is not beside the program: pods with cards will not be started");
	return NULL;
}

static int open_data(struct rf_agent *g, struct rf_err *err)
{
	char real[PATH_MAX];

	if (rf_fs_mkdirs(g->opts->data_dir, 0700, err) < 0)
		return -err->code;
	if (realpath(g->opts->data_dir, real) == NULL)
		return rf_fail_errno(err, "data folder %s", g->opts->data_dir);
	g->data_dir = rf_arena_cstr(&g->arena, rf_str(real));
	g->instance = rf_cgroup_instance(&g->arena, rf_str(real));
	if (rf_fs_mkdirs(rf_fs_path(&g->arena, "%s/pods", real), 0700, err) < 0 ||
	    rf_fs_mkdirs(rf_fs_path(&g->arena, "%s/runtime", real), 0700, err) < 0)
		return -err->code;
	return 0;
}

static int connect_api(struct rf_agent *g, struct rf_err *err)
{
	if (rf_kubeconfig_load(&g->arena, g->opts->kubeconfig_path, &g->config, err) < 0 ||
	    rf_kube_new(&g->config, &g->kube, err) < 0)
		return -err->code;
	rf_kube_set_timeout(g->kube, API_TIMEOUT_MS);
	return 0;
}

static int follow_api(struct rf_agent *g, struct rf_err *err)
{
	struct rf_informer_opts pods = {
		.config = &g->config,
		.res = &RF_PODS,
		.on_change = on_pod,
		.on_sync = on_sync,
		.on_error = on_api_error,
		.ctx = g,
		.field_selector = rf_arena_printf(&g->arena, "spec.nodeName=%.*s", RF_STR(g->name))
	};
	struct rf_informer_opts claims = { .config = &g->config,
					   .res = &RF_RESOURCECLAIMS,
					   .on_change = on_claim,
					   .on_sync = on_sync,
					   .on_error = on_api_error,
					   .ctx = g };

	/* Both must exist before either calls back. */
	if (rf_informer_start(&g->loop, &pods, &g->pods, err) < 0)
		return -err->code;
	return rf_informer_start(&g->loop, &claims, &g->claims, err);
}

/* The agent takes what the kernel lets it have, since every fence and every client needs some of it;
 * containers do not inherit that. */
static void raise_files(struct rf_agent *g)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) < 0)
		return;
	g->files_max = (int64_t)RF_MIN(l.rlim_max, CONTAINER_FILES_MAX);
	l.rlim_cur = l.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &l) < 0)
		rf_warn("open files: the limit stays as it is: %s", strerror(errno));
}

/* With simulated cards a stand-in is beside the simulated driver. */
static void open_mps(struct rf_agent *g)
{
	struct rf_mps_opts o = { .dir = rf_fs_path(&g->arena, "%s/mps", g->data_dir), .program = g->opts->mps_control };

	if (o.program == NULL && g->opts->sim_dir != NULL && g->opts->driver_lib_dir != NULL)
		o.program = rf_fs_path(&g->arena, "%s/" RF_MPS_PROGRAM, g->opts->driver_lib_dir);
	g->mps = rf_mps_open(&o);
}

static int begin(struct rf_agent *g, const struct rf_node_opts *opts, struct rf_err *err)
{
	if (resolve_options(g, opts, err) < 0 || open_data(g, err) < 0 || connect_api(g, err) < 0)
		return -err->code;
	raise_files(g);
	rf_agent_empty_trash(g);
	rf_cgroup_keep_for_machine(g->instance);
	g->fence_lib = find_fence_lib(g);
	g->runtime = system("command -v crun >/dev/null 2>&1") == 0 ? "crun" : "runc";
	g->cards.on_fault = rf_agent_card_failed;
	g->cards.ctx = g;
	rf_cards_open(&g->cards, g->opts->sim_dir, g->opts->driver_lib_dir, g->data_dir);
	open_mps(g);
	if (rf_agent_serve(g, err) < 0 || follow_api(g, err) < 0)
		return -err->code;
	return 0;
}

/* --- end ------------------------------------------------------------------------------------- */

static void free_handle(uv_handle_t *h)
{
	free(h);
}

/* Programs that still run go on without the agent. */
static void close_handle(uv_handle_t *h, void *arg RF_UNUSED)
{
	if (!uv_is_closing(h) && h->type == UV_PROCESS)
		uv_close(h, free_handle);
}

/* A pod that waits for the next start keeps nothing mounted meanwhile; it is made again then. */
static void unmount_volumes(struct rf_agent *g)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&g->workers, s)) != NULL;) {
		struct rf_worker *w = s->value;

		if (!runs(w))
			(void)rf_volumes_unmount(rf_fs_path(&a, "%s/" RF_VOLUMES_DIR, w->dir),
						 NULL);
	}
}

static void on_signal(uv_signal_t *s, int signum)
{
	struct rf_agent *g = s->data;

	g->stopping = true;
	if (signum == SIGINT && g->ready && !g->draining)
		drain(g);
	else
		uv_stop(&g->loop);
}

/* The instance's own cgroup goes too if no pod needs it; a container being made right now would, and
 * none is while the node drains. Where a process is left the kernel keeps the cgroup. */
static void remove_cgroups(struct rf_agent *g)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	bool idle = g->orphans_swept;

	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&g->workers, s)) != NULL;)
		idle = idle && ((struct rf_worker *)s->value)->state == RF_POD_DONE;
	if (idle || g->draining)
		(void)rf_cgroup_remove(&a,
				       rf_cgroup_path(&a, g->instance, RF_STR_EMPTY, RF_STR_EMPTY));
}

/* Containers stay: their shims hold them, and the next agent takes them over. */
static void end(struct rf_agent *g)
{
	if (g->draining)
		unmount_volumes(g);
	remove_cgroups(g);
	if (g->pods != NULL)
		rf_informer_stop(g->pods);
	if (g->claims != NULL)
		rf_informer_stop(g->claims);
	for (struct rf_map_slot *s; (s = rf_map_next(&g->workers, NULL)) != NULL;)
		rf_worker_free(s->value);
	if (g->server != NULL)
		rf_http_server_close(g->server, NULL, NULL);
	uv_close((uv_handle_t *)&g->tick, NULL);
	uv_close((uv_handle_t *)&g->heartbeat, NULL);
	uv_close((uv_handle_t *)&g->soon, NULL);
	uv_close((uv_handle_t *)&g->sigterm, NULL);
	uv_close((uv_handle_t *)&g->sigint, NULL);
	uv_walk(&g->loop, close_handle, NULL);
	/* A bounded number of turns: a client that does not let go must not hold the agent's end
	 * up. */
	for (int i = 0; i < 100 && uv_run(&g->loop, UV_RUN_NOWAIT) != 0; i++)
		;
	(void)uv_loop_close(&g->loop);
	rf_arbiter_stop(g->arbiter);
	rf_kube_free(g->kube);
	rf_tls_free(g->tls);
	rf_cards_close(&g->cards);
	rf_mps_close(g->mps);
	rf_buf_done(&g->slice_sent);
	rf_map_done(&g->workers);
	rf_arena_done(&g->arena);
}

static void start_clocks(struct rf_agent *g)
{
	uv_timer_init(&g->loop, &g->tick);
	uv_timer_init(&g->loop, &g->heartbeat);
	uv_timer_init(&g->loop, &g->soon);
	uv_signal_init(&g->loop, &g->sigterm);
	uv_signal_init(&g->loop, &g->sigint);
	g->tick.data = g->heartbeat.data = g->soon.data = g->sigterm.data = g->sigint.data = g;
	uv_timer_start(&g->tick, on_tick, 0, TICK_MS);
	uv_timer_start(&g->heartbeat, on_heartbeat, HEARTBEAT_MS, HEARTBEAT_MS);
	uv_signal_start(&g->sigterm, on_signal, SIGTERM);
	uv_signal_start(&g->sigint, on_signal, SIGINT);
}

int rf_node_run(const struct rf_node_opts *opts, struct rf_err *err)
{
	struct rf_agent *g;

	signal(SIGPIPE, SIG_IGN);
	if (check_machine(opts, err) < 0)
		return -err->code;
	g = rf_new(struct rf_agent);
	*g = (struct rf_agent){ .arena = RF_ARENA_INIT,
				.name = rf_str(opts->name),
				.slice_sent = RF_BUF_INIT,
				.workers = RF_MAP_INIT };
	rf_cards_measurer_start(&g->cards, opts->sim_dir, opts->driver_lib_dir);
	uv_loop_init(&g->loop);
	start_clocks(g);
	int rc = begin(g, opts, err);
	if (rc == 0)
		(void)uv_run(&g->loop, UV_RUN_DEFAULT);
	end(g);
	free(g);
	return rc;
}
