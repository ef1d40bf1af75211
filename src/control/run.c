/* The process: waits for the API server, follows it, takes the lease, and does what is due. */
#include "control/private.h"

#include <stdio.h>

#define BEGIN_RETRY_MS 100
#define WORK_RETRY_MS 500
#define COMPLAIN_EVERY_MS 10000
#define STATUS_EVERY_MS 5000  /* of queues */
#define LEDGER_EVERY_MS 60000 /* and the usage in the queues' status */

static void stop(struct rf_control *c)
{
	if (c->stopping)
		return;
	c->stopping = true;
	uv_stop(&c->loop);
}

void rf_control_fail(struct rf_control *c, const struct rf_err *err)
{
	c->failed = *err;
	stop(c);
}

/* While waiting the same thing goes wrong again and again; it is said once. */
static void complain(struct rf_control *c, const struct rf_err *err)
{
	if (strncmp(c->complaint, err->msg, sizeof(c->complaint) - 1) == 0)
		return;
	snprintf(c->complaint, sizeof(c->complaint), "%.*s", (int)sizeof(c->complaint) - 1,
		 err->msg);
	rf_warn("%s; trying again", err->msg);
}

bool rf_control_leads(const struct rf_control *c)
{
	return rf_lease_held(&c->lease);
}

/* --- work ------------------------------------------------------------------------------------- */

static bool synced(const struct rf_control *c)
{
	for (int i = 0; i < RF_I_COUNT; i++) {
		if (c->informers[i] == NULL || !rf_informer_synced(c->informers[i]))
			return false;
	}
	return true;
}

static int feed_list(struct rf_control *c, const struct rf_kube_res *res,
		     void (*feed)(struct rf_control *c, const struct rf_json *o),
		     struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *list = NULL;
	const struct rf_json *items = NULL;

	if (rf_kube_get(c->kube, &a, rf_kube_path(&a, res, RF_STR_EMPTY, RF_STR_EMPTY, NULL), &list,
			err) < 0)
		return rf_wrap(err, "list %s", res->plural);
	items = rf_json_at(list, "items");
	for (size_t i = 0; i < rf_json_len(items); i++)
		feed(c, rf_json_item(items, i));
	return 0;
}

static void feed_pod(struct rf_control *c, const struct rf_json *pod)
{
	rf_feed_pod(&c->placer, NULL, pod);
}

static void feed_claim(struct rf_control *c, const struct rf_json *claim)
{
	rf_feed_claim(&c->placer, NULL, claim);
}

/* The leader before us may have written an instant ago what our watches have yet to bring. The
 * server refuses a card given twice by itself, but not two tenants on a node that one of them wants
 * alone. */
static bool catch_up(struct rf_control *c)
{
	struct rf_err err = RF_ERR_INIT;

	c->placer.now_ms = rf_control_now(c);
	if (feed_list(c, &RF_PODS, feed_pod, &err) == 0 &&
	    feed_list(c, &RF_RESOURCECLAIMS, feed_claim, &err) == 0 &&
	    rf_usage_load(&c->placer, &err) == 0)
		return true;
	complain(c, &err);
	rf_control_wake(c, BEGIN_RETRY_MS);
	return false;
}

static void all_claims_due(struct rf_control *c)
{
	const struct rf_map_slot *slot = NULL;
	const struct rf_json *o = NULL;

	while ((o = rf_informer_next(c->informers[RF_I_CLAIMS], &slot)) != NULL) {
		rf_auto(arena) a = RF_ARENA_INIT;

		(void)rf_map_set(&c->claims_some, rf_kube_display(&a, o), c);
	}
	c->claims_due = true;
}

static void become_ready(struct rf_control *c)
{
	if (c->ready || !synced(c) || !rf_control_leads(c) || !catch_up(c))
		return;
	c->ready = true;
	c->tenants_due = c->pods_due = true;
	all_claims_due(c);
	c->ledger_ms = c->status_ms = c->placer.now_ms;
	printf("control ready\n");
	fflush(stdout);
	rf_info("ready, as %s", c->lease.me);
	rf_control_wake(c, 0);
}

/* Runs one kind of work if it is due; what failed stays due. */
static bool run_due(struct rf_control *c, bool *due, bool (*work)(struct rf_control *c))
{
	bool was = *due;

	*due = false;
	if (!was || work(c))
		return true;
	*due = true;
	return false;
}

