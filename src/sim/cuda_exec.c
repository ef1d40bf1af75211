/* Executable graphs. A launch is one operation of its stream that takes as long as all its nodes
 * one after another: within a context nothing overlaps. Host nodes run in the calling thread once
 * what is before them is through. */
#include "sim/cuda_graph.h"

#include <stdlib.h>
#include <string.h>

#define GRAPH_NS 2000 /* every launch of a graph */
#define KNOWN_FLAGS 15u

static bool is_exec(CUgraphExec e)
{
	return e != NULL && e->magic == SIM_MAGIC_EXEC;
}

/* --- instantiation; under sim_big --- */

static bool ready(const struct CUgraphNode_st *n)
{
	for (size_t i = 0; i < n->deps.n; i++)
		if (!n->deps.nodes[i]->mark)
			return false;
	return true;
}

static CUresult flatten(CUgraphExec e, CUgraph g);

static CUresult add_step(CUgraphExec e, CUgraphNode n)
{
	struct sim_step *steps;

	if (n->work.type == CU_GRAPH_NODE_TYPE_GRAPH)
		return flatten(e, n->work.child);
	if (e->n >= SIM_NODES_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if ((e->n & (e->n - 1)) == 0) { /* full: sizes are powers of two */
		steps = realloc(e->steps, (e->n > 0 ? e->n * 2 : 1) * sizeof(*steps));
		if (steps == NULL)
			return CUDA_ERROR_OUT_OF_MEMORY;
		e->steps = steps;
	}
	e->steps[e->n++] = (struct sim_step){ .node = n, .work = n->work };
	return CUDA_SUCCESS;
}

/* In rounds over those left; captured graphs need one. A round that adds none has met a cycle. */
static CUresult flatten(CUgraphExec e, CUgraph g)
{
	size_t left = g->n;

	for (size_t i = 0; i < g->n; i++)
		g->nodes[i]->mark = false;
	while (left > 0) {
		size_t before = left;

		for (size_t i = 0; i < g->n; i++) {
			CUgraphNode n = g->nodes[i];
			CUresult r;

			if (n->mark || !ready(n))
				continue;
			n->mark = true;
			left--;
			r = add_step(e, n);
			if (r != CUDA_SUCCESS)
				return r;
		}
		if (left == before)
			return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

/* An allocation can be in one executable graph at a time, as its address is fixed. */
static CUresult take_allocs(CUgraphExec e)
{
	for (size_t i = 0; i < e->n; i++)
		if (e->steps[i].work.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC &&
		    e->steps[i].work.alloc->instantiated)
			return CUDA_ERROR_NOT_SUPPORTED;
	for (size_t i = 0; i < e->n; i++)
		if (e->steps[i].work.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
			e->steps[i].work.alloc->instantiated = true;
			e->steps[i].work.alloc->refs++;
		}
	return CUDA_SUCCESS;
}

static CUresult instantiate(CUgraphExec *ret, CUgraph graph, uint64_t flags)
{
	struct CUctx_st *ctx;
	CUgraphExec e;
	CUresult r = sim_current(&ctx);

	if (r != CUDA_SUCCESS)
		return r;
	if (ret == NULL || !sim_is_graph(graph) || (flags & ~(uint64_t)KNOWN_FLAGS) != 0)
		return CUDA_ERROR_INVALID_VALUE;
	if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0)
		return CUDA_ERROR_NOT_SUPPORTED;
	e = calloc(1, sizeof(*e));
	if (e == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*e = (struct CUgraphExec_st){ .magic = SIM_MAGIC_EXEC, .ctx = ctx, .flags = flags };
	pthread_mutex_lock(&sim_big);
	r = flatten(e, graph);
	if (r == CUDA_SUCCESS)
		r = take_allocs(e);
	pthread_mutex_unlock(&sim_big);
	if (r == CUDA_SUCCESS) {
		*ret = e;
		return r;
	}
	free(e->steps);
	free(e);
	return r;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
	return instantiate(exec, graph, flags);
}

CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node, char *log,
			       size_t log_size)
{
	if (error_node != NULL)
		*error_node = NULL;
	if (log != NULL && log_size > 0)
		log[0] = '\0';
	return instantiate(exec, graph, 0);
}

CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node, char *log,
			    size_t log_size)
{
	return cuGraphInstantiate_v2(exec, graph, error_node, log, log_size);
}

static CUresult with_params(CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *p,
			    CUstream upload)
{
	CUresult r = instantiate(exec, graph, p->flags);

	p->hErrNode_out = NULL;
	p->result_out = r == CUDA_SUCCESS ? 0 : 1;
	if (r == CUDA_SUCCESS && (p->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0) {
		r = cuGraphUpload(*exec, upload);
		if (r != CUDA_SUCCESS)
			cuGraphExecDestroy(*exec);
	}
	return r;
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph,
				      CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	return params != NULL ? with_params(exec, graph, params, params->hUploadStream)
			      : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *exec, CUgraph graph,
					   CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	return params != NULL ? with_params(exec, graph, params, sim_ptsz(params->hUploadStream))
			      : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphExecDestroy(CUgraphExec e)
{
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (!is_exec(e))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&sim_big);
	for (size_t i = 0; i < e->n; i++)
		if (e->steps[i].work.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
			e->steps[i].work.alloc->instantiated = false;
			sim_graph_alloc_put(e->steps[i].work.alloc);
		}
	e->magic = 0;
	pthread_mutex_unlock(&sim_big);
	free(e->steps);
	free(e);
	return CUDA_SUCCESS;
}

CUresult cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t *flags)
{
	if (!is_exec(exec) || flags == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = exec->flags;
	return CUDA_SUCCESS;
}

/* --- changing --- */

static int compare(const struct CUgraphExec_st *a, const struct CUgraphExec_st *b,
		   CUgraphNode *ret_node)
{
	for (size_t i = 0; i < a->n && i < b->n; i++) {
		int type = b->steps[i].work.type;

		*ret_node = b->steps[i].node;
		if (a->steps[i].work.type != type)
			return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
		if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE)
			return CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
	}
	*ret_node = NULL;
	return a->n == b->n ? CU_GRAPH_EXEC_UPDATE_SUCCESS
			    : CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
}

CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
	struct CUgraphExec_st fresh = { 0 };
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (!is_exec(exec) || !sim_is_graph(graph) || info == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*info = (CUgraphExecUpdateResultInfo){ .result = CU_GRAPH_EXEC_UPDATE_ERROR };
	pthread_mutex_lock(&sim_big);
	r = flatten(&fresh, graph);
	if (r == CUDA_SUCCESS)
		info->result = compare(exec, &fresh, &info->errorNode);
	if (info->result == CU_GRAPH_EXEC_UPDATE_SUCCESS) {
		/* The nodes stay those that were instantiated. */
		for (size_t i = 0; i < exec->n; i++)
			exec->steps[i].work = fresh.steps[i].work;
	} else if (r == CUDA_SUCCESS) {
		r = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
	}
	pthread_mutex_unlock(&sim_big);
	free(fresh.steps);
	return r;
}

CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *error_node, int *result)
{
	CUgraphExecUpdateResultInfo info = { 0 };
	CUresult r;

	if (error_node == NULL || result == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = cuGraphExecUpdate_v2(exec, graph, &info);
	*error_node = info.errorNode;
	*result = info.result;
	return r;
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
					   const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
	uint64_t cost = 0;
	CUresult r;

	if (!is_exec(exec) || node == NULL || params == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = sim_kernel_cost(exec->ctx->dev, params, &cost);
	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&sim_big);
	r = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < exec->n; i++) {
		struct sim_work *w = &exec->steps[i].work;

		if (exec->steps[i].node != node || w->type != CU_GRAPH_NODE_TYPE_KERNEL)
			continue;
		w->kernel = *params;
		w->kernel.kernelParams = w->kernel.extra = NULL;
		w->cost_ns = cost;
		r = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&sim_big);
	return r;
}

