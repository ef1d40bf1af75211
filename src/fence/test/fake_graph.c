/* The fake driver's graphs: allocation and free nodes, child graphs, captures, and a pool per device
 * that keeps what graphs had until it is trimmed. Addresses are given when a node is made and used
 * again within a graph; memory comes with the first upload or launch. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "fence/test/fake_inside.h"

#define PAGE ((uint64_t)2 << 20)
#define FIRST ((uint64_t)1 << 44)

struct CUgraphNode_st {
	struct CUgraphNode_st *next;
	int type;
	CUDA_MEM_ALLOC_NODE_PARAMS alloc;
	CUdeviceptr freed;
	CUgraph child;
};
struct CUgraph_st {
	CUgraphNode nodes;
};
struct backing {
	uint64_t from, to;
	int dev;
	bool left; /* allocated by the last launch, and not freed */
	struct thing *memory;
};
struct CUgraphExec_st {
	struct CUgraphExec_st *next;
	struct backing part[16];
	unsigned n;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards execs and their memory */
static CUgraphExec execs;
static CUgraph capture_graph;
static CUstream capture_stream;
static uint64_t next_address = FIRST;
static unsigned trims;

unsigned fake_graph_trims(void)
{
	return trims;
}

/* --- nodes --- */

static CUgraphNode add_node(CUgraph graph, int type)
{
	CUgraphNode n = calloc(1, sizeof(*n));

	n->type = type;
	n->next = graph->nodes;
	graph->nodes = n;
	return n;
}

static bool in_use(CUgraph graph, uint64_t at)
{
	int balance = 0;

	for (CUgraphNode n = graph->nodes; n; n = n->next) {
		if (n->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && n->alloc.dptr == at)
			balance++;
		if (n->type == CU_GRAPH_NODE_TYPE_MEM_FREE && n->freed == at)
			balance--;
	}
	return balance > 0;
}

static uint64_t address_for(CUgraph graph, uint64_t bytes)
{
	uint64_t at = next_address;

	for (CUgraphNode n = graph->nodes; n; n = n->next) {
		if (n->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && n->alloc.bytesize >= bytes &&
		    !in_use(graph, n->alloc.dptr))
			return n->alloc.dptr;
	}
	next_address += (bytes + PAGE - 1) / PAGE * PAGE;
	return at;
}

CUresult cuGraphCreate(CUgraph *graph, unsigned int flags)
{
	*graph = calloc(1, sizeof(**graph));
	return CUDA_SUCCESS;
}
CUresult cuGraphDestroy(CUgraph graph)
{
	for (CUgraphNode n = graph->nodes, next; n; n = next) {
		next = n->next;
		free(n);
	}
	free(graph);
	return CUDA_SUCCESS;
}
CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n,
				CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	CUresult r = fake_failing();

	if (r == CUDA_SUCCESS && (!graph || !params))
		r = CUDA_ERROR_INVALID_VALUE;
	if (r != CUDA_SUCCESS)
		return r;
	params->dptr = address_for(graph, params->bytesize);
	*node = add_node(graph, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
	(*node)->alloc = *params;
	return CUDA_SUCCESS;
}
CUresult cuGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n,
			       CUdeviceptr dptr)
{
	*node = add_node(graph, CU_GRAPH_NODE_TYPE_MEM_FREE);
	(*node)->freed = dptr;
	return CUDA_SUCCESS;
}
CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
				  size_t n, CUgraph child)
{
	*node = add_node(graph, CU_GRAPH_NODE_TYPE_GRAPH);
	(*node)->child = child;
	return CUDA_SUCCESS;
}
CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n)
{
	*node = add_node(graph, CU_GRAPH_NODE_TYPE_EMPTY);
	return CUDA_SUCCESS;
}
CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
			   const void *edges, size_t n, struct rf_graph_node_params *params)
{
	if (!node)
		return CUDA_SUCCESS; /* one that nobody wants to have */
	if (params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		return cuGraphAddMemAllocNode(node, graph, deps, n, &params->alloc);
	return cuGraphAddEmptyNode(node, graph, deps, n);
}
CUresult cuGraphAddNode_v3(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
			   const void *edges, size_t n, struct rf_graph_node_params *params)
{
	return cuGraphAddNode_v2(node, graph, deps, edges, n, params);
}
CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n,
			struct rf_graph_node_params *params)
{
	return cuGraphAddNode_v2(node, graph, deps, NULL, n, params);
}
CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *n)
{
	size_t i = 0;

	for (CUgraphNode p = graph->nodes; p; p = p->next, i++) {
		if (nodes && i < *n)
			nodes[i] = p;
	}
	*n = nodes && *n < i ? *n : i;
	return CUDA_SUCCESS;
}
CUresult cuGraphNodeGetType(CUgraphNode node, int *type)
{
	*type = node->type;
	return CUDA_SUCCESS;
}
CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	*params = node->alloc;
	return CUDA_SUCCESS;
}
CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *graph)
{
	*graph = node->child;
	return CUDA_SUCCESS;
}

/* --- captures --- */

