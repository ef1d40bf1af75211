/* Driver calls that only the fence needs, beside gpu/cuda_abi.h. */
#ifndef RF_FENCE_CUDA_MORE_H
#define RF_FENCE_CUDA_MORE_H

#include "gpu/cuda_abi.h"

enum {
	RF_CU_MEM_ALLOCATION_TYPE_MANAGED = 2,
	RF_CU_STREAM_CAPTURE_MODE_RELAXED = 2,
	RF_CU_ARRAY3D_DEFERRED_MAPPING = 0x80,
	RF_CU_MEM_LOCATION_TYPE_LAST = 4, /* HOST_NUMA_CURRENT; what comes behind is not known */
	RF_CU_MEM_ADVISE_SET_PREFERRED_LOCATION = 3,
	RF_CU_LIMIT_LAST = 9, /* CIG_SHMEM_FALLBACK_ENABLED */
};

/* CUgraphNodeParams: a type, padding, then a union of which the fence knows one part. */
struct rf_graph_node_params {
	int type;
	int reserved[3];
	union {
		CUDA_MEM_ALLOC_NODE_PARAMS alloc;
		long long room[29];
	};
	long long more;
};

/* CUDA_LAUNCH_PARAMS: one card's part of a launch on several. */
struct rf_multi_launch {
	CUfunction function;
	unsigned int gx, gy, gz, bx, by, bz, smem;
	CUstream stream;
	void **params;
};

/* CUgreenCtx and CUdevResourceDesc: opaque. */
typedef struct rf_green_context *rf_green_ctx;
typedef struct rf_resource_desc *rf_resources;

#pragma GCC visibility push(default)

CUresult cuStreamBeginRecaptureToGraph(CUstream stream, int mode, CUgraph graph, void *callback,
				       void *data);
CUresult cuStreamBeginRecaptureToGraph_ptsz(CUstream stream, int mode, CUgraph graph,
					    void *callback, void *data);

CUresult cuMulticastBindMem_v2(CUmemGenericAllocationHandle object, CUdevice dev, size_t offset,
			       CUmemGenericAllocationHandle handle, size_t from, size_t size,
			       unsigned long long flags);
CUresult cuMulticastBindAddr_v2(CUmemGenericAllocationHandle object, CUdevice dev, size_t offset,
				CUdeviceptr ptr, size_t size, unsigned long long flags);
CUresult cuExternalMemoryGetMappedMipmappedArray(CUmipmappedArray *mipmap, CUexternalMemory mem,
						 const void *desc);
CUresult cuGraphAddNode_v3(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
			   const void *edges, size_t n, struct rf_graph_node_params *params);
CUresult cuGreenCtxCreate(rf_green_ctx *ctx, rf_resources desc, CUdevice dev, unsigned int flags);
CUresult cuGreenCtxDestroy(rf_green_ctx ctx);
CUresult cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary lib, const char *name);
CUresult cuMemPrefetchAsync(CUdeviceptr ptr, size_t n, CUdevice dev, CUstream stream);
CUresult cuMemPrefetchAsync_ptsz(CUdeviceptr ptr, size_t n, CUdevice dev, CUstream stream);
CUresult cuMemPrefetchAsync_v2(CUdeviceptr ptr, size_t n, CUmemLocation to, unsigned int flags,
			       CUstream stream);
CUresult cuMemPrefetchAsync_v2_ptsz(CUdeviceptr ptr, size_t n, CUmemLocation to, unsigned int flags,
				    CUstream stream);
CUresult cuMemPrefetchBatchAsync(CUdeviceptr *ptrs, size_t *sizes, size_t n, CUmemLocation *to,
				 size_t *to_from, size_t n_to, unsigned long long flags,
				 CUstream stream);
CUresult cuMemPrefetchBatchAsync_ptsz(CUdeviceptr *ptrs, size_t *sizes, size_t n, CUmemLocation *to,
				      size_t *to_from, size_t n_to, unsigned long long flags,
				      CUstream stream);
CUresult cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr *ptrs, size_t *sizes, size_t n,
					   CUmemLocation *to, size_t *to_from, size_t n_to,
					   unsigned long long flags, CUstream stream);
CUresult cuMemDiscardAndPrefetchBatchAsync_ptsz(CUdeviceptr *ptrs, size_t *sizes, size_t n,
						CUmemLocation *to, size_t *to_from, size_t n_to,
						unsigned long long flags, CUstream stream);
CUresult cuMemAdvise(CUdeviceptr ptr, size_t n, int advice, CUdevice dev);
CUresult cuMemAdvise_v2(CUdeviceptr ptr, size_t n, int advice, CUmemLocation where);
#pragma GCC visibility pop

#endif
