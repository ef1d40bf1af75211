/* gpu-demo: a small CUDA program that takes memory in steps and keeps the card a little busy, and
 * says in plain words what it sees. For examples and tests; loads the driver by name, so it runs
 * wherever a driver is, real or simulated.
 *
 * Exit status: 0 as asked, 1 the driver refused something, 2 usage, 3 out of memory. */
#include <dlfcn.h>
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpu/cuda_abi.h"

#define MIB ((uint64_t)1 << 20)
#define MAX_PIECES 65536

enum { EXIT_DRIVER = 1, EXIT_USAGE = 2, EXIT_OOM = 3 };

struct options {
	uint64_t memory;
	uint64_t step;
	double hold_s;
	unsigned kernel_ms;
	uint64_t loops;
	int device;
	bool info;
	bool expect_oom;
};

#define CUDA_CALLS(X)                                                                              \
	X(cuInit)                                                                                  \
	X(cuGetErrorName)                                                                          \
	X(cuDeviceGet) X(cuDeviceGetCount) X(cuDeviceGetName) X(cuDeviceGetUuid)                   \
	X(cuDeviceTotalMem_v2)                                                                     \
		X(cuCtxCreate_v2) X(cuCtxDestroy_v2) X(cuCtxSynchronize) X(cuMemAlloc_v2)          \
			X(cuMemFree_v2) X(cuMemGetInfo_v2) X(cuMemsetD8_v2) X(cuModuleLoadData)    \
				X(cuModuleGetFunction) X(cuLaunchKernel)

#define FIELD(name) __typeof__(&name) name;
static struct {
	CUDA_CALLS(FIELD)
} cu;

/* Keeps one thread busy for a number of nanoseconds by the card's own clock. A simulated card does
 * not run the code; it reads how long the kernel takes from the first line. */
static const char spin_ptx[] = "// ringfence-sim: kernel=spin ns=%llu\n"
			       ".version 6.0\n"
			       ".target sm_50\n"
			       ".address_size 64\n"
			       ".visible .entry spin(.param .u64 ns)\n"
			       "{\n"
			       "	.reg .pred %%p<2>;\n"
			       "	.reg .b64 %%rd<5>;\n"
			       "	ld.param.u64 %%rd1, [ns];\n"
			       "	mov.u64 %%rd2, %%globaltimer;\n"
			       "again:\n"
			       "	mov.u64 %%rd3, %%globaltimer;\n"
			       "	sub.s64 %%rd4, %%rd3, %%rd2;\n"
			       "	setp.lt.u64 %%p1, %%rd4, %%rd1;\n"
			       "	@%%p1 bra again;\n"
			       "	ret;\n"
			       "}\n";

static const char *error_name(CUresult r)
{
	const char *name = NULL;

	if (cu.cuGetErrorName && cu.cuGetErrorName(r, &name) == CUDA_SUCCESS && name)
		return name;
	return "unknown error";
}

static bool ok(CUresult r, const char *what)
{
	if (r == CUDA_SUCCESS)
		return true;
	printf("gpu-demo: %s: %s (%d)\n", what, error_name(r), r);
	return false;
}

static bool load_driver(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);

	if (!lib) {
		printf("gpu-demo: no CUDA driver here: %s\n", dlerror());
		return false;
	}
#define LOAD(name)                                                                                 \
	cu.name = (__typeof__(&name))dlsym(lib, #name);                                            \
	if (!cu.name) {                                                                            \
		printf("gpu-demo: the driver lacks %s\n", #name);                                  \
		return false;                                                                      \
	}
	CUDA_CALLS(LOAD)
	return true;
}

/* --- options --- */

static bool parse_size(const char *text, uint64_t *ret)
{
	static const struct {
		const char *suffix;
		uint64_t unit;
	} units[] = { { "", 1 },	   { "Ki", 1024 },
		      { "Mi", MIB },	   { "Gi", 1024 * MIB },
		      { "K", 1000 },	   { "M", 1000000 },
		      { "G", 1000000000 }, { "KiB", 1024 },
		      { "MiB", MIB },	   { "GiB", 1024 * MIB } };
	char *end;
	unsigned long long n;

	errno = 0;
	n = strtoull(text, &end, 10);
	if (end == text || *text == '-' || errno != 0)
		return false;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(end, units[i].suffix) == 0)
			return !__builtin_mul_overflow(n, units[i].unit, ret);
	}
	return false;
}

