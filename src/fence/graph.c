/* Memory of graphs. The driver backs the allocation nodes of all graphs on a device from one pool of
 * its own: addresses are given when a node is made, memory comes when a graph is uploaded or
 * launched, never when it is instantiated, because only then is the stream known. The pool keeps it
 * for the next launch until it is trimmed. It is charged for what it says it has reserved.
 *
 * A launch can make the pool grow by what the addresses of the graph's nodes cover, no more; that is
 * reserved first, and the pool is asked afterwards. A graph that was launched before keeps its
 * memory, so it needs nothing as long as it stays in its stream, the pool was not trimmed, and no
 * graph leaves allocations behind that may lie on the same memory. */
#include <stdlib.h>
#include <string.h>

#include "fence/pool.h"

#define PAGE ((uint64_t)2 << 20)
#define DEPTH_MOST 64 /* of graphs in graphs */

/* An executable graph with allocation nodes; in the table, by its handle. */
struct exec {
	uint64_t bytes[RF_FENCE_CARDS];
	uint32_t trims[RF_FENCE_CARDS]; /* the pools' when it was last launched */
	CUstream stream;
	bool launched;
};

static _Thread_local __attribute__((tls_model("initial-exec"))) bool inside;

static bool enter(struct rf_fence *f)
{
	if (inside)
		return false;
	pthread_mutex_lock(&f->graph_lock);
	inside = true;
	return true;
}

static void leave(struct rf_fence *f)
{
	inside = false;
	pthread_mutex_unlock(&f->graph_lock);
}

void rf_graph_expect(struct rf_fence *f)
{
	__atomic_store_n(&f->graph_nodes, true, __ATOMIC_RELEASE);
}

/* --- what a graph needs --- */

struct span {
	uint64_t from, to;
	unsigned card;
};

struct walk {
	struct rf_fence *fence;
	struct span *spans;
	size_t n, room;
	size_t allocs, frees;
};

static CUresult add_span(struct walk *w, const CUDA_MEM_ALLOC_NODE_PARAMS *p)
{
	struct span *more;
	int card;
	CUresult r = rf_pool_card(w->fence, &p->poolProps, &card);

	w->allocs++;
	if (r != CUDA_SUCCESS || card < 0 || p->bytesize == 0)
		return r;
	if (w->n == w->room) {
		w->room = w->room ? w->room * 2 : 64;
		more = realloc(w->spans, w->room * sizeof(*more));
		if (!more)
			return CUDA_ERROR_OUT_OF_MEMORY;
		w->spans = more;
	}
	w->spans[w->n++] = (struct span){
		.from = p->dptr / PAGE * PAGE,
		.to = p->dptr + p->bytesize > UINT64_MAX - PAGE
			      ? UINT64_MAX
			      : (p->dptr + p->bytesize + PAGE - 1) / PAGE * PAGE,
		.card = (unsigned)card,
	};
	return CUDA_SUCCESS;
}

static CUresult walk(struct walk *w, CUgraph graph, int depth);

static CUresult visit(struct walk *w, CUgraphNode node, int depth)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params;
	CUgraph child = NULL;
	int type = -1;
	CUresult r = RF_REAL(cuGraphNodeGetType)(node, &type);

	if (r != CUDA_SUCCESS)
		return r;
	switch (type) {
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		memset(&params, 0, sizeof(params));
		r = RF_REAL(cuGraphMemAllocNodeGetParams)(node, &params);
		return r == CUDA_SUCCESS ? add_span(w, &params) : r;
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		w->frees++;
		return CUDA_SUCCESS;
	case CU_GRAPH_NODE_TYPE_GRAPH:
		r = RF_REAL(cuGraphChildGraphNodeGetGraph)(node, &child);
		return r == CUDA_SUCCESS ? walk(w, child, depth + 1) : r;
	default:
		return CUDA_SUCCESS;
	}
}

