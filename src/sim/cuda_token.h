/* What a shareable file descriptor holds: which memory, or which pool. A descriptor alone keeps
 * nothing alive; a process that holds the memory does. */
#ifndef RF_SIM_CUDA_TOKEN_H
#define RF_SIM_CUDA_TOKEN_H

#include "sim/cuda_priv.h"

enum { SIM_TOKEN_MEMORY = 1, SIM_TOKEN_POOL = 2 };

struct sim_token {
	uint64_t magic;
	uint32_t kind;
	uint32_t pad;
	uint8_t uuid[16]; /* of the device */
	uint64_t id;	  /* the share's or the pool's */
	uint64_t bytes;
	CUmemAllocationProp prop;
};

/* A new descriptor, or -1. */
int sim_token_make(uint32_t kind, const struct sim_device *d, uint64_t id, uint64_t bytes,
		   const CUmemAllocationProp *prop);
/* false: the descriptor holds no token of that kind, or of a device this process does not see. */
bool sim_token_read(int fd, uint32_t kind, struct sim_token *ret, struct sim_device **ret_dev);

#endif
