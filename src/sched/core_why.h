/* Private to core_why*.c: how a reason is put into words. */
#ifndef RF_SCHED_CORE_WHY_H
#define RF_SCHED_CORE_WHY_H

#include "sched/core_private.h"

struct co_words {
	struct rf_core *c;
	struct rf_arena *a;
	const struct co_pod *p;
	uint64_t number;
	bool mute; /* only the number matters */
};

/* --- core_why.c -------------------------------------------------------------------------------- */

uint64_t co_mix(uint64_t h, uint64_t v);
/* The whole reason: for a person first, then its parts. have may change without the reason being another. */
struct rf_str co_line(struct co_words *w, struct rf_str text, const char *resource, const char *level, int64_t need, int64_t have,
		      const char *help);
struct rf_str co_plain(struct co_words *w, struct rf_str text, const char *level, const char *help); /* nothing is counted */
struct rf_str co_amount(struct co_words *w, int64_t resource, int64_t n);
struct rf_str co_much(struct co_words *w, int64_t resource, int64_t n); /* "2 whole cards", "10Gi of memory of shares" */
struct rf_str co_why_quota(struct co_words *w, const struct rf_why *y, const char *more); /* more: said after it */

/* --- core_why_place.c -------------------------------------------------------------------------- */

/* What is scarcest, and the most of it that an allowed node has; and that as the beginning of a sentence. */
struct co_lack {
	const char *resource, *help;
	int64_t need, have;
	bool unlent; /* there are enough, and they are not lent to it, */
	bool kinds;  /* be it of another kind */
};
struct co_lack co_find_lack(struct co_words *w, const struct co_form *f, const struct rf_fleet_ask *ask,
			    const struct rf_fleet_most *m, const char *help);
struct rf_str co_headline(struct co_words *w, const struct co_form *f, const struct co_lack *l);
/* The quota that is in the way of so many cards of any of these models: where it leaves most, its own before others'. */
bool co_find_quota(struct co_words *w, const struct co_work *work, uint64_t models, int64_t need, struct rf_why *ret);
int64_t co_cards_of(const struct co_work *work); /* whole ones that it needs to start */
/* More of each of these models than a quota would ever leave? */
bool co_never_by_quota(struct co_words *w, const struct co_work *work, uint64_t models, int64_t need);
/* Is there no node that could ever do? */
bool co_why_never(struct rf_core *c, struct co_shape *s);
/* What its shape knows of why (why_*), as of now. False: no model is left to it. */
bool co_why_refresh(struct co_words *w, struct co_pod *p, uint64_t models);
struct rf_str co_why_place(struct co_words *w, struct co_pod *p);

/* --- core_why_gang.c --------------------------------------------------------------------------- */

const char *co_topology_of(const struct co_work *work); /* NULL: none */
const struct co_seats *co_seats_of(struct co_words *w, struct co_work *work);
struct rf_str co_why_gang(struct co_words *w, struct co_pod *p);

#endif
