/* One pod: facts are gathered, state.c's table says what follows, and the state's work is done. */
#include <signal.h>
#include <stdio.h>

#include "base/fs.h"
#include "node/agent.h"
#include "node/cgroup.h"
#include "node/volume.h"

#define BACKOFF_FIRST_MS 1000
#define BACKOFF_MAX_MS 60000
#define GRACE_DEFAULT_S 30
#define SECONDS_MAX (100LL * 365 * 86400) /* a tenant's number; times 1000 it must still be one */
#define STOP_LOOK_MS 100		  /* how often a stopping pod is looked at */
#define DRAIN_GRACE_MS 8000		  /* the most a pod gets when the whole node stops */
#define HEALTHY_RUN_MS (10 * 60 * 1000) /* a container that ran so long begins its back-off anew */

/* --- looking things up ----------------------------------------------------------------------- */

const struct rf_json *rf_container_spec(const struct rf_container *c)
{
	return rf_json_item(
		rf_json_at(c->worker->pod, "spec", c->init ? "initContainers" : "containers"),
		c->index);
}

struct rf_container *rf_worker_container(struct rf_worker *w, struct rf_str name)
{
	for (size_t i = 0; i < w->n_containers; i++)
		if (rf_str_is(name, w->containers[i].name))
			return &w->containers[i];
	return NULL;
}

struct rf_worker *rf_worker_find(struct rf_agent *g, struct rf_str ns, struct rf_str name)
{
	struct rf_worker *hit = NULL;

	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&g->workers, s)) != NULL;) {
		struct rf_worker *w = s->value;

		/* A pod deleted by force and made again leaves two of one name: the API's is
		 * meant. */
		if (rf_str_is(ns, w->ns) && rf_str_is(name, w->name) && (hit == NULL || w->in_api))
			hit = w;
	}
	return hit;
}

bool rf_worker_unwanted(const struct rf_worker *w)
{
	return !w->in_api || rf_kube_deleting(w->pod);
}

static bool restart_always(const struct rf_worker *w)
{
	struct rf_str p = rf_json_str_at(w->pod, "spec", "restartPolicy");

	return p.n == 0 || rf_str_is(p, "Always");
}

static bool will_restart(const struct rf_container *c)
{
	struct rf_str policy = rf_json_str_at(c->worker->pod, "spec", "restartPolicy");

	if (c->state != RF_CONTAINER_EXITED || c->worker->refused)
		return false;
	if (c->now.code == 0)
		return !c->init && restart_always(c->worker);
	return restart_always(c->worker) || rf_str_is(policy, "OnFailure");
}

/* --- making and freeing ---------------------------------------------------------------------- */

static void add_containers(struct rf_worker *w, const char *list, bool init)
{
	const struct rf_json *specs = rf_json_at(w->pod, "spec", list);

	for (size_t i = 0; i < rf_json_len(specs); i++) {
		struct rf_container *c = &w->containers[w->n_containers++];
		struct rf_str name = rf_json_str_at(rf_json_item(specs, i), "name");
		rf_auto(arena) a = RF_ARENA_INIT;

		*c = (struct rf_container){ .worker = w,
					    .name = rf_strdup(rf_arena_cstr(&a, name)),
					    .init = init,
					    .index = i };
		c->dir = rf_strdup(
			rf_fs_path(&a, "%s/%s", w->dir, rf_str_is_dns_label(name) ? c->name : "-"));
	}
}

static void keep_pod(struct rf_worker *w, const struct rf_json *pod)
{
	struct rf_arena fresh = RF_ARENA_INIT;

	w->pod = rf_json_clone(&fresh, pod);
	rf_arena_done(&w->arena);
	w->arena = fresh;
}

/* Folder names come from the API server; anything but a plain uid would lead elsewhere. */
static bool uid_ok(struct rf_str uid)
{
	return rf_str_is_dns_label(uid);
}

static struct rf_worker *make_worker(struct rf_agent *g, const struct rf_json *pod)
{
	struct rf_worker *w = rf_new(struct rf_worker);
	rf_auto(arena) a = RF_ARENA_INIT;

