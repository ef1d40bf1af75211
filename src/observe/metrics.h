/* observe: numbers in Prometheus' text format. One page is built per scrape and thrown away;
 * series come out in the order of their families' first use, samples sorted by labels, so that
 * two scrapes of the same state are the same text. */
#ifndef RF_OBSERVE_METRICS_H
#define RF_OBSERVE_METRICS_H

#include "base/base.h"

#define RF_METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

enum rf_metric_type { RF_METRIC_COUNTER, RF_METRIC_GAUGE };

struct rf_label {
	const char *name;
	struct rf_str value;
};

struct rf_metrics {
	struct rf_arena *arena; /* borrowed */
	struct rf_metrics_family *first, *last;
	size_t samples;
	bool full; /* a sample was left out because of RF_METRICS_SAMPLES_MAX */
};
#define RF_METRICS_SAMPLES_MAX 100000

void rf_metrics_init(struct rf_metrics *m, struct rf_arena *a);

/* name and label names are the program's own and must be valid; label values may be anything. The
 * same name must come with the same type and help. */
void rf_metrics_int(struct rf_metrics *m, const char *name, enum rf_metric_type type,
		    const char *help, const struct rf_label *labels, size_t n_labels,
		    int64_t value);
/* value * 10^-decimals, written exactly: (1234, 3) is 1.234. decimals 0 to 9. */
void rf_metrics_scaled(struct rf_metrics *m, const char *name, enum rf_metric_type type,
		       const char *help, const struct rf_label *labels, size_t n_labels,
		       int64_t value, int decimals);

/* HELP and TYPE once per family, then its samples. */
void rf_metrics_write(const struct rf_metrics *m, struct rf_buf *out);

/* The process itself: CPU seconds, resident bytes, descriptors, start time; and the build. */
void rf_metrics_process(struct rf_metrics *m);

#endif
