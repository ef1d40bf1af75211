/* What is usually asked for: the fleet chooses places that leave most for it (RF_FLEET_FRAG).
 *
 * That is what the pods ask that are there now, those that run and those that wait. So it follows from the facts as
 * they are, a restart finds it again, and what is gone is forgotten. A tenant counts in full up to VOICE pods and
 * with VOICE more each time their number doubles: no flood of pods decides alone where everybody's go. */
#include "sched/core_private.h"

#define VOICE 64
#define WEIGHT 4096 /* of one pod */
#define ANEW 4	    /* it is looked at again after so large a part of the pods came or went */

static bool counts(const struct co_shape *s)
{
	return s->tenant != NULL && s->form->n_parts > 0 && s->form->bad == NULL;
}

/* So much counts who has so many pods; it grows steadily. */
static uint64_t voice(uint64_t pods)
{
	uint64_t doublings = 0;

	while (pods >> (doublings + 1) >= VOICE)
		doublings++;
	return VOICE * doublings + (pods >> doublings);
}

static void count_pods(struct rf_core *c)
{
	for (struct rf_map_slot *m = NULL; (m = rf_map_next(&c->tenants, m)) != NULL;)
		((struct co_tenant *)m->value)->n_asking = 0;
	for (struct rf_map_slot *m = NULL; (m = rf_map_next(&c->shapes, m)) != NULL;) {
		const struct co_shape *s = m->value;

		if (counts(s))
			s->tenant->n_asking += s->refs;
	}
}

static bool any_by_frag(const struct rf_core *c)
{
	bool any = c->config.policy == RF_FLEET_FRAG;

	for (struct rf_map_slot *m = NULL; !any && (m = rf_map_next(&c->pools, m)) != NULL;)
		any = (uintptr_t)m->value - 1 == RF_SCHED_FRAGMENTATION;
	return any;
}

void co_usual(struct rf_core *c)
{
	struct rf_fleet_ask ask;

	if (c->reshaped < c->usual_at || !any_by_frag(c))
		return;
	c->usual_at = c->reshaped + c->pods.n / ANEW + 1;
	count_pods(c);
	for (struct rf_map_slot *m = NULL; (m = rf_map_next(&c->shapes, m)) != NULL;) {
		const struct co_shape *s = m->value;

		if (counts(s))
			s->form->usual += WEIGHT * s->refs * voice(s->tenant->n_asking) / s->tenant->n_asking;
	}
	for (struct rf_map_slot *m = NULL; (m = rf_map_next(&c->shapes, m)) != NULL;) {
		struct co_shape *s = m->value;

		if (s->form->usual > 0 && co_ask(c, s, ~UINT64_C(0), &ask))
			rf_fleet_asked(c->fleet, &ask, s->form->usual);
		s->form->usual = 0;
	}
	rf_fleet_typical(c->fleet);
}
