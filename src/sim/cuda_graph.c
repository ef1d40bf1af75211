/* Graphs: nodes and what depends on what. */
#include "sim/cuda_graph.h"

#include <stdlib.h>
#include <string.h>

CUgraph sim_graph_new(void)
{
	CUgraph g = calloc(1, sizeof(*g));

	if (g != NULL)
		g->magic = SIM_MAGIC_GRAPH;
	return g;
}

bool sim_is_graph(CUgraph g)
{
	return g != NULL && g->magic == SIM_MAGIC_GRAPH;
}

static bool is_node(CUgraphNode n)
{
	return n != NULL && n->magic == SIM_MAGIC_NODE;
}

void sim_graph_drop(CUgraph g)
{
	for (size_t i = 0; i < g->n; i++) {
		CUgraphNode n = g->nodes[i];

		if (n->work.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
			sim_graph_alloc_put(n->work.alloc);
		if (n->work.type == CU_GRAPH_NODE_TYPE_GRAPH)
			sim_graph_drop(n->work.child);
		sim_deps_clear(&n->deps);
		n->magic = 0;
		free(n);
	}
	free(g->nodes);
	g->magic = 0;
	free(g);
}

static bool room(CUgraph g)
{
	size_t cap = g->cap > 0 ? g->cap * 2 : 16;
	CUgraphNode *nodes;

	if (g->n < g->cap)
		return true;
	if (cap > SIM_NODES_MAX)
		return false;
	nodes = realloc(g->nodes, cap * sizeof(*nodes));
	if (nodes == NULL)
		return false;
	g->nodes = nodes;
	g->cap = cap;
	return true;
}

CUgraphNode sim_graph_add(CUgraph g, const CUgraphNode *deps, size_t n, const struct sim_work *work)
{
	CUgraphNode node;

	if (!room(g))
		return NULL;
	node = calloc(1, sizeof(*node));
	if (node == NULL)
		return NULL;
	node->magic = SIM_MAGIC_NODE;
	node->graph = g;
	node->index = g->n;
	node->work = *work;
	if (!sim_deps_set(&node->deps, deps, n)) {
		free(node);
		return NULL;
	}
	g->nodes[g->n++] = node;
	return node;
}

bool sim_node_depend(CUgraphNode node, const CUgraphNode *deps, size_t n)
{
	CUgraphNode *all = realloc(node->deps.nodes, (node->deps.n + n) * sizeof(*all));

	if (all == NULL)
		return node->deps.n + n == 0;
	node->deps.nodes = all;
	for (size_t i = 0; i < n; i++)
		all[node->deps.n++] = deps[i];
	return true;
}

/* --- graphs --- */

CUresult cuGraphCreate(CUgraph *graph, unsigned int flags)
{
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (graph == NULL || flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	*graph = sim_graph_new();
	return *graph != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGraphDestroy(CUgraph graph)
{
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (!sim_is_graph(graph) || graph->borrowed)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&sim_big);
	sim_graph_drop(graph);
	pthread_mutex_unlock(&sim_big);
	return CUDA_SUCCESS;
}

static CUresult clone_graph(CUgraph g, CUgraph *ret);

static CUresult clone_node(CUgraph to, const struct CUgraphNode_st *n)
{
	struct sim_work w = n->work;
	CUgraphNode made;
	CUresult r;

	if (w.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || w.type == CU_GRAPH_NODE_TYPE_MEM_FREE)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (w.type == CU_GRAPH_NODE_TYPE_GRAPH) {
		r = clone_graph(n->work.child, &w.child);
		if (r != CUDA_SUCCESS)
			return r;
		w.child->borrowed = true;
	}
	made = sim_graph_add(to, n->deps.nodes, n->deps.n, &w);
	if (made != NULL)
		return CUDA_SUCCESS;
	if (w.type == CU_GRAPH_NODE_TYPE_GRAPH)
		sim_graph_drop(w.child);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult clone_graph(CUgraph g, CUgraph *ret)
{
	CUgraph to = sim_graph_new();
	CUresult r = to != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;

	for (size_t i = 0; r == CUDA_SUCCESS && i < g->n; i++)
		r = clone_node(to, g->nodes[i]);
	if (r != CUDA_SUCCESS) {
		if (to != NULL)
			sim_graph_drop(to);
		return r;
	}
	for (size_t i = 0; i < to->n; i++)
		for (size_t j = 0; j < to->nodes[i]->deps.n; j++)
			to->nodes[i]->deps.nodes[j] = to->nodes[g->nodes[i]->deps.nodes[j]->index];
	*ret = to;
	return CUDA_SUCCESS;
}

CUresult cuGraphClone(CUgraph *ret, CUgraph graph)
{
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (ret == NULL || !sim_is_graph(graph))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&sim_big);
	r = clone_graph(graph, ret);
	pthread_mutex_unlock(&sim_big);
	return r;
}

/* --- adding nodes --- */

static bool deps_in(CUgraph g, const CUgraphNode *deps, size_t n)
{
	if (n > 0 && deps == NULL)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!is_node(deps[i]) || deps[i]->graph != g)
			return false;
	return true;
}

/* Under no lock. */
static CUresult add(CUgraphNode *node, CUgraph g, const CUgraphNode *deps, size_t n,
		    const struct sim_work *w)
{
	CUresult r = CUDA_SUCCESS;

	pthread_mutex_lock(&sim_big);
	if (!deps_in(g, deps, n))
		r = CUDA_ERROR_INVALID_VALUE;
	else if ((*node = sim_graph_add(g, deps, n, w)) == NULL)
		r = CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_unlock(&sim_big);
	return r;
}

/* The context that nodes are made for. */
static CUresult node_ctx(CUgraphNode *node, CUgraph g, CUcontext given, struct CUctx_st **ret)
{
	if (node == NULL || !sim_is_graph(g))
		return CUDA_ERROR_INVALID_VALUE;
	if (given == NULL)
		return sim_current(ret);
	*ret = given;
	return sim_ctx_check(given);
}

static CUresult kernel_work(struct CUctx_st *ctx, const CUDA_KERNEL_NODE_PARAMS_v2 *params,
			    struct sim_work *ret)
{
	*ret = (struct sim_work){ .type = CU_GRAPH_NODE_TYPE_KERNEL };
	ret->kernel = *params;
	/* Kernels compute nothing: their parameters need not be kept. */
	ret->kernel.kernelParams = ret->kernel.extra = NULL;
	return sim_kernel_cost(ctx->dev, params, &ret->cost_ns);
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
				 size_t n, const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
	struct CUctx_st *ctx;
	struct sim_work w;
	CUresult r;

	if (params == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = node_ctx(node, graph, params->ctx, &ctx);
	if (r == CUDA_SUCCESS)
		r = kernel_work(ctx, params, &w);
	return r == CUDA_SUCCESS ? add(node, graph, deps, n, &w) : r;
}

CUresult cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n,
			      const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
	CUDA_KERNEL_NODE_PARAMS_v2 p = { 0 };

	if (params == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&p, params, sizeof(*params));
	return cuGraphAddKernelNode_v2(node, graph, deps, n, &p);
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n,
			      const CUDA_MEMCPY3D *params, CUcontext given)
{
	struct sim_work w = { .type = CU_GRAPH_NODE_TYPE_MEMCPY };
	struct CUctx_st *ctx;
	CUresult r = node_ctx(node, graph, given, &ctx);

	if (r != CUDA_SUCCESS)
		return r;
	if (params == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	w.copy = *params;
	r = sim_copy_3d(params, ctx->dev, false, &w.cost_ns);
	return r == CUDA_SUCCESS ? add(node, graph, deps, n, &w) : r;
}

CUresult cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n,
			      const CUDA_MEMSET_NODE_PARAMS *params, CUcontext given)
{
	struct sim_work w = { .type = CU_GRAPH_NODE_TYPE_MEMSET };
	struct CUctx_st *ctx;
	CUresult r = node_ctx(node, graph, given, &ctx);

	if (r != CUDA_SUCCESS)
		return r;
	if (params == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	w.fill = *params;
	r = sim_fill(params, ctx->dev, false, &w.cost_ns);
	return r == CUDA_SUCCESS ? add(node, graph, deps, n, &w) : r;
}

static CUresult add_plain(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n,
			  const struct sim_work *w)
{
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (node == NULL || !sim_is_graph(graph))
		return CUDA_ERROR_INVALID_VALUE;
	return add(node, graph, deps, n, w);
}

CUresult cuGraphAddHostNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n,
			    const CUDA_HOST_NODE_PARAMS *params)
{
	struct sim_work w = { .type = CU_GRAPH_NODE_TYPE_HOST };

	if (params == NULL || params->fn == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	w.host = *params;
	return add_plain(node, graph, deps, n, &w);
}

CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n)
{
	struct sim_work w = { .type = CU_GRAPH_NODE_TYPE_EMPTY };

	return add_plain(node, graph, deps, n, &w);
}

CUresult cuGraphAddEventRecordNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
				   size_t n, CUevent event)
{
	struct sim_work w = { .type = CU_GRAPH_NODE_TYPE_EVENT_RECORD, .event = event };

	if (event == NULL || event->magic != SIM_MAGIC_EVENT)
		return CUDA_ERROR_INVALID_VALUE;
	return add_plain(node, graph, deps, n, &w);
}

CUresult cuGraphAddEventWaitNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
				 size_t n, CUevent event)
{
	struct sim_work w = { .type = CU_GRAPH_NODE_TYPE_WAIT_EVENT, .event = event };

	if (event == NULL || event->magic != SIM_MAGIC_EVENT)
		return CUDA_ERROR_INVALID_VALUE;
	return add_plain(node, graph, deps, n, &w);
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
				  size_t n, CUgraph child)
{
	struct sim_work w = { .type = CU_GRAPH_NODE_TYPE_GRAPH };
	CUresult r;

	if (!sim_is_graph(child))
		return CUDA_ERROR_INVALID_VALUE;
	r = cuGraphClone(&w.child, child);
	if (r != CUDA_SUCCESS)
		return r;
	w.child->borrowed = true;
	r = add_plain(node, graph, deps, n, &w);
	if (r != CUDA_SUCCESS) {
		pthread_mutex_lock(&sim_big);
		sim_graph_drop(w.child);
		pthread_mutex_unlock(&sim_big);
	}
	return r;
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *graph)
{
	if (!is_node(node) || node->work.type != CU_GRAPH_NODE_TYPE_GRAPH || graph == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*graph = node->work.child;
	return CUDA_SUCCESS;
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n,
				CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	struct sim_work w = { .type = CU_GRAPH_NODE_TYPE_MEM_ALLOC };
	struct sim_device *d;
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (params == NULL || params->poolProps.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    params->poolProps.handleTypes != CU_MEM_HANDLE_TYPE_NONE ||
	    params->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_of(params->poolProps.location.id, &d))
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&sim_big);
	r = sim_graph_alloc_new(d, params->bytesize, &w.alloc);
	pthread_mutex_unlock(&sim_big);
	if (r == CUDA_SUCCESS) {
		params->dptr = w.alloc->region->base;
		r = add_plain(node, graph, deps, n, &w);
	}
	if (r != CUDA_SUCCESS && w.alloc != NULL) {
		pthread_mutex_lock(&sim_big);
		sim_graph_alloc_put(w.alloc);
		pthread_mutex_unlock(&sim_big);
	}
	return r;
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	const struct sim_graph_alloc *a;

	if (!is_node(node) || node->work.type != CU_GRAPH_NODE_TYPE_MEM_ALLOC || params == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	a = node->work.alloc;
	*params = (CUDA_MEM_ALLOC_NODE_PARAMS){ .bytesize = a->bytes, .dptr = a->region->base };
	params->poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	params->poolProps.location =
		(CUmemLocation){ CU_MEM_LOCATION_TYPE_DEVICE, sim_device_number(a->dev) };
	return CUDA_SUCCESS;
}

CUresult cuGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n,
			       CUdeviceptr dptr)
{
	struct sim_work w = { .type = CU_GRAPH_NODE_TYPE_MEM_FREE, .freed = dptr };
	struct sim_region *g;
	bool ok;

	pthread_mutex_lock(&sim_big);
	g = sim_region_find((uintptr_t)dptr);
	ok = g != NULL && g->kind == SIM_KIND_GRAPH && g->base == dptr;
	pthread_mutex_unlock(&sim_big);
	return ok ? add_plain(node, graph, deps, n, &w) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *dptr)
{
	if (!is_node(node) || node->work.type != CU_GRAPH_NODE_TYPE_MEM_FREE || dptr == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*dptr = node->work.freed;
	return CUDA_SUCCESS;
}

CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
			   const void *edges, size_t n, struct rf_graph_node_params *p)
{
	if (p == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	switch (p->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return cuGraphAddKernelNode_v2(node, graph, deps, n, &p->kernel);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return cuGraphAddMemcpyNode(node, graph, deps, n, &p->memcpy.params, p->memcpy.ctx);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return cuGraphAddMemsetNode(node, graph, deps, n, &p->memset, NULL);
	case CU_GRAPH_NODE_TYPE_HOST:
		return cuGraphAddHostNode(node, graph, deps, n, &p->host);
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return cuGraphAddChildGraphNode(node, graph, deps, n, p->graph);
	case CU_GRAPH_NODE_TYPE_EMPTY:
		return cuGraphAddEmptyNode(node, graph, deps, n);
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		return cuGraphAddEventWaitNode(node, graph, deps, n, p->event);
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return cuGraphAddEventRecordNode(node, graph, deps, n, p->event);
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		return cuGraphAddMemAllocNode(node, graph, deps, n, &p->alloc);
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		return cuGraphAddMemFreeNode(node, graph, deps, n, p->free);
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n,
			struct rf_graph_node_params *params)
{
	return cuGraphAddNode_v2(node, graph, deps, NULL, n, params);
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
	if (!is_node(node) || node->work.type != CU_GRAPH_NODE_TYPE_KERNEL || params == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*params = node->work.kernel;
	return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
	struct CUctx_st *ctx;
	struct sim_work w;
	CUresult r;

	if (!is_node(node) || node->work.type != CU_GRAPH_NODE_TYPE_KERNEL || params == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = node_ctx(&node, node->graph, params->ctx, &ctx);
	if (r == CUDA_SUCCESS)
		r = kernel_work(ctx, params, &w);
	if (r == CUDA_SUCCESS)
		node->work = w;
	return r;
}

/* --- edges and lists --- */

CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
				size_t n)
{
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&sim_big);
	if (!sim_is_graph(graph) || !deps_in(graph, from, n) || !deps_in(graph, to, n))
		r = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; r == CUDA_SUCCESS && i < n; i++)
		if (from[i] == to[i])
			r = CUDA_ERROR_INVALID_VALUE;
		else if (!sim_node_depend(to[i], &from[i], 1))
			r = CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_unlock(&sim_big);
	return r;
}

CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
				   const void *edges, size_t n)
{
	return cuGraphAddDependencies(graph, from, to, n);
}