	*w = (struct rf_worker){
		.agent = g, .arena = RF_ARENA_INIT, .status_sent = RF_BUF_INIT, .in_api = true
	};
	w->uid = rf_strdup(rf_arena_cstr(&a, rf_kube_uid(pod)));
	w->ns = rf_strdup(rf_arena_cstr(&a, rf_kube_namespace(pod)));
	w->name = rf_strdup(rf_arena_cstr(&a, rf_kube_name(pod)));
	w->dir = rf_strdup(rf_fs_path(&a, "%s/pods/%s", g->data_dir, w->uid));
	keep_pod(w, pod);
	size_t n = rf_json_len(rf_json_at(w->pod, "spec", "containers")) +
		   rf_json_len(rf_json_at(w->pod, "spec", "initContainers"));
	w->containers = rf_alloc(sizeof(struct rf_container) * (n + 1));
	add_containers(w, "initContainers", true);
	add_containers(w, "containers", false);
	rf_map_set(&g->workers, rf_str(w->uid), w);
	return w;
}

void rf_worker_free(struct rf_worker *w)
{
	for (size_t i = 0; i < w->n_containers; i++) {
		rf_container_unfollow(&w->containers[i]);
		rf_container_unfence(&w->containers[i]);
		free(w->containers[i].name);
		free(w->containers[i].dir);
	}
	rf_map_del(&w->agent->workers, rf_str(w->uid));
	free(w->containers);
	free(w->uid);
	free(w->ns);
	free(w->name);
	free(w->dir);
	rf_buf_done(&w->status_sent);
	rf_arena_done(&w->arena);
	free(w);
}

/* What an earlier agent left: containers that run or ran; a pod that already ended. */
static void take_over(struct rf_worker *w)
{
	struct rf_str phase = rf_json_str_at(w->pod, "status", "phase");

	for (size_t i = 0; i < w->n_containers; i++)
		rf_container_adopt(&w->containers[i]);
	if (!rf_str_is(phase, "Succeeded") && !rf_str_is(phase, "Failed"))
		return;
	w->state = RF_POD_STOPPING; /* goes through at once if nothing is left */
	w->terminal_sent = true;
	w->needs_claim = true; /* perhaps; a missing claim is no error */
	snprintf(w->reason, sizeof(w->reason), "%.*s",
		 RF_STR(rf_json_str_at(w->pod, "status", "reason")));
}

void rf_worker_seen(struct rf_agent *g, const struct rf_json *pod)
{
	struct rf_worker *w = rf_map_get(&g->workers, rf_kube_uid(pod));

	if (w == NULL) {
		if (!uid_ok(rf_kube_uid(pod)))
			return rf_warn("pod %.*s: its uid is not usable; ignored",
				       RF_STR(rf_kube_name(pod)));
		w = make_worker(g, pod);
		take_over(w);
	} else {
		keep_pod(w, pod);
	}
	rf_worker_step(w);
}

void rf_worker_gone(struct rf_agent *g, const struct rf_json *pod)
{
	struct rf_worker *w = rf_map_get(&g->workers, rf_kube_uid(pod));

	if (w == NULL)
		return;
	w->in_api = false;
	rf_worker_step(w);
}

bool rf_worker_holds(const struct rf_worker *w, int index)
{
	for (size_t i = 0; i < w->n_containers; i++)
		for (size_t j = 0; j < w->containers[i].grant.n; j++)
			if (w->containers[i].grant.cards[j].index == index)
				return true;
	return false;
}

/* Ends the pod for good: it cannot run here, or must not go on. */
void rf_worker_refuse(struct rf_worker *w, const char *reason, const char *message)
{
	if (w->refused)
		return;
	w->refused = true;
	snprintf(w->reason, sizeof(w->reason), "%s", reason);
	snprintf(w->message, sizeof(w->message), "%s", message);
	rf_warn("pod %s/%s: %s: %s", w->ns, w->name, reason, message);
	(void)rf_kube_event(w->agent->kube, w->pod, "Warning", reason, "ringfence-node", "%s",
			    message);
}

/* --- the work of each state ------------------------------------------------------------------ */

/* Waiting helps against some errors and not against others. */
static bool is_final(int rc)
{
	return rc == -RF_INVALID || rc == -RF_FORBIDDEN || rc == -RF_UNSUPPORTED ||
	       rc == -RF_BAD_REQUEST || rc == -RF_TOO_LARGE;
}

