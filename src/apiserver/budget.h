/* Budget: PodDisruptionBudgets. An eviction is held to them in its own transaction; their status, which
 * schedulers plan by, follows within a second or so. */
#ifndef RF_APISERVER_BUDGET_H
#define RF_APISERVER_BUDGET_H

#include "apiserver/api.h"

/* May this pod be evicted? RF_EXHAUSTED (429) if a budget says no. */
int rf_budget_check(struct rf_api *api, struct rf_arena *a, const struct rf_json *pod,
		    struct rf_err *err);
/* Pods or budgets of the namespace changed. */
void rf_budget_note(struct rf_api *api, const struct rf_kind *k, struct rf_str ns);
/* Brings the status of budgets up to date where something was noted. */
void rf_budget_tick(struct rf_api *api);
int rf_budget_validate(struct rf_arena *a, const struct rf_json *o, struct rf_err *err);

#endif
