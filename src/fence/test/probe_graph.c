/* A program inside a fence of 256 MiB whose graphs allocate; see ../test_fence_graph.c. */
#include <pthread.h>

#include "fence/test/probe.h"

#define CAP (256 * MIB)
#define ONE ((CUstream)(uintptr_t)0x1000)
#define TWO ((CUstream)(uintptr_t)0x2000)

static CUDA_MEM_ALLOC_NODE_PARAMS of_size(uint64_t bytes)
{
	return (CUDA_MEM_ALLOC_NODE_PARAMS){
		.poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			       .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } },
		.bytesize = bytes
	};
}

/* A graph that allocates and frees bytes, n times one after the other. */
static CUgraph graph_of(uint64_t bytes, int n)
{
	CUgraphNode node;
	CUgraph graph;

	CHECK(cuGraphCreate(&graph, 0) == CUDA_SUCCESS);
	for (int i = 0; i < n; i++) {
		CUDA_MEM_ALLOC_NODE_PARAMS p = of_size(bytes);

		CHECK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &p) == CUDA_SUCCESS);
		CHECK(cuGraphAddMemFreeNode(&node, graph, NULL, 0, p.dptr) == CUDA_SUCCESS);
	}
	return graph;
}

static CUgraphExec exec_of(CUgraph graph)
{
	CUgraphExec exec;

	CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS);
	return exec;
}

static void trim(void)
{
	CHECK(cuDeviceGraphMemTrim(0) == CUDA_SUCCESS);
}

/* Every way to make a node ends at the cap, to the byte, and at zero. */
static CUgraph by_way(const char *way, uint64_t bytes)
{
	struct rf_graph_node_params any = { .type = CU_GRAPH_NODE_TYPE_MEM_ALLOC,
					    .alloc = of_size(bytes) };
	CUgraph graph, outer;
	CUgraphNode node;
	CUdeviceptr p;

	CHECK(cuGraphCreate(&graph, 0) == CUDA_SUCCESS);
	if (strcmp(way, "node") == 0)
		return graph_of(bytes, 1);
	if (strcmp(way, "any-node") == 0) {
		CHECK(cuGraphAddNode(&node, graph, NULL, 0, &any) == CUDA_SUCCESS);
		CHECK(cuGraphAddMemFreeNode(&node, graph, NULL, 0, any.alloc.dptr) == CUDA_SUCCESS);
		return graph;
	}
	if (strcmp(way, "any-node-v2") == 0) {
		CHECK(cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &any) == CUDA_SUCCESS);
		CHECK(cuGraphAddMemFreeNode(&node, graph, NULL, 0, any.alloc.dptr) == CUDA_SUCCESS);
		return graph;
	}
	if (strcmp(way, "any-node-v3") == 0) {
		CHECK(cuGraphAddNode_v3(&node, graph, NULL, NULL, 0, &any) == CUDA_SUCCESS);
		CHECK(cuGraphAddMemFreeNode(&node, graph, NULL, 0, any.alloc.dptr) == CUDA_SUCCESS);
		return graph;
	}
	if (strcmp(way, "child") == 0) {
		CHECK(cuGraphAddChildGraphNode(&node, graph, NULL, 0, graph_of(bytes, 1)) ==
		      CUDA_SUCCESS);
		CHECK(cuGraphCreate(&outer, 0) == CUDA_SUCCESS);
		CHECK(cuGraphAddChildGraphNode(&node, outer, NULL, 0, graph) == CUDA_SUCCESS);
		return outer;
	}
	CHECK(strcmp(way, "captured") == 0);
	CHECK(cuStreamBeginCapture_v2(ONE, 0) == CUDA_SUCCESS);
	CHECK(cuMemAllocAsync(&p, bytes, ONE) == CUDA_SUCCESS);
	CHECK(cuMemFreeAsync(p, ONE) == CUDA_SUCCESS);
	CHECK(cuStreamEndCapture(ONE, &graph) == CUDA_SUCCESS);
	return graph;
}

