/* Carries out the core's decisions: claims, their status, the pods' status, bindings, evictions. Every step
 * can be repeated; a process that dies between two of them is resumed from what the API says.
 *
 * Of a gang's commit all claims are written before its first binding: a crash leaves promises, which the
 * core keeps or takes back as a whole, never half a gang that runs. A write that is refused is told to the
 * core, and the claims this commit wrote are deleted; a write without an answer, or with one that says only that
 * something went wrong, may have been carried out, and its card is not given to another before the API said what
 * became of it. */
#include "control/private.h"

#define WHY_MAX 250  /* of a failure the core keeps so much */
#define DROP_MS 1000 /* until a claim is looked at again that may be deleted; longer each time */
#define TRIES_MAX 5  /* of a write that the server neither does nor refuses */

struct member {
	const struct rf_core_decision *d;
	const struct rf_json *pod;
	struct rf_json *claim; /* as written in this commit; NULL: it was not */
	struct rf_json *open;  /* the claim whose allocation was sent, until its answer is here */
};

struct carry {
	struct rf_placer *p;
	struct rf_arena *a;
	struct rf_err err; /* of the last failure */
	struct rf_str ns, group; /* says that it goes as a whole, or starts anew */
};

static int64_t wall_ms(void)
{
	return rf_wall_ms(rf_clock_system());
}

static const struct rf_json *pod_of(struct rf_placer *p, const struct rf_core_decision *d)
{
	const struct rf_json *pod = p->cluster.get(p->cluster.ctx, &RF_PODS, d->ns, d->name);

	return pod != NULL && rf_str_eq(rf_kube_uid(pod), d->uid) ? pod : NULL;
}

static struct rf_str claim_path(struct carry *t, struct rf_str ns, struct rf_str name, const char *sub)
{
	return rf_kube_path(t->a, &RF_RESOURCECLAIMS, ns, name, sub);
}

static struct rf_str pod_path(struct carry *t, const struct rf_core_decision *d, const char *sub)
{
	return rf_kube_path(t->a, &RF_PODS, d->ns, d->name, sub);
}

/* What it is about comes last, after paths and names: of a long reason the end is kept. */
static struct rf_str end_of(const char *why)
{
	struct rf_str s = rf_str(why);

	return s.n > WHY_MAX ? rf_str_skip(s, s.n - WHY_MAX) : s;
}

static void tell_failed(struct carry *t, const struct rf_core_decision *d, const char *why)
{
	rf_warn("pod %.*s/%.*s: %s", RF_STR(d->ns), RF_STR(d->name), why);
	rf_core_failed(t->p->core, d->verdict, d->uid, end_of(why), t->p->now_ms);
}

/* True: it is known already, the server answers. */
static bool into_limbo(struct carry *t, const struct member *m)
{
	struct rf_limbo l = { .kind = RF_LIMBO_PLACE,
			      .uid = rf_str_dup(m->d->uid),
			      .ns = rf_str_dup(m->d->ns),
			      .name = rf_str_dup(m->d->name),
			      .claim = rf_str_dup(m->d->n_grants > 0 ? rf_pod_claim_name(t->a, m->pod) : RF_STR_EMPTY),
			      .open = rf_str_dup(m->open != NULL ? rf_kube_uid(m->open) : RF_STR_EMPTY),
			      .why = rf_str_dup(rf_str(t->err.msg)) };

	rf_vec_push(&t->p->limbo, l);
	rf_warn("pod %.*s/%.*s: %s; asking what became of it", RF_STR(m->d->ns), RF_STR(m->d->name), t->err.msg);
	return rf_carry_settle(t->p);
}

