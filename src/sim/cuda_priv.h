/* Inside the simulated libcuda.so.1. Objects behind CUDA handles are private to the process; what
 * is shared with others is in the card's file (state.h).
 *
 * Locks: sim_big guards every local object; a card's lock is taken inside it, never around it.
 * Waiting for the card holds neither. */
#ifndef RF_SIM_CUDA_PRIV_H
#define RF_SIM_CUDA_PRIV_H

#include <stddef.h>

#include "gpu/cuda_abi.h"
#include "sim/state.h"

enum {
	SIM_MAGIC_CTX = 0x43545831,
	SIM_MAGIC_STREAM = 0x5354524d,
	SIM_MAGIC_EVENT = 0x45564e54,
	SIM_MAGIC_MODULE = 0x4d4f4455,
	SIM_MAGIC_FUNC = 0x46554e43,
	SIM_MAGIC_POOL = 0x504f4f4c,
	SIM_MAGIC_ARRAY = 0x41525241,
	SIM_MAGIC_MIP = 0x4d495050,
};

struct CUmemPoolHandle_st {
	uint32_t magic;
	struct sim_device *dev;
	uint64_t used, high, threshold, max;
	int reuse[3];
};

/* What a CUdevice is: a card, or the MIG instance of it that this process was given. */
struct sim_device {
	struct sim_card *card;
	uint32_t part; /* 0, or 1 + the GPU instance's slot */
	uint32_t gi, ci;
	uint8_t uuid[16];
	char name[96];
	unsigned sms;
	int proc; /* this process's slot on the card, -1 without a context */
	unsigned contexts;
	struct CUctx_st *primary;
	unsigned primary_refs, primary_flags;
	struct CUmemPoolHandle_st default_pool;
	CUmemoryPool pool;
};

struct CUstream_st {
	uint32_t magic;
	struct CUctx_st *ctx;
	unsigned flags;
	int priority;
	uint64_t id;
	uint64_t last; /* number of its last operation plus one; 0 if it never had one */
};

/* A recorded event stands on the last operation its stream had then. */
struct CUevent_st {
	uint32_t magic;
	struct CUctx_st *ctx;
	unsigned flags;
	bool recorded;
	bool waiting; /* hangs in ctx->events[op % SIM_QUEUE] */
	uint64_t op;
	uint64_t end_ns;
	struct CUevent_st *next;
};

struct CUctx_st {
	uint32_t magic;
	bool alive;
	bool primary;
	int slot;
	struct sim_device *dev;
	unsigned flags;
	uint64_t id;
	size_t limits[CU_LIMIT_MAX];
	struct CUstream_st own; /* the default stream */
	struct CUevent_st *events[SIM_QUEUE];
};

enum sim_kind {
	SIM_KIND_DEVICE,
	SIM_KIND_MANAGED,
	SIM_KIND_SLAB, /* many small allocations of one size */
	SIM_KIND_HOST,
	SIM_KIND_REGISTERED,
	SIM_KIND_MAPPED, /* by cuMemMap */
};

struct sim_region {
	uintptr_t base;
	size_t size;	/* as asked */
	size_t charged; /* bytes of device memory */
	enum sim_kind kind;
	struct sim_device *dev;
	struct CUctx_st *ctx;
	CUmemoryPool pool;
	bool accessible;
	struct sim_handle *handle; /* SIM_KIND_MAPPED */
	/* SIM_KIND_SLAB */
	size_t unit;
	unsigned used;
	uint64_t bits[64]; /* a bit per unit; 64 * 64 units of 512 bytes at most */
	struct sim_region *next_slab;
};

extern pthread_mutex_t sim_big;

/* --- cuda_core.c --- */
CUresult sim_ready(void);
bool sim_device_of(CUdevice dev, struct sim_device **ret_dev);
int sim_device_count(void);
int sim_device_number(const struct sim_device *d);
int sim_cuda_version(void);
/* CUDA_ERROR_DEVICE_UNAVAILABLE once the card is off the bus. */
CUresult sim_device_state(struct sim_device *d);

/* --- cuda_ctx.c --- */
/* The calling thread's context, if it can be used. */
CUresult sim_current(struct CUctx_st **ret_ctx);
CUresult sim_ctx_check(struct CUctx_st *ctx);
CUresult sim_stream_of(CUstream handle, struct CUstream_st **ret_stream);

/* --- cuda_queue.c --- */
CUresult sim_submit(struct CUstream_st *stream, uint64_t cost_ns);
CUresult sim_wait(struct CUctx_st *ctx, uint64_t until_op);
CUresult sim_query(struct CUctx_st *ctx, uint64_t until_op);
uint64_t sim_ctx_head(struct CUctx_st *ctx);
void sim_events_orphan(struct CUctx_st *ctx);

/* --- cuda_mem.c; under sim_big --- */
struct sim_region *sim_region_find(uintptr_t at);
bool sim_region_add(struct sim_region *r);
void sim_region_remove(struct sim_region *r);
struct sim_region *sim_region_of_ctx(const struct CUctx_st *ctx);
/* May n bytes at `at` be touched as device memory? */
bool sim_device_range(uintptr_t at, size_t n, struct sim_device **ret_dev);
void *sim_map_memory(size_t size, size_t alignment, int extra_flags);
CUresult sim_charge(struct sim_device *d, uint64_t bytes);
void sim_uncharge(struct sim_device *d, uint64_t bytes);
CUresult sim_alloc(struct CUctx_st *ctx, size_t bytes, enum sim_kind kind, CUmemoryPool pool,
		   CUdeviceptr *ret);
CUresult sim_free(uintptr_t at);
void sim_memory_drop_ctx(struct CUctx_st *ctx);

/* --- cuda_vmm.c; under sim_big --- */
void sim_handle_unmap(struct sim_region *r);
void sim_handles_forget(struct sim_device *d);

/* --- cuda_array.c --- */
/* The array's rows; false if it is none or n rows of `width` bytes from (x, y) leave it. */
bool sim_array_rows(CUarray array, size_t x, size_t y, size_t width, size_t n, char **ret_at,
		    size_t *ret_pitch);

#endif
