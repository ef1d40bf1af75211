/* A program that looks for every function of the driver in every way there is, with libringfence
 * preloaded and the driver of test/every/ behind it. Says on stderr what it found wrong. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fence/symbols.h"
#include "fence/test/every/every.h"

void *rf_next_ask(void);
int rf_next_other(void);

static int wrong;
static void *cuda, *nvml;
static __typeof__(&cu_every_find) find;
static __typeof__(&cu_every_name) name_of;

#define WRONG(...)                                                                                 \
	do {                                                                                       \
		fprintf(stderr, "finder: " __VA_ARGS__);                                           \
		fputc('\n', stderr);                                                               \
		wrong++;                                                                           \
	} while (0)

static const struct row {
	const char *name, *base;
	int since;
	bool replaced;
} rows[] = {
#define ROW(name, base, since) { #name, base, since, true },
#define ROW_AID(name) { #name, "", 0, false },
	RF_CUDA_SYMBOLS(ROW, ROW, ROW_AID) RF_NVML_SYMBOLS(ROW, ROW, ROW_AID)
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

static const char *const all[] = {
#define X(name, class, why) #name,
#include "fence/driver_api.h"
#undef X
};
#define ALL (sizeof(all) / sizeof(all[0]))

static bool is_replaced(const char *name)
{
	for (size_t i = 0; i < ROWS; i++) {
		if (rows[i].replaced && strcmp(rows[i].name, name) == 0)
			return true;
	}
	return false;
}

static bool lies_in(const void *p, const char *library)
{
	Dl_info info;

	return p && dladdr(p, &info) && strstr(info.dli_fname, library) != NULL;
}

static void *driver_of(const char *name)
{
	return strncmp(name, "nvml", 4) == 0 ? nvml : cuda;
}

static void by_name(const char *name)
{
	void *lib = driver_of(name), *p = dlsym(lib, name);

	if (is_replaced(name) && !lies_in(p, "libringfence"))
		WRONG("dlsym of %s leads past the hook", name);
	if (!is_replaced(name) && (!p || lies_in(p, "libringfence")))
		WRONG("dlsym of %s does not lead to the driver", name);
	if (dlvsym(lib, name, EVERY_VERSION) != p)
		WRONG("dlvsym of %s leads elsewhere than dlsym", name);
	if (dlvsym(lib, name, "NO_SUCH_VERSION") != NULL)
		WRONG("dlvsym of %s finds a version that is not there", name);
	if (is_replaced(name) && dlsym(RTLD_DEFAULT, name) != p)
		WRONG("dlsym of %s finds another hook in the program's scope", name);
	for (int i = 0; i < 1000; i++) {
		if (dlsym(lib, name) != p) {
			WRONG("dlsym of %s finds something else the %dth time", name, i + 1);
			break;
		}
	}
}

typedef int proc_v1(const char *symbol, void **pfn, int version, uint64_t flags);
typedef int proc_v2(const char *symbol, void **pfn, int version, uint64_t flags, int *status);

static void one_proc(const char *base, int version, uint64_t flags, bool hidden)
{
	void *real = find(base, version, flags & 2, hidden), *p1 = NULL, *p2 = NULL;
	const char *name = real ? name_of(real) : NULL;
	int status = -1;
	int r1 = ((proc_v1 *)dlsym(cuda, "cuGetProcAddress"))(base, &p1, version, flags);
	int r2 =
		((proc_v2 *)dlsym(cuda, "cuGetProcAddress_v2"))(base, &p2, version, flags, &status);

	if (r1 != r2 || p1 != p2 || (r1 == 0) != (real != NULL) || status != (real ? 0 : 1))
		WRONG("cuGetProcAddress of %s, version %d, flags %d: the answers do not agree",
		      base, version, (int)flags);
	else if (!real && p1)
		WRONG("cuGetProcAddress of %s, version %d: found what is not there", base, version);
	else if (real && is_replaced(name) && p1 != dlsym(cuda, name))
		WRONG("cuGetProcAddress of %s, version %d, flags %d does not lead to the hook of "
		      "%s",
		      base, version, (int)flags, name);
	else if (real && !is_replaced(name) && p1 != real)
		WRONG("cuGetProcAddress of %s, version %d, flags %d: %s was exchanged", base,
		      version, (int)flags, name);
}

/* Just before and at each version that matters, and both kinds of default stream. */
static void by_proc_address(const char *base, bool hidden)
{
	for (size_t i = 0; i < ROWS; i++) {
		if (strcmp(rows[i].base, base) != 0)
			continue;
		for (uint64_t flags = 0; flags < 3 && rows[i].since <= RF_CUDA_NEWEST; flags++) {
			one_proc(base, rows[i].since - 1, flags, hidden);
			one_proc(base, rows[i].since, flags, hidden);
			one_proc(base, RF_CUDA_NEWEST, flags, hidden);
		}
	}
}

static void *look_up_all(void *unused)
{
	void *p;

	for (size_t i = 0; i < ALL; i++) {
		(void)dlsym(driver_of(all[i]), all[i]);
		if (strncmp(all[i], "cu", 2) == 0)
			((proc_v1 *)dlsym(cuda, "cuGetProcAddress"))(all[i], &p, RF_CUDA_NEWEST, 0);
	}
	return NULL;
}

/* Many threads at once do the first look-ups of all; what they leave behind is looked at after. */
static void all_at_once(void)
{
	pthread_t thread[8];

	for (int i = 0; i < 8; i++)
		if (pthread_create(&thread[i], NULL, look_up_all, NULL) != 0)
			exit(2);
	for (int i = 0; i < 8; i++)
		pthread_join(thread[i], NULL);
}

static void *must(void *p, const char *what)
{
	if (!p) {
		fprintf(stderr, "finder: %s: %s\n", what, dlerror());
		exit(2);
	}
	return p;
}

int main(void)
{
	cuda = must(dlopen("libcuda.so.1", RTLD_NOW), "libcuda.so.1");
	nvml = must(dlopen("libnvidia-ml.so.1", RTLD_NOW), "libnvidia-ml.so.1");
	all_at_once();
	find = (__typeof__(find))must(dlsym(cuda, "cu_every_find"), "the driver's own answer");
	name_of = (__typeof__(name_of))must(dlsym(cuda, "cu_every_name"), "the driver's names");
	for (size_t i = 0; i < ALL; i++)
		by_name(all[i]);
	for (int hidden = 0; hidden < 2; hidden++) {
		((__typeof__(&cu_every_hide))dlsym(cuda, "cu_every_hide"))(hidden);
		for (size_t i = 0; i < ROWS; i++)
			by_proc_address(rows[i].base[0] ? rows[i].base : rows[i].name, hidden);
		for (size_t i = 0; i < ALL; i++) /* by full name, and those that are forwarded */
			if (strncmp(all[i], "cu", 2) == 0)
				one_proc(all[i], RF_CUDA_NEWEST, 0, hidden);
	}
	if (rf_next_other() != 0 || dlsym(RTLD_NEXT, "rf_no_such_name") || !dlerror())
		WRONG("dlsym of RTLD_NEXT finds what is not there");
	for (int i = 0; i < 1000; i++) {
		if (((int (*)(void))rf_next_ask())() != 2) {
			WRONG("dlsym of RTLD_NEXT no longer finds the next library");
			break;
		}
	}
	return wrong ? 1 : 0;
}