static void prepare(struct rf_worker *w)
{
	struct rf_err err = RF_ERR_INIT;
	int64_t now = rf_agent_now();

	if (w->prepared || w->refused || w->agent->draining || now < w->retry_ms)
		return;
	int rc = rf_worker_prepare(w, &err);
	if (rc == 0) {
		w->prepared = true;
		w->failures = 0;
		w->reason[0] = w->message[0] = '\0';
		return;
	}
	if (is_final(rc))
		return rf_worker_refuse(w, rc == -RF_FORBIDDEN ? "Forbidden" : "InvalidPod",
					err.msg);
	w->retry_ms = now + RF_MIN(500LL << RF_MIN(w->failures, 6), 15000);
	if (w->failures++ == 0 || strcmp(w->message, err.msg) != 0) {
		rf_info("pod %s/%s waits: %s", w->ns, w->name, err.msg);
		(void)rf_kube_event(w->agent->kube, w->pod, "Warning", "FailedPrepare",
				    "ringfence-node", "%s", err.msg);
	}
	snprintf(w->message, sizeof(w->message), "%s", err.msg);
}

static void back_off(struct rf_container *c)
{
	if (c->now.finished_ms - c->now.started_ms > HEALTHY_RUN_MS)
		c->backoff_ms = 0;
	c->backoff_ms =
		c->backoff_ms ? RF_MIN(c->backoff_ms * 2, BACKOFF_MAX_MS) : BACKOFF_FIRST_MS;
	c->retry_ms = rf_agent_now() + c->backoff_ms;
	c->state = RF_CONTAINER_WAITING;
	snprintf(c->waiting, sizeof(c->waiting), "CrashLoopBackOff");
	snprintf(c->message, sizeof(c->message),
		 "starts again in %lld s; it ended with %s, exit code %d",
		 (long long)c->backoff_ms / 1000, c->now.reason, c->now.code);
}

static void start(struct rf_container *c)
{
	struct rf_err err = RF_ERR_INIT;

	if (c->worker->agent->draining || rf_agent_now() < c->retry_ms)
		return;
	int rc = rf_container_start(c, &err);
	if (rc == 0) {
		if (c->worker->started_ms == 0)
			c->worker->started_ms = c->started_ms;
		return;
	}
	if (is_final(rc))
		return rf_worker_refuse(c->worker, "CannotRun", err.msg);
	if (strcmp(c->message, err.msg) != 0)
		(void)rf_kube_event(c->worker->agent->kube, c->worker->pod, "Warning",
				    "FailedStart", "ringfence-node", "container %s: %s", c->name,
				    err.msg);
	snprintf(c->waiting, sizeof(c->waiting), "%s",
		 rc == -RF_NOT_FOUND ? "CreateContainerConfigError" : "CreateContainerError");
	snprintf(c->message, sizeof(c->message), "%s", err.msg);
	c->backoff_ms =
		c->backoff_ms ? RF_MIN(c->backoff_ms * 2, BACKOFF_MAX_MS) : BACKOFF_FIRST_MS;
	c->retry_ms = rf_agent_now() + c->backoff_ms;
}

/* True once it has done its part: the next one may follow. */
static bool drive_one(struct rf_container *c)
{
	(void)rf_container_refresh(c);
	if (will_restart(c))
		back_off(c);
	if (c->state == RF_CONTAINER_WAITING)
		start(c);
	if (c->init)
		return c->state == RF_CONTAINER_EXITED && c->now.code == 0;
	return c->started;
}

static void keep_deadline(struct rf_worker *w)
{
	int64_t s = rf_json_int(rf_json_at(w->pod, "spec", "activeDeadlineSeconds"), 0);
	int64_t began = w->started_ms;

	(void)rf_time_parse(rf_json_str_at(w->pod, "status", "startTime"), &began, NULL);
	if (s > 0 && began > 0 && rf_agent_now() >= began + RF_MIN(s, SECONDS_MAX) * 1000)
		rf_worker_refuse(w, "DeadlineExceeded",
				 "the pod ran longer than its activeDeadlineSeconds");
}

static void drive(struct rf_worker *w)
{
	keep_deadline(w);
	for (size_t i = 0; i < w->n_containers && !w->refused; i++) {
		struct rf_container *c = &w->containers[i];
		bool done = drive_one(c);

		if (c->init && !done)
			return;
	}
}