CUresult cuStreamBeginCapture_v2(CUstream stream, int mode)
{
	capture_stream = stream;
	return cuGraphCreate(&capture_graph, 0);
}
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
	*graph = capture_graph;
	capture_graph = NULL;
	return *graph ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
bool fake_graph_captures(CUstream stream)
{
	return capture_graph && stream == capture_stream;
}
CUresult fake_graph_alloc(CUdeviceptr *dptr, size_t bytes, int dev)
{
	CUDA_MEM_ALLOC_NODE_PARAMS p = { .poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
							.location = { CU_MEM_LOCATION_TYPE_DEVICE,
								      dev } },
					 .bytesize = bytes };
	CUgraphNode node;
	CUresult r = cuGraphAddMemAllocNode(&node, capture_graph, NULL, 0, &p);

	*dptr = p.dptr;
	return r;
}
CUresult fake_graph_free_node(CUdeviceptr dptr)
{
	CUgraphNode node;

	return cuGraphAddMemFreeNode(&node, capture_graph, NULL, 0, dptr);
}

/* --- executable graphs --- */

static void collect(CUgraphExec x, CUgraph graph)
{
	for (CUgraphNode n = graph->nodes; n; n = n->next) {
		struct backing *b = x->part;
		uint64_t pages = (n->alloc.bytesize + PAGE - 1) / PAGE * PAGE;

		if (n->type == CU_GRAPH_NODE_TYPE_GRAPH)
			collect(x, n->child);
		if (n->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
		    n->alloc.poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
			continue;
		while (b < x->part + x->n && b->from != n->alloc.dptr)
			b++;
		if (b == x->part + x->n)
			x->n++;
		b->from = n->alloc.dptr;
		b->to = b->to > b->from + pages ? b->to : b->from + pages;
		b->dev = n->alloc.poolProps.location.id;
		b->left = b->left || in_use(graph, n->alloc.dptr);
	}
}

static void give_back(struct backing *b)
{
	if (b->memory)
		fake_unref(b->memory);
	b->memory = NULL;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
	CUresult r = fake_failing();

	if (r != CUDA_SUCCESS)
		return r;
	*exec = calloc(1, sizeof(**exec));
	collect(*exec, graph);
	pthread_mutex_lock(&lock);
	(*exec)->next = execs;
	execs = *exec;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}
CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *node, char *log,
			    size_t n)
{
	return cuGraphInstantiateWithFlags(exec, graph, 0);
}
CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *node, char *log,
			       size_t n)
{
	return cuGraphInstantiateWithFlags(exec, graph, 0);
}
static CUresult map(CUgraphExec exec)
{
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < exec->n; i++) {
		struct backing *b = &exec->part[i];

		if (!b->memory)
			b->memory = fake_make(b->to - b->from, b->dev);
	}
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}
CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph,
				      CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	CUresult r = cuGraphInstantiateWithFlags(exec, graph, params->flags);

	if (r == CUDA_SUCCESS && (params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD))
		map(*exec);
	return r;
}
CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *exec, CUgraph graph,
					   CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	return cuGraphInstantiateWithParams(exec, graph, params);
}
CUresult cuGraphUpload(CUgraphExec exec, CUstream stream)
{
	CUresult r = fake_failing();

	return r == CUDA_SUCCESS ? map(exec) : r;
}
CUresult cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream)
{
	return cuGraphUpload(exec, stream);
}
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
	return cuGraphUpload(exec, stream);
}
CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream)
{
	return cuGraphUpload(exec, stream);
}
/* What it had stays with the device's pool until that is trimmed, or for good if it is in use. */
CUresult cuGraphExecDestroy(CUgraphExec exec)
{
	return fake_failing();
}
bool fake_graph_freed(CUdeviceptr dptr)
{
	bool found = false;

	pthread_mutex_lock(&lock);
	for (CUgraphExec x = execs; x; x = x->next) {
		for (unsigned i = 0; i < x->n; i++) {
			if (x->part[i].from == dptr && x->part[i].memory) {
				x->part[i].left = false;
				found = true;
			}
		}
	}
	pthread_mutex_unlock(&lock);
	return found;
}
CUresult cuDeviceGraphMemTrim(CUdevice dev)
{
	pthread_mutex_lock(&lock);
	trims++;
	for (CUgraphExec x = execs; x; x = x->next) {
		for (unsigned i = 0; i < x->n; i++) {
			if (x->part[i].dev == dev && !x->part[i].left)
				give_back(&x->part[i]);
		}
	}
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}
CUresult cuDeviceGetGraphMemAttribute(CUdevice dev, int attribute, void *value)
{
	uint64_t n = 0;

	pthread_mutex_lock(&lock);
	for (CUgraphExec x = execs; x; x = x->next) {
		for (unsigned i = 0; i < x->n; i++) {
			if (x->part[i].dev == dev && x->part[i].memory)
				n += x->part[i].to - x->part[i].from;
		}
	}
	pthread_mutex_unlock(&lock);
	memcpy(value, &n, sizeof(n));
	return CUDA_SUCCESS;
}

/* --- streams: all of the current context --- */

CUresult cuStreamGetCtx(CUstream stream, CUcontext *ctx)
{
	return cuCtxGetCurrent(ctx);
}