static CUresult walk(struct walk *w, CUgraph graph, int depth)
{
	CUgraphNode *nodes;
	size_t n = 0;
	CUresult r = RF_REAL(cuGraphGetNodes)(graph, NULL, &n);

	if (r != CUDA_SUCCESS || n == 0)
		return r;
	if (depth > DEPTH_MOST)
		return CUDA_ERROR_NOT_SUPPORTED;
	nodes = calloc(n, sizeof(CUgraphNode));
	if (!nodes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = RF_REAL(cuGraphGetNodes)(graph, nodes, &n);
	for (size_t i = 0; r == CUDA_SUCCESS && i < n; i++)
		r = visit(w, nodes[i], depth);
	free(nodes);
	return r;
}

static int by_place(const void *a_, const void *b_)
{
	const struct span *a = a_, *b = b_;

	if (a->card != b->card)
		return a->card < b->card ? -1 : 1;
	return a->from < b->from ? -1 : a->from > b->from;
}

/* Allocations whose lifetimes do not overlap may have the same address, and then count once. */
static void add_up(struct walk *w, uint64_t bytes[RF_FENCE_CARDS])
{
	uint64_t end = 0;

	if (w->n)
		qsort(w->spans, w->n, sizeof(*w->spans), by_place);
	for (size_t i = 0; i < w->n; i++) {
		struct span *s = &w->spans[i];

		if (i == 0 || s->card != s[-1].card)
			end = 0;
		if (s->from < end)
			s->from = end;
		if (s->to > s->from) {
			bytes[s->card] += s->to - s->from;
			end = s->to;
		}
	}
}

/* *ret is NULL for a graph without allocation nodes, else the caller's. */
static CUresult measure(struct rf_fence *f, CUgraph graph, struct exec **ret)
{
	struct walk w = { .fence = f };
	struct exec *x = NULL;
	CUresult r;

	*ret = NULL;
	if (!__atomic_load_n(&f->graph_nodes, __ATOMIC_ACQUIRE))
		return CUDA_SUCCESS;
	r = walk(&w, graph, 0);
	if (r == CUDA_SUCCESS && w.allocs > 0) {
		x = calloc(1, sizeof(*x));
		r = x ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (x)
		add_up(&w, x->bytes);
	if (x && w.allocs != w.frees)
		__atomic_store_n(&f->graph_leaves, true, __ATOMIC_RELAXED);
	free(w.spans);
	*ret = x;
	return r;
}

/* --- what the device's pool is charged, under the lock --- */

static uint64_t pool_says(const struct rf_graph_pool *p)
{
	cuuint64_t n = 0;

	return RF_REAL(cuDeviceGetGraphMemAttribute)(p->dev, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
						     &n) == CUDA_SUCCESS
		       ? n
		       : RF_POOL_UNKNOWN;
}

/* Brings the charge to what the pool has, and to what launches under way may make of it. */
static void settle(struct rf_fence *f, unsigned card)
{
	struct rf_graph_pool *p = &f->graph[card];
	uint64_t now = pool_says(p);

	if (now == RF_POOL_UNKNOWN)
		return;
	if (p->charged < now) { /* more than launches may take: the card has lost it */
		if (rf_reserve(f, card, now - p->charged) != CUDA_SUCCESS)
			rf_book(f, card, now - p->charged);
		p->charged = now;
	}
	now += p->pending + p->riding;
	if (p->charged > now) {
		rf_release(f, card, p->charged - now);
		p->charged = now;
	}
}

static bool find_device(struct rf_fence *f, unsigned card)
{
	struct rf_graph_pool *p = &f->graph[card];
	unsigned found;

	for (CUdevice dev = 0; !p->known && dev < rf_pool_devices(f); dev++) {
		if (rf_card_of(f, dev, &found) == CUDA_SUCCESS && found == card) {
			p->dev = dev;
			p->known = true;
		}
	}
	return p->known;
}

static CUresult trim(struct rf_fence *f, unsigned card)
{
	struct rf_graph_pool *p = &f->graph[card];
	uint64_t before = pool_says(p);
	CUresult r = RF_REAL(cuDeviceGraphMemTrim)(p->dev);
	uint64_t after = pool_says(p);

	/* While others launch, it may have shrunk and grown again. */
	if (before == RF_POOL_UNKNOWN || after < before || p->pending || p->riding)
		__atomic_add_fetch(&p->trims, 1, __ATOMIC_RELEASE);
	settle(f, card);
	return r;
}

bool rf_graph_squeeze(struct rf_fence *f, unsigned card)
{
	int mode;
	bool any;

	if (!enter(f))
		return false;
	any = f->graph[card].known && f->graph[card].charged > 0;
	if (any) {
		mode = rf_pool_relax();
		trim(f, card);
		rf_pool_restore(mode);
	}
	leave(f);
	return any;
}

void rf_graph_refresh(struct rf_fence *f)
{
	if (!__atomic_load_n(&f->graph_nodes, __ATOMIC_ACQUIRE) || !enter(f))
		return;
	for (unsigned i = 0; i < f->cards; i++) {
		if (f->graph[i].known)
			settle(f, i);
	}
	leave(f);
}

static CUresult reserve(struct rf_fence *f, unsigned card, uint64_t bytes)
{
	struct rf_graph_pool *p = &f->graph[card];
	CUresult r = CUDA_ERROR_NOT_SUPPORTED;

	if (!enter(f))
		return CUDA_SUCCESS;
	if (find_device(f, card))
		r = rf_reserve(f, card, bytes);
	if (r == CUDA_SUCCESS) {
		p->charged += bytes;
		p->pending += bytes;
	}
	leave(f);
	return r;
}

/* Refused only after everything idle was given back. Memory of graphs that are still running is not, and
 * nobody waits for them here. */
static CUresult reserve_or_squeeze(struct rf_fence *f, unsigned card, uint64_t bytes)
{
	CUresult r = reserve(f, card, bytes);

	if (r != CUDA_ERROR_OUT_OF_MEMORY || bytes > f->card[card].cap)
		return r;
	rf_pool_squeeze(f, card);
	return reserve(f, card, bytes);
}

/* --- launches --- */

/* A per-thread default stream is another one in each thread. */
static bool same_stream(const struct exec *x, const struct rf_graph_launch *g)
{
	bool own = (g->stream == NULL && g->per_thread) || g->stream == CU_STREAM_PER_THREAD;

	return x->launched && x->stream == g->stream && !own;
}

static bool has_memory(struct rf_fence *f, const struct exec *x, const struct rf_graph_launch *g,
		       unsigned card)
{
	return same_stream(x, g) && !__atomic_load_n(&f->graph_leaves, __ATOMIC_RELAXED) &&
	       x->trims[card] == f->graph[card].trims;
}

static bool recall(struct rf_fence *f, CUgraphExec exec, struct exec *ret)
{
	struct rf_entry *e;

	rf_table_lock(&f->table);
	e = rf_table_find(&f->table, RF_SPACE_EXEC, (uintptr_t)exec);
	if (e)
		*ret = *(struct exec *)(uintptr_t)e->owner;
	rf_table_unlock(&f->table);
	return e != NULL;
}

static void settle_launch(struct rf_graph_launch *g)
{
	struct rf_fence *f = g->fence;

	if (!enter(f))
		return;
	for (unsigned i = 0; i < f->cards; i++) {
		if (g->rides >> i & 1)
			f->graph[i].riding -= g->bytes[i];
		else
			f->graph[i].pending -= g->bytes[i];
		if ((g->cards >> i & 1) && f->graph[i].known)
			settle(f, i);
	}
	leave(f);
}

/* Needs nothing, if the memory it has is not trimmed before it is launched. */
static bool ride(struct rf_graph_launch *g, const struct exec *x, unsigned card)
{
	struct rf_fence *f = g->fence;
	bool has;

	if (!enter(f))
		return true;
	has = has_memory(f, x, g, card);
	if (has) {
		f->graph[card].riding += x->bytes[card];
		g->rides |= 1u << card;
	}
	leave(f);
	return has;
}

static CUresult hold(struct rf_graph_launch *g, const struct exec *x)
{
	struct rf_fence *f = g->fence;
	CUresult r = CUDA_SUCCESS;

	memset(g->bytes, 0, sizeof(g->bytes));
	g->cards = g->rides = 0;
	for (unsigned i = 0; r == CUDA_SUCCESS && i < f->cards; i++) {
		if (x->bytes[i] == 0)
			continue;
		g->cards |= 1u << i;
		/* A trim from now on may take what the launch is about to get. */
		g->trims[i] = __atomic_load_n(&f->graph[i].trims, __ATOMIC_ACQUIRE);
		if (!ride(g, x, i))
			r = reserve_or_squeeze(f, i, x->bytes[i]);
		if (r == CUDA_SUCCESS)
			g->bytes[i] = x->bytes[i];
	}
	if (r != CUDA_SUCCESS)
		settle_launch(g);
	return r;
}

/* Into a stream that is capturing, a graph is not launched but put into another graph. */
static bool is_captured(const struct rf_graph_launch *g)
{
	int status = 0;

	if (!rf_capturing())
		return false;
	if (g->per_thread)
		RF_REAL(cuStreamIsCapturing_ptsz)(g->stream, &status);
	else
		RF_REAL(cuStreamIsCapturing)(g->stream, &status);
	return status != 0;
}

CUresult rf_graph_before(struct rf_graph_launch *g, CUgraphExec exec, CUstream stream,
			 bool per_thread)
{
	struct rf_fence *f = rf_joined();
	struct exec x;
	CUresult r;

	g->fence = NULL;
	if (!f || inside || __atomic_load_n(&f->graph_execs, __ATOMIC_ACQUIRE) == 0 ||
	    !recall(f, exec, &x))
		return CUDA_SUCCESS;
	g->exec = exec;
	g->stream = stream;
	g->per_thread = per_thread;
	if (is_captured(g))
		return CUDA_SUCCESS;
	g->fence = f;
	r = hold(g, &x);
	if (r != CUDA_SUCCESS)
		g->fence = NULL;
	return r;
}

static void remember(const struct rf_graph_launch *g)
{
	struct rf_fence *f = g->fence;
	struct rf_entry *e;
	struct exec *x;

	rf_table_lock(&f->table);
	e = rf_table_find(&f->table, RF_SPACE_EXEC, (uintptr_t)g->exec);
	x = e ? (struct exec *)(uintptr_t)e->owner : NULL;
	if (x) {
		x->launched = true;
		x->stream = g->stream;
		for (unsigned i = 0; i < f->cards; i++) {
			if (g->cards >> i & 1)
				x->trims[i] = g->trims[i];
		}
	}
	rf_table_unlock(&f->table);
}

void rf_graph_after(struct rf_graph_launch *g, CUresult r)
{
	if (!g->fence)
		return;
	settle_launch(g);
	if (r != CUDA_SUCCESS)
		return;
	rf_pool_freed_in(g->fence, g->stream, g->per_thread);
	remember(g);
}

static CUresult upload(CUgraphExec exec, CUstream stream, bool per_thread,
		       __typeof__(&cuGraphUpload) real)
{
	struct rf_graph_launch g;
	CUresult r = rf_graph_before(&g, exec, stream, per_thread);

	if (r != CUDA_SUCCESS)
		return r;
	r = real(exec, stream);
	rf_graph_after(&g, r);
	return r;
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream)
{
	return upload(exec, stream, false, RF_REAL(cuGraphUpload));
}

CUresult cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream)
{
	return upload(exec, stream, true, RF_REAL(cuGraphUpload_ptsz));
}

/* --- executable graphs come and go --- */

/* A graph on its way to be instantiated. */
struct plan {
	struct rf_graph_launch launch; /* fence NULL: nothing is uploaded */
	struct rf_fence *fence;	       /* NULL: no allocation nodes */
	struct exec *exec;
};

/* What can never fit is refused at once. */
static CUresult check(struct rf_fence *f, const struct exec *x)
{
	for (unsigned i = 0; i < f->cards; i++) {
		if (x->bytes[i] > f->card[i].cap)
			return rf_reserve(f, i, x->bytes[i]);
	}
	return CUDA_SUCCESS;
}

static CUresult plan(struct plan *p, CUgraph graph, bool uploads, CUstream stream, bool per_thread)
{
	struct rf_fence *f = rf_join();
	CUresult r;

	*p = (struct plan){ 0 };
	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (inside)
		return CUDA_SUCCESS;
	r = measure(f, graph, &p->exec);
	if (r != CUDA_SUCCESS || !p->exec)
		return r;
	r = check(f, p->exec);
	if (r == CUDA_SUCCESS && !rf_table_room(&f->table))
		r = CUDA_ERROR_OUT_OF_MEMORY;
	if (r == CUDA_SUCCESS && uploads) {
		p->launch = (struct rf_graph_launch){ .fence = f,
						      .stream = stream,
						      .per_thread = per_thread };
		r = hold(&p->launch, p->exec);
		if (r != CUDA_SUCCESS)
			rf_table_waive(&f->table);
	}
	if (r == CUDA_SUCCESS)
		p->fence = f;
	else
		free(p->exec);
	return r;
}

/* Should the driver have taken memory although it says it does not. */
static void look(struct rf_fence *f, const struct exec *x)
{
	if (!enter(f))
		return;
	for (unsigned i = 0; i < f->cards; i++) {
		if (x->bytes[i] && find_device(f, i))
			settle(f, i);
	}
	leave(f);
}

static CUresult carry_out(struct plan *p, const CUgraphExec *exec, CUresult r)
{
	struct rf_entry e = { .space = RF_SPACE_EXEC, .owner = (uintptr_t)p->exec };

	if (!p->fence)
		return r;
	if (!p->launch.fence)
		look(p->fence, p->exec);
	if (r != CUDA_SUCCESS) {
		rf_table_waive(&p->fence->table);
		free(p->exec);
	} else {
		e.key = (uintptr_t)*exec;
		rf_table_put(&p->fence->table, &e);
		__atomic_add_fetch(&p->fence->graph_execs, 1, __ATOMIC_RELEASE);
		p->launch.exec = *exec;
	}
	rf_graph_after(&p->launch, r);
	return r;
}

CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node, char *log,
			    size_t log_size)
{
	struct plan p;
	CUresult r = plan(&p, graph, false, NULL, false);

	if (r != CUDA_SUCCESS)
		return r;
	return carry_out(&p, exec,
			 RF_REAL(cuGraphInstantiate)(exec, graph, error_node, log, log_size));
}

CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node, char *log,
			       size_t log_size)
{
	struct plan p;
	CUresult r = plan(&p, graph, false, NULL, false);

	if (r != CUDA_SUCCESS)
		return r;
	return carry_out(&p, exec,
			 RF_REAL(cuGraphInstantiate_v2)(exec, graph, error_node, log, log_size));
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
	struct plan p;
	CUresult r = plan(&p, graph, flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD, NULL, true);

	if (r != CUDA_SUCCESS)
		return r;
	return carry_out(&p, exec, RF_REAL(cuGraphInstantiateWithFlags)(exec, graph, flags));
}

static CUresult with_params(CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params,
			    bool per_thread, __typeof__(&cuGraphInstantiateWithParams) real)
{
	bool uploads = params && (params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD);
	struct plan p;
	CUresult r = plan(&p, graph, uploads, uploads ? params->hUploadStream : NULL, per_thread);

	return r == CUDA_SUCCESS ? carry_out(&p, exec, real(exec, graph, params)) : r;
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph,
				      CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	return with_params(exec, graph, params, false, RF_REAL(cuGraphInstantiateWithParams));
}

CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *exec, CUgraph graph,
					   CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	return with_params(exec, graph, params, true, RF_REAL(cuGraphInstantiateWithParams_ptsz));
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
	struct rf_fence *f = rf_join();
	struct rf_entry e;
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (__atomic_load_n(&f->graph_execs, __ATOMIC_ACQUIRE) == 0 ||
	    !rf_table_take(&f->table, RF_SPACE_EXEC, (uintptr_t)exec, &e))
		return RF_REAL(cuGraphExecDestroy)(exec);
	r = RF_REAL(cuGraphExecDestroy)(exec);
	if (r != CUDA_SUCCESS) {
		rf_table_put(&f->table, &e);
		return r;
	}
	rf_table_waive(&f->table);
	free((struct exec *)(uintptr_t)e.owner);
	__atomic_sub_fetch(&f->graph_execs, 1, __ATOMIC_RELEASE);
	rf_graph_refresh(f);
	return r;
}

