/* paired: what a preloaded library adds to a launch and to a stream's allocations, as JSON. In one process the
 * driver's own function and what the program gets instead of it take turns, so that nothing but the library differs:
 * two processes differ by more than the library costs.
 *   cc -O2 -o paired paired.c -ldl;  ringfence fence --memory 60Gi --compute 90 -- ./paired
 * Each turn is followed by a pause, so that a gate stays open. Changes no setting of the card. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "../../src/gpu/cuda_abi.h"
#include "driver.h"

enum { TURNS = 1000, CALLS = 100, PAUSE_US = 300 };

static const char empty_kernel[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
				   ".visible .entry empty(.param .u64 unused)\n{\nret;\n}\n";

static struct {
	CUfunction fn;
	CUstream stream;
	void *params[1];
	__typeof__(&cuLaunchKernel) launch[2];
	__typeof__(&cuMemAllocAsync) alloc[2];
	__typeof__(&cuMemFreeAsync) release[2];
	__typeof__(&cuStreamSynchronize) wait;
} probe;

static void must(CUresult r, const char *what)
{
	if (r == CUDA_SUCCESS)
		return;
	fprintf(stderr, "paired: cannot %s: CUDA error %d\n", what, (int)r);
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* --- both functions --- */

static void both(const struct driver *d, const char *name, void *ret)
{
	void **two = ret;

	two[0] = driver_own(d, name);
	two[1] = dlsym(d->lib, name);
	if (two[0] && two[1])
		return;
	fprintf(stderr, "paired: the driver has no %s\n", name);
	exit(1);
}

#define CU(name) ((__typeof__(&name))dlsym(driver.lib, #name))

static void open_card(void)
{
	static uint64_t unused;
	struct driver driver;
	CUmodule module;
	CUcontext ctx;
	CUdevice dev;

	if (!driver_open(&driver)) {
		fprintf(stderr, "paired: cannot read the driver: %s\n", driver.lib ? "its table of symbols is of another kind" : dlerror());
		exit(1);
	}
	both(&driver, "cuLaunchKernel", probe.launch);
	both(&driver, "cuMemAllocAsync", probe.alloc);
	both(&driver, "cuMemFreeAsync", probe.release);
	must(CU(cuInit)(0), "start the driver");
	must(CU(cuDeviceGet)(&dev, 0), "find the card");
	must(CU(cuDevicePrimaryCtxRetain)(&ctx, dev), "have a context");
	must(CU(cuCtxSetCurrent)(ctx), "use the context");
	must(CU(cuModuleLoadData)(&module, empty_kernel), "load a kernel");
	must(CU(cuModuleGetFunction)(&probe.fn, module, "empty"), "find the kernel");
	must(CU(cuStreamCreate)(&probe.stream, CU_STREAM_NON_BLOCKING), "make a stream");
	probe.params[0] = &unused;
	probe.wait = CU(cuStreamSynchronize);
}

/* --- in turn --- */

static void launch(bool hooked)
{
	must(probe.launch[hooked](probe.fn, 1, 1, 1, 32, 1, 1, 0, probe.stream, probe.params, NULL), "launch");
}

static void alloc_free(bool hooked)
{
	CUdeviceptr p;

	must(probe.alloc[hooked](&p, 4096, probe.stream), "allocate");
	must(probe.release[hooked](p, probe.stream), "free");
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void take_turns(const char *name, void (*call)(bool hooked), bool last)
{
	static double each[2][TURNS], more[TURNS];

	for (int i = 0; i < 2 * TURNS; i++) {
		bool hooked = (i ^ i >> 1) & 1; /* each comes first as often */
		uint64_t from;

		call(hooked); /* the first after a pause has more to do */
		from = now_ns();
		for (int k = 0; k < CALLS; k++)
			call(hooked);
		each[hooked][i / 2] = (double)(now_ns() - from) / CALLS;
		must(probe.wait(probe.stream), "wait");
		usleep(PAUSE_US);
	}
	for (int i = 0; i < TURNS; i++)
		more[i] = each[1][i] - each[0][i];
	qsort(each[0], TURNS, sizeof(double), by_value);
	qsort(each[1], TURNS, sizeof(double), by_value);
	qsort(more, TURNS, sizeof(double), by_value);
	printf("\"%s\":{\"own_ns\":%.0f,\"hooked_ns\":%.0f,\"extra_ns\":%.0f}%s", name, each[0][TURNS / 2],
	       each[1][TURNS / 2], more[TURNS / 2], last ? "}\n" : ",");
}

int main(void)
{
	open_card();
	printf("{\"hooked\":%s,", probe.launch[0] != probe.launch[1] ? "true" : "false");
	take_turns("launch", launch, false);
	take_turns("async_alloc_free_4KiB", alloc_free, true);
	return 0;
}
