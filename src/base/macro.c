#include "base/macro.h"

#include <stdio.h>
#include <string.h>

void rf_assert_failed(const char *cond, const char *file, int line, const char *func)
{
	fprintf(stderr, "ringfence: bug: %s is false in %s (%s:%d)\n", cond, func, file, line);
	abort();
}

void *rf_alloc(size_t size)
{
	void *p = calloc(1, size ? size : 1);

	rf_assert(p != NULL);
	return p;
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
