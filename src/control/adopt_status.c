/* What a foreign group is told of the one that was made from it, in its own words. Its controllers wait for them:
 * Volcano's make a Job's pods when its group is Inqueue.
 *
 * A phase is only ever moved on, and one that is not in the tables (Unknown, Completed, Failed) is left alone: where
 * their own scheduler or controller is at work, it knows better. */
#include "control/private.h"

#define STUBBORN_MAX 5 /* times the same is written to a group; somebody else writes something else then */
#define GROUP_VOLCANO "scheduling.volcano.sh/"
#define GROUP_X_K8S "scheduling.x-k8s.io/"

struct tongue {
	const char *phases[6]; /* in the order in which they come; NULL ends it */
	const char *waits, *started;
	bool conditions, running; /* what else its status has */
};

static const struct tongue VOLCANO = { { "", "Pending", "Inqueue", "Running" }, "Inqueue", "Running", true, true };
static const struct tongue X_K8S = { { "", "Pending", "PreScheduling", "Scheduling", "Scheduled" }, "Pending", "Scheduled" };

static const struct tongue *tongue_of(const struct rf_json *foreign)
{
	struct rf_str version = rf_json_str_at(foreign, "apiVersion");

	if (rf_str_starts(version, RF_LIT(GROUP_VOLCANO)))
		return &VOLCANO;
	return rf_str_starts(version, RF_LIT(GROUP_X_K8S)) ? &X_K8S : NULL;
}

static int rank(const struct tongue *t, struct rf_str phase)
{
	for (int i = 0; i < (int)RF_COUNT(t->phases) && t->phases[i] != NULL; i++) {
		if (rf_str_is(phase, t->phases[i]))
			return i;
	}
	return -1;
}

/* --- conditions --------------------------------------------------------------------------------- */

static bool is_ours(const struct rf_json *condition)
{
	return rf_str_is(rf_json_str_at(condition, "type"), "Unschedulable") ||
	       rf_str_is(rf_json_str_at(condition, "type"), "Scheduled");
}

/* The one that holds now; NULL: there is nothing to say. */
static struct rf_json *condition_of(struct rf_arena *a, bool started, struct rf_str message, int64_t now_ms)
{
	if (!started && message.n == 0)
		return NULL;
	return rf_json_make(a, "{'type':%s,'status':'True','reason':%s,'message':%S,'lastTransitionTime':%S}",
			    started ? "Scheduled" : "Unschedulable", started ? "Scheduled" : "NotEnoughResources",
			    started ? RF_LIT("enough of its pods have places") : message, rf_time_format(a, now_ms));
}

static bool says(const struct rf_json *list, const struct rf_json *wanted)
{
	bool said = wanted == NULL;

	for (size_t i = 0; i < rf_json_len(list); i++) {
		const struct rf_json *c = rf_json_item(list, i);

		if (!is_ours(c))
			continue;
		if (wanted == NULL || !rf_str_eq(rf_json_str_at(c, "type"), rf_json_str_at(wanted, "type")) ||
		    !rf_str_eq(rf_json_str_at(c, "message"), rf_json_str_at(wanted, "message")))
			return false;
		said = true;
	}
	return said;
}

/* What others said stays. */
static struct rf_json *conditions_with(struct rf_arena *a, const struct rf_json *list, struct rf_json *wanted)
{
	struct rf_json *all = rf_json_array(a);

	for (size_t i = 0; i < rf_json_len(list); i++) {
		if (!is_ours(rf_json_item(list, i)))
			rf_json_push(a, all, rf_json_clone(a, rf_json_item(list, i)));
	}
	if (wanted != NULL)
		rf_json_push(a, all, wanted);
	return all;
}

struct rf_json *rf_adopt_status(struct rf_arena *a, const struct rf_json *foreign, const struct rf_json *ours,
				int64_t now_ms)
{
	const struct tongue *t = tongue_of(foreign);
	const struct rf_json *is = rf_json_at(foreign, "status"), *said = rf_json_at(is, "conditions");
	bool started = rf_json_is_true(rf_json_at(ours, "status", "started"));
	int64_t running = rf_json_int(rf_json_at(ours, "status", "scheduled"), 0);
	struct rf_str rv = rf_json_str_at(foreign, "metadata", "resourceVersion");
	struct rf_json *status = NULL, *condition = NULL, *patch = NULL;
	const char *phase = NULL;
	int at = 0;

	if (t == NULL)
		return NULL;
	phase = started ? t->started : t->waits;
	at = rank(t, rf_json_str_at(is, "phase"));
	if (at < 0 || at > rank(t, rf_str(phase)))
		return NULL;
	condition = t->conditions ? condition_of(a, started, rf_json_str_at(ours, "status", "message"), now_ms) : NULL;
	if (at == rank(t, rf_str(phase)) && (!t->conditions || says(said, condition)) &&
	    (!t->running || rf_json_int(rf_json_at(is, "running"), 0) == running))
		return NULL;
	status = rf_json_make(a, "{'phase':%s}", phase);
	if (t->running)
		rf_json_set_int(a, status, "running", running);
	if (t->conditions)
		rf_json_set(a, status, RF_LIT("conditions"), conditions_with(a, said, condition));
	patch = rf_json_make(a, "{'metadata':{'uid':%S},'status':%j}", rf_kube_uid(foreign), status);
	/* As it was seen: what somebody else said meanwhile must not be undone. */
	if (rv.n > 0)
		rf_json_set_str(a, rf_json_at(patch, "metadata"), "resourceVersion", rv);
	return patch;
}

