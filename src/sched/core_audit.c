/* Counting everything again. And the log of events. */
#include "sched/core_private.h"

void co_log(struct rf_core *c, const struct rf_log_event *e)
{
	rf_auto(buf) b = RF_BUF_INIT;

	if (c->line == NULL)
		return;
	rf_log_write(&b, e);
	c->line(c->line_ctx, rf_buf_str(&b));
}

static int audit_pod(struct rf_core *c, const struct co_pod *p, struct rf_err *err)
{
	uint32_t node = RF_FLEET_NONE;
	size_t n;

	if (p->state == CO_BOUND && p->seat != p->node)
		return rf_fail(err, RF_INTERNAL, "pod %.*s is bound, and counted elsewhere", RF_STR(p->uid));
	if ((p->seat != NULL) != (p->work != NULL && p->work->running))
		return rf_fail(err, RF_INTERNAL, "pod %.*s is counted and not charged, or the other way round", RF_STR(p->uid));
	if (p->hold != 0 && (rf_fleet_hold(c->fleet, p->hold, &node, &n) == NULL || node != p->seat->handle))
		return rf_fail(err, RF_INTERNAL, "pod %.*s: its hold is not there", RF_STR(p->uid));
	if ((p->state == CO_QUEUED) != (p->work != NULL && !p->work->running))
		return rf_fail(err, RF_INTERNAL, "pod %.*s waits and is in no queue, or the other way round", RF_STR(p->uid));
	if (p->state == CO_BOUND && co_leaves(p) && !p->leaver && !p->dirty)
		return rf_fail(err, RF_INTERNAL, "pod %.*s leaves, and is not among those that do", RF_STR(p->uid));
	if (p->hold != 0 && p->held_for != NULL && p->held_for->hold != 0)
		return rf_fail(err, RF_INTERNAL, "claim %.*s holds twice", RF_STR(p->held_for->key));
	return 0;
}

int co_audit(struct rf_core *c, struct rf_err *err)
{
	struct rf_fleet_usage u;
	size_t holds = 0, unplaced = 0, left = 0;

	for (struct rf_map_slot *m = NULL; (m = rf_map_next(&c->pods, m)) != NULL;) {
		const struct co_pod *p = m->value;

		holds += p->hold != 0;
		if (p->shape != NULL && audit_pod(c, p, err) < 0)
			return -err->code;
	}
	for (struct rf_map_slot *m = NULL; (m = rf_map_next(&c->claims, m)) != NULL;) {
		const struct co_claim *k = m->value;

		holds += k->hold != 0;
		unplaced += k->node != NULL && !k->placed;
		left += k->work != NULL;
	}
	for (struct rf_map_slot *m = NULL; (m = rf_map_next(&c->nodes, m)) != NULL;)
		unplaced -= ((const struct co_node *)m->value)->n_unplaced;
	if (unplaced != 0)
		return rf_fail(err, RF_INTERNAL, "claims that found a card taken are counted wrong by %zd", (ssize_t)unplaced);
	if (left != c->left.n)
		return rf_fail(err, RF_INTERNAL, "%zu claims that pods left are charged, %zu known of", left, c->left.n);
	rf_fleet_usage(c->fleet, &u);
	if (holds != u.holds)
		return rf_fail(err, RF_INTERNAL, "%zu holds in the fleet, %zu known of", u.holds, holds);
	return 0;
}