static bool eviction_into_limbo(struct carry *t, const struct rf_core_decision *d, const char *cause)
{
	struct rf_limbo l = { .kind = RF_LIMBO_EVICT,
			      .uid = rf_str_dup(d->uid),
			      .ns = rf_str_dup(d->ns),
			      .name = rf_str_dup(d->name),
			      .claim = rf_str_dup(RF_STR_EMPTY),
			      .open = rf_str_dup(RF_STR_EMPTY),
			      .why = rf_str_dup(d->reason),
			      .cause = cause };

	rf_vec_push(&t->p->limbo, l);
	rf_warn("pod %.*s/%.*s: %s; asking what became of it", RF_STR(d->ns), RF_STR(d->name), t->err.msg);
	return rf_carry_settle(t->p);
}

/* --- the claim -------------------------------------------------------------------------------- */

static int check_existing(struct carry *t, const struct rf_json *claim, const struct rf_json *pod)
{
	rf_feed_claim(t->p, NULL, claim);
	if (!rf_str_eq(rf_claim_owner(claim, "uid"), rf_kube_uid(pod)))
		return rf_fail(&t->err, RF_CONFLICT, "claim %.*s belongs to another pod",
			       RF_STR(rf_kube_name(claim)));
	if (rf_kube_deleting(claim))
		return rf_fail(&t->err, RF_CONFLICT, "claim %.*s is being deleted", RF_STR(rf_kube_name(claim)));
	if (rf_json_at(claim, "status", "allocation") != NULL)
		return rf_fail(&t->err, RF_CONFLICT, "claim %.*s is allocated already",
			       RF_STR(rf_kube_name(claim)));
	return 0;
}

/* One that is there already may be somebody else's trick: until it is allocated it is not ours to delete. */
static int make_claim(struct carry *t, struct member *m, struct rf_json **ret)
{
	struct rf_hands *h = &t->p->hands;
	struct rf_json *wanted = rf_claim_object(t->a, m->pod, m->d);
	int rc = h->create(h->ctx, t->a, claim_path(t, m->d->ns, RF_STR_EMPTY, NULL), wanted, ret, &t->err);

	if (rc == 0)
		m->claim = *ret;
	if (rc != -RF_EXISTS)
		return rc;
	rc = h->get(h->ctx, t->a, claim_path(t, m->d->ns, rf_kube_name(wanted), NULL), ret, &t->err);
	return rc < 0 ? rc : check_existing(t, *ret, m->pod);
}

static int allocate(struct carry *t, struct member *m)
{
	struct rf_hands *h = &t->p->hands;
	struct rf_json *claim = NULL, *written = NULL;

	if (make_claim(t, m, &claim) < 0)
		return rf_wrap(&t->err, "make its claim");
	m->open = claim;
	if (h->update(h->ctx, t->a, claim_path(t, m->d->ns, rf_kube_name(claim), "status"),
		      rf_claim_allocated(t->a, claim, m->pod, m->d, wall_ms()), &written, &t->err) < 0)
		return rf_wrap(&t->err, "allocate its claim");
	m->open = NULL;
	m->claim = written;
	/* Told before the watch repeats it: the core must not give the card away again. */
	rf_feed_claim(t->p, NULL, written);
	return rf_claim_kept(written, m->pod, m->d, &t->err);
}

/* Whether it is deleted or not, nothing may count on it; the server is asked until it is known. */
static void drop_into_limbo(struct carry *t, struct rf_str ns, const struct rf_json *claim)
{
	struct rf_limbo l = { .kind = RF_LIMBO_DROP,
			      .uid = rf_str_dup(rf_kube_uid(claim)),
			      .ns = rf_str_dup(ns),
			      .name = rf_str_dup(rf_kube_name(claim)),
			      .claim = rf_str_dup(rf_kube_name(claim)),
			      .open = rf_str_dup(RF_STR_EMPTY),
			      .why = rf_str_dup(rf_str(t->err.msg)),
			      .next_ms = t->p->now_ms + DROP_MS };

	rf_vec_push(&t->p->limbo, l);
	rf_feed_claim_dropped(t->p, claim);
}

/* This very one: another that was made under its name meanwhile stays. 0: it is gone, goes, or will be asked
 * about. */
