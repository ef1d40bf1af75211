/* Graphs and captures: what runs, what it takes, what it keeps, and what spoils a capture. */
#include "sim/test_sim.h"

#include <pthread.h>

#include "sim/cuda_graph.h"

static size_t free_now(void)
{
	size_t free_bytes, total;

	need_is(CU(cuMemGetInfo_v2)(&free_bytes, &total), CUDA_SUCCESS);
	return free_bytes;
}

static uint64_t graph_mem(int attribute)
{
	uint64_t value = UINT64_MAX;

	need_is(CU(cuDeviceGetGraphMemAttribute)(0, attribute, &value), CUDA_SUCCESS);
	return value;
}

static CUstream new_stream(unsigned flags)
{
	CUstream s = NULL;

	need_is(CU(cuStreamCreate)(&s, flags), CUDA_SUCCESS);
	return s;
}

static CUevent new_event(void)
{
	CUevent e = NULL;

	need_is(CU(cuEventCreate)(&e, 0), CUDA_SUCCESS);
	return e;
}

static CUresult launch(CUfunction fn, CUstream stream)
{
	return CU(cuLaunchKernel)(fn, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL);
}

static int status_of(CUstream stream)
{
	int status = -1;

	need_is(CU(cuStreamIsCapturing)(stream, &status), CUDA_SUCCESS);
	return status;
}

static size_t count_nodes(CUgraph g)
{
	size_t n = 0;

	need_is(CU(cuGraphGetNodes)(g, NULL, &n), CUDA_SUCCESS);
	return n;
}

static int type_of(CUgraph g, size_t i)
{
	CUgraphNode nodes[16];
	size_t n = RF_COUNT(nodes);
	int type = -1;

	need_is(CU(cuGraphGetNodes)(g, nodes, &n), CUDA_SUCCESS);
	need(i < n);
	need_is(CU(cuGraphNodeGetType)(nodes[i], &type), CUDA_SUCCESS);
	return type;
}

static void in_child(void (*run)(void), const char *spec)
{
	struct machine m;
	struct child c;

	machine_up(&m, spec, true);
	c = child_start(run);
	child_ends_well(&c);
	machine_down(&m);
}

/* --- graphs made by hand --- */

static CUDA_KERNEL_NODE_PARAMS_v2 kernel_params(CUfunction fn)
{
	return (CUDA_KERNEL_NODE_PARAMS_v2){ .func = fn,
					     .gridDimX = 1,
					     .gridDimY = 1,
					     .gridDimZ = 1,
					     .blockDimX = 32,
					     .blockDimY = 1,
					     .blockDimZ = 1 };
}

static int host_calls;

static void on_host(void *data)
{
	host_calls += *(int *)data;
}

static float timed_launch(CUgraphExec exec)
{
	CUevent a = new_event(), b = new_event();
	float ms = 0;

	need_is(CU(cuEventRecord)(a, NULL), CUDA_SUCCESS);
	need_is(CU(cuGraphLaunch)(exec, NULL), CUDA_SUCCESS);
	need_is(CU(cuEventRecord)(b, NULL), CUDA_SUCCESS);
	need_is(CU(cuEventSynchronize)(b), CUDA_SUCCESS);
	need_is(CU(cuEventElapsedTime)(&ms, a, b), CUDA_SUCCESS);
	need_is(CU(cuEventDestroy_v2)(a), CUDA_SUCCESS);
	need_is(CU(cuEventDestroy_v2)(b), CUDA_SUCCESS);
	return ms;
}

