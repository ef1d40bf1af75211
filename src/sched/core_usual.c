/* What is usually asked for: the fleet chooses places that leave most for it (RF_FLEET_FRAG).
 *
 * That is what the pods ask that are there now, those that run and those that wait. So it follows from the facts as
 * they are, a restart finds it again, and what is gone is forgotten. A tenant counts in full up to VOICE pods and
 * with VOICE more each time their number doubles: no flood of pods decides alone where everybody's go. */
#include "sched/core_private.h"

#define VOICE 64
#define WEIGHT 4096 /* of one pod */
#define ANEW 4	    /* it is looked at again after so large a part of the pods came or went */
#define FEW 1024    /* shapes that are looked at in one go */
#define STEPS 8     /* else so many for each pod that came or went */

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

void co_usual_count(const struct co_shape *s, int change)
{
	if (counts(s))
		s->tenant->n_asking += (uint64_t)(int64_t)change;
}

static bool any_by_frag(const struct rf_core *c)
{
	bool any = c->config.policy == RF_FLEET_FRAG;

	for (struct rf_map_slot *m = NULL; !any && (m = rf_map_next(&c->pools, m)) != NULL;)
		any = (uintptr_t)m->value - 1 == RF_SCHED_FRAGMENTATION;
	return any;
}

static void weigh(const struct co_shape *s)
{
	if (counts(s))
		s->form->usual += WEIGHT * s->refs * voice(s->tenant->n_asking) / s->tenant->n_asking;
}

static void tell_fleet(struct rf_core *c, struct co_shape *s)
{
	struct rf_fleet_ask ask;

	if (s->form->usual > 0 && co_ask(c, s, ~UINT64_C(0), &ask))
		rf_fleet_asked(c->fleet, &ask, s->form->usual);
	s->form->usual = 0;
}

/* So many steps of a walk that has begun: all shapes are weighed, then the fleet is told of each form. */
static void walk(struct rf_core *c, uint64_t steps)
{
	for (; c->usual_walk != 0 && steps > 0; steps--) {
		struct co_shape *s = c->usual_next;

		if (s == NULL && c->usual_walk == 1) {
			c->usual_walk = 2;
			c->usual_next = c->shape_first;
		} else if (s == NULL) {
			c->usual_walk = 0;
			rf_fleet_typical(c->fleet);
		} else {
			c->usual_next = s->next;
			if (c->usual_walk == 1)
				weigh(s);
			else
				tell_fleet(c, s);
		}
	}
}

/* Where there are many shapes, the walk goes on a few steps with each pod that comes or goes; but a core that has
 * just begun knows at once, so that a restart decides as before it. */
void co_usual(struct rf_core *c)
{
	bool anew = c->usual_at == 0;
	uint64_t news = c->reshaped - c->usual_seen;

	c->usual_seen = c->reshaped;
	walk(c, anew ? UINT64_MAX : STEPS * news);
	if (c->usual_walk != 0 || c->reshaped < c->usual_at || !any_by_frag(c))
		return;
	c->usual_at = c->reshaped + c->pods.n / ANEW + 1;
	c->usual_walk = 1;
	c->usual_next = c->shape_first;
	walk(c, anew || c->shapes.n <= FEW ? UINT64_MAX : STEPS * news);
}