/* --- launching --- */

static struct sim_graph_alloc *alloc_at(CUdeviceptr at)
{
	struct sim_region *g = sim_region_find((uintptr_t)at);

	return g != NULL && g->kind == SIM_KIND_GRAPH && g->base == at ? g->graph : NULL;
}

static bool frees_itself(const struct CUgraphExec_st *e)
{
	return (e->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0;
}

/* Makes room for the most that the graph will have allocated at any point. Under sim_big. */
static CUresult reserve(CUgraphExec e, bool launching)
{
	uint64_t now = 0, most = 0;

	for (size_t i = 0; i < e->n; i++) {
		struct sim_work *w = &e->steps[i].work;
		struct sim_graph_alloc *a;

		if (w->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
			if (w->alloc->live && launching && !frees_itself(e))
				return CUDA_ERROR_INVALID_VALUE;
			if (w->alloc->live && launching)
				sim_graph_alloc_off(w->alloc);
			now += w->alloc->region->charged;
			most = now > most ? now : most;
		} else if (w->type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
			a = alloc_at(w->freed);
			if (a != NULL)
				now -= a->region->charged < now ? a->region->charged : now;
		}
	}
	return sim_graph_reserve(e->ctx->dev, most);
}

static CUresult change_memory(const struct sim_work *w)
{
	struct sim_graph_alloc *a;
	CUresult r = CUDA_SUCCESS;

	pthread_mutex_lock(&sim_big);
	if (w->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
		sim_graph_alloc_on(w->alloc);
	} else {
		a = alloc_at(w->freed);
		if (a != NULL && a->live)
			sim_graph_alloc_off(a);
		else
			r = CUDA_ERROR_INVALID_VALUE;
	}
	pthread_mutex_unlock(&sim_big);
	return r;
}

/* Work that something else must see the end of is queued before that. */
static CUresult flush(struct CUstream_st *s, uint64_t *cost, bool wait)
{
	CUresult r = CUDA_SUCCESS;

	if (*cost > 0)
		r = sim_submit(s, *cost);
	*cost = 0;
	return r == CUDA_SUCCESS && wait ? sim_wait(s->ctx, s->last) : r;
}

static CUresult run_step(struct CUstream_st *s, const struct sim_work *w, uint64_t *cost)
{
	uint64_t ns = 0;
	CUresult r;

	*cost += w->cost_ns;
	switch (w->type) {
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return sim_copy_3d(&w->copy, s->ctx->dev, true, &ns);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return sim_fill(&w->fill, s->ctx->dev, true, &ns);
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		return change_memory(w);
	case CU_GRAPH_NODE_TYPE_HOST:
		r = flush(s, cost, true);
		if (r == CUDA_SUCCESS)
			w->host.fn(w->host.userData);
		return r;
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		r = flush(s, cost, false);
		return r == CUDA_SUCCESS ? sim_event_record(w->event, s) : r;
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		r = flush(s, cost, false);
		return r == CUDA_SUCCESS ? sim_value_run(s, &w->value) : r;
	default:
		return CUDA_SUCCESS;
	}
}

static CUresult run(CUgraphExec e, struct CUstream_st *s)
{
	uint64_t cost = GRAPH_NS;
	CUresult r;

	pthread_mutex_lock(&sim_big);
	r = reserve(e, true);
	pthread_mutex_unlock(&sim_big);
	for (size_t i = 0; r == CUDA_SUCCESS && i < e->n; i++)
		r = run_step(s, &e->steps[i].work, &cost);
	return r == CUDA_SUCCESS ? flush(s, &cost, false) : r;
}

/* Launched into a capture it becomes a child graph: its steps in a row. */
static CUresult capture(CUgraphExec e, struct CUstream_st *s)
{
	struct sim_work w = { .type = CU_GRAPH_NODE_TYPE_GRAPH };
	CUgraphNode last = NULL;
	CUresult r = CUDA_SUCCESS;

	pthread_mutex_lock(&sim_big);
	w.child = sim_graph_new();
	if (w.child == NULL)
		r = CUDA_ERROR_OUT_OF_MEMORY;
	for (size_t i = 0; r == CUDA_SUCCESS && i < e->n; i++) {
		int type = e->steps[i].work.type;

		if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
			r = CUDA_ERROR_NOT_SUPPORTED;
			break;
		}
		last = sim_graph_add(w.child, &last, last != NULL ? 1 : 0, &e->steps[i].work);
		if (last == NULL)
			r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (r == CUDA_SUCCESS) {
		w.child->borrowed = true;
		r = sim_capture_work(s, &w);
	}
	if (r != CUDA_SUCCESS && w.child != NULL)
		sim_graph_drop(w.child);
	pthread_mutex_unlock(&sim_big);
	return r;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
	struct CUstream_st *s;
	CUresult r = sim_work_stream(stream, &s);

	if (r != CUDA_SUCCESS)
		return r;
	if (!is_exec(exec) || exec->ctx->dev != s->ctx->dev)
		return CUDA_ERROR_INVALID_VALUE;
	return sim_capturing(s) ? capture(exec, s) : run(exec, s);
}

CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream)
{
	return cuGraphLaunch(exec, sim_ptsz(stream));
}

/* Brings the memory of its allocations to the device, ahead of the launch. */
CUresult cuGraphUpload(CUgraphExec exec, CUstream stream)
{
	struct CUstream_st *s;
	CUresult r = sim_work_stream(stream, &s);

	if (r != CUDA_SUCCESS)
		return r;
	if (!is_exec(exec))
		return CUDA_ERROR_INVALID_VALUE;
	if (sim_capturing(s))
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	pthread_mutex_lock(&sim_big);
	r = reserve(exec, false);
	pthread_mutex_unlock(&sim_big);
	return r;
}

CUresult cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream)
{
	return cuGraphUpload(exec, sim_ptsz(stream));
}
