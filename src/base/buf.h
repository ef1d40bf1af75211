/* Buffer: a growing byte string that owns its memory. b.p is never NULL and always ends in NUL. */
#ifndef RF_BASE_BUF_H
#define RF_BASE_BUF_H

#include <stdarg.h>

#include "base/str.h"

struct rf_buf {
	char *p;
	size_t n;
	size_t cap; /* 0: p is the shared empty string */
};

extern char rf_buf_empty[1];
#define RF_BUF_INIT { .p = rf_buf_empty, .n = 0, .cap = 0 }

void rf_buf_done(struct rf_buf *b);
void rf_buf_clear(struct rf_buf *b); /* keeps the memory */
void rf_buf_reserve(struct rf_buf *b, size_t more);
void rf_buf_add(struct rf_buf *b, struct rf_str s);
void rf_buf_add_c(struct rf_buf *b, char c);
/* Its eight bytes as they are in memory: for keys. */
static inline void rf_buf_add_n(struct rf_buf *b, uint64_t n)
{
	if (b->cap - b->n <= sizeof(n)) /* and the NUL */
		rf_buf_reserve(b, sizeof(n));
	memcpy(b->p + b->n, &n, sizeof(n));
	b->n += sizeof(n);
	b->p[b->n] = '\0';
}
void rf_buf_puts(struct rf_buf *b, const char *cstr);
void rf_buf_printf(struct rf_buf *b, const char *fmt, ...) RF_PRINTF(2, 3);
void rf_buf_vprintf(struct rf_buf *b, const char *fmt, va_list ap) RF_PRINTF(2, 0);
void rf_buf_drop(struct rf_buf *b, size_t n); /* removes the first n bytes */

static inline struct rf_str rf_buf_str(const struct rf_buf *b)
{
	return rf_str_n(b->p, b->n);
}

#endif
