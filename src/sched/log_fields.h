/* How the facts are written: one table per record, used for writing and for reading. */
#ifndef RF_SCHED_LOG_FIELDS_H
#define RF_SCHED_LOG_FIELDS_H

#include "sched/log.h"

enum rf_log_type {
	RF_LOG_STR,
	RF_LOG_INT,
	RF_LOG_COUNT, /* size_t */
	RF_LOG_BYTE,  /* uint8_t */
	RF_LOG_BOOL,
	RF_LOG_WORD,	 /* an enum, by name */
	RF_LOG_RESOURCE, /* const char *: by what name cards were asked for */
	RF_LOG_STRS,	 /* struct rf_str *, and how many at n_at */
	RF_LOG_LIST,	 /* records, and how many at n_at */
	RF_LOG_RECORD,	 /* one, embedded */
};

struct rf_log_record;
struct rf_log_field {
	const char *name;
	enum rf_log_type type;
	size_t at, n_at; /* offsets */
	const struct rf_log_record *of;
	const char *const *words; /* ends with NULL */
	int64_t otherwise;	  /* of an int or a word: the value that is left out */
	bool must;		  /* not empty */
};
struct rf_log_record {
	const struct rf_log_field *fields;
	size_t n, size;
};

/* Of a kind: what is written for put and for del; offsets are from the event. NULL: there is no such event. */
struct rf_log_shape {
	const char *name;
	const struct rf_log_record *put, *del;
	size_t at; /* of the record of put */
};
extern const struct rf_log_shape RF_LOG_SHAPES[RF_LOG_KINDS];
extern const struct rf_log_record RF_LOG_CONFIG_RECORD, RF_LOG_DECISION_RECORD, RF_LOG_FAILED_RECORD;
extern const char *const RF_LOG_VERDICTS[]; /* by enum rf_core_verdict; ends with NULL */

#endif
