/* Driver calls that only the fence needs, beside gpu/cuda_abi.h. */
#ifndef RF_FENCE_CUDA_MORE_H
#define RF_FENCE_CUDA_MORE_H

#include "gpu/cuda_abi.h"

enum {
	RF_CU_GRAPH_NODE_TYPE_MEM_ALLOC = 10,
	RF_CU_MEM_ALLOCATION_TYPE_MANAGED = 2,
	RF_CU_ARRAY3D_DEFERRED_MAPPING = 0x80,
};

/* CUgraphNodeParams: a type, padding, then a union that the fence does not look into. */
struct rf_graph_node_params {
	int type;
	int reserved[3];
};

/* CUDA_LAUNCH_PARAMS: one card's part of a launch on several. */
struct rf_multi_launch {
	CUfunction function;
	unsigned int gx, gy, gz, bx, by, bz, smem;
	CUstream stream;
	void **params;
};

#pragma GCC visibility push(default)
CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n,
			struct rf_graph_node_params *params);
CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
			   const void *edges, size_t n, struct rf_graph_node_params *params);

CUresult cuLaunch(CUfunction fn);
CUresult cuLaunchGrid(CUfunction fn, int width, int height);
CUresult cuLaunchGridAsync(CUfunction fn, int width, int height, CUstream stream);
CUresult cuLaunchCooperativeKernelMultiDevice(const struct rf_multi_launch *list, unsigned int n,
					      unsigned int flags);
CUresult cuStreamBeginCapture(CUstream stream);
CUresult cuStreamBeginCapture_ptsz(CUstream stream);
CUresult cuStreamBeginCapture_v2(CUstream stream, int mode);
CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, int mode);
CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *deps,
				     const void *edges, size_t n, int mode);
CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph, const CUgraphNode *deps,
					  const void *edges, size_t n, int mode);
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph);
CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph);
#pragma GCC visibility pop

#endif