static int64_t grace_ms(const struct rf_worker *w)
{
	int64_t s = rf_json_int(rf_json_at(w->pod, "spec", "terminationGracePeriodSeconds"),
				GRACE_DEFAULT_S);

	if (!w->in_api)
		return 0; /* deleted by force: nobody waits for it */
	s = rf_json_int(rf_json_at(w->pod, "metadata", "deletionGracePeriodSeconds"), s);
	return RF_MIN(RF_MAX(s, 0), SECONDS_MAX) * 1000;
}

static void stop(struct rf_worker *w)
{
	int64_t now = rf_agent_now(), deadline = now + grace_ms(w);

	if (w->agent->draining)
		deadline = RF_MIN(deadline, now + DRAIN_GRACE_MS);
	/* A later delete with less grace shortens it; nothing makes it longer. */
	if (w->stop_deadline_ms == 0 || deadline < w->stop_deadline_ms)
		w->stop_deadline_ms = deadline;
	for (size_t i = 0; i < w->n_containers; i++) {
		struct rf_container *c = &w->containers[i];

		(void)rf_container_refresh(c);
		if (c->state != RF_CONTAINER_RUNNING)
			continue;
		if (now >= w->stop_deadline_ms || c->kill_reason[0] != '\0')
			rf_container_signal(c, SIGKILL);
		else if (!c->term_sent)
			rf_container_signal(c, SIGTERM);
	}
}

static int tell_api(struct rf_worker *w, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	if (!w->in_api)
		return 0;
	if (!w->terminal_sent && rf_status_send(w, err) < 0 && err->code != RF_NOT_FOUND)
		return -err->code;
	w->terminal_sent = true;
	if (!rf_kube_deleting(w->pod))
		return 0;
	return rf_kube_delete(w->agent->kube, &a,
			      rf_kube_path(&a, &RF_PODS, rf_str(w->ns), rf_str(w->name), NULL), 0,
			      true, err);
}

/* In this order: first nothing of the pod is left, then the API says so, then the card is let
 * go. */
static void clean(struct rf_worker *w)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_err err = RF_ERR_INIT;

	for (size_t i = 0; i < w->n_containers; i++)
		rf_container_unfence(&w->containers[i]);
	(void)rf_cgroup_remove(
		&a, rf_cgroup_path(&a, w->agent->instance, rf_str(w->uid), RF_STR_EMPTY));
	if (rf_volumes_unmount(rf_fs_path(&a, "%s/" RF_VOLUMES_DIR, w->dir), &err) < 0 ||
	    rf_slices_drop(&w->agent->cards, rf_str(w->uid), &err) < 0 ||
	    rf_mps_leave(w->agent->mps, rf_str(w->uid), &err) < 0 || tell_api(w, &err) < 0 || (w->needs_claim && rf_worker_drop_claim(w, &err) < 0)) {
		rf_warn("pod %s/%s: clean up: %s; will be tried again", w->ns, w->name, err.msg);
		return;
	}
	rf_agent_discard(w->agent, rf_fs_path(&a, "%s/" RF_VOLUMES_DIR, w->dir));
	w->clean = true;
}

/* A pod that ended long ago and is now deleted. */
static void done(struct rf_worker *w)
{
	struct rf_err err = RF_ERR_INIT;

	if (w->in_api && rf_kube_deleting(w->pod) && tell_api(w, &err) < 0)
		rf_warn("pod %s/%s: %s", w->ns, w->name, err.msg);
}

static void (*const WORK[RF_POD_STATES])(struct rf_worker *w) = {
	[RF_POD_PREPARING] = prepare, [RF_POD_STARTING] = drive, [RF_POD_RUNNING] = drive,
	[RF_POD_STOPPING] = stop,     [RF_POD_CLEANING] = clean, [RF_POD_DONE] = done,
};

/* --- facts ----------------------------------------------------------------------------------- */

static bool all_started(const struct rf_worker *w)
{
	for (size_t i = 0; i < w->n_containers; i++)
		if (!w->containers[i].init && !w->containers[i].started)
			return false;
	return true;
}

static bool all_ended(const struct rf_worker *w)
{
	for (size_t i = 0; i < w->n_containers; i++) {
		const struct rf_container *c = &w->containers[i];

		if (c->state != RF_CONTAINER_EXITED || will_restart(c))
			return false;
		if (c->init && c->now.code != 0)
			return true; /* the others will never be started */
	}
	return true;
}

