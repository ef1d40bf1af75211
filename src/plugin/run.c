/* The agent: puts its parts on one loop and takes them off again. */
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fs.h"
#include "plugin/private.h"

#define TICK_MS 1000
#define SOON_MS 20 /* a kubelet that starts writes several files in a row */
#define API_TIMEOUT_MS 5000

/* --- reading the API ----------------------------------------------------------------------------- */

int rf_plugin_pod(struct rf_plugin *p, struct rf_arena *a, struct rf_str ns, struct rf_str name,
		  const struct rf_json **ret, struct rf_err *err)
{
	const struct rf_json *pod = rf_informer_get(p->pods, ns, name);
	struct rf_json *got;

	/* A pod that is on its way out may hide a new one of its name. */
	if (pod == NULL || rf_kube_deleting(pod)) {
		if (rf_kube_get(p->kube, a, rf_kube_path(a, &RF_PODS, ns, name, NULL), &got, err) < 0)
			return rf_wrap(err, "read pod %.*s/%.*s", RF_STR(ns), RF_STR(name));
		pod = got;
	}
	if (!rf_str_eq(rf_json_str_at(pod, "spec", "nodeName"), p->name))
		return rf_fail(err, RF_FORBIDDEN, "pod %.*s/%.*s is not on this node", RF_STR(ns),
			       RF_STR(name));
	*ret = pod;
	return 0;
}

int rf_plugin_claim(struct rf_plugin *p, struct rf_arena *a, struct rf_str ns, struct rf_str name,
		    const struct rf_json **ret, struct rf_err *err)
{
	struct rf_json *claim;
	int rc = rf_kube_get(p->kube, a, rf_kube_path(a, &RF_RESOURCECLAIMS, ns, name, NULL), &claim,
			     err);

	if (rc < 0)
		return rf_wrap(err, "read claim %.*s/%.*s", RF_STR(ns), RF_STR(name));
	*ret = claim;
	return 0;
}

/* --- time ------------------------------------------------------------------------------------------ */

static void announce(struct rf_plugin *p)
{
	bool known = p->dra_registered;

	for (size_t i = 0; i < p->n_slots; i++)
		known = known && p->slots[i].registered;
	if (p->ready || !known || !p->published || !rf_informer_synced(p->pods) ||
	    !rf_informer_synced(p->claims))
		return;
	p->ready = true;
	printf("node ready\n");
	fflush(stdout);
	rf_info("node %.*s ready: %zu cards, %zu claims held, port %u", RF_STR(p->name),
		rf_gpu_count(p->cards.gpu), p->held.n, (unsigned)rf_http_server_port(p->server));
}

static void keep_plugins(struct rf_plugin *p)
{
	rf_slots_keep(p);
	rf_dra_keep(p);
}

static void publish(struct rf_plugin *p)
{
	struct rf_err err = RF_ERR_INIT;

	if (!rf_informer_synced(p->slices))
		return;
	if (rf_slice_publish(p, &err) < 0)
		rf_warn("%s; will be tried again", err.msg);
	else
		p->published = true;
}

static void on_tick(uv_timer_t *t)
{
	struct rf_plugin *p = t->data;

	rf_cards_poll(&p->cards);
	rf_slots_tell(p);
	keep_plugins(p);
	publish(p);
	rf_guard_look(p);
	rf_held_sweep(p);
	announce(p);
}

static void on_soon(uv_timer_t *t)
{
	struct rf_plugin *p = t->data;

	keep_plugins(p);
	publish(p);
}

static void soon(struct rf_plugin *p)
{
	if (!uv_is_active((uv_handle_t *)&p->soon))
		uv_timer_start(&p->soon, on_soon, SOON_MS, 0);
}

static void on_folder(uv_fs_event_t *e, const char *name RF_UNUSED, int events RF_UNUSED,
		      int status RF_UNUSED)
{
	soon(e->data);
}

static void on_signal(uv_signal_t *s, int signum RF_UNUSED)
{
	struct rf_plugin *p = s->data;

	uv_stop(&p->loop);
}

/* --- changes in the API ---------------------------------------------------------------------------- */

static void on_api_error(void *ctx RF_UNUSED, const struct rf_err *err)
{
	rf_warn("API server: %s; will be tried again", err->msg);
}

static void on_nothing(void *ctx RF_UNUSED, const struct rf_json *before RF_UNUSED,
		       const struct rf_json *after RF_UNUSED)
{
}

static void on_slice(void *ctx, const struct rf_json *before RF_UNUSED, const struct rf_json *after)
{
	if (after == NULL)
		soon(ctx);
}

static int follow(struct rf_plugin *p, const struct rf_kube_res *res, struct rf_str fields,
		  void (*on_change)(void *, const struct rf_json *, const struct rf_json *),
		  struct rf_informer **ret, struct rf_err *err)
{
	struct rf_informer_opts o = { .config = &p->config,
				      .res = res,
				      .ns = RF_STR_EMPTY,
				      .label_selector = RF_STR_EMPTY,
				      .field_selector = fields,
				      .on_change = on_change,
				      .on_error = on_api_error,
				      .ctx = p };

	return rf_informer_start(&p->loop, &o, ret, err);
}

