/* cuGetProcAddress: the newest symbol that a given CUDA version knows by a name. */
#include "sim/cuda_priv.h"

#include <string.h>

#include "sim/unsupported.h"

static const struct entry {
	const char *name;
	void *symbol;
	int since;
	void *per_thread;
} entries[] = {
#define X(name, symbol, since) { #name, (void *)symbol, since, (void *)symbol },
#define XT(name, symbol, since, per_thread) { #name, (void *)symbol, since, (void *)per_thread },
#include "sim/cuda_symbols.h"
#undef X
#undef XT
};

/* *ret_known: the name exists, though perhaps only in newer versions. */
static const struct entry *newest(const char *name, int version, bool *ret_known)
{
	const struct entry *best = NULL;

	*ret_known = false;
	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		if (strcmp(entries[i].name, name) != 0)
			continue;
		*ret_known = true;
		if (entries[i].since <= version &&
		    (best == NULL || entries[i].since >= best->since))
			best = &entries[i];
	}
	return best;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cuda_version, cuuint64_t flags,
			     int *symbol_status)
{
	bool known = false;
	const struct entry *e;
	void *found;

	if (symbol == NULL || pfn == NULL || flags > 2)
		return CUDA_ERROR_INVALID_VALUE;
	e = newest(symbol, cuda_version, &known);
	if (e != NULL)
		found = flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM ? e->per_thread
									       : e->symbol;
	else
		found = known ? NULL : sim_unsupported(symbol);
	*pfn = found;
	if (symbol_status != NULL)
		*symbol_status = found != NULL ? CU_GET_PROC_ADDRESS_SUCCESS
				 : known       ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
					       : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return found != NULL ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetProcAddress(const char *symbol, void **pfn, int cuda_version, cuuint64_t flags)
{
	return cuGetProcAddress_v2(symbol, pfn, cuda_version, flags, NULL);
}
