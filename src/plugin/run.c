/* The agent: puts its parts on one loop and takes them off again. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/fs.h"
#include "fence/arbiter.h"
#include "plugin/private.h"

#define TICK_MS 1000
#define SOON_MS 20 /* a kubelet that starts writes several files in a row */
#define END_MS 1000

/* --- time ------------------------------------------------------------------------------------- */

int64_t rf_plugin_now(void)
{
	return rf_mono_ns(rf_clock_system()) / 1000000;
}

static void announce(struct rf_plugin *p)
{
	if (p->ready || !p->dra_registered || !rf_slots_known(p) || !p->published ||
	    !rf_informer_synced(p->pods))
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
}

static bool is_held(void *ctx, int index)
{
	struct rf_plugin *p = ctx;
	bool whole;

	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&p->held, s)) != NULL;)
		if (rf_held_card(s->value, index, &whole) != NULL)
			return true;
	return false;
}

static bool is_wanted(void *ctx, struct rf_str pod_uid)
{
	struct rf_plugin *p = ctx;

	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&p->held, s)) != NULL;)
		if (rf_str_is(pod_uid, ((const struct rf_held *)s->value)->pod_uid))
			return true;
	return false;
}

/* What may wait for the API server comes last. */
static void look_after(struct rf_plugin *p)
{
	keep_plugins(p);
	publish(p);
	rf_sweep_orphans(p);
	rf_sweep_ended(p);
	if (p->orphans_known) {
		rf_cards_measure(&p->cards, is_held, p);
		rf_slices_sweep(&p->cards, is_wanted, p);
		rf_mps_sweep(p->mps, is_wanted, p);
	}
	announce(p);
}

static void on_tick(uv_timer_t *t)
{
	struct rf_plugin *p = t->data;

	rf_cards_poll(&p->cards);
	rf_slots_tell(p);
	rf_held_mend(p);
	rf_guard_look(p);
	rf_guard_mps(p);
	look_after(p);
}

static void on_soon(uv_timer_t *t)
{
	look_after(t->data);
}

void rf_plugin_soon(struct rf_plugin *p)
{
	if (!uv_is_active((uv_handle_t *)&p->soon))
		uv_timer_start(&p->soon, on_soon, SOON_MS, 0);
}

static void on_folder(uv_fs_event_t *e, const char *name RF_UNUSED, int events RF_UNUSED,
		      int status RF_UNUSED)
{
	rf_plugin_soon(e->data);
}

static void on_signal(uv_signal_t *s, int signum RF_UNUSED)
{
	struct rf_plugin *p = s->data;

	uv_stop(&p->loop);
}

/* --- changes in the API ----------------------------------------------------------------------- */

static void on_api_error(void *ctx RF_UNUSED, const struct rf_err *err)
{
	rf_warn("API server: %s; will be tried again", err->msg);
}

/* Its cards may be free now. */
static void on_pod(void *ctx, const struct rf_json *before RF_UNUSED, const struct rf_json *after)
{
	if (after == NULL || !rf_pod_counts(after))
		rf_plugin_soon(ctx);
}

static void on_sync(void *ctx)
{
	rf_plugin_soon(ctx);
}

static void on_slice(void *ctx, const struct rf_json *before RF_UNUSED, const struct rf_json *after)
{
	if (after == NULL)
		rf_plugin_soon(ctx);
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
				      .on_sync = on_sync,
				      .on_error = on_api_error,
				      .ctx = p };

	return rf_informer_start(&p->loop, &o, ret, err);
}

static int follow_api(struct rf_plugin *p, struct rf_err *err)
{
	struct rf_str mine = rf_arena_printf(&p->arena, "spec.nodeName=%.*s", RF_STR(p->name));

	if (follow(p, &RF_PODS, mine, on_pod, &p->pods, err) < 0 ||
	    follow(p, &RF_RESOURCESLICES, mine, on_slice, &p->slices, err) < 0)
		return -err->code;
	return 0;
}

/* --- beginning and end ------------------------------------------------------------------------ */

/* Two agents on one folder would let go of each other's claims. */
static int take_lock(struct rf_plugin *p, struct rf_err *err)
{
	const char *path = rf_fs_path(&p->arena, "%s/lock", p->data_dir);

	p->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (p->lock < 0)
		return rf_fail_errno(err, "open %s", path);
	if (flock(p->lock, LOCK_EX | LOCK_NB) < 0)
		return rf_fail(err, RF_CONFLICT,
			       "%s: another agent uses this data folder; wait for its end",
			       p->data_dir);
	return 0;
}

static int open_data(struct rf_plugin *p, struct rf_err *err)
{
	char real[PATH_MAX];

	if (rf_fs_mkdirs(rf_fs_path(&p->arena, "%s/claims", p->opts->data_dir), 0700, err) < 0)
		return -err->code;
	if (realpath(p->opts->data_dir, real) == NULL)
		return rf_fail_errno(err, "data folder %s", p->opts->data_dir);
	p->data_dir = rf_arena_cstr(&p->arena, rf_str(real));
	return take_lock(p, err);
}

/* Every fence and every client needs some. */
static void raise_files(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) < 0)
		return;
	l.rlim_cur = l.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &l) < 0)
		rf_warn("open files: the limit stays as it is: %s", strerror(errno));
}