CUresult cuDeviceGraphMemTrim(CUdevice dev)
{
	struct rf_fence *f = rf_join();
	unsigned card;
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (rf_card_of(f, dev, &card) != CUDA_SUCCESS || !enter(f))
		return RF_REAL(cuDeviceGraphMemTrim)(dev);
	r = find_device(f, card) ? trim(f, card) : RF_REAL(cuDeviceGraphMemTrim)(dev);
	leave(f);
	return r;
}

/* --- nodes --- */

static CUresult check_alloc(const CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	struct rf_fence *f = rf_join();
	CUresult r;
	int card;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	r = params ? rf_pool_card(f, &params->poolProps, &card) : CUDA_SUCCESS;
	if (r == CUDA_SUCCESS)
		rf_graph_expect(f);
	return r;
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n,
				CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	CUresult r = check_alloc(params);

	return r == CUDA_SUCCESS ? RF_REAL(cuGraphAddMemAllocNode)(node, graph, deps, n, params)
				 : r;
}

static CUresult check_node(const struct rf_graph_node_params *params)
{
	if (!params || params->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		return rf_join() ? CUDA_SUCCESS : CUDA_ERROR_NOT_PERMITTED;
	return check_alloc(&params->alloc);
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

CUresult cuGraphAddNode_v3(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
			   const void *edges, size_t n, struct rf_graph_node_params *params)
{
	CUresult r = check_node(params);

	return r == CUDA_SUCCESS ? RF_REAL(cuGraphAddNode_v3)(node, graph, deps, edges, n, params)
				 : r;
}
