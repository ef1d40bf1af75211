/* What the tests of the queues' named promises share: queues with quotas of cards, and work in them. */
#ifndef RF_SCHED_TEST_QUEUE_H
#define RF_SCHED_TEST_QUEUE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "sched/queue_private.h"

enum { CARDS, BYTES, MILLI, H100, CPU, N_RES };
#define NONE RF_QUEUE_NO_LIMIT
#define HOUR INT64_C(3600000)

static const struct rf_queue_resource resources[N_RES] = {
	{ "cards", false },	 { .name = "share-bytes", .cut = true }, { .name = "share-milli", .cut = true },
	{ "cards/h100", false }, { "cpu", true },
};

static inline struct rf_queues_config config(void)
{
	return (struct rf_queues_config){ .resources = resources,
					  .n_resources = N_RES,
					  .half_life_ms = 24 * HOUR,
					  .entry_ms = 60000,
					  .reserve_after_ms = 1000,
					  .reserve_amount = 8,
					  .reserve_most = 4 };
}

static inline struct rf_queues *make(void)
{
	struct rf_queues_config c = config();
	struct rf_err err = RF_ERR_INIT;
	struct rf_queues *qs = NULL;

	assert_int_equal(rf_queues_new(&c, &qs, &err), 0);
	return qs;
}

static inline int put_full(struct rf_queues *qs, const char *name, const char *parent, int64_t weight,
			   struct rf_queue_quota quota, struct rf_err *err)
{
	struct rf_queue_spec s = { .name = rf_str(name),
				   .parent = rf_str(parent),
				   .weight = weight,
				   .quotas = &quota,
				   .n_quotas = 1 };

	return rf_queues_put(qs, &s, 0, err);
}

static inline struct rf_queue *put(struct rf_queues *qs, const char *name, const char *parent,
				   int64_t guaranteed, int64_t limit)
{
	struct rf_err err = RF_ERR_INIT;

	if (put_full(qs, name, parent, 1,
		     (struct rf_queue_quota){ CARDS, guaranteed, limit, NONE, NONE }, &err) < 0)
		fail_msg("%s", err.msg);
	return rf_queues_find(qs, rf_str(name));
}

static inline void capacity(struct rf_queues *qs, int64_t cards)
{
	struct rf_err err = RF_ERR_INIT;

	assert_int_equal(rf_queues_capacity(qs, CARDS, cards, &err), 0);
}

static uint64_t last_id;

static inline struct rf_workload *submit_gang(struct rf_queues *qs, struct rf_queue *q, int64_t min,
					      int64_t size, int64_t limit_ms, bool preemptible)
{
	const struct rf_queue_ask ask = { CARDS, 1 };
	struct rf_workload_spec s = { .id = ++last_id,
				      .shape = 1,
				      .created_ms = (int64_t)last_id,
				      .min = min,
				      .size = size,
				      .preemptible = preemptible,
				      .run_limit_ms = limit_ms,
				      .ask = &ask,
				      .n_ask = 1 };
	struct rf_err err = RF_ERR_INIT;
	struct rf_workload *w = NULL;

	if (rf_queues_submit(qs, q, &s, &w, &err) < 0)
		fail_msg("%s", err.msg);
	return w;
}

static inline struct rf_workload *submit(struct rf_queues *qs, struct rf_queue *q, int64_t cards)
{
	return submit_gang(qs, q, cards, cards, 0, true);
}

static inline struct rf_workload *run_one(struct rf_queues *qs, struct rf_queue *q, int64_t cards,
					  int64_t now)
{
	struct rf_workload *w = submit(qs, q, cards);
	struct rf_err err = RF_ERR_INIT;

	if (rf_queues_admit(qs, w, cards, now, &err) < 0)
		fail_msg("%s", err.msg);
	return w;
}

static inline struct rf_queue_view view(struct rf_queues *qs, struct rf_queue *q)
{
	struct rf_queue_view v;

	rf_queue_view(qs, q, CARDS, 0, &v);
	return v;
}

static inline size_t admit_all(struct rf_queues *qs, int64_t now)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_workload *w;
	int64_t members;
	size_t n = 0;

	for (; (w = rf_queues_next(qs, now, &members)) != NULL; n++)
		assert_int_equal(rf_queues_admit(qs, w, members, now, &err), 0);
	return n;
}

static inline void counts(struct rf_queues *qs)
{
	struct rf_err err = RF_ERR_INIT;

	if (rf_queues_recount(qs, 0, &err) < 0)
		fail_msg("%s", err.msg);
}

#endif