static void way(const char *name)
{
	CUgraphExec small, large, exec;
	CUdeviceptr p;

	context(0);
	small = exec_of(by_way(name, 100 * MIB));
	large = exec_of(by_way(name, 156 * MIB));
	CHECK(fake_live(0) == 0 && charged() == 0); /* no memory before the launch */
	CHECK(cuGraphInstantiateWithFlags(&exec, by_way(name, CAP + 1), 0) ==
	      CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(cuGraphLaunch(small, ONE) == CUDA_SUCCESS);
	CHECK(fake_live(0) == 100 * MIB && charged() == 100 * MIB);
	CHECK(cuGraphLaunch(large, TWO) == CUDA_SUCCESS);
	CHECK(fake_live(0) == CAP && charged() == CAP);
	for (int i = 0; i < 100; i++) { /* has its memory already */
		CHECK(cuGraphLaunch(small, ONE) == CUDA_SUCCESS);
		CHECK(cuGraphLaunch_ptsz(large, TWO) == CUDA_SUCCESS);
	}
	CHECK(fake_graph_trims() == 0);
	CHECK(cuMemAlloc_v2(&p, 200 * MIB) == CUDA_SUCCESS); /* idle graphs give back */
	CHECK(fake_live(0) == 200 * MIB && charged() == 200 * MIB);
	CHECK(cuGraphLaunch(small, ONE) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(cuGraphUpload(small, ONE) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(fake_live(0) == 200 * MIB && charged() == 200 * MIB);
	CHECK(cuMemFree_v2(p) == CUDA_SUCCESS);
	CHECK(cuGraphUpload_ptsz(small, ONE) == CUDA_SUCCESS && charged() == 100 * MIB);
	CHECK(cuGraphExecDestroy(small) == CUDA_SUCCESS &&
	      cuGraphExecDestroy(large) == CUDA_SUCCESS);
	CHECK(left() == CAP - fake_live(0) && fake_live(0) == 100 * MIB); /* kept by the driver */
	trim();
	CHECK(left() == CAP && fake_live(0) == 0 && charged() == 0);
}

/* What lies at the same address counts once, not as often as there are nodes. */
static void reused(const char *unused)
{
	CUgraphExec exec;

	context(0);
	exec = exec_of(graph_of(200 * MIB, 50));
	CHECK(cuGraphLaunch(exec, ONE) == CUDA_SUCCESS);
	CHECK(fake_live(0) == 200 * MIB && charged() == 200 * MIB);
	CHECK(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
	trim();
	CHECK(charged() == 0);
}

static void all_instantiations(const char *unused)
{
	CUDA_GRAPH_INSTANTIATE_PARAMS plain = { 0 };
	CUDA_GRAPH_INSTANTIATE_PARAMS up = { .flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD,
					     .hUploadStream = ONE };
	CUgraph graph, big;
	CUgraphExec x[6];
	CUdeviceptr p;

	context(0);
	graph = graph_of(40 * MIB, 1);
	big = graph_of(CAP + 1, 1);
	CHECK(cuGraphInstantiate(&x[0], graph, NULL, NULL, 0) == CUDA_SUCCESS);
	CHECK(cuGraphInstantiate_v2(&x[1], graph, NULL, NULL, 0) == CUDA_SUCCESS);
	CHECK(cuGraphInstantiateWithFlags(&x[2], graph, 0) == CUDA_SUCCESS);
	CHECK(cuGraphInstantiateWithParams(&x[3], graph, &plain) == CUDA_SUCCESS);
	CHECK(cuGraphInstantiateWithParams_ptsz(&x[4], graph, &plain) == CUDA_SUCCESS);
	CHECK(cuGraphInstantiate(&x[5], big, NULL, NULL, 0) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(cuGraphInstantiate_v2(&x[5], big, NULL, NULL, 0) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(cuGraphInstantiateWithParams(&x[5], big, &plain) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(cuGraphInstantiateWithParams_ptsz(&x[5], big, &up) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(charged() == 0);
	CHECK(cuMemAlloc_v2(&p, 220 * MIB) == CUDA_SUCCESS);
	CHECK(cuGraphInstantiateWithParams(&x[5], graph, &up) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(charged() == 220 * MIB);
	CHECK(cuMemFree_v2(p) == CUDA_SUCCESS);
	CHECK(cuGraphInstantiateWithParams(&x[5], graph, &up) == CUDA_SUCCESS);
	CHECK(charged() == 40 * MIB && fake_live(0) == 40 * MIB);
	for (int i = 0; i < 6; i++) {
		CHECK(cuGraphLaunch(x[i], ONE) == CUDA_SUCCESS);
		CHECK(charged() == fake_live(0));
		CHECK(cuGraphExecDestroy(x[i]) == CUDA_SUCCESS);
	}
	trim();
	CHECK(charged() == 0 && left() == CAP);
}

static void failures(const char *unused)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params = of_size(MIB), odd = of_size(MIB);
	CUDA_GRAPH_INSTANTIATE_PARAMS up = { .flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD };
	CUgraphExec exec, other;
	CUgraphNode node;
	CUgraph graph;

	context(0);
	graph = graph_of(100 * MIB, 1);
	exec = exec_of(graph);
#define FAILS(call)                                                                                \
	do {                                                                                       \
		fake_fail_next(CUDA_ERROR_LAUNCH_FAILED);                                          \
		CHECK((call) == CUDA_ERROR_LAUNCH_FAILED);                                         \
		CHECK(charged() == fake_live(0));                                                  \
	} while (0)
	FAILS(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
	FAILS(cuGraphInstantiate(&other, graph, NULL, NULL, 0));
	FAILS(cuGraphInstantiateWithParams(&other, graph, &up));
	FAILS(cuGraphLaunch(exec, ONE));
	FAILS(cuGraphUpload(exec, ONE));
	CHECK(cuGraphLaunch(exec, ONE) == CUDA_SUCCESS && charged() == 100 * MIB);
	FAILS(cuGraphLaunch(exec, ONE));
	FAILS(cuGraphExecDestroy(exec));
	CHECK(cuGraphLaunch(exec, ONE) == CUDA_SUCCESS && charged() == 100 * MIB);
	CHECK(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
	trim();
	CHECK(charged() == 0 && left() == CAP);
	odd.poolProps.allocType = RF_CU_MEM_ALLOCATION_TYPE_MANAGED;
	CHECK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &odd) == CUDA_ERROR_NOT_SUPPORTED);
	odd = of_size(MIB);
	odd.poolProps.location.id = 5;
	CHECK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &odd) != CUDA_SUCCESS);
}

/* A graph leaves an allocation behind, and the program frees it. */
static void left_behind(const char *how)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params = of_size(100 * MIB);
	CUgraphExec exec, other;
	CUgraphNode node;
	CUgraph graph;
	CUdeviceptr p;

	context(0);
	CHECK(cuGraphCreate(&graph, 0) == CUDA_SUCCESS);
	CHECK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params) == CUDA_SUCCESS);
	exec = exec_of(graph);
	other = exec_of(graph_of(156 * MIB, 1));
	CHECK(cuGraphLaunch(exec, ONE) == CUDA_SUCCESS);
	for (int i = 0; i < 3; i++) /* room is found by trimming its own */
		CHECK(cuGraphLaunch(other, ONE) == CUDA_SUCCESS && charged() == CAP);
	CHECK(cuMemAlloc_v2(&p, 157 * MIB) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(fake_live(0) == 100 * MIB && charged() == 100 * MIB); /* in use: not trimmed */
	if (strcmp(how, "async") == 0)
		CHECK(cuMemFreeAsync(params.dptr, ONE) == CUDA_SUCCESS);
	else
		CHECK(cuMemFree_v2(params.dptr) == CUDA_SUCCESS);
	CHECK(cuMemAlloc_v2(&p, CAP) == CUDA_SUCCESS && charged() == CAP && fake_live(0) == CAP);
	CHECK(cuMemFree_v2(p) == CUDA_SUCCESS);
	CHECK(charged() == 0);
}

/* Captures do not touch the books of pools and plain memory. */
static void captured(const char *unused)
{
	CUdeviceptr pooled, node, after;
	CUgraph graph;

	context(0);
	CHECK(cuMemAllocAsync(&pooled, MIB, TWO) == CUDA_SUCCESS);
	CHECK(charged() == FAKE_POOL_STEP);
	CHECK(cuStreamBeginCapture_v2(ONE, 0) == CUDA_SUCCESS);
	CHECK(cuMemAllocAsync(&node, 100 * MIB, ONE) == CUDA_SUCCESS);
	CHECK(cuMemAllocFromPoolAsync(&node, 1, (CUmemoryPool)&graph, ONE) ==
	      CUDA_ERROR_NOT_SUPPORTED);
	CHECK(cuMemFreeAsync(pooled, ONE) == CUDA_SUCCESS);
	CHECK(cuMemAllocAsync(&after, MIB, TWO) == CUDA_SUCCESS); /* beside the capture */
	CHECK(cuStreamEndCapture(ONE, &graph) == CUDA_SUCCESS);
	CHECK(charged() == FAKE_POOL_STEP && fake_live(0) == FAKE_POOL_STEP);
	CHECK(cuMemFreeAsync(pooled, TWO) == CUDA_SUCCESS);
	CHECK(cuMemFreeAsync(after, TWO) == CUDA_SUCCESS);
	CHECK(charged() == FAKE_POOL_STEP);
}

static void *launch_one(void *exec)
{
	CUcontext ctx;

	CHECK(cuCtxCreate_v2(&ctx, 0, 0) == CUDA_SUCCESS);
	for (int i = 0; i < 300; i++) {
		CUresult r = cuGraphLaunch(exec, (CUstream)exec);

		CHECK(r == CUDA_SUCCESS || r == CUDA_ERROR_OUT_OF_MEMORY);
		CHECK(charged() <= CAP);
	}
	return NULL;
}

static void threads(const char *unused)
{
	CUgraphExec exec[4];
	pthread_t t[4];

	context(0);
	for (int i = 0; i < 4; i++)
		exec[i] = exec_of(graph_of(80 * MIB, 1)); /* not all at once */
	for (int i = 0; i < 4; i++)
		CHECK(pthread_create(&t[i], NULL, launch_one, exec[i]) == 0);
	for (int i = 0; i < 4; i++)
		CHECK(pthread_join(t[i], NULL) == 0);
	trim();
	CHECK(charged() == 0 && fake_live(0) == 0);
}

static const struct scenario scenarios[] = {
	{ "way", way },
	{ "reused", reused },
	{ "instantiations", all_instantiations },
	{ "failures", failures },
	{ "left-behind", left_behind },
	{ "captured", captured },
	{ "threads", threads },
};

int main(int argc, char **argv)
{
	return play(scenarios, sizeof(scenarios) / sizeof(scenarios[0]), argc, argv);
}
