/* Carries out the core's decisions: claims, their status, the pods' status, bindings, evictions. Every step
 * can be repeated; a process that dies between two of them is resumed from what the API says.
 *
 * Of a gang's commit all claims are written before its first binding: a crash leaves promises, which the
 * core keeps or takes back as a whole, never half a gang that runs. A write that is refused is told to the
 * core, and the claims this commit wrote are deleted; a write without an answer may have been carried out,
 * and its card is not given to another before the API said what became of it. */
#include "control/private.h"

#define WHY_MAX 250 /* of a failure the core keeps so much */

struct member {
	const struct rf_core_decision *d;
	const struct rf_json *pod;
	struct rf_json *claim; /* as written in this commit; NULL: it was not */
};

struct carry {
	struct rf_placer *p;
	struct rf_arena *a;
	struct rf_err err; /* of the last failure */
};

static int64_t wall_ms(void)
{
	return rf_wall_ms(rf_clock_system());
}

static char *copy(struct rf_str s)
{
	char *text = rf_alloc(s.n + 1);

	memcpy(text, s.p, s.n);
	text[s.n] = '\0';
	return text;
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

/* Nobody knows whether the write was carried out. */
static bool is_unknown(int rc)
{
	return rc == -RF_UNAVAILABLE || rc == -RF_TIMEOUT;
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
	rf_core_failed(t->p->core, d->uid, end_of(why), t->p->now_ms);
}

static void into_limbo(struct carry *t, const struct member *m)
{
	struct rf_limbo l = { .uid = copy(m->d->uid),
			      .ns = copy(m->d->ns),
			      .name = copy(m->d->name),
			      .claim = copy(m->d->n_grants > 0 ? rf_pod_claim_name(t->a, m->pod) : RF_STR_EMPTY),
			      .why = copy(rf_str(t->err.msg)) };

	rf_vec_push(&t->p->limbo, l);
	rf_warn("pod %.*s/%.*s: %s; asking what became of it", RF_STR(m->d->ns), RF_STR(m->d->name), t->err.msg);
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
	if (h->update(h->ctx, t->a, claim_path(t, m->d->ns, rf_kube_name(claim), "status"),
		      rf_claim_allocated(t->a, claim, m->pod, m->d, wall_ms()), &written, &t->err) < 0)
		return rf_wrap(&t->err, "allocate its claim");
	m->claim = written;
	/* Told before the watch repeats it: the core must not give the card away again. */
	rf_feed_claim(t->p, NULL, written);
	return rf_claim_kept(written, m->pod, m->d, &t->err);
}

static void drop_claim(struct carry *t, struct rf_str ns, const struct rf_json *claim)
{
	struct rf_hands *h = &t->p->hands;
	struct rf_err err = RF_ERR_INIT;

	if (h->remove(h->ctx, t->a, claim_path(t, ns, rf_kube_name(claim), NULL), &err) < 0)
		rf_warn("claim %.*s/%.*s: drop it: %s", RF_STR(ns), RF_STR(rf_kube_name(claim)), err.msg);
	else
		rf_feed_claim_dropped(t->p, claim);
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
	struct rf_err err = RF_ERR_INIT;
	struct rf_str node;

	if (h->get(h->ctx, t->a, pod_path(t, m->d, NULL), &pod, &err) < 0 ||
	    !rf_str_eq(rf_kube_uid(pod), m->d->uid))
		return -RF_CONFLICT;
	rf_feed_pod(t->p, NULL, pod);
	node = rf_json_str_at(pod, "spec", "nodeName");
	return rf_str_eq(node, m->d->node) ? 0 : -RF_CONFLICT;
}

static int bind_pod(struct carry *t, const struct member *m)
{
	struct rf_hands *h = &t->p->hands;
	int rc = h->create(h->ctx, t->a, pod_path(t, m->d, "binding"),
			   rf_pod_binding(t->a, m->pod, m->d->node), NULL, &t->err);

	if (rc == -RF_CONFLICT && look_again(t, m) == 0)
		return 0;
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

	if (is_unknown(rc)) {
		into_limbo(t, &all[failed]);
		return false;
	}
	memcpy(why, t->err.msg, sizeof(why));
	for (size_t i = 0; i <= failed; i++) {
		if (all[i].claim != NULL)
			drop_claim(t, all[i].d->ns, all[i].claim);
	}
	tell_failed(t, all[failed].d, why);
	return true;
}

/* Some of it may run: the rest has its promises, and the core says what becomes of them. */
static bool leave_rest(struct carry *t, struct member *all, size_t failed, size_t n, int rc)
{
	char why[RF_ERR_MAX];

	memcpy(why, t->err.msg, sizeof(why));
	if (is_unknown(rc))
		into_limbo(t, &all[failed]);
	else
		tell_failed(t, all[failed].d, why);
	/* The pod went while we worked: it shall not hold a card. */
	if (rc == -RF_NOT_FOUND && all[failed].claim != NULL)
		drop_claim(t, all[failed].d->ns, all[failed].claim);
	for (size_t i = failed + 1; i < n; i++)
		tell_failed(t, all[i].d, "another of its gang could not be bound");
	return !is_unknown(rc);
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

static bool carry_release(struct carry *t, const struct rf_core_decision *d)
{
	struct rf_hands *h = &t->p->hands;
	const struct rf_json *pod = pod_of(t->p, d);
	struct rf_json *claim = NULL;
	int rc = 0;

	if (pod == NULL)
		return true; /* its claim is collected */
	rf_warn("pod %.*s/%.*s: %.*s", RF_STR(d->ns), RF_STR(d->name), RF_STR(d->reason));
	rc = h->get(h->ctx, t->a, claim_path(t, d->ns, rf_pod_claim_name(t->a, pod), NULL), &claim, &t->err);
	if (rc == -RF_NOT_FOUND || (rc == 0 && !rf_str_eq(rf_claim_owner(claim, "uid"), d->uid)))
		return true;
	if (rc == 0)
		rc = h->remove(h->ctx, t->a, claim_path(t, d->ns, rf_kube_name(claim), NULL), &t->err);
	if (rc == 0) {
		rf_feed_claim_dropped(t->p, claim);
		return true;
	}
	(void)rf_wrap(&t->err, "drop its claim");
	tell_failed(t, d, t->err.msg);
	return !is_unknown(rc);
}

/* As the event and the condition name it. */
static const char *const CAUSES[] = { [RF_CORE_NO_CAUSE] = "Evicted",
				      [RF_CORE_RECLAIMED] = "Reclaimed",
				      [RF_CORE_PREEMPTED] = "Preempted",
				      [RF_CORE_INCOMPLETE] = "GangIncomplete" };

static bool carry_evict(struct carry *t, const struct rf_core_decision *d)
{
	struct rf_hands *h = &t->p->hands;
	const struct rf_json *pod = pod_of(t->p, d);
	const char *kind = CAUSES[d->cause];
	struct rf_json *patch = NULL;
	int rc = 0;

	if (pod == NULL)
		return true; /* gone already: we have heard of it, or are about to */
	rc = h->create(h->ctx, t->a, pod_path(t, d, "eviction"), rf_pod_eviction(t->a, pod), NULL, &t->err);
	if (rc == -RF_NOT_FOUND)
		return true;
	if (rc < 0) {
		(void)rf_wrap(&t->err, "evict it");
		tell_failed(t, d, t->err.msg);
		return !is_unknown(rc);
	}
	/* After the deed: a pod that its budget keeps must not say that it was evicted. */
	patch = rf_pod_evicted_patch(t->a, pod, kind, d->reason, wall_ms());
	(void)h->patch(h->ctx, t->a, pod_path(t, d, "status"), RF_PATCH_STRATEGIC, patch, NULL, NULL);
	rf_info("pod %.*s/%.*s: %s: %.*s", RF_STR(d->ns), RF_STR(d->name), kind, RF_STR(d->reason));
	h->event(h->ctx, pod, "Warning", kind, d->reason);
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
			rf_core_failed(p->core, all[i].uid, RF_LIT("the API server does not answer"), p->now_ms);
		}
	}
	return answers;
}