static int drop_claim(struct carry *t, struct rf_str ns, const struct rf_json *claim)
{
	struct rf_hands *h = &t->p->hands;
	int rc = h->remove(h->ctx, t->a, claim_path(t, ns, rf_kube_name(claim), NULL), rf_kube_uid(claim), RF_STR_EMPTY,
			   &t->err);

	if (rc == 0 || rc == -RF_CONFLICT) {
		rf_feed_claim_dropped(t->p, claim);
		return 0;
	}
	rf_warn("claim %.*s/%.*s: drop it: %s", RF_STR(ns), RF_STR(rf_kube_name(claim)), t->err.msg);
	if (!rf_kube_unknown(rc))
		return rc;
	drop_into_limbo(t, ns, claim);
	return 0;
}

/* --- the pod ---------------------------------------------------------------------------------- */

static int tell_pod_its_claim(struct carry *t, const struct member *m)
{
	struct rf_hands *h = &t->p->hands;
	struct rf_str claim = rf_pod_claim_name(t->a, m->pod);
	struct rf_json *patch = rf_pod_claim_patch(t->a, m->pod, claim, m->d), *written = NULL;

	if (patch == NULL ||
	    rf_str_eq(rf_json_str_at(m->pod, "status", "extendedResourceClaimStatus", "resourceClaimName"), claim))
		return 0;
	if (h->patch(h->ctx, t->a, pod_path(t, m->d, "status"), RF_PATCH_MERGE, patch, &written, &t->err) < 0)
		return rf_wrap(&t->err, "write its status");
	return rf_pod_claim_kept(written, claim, &t->err);
}

/* Another binding was faster, ours before a crash perhaps: what holds is what the pod says. */
static int look_again(struct carry *t, const struct member *m)
{
	struct rf_hands *h = &t->p->hands;
	struct rf_json *pod = NULL;
	struct rf_str node;
	int rc = h->get(h->ctx, t->a, pod_path(t, m->d, NULL), &pod, &t->err);

	if (rc < 0)
		return rc;
	if (!rf_str_eq(rf_kube_uid(pod), m->d->uid))
		return rf_fail(&t->err, RF_NOT_FOUND, "another pod has its name now");
	rf_feed_pod(t->p, NULL, pod);
	node = rf_json_str_at(pod, "spec", "nodeName");
	return rf_str_eq(node, m->d->node) ? 0 : rf_fail(&t->err, RF_CONFLICT, "it is not bound as decided");
}

static int bind_pod(struct carry *t, const struct member *m)
{
	struct rf_hands *h = &t->p->hands;
	int rc = h->create(h->ctx, t->a, pod_path(t, m->d, "binding"),
			   rf_pod_binding(t->a, m->pod, m->d->node), NULL, &t->err);

	if (rc == -RF_CONFLICT) {
		rc = look_again(t, m);
		if (rc == 0)
			return 0;
	}
	if (rc < 0)
		return rf_wrap(&t->err, "bind it");
	rf_feed_binding(t->p, m->pod, m->d->node);
	return 0;
}

/* "node vm: gpu-0 for main (20Gi, 500/1000)" */
static struct rf_str where(struct rf_arena *a, const struct rf_core_decision *d)
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

static void tell_bound(struct carry *t, const struct member *m)
{
	struct rf_str place = where(t->a, m->d);

	free(rf_map_del(&t->p->told, m->d->uid));
	rf_info("pod %.*s/%.*s: placed on %.*s%s", RF_STR(m->d->ns), RF_STR(m->d->name), RF_STR(place),
		m->d->promised ? ", as promised" : "");
	t->p->hands.event(t->p->hands.ctx, m->pod, "Normal", "Scheduled",
			  rf_arena_printf(t->a, "Placed on %.*s", RF_STR(place)));
}

/* --- the group -------------------------------------------------------------------------------- */

/* A gang that goes as a whole says so before the first of it goes: who comes after us knows then that the rest are to
 * follow. The object is the tenant's: that it refuses to be written (too large, another's policy) keeps nothing from
 * going; only if nobody answers at all is it tried again. One that starts anew says so before anything is written for it, or
 * half of it would be taken for one that runs: until it does, it waits. */
