/* What histories of evictions are told with: a world that holds every decision against the reference (test_core_reference.c), and
 * short words for what happens in it. */
#ifndef RF_SCHED_TEST_CORE_EVICT_H
#define RF_SCHED_TEST_CORE_EVICT_H

#include "sched/test_core_world.h"

static struct world world;

enum { ACME, BOLT, CRUX }; /* namespaces, tenants and their own queues alike */

static inline struct world *begin_with(int nodes, int cards, enum rf_reclaim reclaim)
{
	struct rf_core_config c;

	rf_core_config_default(&c);
	c.reclaim = reclaim;
	world_bare(&world, &c);
	for (int i = 0; i < nodes; i++)
		world_add_node(&world, i, cards);
	return &world;
}

static inline struct world *begin(int nodes, int cards)
{
	return begin_with(nodes, cards, RF_RECLAIM_GUARANTEE);
}

static inline void all_well(struct world *w)
{
	if (w->why[0] != 0)
		fail_msg("%s", w->why);
}

static inline void end(struct world *w)
{
	struct rf_err err = RF_ERR_INIT;

	if (rf_core_audit(w->core, w->now, &err) != 0)
		fail_msg("%s", err.msg);
	all_well(w);
	world_done(w);
}

static inline void isolate(struct world *w, int tenant, enum rf_isolation level)
{
	w->tenants[tenant].isolation = level;
	world_tell_tenant(w, tenant);
}

static inline void guarantee(struct world *w, int queue, enum res r, int64_t amount)
{
	w->queues[queue].exists = true;
	w->queues[queue].quotas[r] = (struct quota){ true, amount, -1, -1, -1 };
	world_tell_queue(w, queue);
}

static inline struct pod *make(struct world *w, int space, int shape)
{
	int i = world_new_pod(w, space, shape);

	assert_true(i >= 0);
	return &w->pods[i];
}

static inline struct pod *submit(struct world *w, int space, int shape)
{
	struct pod *p = make(w, space, shape);

	world_tell_pod(w, p);
	return p;
}

static inline void gang(struct world *w, int space, int64_t min)
{
	w->groups[0] = (struct group){ .exists = true, .space = space, .queue = NOBODY, .min = min, .name = "gang", .created = w->now };
	world_tell_group(w, 0);
}

static inline struct pod *member(struct world *w, int space, int shape, int64_t priority)
{
	struct pod *p = make(w, space, shape);

	p->group = 0;
	p->priority = priority;
	world_tell_pod(w, p);
	return p;
}

static inline void write_all(struct world *w)
{
	while (w->n_writes > 0)
		assert_true(world_write(w, false));
}

/* The next eviction, with what has to be written before it. */
static inline struct pod *write_eviction(struct world *w, bool fails)
{
	struct pod *p;

	while (w->n_writes > 0 && w->writes[0].kind != W_EVICT)
		assert_true(world_write(w, false));
	assert_true(w->n_writes > 0);
	p = &w->pods[w->writes[0].pod];
	assert_true(world_write(w, fails));
	return p;
}

/* Decides and writes until nothing is decided any more; time stands still. */
static inline void settle(struct world *w)
{
	for (int turn = 0; turn < 20; turn++) {
		assert_true(world_decide(w, 64) || w->why[0] != 0);
		all_well(w);
		write_all(w);
	}
}

static inline void rest(struct world *w)
{
	(void)world_calm(w);
	all_well(w);
}

static inline void delete(struct world *w, struct pod *p, int64_t grace)
{
	p->deleting = true;
	p->gone_at = w->now + grace;
	world_tell_pod(w, p);
}

static inline int evictions(const struct world *w)
{
	int n = 0;

	for (int i = 0; i < w->n_writes; i++)
		n += w->writes[i].kind == W_EVICT;
	return n;
}

#endif
