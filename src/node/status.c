/* What the API is told about a pod. */
#include <stdio.h>

#include "node/agent.h"

enum { COND_INITIALIZED, COND_CONTAINERS, COND_READY };
static const char *const COND_NAMES[] = { "Initialized", "ContainersReady", "Ready" };

static bool inits_done(const struct rf_worker *w)
{
	for (size_t i = 0; i < w->n_containers; i++)
		if (w->containers[i].init && (w->containers[i].state != RF_CONTAINER_EXITED ||
					      w->containers[i].now.code != 0))
			return false;
	return true;
}

static bool all_running(const struct rf_worker *w)
{
	for (size_t i = 0; i < w->n_containers; i++)
		if (!w->containers[i].init && w->containers[i].state != RF_CONTAINER_RUNNING)
			return false;
	return w->state == RF_POD_STARTING || w->state == RF_POD_RUNNING;
}

static bool any_started(const struct rf_worker *w)
{
	for (size_t i = 0; i < w->n_containers; i++)
		if (!w->containers[i].init && w->containers[i].started)
			return true;
	return false;
}

static bool all_succeeded(const struct rf_worker *w)
{
	for (size_t i = 0; i < w->n_containers; i++)
		if (w->containers[i].state != RF_CONTAINER_EXITED || w->containers[i].now.code != 0)
			return false;
	return !w->refused;
}

const char *rf_status_phase(const struct rf_worker *w)
{
	if (w->state >= RF_POD_CLEANING)
		return all_succeeded(w) ? "Succeeded" : "Failed";
	return any_started(w) ? "Running" : "Pending";
}

static void set_condition(const struct rf_worker *w, struct rf_cond *cond, const char *type,
			  bool value)
{
	const struct rf_json *have = rf_json_at(w->pod, "status", "conditions");

	if (cond->set && cond->value == value)
		return;
	*cond = (struct rf_cond){ .set = true, .value = value, .since_ms = rf_agent_now() };
	/* An earlier agent may have said the same: then it is true since then. */
	for (size_t i = 0; i < rf_json_len(have); i++) {
		const struct rf_json *c = rf_json_item(have, i);

		if (rf_str_is(rf_json_str_at(c, "type"), type) &&
		    rf_str_is(rf_json_str_at(c, "status"), value ? "True" : "False"))
			(void)rf_time_parse(rf_json_str_at(c, "lastTransitionTime"),
					    &cond->since_ms, NULL);
	}
}

static struct rf_json *conditions(struct rf_arena *a, struct rf_worker *w)
{
	const struct rf_json *have = rf_json_at(w->pod, "status", "conditions");
	bool values[] = { inits_done(w), all_running(w), all_running(w) };
	struct rf_json *list = rf_json_array(a);

	for (size_t i = 0; i < rf_json_len(have); i++)
		if (rf_str_is(rf_json_str_at(rf_json_item(have, i), "type"), "PodScheduled"))
			rf_json_push(a, list, rf_json_clone(a, rf_json_item(have, i)));
	for (size_t i = 0; i < RF_COUNT(values); i++) {
		set_condition(w, &w->conds[i], COND_NAMES[i], values[i]);
		struct rf_json *c = rf_json_make(
			a, "{'type':%s,'status':%s,'lastTransitionTime':%S}", COND_NAMES[i],
			values[i] ? "True" : "False", rf_time_format(a, w->conds[i].since_ms));
		if (!values[i] && w->state >= RF_POD_CLEANING && all_succeeded(w))
			rf_json_set_str(a, c, "reason", RF_LIT("PodCompleted"));
		else if (!values[i])
			rf_json_set_str(a, c, "reason",
					i == COND_INITIALIZED ? RF_LIT("ContainersNotInitialized")
							      : RF_LIT("ContainersNotReady"));
		rf_json_push(a, list, c);
	}
	return list;
}

static struct rf_json *terminated(struct rf_arena *a, const struct rf_container *c,
				  const struct rf_ended *e)
{
	rf_auto(arena) tmp = RF_ARENA_INIT;
	struct rf_json *t = rf_json_make(
		a, "{'exitCode':%d,'reason':%s,'startedAt':%S,'finishedAt':%S,'containerID':%S}",
		e->code, e->reason, rf_time_format(a, e->started_ms),
		rf_time_format(a, e->finished_ms),
		rf_arena_printf(a, "ringfence://%s", rf_container_id(&tmp, c)));

	if (e->signal != 0)
		rf_json_set_int(a, t, "signal", e->signal);
	if (e->message[0] != '\0')
		rf_json_set_str(a, t, "message", rf_str(e->message));
	return rf_json_make(a, "{'terminated':%j}", t);
}

