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

#pragma GCC visibility push(default)
CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n,
			struct rf_graph_node_params *params);
CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
			   const void *edges, size_t n, struct rf_graph_node_params *params);
#pragma GCC visibility pop

#endif
