/* How programs find the driver's functions, other than by linking: dlsym, dlvsym, cuGetProcAddress.
 *
 * The real look-up always runs first and decides whether there is anything to find; then its answer
 * is exchanged for the hook. So versions, flags, status words and dlerror stay the real ones. */
#include <dlfcn.h>
#include <limits.h>
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

/* --- the tables turned round: from a name, a base and a driver's pointer to the row ---
 *
 * Filled at first use, without a lock: a signal handler or a forked child may come in the middle.
 * Whoever finds a table unfinished fills it himself; all put the same rows into the same places. */

#define SLOTS 1024 /* a power of two, well above the number of rows */
_Static_assert(RF_SYM_COUNT * 2 < SLOTS, "look-ups become slow: double SLOTS");

struct index {
	uint16_t slot[SLOTS]; /* atomic: row + 1; 0: free */
	int full;	      /* atomic: complete */
};

static struct index by_name, by_base, by_pointer;

static uint32_t hash_text(const char *s)
{
	uint32_t h = 2166136261u;

	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 16777619u;
	return h ^ h >> 15;
}

static uint32_t hash_pointer(const void *p)
{
	return (uint32_t)(((uintptr_t)p >> 4) * 0x9e3779b97f4a7c15ull >> 32);
}

/* The row at the place, -1 at the end of a run of rows. */
static int row_at(const struct index *t, uint32_t place)
{
	return __atomic_load_n(&t->slot[place % SLOTS], __ATOMIC_RELAXED) - 1;
}

static void put(struct index *t, uint32_t place, int id)
{
	for (;; place++) {
		uint16_t found = 0;

		if (__atomic_compare_exchange_n(&t->slot[place % SLOTS], &found, (uint16_t)(id + 1),
						false, __ATOMIC_RELAXED, __ATOMIC_RELAXED) ||
		    found == id + 1)
			return;
	}
}

static bool is_full(const struct index *t)
{
	return __atomic_load_n(&t->full, __ATOMIC_ACQUIRE);
}

static void set_full(struct index *t)
{
	__atomic_store_n(&t->full, 1, __ATOMIC_RELEASE);
}

static void fill_names(void)
{
	for (int i = 0; i < RF_SYM_COUNT; i++) {
		if (!rf_symbols[i].hook)
			continue;
		put(&by_name, hash_text(rf_symbols[i].name), i);
		if (rf_symbols[i].base[0])
			put(&by_base, hash_text(rf_symbols[i].base), i);
	}
	set_full(&by_base);
	set_full(&by_name);
}

static int find_name(const char *name)
{
	int id;

	if (strncmp(name, "cu", 2) != 0 && strncmp(name, "nvml", 4) != 0)
		return -1;
	if (!is_full(&by_name))
		fill_names();
	for (uint32_t at = hash_text(name); (id = row_at(&by_name, at)) >= 0; at++) {
		if (strcmp(rf_symbols[id].name, name) == 0)
			return id;
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

	return n > 5 && (strcmp(name + n - 5, "_ptsz") == 0 || strcmp(name + n - 5, "_ptds") == 0);
}

/* Once the driver has answered a first look-up, it is loaded, and stays. */
static void fill_pointers(void)
{
	for (int i = 0; i < RF_SYM_CUDA_END; i++) {
		const void *p =
			rf_symbols[i].hook ? rf_real_or_null((enum rf_symbol_id)i, true) : NULL;
		if (p)
			put(&by_pointer, hash_pointer(p), i);
	}
	set_full(&by_pointer);
}

/* Of two names for one function the first row counts, as it was put first. */
static const void *hook_of_pointer(const void *ptr)
{
	int id;

	if (!is_full(&by_pointer))
		fill_pointers();
	for (uint32_t at = hash_pointer(ptr); (id = row_at(&by_pointer, at)) >= 0; at++) {
		if (rf_real_or_null((enum rf_symbol_id)id, true) == ptr)
			return rf_symbols[id].hook;
	}
	return NULL;
}

static const struct rf_symbol *newest_of(const char *base, int version, bool per_thread)
{
	const struct rf_symbol *best = NULL;
	int id;

	if (!is_full(&by_base))
		fill_names();
	for (uint32_t at = hash_text(base); (id = row_at(&by_base, at)) >= 0; at++) {
		const struct rf_symbol *s = &rf_symbols[id];

		if (s->since <= version && strcmp(s->base, base) == 0 &&
		    is_per_thread(s->name) == per_thread && (!best || s->since > best->since))
			best = s;
	}
	return best;
}

/* The driver exports this very function, under a name that is not hooked. */
static bool is_exported(const void *ptr)
{
	Dl_info info;

	return dladdr(ptr, &info) && info.dli_saddr == ptr;
}

/* The newest variant of base that a program of this CUDA version can have asked for. */
static const void *hook_of_base(const char *base, int version, bool per_thread, const void *ptr)
{
	const struct rf_symbol *best = NULL;

	if (per_thread)
		best = newest_of(base, version, true);
	if (!best && !(per_thread && newest_of(base, INT_MAX, true)))
		best = newest_of(base, version, false);
	return best && !is_exported(ptr) ? best->hook : NULL;
}

void *rf_translate(const char *base, int version, bool per_thread, void *ptr)
{
	const void *hook = hook_of_pointer(ptr);
	int id;

	if (!hook)
		hook = hook_of_base(base, version, per_thread, ptr);
	if (!hook && (id = find_name(base)) >= 0 && !is_exported(ptr))
		hook = rf_symbols[id].hook; /* asked for by its full name, "cuMemAlloc_v2" */
	return hook ? (void *)hook : ptr;
}

static void translate(const char *symbol, void **pfn, int version, cuuint64_t flags)
{
	bool per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

	if (symbol && pfn && *pfn)
		*pfn = rf_translate(symbol, version, per_thread, *pfn);
}

/* What a driver newer than this library has grown could take memory or time that is not counted: where something is
 * limited, the driver is one of the newest version that is known. */
static int known_version(int version)
{
	const struct rf_fence *f;

	if (version <= RF_CUDA_NEWEST)
		return version;
	f = rf_join();
	return f && !f->any_cap && !__atomic_load_n(&f->gate, __ATOMIC_ACQUIRE) ? version
										: RF_CUDA_NEWEST;
}

CUresult cuDriverGetVersion(int *version)
{
	CUresult r = RF_REAL(cuDriverGetVersion)(version);

	if (r == CUDA_SUCCESS)
		*version = known_version(*version);
	return r;
}

CUresult cuGetProcAddress(const char *symbol, void **pfn, int cuda_version, cuuint64_t flags)
{
	int version = known_version(cuda_version);
	CUresult r = RF_REAL(cuGetProcAddress)(symbol, pfn, version, flags);

	if (r == CUDA_SUCCESS)
		translate(symbol, pfn, version, flags);
	return r;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cuda_version, cuuint64_t flags,
			     int *symbol_status)
{
	int version = known_version(cuda_version);
	CUresult r = RF_REAL(cuGetProcAddress_v2)(symbol, pfn, version, flags, symbol_status);

	if (r == CUDA_SUCCESS)
		translate(symbol, pfn, version, flags);
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
