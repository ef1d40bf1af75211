/* Stream capture: while it is on, work in the stream becomes nodes of a graph.
 *
 * What a capture forbids is what CUDA documents. Waiting for or looking at a capturing stream, an
 * event recorded in one, or a context that has one spoils the capture whatever its mode. Calls that
 * may wait for the device somewhere inside (allocating, freeing, looking at any event or stream)
 * spoil it too, unless its mode or the calling thread's says otherwise. */
#include "sim/cuda_graph.h"

#include <stdlib.h>
#include <string.h>

struct sim_capture {
	uint64_t id;
	CUgraph graph;
	bool own_graph; /* made by the capture */
	int mode;
	bool spoilt;
	const void *thread; /* who began it */
	struct CUstream_st *origin;
	struct CUstream_st *streams; /* all that take part */
	struct sim_capture *next;
};

static struct sim_capture *captures;
static unsigned n_captures; /* looked at without the lock */
static uint64_t next_id = 1;
static __thread int thread_mode;
static __thread char self; /* its address tells threads apart */

static bool none(void)
{
	return __atomic_load_n(&n_captures, __ATOMIC_ACQUIRE) == 0;
}

bool sim_deps_set(struct sim_deps *d, const CUgraphNode *nodes, size_t n)
{
	CUgraphNode *copy = NULL;

	if (n > 0) {
		copy = malloc(n * sizeof(*copy));
		if (copy == NULL)
			return false;
		memcpy(copy, nodes, n * sizeof(*copy));
	}
	sim_deps_clear(d);
	*d = (struct sim_deps){ .nodes = copy, .n = n };
	return true;
}

void sim_deps_clear(struct sim_deps *d)
{
	free(d->nodes);
	*d = (struct sim_deps){ 0 };
}

static bool deps_add(struct sim_deps *d, const CUgraphNode *nodes, size_t n)
{
	CUgraphNode *all;

	if (n == 0)
		return true;
	all = realloc(d->nodes, (d->n + n) * sizeof(*all));
	if (all == NULL)
		return false;
	d->nodes = all;
	for (size_t i = 0; i < n; i++) {
		size_t j = 0;

		while (j < d->n && all[j] != nodes[i])
			j++;
		if (j == d->n)
			all[d->n++] = nodes[i];
	}
	return true;
}

/* --- what is forbidden --- */

static CUresult check(CUresult (*look)(const void *), const void *arg)
{
	CUresult r;

	if (none())
		return CUDA_SUCCESS;
	pthread_mutex_lock(&sim_big);
	r = look(arg);
	pthread_mutex_unlock(&sim_big);
	return r;
}

