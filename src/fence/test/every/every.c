/* A driver that exports every name of driver_api.h, and nothing that works: for look-ups. Built as
 * libcuda.so.1 and as libnvidia-ml.so.1; the version script picks the names. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "fence/symbols.h"
#include "fence/test/every/every.h"

#pragma GCC visibility push(default)
int cuGetProcAddress(const char *symbol, void **pfn, int version, uint64_t flags);
int cuGetProcAddress_v2(const char *symbol, void **pfn, int version, uint64_t flags, int *status);

/* No two alike, or the compiler makes one of them. */
#define cuGetProcAddress every_made_below
#define cuGetProcAddress_v2 every_made_below_v2
#define X(name, class, why)                                                                        \
	int name(void);                                                                            \
	int name(void)                                                                             \
	{                                                                                          \
		return __LINE__;                                                                   \
	}
#include "fence/driver_api.h"
#undef X
#undef cuGetProcAddress
#undef cuGetProcAddress_v2
#pragma GCC visibility pop

/* The same once more, for a driver whose cuGetProcAddress answers with functions that dlsym does not
 * know. */
#define X(name, class, why)                                                                        \
	static int hidden_##name(void)                                                             \
	{                                                                                          \
		return 100000 + __LINE__;                                                          \
	}
#include "fence/driver_api.h"
#undef X

static const struct row {
	const char *name;
	void *shown, *hidden;
} rows[] = {
#define X(sym, class, why) { #sym, (void *)sym, (void *)hidden_##sym },
#include "fence/driver_api.h"
#undef X
};

static const struct {
	const char *name, *base;
	int since;
} variants[] = {
#define ROW(name, base, since) { #name, base, since },
#define NO_ROW(...)
	RF_CUDA_SYMBOLS(ROW, ROW, NO_ROW)
};

static const struct row *row_of(const char *name)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (strcmp(rows[i].name, name) == 0)
			return &rows[i];
	}
	return NULL;
}

static bool is_per_thread(const char *name)
{
	size_t n = strlen(name);

	return n > 5 && (strcmp(name + n - 5, "_ptsz") == 0 || strcmp(name + n - 5, "_ptds") == 0);
}

/* The newest variant of the base that this version knows; for each thread, if there is one. */
static const char *variant_of(const char *base, int version, bool per_thread)
{
	int best = -1;

	for (int i = 0; i < (int)(sizeof(variants) / sizeof(variants[0])); i++) {
		if (strcmp(variants[i].base, base) == 0 && variants[i].since <= version &&
		    is_per_thread(variants[i].name) == per_thread &&
		    (best < 0 || variants[i].since > variants[best].since))
			best = i;
	}
	if (best < 0 && per_thread && !variant_of(base, 1 << 30, false))
		return NULL;
	if (best < 0 && per_thread)
		return variant_of(base, version, false);
	return best < 0 ? NULL : variants[best].name;
}

static bool knows(const char *base)
{
	return variant_of(base, 1 << 30, false) || variant_of(base, 1 << 30, true);
}

void *cu_every_find(const char *base, int version, bool per_thread, bool hidden)
{
	const char *name = knows(base) ? variant_of(base, version, per_thread) : base;
	const struct row *r = name ? row_of(name) : NULL;

	if (!r)
		return NULL;
	return hidden && knows(base) ? r->hidden : r->shown;
}

const char *cu_every_name(const void *pointer)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (rows[i].shown == pointer || rows[i].hidden == pointer)
			return rows[i].name;
	}
	return NULL;
}

static bool hidden_answers;

void cu_every_hide(bool on)
{
	hidden_answers = on;
}

int cuGetProcAddress_v2(const char *symbol, void **pfn, int version, uint64_t flags, int *status)
{
	*pfn = cu_every_find(symbol, version, flags & 2, hidden_answers);
	if (status)
		*status = *pfn ? 0 : 1;
	return *pfn ? 0 : 500; /* CUDA_ERROR_NOT_FOUND */
}

int cuGetProcAddress(const char *symbol, void **pfn, int version, uint64_t flags)
{
	return cuGetProcAddress_v2(symbol, pfn, version, flags, NULL);
}
