/* What programs inside a fence need to check it. */
#ifndef RF_FENCE_TEST_PROBE_H
#define RF_FENCE_TEST_PROBE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fence/cuda_more.h"
#include "fence/test/fake.h"
#include "gpu/nvml_abi.h"

#define MIB ((uint64_t)1 << 20)
#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s: line %d: %s\n", __FILE__, __LINE__, #cond);           \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static inline CUcontext context(int dev)
{
	CUcontext ctx;

	CHECK(cuInit(0) == CUDA_SUCCESS);
	CHECK(cuCtxCreate_v2(&ctx, 0, dev) == CUDA_SUCCESS);
	return ctx;
}

/* What is left of the cap, with the books brought up to date. */
static inline uint64_t left(void)
{
	size_t free_, total;

	CHECK(cuMemGetInfo_v2(&free_, &total) == CUDA_SUCCESS);
	return free_;
}

/* What the ledger says this process holds, as it is. */
static inline uint64_t charged(void)
{
	nvmlProcessInfo_t list[16];
	unsigned int n = 16;
	static nvmlDevice_t card;

	if (!card) {
		CHECK(nvmlInit_v2() == NVML_SUCCESS);
		CHECK(nvmlDeviceGetHandleByIndex_v2(1, &card) == NVML_SUCCESS);
	}
	CHECK(nvmlDeviceGetComputeRunningProcesses_v3(card, &n, list) == NVML_SUCCESS);
	for (unsigned int i = 0; i < n; i++) {
		if (list[i].pid == (unsigned int)getpid())
			return list[i].usedGpuMemory;
	}
	return 0;
}

struct scenario {
	const char *name;
	void (*run)(const char *arg);
};

static inline int play(const struct scenario *s, size_t n, int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < n; i++) {
		if (strcmp(s[i].name, argv[1]) == 0) {
			s[i].run(argc > 2 ? argv[2] : "");
			return 0;
		}
	}
	fprintf(stderr, "no such scenario\n");
	return 2;
}

#endif
