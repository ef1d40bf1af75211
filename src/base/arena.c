#include "base/arena.h"

#include <stdio.h>

#define BLOCK_SIZE (16 * 1024 - 64)
#define ALIGN 16

struct rf_arena_block {
	struct rf_arena_block *next;
	size_t size;
	size_t used;
	_Alignas(ALIGN) char data[];
};

static size_t round_up(size_t size)
{
	rf_assert(size < SIZE_MAX / 2);
	return (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
}

/* What is larger than a block comes zeroed from the system, page by page as it is used. */
static struct rf_arena_block *add_block(struct rf_arena *a, size_t need)
{
	size_t usual = a->block ? RF_MIN(a->block, (size_t)BLOCK_SIZE) : (size_t)BLOCK_SIZE;
	size_t size = RF_MAX(need, usual);
	struct rf_arena_block *b = need > BLOCK_SIZE ? calloc(1, sizeof(*b) + size) : malloc(sizeof(*b) + size);

	rf_assert(b != NULL);
	a->block = RF_MIN(a->block * 2, (size_t)BLOCK_SIZE);
	b->size = size;
	b->used = 0;
	b->next = a->blocks;
	a->blocks = b;
	return b;
}

/* need is rounded. */
static inline void *take(struct rf_arena *a, size_t need)
{
	struct rf_arena_block *b = a->blocks;
	void *p;

	if (b == NULL || b->size - b->used < need)
		b = add_block(a, need);
	p = b->data + b->used;
	b->used += need;
	a->used += need;
	return p;
}

static inline bool is_full(const struct rf_arena *a, size_t size)
{
	return a->cap != 0 && (size > a->cap || a->used + size > a->cap);
}

void *rf_arena_alloc(struct rf_arena *a, size_t size)
{
	size_t need = round_up(size ? size : 1);
	void *p = take(a, need);

	return need > BLOCK_SIZE ? p : memset(p, 0, need);
}

void *rf_arena_try(struct rf_arena *a, size_t size)
{
	return is_full(a, size) ? NULL : rf_arena_alloc(a, size);
}

void *rf_arena_try_raw(struct rf_arena *a, size_t size)
{
	return is_full(a, size) ? NULL : take(a, round_up(size ? size : 1));
}

void rf_arena_reset(struct rf_arena *a)
{
	struct rf_arena_block *keep = NULL;

	for (struct rf_arena_block *b = a->blocks, *next; b != NULL; b = next) {
		next = b->next;
		if (keep == NULL && b->size == BLOCK_SIZE)
			keep = b;
		else
			free(b);
	}
	if (keep != NULL) {
		keep->used = 0;
		keep->next = NULL;
	}
	a->blocks = keep;
	a->used = 0;
}

void rf_arena_done(struct rf_arena *a)
{
	for (struct rf_arena_block *b = a->blocks, *next; b != NULL; b = next) {
		next = b->next;
		free(b);
	}
	a->blocks = NULL;
	a->used = 0;
}

struct rf_str rf_arena_str(struct rf_arena *a, struct rf_str s)
{
	char *p = rf_arena_alloc(a, s.n + 1);

	if (s.n > 0)
		memcpy(p, s.p, s.n);
	return rf_str_n(p, s.n);
}

const char *rf_arena_cstr(struct rf_arena *a, struct rf_str s)
{
	return rf_arena_str(a, s).p;
}

struct rf_str rf_arena_vprintf(struct rf_arena *a, const char *fmt, va_list ap)
{
	va_list again;
	int n;
	char *p;

	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, again);
	va_end(again);
	rf_assert(n >= 0);
	p = rf_arena_alloc(a, (size_t)n + 1);
	vsnprintf(p, (size_t)n + 1, fmt, ap);
	return rf_str_n(p, (size_t)n);
}

struct rf_str rf_arena_printf(struct rf_arena *a, const char *fmt, ...)
{
	va_list ap;
	struct rf_str s;

	va_start(ap, fmt);
	s = rf_arena_vprintf(a, fmt, ap);
	va_end(ap);
	return s;
}
