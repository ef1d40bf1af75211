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
	SIM_MAGIC_GRAPH = 0x47524150,
	SIM_MAGIC_NODE = 0x4e4f4445,
	SIM_MAGIC_EXEC = 0x45584543,
	SIM_MAGIC_EXTERNAL = 0x4558544d,
};

struct CUmemPoolHandle_st {
	uint32_t magic;
	struct sim_device *dev;
	uint64_t id; /* random: an imported pool knows whose pointers it may take */
	uint64_t used, used_high, reserved, reserved_high, threshold, max;
	int reuse[3];
	bool shareable, imported;
	bool destroyed; /* lives on for the allocations from it */
	struct sim_region *blocks;
	struct CUmemPoolHandle_st *next; /* of the device's pools */
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
	CUmemoryPool pools; /* all of them */
	uint64_t graph_used, graph_used_high, graph_reserved, graph_reserved_high;
};

/* The nodes that the next one in a capture will depend on. */
struct sim_deps {
	CUgraphNode *nodes;
	size_t n;
};

struct CUstream_st {
	uint32_t magic;
	struct CUctx_st *ctx;
	unsigned flags;
	int priority;
	uint64_t id;
	uint64_t last; /* number of its last operation plus one; 0 if it never had one */
	struct sim_capture *capture;
	struct sim_deps deps;
	struct CUstream_st *next_captured;
	struct CUstream_st *next_mine; /* per-thread default streams of one thread */
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
	uint64_t capture; /* last recorded in this capture; 0: not in one */
	struct sim_deps deps;
	struct CUevent_st *next;
};

/* What shares no page with another of these, as on the card. */
enum sim_heap_kind {
	SIM_HEAP_PLAIN,
	SIM_HEAP_ARRAYS, /* of two and three dimensions, and mipmapped ones */
	SIM_HEAP_LINES,	 /* arrays of one */
	SIM_HEAP_VARIABLES,
	SIM_HEAPS,
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
	struct sim_heap *heaps[SIM_HEAPS];
};

enum sim_kind {
	SIM_KIND_DEVICE, /* whole pages; the rest of an allocation may be in its tail */
	SIM_KIND_MANAGED,
	SIM_KIND_PAGE, /* shared by small allocations and the tail of a large one */
	SIM_KIND_HOST,
	SIM_KIND_REGISTERED,
	SIM_KIND_MAPPED, /* by cuMemMap */
	SIM_KIND_POOL,	 /* a block of a pool, cut into allocations */
	SIM_KIND_IPC,	 /* opened by cuIpcOpenMemHandle or as external memory */
	SIM_KIND_GRAPH,	 /* an allocation node's */
};

/* A share (state.h) that this process holds. */
struct sim_held {
	struct sim_device *dev;
	uint64_t id; /* 0: the process lost its place on the card, and this with it */
	uint64_t offset;
	size_t size;
	unsigned refs;
	bool own;		   /* made here */
	struct sim_region *opened; /* by cuIpcOpenMemHandle */
	struct sim_held *next;
};

/* One allocation inside a pool's block. */
struct sim_cut {
	size_t at, size;
	struct sim_cut *next; /* by address */
};

struct sim_region {
	uintptr_t base;
	size_t size;	/* as asked, with what is in the tail */
	size_t charged; /* bytes of device memory, and of address space */
	enum sim_kind kind;
	struct sim_device *dev;
	struct CUctx_st *ctx;
	CUmemoryPool pool;
	bool accessible;
	struct sim_handle *handle;     /* SIM_KIND_MAPPED */
	struct sim_held *held;	       /* its memory is a share */
	struct sim_held *held_tail;    /* SIM_KIND_IPC: what is behind that, if anything */
	unsigned opens;		       /* SIM_KIND_IPC */
	struct sim_graph_alloc *graph; /* SIM_KIND_GRAPH */
	struct sim_region *tail;       /* SIM_KIND_DEVICE: the page behind it that it ends in */
	struct sim_page *page;	       /* SIM_KIND_PAGE */
	/* SIM_KIND_POOL */
	struct sim_cut *cuts;
	struct sim_region *next_block;
};

extern pthread_mutex_t sim_big;

/* --- cuda_core.c --- */
void sim_mps_join(void); /* cuda_mps.c */
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
/* What the _ptsz twins take for no stream. */
static inline CUstream sim_ptsz(CUstream stream)
{
	return stream != NULL ? stream : CU_STREAM_PER_THREAD;
}
#define SIM_PTDS CU_STREAM_PER_THREAD

/* --- cuda_queue.c --- */
CUresult sim_submit(struct CUstream_st *stream, uint64_t cost_ns);
CUresult sim_wait(struct CUctx_st *ctx, uint64_t until_op);
CUresult sim_query(struct CUctx_st *ctx, uint64_t until_op);
uint64_t sim_ctx_head(struct CUctx_st *ctx);
uint64_t sim_stream_last(struct CUstream_st *stream);
/* The program waited for the device: pools may let go of memory. */
void sim_caught_up(struct CUctx_st *ctx);
void sim_events_orphan(struct CUctx_st *ctx);
/* Puts the event behind the stream's work so far, outside of any capture. */
CUresult sim_event_record(struct CUevent_st *e, struct CUstream_st *stream);

/* --- cuda_capture.c --- */
/* As sim_stream_of, for calls that put work into the stream or ask about it: the default stream is
 * forbidden while it would wait for a capture, and a spoilt capture takes nothing more. */