static int say_group(struct carry *t, const struct rf_core_decision *d)
{
	bool anew = d->verdict == RF_CORE_BIND;
	int rc = 0;

	if (d->group.n == 0 || (rf_str_eq(d->ns, t->ns) && rf_str_eq(d->group, t->group)))
		return 0;
	rc = rf_books_write_group(t->p, d->ns, d->group);
	if (rc < 0 && (anew || rf_is_away(rc)))
		return rf_fail(&t->err, (enum rf_code)-rc, "write down that group %.*s %s", RF_STR(d->group),
			       anew ? "starts anew" : "goes as a whole");
	if (rc < 0)
		rf_warn("group %.*s/%.*s goes as a whole, and that cannot be written down: after a restart the rest of it would stay",
			RF_STR(d->ns), RF_STR(d->group));
	t->ns = d->ns;
	t->group = d->group;
	return 0;
}

/* --- a commit --------------------------------------------------------------------------------- */

/* All that can be refused, before anything runs. */
static int prepare(struct carry *t, struct member *m)
{
	if (m->d->n_grants > 0 && !m->d->promised && allocate(t, m) < 0)
		return -t->err.code;
	return m->d->n_grants > 0 ? tell_pod_its_claim(t, m) : 0;
}

/* Nothing of it runs: what was written for it goes again, and the core is told after that. */
static bool take_back(struct carry *t, struct member *all, size_t failed, int rc)
{
	char why[RF_ERR_MAX];

	if (rf_kube_unknown(rc))
		return into_limbo(t, &all[failed]);
	memcpy(why, t->err.msg, sizeof(why));
	for (size_t i = 0; i <= failed; i++) {
		if (all[i].claim != NULL)
			(void)drop_claim(t, all[i].d->ns, all[i].claim);
	}
	tell_failed(t, all[failed].d, why);
	return true;
}

/* Some of it may run: the rest has its promises, and the core says what becomes of them. */
static bool leave_rest(struct carry *t, struct member *all, size_t failed, size_t n, int rc)
{
	char why[RF_ERR_MAX];
	bool answers = true;

	memcpy(why, t->err.msg, sizeof(why));
	if (rf_kube_unknown(rc))
		answers = into_limbo(t, &all[failed]);
	else
		tell_failed(t, all[failed].d, why);
	/* The pod went while we worked: it shall not hold a card. */
	if (rc == -RF_NOT_FOUND && all[failed].claim != NULL)
		(void)drop_claim(t, all[failed].d->ns, all[failed].claim);
	for (size_t i = failed + 1; i < n; i++)
		tell_failed(t, all[i].d, "another of its gang could not be bound");
	return answers;
}

static bool carry_commit(struct carry *t, const struct rf_core_decision *d, size_t n)
{
	struct member *all = rf_arena_array(t->a, struct member, n);
	size_t done = 0;
	int rc = 0;

	for (size_t i = 0; i < n; i++) {
		all[i] = (struct member){ .d = &d[i], .pod = pod_of(t->p, &d[i]) };
		if (all[i].pod == NULL) {
			tell_failed(t, &d[i], "the pod is not there any more");
			return true;
		}
	}
	rc = say_group(t, d);
	if (rc < 0) {
		tell_failed(t, d, t->err.msg);
		return !rf_is_away(rc);
	}
	for (size_t i = 0; i < n; i++) {
		if (!t->p->hands.may(t->p->hands.ctx))
			return false;
		rc = prepare(t, &all[i]);
		if (rc < 0)
			return take_back(t, all, i, rc);
	}
	for (size_t i = 0; rc == 0 && i < n; i++) {
		if (!t->p->hands.may(t->p->hands.ctx))
			return false;
		rc = bind_pod(t, &all[i]);
		done += rc == 0;
	}
	for (size_t i = 0; i < done; i++)
		tell_bound(t, &all[i]);
	return rc == 0 || leave_rest(t, all, done, n, rc);
}

