/* What stories of the core are told with, whatever their cluster is like: a core and its time, pods, all that is decided now,
 * and what is asserted of it. */
#ifndef RF_SCHED_TEST_CORE_STORY_H
#define RF_SCHED_TEST_CORE_STORY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "sched/core.h"

#define GI (INT64_C(1) << 30)

struct small {
	struct rf_core *c;
	struct rf_arena a;
	int64_t now, rv;
	struct rf_core_decision *d; /* what decide() decided */
	size_t n;
};

static inline void begin_with(struct small *w, const struct rf_core_config *config)
{
	*w = (struct small){ .now = 1000000 };
	w->c = rf_core_new(config);
}

static inline void begin(struct small *w)
{
	struct rf_core_config config;

	rf_core_config_default(&config);
	begin_with(w, &config);
}

static inline void audit(struct small *w)
{
	struct rf_err err = RF_ERR_INIT;

	if (rf_core_audit(w->c, w->now, &err) < 0)
		fail_msg("audit: %s", err.msg);
}

static inline void end(struct small *w)
{
	audit(w);
	rf_core_free(w->c);
	rf_arena_done(&w->a);
}

/* --- telling ---------------------------------------------------------------------------------- */

static inline struct rf_sched_pod pod(struct small *w, const char *uid, const char *ns, int64_t cards)
{
	struct rf_sched_pod p = { .uid = rf_str(uid),
				  .ns = rf_str(ns),
				  .name = rf_str(uid),
				  .rv = ++w->rv,
				  .created_ms = w->now,
				  .cpu_milli = 1000,
				  .memory = GI };

	p.containers = rf_arena_array(&w->a, struct rf_sched_container, 1);
	p.containers[0] = (struct rf_sched_container){ .name = RF_LIT("main"), .ask = { .cards = cards } };
	p.n_containers = 1;
	return p;
}

static inline void put(struct small *w, const struct rf_sched_pod *p)
{
	rf_core_put_pod(w->c, p, w->now);
}

static inline void put_pod(struct small *w, const char *uid, const char *ns, int64_t cards)
{
	struct rf_sched_pod p = pod(w, uid, ns, cards);

	put(w, &p);
}

static inline void member(struct small *w, const char *uid, const char *ns, const char *of, int64_t cards)
{
	struct rf_sched_pod p = pod(w, uid, ns, cards);

	p.group = rf_str(of);
	put(w, &p);
}

static inline struct rf_str claim_name(struct small *w, struct rf_str uid)
{
	return rf_arena_printf(&w->a, "claim-%.*s", RF_STR(uid));
}

static inline void del_claim(struct small *w, const char *uid, const char *ns)
{
	rf_core_del_claim(w->c, rf_str(ns), claim_name(w, rf_str(uid)), w->now);
}

static inline void gone(struct small *w, const char *uid, const char *ns)
{
	rf_core_del_pod(w->c, rf_str(uid), w->now);
	del_claim(w, uid, ns);
}

/* --- deciding --------------------------------------------------------------------------------- */

/* All that is to be decided now: one call may leave something for the next. */
static inline size_t decide(struct small *w)
{
	struct rf_core_decision *all = NULL;
	size_t n = 0;

	for (int calls = 0; calls < 1000; calls++) {
		size_t more = rf_core_decide(w->c, w->now, 100000, &w->a, &w->d);
		struct rf_core_decision *both = rf_arena_array(&w->a, struct rf_core_decision, n + more + 1);

		if (n > 0)
			memcpy(both, all, n * sizeof(*both));
		if (more > 0)
			memcpy(both + n, w->d, more * sizeof(*both));
		all = both;
		n += more;
		if (more == 0 && rf_core_next_ms(w->c, w->now) > w->now)
			break;
	}
	w->d = all;
	w->n = n;
	return n;
}

static inline size_t count(const struct small *w, enum rf_core_verdict v)
{
	size_t n = 0;

	for (size_t i = 0; i < w->n; i++)
		n += w->d[i].verdict == v;
	return n;
}

static inline const struct rf_core_decision *of(const struct small *w, enum rf_core_verdict v, const char *uid)
{
	for (size_t i = 0; i < w->n; i++) {
		if (w->d[i].verdict == v && rf_str_is(w->d[i].uid, uid))
			return &w->d[i];
	}
	return NULL;
}

/* --- looking ---------------------------------------------------------------------------------- */

static inline bool has(struct rf_str s, const char *part)
{
	return rf_str_contains(s, rf_str(part));
}

static inline struct rf_str why(struct small *w, const char *uid)
{
	return rf_core_why(w->c, rf_str(uid), w->now, &w->a);
}

#define assert_has(s, part)                                                                                 \
	do {                                                                                                \
		struct rf_str s_ = (s);                                                                     \
		if (!has(s_, part))                                                                         \
			fail_msg("\"%.*s\" does not say \"%s\"", RF_STR(s_), part);                         \
	} while (0)

static inline struct rf_queue_view view(struct small *w, const char *queue_name, const char *resource)
{
	struct rf_queues *qs = rf_core_queues(w->c);
	struct rf_queue_view v;

	rf_queue_view(qs, queue_name != NULL ? rf_queues_find(qs, rf_str(queue_name)) : NULL,
		      rf_core_resource(w->c, rf_str(resource)), w->now, &v);
	return v;
}

static inline int64_t used(struct small *w, const char *queue_name, const char *resource)
{
	return view(w, queue_name, resource).used;
}

/* What there is of it in the whole cluster. */
static inline int64_t capacity(struct small *w, const char *resource)
{
	return view(w, NULL, resource).limit;
}

static inline int64_t free_cards(struct small *w)
{
	struct rf_fleet_usage u;

	rf_fleet_usage(rf_core_fleet(w->c), &u);
	return u.free_cards;
}

#endif