static bool is_over(const struct rf_control *c, int64_t since, int64_t ms)
{
	return c->placer.now_ms - since >= ms;
}

/* Queues' status and the ledger: now and then, and only if something moved or runs. */
static void keep_books(struct rf_control *c)
{
	bool minute = (c->placer.moved || c->placer.running > 0) && is_over(c, c->ledger_ms, LEDGER_EVERY_MS);
	struct rf_err err = RF_ERR_INIT;
	int64_t again = 0;

	if (minute) {
		c->ledger_ms = c->placer.now_ms;
		if (rf_usage_save(&c->placer, &err) < 0)
			rf_warn("%s; trying again in a minute", err.msg);
	}
	if (minute || (c->placer.moved && is_over(c, c->status_ms, STATUS_EVERY_MS))) {
		c->status_ms = c->placer.now_ms;
		rf_books_queues_due(&c->placer, minute);
	}
	again = rf_books_write_queues(&c->placer);
	if (again >= 0)
		rf_control_wake(c, (uint64_t)again);
	if (c->placer.moved)
		rf_control_wake(c, (uint64_t)RF_MAX(c->status_ms + STATUS_EVERY_MS - c->placer.now_ms, INT64_C(1)));
	else if (c->placer.running > 0)
		rf_control_wake(c, LEDGER_EVERY_MS);
}

static bool place(struct rf_control *c)
{
	int64_t again = 0;

	c->placer.now_ms = rf_control_now(c);
	again = rf_placer_turn(&c->placer);
	if (again < 0)
		return true;
	c->place_ms = c->placer.now_ms + again;
	if (again == 0)
		rf_control_wake(c, 0);
	return true;
}

static void on_work(uv_timer_t *timer)
{
	struct rf_control *c = timer->data;
	bool ok = true;

	become_ready(c);
	if (!c->ready || !rf_control_leads(c))
		return;
	c->placer.now_ms = rf_control_now(c);
	c->pods_due |= c->placer.now_ms >= c->place_ms;
	if (c->tenants_due)
		rf_map_clear(&c->tenants_some);
	ok &= run_due(c, &c->tenants_due, rf_control_tenants);
	ok &= run_due(c, &c->some_due, rf_control_some_tenants);
	ok &= run_due(c, &c->claims_due, rf_control_collect);
	ok &= run_due(c, &c->groups_due, rf_control_adopt);
	if (c->pods_due)
		c->place_ms = INT64_MAX;
	ok &= run_due(c, &c->pods_due, place);
	if (c->place_ms != INT64_MAX && c->place_ms > c->placer.now_ms)
		rf_control_wake(c, (uint64_t)RF_MIN(c->place_ms - c->placer.now_ms, (int64_t)INT32_MAX));
	keep_books(c);
	if (!ok)
		rf_control_wake(c, WORK_RETRY_MS);
}

void rf_control_wake(struct rf_control *c, uint64_t ms)
{
	if (c->stopping)
		return;
	ms = RF_MAX(ms, UINT64_C(1)); /* one that is due at once would be run again before anybody is heard */
	if (uv_is_active((uv_handle_t *)&c->work_timer) &&
	    uv_timer_get_due_in(&c->work_timer) <= ms)
		return;
	uv_timer_start(&c->work_timer, on_work, ms, 0);
}

/* --- lease ------------------------------------------------------------------------------------ */

static void on_lease(uv_timer_t *timer)
{
	struct rf_control *c = timer->data;
	bool led = rf_control_leads(c);
	struct rf_err err = RF_ERR_INIT;

	if (rf_lease_step(&c->lease, c->kube, &err) < 0)
		complain(c, &err);
	if (c->ready && !rf_control_leads(c)) {
		rf_fail(&err, RF_UNAVAILABLE,
			"the lease is lost; another control leads, or the API server "
			"could not be reached for %d s",
			RF_LEASE_S);
		rf_control_fail(c, &err);
		return;
	}
	if (!led && rf_control_leads(c))
		rf_info("leading, as %s", c->lease.me);
	uv_timer_start(&c->lease_timer, on_lease,
		       rf_control_leads(c) && err.code == RF_OK ? RF_LEASE_RENEW_MS
								: RF_LEASE_RETRY_MS,
		       0);
	if (!c->ready)
		rf_control_wake(c, 0);
}