/* --- other decisions -------------------------------------------------------------------------- */

/* A binding that was not answered may have been done since it was looked at, and without its claim the pod could never start
 * there. 1: it is bound, and the core knows. */
static int is_bound_by_now(struct carry *t, const struct rf_core_decision *d)
{
	struct rf_hands *h = &t->p->hands;
	struct rf_json *pod = NULL;
	int rc = h->get(h->ctx, t->a, pod_path(t, d, NULL), &pod, &t->err);

	if (rc < 0)
		return rc;
	if (!rf_str_eq(rf_kube_uid(pod), d->uid) || rf_json_str_at(pod, "spec", "nodeName").n == 0)
		return 0;
	rf_feed_pod(t->p, NULL, pod);
	return 1;
}

static bool carry_release(struct carry *t, const struct rf_core_decision *d)
{
	struct rf_hands *h = &t->p->hands;
	const struct rf_json *pod = pod_of(t->p, d);
	struct rf_json *claim = NULL;
	int rc = 0;

	if (pod == NULL)
		return true; /* its claim is collected */
	rf_warn("pod %.*s/%.*s: %.*s", RF_STR(d->ns), RF_STR(d->name), RF_STR(d->reason));
	rc = is_bound_by_now(t, d);
	if (rc == 1)
		return true;
	if (rc == 0 || rc == -RF_NOT_FOUND)
		rc = h->get(h->ctx, t->a, claim_path(t, d->ns, rf_pod_claim_name(t->a, pod), NULL), &claim, &t->err);
	if (rc == -RF_NOT_FOUND || (rc == 0 && !rf_str_eq(rf_claim_owner(claim, "uid"), d->uid)))
		return true;
	if (rc == 0)
		rc = drop_claim(t, d->ns, claim);
	if (rc == 0)
		return true;
	(void)rf_wrap(&t->err, "drop its claim");
	tell_failed(t, d, t->err.msg);
	return !rf_kube_unknown(rc);
}

/* As the event and the condition name it. */
static const char *const CAUSES[] = { [RF_CORE_NO_CAUSE] = "Evicted",
				      [RF_CORE_RECLAIMED] = "Reclaimed",
				      [RF_CORE_PREEMPTED] = "Preempted",
				      [RF_CORE_INCOMPLETE] = "GangIncomplete" };

/* After the deed: a pod that its budget keeps must not say that it was evicted. */
void rf_carry_say_evicted(struct rf_placer *p, struct rf_arena *a, const struct rf_json *pod, const char *cause, struct rf_str reason)
{
	struct rf_hands *h = &p->hands;
	struct rf_json *patch = rf_pod_evicted_patch(a, pod, cause, reason, wall_ms());

	(void)h->patch(h->ctx, a, rf_kube_path(a, &RF_PODS, rf_kube_namespace(pod), rf_kube_name(pod), "status"),
		       RF_PATCH_STRATEGIC, patch, NULL, NULL);
	rf_info("pod %.*s: %s: %.*s", RF_STR(rf_kube_display(a, pod)), cause, RF_STR(reason));
	h->event(h->ctx, pod, "Warning", cause, reason);
}

static bool carry_evict(struct carry *t, const struct rf_core_decision *d)
{
	struct rf_hands *h = &t->p->hands;
	const struct rf_json *pod = pod_of(t->p, d);
	int rc = 0;

	if (pod == NULL)
		return true; /* gone already: we have heard of it, or are about to */
	rc = say_group(t, d);
	if (rc < 0) {
		tell_failed(t, d, t->err.msg);
		return !rf_is_away(rc);
	}
	rc = h->create(h->ctx, t->a, pod_path(t, d, "eviction"), rf_pod_eviction(t->a, pod), NULL, &t->err);
	if (rc == -RF_NOT_FOUND)
		return true;
	if (rc < 0)
		(void)rf_wrap(&t->err, "evict it");
	if (rf_kube_unknown(rc))
		return eviction_into_limbo(t, d, CAUSES[d->cause]);
	if (rc < 0)
		tell_failed(t, d, t->err.msg);
	else
		rf_carry_say_evicted(t->p, t->a, pod, CAUSES[d->cause], d->reason);
	if (rc < 0 && d->group.n > 0)
		rf_books_group_due(t->p, d->ns, d->group); /* perhaps it does not go */
	return true;
}

