/* Time zones out of the machine's zoneinfo files (RFC 8536), without touching the process's own. */
#ifndef RF_POLICY_REGO_ZONEINFO_H
#define RF_POLICY_REGO_ZONEINFO_H

#include "base/base.h"

struct rf_zone;

struct rf_zone_span {
	int32_t offset;	   /* seconds east of UTC */
	char name[16];	   /* "CET" */
	int64_t start, end; /* seconds since 1970 it holds for, end excluded */
};

/* "Europe/Berlin". RF_NOT_FOUND: there is no such zone; RF_EXHAUSTED: the arena is full. */
int rf_zone_load(struct rf_arena *a, struct rf_str name, const struct rf_zone **ret, struct rf_err *err);
/* The same from the bytes of a file. */
int rf_zone_read(struct rf_arena *a, struct rf_str bytes, const struct rf_zone **ret, struct rf_err *err);
/* NULL is UTC. */
struct rf_zone_span rf_zone_at(const struct rf_zone *z, int64_t sec);

/* Days since 1970 of a date in the Gregorian calendar, before it began too; and back. */
int64_t rf_civil_days(int64_t year, int month, int day);
void rf_civil_date(int64_t days, int64_t *ret_year, int *ret_month, int *ret_day);

#endif
