/* Carries out the scheduler's decisions: claim, its status, the pod's status, binding. Every step
 * can be repeated; a process that dies between two of them is resumed from what the API says. */
#include "control/private.h"

#include <stdio.h>

/* Per turn, so that the lease is renewed in time and events are heard. */
#define BINDS_MAX 64
#define WAITS_MAX 32
/* With many pods waiting every release changes all their reasons; nobody reads that fast. */
#define RETELL_MS 3000
/* A pod that cannot be placed (its claim is refused, say) must not hold up the others: it is set
 * aside for a while, and longer each time. */
#define SET_ASIDE_MS 250
#define SET_ASIDE_MAX_MS 30000

struct turn {
	struct rf_control *c;
	struct rf_arena *a;
	int binds, waits;
	bool again; /* something failed: plan anew soon */
	bool later; /* some reasons to wait were left for another turn */
};

static int64_t wall_ms(void)
{
	return rf_wall_ms(rf_clock_system());
}

static const struct rf_json *pod_of(struct rf_control *c, const struct rf_sched_decision *d)
{
	const struct rf_json *pod = rf_informer_get(c->informers[RF_I_PODS], d->ns, d->name);

	return pod != NULL && rf_str_eq(rf_kube_uid(pod), d->uid) ? pod : NULL;
}

static struct rf_str claim_path(struct rf_arena *a, struct rf_str ns, struct rf_str name,
				const char *sub)
{
	return rf_kube_path(a, &RF_RESOURCECLAIMS, ns, name, sub);
}

/* --- what is remembered of a pod, by its uid in told ------------------------------------------ */

struct memory {
	bool told; /* why it waits */
	uint64_t told_ms;
	unsigned failures; /* to place it, in a row */
	uint64_t failed_ms;
	bool aside; /* until it is tried again, the others do not plan around it */
	char why[512];
};

static struct memory *remember(struct rf_control *c, struct rf_str uid)
{
	struct memory *m = rf_map_get(&c->told, uid);

	if (m == NULL) {
		m = rf_new(struct memory);
		(void)rf_map_set(&c->told, uid, m);
	}
	return m;
}

/* Was this pod told a reason only just now? The first one is told at once. */
static bool told_lately(struct rf_control *c, struct rf_str uid)
{
	struct memory *m = remember(c, uid);
	uint64_t now = uv_now(&c->loop);

	if (m->told && now - m->told_ms < RETELL_MS)
		return true;
	m->told = true;
	m->told_ms = now;
	return false;
}

struct rf_str rf_control_set_aside(const struct rf_control *c, struct rf_str uid)
{
	const struct memory *m = rf_map_get(&c->told, uid);

	return m != NULL && m->aside ? rf_str(m->why) : RF_STR_EMPTY;
}

static bool pause_is_over(const struct rf_control *c, const struct memory *m)
{
	uint64_t pause = (uint64_t)SET_ASIDE_MS << RF_MIN(m->failures, 10u);

	return uv_now(&c->loop) - m->failed_ms >= RF_MIN(pause, (uint64_t)SET_ASIDE_MAX_MS);
}

/* Brings back the pods whose pause is over; says whether others are still set aside. */
static bool bring_back(struct rf_control *c)
{
	const struct rf_map_slot *slot = NULL;
	const struct rf_json *pod = NULL;
	bool due = false, more = false;

	while ((slot = rf_map_next(&c->told, slot)) != NULL) {
		const struct memory *m = slot->value;

		due |= m->aside && pause_is_over(c, m);
		more |= m->aside && !pause_is_over(c, m);
	}
	while (due && (pod = rf_informer_next(c->informers[RF_I_PODS], &slot)) != NULL) {
		struct memory *m = rf_map_get(&c->told, rf_kube_uid(pod));

		if (m == NULL || !m->aside || !pause_is_over(c, m))
			continue;
		m->aside = false;
		rf_control_feed_pod(c, pod, RF_STR_EMPTY);
	}
	return more;
}

/* The server's word against this pod alone; what ails the server ails all of them. */
static bool is_the_pods_fault(const struct rf_err *err)
{
	return err->code != RF_UNAVAILABLE && err->code != RF_TIMEOUT && err->code != RF_NOT_FOUND;
}

/* The first failure is usually a race: it is planned again at once. */
static void note_failure(struct turn *t, const struct rf_json *pod,
			 const struct rf_sched_decision *d, const struct rf_err *err)
{
	struct memory *m = remember(t->c, d->uid);

	rf_warn("pod %.*s/%.*s: %s; planning again", RF_STR(d->ns), RF_STR(d->name), err->msg);
	if (!is_the_pods_fault(err) || m->failures++ == 0)
		return;
	m->failed_ms = uv_now(&t->c->loop);
	m->aside = true;
	snprintf(m->why, sizeof(m->why), "a place was found, but: %.400s; trying again", err->msg);
	rf_control_feed_pod(t->c, pod, RF_STR_EMPTY);
}