/* --- all of them ------------------------------------------------------------------------------ */

static bool carry_one(struct carry *t, const struct rf_core_decision *d, size_t n)
{
	switch (d->verdict) {
	case RF_CORE_BIND:
		return carry_commit(t, d, n);
	case RF_CORE_WAIT:
		rf_wait_note(t->p, d);
		return true;
	case RF_CORE_RELEASE:
		return carry_release(t, d);
	case RF_CORE_EVICT:
		return carry_evict(t, d);
	}
	return true;
}

/* How many decisions from this one on are carried out together: the bindings of one commit. */
static size_t commit_size(const struct rf_core_decision *d, size_t left)
{
	size_t n = 1, most = RF_MIN(d->commit_left + 1, left);

	while (d->verdict == RF_CORE_BIND && n < most && d[n].verdict == RF_CORE_BIND)
		n++;
	return n;
}

bool rf_carry(struct rf_placer *p, struct rf_arena *a, const struct rf_core_decision *all, size_t n)
{
	struct carry t = { .p = p, .a = a };
	bool answers = true;

	for (size_t i = 0, size = 0; i < n; i += size) {
		size = commit_size(&all[i], n - i);
		if (!p->hands.may(p->hands.ctx))
			return false;
		if (answers) {
			t.err = (struct rf_err)RF_ERR_INIT;
			answers = carry_one(&t, &all[i], size);
		} else if (all[i].verdict == RF_CORE_WAIT) {
			rf_wait_note(p, &all[i]);
		} else {
			rf_core_failed(p->core, all[i].verdict, all[i].uid, RF_LIT("the API server does not answer"), p->now_ms);
		}
	}
	return answers;
}

/* --- writes without an answer ------------------------------------------------------------------- */

static int ask(struct rf_placer *p, struct rf_arena *a, const struct rf_kube_res *res, const char *ns,
	       const char *name, struct rf_json **ret)
{
	int rc = p->hands.get(p->hands.ctx, a, rf_kube_path(a, res, rf_str(ns), rf_str(name), NULL), ret, NULL);

	return rc == -RF_NOT_FOUND ? 0 : rc;
}

/* An allocation may be carried out yet: without the claim it cannot be. Negative: it is not known to be gone. */
static int close_claim(struct rf_placer *p, struct rf_arena *a, const struct rf_limbo *l, const struct rf_json *claim)
{
	struct rf_str path = rf_kube_path(a, &RF_RESOURCECLAIMS, rf_str(l->ns), rf_str(l->claim), NULL);
	int rc = 0;

	if (!rf_str_is(rf_kube_uid(claim), l->open) || rf_json_at(claim, "status", "allocation") != NULL)
		return 0;
	rc = p->hands.remove(p->hands.ctx, a, path, rf_kube_uid(claim), rf_json_str_at(claim, "metadata", "resourceVersion"),
			     NULL);
	if (rc == 0)
		rf_feed_claim_dropped(p, claim);
	return rc == -RF_CONFLICT || rf_kube_unknown(rc) ? rc : 0;
}