/* All cards are asked, not the granted ones: an agent that took a dying pod over never read its
 * claim. */
static bool on_a_card(struct rf_worker *w)
{
	for (size_t i = 0; i < rf_gpu_count(w->agent->cards.gpu); i++) {
		size_t n = 0;

		/* A lost card knows nobody; the empty cgroup is the witness then. */
		if (rf_agent_strangers(w->agent, i, rf_str(w->uid), true, &n, NULL) == 0 && n > 0)
			return true;
	}
	return false;
}

static bool all_stopped(struct rf_worker *w)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	for (size_t i = 0; i < w->n_containers; i++)
		if (w->containers[i].state == RF_CONTAINER_RUNNING)
			return false;
	return rf_cgroup_count(&a, rf_cgroup_path(&a, w->agent->instance, rf_str(w->uid),
						  RF_STR_EMPTY)) == 0 &&
	       !on_a_card(w);
}

static unsigned facts_of(struct rf_worker *w)
{
	unsigned f = 0;

	f |= rf_worker_unwanted(w) ? RF_FACT_UNWANTED : 0;
	f |= w->refused ? RF_FACT_REFUSED : 0;
	f |= w->prepared ? RF_FACT_PREPARED : 0;
	f |= all_started(w) ? RF_FACT_STARTED : 0;
	f |= all_ended(w) ? RF_FACT_ENDED : 0;
	if (w->state == RF_POD_STOPPING)
		f |= all_stopped(w) ? RF_FACT_STOPPED : 0;
	f |= w->clean ? RF_FACT_CLEAN : 0;
	return f;
}

static void step_once(struct rf_worker *w)
{
	enum rf_pod_state next;

	do {
		if (WORK[w->state] != NULL)
			WORK[w->state](w);
		next = rf_pod_state_next(w->state, facts_of(w));
		if (next == w->state)
			return;
		rf_debug("pod %s/%s: %s -> %s", w->ns, w->name, rf_pod_state_name(w->state),
			 rf_pod_state_name(next));
		w->state = next;
	} while (true);
}

/* The tick comes every second anyway; this is for what should not wait that long. */
static int64_t next_due(const struct rf_worker *w)
{
	int64_t now = rf_agent_now(), due = 0;

	if (w->state == RF_POD_STOPPING)
		return now + STOP_LOOK_MS;
	if (w->state == RF_POD_PREPARING)
		due = w->retry_ms;
	for (size_t i = 0; i < w->n_containers && w->state < RF_POD_STOPPING; i++) {
		const struct rf_container *c = &w->containers[i];
		int64_t at = c->lost				? now + STOP_LOOK_MS
			     : c->state == RF_CONTAINER_WAITING ? c->retry_ms
								: 0;

		if (at > now && (due == 0 || at < due))
			due = at;
	}
	return due > now ? due : 0;
}

static void report(struct rf_worker *w)
{
	struct rf_err err = RF_ERR_INIT;

	/* The end is reported by clean(), once it is true. */
	if (w->in_api && w->state < RF_POD_CLEANING && rf_status_send(w, &err) < 0 &&
	    err.code != RF_NOT_FOUND)
		rf_warn("pod %s/%s: status: %s; will be tried again", w->ns, w->name, err.msg);
}

void rf_worker_step(struct rf_worker *w)
{
	if (w->busy) {
		w->again = true;
		return;
	}
	w->busy = true;
	do {
		w->again = false;
		step_once(w);
		report(w);
	} while (w->again);
	w->busy = false;
	w->due_ms = next_due(w);
	if (w->due_ms != 0)
		rf_agent_wake(w->agent, w->due_ms);
	if (w->state != RF_POD_DONE || w->in_api)
		return;
	rf_agent_discard(w->agent, w->dir);
	rf_worker_free(w);
}

/* A pod on a card that failed cannot go on; waiting would only hold the card. */
void rf_agent_card_failed(void *agent, int index, const char *message)
{
	struct rf_agent *g = agent;

	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&g->workers, s)) != NULL;) {
		struct rf_worker *w = s->value;

		for (size_t i = 0; i < w->n_containers && w->state < RF_POD_STOPPING; i++)
			for (size_t j = 0; j < w->containers[i].grant.n; j++)
				if (w->containers[i].grant.cards[j].index == index)
					rf_worker_refuse(w, "DeviceFault", message);
	}
}
