/* Contexts take their allocations with them when they go; some of their limits and graph nodes are
 * ways to memory that nobody counts. */
#include "fence/fence.h"

static void forget(struct rf_fence *f, CUcontext ctx)
{
	uint64_t freed[RF_FENCE_CARDS] = { 0 };

	if (!ctx)
		return;
	rf_table_forget(&f->table, (uintptr_t)ctx, freed);
	for (unsigned i = 0; i < f->cards; i++) {
		if (freed[i])
			rf_release(f, i, freed[i]);
	}
}

static CUresult destroy(CUcontext ctx, __typeof__(&cuCtxDestroy_v2) real)
{
	struct rf_fence *f = rf_join();
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	r = real(ctx);
	if (r == CUDA_SUCCESS)
		forget(f, ctx);
	return r;
}

CUresult cuCtxDestroy(CUcontext ctx)
{
	return destroy(ctx, RF_REAL(cuCtxDestroy));
}

CUresult cuCtxDestroy_v2(CUcontext ctx)
{
	return destroy(ctx, RF_REAL(cuCtxDestroy_v2));
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice dev)
{
	struct rf_fence *f = rf_join();
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	r = RF_REAL(cuDevicePrimaryCtxRetain)(ctx, dev);
	if (r == CUDA_SUCCESS && dev >= 0 && dev < RF_DEVICES)
		__atomic_store_n(&f->primary[dev], *ctx, __ATOMIC_RELAXED);
	return r;
}

/* Only when the driver says that the primary context is gone are its allocations gone too. */
static CUresult let_go(CUdevice dev, __typeof__(&cuDevicePrimaryCtxRelease_v2) real)
{
	struct rf_fence *f = rf_join();
	unsigned int flags;
	int active = 1;
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	r = real(dev);
	if (r == CUDA_SUCCESS && dev >= 0 && dev < RF_DEVICES &&
	    RF_REAL(cuDevicePrimaryCtxGetState)(dev, &flags, &active) == CUDA_SUCCESS && !active)
		forget(f, __atomic_exchange_n(&f->primary[dev], NULL, __ATOMIC_RELAXED));
	return r;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev)
{
	return let_go(dev, RF_REAL(cuDevicePrimaryCtxRelease));
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	return let_go(dev, RF_REAL(cuDevicePrimaryCtxRelease_v2));
}

CUresult cuDevicePrimaryCtxReset(CUdevice dev)
{
	return let_go(dev, RF_REAL(cuDevicePrimaryCtxReset));
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
	return let_go(dev, RF_REAL(cuDevicePrimaryCtxReset_v2));
}

/* Limits that make a context reserve memory on the card, and how far they may go under a cap. */
static const size_t most[] = {
	[CU_LIMIT_STACK_SIZE] = 1u << 10, /* the default; for every thread the card can hold */
	[CU_LIMIT_PRINTF_FIFO_SIZE] = 16u << 20,
	[CU_LIMIT_MALLOC_HEAP_SIZE] = 16u << 20,
};

CUresult cuCtxSetLimit(int limit, size_t value)
{
	struct rf_fence *f = rf_join();

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (f->any_cap && limit >= 0 && limit <= CU_LIMIT_MALLOC_HEAP_SIZE && value > most[limit])
		return CUDA_ERROR_NOT_SUPPORTED;
	return RF_REAL(cuCtxSetLimit)(limit, value);
}

static CUresult check_node(const struct rf_graph_node_params *params)
{
	struct rf_fence *f = rf_join();

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (f->any_cap && params && params->type == RF_CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		return CUDA_ERROR_NOT_SUPPORTED;
	return CUDA_SUCCESS;
}

CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n,
			struct rf_graph_node_params *params)
{
	CUresult r = check_node(params);

	return r == CUDA_SUCCESS ? RF_REAL(cuGraphAddNode)(node, graph, deps, n, params) : r;
}

CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
			   const void *edges, size_t n, struct rf_graph_node_params *params)
{
	CUresult r = check_node(params);

	return r == CUDA_SUCCESS ? RF_REAL(cuGraphAddNode_v2)(node, graph, deps, edges, n, params)
				 : r;
}