CUresult sim_work_stream(CUstream handle, struct CUstream_st **ret_stream);
/* Is the stream in a capture? Work then becomes nodes. */
bool sim_capturing(struct CUstream_st *stream);
/* A call that may wait for the device, and so spoils captures that forbid such. */
CUresult sim_unsafe(void);
/* The same for one that waits for a whole context. */
CUresult sim_unsafe_ctx(struct CUctx_st *ctx);
/* And for one that waits for a stream or looks at it. */
CUresult sim_unsafe_stream(struct CUstream_st *stream);
/* And for one that looks at an event. */
CUresult sim_unsafe_event(struct CUevent_st *event);
/* Allocation and free as nodes; under sim_big. */
CUresult sim_capture_alloc(struct CUstream_st *stream, size_t bytes, CUdeviceptr *ret);
CUresult sim_capture_free(struct CUstream_st *stream, CUdeviceptr dptr);
void sim_capture_forget(struct CUstream_st *stream);
void sim_capture_drop_ctx(const struct CUctx_st *ctx);
bool sim_deps_set(struct sim_deps *d, const CUgraphNode *nodes, size_t n);
void sim_deps_clear(struct sim_deps *d);

/* --- cuda_share.c; under sim_big --- */
/* A new share, or the holding of one that is there. */
CUresult sim_held_new(struct sim_device *d, size_t bytes, bool paid, struct sim_held **ret);
CUresult sim_held_take(struct sim_device *d, uint64_t id, struct sim_held **ret);
struct sim_held *sim_held_find(struct sim_device *d, uint64_t id);
void sim_held_put(struct sim_held *h);
void sim_held_forget(struct sim_device *d);
/* At a fixed address, or anywhere if at is NULL. NULL: could not be mapped. */
void *sim_held_map(struct sim_held *h, void *at);
/* Turns a region's private memory into a share, its contents kept. */
CUresult sim_region_share(struct sim_region *r);
struct sim_device *sim_device_by_uuid(const uint8_t uuid[16]);

/* --- cuda_graph_mem.c; under sim_big --- */
CUresult sim_graph_free(struct sim_region *r, uintptr_t at);
void sim_graphs_forget(struct sim_device *d);

/* --- cuda_pool.c; under sim_big --- */
void sim_pool_init(struct CUmemPoolHandle_st *pool, struct sim_device *d);
CUresult sim_pool_free(struct sim_region *block, uintptr_t at);
void sim_pools_forget(struct sim_device *d);
/* The device has caught up: pools let go of what they keep beyond their thresholds. */
void sim_pools_release(struct sim_device *d);

/* --- cuda_mem.c; under sim_big --- */
struct sim_region *sim_region_find(uintptr_t at);
bool sim_region_add(struct sim_region *r);
void sim_region_remove(struct sim_region *r);
struct sim_region *sim_region_of_ctx(const struct CUctx_st *ctx);
/* May n bytes at `at` be touched as device memory? */
bool sim_device_range(uintptr_t at, size_t n, struct sim_device **ret_dev);
/* The allocation that `at` lies in; false if it lies in none. */
bool sim_region_part(const struct sim_region *r, uintptr_t at, uintptr_t *ret_base,
		     size_t *ret_size);
void *sim_map_memory(size_t size, size_t alignment, int extra_flags);
/* A region of device memory that belongs to no context if ctx is NULL. */
CUresult sim_region_new(struct sim_device *d, struct CUctx_st *ctx, size_t bytes,
			enum sim_kind kind, bool shared, struct sim_region **ret);
void sim_region_release(struct sim_region *r);
CUresult sim_charge(struct sim_device *d, uint64_t bytes);
void sim_uncharge(struct sim_device *d, uint64_t bytes);
CUresult sim_free(uintptr_t at);
void sim_memory_drop_ctx(struct CUctx_st *ctx);

/* --- cuda_page.c; under sim_big --- */
CUresult sim_alloc(struct CUctx_st *ctx, size_t bytes, enum sim_heap_kind heap, CUdeviceptr *ret);
/* Frees what begins at `at` in the page. */
CUresult sim_page_free(struct sim_region *r, uintptr_t at);
/* Frees the region, and its tail in the page behind it. */
void sim_large_free(struct sim_region *r);
/* As sim_region_part, for a page. */
bool sim_page_part(const struct sim_region *r, uintptr_t at, uintptr_t *ret_base, size_t *ret_size);
/* Forgets which pages have room, before the context's regions go. */
void sim_heaps_drop(struct CUctx_st *ctx);

/* --- cuda_vmm.c; under sim_big --- */
void sim_handle_unmap(struct sim_region *r);
void sim_handles_forget(struct sim_device *d);

/* --- cuda_copy.c --- */
CUresult sim_copy_3d(const CUDA_MEMCPY3D *c, struct sim_device *d, bool move, uint64_t *ret_ns);
CUresult sim_fill(const CUDA_MEMSET_NODE_PARAMS *f, struct sim_device *d, bool write,
		  uint64_t *ret_ns);

/* --- cuda_launch.c --- */
/* What a launch will take; an error if it cannot be launched. */
CUresult sim_kernel_cost(struct sim_device *d, const CUDA_KERNEL_NODE_PARAMS_v2 *k,
			 uint64_t *ret_ns);

/* --- cuda_array.c --- */
/* The array's rows; false if it is none or n rows of `width` bytes from (x, y) leave it. */
bool sim_array_rows(CUarray array, size_t x, size_t y, size_t width, size_t n, char **ret_at,
		    size_t *ret_pitch);

#endif