/* --- writing it ----------------------------------------------------------------------------------- */

struct rf_adopt_memory {
	uint64_t said;
	int times;
};

/* Two patches that say the same at different times are the same. */
static uint64_t meaning_of(struct rf_arena *a, const struct rf_json *patch)
{
	const struct rf_json *status = rf_json_at(patch, "status"), *list = rf_json_at(status, "conditions"), *c = NULL;

	for (size_t i = 0; i < rf_json_len(list); i++)
		c = is_ours(rf_json_item(list, i)) ? rf_json_item(list, i) : c;
	return rf_hash(rf_arena_printf(a, "%.*s %lld %.*s %.*s", RF_STR(rf_json_str_at(status, "phase")),
				       (long long)rf_json_int(rf_json_at(status, "running"), 0),
				       RF_STR(rf_json_str_at(c, "type")), RF_STR(rf_json_str_at(c, "message"))));
}

static struct rf_adopt_memory *memory_of(struct rf_adopt *d, struct rf_arena *a, const struct rf_json *foreign,
					 const struct rf_json *patch)
{
	struct rf_adopt_memory *m = rf_map_get(&d->wrote, rf_kube_uid(foreign));
	uint64_t said = meaning_of(a, patch);

	if (m == NULL) {
		m = rf_new(struct rf_adopt_memory);
		(void)rf_map_set(&d->wrote, rf_kube_uid(foreign), m);
	}
	if (m->said != said)
		*m = (struct rf_adopt_memory){ .said = said };
	return m;
}

/* Whoever writes over what we wrote so often may keep it. */
static void remember(struct rf_adopt_memory *m, const struct rf_json *foreign)
{
	if (++m->times < STUBBORN_MAX)
		return;
	rf_warn("PodGroup %.*s/%.*s of %.*s: somebody else writes its status, too; leaving it to them",
		RF_STR(rf_kube_namespace(foreign)), RF_STR(rf_kube_name(foreign)),
		RF_STR(rf_json_str_at(foreign, "apiVersion")));
}

int rf_adopt_tell(struct rf_adopt *d, const struct rf_json *foreign, const struct rf_json *ours, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *patch = rf_adopt_status(&a, foreign, ours, d->now_ms);
	struct rf_str version = rf_json_str_at(foreign, "apiVersion");
	struct rf_adopt_memory *m = NULL;
	bool bare = d->bare && tongue_of(foreign) == &VOLCANO;
	struct rf_str path = RF_STR_EMPTY;
	int rc = 0;

	if (patch == NULL)
		return 0;
	m = memory_of(d, &a, foreign, patch);
	if (m->times >= STUBBORN_MAX)
		return 0;
	path = rf_arena_printf(&a, "/apis/%.*s/namespaces/%.*s/podgroups/%.*s", RF_STR(version),
			       RF_STR(rf_kube_namespace(foreign)), RF_STR(rf_kube_name(foreign)));
	if (!bare)
		rc = d->hands->patch(d->hands->ctx, &a, rf_arena_printf(&a, "%.*s/status", RF_STR(path)), RF_PATCH_MERGE,
				     patch, NULL, err);
	/* Volcano's kind has no subresource of that name: there status is a part like any other. */
	if (tongue_of(foreign) == &VOLCANO && (bare || rc == -RF_NOT_FOUND)) {
		rc = d->hands->patch(d->hands->ctx, &a, path, RF_PATCH_MERGE, patch, NULL, err);
		d->bare |= rc == 0;
	}
	if (rc == 0)
		remember(m, foreign);
	if (rc == -RF_NOT_FOUND || rc == -RF_CONFLICT)
		return 0; /* another, or none, by now: we shall hear of it */
	return rc < 0 ? rf_wrap(err, "write the status of %.*s PodGroup %.*s/%.*s", RF_STR(version),
				RF_STR(rf_kube_namespace(foreign)), RF_STR(rf_kube_name(foreign))) :
			0;
}

void rf_adopt_tell_forget(struct rf_adopt *d, const struct rf_json *foreign)
{
	free(rf_map_del(&d->wrote, rf_kube_uid(foreign)));
}