static struct rf_json *waiting(struct rf_arena *a, const struct rf_container *c)
{
	const struct rf_worker *w = c->worker;
	const char *reason = w->state >= RF_POD_CLEANING && w->reason[0] ? w->reason
									 : /* it never will run */
				     c->waiting[0]	  ? c->waiting
			     : !c->init && !inits_done(w) ? "PodInitializing"
							  : "ContainerCreating";
	const char *message = c->message[0] ? c->message : w->message;
	struct rf_json *v = rf_json_make(a, "{'reason':%s}", reason);

	if (message[0] != '\0')
		rf_json_set_str(a, v, "message", rf_str(message));
	return rf_json_make(a, "{'waiting':%j}", v);
}

static struct rf_json *state_of(struct rf_arena *a, const struct rf_container *c)
{
	if (c->state == RF_CONTAINER_RUNNING)
		return rf_json_make(a, "{'running':{'startedAt':%S}}",
				    rf_time_format(a, c->started_ms));
	if (c->state == RF_CONTAINER_EXITED)
		return terminated(a, c, &c->now);
	return waiting(a, c);
}

static struct rf_json *container_status(struct rf_arena *a, const struct rf_container *c)
{
	struct rf_str image = rf_json_str_at(rf_container_spec(c), "image");
	bool up = c->state == RF_CONTAINER_RUNNING;
	/* While it waits to start again, what ended last is the attempt in `now`. */
	const struct rf_ended *last =
		c->state == RF_CONTAINER_WAITING && c->now.set ? &c->now : &c->last;

	return rf_json_make(a,
			    "{'name':%s,'image':%S,'imageID':%S,'ready':%b,'started':%b,'"
			    "restartCount':%d,'state':%j,"
			    "'lastState':%j}",
			    c->name, image, image,
			    c->init ? c->state == RF_CONTAINER_EXITED && c->now.code == 0 : up, up,
			    c->restarts, state_of(a, c),
			    last->set ? terminated(a, c, last) : rf_json_object(a));
}

static struct rf_json *container_statuses(struct rf_arena *a, const struct rf_worker *w, bool init)
{
	struct rf_json *list = rf_json_array(a);

	for (size_t i = 0; i < w->n_containers; i++)
		if (w->containers[i].init == init)
			rf_json_push(a, list, container_status(a, &w->containers[i]));
	return list;
}

struct rf_json *rf_status_make(struct rf_arena *a, struct rf_worker *w)
{
	struct rf_str began = rf_json_str_at(w->pod, "status", "startTime");
	bool says = w->refused && w->state >= RF_POD_CLEANING;

	if (w->started_ms == 0)
		w->started_ms = rf_agent_now();
	struct rf_json *s = rf_json_make(
		a, "{'phase':%s,'conditions':%j,'containerStatuses':%j,'hostIP':%s,'startTime':%S}",
		rf_status_phase(w), conditions(a, w), container_statuses(a, w, false),
		w->agent->opts->listen_address, began.n ? began : rf_time_format(a, w->started_ms));
	struct rf_json *inits = container_statuses(a, w, true);
	if (rf_json_len(inits) > 0)
		rf_json_set(a, s, RF_LIT("initContainerStatuses"), inits);
	rf_json_set(a, s, RF_LIT("reason"),
		    says ? rf_json_string(a, rf_str(w->reason)) : rf_json_null(a));
	rf_json_set(a, s, RF_LIT("message"),
		    says ? rf_json_string(a, rf_str(w->message)) : rf_json_null(a));
	return s;
}

int rf_status_send(struct rf_worker *w, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) text = RF_BUF_INIT;
	struct rf_json *status = rf_status_make(&a, w);

	rf_json_write(&text, status);
	if (rf_str_eq(rf_buf_str(&text), rf_buf_str(&w->status_sent)))
		return 0;
	/* With the uid: never the status of another pod of the same name. */
	struct rf_json *patch =
		rf_json_make(&a, "{'metadata':{'uid':%s},'status':%j}", w->uid, status);
	if (rf_kube_patch(w->agent->kube, &a,
			  rf_kube_path(&a, &RF_PODS, rf_str(w->ns), rf_str(w->name), "status"),
			  RF_PATCH_MERGE, patch, NULL, err) < 0)
		return -err->code;
	rf_buf_clear(&w->status_sent);
	rf_buf_add(&w->status_sent, rf_buf_str(&text));
	return 0;
}
