/* What label and field selectors have in common: a list of requirements that must all hold. */
#ifndef RF_KUBE_SELECTOR_H
#define RF_KUBE_SELECTOR_H

#include "kube/kube.h"

/* A selector comes in a URL or an object; these bound what parsing and matching it costs. */
#define RF_SELECTOR_TEXT_MAX 16384
#define RF_SELECTOR_TERMS_MAX 256
#define RF_SELECTOR_VALUES_MAX 1024

enum rf_selector_op {
	RF_SEL_EQUALS, /* field selectors; labels use IN with one value */
	RF_SEL_NOT_EQUALS,
	RF_SEL_IN,
	RF_SEL_NOT_IN,
	RF_SEL_EXISTS,
	RF_SEL_NOT_EXISTS,
	RF_SEL_GREATER,
	RF_SEL_LESS,
};

struct rf_selector_term {
	struct rf_str key;
	enum rf_selector_op op;
	struct rf_str *values;
	size_t n_values;
	int64_t bound; /* of GREATER and LESS */
};

struct rf_selector {
	struct rf_arena *a;
	struct rf_selector_term *terms;
	size_t n, cap;
};

struct rf_selector *rf_selector_new(struct rf_arena *a);
/* A new, empty term. RF_TOO_LARGE past the cap. */
int rf_selector_add(struct rf_selector *s, struct rf_selector_term **ret, struct rf_err *err);
int rf_selector_add_value(struct rf_selector *s, struct rf_selector_term *t, struct rf_str value,
			  struct rf_err *err);
int rf_selector_check_length(struct rf_str text, struct rf_err *err);

#endif