/* --- the claim -------------------------------------------------------------------------------- */

static int check_existing(struct turn *t, const struct rf_json *claim, const struct rf_json *pod,
			  struct rf_err *err)
{
	rf_control_feed_claim(t->c, claim);
	if (!rf_str_eq(rf_claim_owner(claim, "uid"), rf_kube_uid(pod)))
		return rf_fail(err, RF_CONFLICT, "claim %.*s belongs to another pod",
			       RF_STR(rf_kube_name(claim)));
	if (rf_kube_deleting(claim))
		return rf_fail(err, RF_CONFLICT, "claim %.*s is being deleted",
			       RF_STR(rf_kube_name(claim)));
	if (rf_json_at(claim, "status", "allocation") != NULL)
		return rf_fail(err, RF_CONFLICT, "claim %.*s is allocated already",
			       RF_STR(rf_kube_name(claim)));
	return 0;
}

static int make_claim(struct turn *t, const struct rf_json *pod, const struct rf_sched_decision *d,
		      struct rf_json **ret, struct rf_err *err)
{
	struct rf_json *wanted = rf_claim_object(t->a, pod, d);
	int rc = rf_kube_create(t->c->kube, t->a, claim_path(t->a, d->ns, RF_STR_EMPTY, NULL),
				wanted, ret, err);

	if (rc != -RF_EXISTS)
		return rc;
	rc = rf_kube_get(t->c->kube, t->a, claim_path(t->a, d->ns, rf_kube_name(wanted), NULL), ret,
			 err);
	return rc < 0 ? rc : check_existing(t, *ret, pod, err);
}

static int allocate(struct turn *t, const struct rf_json *pod, const struct rf_sched_decision *d,
		    struct rf_err *err)
{
	struct rf_json *claim = NULL, *written = NULL;

	if (make_claim(t, pod, d, &claim, err) < 0)
		return rf_wrap(err, "make its claim");
	if (rf_kube_update(t->c->kube, t->a, claim_path(t->a, d->ns, rf_kube_name(claim), "status"),
			   rf_claim_allocated(t->a, claim, pod, d, wall_ms()), &written, err) < 0)
		return rf_wrap(err, "allocate its claim");
	/* Told before the watch repeats it: the next cycle must not give the card away again. */
	rf_control_feed_claim(t->c, written);
	return rf_claim_kept(written, pod, d, err);
}

/* --- the pod ---------------------------------------------------------------------------------- */

static int tell_pod_its_claim(struct turn *t, const struct rf_json *pod,
			      const struct rf_sched_decision *d, struct rf_err *err)
{
	struct rf_str claim = rf_pod_claim_name(t->a, pod);
	struct rf_json *patch = rf_pod_claim_patch(t->a, pod, claim, d), *written = NULL;

	if (patch == NULL || rf_str_eq(rf_json_str_at(pod, "status", "extendedResourceClaimStatus",
						      "resourceClaimName"),
				       claim))
		return 0;
	if (rf_kube_patch(t->c->kube, t->a, rf_kube_path(t->a, &RF_PODS, d->ns, d->name, "status"),
			  RF_PATCH_MERGE, patch, &written, err) < 0)
		return rf_wrap(err, "write its status");
	return rf_pod_claim_kept(written, claim, err);
}

static int bind_pod(struct turn *t, const struct rf_json *pod, const struct rf_sched_decision *d,
		    struct rf_err *err)
{
	if (d->n_grants > 0 && !d->promised && allocate(t, pod, d, err) < 0)
		return -err->code;
	if (d->n_grants > 0 && tell_pod_its_claim(t, pod, d, err) < 0)
		return -err->code;
	if (rf_kube_create(t->c->kube, t->a,
			   rf_kube_path(t->a, &RF_PODS, d->ns, d->name, "binding"),
			   rf_pod_binding(t->a, pod, d->node), NULL, err) < 0)
		return rf_wrap(err, "bind it");
	rf_control_feed_pod(t->c, pod, d->node);
	return 0;
}

/* "node vm: gpu-0 for main (20Gi, 500/1000)" */
static struct rf_str where(struct rf_arena *a, const struct rf_sched_decision *d)
{
	rf_auto(buf) b = RF_BUF_INIT;

	rf_buf_printf(&b, "node %.*s", RF_STR(d->node));
	for (size_t i = 0; i < d->n_grants; i++)
		rf_buf_printf(&b, "%s%.*s for %.*s (%.*s, %lld/1000)", i > 0 ? ", " : ": ",
			      RF_STR(d->grants[i].device), RF_STR(d->grants[i].container),
			      RF_STR(rf_quantity_bytes(a, d->grants[i].bytes)),
			      (long long)d->grants[i].milli);
	return rf_arena_str(a, rf_buf_str(&b));
}