static void by_hand(void)
{
	CUDA_KERNEL_NODE_PARAMS_v2 k;
	struct rf_graph_node_params any = { .type = CU_GRAPH_NODE_TYPE_KERNEL };
	CUDA_MEMSET_NODE_PARAMS fill = {
		.value = 0xabad1dea, .elementSize = 4, .width = 256, .height = 1
	};
	CUDA_MEMCPY3D back = { .srcMemoryType = CU_MEMORYTYPE_DEVICE,
			       .dstMemoryType = CU_MEMORYTYPE_HOST,
			       .WidthInBytes = 1024,
			       .Height = 1,
			       .Depth = 1 };
	CUgraphNode kernel, set, copy, host, empty, again, child_node;
	CUDA_HOST_NODE_PARAMS call;
	CUgraph g, child, clone;
	unsigned words[256] = { 0 };
	CUgraphExec exec;
	CUdeviceptr p;
	int three = 3;
	size_t n = 0;
	float ms;

	child_context(0);
	k = kernel_params(child_kernel(1000000));
	need_is(CU(cuMemAlloc_v2)(&p, 1024), CUDA_SUCCESS);
	need_is(CU(cuGraphCreate)(&g, 0), CUDA_SUCCESS);
	need_is(CU(cuGraphAddKernelNode_v2)(&kernel, g, NULL, 0, &k), CUDA_SUCCESS);
	any.kernel = k;
	need_is(CU(cuGraphAddNode_v2)(&again, g, &kernel, NULL, 1, &any), CUDA_SUCCESS);
	fill.dst = p;
	need_is(CU(cuGraphAddMemsetNode)(&set, g, &again, 1, &fill, NULL), CUDA_SUCCESS);
	back.srcDevice = p;
	back.dstHost = words;
	need_is(CU(cuGraphAddMemcpyNode)(&copy, g, &set, 1, &back, NULL), CUDA_SUCCESS);
	call = (CUDA_HOST_NODE_PARAMS){ on_host, &three };
	need_is(CU(cuGraphAddHostNode)(&host, g, &copy, 1, &call), CUDA_SUCCESS);
	need_is(CU(cuGraphAddEmptyNode)(&empty, g, NULL, 0), CUDA_SUCCESS);
	need_is(CU(cuGraphAddDependencies)(g, &host, &empty, 1), CUDA_SUCCESS);
	need_is(count_nodes(g), 6);
	need_is(type_of(g, 1), CU_GRAPH_NODE_TYPE_KERNEL);
	need_is(type_of(g, 5), CU_GRAPH_NODE_TYPE_EMPTY);
	need_is(CU(cuGraphGetEdges)(g, NULL, NULL, &n), CUDA_SUCCESS);
	need_is(n, 5);
	n = 0;
	need_is(CU(cuGraphGetRootNodes)(g, NULL, &n), CUDA_SUCCESS);
	need_is(n, 1);

	need_is(CU(cuGraphInstantiateWithFlags)(&exec, g, 0), CUDA_SUCCESS);
	need_is(host_calls, 0); /* nothing runs before a launch */
	need_is(words[0], 0);
	ms = timed_launch(exec);
	need(ms > 2.0f && ms < 2.1f); /* both kernels, one after the other */
	need_is(host_calls, 3);
	need_is(words[0], 0xabad1dea);
	need_is(words[255], 0xabad1dea);

	/* A child runs in its parent's place; the clone has a life of its own. */
	need_is(CU(cuGraphClone)(&clone, g), CUDA_SUCCESS);
	need_is(count_nodes(clone), 6);
	need_is(CU(cuGraphExecDestroy)(exec), CUDA_SUCCESS);
	need_is(CU(cuGraphDestroy)(g), CUDA_SUCCESS);
	need_is(CU(cuGraphCreate)(&g, 0), CUDA_SUCCESS);
	need_is(CU(cuGraphAddChildGraphNode)(&child_node, g, NULL, 0, clone), CUDA_SUCCESS);
	need_is(CU(cuGraphAddChildGraphNode)(&again, g, &child_node, 1, clone), CUDA_SUCCESS);
	need_is(CU(cuGraphChildGraphNodeGetGraph)(again, &child), CUDA_SUCCESS);
	need_is(count_nodes(child), 6);
	need_is(CU(cuGraphDestroy)(child), CUDA_ERROR_INVALID_VALUE); /* its parent's */
	need_is(CU(cuGraphDestroy)(clone), CUDA_SUCCESS);
	need_is(CU(cuGraphInstantiate_v2)(&exec, g, NULL, NULL, 0), CUDA_SUCCESS);
	ms = timed_launch(exec);
	need(ms > 4.0f && ms < 4.1f);
	need_is(host_calls, 9);
	need_is(CU(cuGraphExecDestroy)(exec), CUDA_SUCCESS);
	need_is(CU(cuGraphDestroy)(g), CUDA_SUCCESS);

	/* What cannot be. */
	need_is(CU(cuGraphCreate)(&g, 0), CUDA_SUCCESS);
	need_is(CU(cuGraphAddEmptyNode)(&empty, g, NULL, 0), CUDA_SUCCESS);
	need_is(CU(cuGraphAddEmptyNode)(&again, g, &empty, 1), CUDA_SUCCESS);
	need_is(CU(cuGraphAddDependencies)(g, &again, &empty, 1), CUDA_SUCCESS);
	need_is(CU(cuGraphInstantiateWithFlags)(&exec, g, 0),
		CUDA_ERROR_INVALID_VALUE); /* a ring */
	any.type = 13;
	need_is(CU(cuGraphAddNode)(&again, g, NULL, 0, &any), CUDA_ERROR_NOT_SUPPORTED);
	need_is(CU(cuGraphDestroy)(g), CUDA_SUCCESS);
	need_is(CU(cuGraphLaunch)(NULL, NULL), CUDA_ERROR_INVALID_VALUE);
}