/* --- writes without an answer ------------------------------------------------------------------- */

static int ask(struct rf_placer *p, struct rf_arena *a, const struct rf_kube_res *res, const char *ns,
	       const char *name, struct rf_json **ret, struct rf_err *err)
{
	int rc = p->hands.get(p->hands.ctx, a, rf_kube_path(a, res, rf_str(ns), rf_str(name), NULL), ret, err);

	return rc == -RF_NOT_FOUND ? 0 : rc;
}

/* Tells the core what is there, whatever was written, and that it did not go as decided. */
static bool settle(struct rf_placer *p, const struct rf_limbo *l)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *pod = NULL, *claim = NULL;
	struct rf_err err = RF_ERR_INIT;

	if (ask(p, &a, &RF_PODS, l->ns, l->name, &pod, &err) < 0 ||
	    (l->claim[0] != '\0' && ask(p, &a, &RF_RESOURCECLAIMS, l->ns, l->claim, &claim, &err) < 0))
		return false;
	if (claim != NULL)
		rf_feed_claim(p, NULL, claim);
	if (pod != NULL && rf_str_is(rf_kube_uid(pod), l->uid)) {
		rf_feed_pod(p, NULL, pod);
		if (rf_json_str_at(pod, "spec", "nodeName").n > 0)
			return true; /* it was carried out */
	}
	rf_core_failed(p->core, rf_str(l->uid), end_of(l->why), p->now_ms);
	return true;
}

bool rf_carry_settle(struct rf_placer *p)
{
	while (p->limbo.n > 0) {
		struct rf_limbo l = p->limbo.at[0];

		if (!settle(p, &l))
			return false;
		rf_vec_remove(&p->limbo, 0);
		rf_limbo_done(&l);
	}
	return true;
}