static void watch_folders(struct rf_plugin *p)
{
	static const char *const names[] = { "device-plugins", "plugins_registry",
					     ("plugins/" RF_DRIVER) };

	for (size_t i = 0; i < RF_COUNT(p->folders); i++) {
		rf_auto(arena) a = RF_ARENA_INIT;
		const char *dir = rf_fs_path(&a, "%s/%s", p->opts->kubelet_dir, names[i]);

		/* Without it the tick notices, a second later. */
		if (uv_fs_event_start(&p->folders[i], on_folder, dir, 0) < 0)
			rf_warn("%s cannot be watched; looking once a second", dir);
	}
}

/* In a container the driver's programs are the machine's. Simulated cards have a stand-in beside their driver. */
static void open_mps(struct rf_plugin *p)
{
	struct rf_mps_opts o = { .dir = rf_fs_path(&p->arena, "%s/mps", p->data_dir),
				 .program = p->opts->mps_control,
				 .on_host = p->opts->driver_host_dir != NULL && p->opts->sim_dir == NULL };

	if (o.program == NULL && p->opts->sim_dir != NULL)
		o.program = rf_fs_path(&p->arena, "%s/" RF_MPS_PROGRAM, p->opts->driver_lib_dir);
	p->mps = rf_mps_open(&o);
}

static int begin(struct rf_plugin *p, struct rf_err *err)
{
	if (!rf_str_is_dns_subdomain(p->name))
		return rf_fail(err, RF_INVALID, "node name \"%s\": must be a DNS name",
			       p->opts->name);
	raise_files();
	if (open_data(p, err) < 0 || rf_cdi_install(p, err) < 0 || rf_plugin_connect(p, err) < 0)
		return -err->code;
	rf_cards_open(&p->cards, p->opts->sim_dir, p->opts->driver_lib_dir, p->data_dir);
	open_mps(p);
	/* Fences before sockets: running containers come first. */
	rf_sweep_restore(p);
	rf_promise_load(p);
	rf_cdi_tidy(p);
	if (rf_plugin_serve(p, err) < 0 || follow_api(p, err) < 0 || rf_slots_open(p, err) < 0 ||
	    rf_dra_open(p, err) < 0)
		return -err->code;
	watch_folders(p);
	uv_timer_start(&p->tick, on_tick, 0, TICK_MS);
	return 0;
}

static void make_handles(struct rf_plugin *p)
{
	uv_timer_init(&p->loop, &p->tick);
	uv_timer_init(&p->loop, &p->soon);
	for (size_t i = 0; i < RF_COUNT(p->folders); i++) {
		uv_fs_event_init(&p->loop, &p->folders[i]);
		p->folders[i].data = p;
	}
	uv_signal_init(&p->loop, &p->sigterm);
	uv_signal_init(&p->loop, &p->sigint);
	p->tick.data = p->soon.data = p->sigterm.data = p->sigint.data = p;
	uv_signal_start(&p->sigterm, on_signal, SIGTERM);
	uv_signal_start(&p->sigint, on_signal, SIGINT);
}

static void close_handles(struct rf_plugin *p)
{
	void *const handles[] = { &p->tick,	  &p->soon,    &p->folders[0], &p->folders[1],
				  &p->folders[2], &p->sigterm, &p->sigint };
	int64_t until = rf_plugin_now() + END_MS;

	for (size_t i = 0; i < RF_COUNT(handles); i++)
		uv_close(handles[i], NULL);
	/* A peer that does not let go must not hold the end up. */
	while (uv_run(&p->loop, UV_RUN_NOWAIT) != 0 && rf_plugin_now() < until)
		usleep(1000);
	if (uv_loop_close(&p->loop) < 0)
		rf_warn("a connection was left open");
}

/* Containers keep their cards; the next agent takes the claims over. */
static void end(struct rf_plugin *p)
{
	struct rf_informer *const informers[] = { p->pods, p->slices };

	rf_dra_close(p);
	rf_slots_close(p);
	for (size_t i = 0; i < RF_COUNT(informers); i++)
		if (informers[i] != NULL)
			rf_informer_stop(informers[i]);
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&p->held, s)) != NULL;)
		rf_held_free(s->value);
	if (p->server != NULL)
		rf_http_server_close(p->server, NULL, NULL);
	close_handles(p);
	rf_arbiter_stop(p->arbiter);
	rf_kube_free(p->kube);
	rf_tls_free(p->tls);
	rf_cards_close(&p->cards);
	rf_mps_close(p->mps);
	rf_map_done(&p->held);
	rf_buf_done(&p->slice_devices);
	rf_map_done(&p->unknown);
	rf_arena_done(&p->arena);
	if (p->lock >= 0)
		close(p->lock);
}

int rf_plugin_run(const struct rf_plugin_opts *opts, struct rf_err *err)
{
	struct rf_plugin *p = rf_new(struct rf_plugin);
	int rc;

	signal(SIGPIPE, SIG_IGN);
	*p = (struct rf_plugin){ .opts = opts,
				 .arena = RF_ARENA_INIT,
				 .name = rf_str(opts->name),
				 .lock = -1,
				 .held = RF_MAP_INIT,
				 .slice_devices = RF_BUF_INIT,
				 .unknown = RF_MAP_INIT,
				 .promises = RF_VEC_INIT };
	rf_cards_measurer_start(&p->cards, opts->sim_dir, opts->driver_lib_dir);
	uv_loop_init(&p->loop);
	make_handles(p);
	rc = begin(p, err);
	if (rc == 0)
		(void)uv_run(&p->loop, UV_RUN_DEFAULT);
	end(p);
	free(p);
	return rc;
}