static void a_graph_runs_its_nodes_one_after_another(void **state)
{
	in_child(by_hand, "1xH200");
}

static void update(void)
{
	CUDA_KERNEL_NODE_PARAMS_v2 fast, slow;
	CUgraphExecUpdateResultInfo info;
	CUgraphNode a, b;
	CUgraph g, other;
	CUgraphExec exec;
	float ms;

	child_context(0);
	fast = kernel_params(child_kernel(1000000));
	slow = kernel_params(child_kernel(7000000));
	need_is(CU(cuGraphCreate)(&g, 0), CUDA_SUCCESS);
	need_is(CU(cuGraphAddKernelNode_v2)(&a, g, NULL, 0, &fast), CUDA_SUCCESS);
	need_is(CU(cuGraphInstantiateWithFlags)(&exec, g, 0), CUDA_SUCCESS);
	need_is(CU(cuGraphCreate)(&other, 0), CUDA_SUCCESS);
	need_is(CU(cuGraphAddKernelNode_v2)(&b, other, NULL, 0, &slow), CUDA_SUCCESS);
	need_is(CU(cuGraphExecUpdate_v2)(exec, other, &info), CUDA_SUCCESS);
	ms = timed_launch(exec);
	need(ms > 7.0f && ms < 7.1f);
	need_is(CU(cuGraphExecKernelNodeSetParams_v2)(exec, a, &fast), CUDA_SUCCESS);
	ms = timed_launch(exec);
	need(ms > 1.0f && ms < 1.1f);
	need_is(CU(cuGraphAddEmptyNode)(&b, other, &b, 1), CUDA_SUCCESS);
	need_is(CU(cuGraphExecUpdate_v2)(exec, other, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
	need_is(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
	need_is(CU(cuGraphExecDestroy)(exec), CUDA_SUCCESS);
	need_is(CU(cuGraphDestroy)(g), CUDA_SUCCESS);
	need_is(CU(cuGraphDestroy)(other), CUDA_SUCCESS);
}

static void an_executable_graph_can_be_changed(void **state)
{
	in_child(update, "1xH200");
}

/* --- memory of graphs --- */

static CUDA_MEM_ALLOC_NODE_PARAMS alloc_params(size_t bytes)
{
	CUDA_MEM_ALLOC_NODE_PARAMS p = { .bytesize = bytes };

	p.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	p.poolProps.location = (CUmemLocation){ CU_MEM_LOCATION_TYPE_DEVICE, 0 };
	return p;
}

static void graph_memory(void)
{
	CUDA_MEM_ALLOC_NODE_PARAMS p = alloc_params(100 * MIB), got;
	CUgraphNode alloc, gone;
	CUgraphExec exec, second;
	CUgraph g, clone;
	size_t before;
	uint64_t zero = 0;

	child_context(0);
	before = free_now();
	need_is(CU(cuGraphCreate)(&g, 0), CUDA_SUCCESS);
	need_is(CU(cuGraphAddMemAllocNode)(&alloc, g, NULL, 0, &p), CUDA_SUCCESS);
	need(p.dptr != 0);
	need_is(CU(cuGraphMemAllocNodeGetParams)(alloc, &got), CUDA_SUCCESS);
	need_is(got.dptr, p.dptr);
	need_is(got.bytesize, 100 * MIB);
	need_is(CU(cuGraphInstantiateWithFlags)(&exec, g, 0), CUDA_SUCCESS);
	need_is(CU(cuGraphInstantiateWithFlags)(&second, g, 0), CUDA_ERROR_NOT_SUPPORTED);
	need_is(CU(cuGraphClone)(&clone, g), CUDA_ERROR_NOT_SUPPORTED);
	need_is(free_now(), before); /* an address, no memory yet */
	need_is(CU(cuMemsetD8_v2)(p.dptr, 1, 16), CUDA_ERROR_INVALID_VALUE);

	need_is(CU(cuGraphLaunch)(exec, NULL), CUDA_SUCCESS);
	need_is(before - free_now(), 100 * MIB);
	need_is(graph_mem(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 100 * MIB);
	need_is(graph_mem(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 100 * MIB);
	need_is(CU(cuMemsetD8_v2)(p.dptr, 1, 16), CUDA_SUCCESS);
	need_is(CU(cuGraphLaunch)(exec, NULL), CUDA_ERROR_INVALID_VALUE); /* still allocated */
	need_is(CU(cuMemFreeAsync)(p.dptr, NULL), CUDA_SUCCESS);
	need_is(CU(cuMemFreeAsync)(p.dptr, NULL), CUDA_ERROR_INVALID_VALUE);
	need_is(graph_mem(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0);
	need_is(before - free_now(), 100 * MIB); /* kept */
	need_is(CU(cuCtxSynchronize)(), CUDA_SUCCESS);
	need_is(before - free_now(), 100 * MIB);
	need_is(CU(cuDeviceGraphMemTrim)(0), CUDA_SUCCESS);
	need_is(free_now(), before);
	need_is(graph_mem(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 0);
	need_is(graph_mem(CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH), 100 * MIB);
	need_is(CU(cuDeviceSetGraphMemAttribute)(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH, &zero),
		CUDA_SUCCESS);
	need_is(graph_mem(CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH), 0);

	/* What a graph allocated outlives it, until it is freed. */
	need_is(CU(cuGraphLaunch)(exec, NULL), CUDA_SUCCESS);
	need_is(CU(cuGraphExecDestroy)(exec), CUDA_SUCCESS);
	need_is(CU(cuGraphDestroy)(g), CUDA_SUCCESS);
	need_is(CU(cuMemsetD8_v2)(p.dptr, 1, 16), CUDA_SUCCESS);
	need_is(CU(cuMemFree_v2)(p.dptr), CUDA_SUCCESS);
	need_is(CU(cuDeviceGraphMemTrim)(0), CUDA_SUCCESS);
	need_is(free_now(), before);

	/* A graph that frees what it allocates takes it once, however often it runs. */
	p = alloc_params(64 * MIB);
	need_is(CU(cuGraphCreate)(&g, 0), CUDA_SUCCESS);
	need_is(CU(cuGraphAddMemAllocNode)(&alloc, g, NULL, 0, &p), CUDA_SUCCESS);
	need_is(CU(cuGraphAddMemFreeNode)(&gone, g, &alloc, 1, p.dptr), CUDA_SUCCESS);
	need_is(CU(cuGraphInstantiateWithFlags)(&exec, g, 0), CUDA_SUCCESS);
	for (int i = 0; i < 3; i++)
		need_is(CU(cuGraphLaunch)(exec, NULL), CUDA_SUCCESS);
	need_is(graph_mem(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0);
	need_is(before - free_now(), 64 * MIB);
	need_is(CU(cuGraphExecDestroy)(exec), CUDA_SUCCESS);
	need_is(CU(cuGraphDestroy)(g), CUDA_SUCCESS);
	need_is(before - free_now(), 64 * MIB);
	need_is(CU(cuDeviceGraphMemTrim)(0), CUDA_SUCCESS);

	/* More than there is. */
	p = alloc_params(200 * GIB);
	need_is(CU(cuGraphCreate)(&g, 0), CUDA_SUCCESS);
	need_is(CU(cuGraphAddMemAllocNode)(&alloc, g, NULL, 0, &p), CUDA_SUCCESS);
	need_is(CU(cuGraphInstantiateWithFlags)(&exec, g,
						CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH),
		CUDA_SUCCESS);
	need_is(CU(cuGraphUpload)(exec, NULL), CUDA_ERROR_OUT_OF_MEMORY);
	need_is(CU(cuGraphLaunch)(exec, NULL), CUDA_ERROR_OUT_OF_MEMORY);
	need_is(free_now(), before);
	need_is(CU(cuGraphExecDestroy)(exec), CUDA_SUCCESS);
	need_is(CU(cuGraphDestroy)(g), CUDA_SUCCESS);
}

static void graph_memory_comes_with_the_launch_and_stays_until_trimmed(void **state)
{
	in_child(graph_memory, "1xH200");
}

/* --- capture --- */

static void capture_all_kinds(void)
{
	CUstream s, t;
	CUevent fork, join;
	CUdeviceptr p, inside;
	cuuint64_t id = 0;
	const CUgraphNode *deps = NULL;
	CUgraph g = NULL, building = NULL;
	CUgraphExec exec;
	CUfunction fn;
	int status = -1, one = 1;
	size_t n = 0, before;
	float ms;

	child_context(0);
	fn = child_kernel(1000000);
	s = new_stream(CU_STREAM_NON_BLOCKING);
	t = new_stream(CU_STREAM_NON_BLOCKING);
	fork = new_event();
	join = new_event();
	need_is(CU(cuMemAlloc_v2)(&p, 4096), CUDA_SUCCESS);
	before = free_now();
	host_calls = 0;

	need_is(CU(cuStreamBeginCapture_v2)(s, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
	need_is(CU(cuStreamBeginCapture_v2)(s, 0), CUDA_ERROR_ILLEGAL_STATE);
	need_is(status_of(s), CU_STREAM_CAPTURE_STATUS_ACTIVE);
	need_is(status_of(t), CU_STREAM_CAPTURE_STATUS_NONE);
	need_is(launch(fn, s), CUDA_SUCCESS);
	need_is(CU(cuEventRecord)(fork, s), CUDA_SUCCESS);
	need_is(CU(cuStreamWaitEvent)(t, fork, 0), CUDA_SUCCESS);
	need_is(status_of(t), CU_STREAM_CAPTURE_STATUS_ACTIVE);
	need_is(CU(cuMemsetD8Async)(p, 7, 4096, t), CUDA_SUCCESS);
	need_is(CU(cuMemAllocAsync)(&inside, 8 * MIB, s), CUDA_SUCCESS);
	need_is(CU(cuMemsetD32Async)(inside, 9, 16, s), CUDA_SUCCESS);
	need_is(CU(cuMemcpyDtoDAsync_v2)(p, inside, 64, s), CUDA_SUCCESS);
	need_is(CU(cuMemFreeAsync)(inside, s), CUDA_SUCCESS);
	need_is(CU(cuLaunchHostFunc)(s, on_host, &one), CUDA_SUCCESS);
	need_is(CU(cuEventRecord)(join, t), CUDA_SUCCESS);
	need_is(CU(cuStreamWaitEvent)(s, join, 0), CUDA_SUCCESS);
	need_is(launch(fn, s), CUDA_SUCCESS);
	need_is(CU(cuStreamGetCaptureInfo_v2)(s, &status, &id, &building, &deps, &n), CUDA_SUCCESS);
	need_is(n, 1);
	need(id != 0 && building != NULL && deps != NULL);
	need_is(CU(cuStreamEndCapture)(t, &g), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
	/* That spoilt it: once more, without the mistake. */
	need_is(status_of(s), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
	need_is(launch(fn, s), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	need_is(CU(cuStreamEndCapture)(s, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	need(g == NULL);
	need_is(status_of(t), CU_STREAM_CAPTURE_STATUS_NONE);
	need_is(CU(cuStreamEndCapture)(s, &g), CUDA_ERROR_ILLEGAL_STATE);

	need_is(CU(cuStreamBeginCapture_v2)(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
	need_is(launch(fn, s), CUDA_SUCCESS);
	need_is(CU(cuEventRecord)(fork, s), CUDA_SUCCESS);
	need_is(CU(cuStreamWaitEvent)(t, fork, 0), CUDA_SUCCESS);
	need_is(CU(cuMemsetD8Async)(p, 7, 4096, t), CUDA_SUCCESS);
	need_is(CU(cuMemAllocAsync)(&inside, 8 * MIB, s), CUDA_SUCCESS);
	need_is(CU(cuMemsetD32Async)(inside, 9, 16, s), CUDA_SUCCESS);
	need_is(CU(cuMemFreeAsync)(inside, s), CUDA_SUCCESS);
	need_is(CU(cuLaunchHostFunc)(s, on_host, &one), CUDA_SUCCESS);
	need_is(CU(cuEventRecord)(join, t), CUDA_SUCCESS);
	need_is(CU(cuStreamWaitEvent)(s, join, 0), CUDA_SUCCESS);
	need_is(launch(fn, s), CUDA_SUCCESS);
	need_is(CU(cuStreamEndCapture)(s, &g), CUDA_SUCCESS);
	need_is(count_nodes(g), 7);
	need_is(type_of(g, 2), CU_GRAPH_NODE_TYPE_MEM_ALLOC);
	need_is(type_of(g, 4), CU_GRAPH_NODE_TYPE_MEM_FREE);
	n = 0;
	need_is(CU(cuGraphGetEdges)(g, NULL, NULL, &n), CUDA_SUCCESS);
	need_is(n, 7); /* five in a row, one out, one back */
	need_is(host_calls, 0);
	need_is(free_now(), before); /* capturing takes nothing */
	need_is(CU(cuStreamQuery)(s), CUDA_SUCCESS);
	need_is(CU(cuGraphInstantiateWithFlags)(&exec, g, 0), CUDA_SUCCESS);
	ms = timed_launch(exec);
	need(ms > 2.0f && ms < 2.1f);
	need_is(host_calls, 1);
	need_is(before - free_now(), 8 * MIB);
	need_is(CU(cuGraphExecDestroy)(exec), CUDA_SUCCESS);
	need_is(CU(cuGraphDestroy)(g), CUDA_SUCCESS);
	need_is(CU(cuDeviceGraphMemTrim)(0), CUDA_SUCCESS);
	need_is(free_now(), before);

	/* A graph launched into a capture is a child; a capture may go on in a graph that is there. */
	need_is(CU(cuStreamBeginCapture_v2)(s, 0), CUDA_SUCCESS);
	need_is(launch(fn, s), CUDA_SUCCESS);
	need_is(CU(cuStreamEndCapture)(s, &g), CUDA_SUCCESS);
	need_is(CU(cuGraphInstantiateWithFlags)(&exec, g, 0), CUDA_SUCCESS);
	need_is(CU(cuStreamBeginCaptureToGraph)(s, g, NULL, NULL, 0, 0), CUDA_SUCCESS);
	need_is(CU(cuGraphLaunch)(exec, s), CUDA_SUCCESS);
	need_is(CU(cuStreamEndCapture)(s, &g), CUDA_SUCCESS);
	need_is(count_nodes(g), 2);
	need_is(type_of(g, 1), CU_GRAPH_NODE_TYPE_GRAPH);
	need_is(CU(cuGraphExecDestroy)(exec), CUDA_SUCCESS);
	need_is(CU(cuGraphDestroy)(g), CUDA_SUCCESS);
	need_is(CU(cuEventDestroy_v2)(fork), CUDA_SUCCESS);
	need_is(CU(cuEventDestroy_v2)(join), CUDA_SUCCESS);
	need_is(CU(cuStreamDestroy_v2)(s), CUDA_SUCCESS);
	need_is(CU(cuStreamDestroy_v2)(t), CUDA_SUCCESS);
}

static void a_capture_makes_a_graph_over_several_streams(void **state)
{
	in_child(capture_all_kinds, "1xH200");
}

static CUstream spoil_stream, other_stream;
static CUevent captured_event, plain_event;
static CUdeviceptr plain_memory;

static CUresult sync_stream(void)
{
	return CU(cuStreamSynchronize)(spoil_stream);
}

static CUresult query_stream(void)
{
	return CU(cuStreamQuery)(spoil_stream);
}

static CUresult sync_other(void)
{
	return CU(cuStreamSynchronize)(other_stream);
}

static CUresult sync_context(void)
{
	return CU(cuCtxSynchronize)();
}

static CUresult query_captured(void)
{
	return CU(cuEventQuery)(captured_event);
}

static CUresult sync_captured(void)
{
	return CU(cuEventSynchronize)(captured_event);
}

static CUresult query_plain(void)
{
	return CU(cuEventQuery)(plain_event);
}

static CUresult sync_plain(void)
{
	return CU(cuEventSynchronize)(plain_event);
}

static CUresult allocate(void)
{
	CUdeviceptr p;

	return CU(cuMemAlloc_v2)(&p, 1024);
}

static CUresult give_back(void)
{
	CUresult r = CU(cuMemFree_v2)(plain_memory);

	if (r == CUDA_SUCCESS)
		need_is(CU(cuMemAlloc_v2)(&plain_memory, 1024), CUDA_SUCCESS);
	return r;
}

static CUresult copy_now(void)
{
	return CU(cuMemcpyHtoD_v2)(plain_memory, "abc", 3);
}

static CUresult use_default_stream(void)
{
	return CU(cuMemsetD8Async)(plain_memory, 1, 16, NULL);
}

static CUresult wait_for_outside(void)
{
	return CU(cuStreamWaitEvent)(spoil_stream, plain_event, 0);
}

static CUresult ask_default_stream(void)
{
	int status;

	return CU(cuStreamIsCapturing)(NULL, &status);
}

static CUresult make_and_record(void)
{
	CUevent e;
	CUresult r = CU(cuEventCreate)(&e, 0);

	if (r == CUDA_SUCCESS)
		r = CU(cuEventRecord)(e, other_stream);
	return r == CUDA_SUCCESS ? CU(cuEventDestroy_v2)(e) : r;
}

struct attempt {
	CUresult (*call)(void);
	/* What it answers, and whether the capture survives: in a thread that stays global, and in
	 * one that made itself relaxed. */
	CUresult global, relaxed;
	bool lives_global, lives_relaxed;
};

static const struct attempt attempts[] = {
	{ sync_stream, 900, 900, false, false },
	{ query_stream, 900, 900, false, false },
	{ sync_context, 900, 900, false, false },
	{ query_captured, 907, 907, false, false },
	{ sync_captured, 907, 907, false, false },
	{ wait_for_outside, 905, 905, false, false },
	{ use_default_stream, 906, 906, false, false },
	{ ask_default_stream, 906, 906, true, true },
	{ copy_now, 906, 906, false, false },
	{ sync_other, 900, 0, false, true },
	{ query_plain, 900, 0, false, true },
	{ sync_plain, 900, 0, false, true },
	{ allocate, 900, 0, false, true },
	{ give_back, 900, 0, false, true },
	{ make_and_record, 0, 0, true, true },
};

static CUresult answer;
static int attempt_mode;
static CUcontext attempt_context;

static void *attempt_in_thread(void *arg)
{
	const struct attempt *a = arg;
	int mode = attempt_mode;

	need_is(CU(cuCtxSetCurrent)(attempt_context), CUDA_SUCCESS);
	need_is(CU(cuThreadExchangeStreamCaptureMode)(&mode), CUDA_SUCCESS);
	need_is(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
	answer = a->call();
	return NULL;
}

static void expect(size_t i, const char *where, int mode, CUresult want, bool lives)
{
	CUgraph g = NULL;
	CUresult end;

	need_is(CU(cuStreamBeginCapture_v2)(spoil_stream, mode), CUDA_SUCCESS);
	need_is(CU(cuMemsetD8Async)(plain_memory, 1, 16, spoil_stream), CUDA_SUCCESS);
	need_is(CU(cuEventRecord)(captured_event, spoil_stream), CUDA_SUCCESS);
	if (strcmp(where, "here") == 0) {
		int old = attempt_mode;

		need_is(CU(cuThreadExchangeStreamCaptureMode)(&old), CUDA_SUCCESS);
		answer = attempts[i].call();
		need_is(CU(cuThreadExchangeStreamCaptureMode)(&old), CUDA_SUCCESS);
	} else {
		pthread_t t;

		need(pthread_create(&t, NULL, attempt_in_thread, (void *)&attempts[i]) == 0);
		need(pthread_join(t, NULL) == 0);
	}
	end = CU(cuStreamEndCapture)(spoil_stream, &g);
	if (answer != want ||
	    end != (lives ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)) {
		fprintf(stderr, "attempt %zu %s, capture mode %d, thread mode %d: %d and %d\n", i,
			where, mode, attempt_mode, answer, end);
		_exit(1);
	}
	if (g != NULL)
		need_is(CU(cuGraphDestroy)(g), CUDA_SUCCESS);
}

static void spoil(void)
{
	attempt_context = child_context(0);
	spoil_stream = new_stream(CU_STREAM_DEFAULT);
	other_stream = new_stream(CU_STREAM_NON_BLOCKING);
	captured_event = new_event();
	plain_event = new_event();
	need_is(CU(cuMemAlloc_v2)(&plain_memory, 1024), CUDA_SUCCESS);
	need_is(CU(cuEventRecord)(plain_event, other_stream), CUDA_SUCCESS);
	for (size_t i = 0; i < RF_COUNT(attempts); i++) {
		const struct attempt *a = &attempts[i];

		attempt_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
		expect(i, "here", CU_STREAM_CAPTURE_MODE_GLOBAL, a->global, a->lives_global);
		expect(i, "there", CU_STREAM_CAPTURE_MODE_GLOBAL, a->global, a->lives_global);
		expect(i, "here", CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, a->global, a->lives_global);
		/* A thread-local capture leaves other threads alone, a relaxed one everybody. */
		expect(i, "there", CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, a->relaxed,
		       a->lives_relaxed);
		expect(i, "here", CU_STREAM_CAPTURE_MODE_RELAXED, a->relaxed, a->lives_relaxed);
		attempt_mode = CU_STREAM_CAPTURE_MODE_RELAXED;
		expect(i, "here", CU_STREAM_CAPTURE_MODE_GLOBAL, a->relaxed, a->lives_relaxed);
		expect(i, "there", CU_STREAM_CAPTURE_MODE_GLOBAL, a->relaxed, a->lives_relaxed);
		attempt_mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
		expect(i, "here", CU_STREAM_CAPTURE_MODE_GLOBAL, a->global, a->lives_global);
		expect(i, "there", CU_STREAM_CAPTURE_MODE_GLOBAL, a->relaxed, a->lives_relaxed);
	}
}

static void unsafe_calls_spoil_a_capture_unless_somebody_relaxed(void **state)
{
	in_child(spoil, "1xH200");
}

static CUgraph thread_graph;

static void *end_elsewhere(void *arg)
{
	need_is(CU(cuCtxSetCurrent)(attempt_context), CUDA_SUCCESS);
	answer = CU(cuStreamEndCapture)(arg, &thread_graph);
	return NULL;
}

static void ends(void)
{
	CUstream s, t;
	CUevent e, f;
	CUgraph g;
	CUfunction fn;
	pthread_t thread;

	attempt_context = child_context(0);
	fn = child_kernel(1000);
	s = new_stream(CU_STREAM_NON_BLOCKING);
	t = new_stream(CU_STREAM_NON_BLOCKING);
	e = new_event();
	f = new_event();
	need_is(CU(cuStreamBeginCapture_v2)(NULL, 0), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	/* Work that does not lead back. */
	need_is(CU(cuStreamBeginCapture_v2)(s, 0), CUDA_SUCCESS);
	need_is(CU(cuEventRecord)(e, s), CUDA_SUCCESS);
	need_is(CU(cuStreamWaitEvent)(t, e, 0), CUDA_SUCCESS);
	need_is(launch(fn, t), CUDA_SUCCESS);
	need_is(CU(cuStreamEndCapture)(s, &g), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
	need(g == NULL);
	/* Two captures do not mix. */
	need_is(CU(cuStreamBeginCapture_v2)(s, 0), CUDA_SUCCESS);
	need_is(CU(cuStreamBeginCapture_v2)(t, 0), CUDA_SUCCESS);
	need_is(CU(cuEventRecord)(e, s), CUDA_SUCCESS);
	need_is(CU(cuEventRecord)(f, t), CUDA_SUCCESS);
	need_is(CU(cuStreamWaitEvent)(t, e, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
	need_is(CU(cuStreamEndCapture)(s, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	need_is(CU(cuStreamEndCapture)(t, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	/* Who begins it ends it, unless it is relaxed. */
	need_is(CU(cuStreamBeginCapture_v2)(s, 0), CUDA_SUCCESS);
	need(pthread_create(&thread, NULL, end_elsewhere, s) == 0);
	need(pthread_join(thread, NULL) == 0);
	need_is(answer, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
	need_is(CU(cuStreamEndCapture)(s, &g), CUDA_SUCCESS);
	need_is(CU(cuGraphDestroy)(g), CUDA_SUCCESS);
	need_is(CU(cuStreamBeginCapture_v2)(s, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
	need(pthread_create(&thread, NULL, end_elsewhere, s) == 0);
	need(pthread_join(thread, NULL) == 0);
	need_is(answer, CUDA_SUCCESS);
	need_is(CU(cuGraphDestroy)(thread_graph), CUDA_SUCCESS);
	/* A stream that goes takes its capture along; an event that was captured can be used anew. */
	need_is(CU(cuStreamBeginCapture_v2)(s, 0), CUDA_SUCCESS);
	need_is(launch(fn, s), CUDA_SUCCESS);
	need_is(CU(cuStreamDestroy_v2)(s), CUDA_SUCCESS);
	need_is(CU(cuEventQuery)(e), CUDA_ERROR_CAPTURED_EVENT);
	need_is(CU(cuEventRecord)(e, t), CUDA_SUCCESS);
	need_is(CU(cuEventQuery)(e), CUDA_SUCCESS);
	need_is(CU(cuCtxSynchronize)(), CUDA_SUCCESS);
	/* The default stream of a thread can be captured. */
	need_is(CU(cuStreamBeginCapture_v2_ptsz)(NULL, 0), CUDA_SUCCESS);
	need_is(CU(cuLaunchKernel_ptsz)(fn, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), CUDA_SUCCESS);
	need_is(CU(cuStreamEndCapture_ptsz)(NULL, &g), CUDA_SUCCESS);
	need_is(count_nodes(g), 1);
	need_is(CU(cuGraphDestroy)(g), CUDA_SUCCESS);
}

static void a_capture_ends_where_and_how_it_must(void **state)
{
	in_child(ends, "1xH200");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_graph_runs_its_nodes_one_after_another),
		cmocka_unit_test(an_executable_graph_can_be_changed),
		cmocka_unit_test(graph_memory_comes_with_the_launch_and_stays_until_trimmed),
		cmocka_unit_test(a_capture_makes_a_graph_over_several_streams),
		cmocka_unit_test(unsafe_calls_spoil_a_capture_unless_somebody_relaxed),
		cmocka_unit_test(a_capture_ends_where_and_how_it_must),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
