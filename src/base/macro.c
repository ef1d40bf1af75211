#include "base/macro.h"

#include <stdio.h>
#include <string.h>

void rf_assert_failed(const char *cond, const char *file, int line, const char *func)
{
	fprintf(stderr, "ringfence: bug: %s is false in %s (%s:%d)\n", cond, func, file, line);
	abort();
}

/* glibc keeps what was freed last at hand for malloc, and not for calloc, which in turn knows of large blocks that they are
 * zero already. */
#define SMALL 1024

void *rf_alloc(size_t size)
{
	void *p = size <= SMALL ? malloc(size ? size : 1) : calloc(1, size);

	rf_assert(p != NULL);
	return size <= SMALL ? memset(p, 0, size) : p;
}

void *rf_realloc(void *old, size_t size)
{
	void *p = realloc(old, size ? size : 1);

	rf_assert(p != NULL);
	return p;
}

char *rf_strdup(const char *s)
{
	char *copy = strdup(s);

	rf_assert(copy != NULL);
	return copy;
}
