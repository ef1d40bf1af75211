/* A kernel, between loading (cuda_module.c) and launching (cuda_launch.c). */
#ifndef RF_SIM_CUDA_MODULE_H
#define RF_SIM_CUDA_MODULE_H

#include "sim/cuda_priv.h"

#define SIM_COST_BY_SHAPE UINT64_MAX

struct CUfunc_st {
	uint32_t magic;
	CUmodule module;
	char *name;
	uint64_t cost_ns; /* as the image says, or SIM_COST_BY_SHAPE */
	int max_dynamic_smem;
	int carveout;
	unsigned block[3]; /* for launches that do not say */
	unsigned smem;
	struct CUfunc_st *next;
};

#endif