/* --- beginning -------------------------------------------------------------------------------- */

static void on_sync(void *ear)
{
	rf_control_wake(((struct rf_control_ear *)ear)->c, 0);
}

/* Many informers lose one server: one of them says so, and not at every attempt. */
static void on_informer_error(void *ear, const struct rf_err *err)
{
	struct rf_control *c = ((struct rf_control_ear *)ear)->c;
	uint64_t now = uv_now(&c->loop);

	if (c->complained_ms != 0 && now - c->complained_ms < COMPLAIN_EVERY_MS)
		return;
	c->complained_ms = now;
	rf_warn("%s; trying again", err->msg);
}

static int start_informers(struct rf_control *c, struct rf_err *err)
{
	static const struct rf_kube_res *const kinds[RF_I_COUNT] = {
		[RF_I_TENANTS] = &RF_TENANTS,	    [RF_I_NAMESPACES] = &RF_NAMESPACES,
		[RF_I_NODES] = &RF_NODES,	    [RF_I_PODS] = &RF_PODS,
		[RF_I_CLAIMS] = &RF_RESOURCECLAIMS, [RF_I_SLICES] = &RF_RESOURCESLICES,
		[RF_I_QUEUES] = &RF_QUEUES,	    [RF_I_QUOTAS] = &RF_RESOURCEQUOTAS,
		[RF_I_BINDINGS] = &RF_ROLEBINDINGS, [RF_I_ACCOUNTS] = &RF_SERVICEACCOUNTS,
		[RF_I_GROUPS] = &RF_PODGROUPS,	    [RF_I_BUDGETS] = &RF_BUDGETS,
		[RF_I_GPU_POOLS] = &RF_GPUPOOLS,
		[RF_I_CLUSTER_ROLES] = &RF_CLUSTERROLES,
		[RF_I_CLUSTER_BINDINGS] = &RF_CLUSTERROLEBINDINGS,
	};

	for (int i = 0; i < RF_I_COUNT; i++) {
		struct rf_informer_opts o = { .config = &c->config,
					      .res = kinds[i],
					      .ns = RF_STR_EMPTY,
					      .label_selector = RF_STR_EMPTY,
					      .field_selector = RF_STR_EMPTY,
					      .on_change = rf_control_heard,
					      .on_sync = on_sync,
					      .on_error = on_informer_error,
					      .ctx = &c->ears[i] };

		c->ears[i].c = c;
		c->ears[i].kind = (enum rf_informer_kind)i;
		if (rf_informer_start(&c->loop, &o, &c->informers[i], err) < 0)
			return rf_wrap(err, "follow %s", kinds[i]->plural);
	}
	return 0;
}

static int configure(struct rf_control *c, struct rf_err *err)
{
	bool in_pod = c->opts->kubeconfig_path == NULL && getenv("KUBERNETES_SERVICE_HOST") != NULL;

	rf_arena_reset(&c->a);
	if (in_pod ? rf_kubeconfig_in_cluster(&c->a, &c->config, err) < 0
		   : rf_kubeconfig_load(&c->a, c->opts->kubeconfig_path, &c->config, err) < 0)
		return -err->code;
	return rf_kube_new(&c->config, &c->kube, err);
}

static int reach_server(struct rf_control *c, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str text = RF_STR_EMPTY;

	if (c->kube == NULL && configure(c, err) < 0)
		return -err->code;
	return rf_kube_raw(c->kube, &a, RF_LIT("/readyz"), &text, err);
}

/* The kubeconfig may not be written yet and the server may not be up: both are looked for often,
 * because a whole platform waits for this. The webhook comes before the lease: it is served by whoever
 * does not lead, too. */
static void on_begin(uv_timer_t *timer)
{
	struct rf_control *c = timer->data;
	struct rf_err err = RF_ERR_INIT;
	bool again = true;
	int rc = reach_server(c, &err);

	if (rc == 0)
		rc = rf_control_webhook(c, &again, &err);
	if (rc < 0 && again) {
		/* A kubeconfig may be replaced while the server starts: read it anew. */
		rf_kube_free(c->kube);
		c->kube = NULL;
		complain(c, &err);
		uv_timer_start(&c->begin_timer, on_begin, BEGIN_RETRY_MS, 0);
		return;
	}
	if (rc < 0 || rf_control_dashboard(c, &err) < 0 || start_informers(c, &err) < 0) {
		rf_control_fail(c, &err);
		return;
	}
	if (c->webhook != NULL)
		c->policies = rf_bookkeeper_start(c);
	c->adoption = rf_adoption_start(c);
	on_lease(&c->lease_timer);
}