static int usage(FILE *to)
{
	fprintf(to,
		"usage: gpu-demo [--device N] [--info] [--memory SIZE] [--step SIZE] "
		"[--expect-oom]\n"
		"                [--hold SECONDS] [--kernel-ms N] [--loops N]\n"
		"  --info         say what the card looks like from here, then go on\n"
		"  --memory SIZE  take this much (100Mi, 2Gi), in pieces of --step (64Mi)\n"
		"  --expect-oom   being refused memory is what should happen\n"
		"  --hold S       keep it for S seconds, running kernels of --kernel-ms (1) ms\n"
		"  --loops N      run N kernels\n"
		"exit status: 0 as asked, 1 driver error, 2 usage, 3 out of memory\n");
	return EXIT_USAGE;
}

static bool parse(int argc, char **argv, struct options *o)
{
	static const struct option longs[] = {
		{ "memory", 1, NULL, 'm' },	{ "step", 1, NULL, 's' },
		{ "hold", 1, NULL, 'h' },	{ "kernel-ms", 1, NULL, 'k' },
		{ "loops", 1, NULL, 'l' },	{ "info", 0, NULL, 'i' },
		{ "expect-oom", 0, NULL, 'e' }, { "device", 1, NULL, 'd' },
		{ NULL, 0, NULL, 0 },
	};
	bool good = true;

	for (int c; good && (c = getopt_long(argc, argv, "", longs, NULL)) != -1;) {
		switch (c) {
		case 'm':
			good = parse_size(optarg, &o->memory);
			break;
		case 's':
			good = parse_size(optarg, &o->step) && o->step > 0;
			break;
		case 'h':
			o->hold_s = atof(optarg);
			good = o->hold_s >= 0;
			break;
		case 'k':
			o->kernel_ms = (unsigned)atoi(optarg);
			break;
		case 'l':
			good = parse_size(optarg, &o->loops);
			break;
		case 'd':
			o->device = atoi(optarg);
			break;
		case 'i':
			o->info = true;
			break;
		case 'e':
			o->expect_oom = true;
			break;
		default:
			good = false;
		}
	}
	return good && optind == argc;
}

/* --- work --- */

static bool show(CUdevice dev)
{
	char name[128] = "?";
	size_t total, free_, seen;
	CUuuid uuid;
	int n;

	if (!ok(cu.cuDeviceGetCount(&n), "count devices") ||
	    !ok(cu.cuDeviceGetUuid(&uuid, dev), "uuid of the device") ||
	    !ok(cu.cuDeviceGetName(name, sizeof(name), dev), "name of the device") ||
	    !ok(cu.cuDeviceTotalMem_v2(&total, dev), "size of the device") ||
	    !ok(cu.cuMemGetInfo_v2(&free_, &seen), "free memory"))
		return false;
	printf("device %d of %d: %s\nuuid: GPU-", dev, n, name);
	for (size_t i = 0; i < sizeof(uuid.bytes); i++)
		printf("%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
		       (unsigned char)uuid.bytes[i]);
	printf("\n");
	printf("memory total: %llu MiB\n", (unsigned long long)(total / MIB));
	printf("memory free: %llu MiB\n", (unsigned long long)(free_ / MIB));
	return true;
}

/* Writes to both ends: enough to see that the memory is there, also where the card is simulated and
 * every byte written is a byte of this machine's memory. */
static bool touch(CUdeviceptr piece, uint64_t size)
{
	uint64_t edge = size < 4096 ? size : 4096;

	return ok(cu.cuMemsetD8_v2(piece, 0xa5, edge), "fill") &&
	       ok(cu.cuMemsetD8_v2(piece + size - edge, 0xa5, edge), "fill");
}