/* Tells the core what is there, whatever was written, and that it did not go as decided. */
static bool settle_place(struct rf_placer *p, struct rf_limbo *l)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *pod = NULL, *claim = NULL;
	bool bound = false;

	if (ask(p, &a, &RF_PODS, l->ns, l->name, &pod) < 0 ||
	    (l->claim[0] != '\0' && ask(p, &a, &RF_RESOURCECLAIMS, l->ns, l->claim, &claim) < 0))
		return false;
	if (claim != NULL)
		rf_feed_claim(p, NULL, claim);
	if (pod != NULL && rf_str_is(rf_kube_uid(pod), l->uid)) {
		rf_feed_pod(p, NULL, pod);
		bound = rf_json_str_at(pod, "spec", "nodeName").n > 0;
	}
	/* One that is bound was carried out, now or long before; the others of its commit were not. */
	if (!bound && claim != NULL && close_claim(p, &a, l, claim) < 0 && ++l->tries < TRIES_MAX)
		return false;
	rf_core_failed(p->core, RF_CORE_BIND, rf_str(l->uid), end_of(l->why), p->now_ms);
	return true;
}

static bool settle_eviction(struct rf_placer *p, const struct rf_limbo *l)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *pod = NULL;

	if (ask(p, &a, &RF_PODS, l->ns, l->name, &pod) < 0)
		return false;
	if (pod == NULL || !rf_str_is(rf_kube_uid(pod), l->uid))
		return true; /* it is gone: we shall hear of it */
	rf_feed_pod(p, NULL, pod);
	if (rf_kube_deleting(pod))
		rf_carry_say_evicted(p, &a, pod, l->cause, rf_str(l->why));
	else
		rf_core_failed(p->core, RF_CORE_EVICT, rf_str(l->uid), RF_LIT("its eviction was not carried out"), p->now_ms);
	return true;
}

/* It stays after all: what was promised with it is told again. */
static void keep_claim(struct rf_placer *p, const struct rf_limbo *l, const struct rf_json *claim)
{
	rf_warn("claim %s/%s: it could not be deleted: %s", l->ns, l->name, l->why);
	(void)rf_map_del(&p->dropped, rf_str(l->uid));
	rf_feed_claim(p, NULL, claim);
}

static bool settle_drop(struct rf_placer *p, struct rf_limbo *l)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *claim = NULL;
	int rc = 0;

	if (p->now_ms < l->next_ms)
		return false;
	l->next_ms = p->now_ms + ((int64_t)DROP_MS << RF_MIN(l->tries, TRIES_MAX));
	if (ask(p, &a, &RF_RESOURCECLAIMS, l->ns, l->claim, &claim) < 0)
		return false;
	if (claim == NULL || !rf_str_is(rf_kube_uid(claim), l->uid) || rf_kube_deleting(claim))
		return true; /* it was carried out, and the watch says so */
	rc = p->hands.remove(p->hands.ctx, &a, rf_kube_path(&a, &RF_RESOURCECLAIMS, rf_str(l->ns), rf_str(l->claim), NULL),
			     rf_str(l->uid), RF_STR_EMPTY, NULL);
	if (rc == 0 || rc == -RF_CONFLICT)
		return true;
	if (rf_kube_unknown(rc) && ++l->tries < TRIES_MAX)
		return false;
	keep_claim(p, l, claim);
	return true;
}

static bool settle(struct rf_placer *p, struct rf_limbo *l)
{
	switch (l->kind) {
	case RF_LIMBO_PLACE:
		return settle_place(p, l);
	case RF_LIMBO_EVICT:
		return settle_eviction(p, l);
	case RF_LIMBO_DROP:
		return settle_drop(p, l);
	}
	return true;
}

bool rf_carry_settle(struct rf_placer *p)
{
	bool known = true;

	for (size_t i = 0; i < p->limbo.n;) {
		struct rf_limbo *l = &p->limbo.at[i];

		if (settle(p, l)) {
			rf_limbo_done(l);
			rf_vec_remove(&p->limbo, i);
			continue;
		}
		if (l->kind != RF_LIMBO_DROP)
			known = false;
		i++;
	}
	return known;
}

int64_t rf_carry_next_ms(const struct rf_placer *p)
{
	int64_t next = INT64_MAX;

	for (size_t i = 0; i < p->limbo.n; i++)
		next = RF_MIN(next, p->limbo.at[i].next_ms);
	return next;
}