static void tell_bound(struct turn *t, const struct rf_json *pod, const struct rf_sched_decision *d)
{
	struct rf_str place = where(t->a, d);

	rf_info("pod %.*s/%.*s: placed on %.*s%s", RF_STR(d->ns), RF_STR(d->name), RF_STR(place),
		d->promised ? ", as promised" : "");
	(void)rf_kube_event(t->c->kube, pod, "Normal", "Scheduled", "ringfence-control",
			    "Placed on %.*s", RF_STR(place));
}

static void drop_claim(struct turn *t, const struct rf_sched_decision *d, const struct rf_json *pod)
{
	struct rf_err err = RF_ERR_INIT;

	if (rf_kube_delete(t->c->kube, t->a,
			   claim_path(t->a, d->ns, rf_pod_claim_name(t->a, pod), NULL), -1, true,
			   &err) == 0)
		return;
	rf_warn("pod %.*s/%.*s: drop its claim: %s", RF_STR(d->ns), RF_STR(d->name), err.msg);
	t->again = true;
}

static void do_wait(struct turn *t, const struct rf_json *pod, const struct rf_sched_decision *d)
{
	struct rf_json *patch = rf_pod_waits_patch(t->a, pod, d->reason, wall_ms());
	struct rf_err err = RF_ERR_INIT;

	if (patch == NULL)
		return;
	if (t->waits >= WAITS_MAX || told_lately(t->c, d->uid)) {
		t->later = true;
		return;
	}
	t->waits++;
	if (rf_kube_patch(t->c->kube, t->a, rf_kube_path(t->a, &RF_PODS, d->ns, d->name, "status"),
			  RF_PATCH_STRATEGIC, patch, NULL, &err) < 0) {
		t->later |= err.code != RF_NOT_FOUND;
		if (err.code != RF_NOT_FOUND)
			rf_warn("pod %.*s/%.*s: say that it waits: %s", RF_STR(d->ns),
				RF_STR(d->name), err.msg);
		return;
	}
	rf_info("pod %.*s/%.*s: waits: %.*s", RF_STR(d->ns), RF_STR(d->name), RF_STR(d->reason));
	(void)rf_kube_event(t->c->kube, pod, "Warning", "FailedScheduling", "ringfence-control",
			    "%.*s", RF_STR(d->reason));
}

static void do_bind(struct turn *t, const struct rf_json *pod, const struct rf_sched_decision *d)
{
	struct rf_err err = RF_ERR_INIT;
	int rc = bind_pod(t, pod, d, &err);

	t->binds++;
	if (rc == 0) {
		free(rf_map_del(&t->c->told, d->uid));
		tell_bound(t, pod, d);
		return;
	}
	note_failure(t, pod, d, &err);
	/* The pod went while we worked, or cannot be served here: it shall not hold a card. */
	if (rc == -RF_NOT_FOUND || rc == -RF_UNSUPPORTED)
		drop_claim(t, d, pod);
	t->c->claims_due = true;
	t->again = true;
}

static void do_release(struct turn *t, const struct rf_json *pod, const struct rf_sched_decision *d)
{
	rf_warn("pod %.*s/%.*s: %.*s", RF_STR(d->ns), RF_STR(d->name), RF_STR(d->reason));
	drop_claim(t, d, pod);
}

static void carry_out(struct turn *t, const struct rf_sched_decision *d)
{
	const struct rf_json *pod = pod_of(t->c, d);

	if (pod == NULL)
		return; /* gone already; the informer has told the model, or is about to */
	switch (d->verdict) {
	case RF_SCHED_BIND:
		do_bind(t, pod, d);
		break;
	case RF_SCHED_WAIT:
		do_wait(t, pod, d);
		break;
	case RF_SCHED_RELEASE:
		do_release(t, pod, d);
		break;
	}
}

/* A decision counts on those before it: after one that failed the rest is planned anew. */
bool rf_control_place(struct rf_control *c)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct turn t = { .c = c, .a = &a };
	struct rf_sched_decision *all = NULL;
	size_t n = 0, i = 0;
	bool aside = bring_back(c);

	rf_sched_cycle(c->sched, &a, &all, &n);
	for (i = 0; i < n && !t.again && t.binds < BINDS_MAX && rf_control_leads(c); i++)
		carry_out(&t, &all[i]);
	if (i < n && !t.again) {
		c->pods_due = true;
		rf_control_wake(c, 0);
	}
	return !t.again && !t.later && !aside;
}