static int follow_api(struct rf_plugin *p, struct rf_err *err)
{
	struct rf_str mine = rf_arena_printf(&p->arena, "spec.nodeName=%.*s", RF_STR(p->name));

	if (follow(p, &RF_PODS, mine, on_nothing, &p->pods, err) < 0 ||
	    follow(p, &RF_RESOURCECLAIMS, RF_STR_EMPTY, on_nothing, &p->claims, err) < 0 ||
	    follow(p, &RF_RESOURCESLICES, mine, on_slice, &p->slices, err) < 0)
		return -err->code;
	return 0;
}

static int connect_api(struct rf_plugin *p, struct rf_err *err)
{
	bool in_pod = p->opts->kubeconfig_path == NULL && getenv("KUBERNETES_SERVICE_HOST") != NULL;

	if (in_pod ? rf_kubeconfig_in_cluster(&p->arena, &p->config, err) < 0
		   : rf_kubeconfig_load(&p->arena, p->opts->kubeconfig_path, &p->config, err) < 0)
		return -err->code;
	if (rf_kube_new(&p->config, &p->kube, err) < 0)
		return -err->code;
	rf_kube_set_timeout(p->kube, API_TIMEOUT_MS);
	return 0;
}

/* --- beginning and end ------------------------------------------------------------------------------- */

static int open_data(struct rf_plugin *p, struct rf_err *err)
{
	char real[PATH_MAX];

	if (rf_fs_mkdirs(rf_fs_path(&p->arena, "%s/claims", p->opts->data_dir), 0700, err) < 0)
		return -err->code;
	if (realpath(p->opts->data_dir, real) == NULL)
		return rf_fail_errno(err, "data folder %s", p->opts->data_dir);
	p->data_dir = rf_arena_cstr(&p->arena, rf_str(real));
	return 0;
}

static void watch_folder(struct rf_plugin *p)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	/* Without it the tick notices, a second later. */
	if (uv_fs_event_start(&p->folder, on_folder,
			      rf_fs_path(&a, "%s/device-plugins", p->opts->kubelet_dir), 0) < 0)
		rf_warn("%s/device-plugins cannot be watched; looking once a second",
			p->opts->kubelet_dir);
}

static int begin(struct rf_plugin *p, struct rf_err *err)
{
	if (!rf_str_is_dns_subdomain(p->name))
		return rf_fail(err, RF_INVALID, "node name \"%s\": must be a DNS name", p->opts->name);
	if (open_data(p, err) < 0 || rf_cdi_install(p, err) < 0 || connect_api(p, err) < 0)
		return -err->code;
	rf_cards_open(&p->cards, p->opts->sim_dir, p->opts->driver_lib_dir, p->data_dir);
	/* Fences before sockets: running containers come first. */
	rf_held_restore(p);
	if (rf_plugin_serve(p, err) < 0 || follow_api(p, err) < 0 || rf_slots_open(p, err) < 0 ||
	    rf_dra_open(p, err) < 0)
		return -err->code;
	watch_folder(p);
	uv_timer_start(&p->tick, on_tick, 0, TICK_MS);
	return 0;
}

static void make_handles(struct rf_plugin *p)
{
	uv_timer_init(&p->loop, &p->tick);
	uv_timer_init(&p->loop, &p->soon);
	uv_fs_event_init(&p->loop, &p->folder);
	uv_signal_init(&p->loop, &p->sigterm);
	uv_signal_init(&p->loop, &p->sigint);
	p->tick.data = p->soon.data = p->folder.data = p->sigterm.data = p->sigint.data = p;
	uv_signal_start(&p->sigterm, on_signal, SIGTERM);
	uv_signal_start(&p->sigint, on_signal, SIGINT);
}

/* Containers keep their cards; the next agent takes the claims over. */
static void end(struct rf_plugin *p)
{
	struct rf_informer *const informers[] = { p->pods, p->claims, p->slices };
	void *const handles[] = { &p->tick, &p->soon, &p->folder, &p->sigterm, &p->sigint };

	rf_dra_close(p);
	rf_slots_close(p);
	for (size_t i = 0; i < RF_COUNT(informers); i++)
		if (informers[i] != NULL)
			rf_informer_stop(informers[i]);
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&p->held, s)) != NULL;)
		rf_held_free(s->value);
	if (p->server != NULL)
		rf_http_server_close(p->server, NULL, NULL);
	for (size_t i = 0; i < RF_COUNT(handles); i++)
		uv_close(handles[i], NULL);
	/* A bounded number of turns: a peer that does not let go must not hold the end up. */
	for (int i = 0; i < 100 && uv_run(&p->loop, UV_RUN_NOWAIT) != 0; i++)
		;
	(void)uv_loop_close(&p->loop);
	rf_plugin_forget_readers(p);
	rf_kube_free(p->kube);
	rf_tls_free(p->tls);
	rf_cards_close(&p->cards);
	rf_map_done(&p->held);
	rf_arena_done(&p->arena);
}

int rf_plugin_run(const struct rf_plugin_opts *opts, struct rf_err *err)
{
	struct rf_plugin *p = rf_new(struct rf_plugin);
	int rc;

	signal(SIGPIPE, SIG_IGN);
	*p = (struct rf_plugin){ .opts = opts,
				 .arena = RF_ARENA_INIT,
				 .name = rf_str(opts->name),
				 .held = RF_MAP_INIT,
				 .promises = RF_VEC_INIT };
	uv_loop_init(&p->loop);
	make_handles(p);
	rc = begin(p, err);
	if (rc == 0)
		(void)uv_run(&p->loop, UV_RUN_DEFAULT);
	end(p);
	free(p);
	return rc;
}