static void on_signal(uv_signal_t *s, int number)
{
	rf_info("signal %d: stopping", number);
	stop(s->data);
}

int64_t rf_control_now(const struct rf_control *c)
{
	return c->epoch_ms + rf_mono_ns(rf_clock_system()) / 1000000;
}

static int set_up_placer(struct rf_control *c, struct rf_err *err)
{
	struct rf_core_config config;

	c->epoch_ms = rf_wall_ms(rf_clock_system()) - rf_mono_ns(rf_clock_system()) / 1000000;
	c->place_ms = INT64_MAX;
	rf_core_config_default(&config);
	rf_placer_init(&c->placer, rf_core_new(&config));
	rf_control_placer(c);
	if (c->opts->event_log == NULL)
		return 0;
	if (rf_event_log_open(c->opts->event_log, RF_EVENT_LOG_MAX, &c->event_log, err) < 0)
		return -err->code;
	rf_core_log_to(c->placer.core, rf_event_log_line, c->event_log);
	return 0;
}

static int set_up(struct rf_control *c, struct rf_err *err)
{
	uv_timer_t *const timers[] = { &c->begin_timer, &c->lease_timer, &c->work_timer };

	if (uv_loop_init(&c->loop) < 0)
		return rf_fail(err, RF_SYSTEM, "make an event loop");
	for (size_t i = 0; i < RF_COUNT(timers); i++) {
		(void)uv_timer_init(&c->loop, timers[i]);
		timers[i]->data = c;
	}
	(void)uv_signal_init(&c->loop, &c->term);
	(void)uv_signal_init(&c->loop, &c->interrupt);
	c->term.data = c->interrupt.data = c;
	uv_signal_start(&c->term, on_signal, SIGTERM);
	uv_signal_start(&c->interrupt, on_signal, SIGINT);
	uv_timer_start(&c->begin_timer, on_begin, 0, 0);
	rf_lease_init(&c->lease);
	return set_up_placer(c, err);
}

static void tear_down(struct rf_control *c)
{
	void *const own[] = { &c->begin_timer, &c->lease_timer, &c->work_timer, &c->term,
			      &c->interrupt };

	struct rf_err err = RF_ERR_INIT;

	c->placer.now_ms = rf_control_now(c);
	if (c->ready && rf_control_leads(c) && rf_usage_save(&c->placer, &err) < 0)
		rf_warn("%s", err.msg);
	if (c->kube != NULL)
		rf_lease_release(&c->lease, c->kube);
	for (int i = 0; i < RF_I_COUNT; i++) {
		if (c->informers[i] != NULL)
			rf_informer_stop(c->informers[i]);
	}
	rf_web_stop(c->dashboard);
	rf_webhook_stop(c->webhook);
	rf_bookkeeper_stop(c->policies);
	rf_adoption_stop(c->adoption);
	for (size_t i = 0; i < RF_COUNT(own); i++)
		uv_close(own[i], NULL);
	uv_run(&c->loop, UV_RUN_DEFAULT); /* until all of it is closed, the informers' part too */
	(void)uv_loop_close(&c->loop);
	rf_bookkeeper_free(c->policies);
	rf_adoption_free(c->adoption);
	rf_tls_free(c->dashboard_tls);
	rf_kube_free(c->kube);
	rf_placer_done(&c->placer);
	rf_core_free(c->placer.core);
	rf_event_log_close(c->event_log);
	rf_map_done(&c->crowded);
	rf_map_done(&c->tenants_some);
	rf_map_done(&c->claims_some);
	rf_arena_done(&c->a);
}

int rf_control_run(const struct rf_control_opts *opts, struct rf_err *err)
{
	struct rf_control *c = rf_new(struct rf_control);
	int rc = 0;

	c->opts = opts;
	rc = set_up(c, err);
	if (rc == 0)
		uv_run(&c->loop, UV_RUN_DEFAULT);
	if (c->placer.core != NULL)
		tear_down(c);
	if (rc == 0 && c->failed.code != RF_OK)
		rc = rf_fail(err, (enum rf_code)c->failed.code, "%s", c->failed.msg);
	free(c);
	return rc;
}
