/* How programs find the driver's functions, other than by linking: dlsym, dlvsym, cuGetProcAddress.
 *
 * The real look-up always runs first and decides whether there is anything to find; then its answer
 * is exchanged for the hook. So versions, flags, status words and dlerror stay the real ones. */
#include <dlfcn.h>
#include <string.h>

#include "fence/fence.h"
#include "fence/stub.h"

/* The hooks' addresses, without their prototypes: gates have none. */
#define DECLARE(name, ...) extern const char rf_hook_##name[] __asm__(#name);
#define DECLARE_AID(name)
RF_CUDA_SYMBOLS(DECLARE, DECLARE, DECLARE_AID)
RF_NVML_SYMBOLS(DECLARE, DECLARE, DECLARE_AID)
DECLARE(dlsym)
DECLARE(dlvsym)

#define ROW(sym, base_, since_)                                                                    \
	[RF_SYM_##sym] = { .name = #sym, .base = base_, .since = since_, .hook = rf_hook_##sym },
#define ROW_AID(sym) [RF_SYM_##sym] = { .name = #sym, .base = "" },
const struct rf_symbol rf_symbols[RF_SYM_COUNT] = { RF_CUDA_SYMBOLS(ROW, ROW, ROW_AID)
							    RF_NVML_SYMBOLS(ROW, ROW, ROW_AID) };

static int find_name(const char *name)
{
	if (strncmp(name, "cu", 2) != 0 && strncmp(name, "nvml", 4) != 0)
		return -1;
	for (int i = 0; i < RF_SYM_COUNT; i++) {
		if (rf_symbols[i].hook && strcmp(rf_symbols[i].name, name) == 0)
			return i;
	}
	return -1;
}

/* --- dlsym, dlvsym --- */

static struct rf_way answer(const void *p)
{
	return (struct rf_way){ .result = (uintptr_t)p };
}

/* The look-up found our own export: true only if the driver behind it is there too. */
static struct rf_way exported(int id)
{
	if (rf_real_or_null((enum rf_symbol_id)id, false))
		return answer(rf_symbols[id].hook);
	/* Fails, and leaves dlerror as it would be without us. */
	return answer(rf_real_dlsym()(RTLD_NEXT, rf_symbols[id].name));
}

static const void *own_lookup(const char *name)
{
	if (strcmp(name, "dlsym") == 0)
		return rf_hook_dlsym;
	return strcmp(name, "dlvsym") == 0 ? rf_hook_dlvsym : NULL;
}

struct rf_way rf_dlsym(void *handle, const char *name);
struct rf_way rf_dlsym(void *handle, const char *name)
{
	struct rf_way real = { .target = (void *)rf_real_dlsym() };
	const void *own = name ? own_lookup(name) : NULL;
	int id = name ? find_name(name) : -1;
	void *found;

	if (own)
		return rf_real_dlsym()(handle, name) ? answer(own) : real;
	if (id < 0)
		return real;
	found = rf_real_dlsym()(handle, name);
	if (!found)
		return real; /* once more, in the caller's name, for dlerror */
	return found == rf_symbols[id].hook ? exported(id) : answer(rf_symbols[id].hook);
}

struct rf_way rf_dlvsym(void *handle, const char *name, const char *version);
struct rf_way rf_dlvsym(void *handle, const char *name, const char *version)
{
	struct rf_way real = { .target = (void *)rf_real_dlvsym() };
	const void *own = name ? own_lookup(name) : NULL;
	int id = name ? find_name(name) : -1;
	void *found;

	if (!own && id < 0)
		return real;
	found = rf_real_dlvsym()(handle, name, version);
	if (!found)
		return real;
	if (own)
		return answer(own);
	return found == rf_symbols[id].hook ? exported(id) : answer(rf_symbols[id].hook);
}

RF_STUB_ARGS(dlsym, rf_dlsym)
RF_STUB_ARGS(dlvsym, rf_dlvsym)

/* --- cuGetProcAddress --- */

static bool is_per_thread(const char *name)
{
	size_t n = strlen(name);

	return n > 5 && strcmp(name + n - 5, "_ptsz") == 0;
}

static const void *hook_of_pointer(const void *ptr)
{
	for (int i = 0; i < RF_SYM_CUDA_END; i++) {
		if (rf_symbols[i].hook && rf_real_or_null((enum rf_symbol_id)i, true) == ptr)
			return rf_symbols[i].hook;
	}
	return NULL;
}

static bool has_per_thread(const char *base)
{
	for (int i = 0; i < RF_SYM_CUDA_END; i++) {
		if (strcmp(rf_symbols[i].base, base) == 0 && is_per_thread(rf_symbols[i].name))
			return true;
	}
	return false;
}

/* The newest variant of base that a program of this CUDA version can have asked for. */
static const void *hook_of_base(const char *base, int version, bool per_thread)
{
	const struct rf_symbol *best = NULL;

	per_thread = per_thread && has_per_thread(base);
	for (int i = 0; i < RF_SYM_CUDA_END; i++) {
		const struct rf_symbol *s = &rf_symbols[i];

		if (s->hook && strcmp(s->base, base) == 0 && s->since <= version &&
		    is_per_thread(s->name) == per_thread && (!best || s->since > best->since))
			best = s;
	}
	return best ? best->hook : NULL;
}

void *rf_translate(const char *base, int version, bool per_thread, void *ptr)
{
	const void *hook = hook_of_pointer(ptr);
	int id = find_name(base);

	if (!hook)
		hook = hook_of_base(base, version, per_thread);
	if (!hook && id >= 0) /* asked for by its full name, "cuMemAlloc_v2" */
		hook = rf_symbols[id].hook;
	return hook ? (void *)hook : ptr;
}

static void translate(const char *symbol, void **pfn, int version, cuuint64_t flags)
{
	bool per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

	if (symbol && pfn && *pfn)
		*pfn = rf_translate(symbol, version, per_thread, *pfn);
}

CUresult cuGetProcAddress(const char *symbol, void **pfn, int cuda_version, cuuint64_t flags)
{
	CUresult r = RF_REAL(cuGetProcAddress)(symbol, pfn, cuda_version, flags);

	if (r == CUDA_SUCCESS)
		translate(symbol, pfn, cuda_version, flags);
	return r;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cuda_version, cuuint64_t flags,
			     int *symbol_status)
{
	CUresult r = RF_REAL(cuGetProcAddress_v2)(symbol, pfn, cuda_version, flags, symbol_status);

	if (r == CUDA_SUCCESS)
		translate(symbol, pfn, cuda_version, flags);
	return r;
}

/* --- gates --- */

struct rf_way rf_gate(const char *name);
struct rf_way rf_gate(const char *name)
{
	int id = find_name(name);
	bool nvml = id >= RF_SYM_NVML_FIRST;
	struct rf_fence *f = rf_join();

	if (!f)
		return (struct rf_way){ .result = nvml ? NVML_ERROR_NO_PERMISSION
						       : CUDA_ERROR_NOT_PERMITTED };
	if (f->any_cap)
		return (struct rf_way){ .result = nvml ? NVML_ERROR_NOT_SUPPORTED
						       : CUDA_ERROR_NOT_SUPPORTED };
	return (struct rf_way){ .target = rf_real((enum rf_symbol_id)id) };
}

#define NO_STUB(...)
#define GATE_STUB(name, ...) RF_STUB_NAME(name, rf_gate)
RF_CUDA_SYMBOLS(NO_STUB, GATE_STUB, NO_STUB)
RF_NVML_SYMBOLS(NO_STUB, GATE_STUB, NO_STUB)
