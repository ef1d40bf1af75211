#include "base/buf.h"

#include <stdio.h>

char rf_buf_empty[1];

void rf_buf_done(struct rf_buf *b)
{
	if (b->cap != 0)
		free(b->p);
	*b = (struct rf_buf)RF_BUF_INIT;
}

void rf_buf_clear(struct rf_buf *b)
{
	b->n = 0;
	if (b->cap != 0)
		b->p[0] = '\0';
}

void rf_buf_reserve(struct rf_buf *b, size_t more)
{
	size_t need, cap;

	rf_assert(more < SIZE_MAX / 2 - b->n - 1);
	need = b->n + more + 1;
	if (need <= b->cap)
		return;
	cap = RF_MAX(b->cap * 2, (size_t)64);
	cap = RF_MAX(cap, need);
	b->p = rf_realloc(b->cap != 0 ? b->p : NULL, cap);
	b->cap = cap;
	b->p[b->n] = '\0';
}

void rf_buf_add(struct rf_buf *b, struct rf_str s)
{
	if (s.n == 0)
		return;
	rf_buf_reserve(b, s.n);
	memcpy(b->p + b->n, s.p, s.n);
	b->n += s.n;
	b->p[b->n] = '\0';
}

void rf_buf_add_c(struct rf_buf *b, char c)
{
	rf_buf_add(b, rf_str_n(&c, 1));
}

void rf_buf_puts(struct rf_buf *b, const char *cstr)
{
	rf_buf_add(b, rf_str(cstr));
}

void rf_buf_vprintf(struct rf_buf *b, const char *fmt, va_list ap)
{
	va_list again;
	int n;

	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, again);
	va_end(again);
	rf_assert(n >= 0);
	rf_buf_reserve(b, (size_t)n);
	vsnprintf(b->p + b->n, (size_t)n + 1, fmt, ap);
	b->n += (size_t)n;
}

void rf_buf_printf(struct rf_buf *b, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	rf_buf_vprintf(b, fmt, ap);
	va_end(ap);
}

void rf_buf_drop(struct rf_buf *b, size_t n)
{
	rf_assert(n <= b->n);
	if (n == 0)
		return;
	b->n -= n;
	memmove(b->p, b->p + n, b->n);
	b->p[b->n] = '\0';
}
