/* A program inside a fence that uses time on a simulated card (../test_share.c). It loads the driver by
 * name, as most programs do. Exit status 0: as promised; 1: a check failed (said on stderr). */
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fence/cuda_more.h"
#include "gpu/nvml_abi.h"

static void *symbol(const char *name)
{
	static void *lib;

	if (!lib)
		lib = dlopen("libcuda.so.1", RTLD_NOW);
	return lib ? dlsym(lib, name) : NULL;
}

#define CU(name) ((__typeof__(&name))symbol(#name))
#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "share: line %d: %s\n", __LINE__, #cond);                  \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)
#define OK(call)                                                                                   \
	do {                                                                                       \
		CUresult r_ = (call);                                                              \
		if (r_ != CUDA_SUCCESS) {                                                          \
			fprintf(stderr, "share: line %d: %s is %d\n", __LINE__, #call, r_);        \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

static void tell(char c)
{
	CHECK(write(STDOUT_FILENO, &c, 1) == 1);
}

static char hear(void)
{
	char c = 0;

	return read(STDIN_FILENO, &c, 1) == 1 ? c : 0;
}

static CUfunction fn;
static unsigned long kernel_us = 1000;

static void set_up(void)
{
	CUcontext ctx;
	CUmodule mod;
	char ptx[200];

	OK(CU(cuInit)(0));
	OK(CU(cuCtxCreate_v2)(&ctx, 0, 0));
	snprintf(ptx, sizeof(ptx), "// ringfence-sim: kernel=work ns=%lu\n.version 7.0\n",
		 kernel_us * 1000);
	OK(CU(cuModuleLoadData)(&mod, ptx));
	OK(CU(cuModuleGetFunction)(&fn, mod, "work"));
}

static void launch(CUstream s)
{
	OK(CU(cuLaunchKernel)(fn, 1, 1, 1, 32, 1, 1, 0, s, NULL, NULL));
}

/* --- work without end --- */

static CUstream stream[4];
static CUgraphExec exec;

static void prepare_graph(void)
{
	CUgraph graph;

	OK(CU(cuStreamBeginCapture_v2)(stream[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	for (int i = 0; i < 4; i++)
		launch(stream[0]);
	OK(CU(cuStreamEndCapture)(stream[0], &graph));
	OK(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
}

static void work_plain(void)
{
	launch(NULL);
}

static void work_sync(void)
{
	launch(NULL);
	OK(CU(cuStreamSynchronize)(NULL));
}

/* Busy with other things, it comes to wait long after the work was done. */
static void work_late(void)
{
	launch(NULL);
	usleep(20000);
	OK(CU(cuStreamSynchronize)(NULL));
}

/* The driver takes none of them. */
static void work_refused(void)
{
	CHECK(CU(cuLaunchKernel)(fn, 0, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL) != CUDA_SUCCESS);
}

/* Launches for a while, one after the other, and then waits for them. */
static void work_batch(void)
{
	struct timespec from, now;

	for (int i = 0; i < 100; i++) {
		launch(NULL);
		clock_gettime(CLOCK_MONOTONIC, &from);
		do
			clock_gettime(CLOCK_MONOTONIC, &now);
		while ((now.tv_sec - from.tv_sec) * 1000000000l + now.tv_nsec - from.tv_nsec < 3000);
	}
	OK(CU(cuStreamSynchronize)(NULL));
}

static void work_graph(void)
{
	OK(CU(cuGraphLaunch)(exec, stream[0]));
}

static void work_streams(void)
{
	static unsigned i;

	launch(stream[i++ % 4]);
}

static void work_coop(void)
{
	OK(CU(cuLaunchCooperativeKernel)(fn, 1, 1, 1, 32, 1, 1, 0, stream[1], NULL));
}

static void work_ex(void)
{
	CUlaunchConfig c = { .gridDimX = 1,
			     .gridDimY = 1,
			     .gridDimZ = 1,
			     .blockDimX = 32,
			     .blockDimY = 1,
			     .blockDimZ = 1,
			     .hStream = stream[2] };

	OK(CU(cuLaunchKernelEx)(&c, fn, NULL, NULL));
}

static void work_ptsz(void)
{
	OK(CU(cuLaunchKernel_ptsz)(fn, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
}

static const struct {
	const char *name;
	void (*once)(void);
} works[] = {
	{ "plain", work_plain },     { "sync", work_sync }, { "graph", work_graph },
	{ "streams", work_streams }, { "coop", work_coop }, { "ex", work_ex },
	{ "ptsz", work_ptsz },	     { "late", work_late },
	{ "batch", work_batch },     { "refused", work_refused },
};

/* The test is gone. */
static bool is_over(void)
{
	struct pollfd p = { .fd = STDIN_FILENO };

	return poll(&p, 1, 0) == 1 && (p.revents & POLLHUP);
}

/* Ends when the test does, or ends us. */
static void work(const char *how)
{
	for (int i = 0; i < 4; i++)
		OK(CU(cuStreamCreate)(&stream[i], CU_STREAM_NON_BLOCKING));
	prepare_graph();
	for (size_t i = 0; i < sizeof(works) / sizeof(works[0]); i++) {
		if (strcmp(works[i].name, how) != 0)
			continue;
		for (unsigned long n = 0;; n++) {
			works[i].once();
			if (n == 0)
				tell('r');
			if (n % 16 == 0 && is_over())
				_exit(0);
		}
	}
	CHECK(!"no such work");
}

/* --- copies and fills: one call at a time, as the test says --- */

static CUdeviceptr a, b;
static char host[64];

#define SHAPE(type, src, dst)                                                                      \
	(&(type){ .srcMemoryType = (src),                                                          \
		  .dstMemoryType = (dst),                                                          \
		  .srcDevice = a,                                                                  \
		  .dstDevice = b,                                                                  \
		  .srcHost = host,                                                                 \
		  .dstHost = host,                                                                 \
		  .WidthInBytes = 64,                                                              \
		  .Height = 1 })
#define DD(type) SHAPE(type, CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE)
/* Calls of which the simulated driver knows the name alone. */
#define ANY(name, ...) any(#name, (const uintptr_t[9]){ __VA_ARGS__ })
#define P(x) (uintptr_t)(x)

static CUresult any(const char *name, const uintptr_t x[9])
{
	CUresult (*call)(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t,
			 uintptr_t, uintptr_t, uintptr_t) = NULL;

	*(void **)&call = symbol(name);
	return call ? call(x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], x[8])
		    : CUDA_ERROR_NOT_FOUND;
}

static size_t sizes[] = { 64 };
static CUdeviceptr from[1], to[1];

static CUresult copy(int i)
{
	switch (i) {
	/* held: 0 to 49 */
	case 0:
		return CU(cuMemsetD8_v2)(a, 0, 64);
	case 1:
		return CU(cuMemsetD8_v2_ptds)(a, 0, 64);
	case 2:
		return CU(cuMemsetD16_v2)(a, 0, 32);
	case 3:
		return CU(cuMemsetD32_v2)(a, 0, 16);
	case 4:
		return CU(cuMemsetD8Async)(a, 0, 64, stream[0]);
	case 5:
		return CU(cuMemsetD16Async)(a, 0, 32, stream[1]);
	case 6:
		return CU(cuMemsetD32Async)(a, 0, 16, stream[2]);
	case 7:
		return CU(cuMemsetD32Async_ptsz)(a, 0, 16, NULL);
	case 8:
		return CU(cuMemcpyDtoD_v2)(b, a, 64);
	case 9:
		return CU(cuMemcpyDtoD_v2_ptds)(b, a, 64);
	case 10:
		return CU(cuMemcpyDtoDAsync_v2)(b, a, 64, stream[0]);
	case 11:
		return CU(cuMemcpyDtoDAsync_v2_ptsz)(b, a, 64, stream[0]);
	case 12:
		return CU(cuMemcpy)(b, a, 64);
	case 13:
		return CU(cuMemcpyAsync)(b, a, 64, stream[3]);
	case 14:
		return CU(cuMemcpy2D_v2)(DD(CUDA_MEMCPY2D));
	case 15:
		return CU(cuMemcpy2DUnaligned_v2)(DD(CUDA_MEMCPY2D));
	case 16:
		return CU(cuMemcpy2DAsync_v2)(DD(CUDA_MEMCPY2D), stream[0]);
	case 17:
		return ANY(cuMemsetD2D8_v2, a, 64, 0, 64, 1);
	case 18:
		return ANY(cuMemsetD2D32Async, a, 64, 0, 16, 1, P(stream[0]));
	case 19:
		return ANY(cuMemcpy3D_v2, P(DD(CUDA_MEMCPY3D)));
	case 20:
		return ANY(cuMemcpy3DAsync_v2, P(DD(CUDA_MEMCPY3D)), P(stream[0]));
	case 21:
		return ANY(cuMemcpy3DPeer, P(DD(CUDA_MEMCPY3D)));
	case 22:
		return ANY(cuMemcpyPeer, b, 0, a, 0, 64);
	case 23:
		return ANY(cuMemcpyPeerAsync, b, 0, a, 0, 64, P(stream[0]));
	case 24:
		return ANY(cuMemcpyAtoA_v2, 0, 0, 0, 0, 64);
	case 25:
		return ANY(cuMemcpyAtoD_v2, a, 0, 0, 64);
	case 26:
		return ANY(cuMemcpyDtoA_v2, 0, 0, a, 64);
	case 27:
		from[0] = a, to[0] = b;
		return ANY(cuMemcpyBatchAsync, P(to), P(from), P(sizes), 1, 0, 0, 0, 0,
			   P(stream[0]));
	case 28:
		return ANY(cuMemcpy3DBatchAsync, 1, 0, 0, 0, P(stream[0]));
	case 29:
		return ANY(cuMemBatchDecompressAsync, 0, 1, 0, 0, P(stream[0]));
	/* not held: from 50 */
	case 50:
		return CU(cuMemcpyHtoD_v2)(a, host, 64);
	case 51:
		return CU(cuMemcpyDtoH_v2)(host, a, 64);
	case 52:
		return CU(cuMemcpyHtoDAsync_v2)(a, host, 64, stream[0]);
	case 53:
		return CU(cuMemcpyDtoHAsync_v2)(host, a, 64, stream[0]);
	case 54:
		return CU(cuMemcpy)(a, (uintptr_t)host, 64);
	case 55:
		return CU(cuMemcpy)((uintptr_t)host, a, 64);
	case 56:
		return CU(cuMemcpyAsync)((uintptr_t)host, a, 64, stream[0]);
	case 57:
		return CU(cuMemcpy2D_v2)(
			SHAPE(CUDA_MEMCPY2D, CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE));
	case 58:
		from[0] = (uintptr_t)host, to[0] = b;
		return ANY(cuMemcpyBatchAsync, P(to), P(from), P(sizes), 1, 0, 0, 0, 0,
			   P(stream[0]));
	/* what ends with the stream's work: the test looks at the desk */
	case 70:
		launch(NULL);
		return CU(cuMemcpyDtoH_v2)(host, a, 64);
	case 71:
		launch(NULL);
		return CU(cuMemcpy)((uintptr_t)host, a, 64);
	case 72:
		OK(CU(cuLaunchKernel_ptsz)(fn, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
		return CU(cuMemcpyDtoH_v2_ptds)(host, a, 64);
	default:
		return CUDA_ERROR_UNKNOWN;
	}
}

static void copies(void)
{
	char i;

	for (int j = 0; j < 4; j++)
		OK(CU(cuStreamCreate)(&stream[j], CU_STREAM_NON_BLOCKING));
	OK(CU(cuMemAlloc_v2)(&a, 4096));
	OK(CU(cuMemAlloc_v2)(&b, 4096));
	for (tell('r'); (i = hear()) != 0;) {
		CUresult r = copy(i - 1);

		OK(CU(cuCtxSynchronize)());
		tell(r == CUDA_SUCCESS ? 'd' : r == CUDA_ERROR_NOT_SUPPORTED ? 'n' : '!');
	}
}

/* --- captures --- */

static int stop; /* atomic */
static int
	default_on; /* atomic: launches into the default stream would not be the program's fault */
static unsigned others; /* atomic: launches of other threads */

#define NODES 7

/* Six kernels and a fill, two of them in a second stream. */
static CUgraph capture(CUstream one, CUstream two, CUevent fork_at, CUevent join_at, int mode)
{
	CUgraph graph = NULL;

	OK(CU(cuStreamBeginCapture_v2)(one, mode));
	launch(one);
	OK(CU(cuEventRecord)(fork_at, one));
	OK(CU(cuStreamWaitEvent)(two, fork_at, 0));
	launch(two);
	OK(CU(cuMemsetD8Async)(a, 0, 64, two));
	OK(CU(cuLaunchCooperativeKernel)(fn, 1, 1, 1, 32, 1, 1, 0, one, NULL));
	for (int i = 0; i < 3; i++)
		launch(one);
	OK(CU(cuEventRecord)(join_at, two));
	OK(CU(cuStreamWaitEvent)(one, join_at, 0));
	OK(CU(cuStreamEndCapture)(one, &graph));
	return graph;
}

static void check_graph(CUgraph graph)
{
	CUgraphNode node[NODES + 8];
	size_t n = NODES + 8;
	int kernels = 0, fills = 0;

	CHECK(graph != NULL);
	OK(CU(cuGraphGetNodes)(graph, node, &n));
	CHECK(n == NODES);
	for (size_t i = 0; i < n; i++) {
		int type = -1;

		OK(CU(cuGraphNodeGetType)(node[i], &type));
		kernels += type == CU_GRAPH_NODE_TYPE_KERNEL;
		fills += type == CU_GRAPH_NODE_TYPE_MEMSET;
	}
	CHECK(kernels == NODES - 1 && fills == 1);
}

static CUcontext shared_ctx;

static void *launch_beside(void *arg)
{
	uintptr_t which = (uintptr_t)arg;
	CUstream own;

	OK(CU(cuCtxSetCurrent)(shared_ctx));
	OK(CU(cuStreamCreate)(&own, which == 1 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		if (which == 0 && !__atomic_load_n(&default_on, __ATOMIC_ACQUIRE)) {
			usleep(500);
			continue;
		}
		if (which == 3)
			OK(CU(cuLaunchKernel_ptsz)(fn, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
		else
			launch(which == 0 ? NULL : own);
		__atomic_add_fetch(&others, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* The test holds the gate: 'c' captures once in each mode, whatever the gate says; 'f' does so again and
 * again with others around until the test says more; 'g' launches a captured graph five times. */
static void captures(void)
{
	CUstream one[2], two;
	CUevent fork_at, join_at;
	CUgraph graph = NULL;
	CUgraphExec runs = NULL;
	pthread_t t[4];
	char what;

	OK(CU(cuCtxGetCurrent)(&shared_ctx));
	OK(CU(cuMemAlloc_v2)(&a, 4096));
	OK(CU(cuStreamCreate)(&one[0], CU_STREAM_NON_BLOCKING));
	OK(CU(cuStreamCreate)(&one[1], CU_STREAM_DEFAULT));
	OK(CU(cuStreamCreate)(&two, CU_STREAM_NON_BLOCKING));
	OK(CU(cuEventCreate)(&fork_at, CU_EVENT_DISABLE_TIMING));
	OK(CU(cuEventCreate)(&join_at, CU_EVENT_DISABLE_TIMING));
	__atomic_store_n(&default_on, 1, __ATOMIC_RELEASE);
	for (uintptr_t i = 0; i < 4; i++)
		CHECK(pthread_create(&t[i], NULL, launch_beside, (void *)i) == 0);
	for (tell('r'); (what = hear()) != 0; tell('d')) {
		if (what == 'g') {
			OK(CU(cuGraphInstantiateWithFlags)(&runs, graph, 0));
			for (int i = 0; i < 5; i++)
				OK(CU(cuGraphLaunch)(runs, one[0]));
			OK(CU(cuStreamSynchronize)(one[0]));
			continue;
		}
		if (what == 's') {
			__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
			for (int i = 0; i < 4; i++)
				pthread_join(t[i], NULL);
			OK(CU(cuCtxSynchronize)());
			continue;
		}
		for (int i = 0; i < (what == 'c' ? 3 : 60); i++) {
			if (graph)
				OK(CU(cuGraphDestroy)(graph));
			graph = capture(one[0], two, fork_at, join_at, i % 3);
			check_graph(graph);
			usleep(what == 'c' ? 0 : 500);
		}
	}
}

/* As above, in a blocking stream: nobody uses the default stream then. */
static void captures_blocking(void)
{
	CUstream one, two;
	CUevent fork_at, join_at;
	pthread_t t[3];

	OK(CU(cuCtxGetCurrent)(&shared_ctx));
	OK(CU(cuMemAlloc_v2)(&a, 4096));
	OK(CU(cuStreamCreate)(&one, CU_STREAM_DEFAULT));
	OK(CU(cuStreamCreate)(&two, CU_STREAM_DEFAULT));
	OK(CU(cuEventCreate)(&fork_at, CU_EVENT_DISABLE_TIMING));
	OK(CU(cuEventCreate)(&join_at, CU_EVENT_DISABLE_TIMING));
	launch(NULL);
	OK(CU(cuCtxSynchronize)());
	for (uintptr_t i = 0; i < 3; i++)
		CHECK(pthread_create(&t[i], NULL, launch_beside, (void *)(i + 1)) == 0);
	for (tell('r'); hear() != 0; tell('d')) {
		for (int i = 0; i < 60; i++) {
			CUgraph graph = capture(one, two, fork_at, join_at, i % 3);

			check_graph(graph);
			OK(CU(cuGraphDestroy)(graph));
			usleep(500);
		}
	}
}

/* --- captures that end without a word --- */

static CUstream begin_in_new_stream(void)
{
	CUstream s;

	OK(CU(cuStreamCreate)(&s, CU_STREAM_NON_BLOCKING));
	OK(CU(cuStreamBeginCapture_v2)(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	return s;
}

static void in_a_context_that_goes(void)
{
	CUcontext ctx;

	OK(CU(cuCtxCreate_v2)(&ctx, 0, 0));
	begin_in_new_stream();
	OK(CU(cuStreamBeginCapture_v2)(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(CU(cuCtxDestroy_v2)(ctx));
	OK(CU(cuCtxSetCurrent)(shared_ctx));
}

static void in_the_primary_context(bool reset)
{
	CUcontext ctx;

	OK(CU(cuDevicePrimaryCtxRetain)(&ctx, 0));
	OK(CU(cuCtxSetCurrent)(ctx));
	begin_in_new_stream();
	OK(reset ? CU(cuDevicePrimaryCtxReset_v2)(0) : CU(cuDevicePrimaryCtxRelease_v2)(0));
	if (reset)
		CU(cuDevicePrimaryCtxRelease_v2)(0);
	OK(CU(cuCtxSetCurrent)(shared_ctx));
}

static void *in_a_thread_that_ends(void *arg)
{
	OK(CU(cuCtxSetCurrent)(shared_ctx));
	OK(CU(cuStreamBeginCapture_v2_ptsz)(NULL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	return NULL;
}

static void invalidated(void)
{
	CUstream s = begin_in_new_stream();
	CUgraph graph;

	CHECK(CU(cuStreamQuery)(s) != CUDA_SUCCESS);
	CHECK(CU(cuStreamEndCapture)(s, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	OK(CU(cuStreamDestroy_v2)(s));
}

/* That a thread is gone is seen some launches later. */
static void fill_for_a_while(void)
{
	for (int i = 0; i < 200; i++)
		OK(CU(cuMemsetD8Async)(a, 0, 64, NULL));
	OK(CU(cuCtxSynchronize)());
}

/* Of a kind that nobody knows, and nobody waits for them: only events tell how long they take. */
static void use_the_default_stream(void)
{
	for (int i = 0; i < 20; i++)
		launch(NULL);
	usleep(200000);
	launch(NULL);
}

static void lost_captures(void)
{
	pthread_t t;
	char what;

	OK(CU(cuCtxGetCurrent)(&shared_ctx));
	OK(CU(cuMemAlloc_v2)(&a, 4096));
	for (tell('r'); (what = hear()) != 0; tell('d')) {
		if (what == 'u') {
			use_the_default_stream();
		} else if (what == 's') {
			OK(CU(cuStreamDestroy_v2)(begin_in_new_stream()));
		} else if (what == 'c') {
			in_a_context_that_goes();
		} else if (what == 'p' || what == 'q') {
			in_the_primary_context(what == 'p');
		} else if (what == 't') {
			CHECK(pthread_create(&t, NULL, in_a_thread_that_ends, NULL) == 0);
			pthread_join(t, NULL);
		} else if (what == 'i') {
			invalidated();
		}
		if (what != 'u')
			fill_for_a_while();
	}
}

/* --- fork --- */

static void *launch_for_ever(void *arg)
{
	OK(CU(cuCtxSetCurrent)(shared_ctx));
	for (;;)
		launch(NULL);
	return NULL;
}

static void must_end_well(pid_t pid)
{
	int status = -1;

	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Threads launch while this one makes children by every means. A child that goes on by itself is told by
 * the driver that it has no card, at once; one that becomes another program has a card of its own. */
static void forks(const char *self)
{
	static char preload[512], path[512], sim[512];
	char *env[] = { preload, path, sim, NULL };
	static char what[] = "once", us[] = "200";
	char *argv[] = { (char *)(uintptr_t)self, what, us, NULL };
	pthread_t t;
	pid_t pid;

	snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", getenv("LD_PRELOAD"));
	snprintf(path, sizeof(path), "LD_LIBRARY_PATH=%s", getenv("LD_LIBRARY_PATH"));
	snprintf(sim, sizeof(sim), "RINGFENCE_SIM=%s", getenv("RINGFENCE_SIM"));
	OK(CU(cuCtxGetCurrent)(&shared_ctx));
	OK(CU(cuLaunchKernel_ptsz)(fn, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
	for (int i = 0; i < 3; i++)
		CHECK(pthread_create(&t, NULL, launch_for_ever, NULL) == 0);
	for (int i = 0; i < 8; i++) {
		usleep(3000);
		pid = fork();
		if (pid == 0) {
			alarm(20);
			if (CU(cuLaunchKernel)(fn, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL) ==
			    CUDA_SUCCESS)
				_exit(2);
			if (CU(cuLaunchKernel_ptsz)(fn, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL) ==
			    CUDA_SUCCESS)
				_exit(3);
			_exit(0);
		}
		must_end_well(pid);
		pid = i % 2 ? fork() : vfork();
		if (pid == 0) {
			execve(self, argv, env);
			_exit(127);
		}
		must_end_well(pid);
		CHECK(posix_spawn(&pid, self, NULL, NULL, argv, env) == 0);
		must_end_well(pid);
	}
}

/* A few launches of every sort, to their end. */
static void once(void)
{
	for (int i = 0; i < 4; i++)
		OK(CU(cuStreamCreate)(&stream[i], CU_STREAM_NON_BLOCKING));
	prepare_graph();
	for (size_t i = 0; i < sizeof(works) / sizeof(works[0]); i++)
		works[i].once();
	OK(CU(cuCtxSynchronize)());
}

/* The parent has joined the fence and never used the card; the child does. */
static void fork_first(const char *how)
{
	void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	__typeof__(&nvmlInit_v2) init =
		nvml ? (__typeof__(&nvmlInit_v2))dlsym(nvml, "nvmlInit_v2") : NULL;
	pid_t pid;

	CHECK(init && init() == NVML_SUCCESS);
	pid = fork();
	CHECK(pid >= 0);
	if (pid > 0) {
		must_end_well(pid);
		return;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	set_up();
	work(how);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	const char *how = argc > 3 ? argv[3] : "plain";

	alarm(120);
	kernel_us = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000;
	if (strcmp(what, "child") == 0) {
		fork_first(how);
		return 0;
	}
	set_up();
	if (strcmp(what, "work") == 0)
		work(how);
	else if (strcmp(what, "copies") == 0)
		copies();
	else if (strcmp(what, "captures") == 0)
		captures();
	else if (strcmp(what, "blocking") == 0)
		captures_blocking();
	else if (strcmp(what, "lost") == 0)
		lost_captures();
	else if (strcmp(what, "forks") == 0)
		forks(argv[0]);
	else if (strcmp(what, "once") == 0)
		once();
	else
		CHECK(!"no such scenario");
	return 0;
}
