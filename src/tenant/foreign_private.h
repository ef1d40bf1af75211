/* Private to foreign*.c: one pod on its way into ringfence's words. */
#ifndef RF_TENANT_FOREIGN_PRIVATE_H
#define RF_TENANT_FOREIGN_PRIVATE_H

#include "tenant/foreign.h"

struct rf_foreign_pod {
	struct rf_arena *a;
	const struct rf_foreign *f;
	struct rf_json *pod, *spec, *containers;
	struct rf_json *patch; /* operations so far */
	struct rf_err *err;
};

/* Of the pod's annotations, empty if it has none of that name. */
struct rf_str rf_foreign_annotation(const struct rf_foreign_pod *p, const char *key);
bool rf_foreign_has_annotation(const struct rf_foreign_pod *p, const char *key);
void rf_foreign_patch(struct rf_foreign_pod *p, struct rf_str path, struct rf_json *value);

/* Cards and shares of all habits into container limits (foreign_cards.c). */
int rf_foreign_cards(struct rf_foreign_pod *p);

#endif