/* As all such lists: without room the count, with room as many as fit and NULL behind them. */
static void put(CUgraphNode *list, size_t room, size_t i, CUgraphNode n)
{
	if (list != NULL && i < room)
		list[i] = n;
}

static void end_list(CUgraphNode *list, size_t *n, size_t got)
{
	for (size_t i = got; list != NULL && i < *n; i++)
		list[i] = NULL;
	if (list == NULL || got < *n)
		*n = got;
}

static CUresult list_nodes(CUgraph g, CUgraphNode *nodes, size_t *n, bool roots)
{
	size_t got = 0;

	if (!sim_is_graph(g) || n == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < g->n; i++)
		if (!roots || g->nodes[i]->deps.n == 0)
			put(nodes, *n, got++, g->nodes[i]);
	end_list(nodes, n, got);
	return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *n)
{
	return list_nodes(graph, nodes, n, false);
}

CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *n)
{
	return list_nodes(graph, nodes, n, true);
}

CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *n)
{
	size_t got = 0, room;

	if (!sim_is_graph(graph) || n == NULL || (from == NULL) != (to == NULL))
		return CUDA_ERROR_INVALID_VALUE;
	room = *n;
	for (size_t i = 0; i < graph->n; i++) {
		const struct sim_deps *d = &graph->nodes[i]->deps;

		for (size_t j = 0; j < d->n; j++) {
			put(from, room, got, d->nodes[j]);
			put(to, room, got++, graph->nodes[i]);
		}
	}
	end_list(to, &room, got);
	end_list(from, n, got);
	return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode node, int *type)
{
	if (!is_node(node) || type == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*type = node->work.type;
	return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *deps, size_t *n)
{
	if (!is_node(node) || n == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < node->deps.n; i++)
		put(deps, *n, i, node->deps.nodes[i]);
	end_list(deps, n, node->deps.n);
	return CUDA_SUCCESS;
}
