/* Arena: memory for one unit of work (a request, a review, a cycle), released all at once.
 *
 * Two ways to take memory from it:
 *   rf_arena_alloc  for what ringfence itself sizes; never NULL.
 *   rf_arena_try    for what somebody else sizes; NULL once the arena holds its cap, and the
 *                   caller turns that into an ordinary RF_TOO_LARGE error. */
#ifndef RF_BASE_ARENA_H
#define RF_BASE_ARENA_H

#include <stdarg.h>

#include "base/str.h"

struct rf_arena_block;

struct rf_arena {
	struct rf_arena_block *blocks; /* newest first */
	size_t used;                   /* bytes handed out */
	size_t cap;                    /* for rf_arena_try; 0 means none */
	size_t block;                  /* of the next block, twice as much each time; 0: large at once */
};

#define RF_ARENA_INIT { .blocks = NULL, .used = 0, .cap = 0 }
#define RF_ARENA_CAPPED(bytes) { .blocks = NULL, .used = 0, .cap = (bytes) }

/* Memory is zeroed and aligned for any type. */
void *rf_arena_alloc(struct rf_arena *a, size_t size) RF_MUST_USE;
void *rf_arena_try(struct rf_arena *a, size_t size) RF_MUST_USE;
/* As try, but not zeroed: for who fills it at once, all of it. */
void *rf_arena_try_raw(struct rf_arena *a, size_t size) RF_MUST_USE;
/* Forgets everything handed out but keeps one block for the next unit of work. */
void rf_arena_reset(struct rf_arena *a);
void rf_arena_done(struct rf_arena *a);

#define rf_arena_new(a, type) ((type *)rf_arena_alloc((a), sizeof(type)))
#define rf_arena_array(a, type, n) ((type *)rf_arena_alloc((a), sizeof(type) * (n)))

/* Copies; the result is NUL-terminated behind its length, for libc's edge. */
struct rf_str rf_arena_str(struct rf_arena *a, struct rf_str s);
const char *rf_arena_cstr(struct rf_arena *a, struct rf_str s);
struct rf_str rf_arena_printf(struct rf_arena *a, const char *fmt, ...) RF_PRINTF(2, 3);
struct rf_str rf_arena_vprintf(struct rf_arena *a, const char *fmt, va_list ap) RF_PRINTF(2, 0);

#endif
