/* Why pods wait, as a condition and an event. With many pods waiting every release changes all their reasons;
 * nobody reads that fast: each is told at once the first time, then at most every few seconds, and a turn
 * tells some only. */
#include "control/private.h"

#define TELL_MAX 32   /* written per turn */
#define TELL_MS 20    /* and so long: placing must not wait for it */
#define PAUSE_MS 10   /* in which the loop hears what is new, before more is told */
#define LOOK_MAX 1024 /* looked at per turn */
#define RETELL_MS 3000

struct memory {
	bool told, queued;
	int64_t told_ms;
	size_t ns_n, name_n;
	char text[]; /* namespace, then name */
};

static struct memory *remember(struct rf_placer *p, const struct rf_core_decision *d)
{
	struct memory *m = rf_map_get(&p->told, d->uid);

	if (m != NULL)
		return m;
	m = rf_alloc(sizeof(*m) + d->ns.n + d->name.n);
	m->ns_n = d->ns.n;
	m->name_n = d->name.n;
	memcpy(m->text, d->ns.p, d->ns.n);
	memcpy(m->text + d->ns.n, d->name.p, d->name.n);
	(void)rf_map_set(&p->told, d->uid, m);
	return m;
}

void rf_wait_note(struct rf_placer *p, const struct rf_core_decision *d)
{
	struct memory *m = remember(p, d);

	if (m->queued)
		return;
	m->queued = true;
	rf_vec_push(&p->tell, rf_str_dup(d->uid));
}

static int write_reason(struct rf_placer *p, struct rf_arena *a, const struct rf_json *pod, struct rf_str reason)
{
	struct rf_json *patch = rf_pod_waits_patch(a, pod, reason, rf_wall_ms(rf_clock_system()));
	struct rf_err err = RF_ERR_INIT;
	int rc = 0;

	if (patch == NULL)
		return 0;
	rc = p->hands.patch(p->hands.ctx, a,
			    rf_kube_path(a, &RF_PODS, rf_kube_namespace(pod), rf_kube_name(pod), "status"),
			    RF_PATCH_STRATEGIC, patch, NULL, &err);
	if (rc == -RF_NOT_FOUND)
		return 0;
	if (rc < 0) {
		rf_warn("pod %.*s: say that it waits: %s", RF_STR(rf_kube_display(a, pod)), err.msg);
		return rc;
	}
	rf_info("pod %.*s: waits: %.*s", RF_STR(rf_kube_display(a, pod)), RF_STR(reason));
	p->hands.event(p->hands.ctx, pod, "Warning", "FailedScheduling", reason);
	return 1;
}

/* 1: it was told; 0: there was nothing to tell; negative: it could not be. */
static int tell(struct rf_placer *p, struct rf_str uid, struct memory *m)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str reason = rf_core_why(p->core, uid, p->now_ms, &a);
	const struct rf_json *pod = p->cluster.get(p->cluster.ctx, &RF_PODS, rf_str_n(m->text, m->ns_n),
						   rf_str_n(m->text + m->ns_n, m->name_n));

	m->told = true;
	m->told_ms = p->now_ms;
	if (reason.n == 0 || pod == NULL || !rf_str_eq(rf_kube_uid(pod), uid))
		return 0;
	rf_books_say(p, uid, reason);
	return write_reason(p, &a, pod, reason);
}

static void push_back(struct rf_placer *p, char *uid)
{
	rf_vec_push(&p->tell, uid);
}

static void shrink(struct rf_placer *p)
{
	if (p->tell_head == 0 || (p->tell_head < LOOK_MAX && p->tell_head < p->tell.n))
		return;
	memmove(p->tell.at, p->tell.at + p->tell_head, (p->tell.n - p->tell_head) * sizeof(char *));
	p->tell.n -= p->tell_head;
	p->tell_head = 0;
}

/* At least one is told. */
static bool is_late(int told, int64_t end_ns)
{
	return told > 0 && rf_mono_ns(rf_clock_system()) >= end_ns;
}

int64_t rf_wait_tell(struct rf_placer *p)
{
	size_t most = RF_MIN(p->tell.n - p->tell_head, (size_t)LOOK_MAX), late = 0;
	int64_t first = RETELL_MS, end = rf_mono_ns(rf_clock_system()) + TELL_MS * INT64_C(1000000);
	int told = 0;

	for (size_t i = 0; i < most && told < TELL_MAX && !is_late(told, end) && p->hands.may(p->hands.ctx); i++) {
		char *uid = p->tell.at[p->tell_head++];
		struct memory *m = rf_map_get(&p->told, rf_str(uid));
		int64_t left = m != NULL && m->told ? m->told_ms + RETELL_MS - p->now_ms : 0;
		int rc = 0;

		if (left > 0) {
			first = RF_MIN(first, left);
			late++;
			push_back(p, uid);
			continue;
		}
		if (m != NULL)
			rc = tell(p, rf_str(uid), m);
		told += rc != 0;
		if (rc < 0) { /* later; who can be told does not wait for it, unless nobody answers */
			push_back(p, uid);
			late++;
			if (rc != -RF_UNAVAILABLE && rc != -RF_TIMEOUT)
				continue;
			shrink(p);
			return RETELL_MS;
		}
		if (m != NULL)
			m->queued = false;
		free(uid);
	}
	shrink(p);
	if (p->tell.n == p->tell_head)
		return -1;
	return p->tell.n - p->tell_head <= late ? first : PAUSE_MS;
}