static int take(const struct options *o)
{
	static CUdeviceptr pieces[MAX_PIECES];
	uint64_t got = 0;

	for (size_t n = 0; got < o->memory && n < MAX_PIECES; n++) {
		uint64_t want = o->memory - got < o->step ? o->memory - got : o->step;
		CUresult r = cu.cuMemAlloc_v2(&pieces[n], want);

		if (r == CUDA_ERROR_OUT_OF_MEMORY) {
			printf("out of memory after %llu MiB of %llu MiB: %s\n",
			       (unsigned long long)(got / MIB),
			       (unsigned long long)(o->memory / MIB), error_name(r));
			return EXIT_OOM;
		}
		if (!ok(r, "allocate") || !touch(pieces[n], want))
			return EXIT_DRIVER;
		got += want;
	}
	if (got < o->memory) {
		printf("gpu-demo: more than %d pieces; use a larger --step\n", MAX_PIECES);
		return EXIT_USAGE;
	}
	printf("allocated %llu MiB\n", (unsigned long long)(got / MIB));
	return 0;
}

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static bool load_kernel(unsigned ms, CUfunction *ret)
{
	char image[sizeof(spin_ptx) + 32];
	CUmodule mod;

	snprintf(image, sizeof(image), spin_ptx, (unsigned long long)ms * 1000000);
	return ok(cu.cuModuleLoadData(&mod, image), "load the kernel") &&
	       ok(cu.cuModuleGetFunction(ret, mod, "spin"), "find the kernel");
}

static bool launch(CUfunction spin, unsigned ms)
{
	uint64_t ns = (uint64_t)ms * 1000000;
	void *params[] = { &ns };

	return ok(cu.cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL), "launch") &&
	       ok(cu.cuCtxSynchronize(), "synchronize");
}

static void progress(double seconds, uint64_t kernels)
{
	size_t free_ = 0, total = 0;

	cu.cuMemGetInfo_v2(&free_, &total);
	printf("%.0f s: %llu kernels, memory used %llu of %llu MiB\n", seconds,
	       (unsigned long long)kernels, (unsigned long long)((total - free_) / MIB),
	       (unsigned long long)(total / MIB));
}

static int work(const struct options *o)
{
	CUfunction spin;
	uint64_t kernels = 0;
	double start = now_s(), next = start + 1, now = start;

	if (o->hold_s <= 0 && o->loops == 0)
		return 0;
	if (!load_kernel(o->kernel_ms, &spin))
		return EXIT_DRIVER;
	while (kernels < o->loops || now < start + o->hold_s) {
		if (!launch(spin, o->kernel_ms))
			return EXIT_DRIVER;
		kernels++;
		now = now_s();
		if (now >= next) {
			progress(now - start, kernels);
			next += 1;
		}
	}
	printf("done: %llu kernels of %u ms in %.2f s\n", (unsigned long long)kernels, o->kernel_ms,
	       now - start);
	return 0;
}

static int run(const struct options *o)
{
	CUcontext ctx;
	CUdevice dev;
	int r, w;

	if (!ok(cu.cuInit(0), "start the driver") ||
	    !ok(cu.cuDeviceGet(&dev, o->device), "device") ||
	    !ok(cu.cuCtxCreate_v2(&ctx, 0, dev), "create a context"))
		return EXIT_DRIVER;
	if ((o->info || o->memory > 0 || o->hold_s > 0) && !show(dev))
		return EXIT_DRIVER;
	r = take(o);
	if (r == EXIT_DRIVER || r == EXIT_USAGE || (r == EXIT_OOM && !o->expect_oom))
		return r;
	w = work(o); /* with what it got */
	if (w != 0)
		return w;
	if (o->expect_oom && r != EXIT_OOM) {
		printf("gpu-demo: memory was not refused, and should have been\n");
		return EXIT_DRIVER;
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct options o = { .step = 64 * MIB, .kernel_ms = 1 };

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!parse(argc, argv, &o))
		return usage(stderr);
	return load_driver() ? run(&o) : EXIT_DRIVER;
}
