/* Graphs and captures, inside the simulated driver. All of it under sim_big. */
#ifndef RF_SIM_CUDA_GRAPH_H
#define RF_SIM_CUDA_GRAPH_H

#include "sim/cuda_priv.h"

#define SIM_NODES_MAX (1u << 20)

/* The laws of alloc nodes: the address is fixed when the node is made, memory stands behind it from
 * a launch until it is freed. Lives as long as a node, an executable graph or the memory does. */
struct sim_graph_alloc {
	struct sim_device *dev;
	struct sim_region *region;
	size_t bytes; /* as asked */
	unsigned refs;
	bool live;
	bool instantiated; /* one executable graph at a time */
};

struct sim_value32 {
	CUdeviceptr at;
	cuuint32_t value;
	unsigned flags;
	bool write;
};

struct sim_work {
	int type; /* CU_GRAPH_NODE_TYPE_* */
	uint64_t cost_ns;
	union {
		CUDA_KERNEL_NODE_PARAMS_v2 kernel;
		CUDA_MEMCPY3D copy;
		CUDA_MEMSET_NODE_PARAMS fill;
		CUDA_HOST_NODE_PARAMS host;
		CUgraph child;
		struct sim_graph_alloc *alloc;
		CUdeviceptr freed;
		CUevent event;
		struct sim_value32 value;
	};
};

struct CUgraphNode_st {
	uint32_t magic;
	CUgraph graph;
	size_t index; /* in the graph */
	struct sim_deps deps;
	struct sim_work work;
	bool mark;
};

struct CUgraph_st {
	uint32_t magic;
	bool borrowed; /* a child graph's: destroyed with its node */
	CUgraphNode *nodes;
	size_t n, cap;
};

struct sim_step {
	CUgraphNode node; /* which it came from; only to be compared */
	struct sim_work work;
};

struct CUgraphExec_st {
	uint32_t magic;
	struct CUctx_st *ctx;
	uint64_t flags;
	struct sim_step *steps; /* in order; child graphs in place */
	size_t n;
};

/* --- cuda_graph.c --- */
CUgraph sim_graph_new(void);
void sim_graph_drop(CUgraph g);
bool sim_is_graph(CUgraph g);
/* NULL: no memory. Takes over what `work` owns only on success. */
CUgraphNode sim_graph_add(CUgraph g, const CUgraphNode *deps, size_t n,
			  const struct sim_work *work);
bool sim_node_depend(CUgraphNode node, const CUgraphNode *deps, size_t n);

/* --- cuda_graph_mem.c --- */
CUresult sim_graph_alloc_new(struct sim_device *d, size_t bytes, struct sim_graph_alloc **ret);
void sim_graph_alloc_put(struct sim_graph_alloc *a);
/* Brings `more` bytes of physical memory under the device's graphs, beyond what they use. */
CUresult sim_graph_reserve(struct sim_device *d, uint64_t more);
void sim_graph_alloc_on(struct sim_graph_alloc *a);
void sim_graph_alloc_off(struct sim_graph_alloc *a);

/* --- cuda_capture.c --- */
/* Work in a capturing stream becomes a node. */
CUresult sim_capture_work(struct CUstream_st *stream, const struct sim_work *work);

/* Recording and waiting in a stream that captures, or for an event that was captured. */
CUresult sim_capture_record(struct CUevent_st *e, struct CUstream_st *s, unsigned flags);
CUresult sim_capture_wait(struct CUstream_st *s, struct CUevent_st *e, unsigned flags);

/* --- cuda_stream.c; under no lock --- */
CUresult sim_value_run(struct CUstream_st *s, const struct sim_value32 *v);

/* Parameters of cuGraphAddNode: CUgraphNodeParams. */
struct rf_graph_node_params {
	int type;
	int reserved0[3];
	union {
		long long reserved1[29];
		CUDA_KERNEL_NODE_PARAMS_v2 kernel;
		struct {
			int flags, reserved;
			CUcontext ctx;
			CUDA_MEMCPY3D params;
		} memcpy;
		CUDA_MEMSET_NODE_PARAMS memset;
		CUDA_HOST_NODE_PARAMS host;
		CUgraph graph;
		CUevent event;
		CUDA_MEM_ALLOC_NODE_PARAMS alloc;
		CUdeviceptr free;
	};
	long long reserved2;
};
_Static_assert(sizeof(struct rf_graph_node_params) == 256, "CUgraphNodeParams has 256 bytes");

#endif
