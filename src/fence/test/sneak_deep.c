/* A library that is linked to the driver: who loads it with RTLD_DEEPBIND or dlmopen gets its calls
 * past whatever was preloaded. */
#include "fence/test/sneak.h"
#include "gpu/cuda_abi.h"

uint64_t sneak_grab(int32_t *ret_error)
{
	uint64_t got = 0;
	CUcontext ctx;
	CUdeviceptr p;
	CUresult r = cuInit(0);

	if (r == CUDA_SUCCESS)
		r = cuCtxCreate_v2(&ctx, 0, 0);
	while (r == CUDA_SUCCESS && got < SNEAK_GOAL) {
		r = cuMemAlloc_v2(&p, 16 * SNEAK_MIB);
		got += r == CUDA_SUCCESS ? 16 * SNEAK_MIB : 0;
	}
	*ret_error = (int32_t)r;
	return got;
}