static bool forbids(const struct sim_capture *c)
{
	if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return false;
	if (c->thread == &self)
		return c->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
	return thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
	       c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

static CUresult unsafe(const void *arg)
{
	CUresult r = CUDA_SUCCESS;

	for (struct sim_capture *c = captures; c != NULL; c = c->next)
		if (forbids(c)) {
			c->spoilt = true;
			r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
		}
	return r;
}

CUresult sim_unsafe(void)
{
	return check(unsafe, NULL);
}

static CUresult unsafe_ctx(const void *arg)
{
	CUresult r = CUDA_SUCCESS;

	for (struct sim_capture *c = captures; c != NULL; c = c->next)
		for (struct CUstream_st *s = c->streams; s != NULL; s = s->next_captured)
			if (s->ctx == arg) {
				c->spoilt = true;
				r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
			}
	return r;
}

CUresult sim_unsafe_ctx(struct CUctx_st *ctx)
{
	CUresult r = check(unsafe_ctx, ctx);

	return r == CUDA_SUCCESS ? sim_unsafe() : r;
}

static CUresult unsafe_stream(const void *arg)
{
	const struct CUstream_st *s = arg;

	if (s->capture == NULL)
		return CUDA_SUCCESS;
	s->capture->spoilt = true;
	return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult sim_unsafe_stream(struct CUstream_st *s)
{
	CUresult r = check(unsafe_stream, s);

	return r == CUDA_SUCCESS ? sim_unsafe() : r;
}

static struct sim_capture *by_id(uint64_t id)
{
	struct sim_capture *c = captures;

	while (c != NULL && c->id != id)
		c = c->next;
	return c;
}

CUresult sim_unsafe_event(struct CUevent_st *e)
{
	struct sim_capture *c;
	CUresult r = CUDA_SUCCESS;

	pthread_mutex_lock(&sim_big);
	if (e->capture != 0) {
		c = by_id(e->capture);
		if (c != NULL)
			c->spoilt = true;
		r = CUDA_ERROR_CAPTURED_EVENT;
	}
	pthread_mutex_unlock(&sim_big);
	return r == CUDA_SUCCESS ? sim_unsafe() : r;
}

/* The legacy default stream waits for all streams that are not NON_BLOCKING: it must not wait for
 * one that is being captured. */
static bool blocking_in(const struct sim_capture *c, const struct CUctx_st *ctx)
{
	for (struct CUstream_st *s = c->streams; s != NULL; s = s->next_captured)
		if (s->ctx == ctx && (s->flags & CU_STREAM_NON_BLOCKING) == 0)
			return true;
	return false;
}

static CUresult implicit(const void *arg)
{
	CUresult r = CUDA_SUCCESS;

	for (struct sim_capture *c = captures; c != NULL; c = c->next)
		if (blocking_in(c, arg)) {
			c->spoilt = true;
			r = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
		}
	return r;
}

/* Merely asking the default stream is an error too, but spoils nothing. */
static CUresult would_wait(const void *arg)
{
	for (struct sim_capture *c = captures; c != NULL; c = c->next)
		if (blocking_in(c, arg))
			return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	return CUDA_SUCCESS;
}

static CUresult spoilt(const void *arg)
{
	const struct CUstream_st *s = arg;

	return s->capture != NULL && s->capture->spoilt ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
							: CUDA_SUCCESS;
}

CUresult sim_work_stream(CUstream handle, struct CUstream_st **ret_stream)
{
	struct CUstream_st *s = NULL;
	CUresult r = sim_stream_of(handle, &s);

	if (r == CUDA_SUCCESS && s == &s->ctx->own)
		r = check(implicit, s->ctx);
	if (r == CUDA_SUCCESS)
		r = check(spoilt, s);
	if (r == CUDA_SUCCESS)
		*ret_stream = s;
	return r;
}

bool sim_capturing(struct CUstream_st *s)
{
	bool on;

	if (none())
		return false;
	pthread_mutex_lock(&sim_big);
	on = s->capture != NULL;
	pthread_mutex_unlock(&sim_big);
	return on;
}

/* --- nodes; under sim_big --- */

CUresult sim_capture_work(struct CUstream_st *s, const struct sim_work *w)
{
	CUgraphNode node;

	if (s->capture == NULL || s->capture->spoilt)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	node = sim_graph_add(s->capture->graph, s->deps.nodes, s->deps.n, w);
	if (node == NULL || !sim_deps_set(&s->deps, &node, 1)) {
		s->capture->spoilt = true;
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

CUresult sim_capture_alloc(struct CUstream_st *s, size_t bytes, CUdeviceptr *ret)
{
	struct sim_work w = { .type = CU_GRAPH_NODE_TYPE_MEM_ALLOC };
	CUresult r = sim_graph_alloc_new(s->ctx->dev, bytes, &w.alloc);

	if (r != CUDA_SUCCESS)
		return r;
	r = sim_capture_work(s, &w);
	if (r == CUDA_SUCCESS)
		*ret = w.alloc->region->base;
	else
		sim_graph_alloc_put(w.alloc);
	return r;
}

CUresult sim_capture_free(struct CUstream_st *s, CUdeviceptr dptr)
{
	struct sim_work w = { .type = CU_GRAPH_NODE_TYPE_MEM_FREE, .freed = dptr };
	struct sim_region *g = sim_region_find((uintptr_t)dptr);

	if (g == NULL || g->kind != SIM_KIND_GRAPH || g->base != dptr)
		return CUDA_ERROR_INVALID_VALUE;
	return sim_capture_work(s, &w);
}

/* --- beginning and ending --- */

static void join(struct sim_capture *c, struct CUstream_st *s)
{
	s->capture = c;
	s->next_captured = c->streams;
	c->streams = s;
}

static void leave(struct CUstream_st *s)
{
	struct CUstream_st **p = &s->capture->streams;

	while (*p != s)
		p = &(*p)->next_captured;
	*p = s->next_captured;
	s->next_captured = NULL;
	s->capture = NULL;
	sim_deps_clear(&s->deps);
}

static void finish(struct sim_capture *c)
{
	struct sim_capture **p = &captures;

	while (c->streams != NULL)
		leave(c->streams);
	while (*p != c)
		p = &(*p)->next;
	*p = c->next;
	__atomic_sub_fetch(&n_captures, 1, __ATOMIC_RELEASE);
	free(c);
}

/* A stream that is destroyed, or whose thread is gone. Under sim_big. */
void sim_capture_forget(struct CUstream_st *s)
{
	struct sim_capture *c = s->capture;

	if (c == NULL)
		return;
	c->spoilt = true;
	leave(s);
	if (c->origin != s)
		return;
	if (c->own_graph)
		sim_graph_drop(c->graph);
	finish(c);
}

static struct CUstream_st *captured_in(const struct CUctx_st *ctx)
{
	for (struct sim_capture *c = captures; c != NULL; c = c->next)
		for (struct CUstream_st *s = c->streams; s != NULL; s = s->next_captured)
			if (s->ctx == ctx)
				return s;
	return NULL;
}

/* A context takes the captures in its streams along. Under sim_big. */
void sim_capture_drop_ctx(const struct CUctx_st *ctx)
{
	struct CUstream_st *s;

	while ((s = captured_in(ctx)) != NULL)
		sim_capture_forget(s);
}

static CUresult begin(CUstream handle, CUgraph graph, const CUgraphNode *deps, size_t n, int mode)
{
	struct CUstream_st *s;
	struct sim_capture *c;
	CUresult r = sim_stream_of(handle, &s);

	if (r != CUDA_SUCCESS)
		return r;
	if (mode < 0 || mode > CU_STREAM_CAPTURE_MODE_RELAXED || (n > 0 && deps == NULL))
		return CUDA_ERROR_INVALID_VALUE;
	if (s == &s->ctx->own)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (graph != NULL && !sim_is_graph(graph))
		return CUDA_ERROR_INVALID_VALUE;
	c = calloc(1, sizeof(*c));
	if (c == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&sim_big);
	*c = (struct sim_capture){ .id = next_id++,
				   .graph = graph != NULL ? graph : sim_graph_new(),
				   .own_graph = graph == NULL,
				   .mode = mode,
				   .thread = &self,
				   .origin = s,
				   .next = captures };
	if (s->capture != NULL)
		r = CUDA_ERROR_ILLEGAL_STATE;
	else if (c->graph == NULL || !sim_deps_set(&s->deps, deps, n))
		r = CUDA_ERROR_OUT_OF_MEMORY;
	if (r == CUDA_SUCCESS) {
		join(c, s);
		captures = c;
		__atomic_add_fetch(&n_captures, 1, __ATOMIC_RELEASE);
	} else {
		if (c->own_graph && c->graph != NULL)
			sim_graph_drop(c->graph);
		free(c);
	}
	pthread_mutex_unlock(&sim_big);
	return r;
}

CUresult cuStreamBeginCapture_v2(CUstream stream, int mode)
{
	return begin(stream, NULL, NULL, 0, mode);
}

CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, int mode)
{
	return begin(sim_ptsz(stream), NULL, NULL, 0, mode);
}

CUresult cuStreamBeginCapture(CUstream stream)
{
	return begin(stream, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult cuStreamBeginCapture_ptsz(CUstream stream)
{
	return begin(sim_ptsz(stream), NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *deps,
				     const void *edges, size_t n, int mode)
{
	return graph != NULL ? begin(stream, graph, deps, n, mode) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph, const CUgraphNode *deps,
					  const void *edges, size_t n, int mode)
{
	return cuStreamBeginCaptureToGraph(sim_ptsz(stream), graph, deps, edges, n, mode);
}

/* Does everything that other streams captured lead to the stream that began? A node's dependencies
 * were there before it, so one walk from the end marks all that leads there. */
static bool joined(struct sim_capture *c)
{
	CUgraph g = c->graph;

	for (size_t i = 0; i < g->n; i++)
		g->nodes[i]->mark = false;
	for (size_t i = 0; i < c->origin->deps.n; i++)
		c->origin->deps.nodes[i]->mark = true;
	for (size_t i = g->n; i > 0; i--)
		for (size_t j = 0; g->nodes[i - 1]->mark && j < g->nodes[i - 1]->deps.n; j++)
			g->nodes[i - 1]->deps.nodes[j]->mark = true;
	for (struct CUstream_st *s = c->streams; s != NULL; s = s->next_captured)
		for (size_t i = 0; i < s->deps.n; i++)
			if (!s->deps.nodes[i]->mark)
				return false;
	return true;
}

/* Under sim_big. */
static CUresult end(struct CUstream_st *s, CUgraph *ret)
{
	struct sim_capture *c = s->capture;
	CUresult r = CUDA_SUCCESS;

	*ret = NULL;
	if (c == NULL)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && c->thread != &self)
		return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	if (c->origin != s) {
		c->spoilt = true;
		return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	}
	if (c->spoilt)
		r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	else if (!joined(c))
		r = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
	if (r == CUDA_SUCCESS)
		*ret = c->graph;
	else if (c->own_graph)
		sim_graph_drop(c->graph);
	finish(c);
	return r;
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph)
{
	struct CUstream_st *s;
	CUresult r = sim_stream_of(handle, &s);

	if (r != CUDA_SUCCESS)
		return r;
	if (graph == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&sim_big);
	r = end(s, graph);
	pthread_mutex_unlock(&sim_big);
	return r;
}

CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph)
{
	return cuStreamEndCapture(sim_ptsz(stream), graph);
}

/* --- asking --- */

/* The list of dependencies stays valid until the stream's next call. */
static CUresult info(CUstream handle, int *status, cuuint64_t *id, CUgraph *graph,
		     const CUgraphNode **deps, size_t *n)
{
	struct CUstream_st *s;
	struct sim_capture *c;
	CUresult r = sim_stream_of(handle, &s);

	if (r != CUDA_SUCCESS)
		return r;
	if (status == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (s == &s->ctx->own)
		r = check(would_wait, s->ctx);
	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&sim_big);
	c = s->capture;
	*status = c == NULL   ? CU_STREAM_CAPTURE_STATUS_NONE
		  : c->spoilt ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
			      : CU_STREAM_CAPTURE_STATUS_ACTIVE;
	if (*status == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
		if (id != NULL)
			*id = c->id;
		if (graph != NULL)
			*graph = c->graph;
		if (deps != NULL)
			*deps = s->deps.nodes;
		if (n != NULL)
			*n = s->deps.n;
	}
	pthread_mutex_unlock(&sim_big);
	return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream stream, int *status)
{
	return info(stream, status, NULL, NULL, NULL, NULL);
}

CUresult cuStreamIsCapturing_ptsz(CUstream stream, int *status)
{
	return info(sim_ptsz(stream), status, NULL, NULL, NULL, NULL);
}

CUresult cuStreamGetCaptureInfo(CUstream stream, int *status, cuuint64_t *id)
{
	return info(stream, status, id, NULL, NULL, NULL);
}

CUresult cuStreamGetCaptureInfo_ptsz(CUstream stream, int *status, cuuint64_t *id)
{
	return info(sim_ptsz(stream), status, id, NULL, NULL, NULL);
}

CUresult cuStreamGetCaptureInfo_v2(CUstream stream, int *status, cuuint64_t *id, CUgraph *graph,
				   const CUgraphNode **deps, size_t *n)
{
	return info(stream, status, id, graph, deps, n);
}

CUresult cuStreamGetCaptureInfo_v2_ptsz(CUstream stream, int *status, cuuint64_t *id,
					CUgraph *graph, const CUgraphNode **deps, size_t *n)
{
	return info(sim_ptsz(stream), status, id, graph, deps, n);
}

/* Edges never carry data here. */
CUresult cuStreamGetCaptureInfo_v3(CUstream stream, int *status, cuuint64_t *id, CUgraph *graph,
				   const CUgraphNode **deps, const void **edges, size_t *n)
{
	if (edges != NULL)
		*edges = NULL;
	return info(stream, status, id, graph, deps, n);
}

CUresult cuStreamGetCaptureInfo_v3_ptsz(CUstream stream, int *status, cuuint64_t *id,
					CUgraph *graph, const CUgraphNode **deps,
					const void **edges, size_t *n)
{
	return cuStreamGetCaptureInfo_v3(sim_ptsz(stream), status, id, graph, deps, edges, n);
}

CUresult cuStreamUpdateCaptureDependencies(CUstream handle, CUgraphNode *deps, size_t n,
					   unsigned int flags)
{
	struct CUstream_st *s;
	CUresult r = sim_work_stream(handle, &s);

	if (r != CUDA_SUCCESS)
		return r;
	if (flags > 1 || (n > 0 && deps == NULL))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&sim_big);
	if (s->capture == NULL)
		r = CUDA_ERROR_ILLEGAL_STATE;
	else if (!(flags == 1 ? sim_deps_set : deps_add)(&s->deps, deps, n))
		r = CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_unlock(&sim_big);
	return r;
}

CUresult cuStreamUpdateCaptureDependencies_ptsz(CUstream stream, CUgraphNode *deps, size_t n,
						unsigned int flags)
{
	return cuStreamUpdateCaptureDependencies(sim_ptsz(stream), deps, n, flags);
}

CUresult cuThreadExchangeStreamCaptureMode(int *mode)
{
	int old = thread_mode;

	if (mode == NULL || *mode < 0 || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	thread_mode = *mode;
	*mode = old;
	return CUDA_SUCCESS;
}

/* --- events --- */

/* An event of a capture stands for the nodes its stream had then. Under sim_big. */
CUresult sim_capture_record(struct CUevent_st *e, struct CUstream_st *s, unsigned flags)
{
	struct sim_work w = { .type = CU_GRAPH_NODE_TYPE_EVENT_RECORD, .event = e };

	if (flags == CU_EVENT_RECORD_EXTERNAL)
		return sim_capture_work(s, &w);
	if (!sim_deps_set(&e->deps, s->deps.nodes, s->deps.n))
		return CUDA_ERROR_OUT_OF_MEMORY;
	e->capture = s->capture->id;
	e->recorded = false;
	return CUDA_SUCCESS;
}

/* Waiting brings the stream into the event's capture, or spoils what it must not mix. Under
 * sim_big. */
CUresult sim_capture_wait(struct CUstream_st *s, struct CUevent_st *e, unsigned flags)
{
	struct sim_work w = { .type = CU_GRAPH_NODE_TYPE_WAIT_EVENT, .event = e };
	struct sim_capture *c = e->capture != 0 ? by_id(e->capture) : NULL;

	if (s->capture != NULL && flags == CU_EVENT_WAIT_EXTERNAL)
		return sim_capture_work(s, &w);
	if (e->capture == 0) {
		if (!e->recorded) /* never recorded: nothing to wait for */
			return CUDA_SUCCESS;
		s->capture->spoilt = true;
		return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
	}
	if (c == NULL || (s->capture != NULL && s->capture != c)) {
		if (s->capture != NULL)
			s->capture->spoilt = true;
		if (c != NULL)
			c->spoilt = true;
		return c != NULL ? CUDA_ERROR_STREAM_CAPTURE_MERGE : CUDA_ERROR_CAPTURED_EVENT;
	}
	if (c->spoilt)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (s == &s->ctx->own) {
		c->spoilt = true;
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	if (s->capture == NULL)
		join(c, s);
	return deps_add(&s->deps, e->deps.nodes, e->deps.n) ? CUDA_SUCCESS
							    : CUDA_ERROR_OUT_OF_MEMORY;
}
