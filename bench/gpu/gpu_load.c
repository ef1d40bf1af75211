/* gpu_load: loads an NVIDIA card in measured ways and prints JSON. It takes the driver by name, so
 * that whatever is preloaded sees every call, and needs nothing but libc:
 *   cc -O2 -o gpu_load gpu_load.c -ldl -lpthread
 *
 * Kernels do a fixed amount of work (a loop of dependent multiply-adds on every SM), never a fixed
 * time: one that has to share the card takes longer. `calibrate` finds once, alone on the card, how
 * many rounds of the loop take a microsecond; the other commands are told by --loops-per-us.
 *
 * Changes no setting of the card, and takes no more memory of it than --cap or --max and half as much
 * again.
 * Exit status: 0 done, 1 the driver refused what cannot be done without, 2 usage. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../src/gpu/cuda_abi.h"

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum { THREADS = 1024, MAX_STREAMS = 64, MAX_AHEAD = 64, AHEAD_US = 200000, MAX_SERIES = 1000000 };

/* --- the driver --- */

#define KNOWN(X)                                                                                                                               \
	X(cuInit)                                                                                                                              \
	X(cuDriverGetVersion)                                                                                                                  \
	X(cuGetErrorName) X(cuDeviceGet) X(cuDeviceGetName) X(cuDeviceGetAttribute) X(cuDevicePrimaryCtxRetain) X(                             \
		cuCtxCreate_v2) X(cuCtxDestroy_v2) X(cuCtxSetCurrent) X(cuCtxSynchronize) X(cuModuleLoadData)                                  \
		X(cuModuleUnload) X(cuModuleGetFunction) X(cuModuleGetGlobal_v2) X(cuMemGetInfo_v2) X(                                         \
			cuMemAlloc_v2) X(cuMemAllocPitch_v2) X(cuMemAllocManaged) X(cuMemFree_v2) X(cuMemHostAlloc)                            \
			X(cuMemHostGetDevicePointer_v2) X(cuMemsetD8_v2) X(cuMemAllocAsync) X(                                                 \
				cuMemAllocAsync_ptsz) X(cuMemAllocFromPoolAsync) X(cuMemFreeAsync) X(cuMemFreeAsync_ptsz)                      \
				X(cuDeviceGetDefaultMemPool) X(cuMemPoolCreate) X(cuMemPoolDestroy) X(                                         \
					cuMemPoolTrimTo) X(cuMemPoolSetAttribute) X(cuMemCreate) X(cuMemRelease)                               \
					X(cuMemAddressReserve) X(cuMemAddressFree) X(cuMemMap) X(cuMemUnmap) X(                                \
						cuMemSetAccess) X(cuMemExportToShareableHandle) X(cuMemImportFromShareableHandle)              \
						X(cuIpcGetMemHandle) X(cuIpcOpenMemHandle_v2) X(cuIpcCloseMemHandle) X(                        \
							cuArrayCreate_v2) X(cuArray3DCreate_v2) X(cuArrayDestroy)                              \
							X(cuMipmappedArrayCreate) X(cuMipmappedArrayDestroy) X(                                \
								cuStreamCreate) X(cuStreamDestroy_v2) X(cuStreamSynchronize)                   \
								X(cuStreamIsCapturing) X(cuEventCreate) X(                                     \
									cuEventRecord) X(cuEventQuery) X(cuEventSynchronize)                   \
									X(cuEventElapsedTime) X(                                               \
										cuLaunchKernel) X(cuOccupancyMaxActiveBlocksPerMultiprocessor) \
										X(cuGraphAddMemAllocNode) X(                                   \
											cuGraphInstantiateWithFlags)                           \
											X(cuGraphLaunch) X(                                    \
												cuGraphExecDestroy)                            \
												X(cuGraphDestroy)                              \
													X(cuDeviceGraphMemTrim)

/* Not in cuda_abi.h: name and type. */
#define MORE(X)                                                                                    \
	X(cuGraphCreate, (CUgraph *, unsigned int))                                                \
	X(cuStreamBeginCapture_v2, (CUstream, int))                                                \
	X(cuStreamEndCapture, (CUstream, CUgraph *))                                               \
	X(cuStreamWriteValue32_v2, (CUstream, CUdeviceptr, cuuint32_t, unsigned int))

#define FIELD(name) __typeof__(&name) name;
#define MORE_FIELD(name, args) CUresult(*name) args;
static struct {
	KNOWN(FIELD)
	MORE(MORE_FIELD)
} cu;

static const char *command = "gpu_load";

/* What a driver does not have answers like a driver that does not know it. */
static CUresult missing(void)
{
	return CUDA_ERROR_NOT_FOUND;
}

static const char *error_name(CUresult r)
{
	static const char no[] = "CUDA_ERROR_UNKNOWN";
	const char *name = NULL;

	if (r == CUDA_SUCCESS)
		return "CUDA_SUCCESS";
	return cu.cuGetErrorName(r, &name) == CUDA_SUCCESS && name ? name : no;
}

static void must(CUresult r, const char *what)
{
	if (r == CUDA_SUCCESS)
		return;
	fprintf(stderr, "gpu_load %s: %s: %s (%d)\n", command, what, error_name(r), r);
	exit(1);
}

static void *symbol(void *lib, const char *name)
{
	void *p = dlsym(lib, name);

	return p ? p : (void *)missing;
}

static void load_driver(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);

	if (!lib) {
		fprintf(stderr, "gpu_load %s: no CUDA driver here: %s\n", command, dlerror());
		exit(1);
	}
#define LOAD(name) cu.name = (__typeof__(&name))symbol(lib, #name);
#define MORE_LOAD(name, args) cu.name = (CUresult(*) args)symbol(lib, #name);
	KNOWN(LOAD)
	MORE(MORE_LOAD)
}

/* --- small things --- */

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static double unix_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void sleep_until(double mono)
{
	struct timespec t = { .tv_sec = (time_t)mono };

	t.tv_nsec = (long)((mono - (double)t.tv_sec) * 1e9);
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static uint64_t quantile(const uint64_t *sorted, size_t n, double q)
{
	size_t i = (size_t)(q * (double)n);

	return n == 0 ? 0 : sorted[i < n ? i : n - 1];
}

static double mean(const uint64_t *v, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += (double)v[i];
	return n ? sum / (double)n : 0;
}

/* A child ends by itself, and with its parent. */
static void bounded(unsigned seconds)
{
	alarm(seconds);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static void *need(void *p)
{
	if (p)
		return p;
	fprintf(stderr, "gpu_load %s: out of memory of this machine\n", command);
	exit(1);
}

/* --- options --- */

struct options {
	double kernel_us, seconds, loops_per_us, start_at, hz, pulse_ms, series_ms, pause_us,
		next_us, late_us;
	uint64_t cap, max, live;
	long streams, graph, depth, ahead, processes, threads, device, waves, blocks;
	bool unbounded;
	const char *only, *wait;
};

static bool parse_size(const char *text, uint64_t *ret)
{
	static const struct {
		const char *suffix;
		uint64_t unit;
	} units[] = {
		{ "", 1 },	  { "Ki", KIB },      { "Mi", MIB },	    { "Gi", KIB * MIB },
		{ "KiB", KIB },	  { "MiB", MIB },     { "GiB", KIB * MIB }, { "K", 1000 },
		{ "M", 1000000 }, { "G", 1000000000 }
	};
	char *end;
	unsigned long long n;

	errno = 0;
	n = strtoull(text, &end, 10);
	if (end == text || *text == '-' || errno != 0)
		return false;
	for (size_t i = 0; i < COUNT(units); i++)
		if (strcmp(end, units[i].suffix) == 0)
			return !__builtin_mul_overflow(n, units[i].unit, ret);
	return false;
}

static bool parse_number(const char *text, double min, double max, double *ret)
{
	char *end;
	double v = strtod(text, &end);

	if (end == text || *end || !(v >= min && v <= max))
		return false;
	*ret = v;
	return true;
}

static int usage(FILE *to)
{
	fprintf(to,
		"usage: gpu_load calibrate\n"
		"       gpu_load run --loops-per-us X --kernel-us K --seconds S [--streams N]\n"
		"                [--graph M] [--ahead N | --depth D | --unbounded]\n"
		"                [--start-at UNIX_SECONDS] [--series MS] [--pulse MS] [--next-us "
		"K]\n"
		"       gpu_load latency --loops-per-us X --kernel-us K --hz H --seconds S\n"
		"                [--start-at UNIX_SECONDS] [--wait stream|event|ask] [--late-us "
		"N]\n"
		"       gpu_load overhead [--pause-us N] [--live N] [--only NAME,...]\n"
		"       gpu_load memory --cap SIZE [--only PATH]\n"
		"       gpu_load stress --processes P --threads T --seconds S --max SIZE\n"
		"       gpu_load init\n"
		"  --device N      the card, by index (0)\n"
		"  --loops-per-us  what calibrate printed, alone on the card and without a fence\n"
		"  --waves N       kernels of N times the blocks that the card holds at once\n"
		"  --blocks N      kernels of N blocks, however many the card holds\n"
		"  --wait ask      ask an event again and again; event: wait for one\n"
		"  --graph M       launch graphs of M kernels\n"
		"  --ahead N       kernels queued at most, kept by events (64, and never more "
		"than\n"
		"                  200 ms of work)\n"
		"  --depth D       wait for everything after each D launches; 0 is --unbounded\n"
		"  --unbounded     never wait before the end\n"
		"  --series MS     also print the kernels completed in each MS milliseconds\n"
		"  --pulse MS      work for MS milliseconds, rest for as long, and so on\n"
		"  --next-us K     every other launch of the same kernel takes K microseconds\n"
		"  --late-us N     each visit is up to N microseconds late, at random\n"
		"  --pause-us N    rest between batches, so that a share is not used up (0)\n"
		"  --live N        allocations alive in the second free test (1000000)\n"
		"  --cap, --max    the cap of the fence around it; memory asks for a quarter more\n"
		"                  at most, stress for half as much more\n");
	return 2;
}

static bool wait_is_known(const char *name)
{
	return strcmp(name, "stream") == 0 || strcmp(name, "event") == 0 ||
	       strcmp(name, "ask") == 0;
}

/* Each option: its name and where its value goes. */
static bool parse(int argc, char **argv, struct options *o)
{
	static const char *const names[] = {
		"kernel-us", "seconds", "loops-per-us", "start-at", "hz",     "pulse", "series",
		"pause-us",  "next-us", "late-us",	"streams",  "graph",  "depth", "ahead",
		"processes", "threads", "device",	"waves",    "blocks", "cap",   "max",
		"live",	     "only",	"wait",		"unbounded"
	};
	double *const reals[] = { &o->kernel_us, &o->seconds,  &o->loops_per_us, &o->start_at,
				  &o->hz,	 &o->pulse_ms, &o->series_ms,	 &o->pause_us,
				  &o->next_us,	 &o->late_us };
	const double most[] = { 1e7, 3600, 1e9, 1e11, 1e5, 1e6, 1e6, 1e6, 1e7, 1e6 };
	long *const longs_[] = { &o->streams, &o->graph,  &o->depth, &o->ahead, &o->processes,
				 &o->threads, &o->device, &o->waves, &o->blocks };
	const double most_long[] = {
		MAX_STREAMS, 10000, 1e9, MAX_AHEAD * 16, 512, 256, 63, 256, 1e6
	};
	uint64_t *const sizes[] = { &o->cap, &o->max, &o->live };
	struct option longs[COUNT(names) + 1] = { 0 };

	for (size_t i = 0; i < COUNT(names); i++)
		longs[i] = (struct option){ names[i], i + 1 < COUNT(names), NULL, (int)(1000 + i) };
	for (int c; (c = getopt_long(argc, argv, "", longs, NULL)) != -1;) {
		size_t i = (size_t)(c - 1000);
		bool good = true;
		double v = 0;

		if (c == '?')
			return false;
		if (i < COUNT(reals))
			good = parse_number(optarg, 0, most[i], reals[i]);
		else if ((i -= COUNT(reals)) < COUNT(longs_))
			good = parse_number(optarg, 0, most_long[i], &v) &&
			       (*longs_[i] = (long)v) == v;
		else if ((i -= COUNT(longs_)) < COUNT(sizes))
			good = parse_size(optarg, sizes[i]);
		else if (i == COUNT(sizes))
			o->only = optarg;
		else if (i == COUNT(sizes) + 1)
			good = wait_is_known(o->wait = optarg);
		else
			o->unbounded = true;
		if (!good) {
			fprintf(stderr, "gpu_load %s: --%s: \"%s\" is no value for it\n", command,
				names[c - 1000], optarg);
			return false;
		}
	}
	if (optind < argc)
		fprintf(stderr, "gpu_load %s: what is \"%s\"?\n", command, argv[optind]);
	return optind == argc;
}

static bool given(double value, const char *name)
{
	if (value > 0)
		return true;
	fprintf(stderr, "gpu_load %s: --%s is needed and must be above 0\n", command, name);
	return false;
}

static bool start_is_near(const struct options *o)
{
	if (o->start_at - unix_s() < 600)
		return true;
	fprintf(stderr, "gpu_load %s: --start-at is more than ten minutes away\n", command);
	return false;
}

/* When to start, by the monotonic clock. */
static double start_time(const struct options *o)
{
	double in = o->start_at > 0 ? o->start_at - unix_s() : 0;

	if (in < 0)
		fprintf(stderr, "gpu_load %s: --start-at was %.3f s ago; starting now\n", command,
			-in);
	return now_s() + (in > 0 ? in : 0);
}

/* --- the card and its kernels --- */

static struct {
	CUdevice dev;
	CUcontext ctx;
	CUfunction work, empty;
	int sms, blocks, waves;
	long few; /* blocks of a kernel; 0: as many as it holds at once, times the waves */
	double init_us, ctx_us;
	volatile uint64_t
		*done; /* on the host, one line of 128 bytes per stream; the card writes */
	CUdeviceptr done_dev, count; /* the same seen by the card; the card's own running count */
} card;

/* The first thread of the grid says "one more" when its part is done. The blocks all fit at once and
 * do the same, so its end is the kernel's end (with --waves, that of its first part). A simulated card runs no code; it reads how long the
 * kernels take from the first lines. */
static const char kernels_ptx[] =
	"// ringfence-sim: kernel=work ns=%llu\n"
	"// ringfence-sim: kernel=empty ns=1500\n"
	".version 6.0\n"
	".target sm_50\n"
	".address_size 64\n"
	".visible .entry empty()\n"
	"{\n"
	"	ret;\n"
	"}\n"
	".visible .entry work(.param .u32 loops, .param .u64 count, .param .u64 slot)\n"
	"{\n"
	"	.reg .pred %%p<4>;\n"
	"	.reg .b32 %%r<5>;\n"
	"	.reg .f32 %%f<4>;\n"
	"	.reg .b64 %%rd<6>;\n"
	"	ld.param.u32 %%r1, [loops];\n"
	"	ld.param.u64 %%rd1, [count];\n"
	"	ld.param.u64 %%rd2, [slot];\n"
	"	cvta.to.global.u64 %%rd1, %%rd1;\n"
	"	cvta.to.global.u64 %%rd2, %%rd2;\n"
	"	mov.u32 %%r2, %%tid.x;\n"
	"	mov.u32 %%r3, %%ctaid.x;\n"
	"	cvt.rn.f32.u32 %%f1, %%r2;\n"
	"	mov.f32 %%f2, 0f3F7FFFFF;\n"
	"	mov.f32 %%f3, 0f3A83126F;\n"
	"again:\n"
	"	fma.rn.f32 %%f1, %%f1, %%f2, %%f3;\n"
	"	fma.rn.f32 %%f1, %%f1, %%f2, %%f3;\n"
	"	fma.rn.f32 %%f1, %%f1, %%f2, %%f3;\n"
	"	fma.rn.f32 %%f1, %%f1, %%f2, %%f3;\n"
	"	sub.u32 %%r1, %%r1, 1;\n"
	"	setp.ne.u32 %%p1, %%r1, 0;\n"
	"	@%%p1 bra again;\n"
	"	setp.lt.f32 %%p2, %%f1, 0f00000000;\n" /* never; keeps the sum from being dropped */
	"	@%%p2 st.global.f32 [%%rd1+8], %%f1;\n"
	"	or.b32 %%r4, %%r2, %%r3;\n"
	"	setp.ne.u32 %%p3, %%r4, 0;\n"
	"	@%%p3 bra done;\n"
	"	atom.global.add.u64 %%rd4, [%%rd1], 1;\n"
	"	add.u64 %%rd5, %%rd4, 1;\n"
	"	st.volatile.global.u64 [%%rd2], %%rd5;\n"
	"done:\n"
	"	ret;\n"
	"}\n";

static void open_card(const struct options *o)
{
	double t = now_s();

	card.waves = o->waves > 0 ? (int)o->waves : 1;
	card.few = o->blocks;
	load_driver();
	must(cu.cuInit(0), "start the driver");
	card.init_us = (now_s() - t) * 1e6;
	must(cu.cuDeviceGet(&card.dev, (int)o->device), "the card");
	t = now_s();
	must(cu.cuDevicePrimaryCtxRetain(&card.ctx, card.dev), "create a context");
	must(cu.cuCtxSetCurrent(card.ctx), "use the context");
	card.ctx_us = (now_s() - t) * 1e6;
}

static void load_kernels(double kernel_us)
{
	char image[sizeof(kernels_ptx) + 32];
	size_t room = MAX_STREAMS * 128;
	int per_sm = 0;
	void *host;
	CUmodule mod;

	snprintf(image, sizeof(image), kernels_ptx, (unsigned long long)(kernel_us * 1000));
	must(cu.cuModuleLoadData(&mod, image), "load the kernels");
	must(cu.cuModuleGetFunction(&card.work, mod, "work"), "find the kernel");
	must(cu.cuModuleGetFunction(&card.empty, mod, "empty"), "find the empty kernel");
	must(cu.cuDeviceGetAttribute(&card.sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, card.dev),
	     "count SMs");
	must(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, card.work, THREADS, 0),
	     "blocks that fit on an SM");
	card.blocks = card.sms * (per_sm > 0 ? per_sm : 1);
	must(cu.cuMemHostAlloc(&host, room, 2 /* mapped */), "memory that the card can write");
	memset(host, 0, room);
	card.done = host;
	must(cu.cuMemHostGetDevicePointer_v2(&card.done_dev, host, 0), "its address on the card");
	must(cu.cuMemAlloc_v2(&card.count, room), "memory on the card");
	must(cu.cuMemsetD8_v2(card.count, 0, room), "clear memory on the card");
}

/* As many times the blocks that fit, each with so much less to do. */
static CUresult launch_work(CUstream stream, size_t slot, uint64_t loops)
{
	unsigned blocks = (unsigned)(card.few ? card.few : card.blocks * (long)card.waves);

	loops /= (uint64_t)card.waves;
	uint32_t n = loops < 1 ? 1 : loops > UINT32_MAX ? UINT32_MAX : (uint32_t)loops;
	CUdeviceptr count = card.count + slot * 128, done = card.done_dev + slot * 128;
	void *params[] = { &n, &count, &done };

	return cu.cuLaunchKernel(card.work, blocks, 1, 1, THREADS, 1, 1, 0, stream, params, NULL);
}

static CUresult launch_empty(CUstream stream)
{
	return cu.cuLaunchKernel(card.empty, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL);
}

static uint64_t counted(size_t streams)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < streams; i++)
		sum += card.done[i * 16];
	return sum;
}

static CUgraphExec make_graph(CUstream s, long kernels, size_t slot, uint64_t loops)
{
	CUgraph graph;
	CUgraphExec exec;

	must(cu.cuStreamBeginCapture_v2(s, 1 /* this thread */), "begin to capture a graph");
	for (long i = 0; i < kernels; i++)
		must(loops ? launch_work(s, slot, loops) : launch_empty(s), "capture a kernel");
	must(cu.cuStreamEndCapture(s, &graph), "end to capture a graph");
	must(cu.cuGraphInstantiateWithFlags(&exec, graph, 0), "make the graph");
	must(cu.cuGraphDestroy(graph), "drop the graph's plan");
	return exec;
}

/* --- calibrate --- */

static double kernel_ms(uint64_t loops, int times)
{
	CUevent from, to;
	float ms = 0;

	must(cu.cuEventCreate(&from, 0), "create an event");
	must(cu.cuEventCreate(&to, 0), "create an event");
	must(cu.cuEventRecord(from, NULL), "record an event");
	for (int i = 0; i < times; i++)
		must(launch_work(NULL, 0, loops), "launch");
	must(cu.cuEventRecord(to, NULL), "record an event");
	must(cu.cuEventSynchronize(to), "wait for the kernels");
	must(cu.cuEventElapsedTime(&ms, from, to), "time the kernels");
	return (double)ms / times;
}

static int calibrate(const struct options *o)
{
	char name[128] = "?";
	int version = 0;
	bool real;
	double until = now_s() + 1, slope, offset, less = 0, more = 0;
	uint64_t loops = 100000;

	open_card(o);
	load_kernels(10);
	cu.cuDeviceGetName(name, sizeof(name), card.dev);
	cu.cuDriverGetVersion(&version);
	/* A second of work brings the clocks up. */
	for (until = now_s() + 1; now_s() < until;)
		kernel_ms(loops, 1);
	real = counted(1) > 0;
	for (int i = 0; real && i < 8; i++) { /* to a kernel of about 20 ms */
		double ms = kernel_ms(loops, 1);

		if (ms > 10 && ms < 40)
			break;
		loops = (uint64_t)((double)loops * 20 / (ms > 0.01 ? ms : 0.01));
	}
	less = kernel_ms(loops / 10, 50);
	more = kernel_ms(loops, 50);
	slope = (double)(loops - loops / 10) / ((more - less) * 1000);
	offset = less * 1000 - (double)(loops / 10) / slope;
	if (!real) { /* a simulated card takes the time it is told */
		slope = 1;
		offset = 0;
	}
	printf("{\"card\":\"%s\",\"cuda\":%d,\"sms\":%d,\"blocks\":%d,\"threads\":%d,"
	       "\"loops_per_us\":%.4f,\"launch_gap_us\":%.2f,\"kernel_20ms_us\":%.1f,"
	       "\"simulated\":%s}\n",
	       name, version, card.sms, card.blocks, THREADS, slope, offset, more * 1000,
	       real ? "false" : "true");
	return 0;
}

/* --- run --- */

struct lane {
	CUstream stream;
	CUgraphExec graph;
	CUevent ring[MAX_AHEAD * 16];
	uint64_t launched, known; /* launches; of them known to be complete */
};

static struct {
	struct lane *lanes;
	size_t n;
	uint64_t loops[2], ahead, group, per_launch; /* loops of each launch, of each other */
	uint64_t base;				     /* kernels of the warm-up */
	bool by_events;
	_Atomic uint64_t known_kernels; /* when counted by events */
	double start, seconds, series_s;
	uint64_t *series; /* completed at the end of each slice */
	size_t n_series;
	uint64_t at_end;
	double ended;
} job;

static uint64_t completed(void)
{
	return job.by_events ? atomic_load(&job.known_kernels) : counted(job.n) - job.base;
}

/* Reads the count at every slice's end and at the window's end, also while the launching thread
 * is held up. */
static void *sampler(void *unused)
{
	(void)unused;
	for (size_t i = 0; i < job.n_series; i++) {
		sleep_until(job.start + (double)(i + 1) * job.series_s);
		job.series[i] = completed();
	}
	sleep_until(job.start + job.seconds);
	job.at_end = completed();
	job.ended = now_s();
	return NULL;
}

static void learn(struct lane *l, uint64_t launches)
{
	if (launches <= l->known)
		return;
	atomic_fetch_add(&job.known_kernels, (launches - l->known) * job.per_launch);
	l->known = launches;
}

static void launch(struct lane *l)
{
	size_t slots = job.ahead / job.group;

	must(l->graph ? cu.cuGraphLaunch(l->graph, l->stream)
		      : launch_work(l->stream, (size_t)(l - job.lanes), job.loops[l->launched % 2]),
	     "launch");
	l->launched++;
	if (l->launched % job.group == 0)
		must(cu.cuEventRecord(l->ring[(l->launched / job.group - 1) % slots], l->stream),
		     "record an event");
}

/* Waits until no more than job.ahead launches are queued on the lane. */
static void keep_ahead(struct lane *l)
{
	size_t slots = job.ahead / job.group;
	uint64_t groups = l->launched / job.group;

	if (l->launched % job.group == 0 && groups >= slots) {
		must(cu.cuEventSynchronize(l->ring[groups % slots]), "wait for an event");
		learn(l, (groups - slots + 1) * job.group);
	}
	while (job.by_events && l->known < l->launched &&
	       cu.cuEventQuery(l->ring[l->known % slots]) == CUDA_SUCCESS)
		learn(l, l->known + 1);
}

static void wait_for_all(void)
{
	must(cu.cuCtxSynchronize(), "wait for the kernels");
	for (size_t i = 0; i < job.n; i++)
		learn(&job.lanes[i], job.lanes[i].launched);
}

static uint64_t loops_for(double us, const struct options *o)
{
	uint64_t loops = (uint64_t)(us * o->loops_per_us + 0.5);

	return loops ? loops : 1;
}

static void prepare(const struct options *o)
{
	double longest = o->next_us > o->kernel_us ? o->next_us : o->kernel_us;
	double launch_us = longest * (double)(o->graph ? o->graph : 1);
	uint64_t most = (uint64_t)((o->ahead ? o->ahead : MAX_AHEAD) / (o->graph ? o->graph : 1));

	job.n = (size_t)(o->streams ? o->streams : 1);
	job.lanes = need(calloc(job.n, sizeof(*job.lanes)));
	job.loops[0] = loops_for(o->kernel_us, o);
	job.loops[1] = loops_for(o->next_us > 0 ? o->next_us : o->kernel_us, o);
	job.per_launch = (uint64_t)(o->graph ? o->graph : 1);
	if ((double)most * launch_us > AHEAD_US && !o->ahead)
		most = (uint64_t)(AHEAD_US / launch_us);
	job.ahead = most / job.n < 2 ? 2 : most / job.n;
	load_kernels(o->kernel_us);
	for (size_t i = 0; i < job.n; i++) {
		struct lane *l = &job.lanes[i];

		must(cu.cuStreamCreate(&l->stream, CU_STREAM_NON_BLOCKING), "create a stream");
		if (o->graph)
			l->graph = make_graph(l->stream, o->graph, i, job.loops[0]);
		for (size_t e = 0; e < job.ahead; e++)
			must(cu.cuEventCreate(&l->ring[e], CU_EVENT_DISABLE_TIMING),
			     "create an event");
		job.group = 1;
		launch(l);
		must(cu.cuStreamSynchronize(l->stream), "wait for the first kernel");
		l->launched = 0;
	}
	job.base = counted(job.n);
	job.by_events = job.base == 0;
	/* Events at every eighth of what is queued, as a program that minds its speed would. */
	job.group = job.by_events || job.ahead < 16 ? 1 : job.ahead / 8;
	job.ahead -= job.ahead % job.group;
}

static void work_until(const struct options *o, double end)
{
	uint64_t launches = 0;

	for (double now; (now = now_s()) < end;) {
		struct lane *l = &job.lanes[launches % job.n];
		double phase = o->pulse_ms > 0 ? (now - job.start) * 1000 / o->pulse_ms : 0;

		if ((uint64_t)phase % 2 == 1) {
			wait_for_all();
			double next =
				job.start + (double)((uint64_t)phase + 1) * o->pulse_ms / 1000;

			sleep_until(next < end ? next : end);
			continue;
		}
		if (!o->unbounded && o->depth < 0)
			keep_ahead(l);
		launch(l);
		launches++;
		if (o->depth > 0 && launches % (uint64_t)o->depth == 0)
			wait_for_all();
	}
}

static void print_run(const struct options *o)
{
	double wall = job.ended - job.start, kernels = (double)job.at_end;
	uint64_t launched = 0, before = 0;

	for (size_t i = 0; i < job.n; i++)
		launched += job.lanes[i].launched * job.per_launch;
	printf("{\"kernels\":%llu,\"wall_s\":%.4f,\"kernel_us\":%g,\"share\":%.4f,\"per_s\":%.2f,"
	       "\"launched\":%llu,\"ahead\":%llu,\"counted_by\":\"%s\",\"start\":%.4f",
	       (unsigned long long)job.at_end, wall, o->kernel_us,
	       kernels * o->kernel_us / 1e6 / wall, kernels / wall, (unsigned long long)launched,
	       (unsigned long long)(job.ahead * job.per_launch),
	       job.by_events ? "events" : "counter", unix_s() - (now_s() - job.start));
	if (job.n_series)
		printf(",\"series_ms\":%g,\"series\":[", o->series_ms);
	for (size_t i = 0; i < job.n_series; i++) {
		printf("%s%llu", i ? "," : "", (unsigned long long)(job.series[i] - before));
		before = job.series[i];
	}
	printf("%s}\n", job.n_series ? "]" : "");
	fflush(stdout);
}

static int run(const struct options *o)
{
	pthread_t thread;

	if (!given(o->kernel_us, "kernel-us") || !given(o->seconds, "seconds") ||
	    !given(o->loops_per_us, "loops-per-us"))
		return 2;
	if (!start_is_near(o))
		return 2;
	alarm((unsigned)(o->seconds + 720));
	open_card(o);
	prepare(o);
	if (job.by_events && (o->unbounded || o->depth == 0)) {
		fprintf(stderr, "gpu_load run: --unbounded needs a card that runs kernels; on a "
				"simulated one nothing counts what is complete\n");
		return 2;
	}
	job.start = start_time(o);
	job.seconds = o->seconds;
	if (o->series_ms > 0) {
		job.series_s = o->series_ms / 1000;
		job.n_series = (size_t)(o->seconds / job.series_s + 1e-9);
		job.n_series = job.n_series > MAX_SERIES ? MAX_SERIES : job.n_series;
		job.series = need(calloc(job.n_series + 1, sizeof(*job.series)));
	}
	if (pthread_create(&thread, NULL, sampler, NULL) != 0)
		need(NULL);
	sleep_until(job.start);
	work_until(o, job.start + job.seconds);
	pthread_join(thread, NULL);
	print_run(o);
	if (o->unbounded || o->depth == 0)
		_exit(0); /* seconds of queued work; the driver drops it */
	wait_for_all();
	return 0;
}

/* --- latency --- */

/* Which visits were slow: [number, us, us it began after its time], to see whether they come in a row or where the
 * program itself woke up late. */
static void print_slow(const uint64_t *visits, const uint64_t *woke, size_t n, uint64_t above)
{
	size_t shown = 0;

	printf(",\"slow\":[");
	for (size_t i = 0; i < n && shown < 64; i++)
		if (visits[i] > above)
			printf("%s[%zu,%.0f,%.0f]", shown++ ? "," : "", i, (double)visits[i] / 1000,
			       (double)woke[i] / 1000);
	printf("]}\n");
}

static void wait_as(const char *how, CUstream s, CUevent e)
{
	CUresult r;

	if (!how || strcmp(how, "stream") == 0) {
		must(cu.cuStreamSynchronize(s), "wait");
		return;
	}
	must(cu.cuEventRecord(e, s), "record an event");
	if (strcmp(how, "event") == 0) {
		must(cu.cuEventSynchronize(e), "wait for an event");
		return;
	}
	while ((r = cu.cuEventQuery(e)) == CUDA_ERROR_NOT_READY)
		;
	must(r, "ask an event");
}

static int latency(const struct options *o)
{
	double period, next, end;
	size_t n = 0, most;
	uint64_t *ns, *visits, *woke, late = 0, loops = loops_for(o->kernel_us, o),
				      dice = 88172645463325252ull;
	CUstream s;
	CUevent e;

	if (!given(o->kernel_us, "kernel-us") || !given(o->seconds, "seconds") ||
	    !given(o->loops_per_us, "loops-per-us") || !given(o->hz, "hz"))
		return 2;
	if (!start_is_near(o))
		return 2;
	alarm((unsigned)(o->seconds + 720));
	open_card(o);
	load_kernels(o->kernel_us);
	must(cu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING), "create a stream");
	must(cu.cuEventCreate(&e, CU_EVENT_DISABLE_TIMING), "create an event");
	most = (size_t)(o->seconds * o->hz) + 2;
	ns = need(calloc(most, sizeof(*ns)));
	visits = need(calloc(most, sizeof(*visits)));
	woke = need(calloc(most, sizeof(*woke)));
	for (int i = 0; i < 5; i++) {
		must(launch_work(s, 0, loops), "launch");
		must(cu.cuStreamSynchronize(s), "wait");
	}
	period = 1 / o->hz;
	next = start_time(o) + period;
	for (end = next + o->seconds; next < end && n < most; next += period) {
		uint64_t from;
		double at;

		dice = dice * 6364136223846793005ull + 1442695040888963407ull;
		at = next + (double)(dice >> 33) / (double)(1ull << 31) * o->late_us / 1e6;
		if (now_s() > next + period) { /* the last one took longer than a period */
			late++;
			continue;
		}
		sleep_until(at);
		from = now_ns();
		must(launch_work(s, 0, loops), "launch");
		wait_as(o->wait, s, e);
		woke[n] = from - (uint64_t)(at * 1e9);
		visits[n] = ns[n] = now_ns() - from;
		n++;
	}
	qsort(ns, n, sizeof(*ns), by_value);
	printf("{\"count\":%zu,\"skipped\":%llu,\"p50_us\":%.1f,\"p90_us\":%.1f,\"p99_us\":%.1f,"
	       "\"max_us\":%.1f,\"mean_us\":%.1f",
	       n, (unsigned long long)late, (double)quantile(ns, n, 0.5) / 1000,
	       (double)quantile(ns, n, 0.9) / 1000, (double)quantile(ns, n, 0.99) / 1000,
	       (double)quantile(ns, n, 1) / 1000, mean(ns, n) / 1000);
	print_slow(visits, woke, n, 2 * quantile(ns, n, 0.5));
	return 0;
}

/* --- overhead --- */

static struct {
	CUstream stream;
	CUgraphExec graph;
	CUevent event;
	CUdeviceptr word;
	CUmemoryPool pool;
	size_t bytes;
	double pause_us;
	const char *only; /* names with commas between; NULL: all */
} probe;

static CUresult probe_clock(void)
{
	struct timespec t;

	return clock_gettime(CLOCK_MONOTONIC, &t) == 0 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

static CUresult probe_launch(void)
{
	return launch_empty(probe.stream);
}

static CUresult probe_launch_sync(void)
{
	CUresult r = launch_empty(probe.stream);

	return r ? r : cu.cuStreamSynchronize(probe.stream);
}

static CUresult probe_graph(void)
{
	return cu.cuGraphLaunch(probe.graph, probe.stream);
}

static CUresult probe_alloc(void)
{
	CUdeviceptr p;
	CUresult r = cu.cuMemAlloc_v2(&p, probe.bytes);

	return r ? r : cu.cuMemFree_v2(p);
}

static CUresult probe_alloc_async(void)
{
	CUdeviceptr p;
	CUresult r = cu.cuMemAllocAsync(&p, probe.bytes, probe.stream);

	return r ? r : cu.cuMemFreeAsync(p, probe.stream);
}

static CUresult probe_alloc_pool(void)
{
	CUdeviceptr p;
	CUresult r = cu.cuMemAllocFromPoolAsync(&p, probe.bytes, probe.pool, probe.stream);

	return r ? r : cu.cuMemFreeAsync(p, probe.stream);
}

static CUresult probe_record(void)
{
	return cu.cuEventRecord(probe.event, probe.stream);
}

static CUresult probe_query(void)
{
	CUresult r = cu.cuEventQuery(probe.event);

	return r == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : r;
}

static CUresult probe_capturing(void)
{
	int status;

	return cu.cuStreamIsCapturing(probe.stream, &status);
}

static CUresult probe_write(void)
{
	return cu.cuStreamWriteValue32_v2(probe.stream, probe.word, 1, 0);
}

static CUresult probe_info(void)
{
	size_t f, t;

	return cu.cuMemGetInfo_v2(&f, &t);
}

static bool is_asked(const char *name)
{
	size_t n = strlen(name);

	for (const char *at = probe.only; at && (at = strstr(at, name)); at += n)
		if ((at == probe.only || at[-1] == ',') && (at[n] == ',' || at[n] == '\0'))
			return true;
	return !probe.only;
}

/* Batches short enough to fit the card's queue, each call timed by itself (less the clock's own cost,
 * which is printed too), each batch waited for out of the clock. */
static void probe_print(const char *name, CUresult (*call)(void), size_t n, size_t batch)
{
	uint64_t *ns;
	double until = now_s() + 8;
	CUresult r;
	size_t i = 0;

	if (!is_asked(name))
		return;
	ns = need(calloc(n, sizeof(*ns)));
	r = call();
	while (r == CUDA_SUCCESS && i < n && now_s() < until) {
		for (size_t k = 0; r == CUDA_SUCCESS && k < batch && i < n; k++) {
			uint64_t from = now_ns();

			r = call();
			ns[i++] = now_ns() - from;
		}
		must(cu.cuStreamSynchronize(probe.stream), "wait");
		if (probe.pause_us > 0)
			sleep_until(now_s() + probe.pause_us / 1e6);
	}
	if (r != CUDA_SUCCESS) {
		printf(",\n \"%s\":{\"error\":\"%s\"}", name, error_name(r));
	} else {
		qsort(ns, i, sizeof(*ns), by_value);
		printf(",\n \"%s\":{\"p50_ns\":%llu,\"mean_ns\":%.0f,\"p99_ns\":%llu,\"n\":%zu}",
		       name, (unsigned long long)quantile(ns, i, 0.5), mean(ns, i),
		       (unsigned long long)quantile(ns, i, 0.99), i);
	}
	fflush(stdout);
	free(ns);
}

static CUresult small_alloc(bool async, CUdeviceptr *p)
{
	return async ? cu.cuMemAllocAsync(p, 512, probe.stream) : cu.cuMemAlloc_v2(p, 512);
}

static CUresult small_free(bool async, CUdeviceptr p)
{
	return async ? cu.cuMemFreeAsync(p, probe.stream) : cu.cuMemFree_v2(p);
}

/* What a free costs while many allocations of 512 bytes are alive. Filling stops after five seconds;
 * "live" says how far it came. */
static void probe_live(const char *name, bool async, size_t want)
{
	CUdeviceptr *p;
	uint64_t ns[2000], ns_alloc[2000], seed = 88172645463325252ull;
	double until = now_s() + 5;
	size_t live = 0, n = 0;
	CUresult r = CUDA_SUCCESS;

	if (!is_asked(name))
		return;
	p = need(calloc(want, sizeof(*p)));
	while (live < want && (live % 1024 != 0 || now_s() < until)) {
		r = small_alloc(async, &p[live]);
		if (r != CUDA_SUCCESS)
			break;
		live++;
	}
	cu.cuStreamSynchronize(probe.stream);
	for (; live > 0 && n < COUNT(ns); n++) {
		size_t i;
		uint64_t a, b;

		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		i = seed % live;
		a = now_ns();
		if ((r = small_free(async, p[i])) != CUDA_SUCCESS)
			break;
		b = now_ns();
		if ((r = small_alloc(async, &p[i])) != CUDA_SUCCESS) {
			p[i] = p[--live];
			break;
		}
		ns_alloc[n] = now_ns() - b;
		ns[n] = b - a;
	}
	qsort(ns, n, sizeof(*ns), by_value);
	qsort(ns_alloc, n, sizeof(*ns), by_value);
	printf(",\n \"%s\":{\"p50_ns\":%llu,\"p99_ns\":%llu,\"alloc_p50_ns\":%llu,\"live\":%zu,"
	       "\"n\":%zu,\"last\":\"%s\"}",
	       name, (unsigned long long)quantile(ns, n, 0.5),
	       (unsigned long long)quantile(ns, n, 0.99),
	       (unsigned long long)quantile(ns_alloc, n, 0.5), live, n, error_name(r));
	fflush(stdout);
	for (until = now_s() + 20; live > 0 && now_s() < until; live--)
		small_free(async, p[live - 1]);
	cu.cuStreamSynchronize(probe.stream);
	free(p);
}

static bool can_capture(void)
{
	CUgraph g = NULL;

	if (cu.cuStreamBeginCapture_v2(probe.stream, 1) != CUDA_SUCCESS)
		return false;
	if (cu.cuStreamEndCapture(probe.stream, &g) == CUDA_SUCCESS && g)
		cu.cuGraphDestroy(g);
	return true;
}

static int overhead(const struct options *o)
{
	size_t live = o->live ? (size_t)o->live : 1000000;

	alarm(240);
	open_card(o);
	load_kernels(20);
	probe.pause_us = o->pause_us;
	probe.only = o->only;
	must(cu.cuDeviceGetDefaultMemPool(&probe.pool, card.dev), "find the default pool");
	must(cu.cuStreamCreate(&probe.stream, CU_STREAM_NON_BLOCKING), "create a stream");
	must(cu.cuEventCreate(&probe.event, CU_EVENT_DISABLE_TIMING), "create an event");
	must(cu.cuMemAlloc_v2(&probe.word, 4096), "memory on the card");
	printf("{\"cuInit_us\":%.0f,\"context_us\":%.0f", card.init_us, card.ctx_us);
	probe_print("clock_gettime", probe_clock, 100000, 1000);
	probe_print("launch", probe_launch, 100000, 100);
	probe_print("launch_sync", probe_launch_sync, 20000, 100);
	if (can_capture()) {
		probe.graph = make_graph(probe.stream, 20, 0, 0);
		probe_print("graph_20_launch", probe_graph, 10000, 10);
	} else {
		printf(",\n \"graph_20_launch\":{\"error\":\"no capture\"}");
	}
	probe.bytes = 4 * KIB;
	probe_print("alloc_free_4KiB", probe_alloc, 5000, 100);
	probe.bytes = 64 * MIB;
	probe_print("alloc_free_64MiB", probe_alloc, 2000, 20);
	probe.bytes = 4 * KIB;
	probe_print("async_alloc_free_4KiB", probe_alloc_async, 100000, 100);
	probe_print("pool_alloc_free_4KiB", probe_alloc_pool, 100000, 100);
	probe_print("mem_get_info", probe_info, 2000, 100);
	probe_print("event_record", probe_record, 100000, 100);
	probe_print("event_query", probe_query, 100000, 1000);
	probe_print("stream_is_capturing", probe_capturing, 100000, 1000);
	probe_print("stream_write_value32", probe_write, 100000, 100);
	probe_live("free_1000_live", false, 1000);
	probe_live("free_many_live", false, live);
	probe_live("free_async_1000_live", true, 1000);
	probe_live("free_async_many_live", true, live);
	printf("}\n");
	return 0;
}

static int init_only(const struct options *o)
{
	double t;

	(void)o;
	alarm(120);
	load_driver();
	t = now_s();
	must(cu.cuInit(0), "start the driver");
	printf("{\"cuInit_us\":%.0f}\n", (now_s() - t) * 1e6);
	return 0;
}

/* --- memory --- */

/* One piece of memory, however it was come by. */
struct piece {
	uint64_t bytes;
	CUdeviceptr ptr;
	CUmemGenericAllocationHandle handle;
	CUarray array;
	CUmipmappedArray mip;
	CUgraph graph;
	CUgraphExec exec;
	CUmodule mod;
	CUcontext ctx;
};

enum { MAX_PIECES = 16384 };

static struct {
	CUstream stream;
	CUmemoryPool pool;
	int peer; /* socket to the second process of a path that needs one */
} hold;

static CUresult take_plain(struct piece *p, uint64_t n)
{
	return cu.cuMemAlloc_v2(&p->ptr, n);
}

static CUresult give_plain(struct piece *p)
{
	return cu.cuMemFree_v2(p->ptr);
}

static CUresult take_pitch(struct piece *p, uint64_t n)
{
	size_t pitch;

	return cu.cuMemAllocPitch_v2(&p->ptr, &pitch, 64 * KIB, n / (64 * KIB), 16);
}

static CUresult take_managed(struct piece *p, uint64_t n)
{
	return cu.cuMemAllocManaged(&p->ptr, n, CU_MEM_ATTACH_GLOBAL);
}

static CUresult take_async(struct piece *p, uint64_t n)
{
	CUresult r = cu.cuMemAllocAsync(&p->ptr, n, hold.stream);

	return r ? r : cu.cuStreamSynchronize(hold.stream);
}

static CUresult give_async(struct piece *p)
{
	CUresult r = cu.cuMemFreeAsync(p->ptr, hold.stream);

	return r ? r : cu.cuStreamSynchronize(hold.stream);
}

static CUresult take_ptsz(struct piece *p, uint64_t n)
{
	CUresult r = cu.cuMemAllocAsync_ptsz(&p->ptr, n, NULL);

	return r ? r : cu.cuCtxSynchronize();
}

static CUresult give_ptsz(struct piece *p)
{
	CUresult r = cu.cuMemFreeAsync_ptsz(p->ptr, NULL);

	return r ? r : cu.cuCtxSynchronize();
}

static CUresult open_default_pool(void)
{
	return cu.cuDeviceGetDefaultMemPool(&hold.pool, card.dev);
}

static void trim_default_pool(void)
{
	CUmemoryPool pool;

	if (cu.cuDeviceGetDefaultMemPool(&pool, card.dev) == CUDA_SUCCESS)
		cu.cuMemPoolTrimTo(pool, 0);
}

static CUmemPoolProps pool_props(void)
{
	return (CUmemPoolProps){ .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .location = { CU_MEM_LOCATION_TYPE_DEVICE, card.dev } };
}

/* A pool that keeps what is freed: idle bytes must count too. */
static CUresult open_own_pool(void)
{
	CUmemPoolProps props = pool_props();
	uint64_t keep = UINT64_MAX;
	CUresult r = cu.cuMemPoolCreate(&hold.pool, &props);

	return r ? r
		 : cu.cuMemPoolSetAttribute(hold.pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
}

static void close_own_pool(void)
{
	cu.cuMemPoolDestroy(hold.pool);
}

static CUresult take_pool(struct piece *p, uint64_t n)
{
	CUresult r = cu.cuMemAllocFromPoolAsync(&p->ptr, n, hold.pool, hold.stream);

	return r ? r : cu.cuStreamSynchronize(hold.stream);
}

static CUresult vmm_create(struct piece *p, uint64_t n, int handle_type)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .requestedHandleTypes = handle_type,
				     .location = { CU_MEM_LOCATION_TYPE_DEVICE, card.dev } };

	return cu.cuMemCreate(&p->handle, n, &prop, 0);
}

static CUresult vmm_map(struct piece *p, uint64_t n)
{
	CUmemAccessDesc access = { { CU_MEM_LOCATION_TYPE_DEVICE, card.dev },
				   CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUresult r = cu.cuMemAddressReserve(&p->ptr, n, 0, 0, 0);

	if (r == CUDA_SUCCESS)
		r = cu.cuMemMap(p->ptr, n, 0, p->handle, 0);
	if (r == CUDA_SUCCESS)
		r = cu.cuMemSetAccess(p->ptr, n, &access, 1);
	if (r != CUDA_SUCCESS)
		cu.cuMemRelease(p->handle);
	return r;
}

static CUresult take_vmm(struct piece *p, uint64_t n)
{
	CUresult r = vmm_create(p, n, 0);

	return r ? r : vmm_map(p, n);
}

static CUresult give_vmm_mapped(struct piece *p)
{
	CUresult r = cu.cuMemUnmap(p->ptr, p->bytes);

	return r ? r : cu.cuMemAddressFree(p->ptr, p->bytes);
}

static CUresult give_vmm(struct piece *p)
{
	CUresult r = give_vmm_mapped(p);

	return r ? r : cu.cuMemRelease(p->handle);
}

/* The handle is gone, the mapping keeps the memory. */
static CUresult take_vmm_released(struct piece *p, uint64_t n)
{
	CUresult r = take_vmm(p, n);

	return r ? r : cu.cuMemRelease(p->handle);
}

static CUresult take_array1d(struct piece *p, uint64_t n)
{
	CUDA_ARRAY_DESCRIPTOR d = { n / 16, 0, CU_AD_FORMAT_FLOAT, 4 };

	return cu.cuArrayCreate_v2(&p->array, &d);
}

static CUresult take_array2d(struct piece *p, uint64_t n)
{
	CUDA_ARRAY_DESCRIPTOR d = { 4096, n / (64 * KIB), CU_AD_FORMAT_FLOAT, 4 };

	return cu.cuArrayCreate_v2(&p->array, &d);
}

static CUresult take_array3(struct piece *p, uint64_t n, unsigned flags)
{
	CUDA_ARRAY3D_DESCRIPTOR d = { 1024, 1024, n / (4 * MIB), CU_AD_FORMAT_FLOAT, 1, flags };

	return cu.cuArray3DCreate_v2(&p->array, &d);
}

static CUresult take_array3d(struct piece *p, uint64_t n)
{
	return take_array3(p, n, 0);
}

static CUresult take_layered(struct piece *p, uint64_t n)
{
	return take_array3(p, n, CUDA_ARRAY3D_LAYERED);
}

static CUresult give_array(struct piece *p)
{
	return cu.cuArrayDestroy(p->array);
}

static CUresult take_mipmap(struct piece *p, uint64_t n)
{
	CUDA_ARRAY3D_DESCRIPTOR d = { 4096, n / (64 * KIB), 0, CU_AD_FORMAT_FLOAT, 4, 0 };

	p->bytes = n + n / 4 + n / 16 + n / 64; /* its four levels */
	return cu.cuMipmappedArrayCreate(&p->mip, &d, 4);
}

static CUresult give_mipmap(struct piece *p)
{
	return cu.cuMipmappedArrayDestroy(p->mip);
}

static CUresult launch_graph(struct piece *p)
{
	CUresult r = cu.cuGraphInstantiateWithFlags(&p->exec, p->graph, 0);

	if (r == CUDA_SUCCESS)
		r = cu.cuGraphLaunch(p->exec, hold.stream);
	return r ? r : cu.cuStreamSynchronize(hold.stream);
}

static void drop_graph(struct piece *p)
{
	if (p->exec)
		cu.cuGraphExecDestroy(p->exec);
	if (p->graph)
		cu.cuGraphDestroy(p->graph);
}

static CUresult take_graph_node(struct piece *p, uint64_t n)
{
	CUmemAccessDesc access = { { CU_MEM_LOCATION_TYPE_DEVICE, card.dev },
				   CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUDA_MEM_ALLOC_NODE_PARAMS params = { .poolProps = pool_props(),
					      .accessDescs = &access,
					      .accessDescCount = 1,
					      .bytesize = n };
	CUgraphNode node;
	CUresult r = cu.cuGraphCreate(&p->graph, 0);

	if (r == CUDA_SUCCESS)
		r = cu.cuGraphAddMemAllocNode(&node, p->graph, NULL, 0, &params);
	if (r == CUDA_SUCCESS) {
		p->ptr = params.dptr;
		r = launch_graph(p);
	}
	if (r != CUDA_SUCCESS)
		drop_graph(p);
	return r;
}

static CUresult take_captured(struct piece *p, uint64_t n)
{
	CUresult ended, r = cu.cuStreamBeginCapture_v2(hold.stream, 1);

	if (r != CUDA_SUCCESS)
		return r;
	r = cu.cuMemAllocAsync(&p->ptr, n, hold.stream);
	ended = cu.cuStreamEndCapture(hold.stream, &p->graph);
	if (r == CUDA_SUCCESS)
		r = ended ? ended : launch_graph(p);
	if (r != CUDA_SUCCESS)
		drop_graph(p);
	return r;
}

static CUresult give_graph(struct piece *p)
{
	CUresult r = give_async(p);

	drop_graph(p);
	return r;
}

static void trim_graphs(void)
{
	cu.cuDeviceGraphMemTrim(card.dev);
}

static CUresult take_module(struct piece *p, uint64_t n)
{
	char image[256];
	size_t bytes;
	CUresult r;

	snprintf(image, sizeof(image),
		 ".version 6.0\n.target sm_50\n.address_size 64\n"
		 ".visible .global .align 16 .b8 big[%llu];\n",
		 (unsigned long long)n);
	r = cu.cuModuleLoadData(&p->mod, image);
	if (r == CUDA_SUCCESS && (r = cu.cuModuleGetGlobal_v2(&p->ptr, &bytes, p->mod, "big")) != 0)
		cu.cuModuleUnload(p->mod);
	return r;
}

static CUresult give_module(struct piece *p)
{
	return cu.cuModuleUnload(p->mod);
}

static CUresult take_context(struct piece *p, uint64_t n)
{
	CUresult r = cu.cuCtxCreate_v2(&p->ctx, 0, card.dev);

	(void)n;
	cu.cuCtxSetCurrent(card.ctx);
	return r;
}

static CUresult give_context(struct piece *p)
{
	CUresult r = cu.cuCtxDestroy_v2(p->ctx);

	cu.cuCtxSetCurrent(card.ctx);
	return r;
}

static bool works_still(void)
{
	CUdeviceptr p;

	return cu.cuMemAlloc_v2(&p, 4 * KIB) == CUDA_SUCCESS &&
	       cu.cuMemsetD8_v2(p, 1, 4 * KIB) == CUDA_SUCCESS &&
	       cu.cuCtxSynchronize() == CUDA_SUCCESS && cu.cuMemFree_v2(p) == CUDA_SUCCESS;
}

/* The second process: opens what it is sent, keeps it, and answers how that went. A message of no
 * bytes means close the last. */
struct parcel {
	uint64_t bytes;
	CUipcMemHandle ipc;
};

static bool send_parcel(const struct parcel *what, int fd)
{
	struct iovec io = { (void *)what, sizeof(*what) };
	char room[CMSG_SPACE(sizeof(int))] = { 0 };
	struct msghdr m = { .msg_iov = &io, .msg_iovlen = 1 };

	if (fd >= 0) {
		m.msg_control = room;
		m.msg_controllen = sizeof(room);
		struct cmsghdr *c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	}
	return sendmsg(hold.peer, &m, 0) == sizeof(*what);
}

static bool receive_parcel(int from, struct parcel *what, int *fd)
{
	struct iovec io = { what, sizeof(*what) };
	char room[CMSG_SPACE(sizeof(int))];
	struct msghdr m = {
		.msg_iov = &io, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)
	};

	*fd = -1;
	if (recvmsg(from, &m, 0) != sizeof(*what))
		return false;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
			memcpy(fd, CMSG_DATA(c), sizeof(*fd));
	return true;
}

static CUresult receive(const struct parcel *what, int fd, struct piece *p)
{
	CUresult r;

	p->bytes = what->bytes;
	if (fd < 0)
		return cu.cuIpcOpenMemHandle_v2(&p->ptr, what->ipc, 1 /* lazy peer access */);
	r = cu.cuMemImportFromShareableHandle(&p->handle, (void *)(intptr_t)fd,
					      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	close(fd);
	return r ? r : vmm_map(p, p->bytes);
}

static void second_process(const struct options *o, int from)
{
	static struct piece pieces[MAX_PIECES];
	struct parcel what;
	size_t n = 0;
	bool ipc = false;

	open_card(o);
	works_still();
	if (write(from, "", 1) != 1) /* ready: what its context costs is not the path's */
		_exit(1);
	for (int fd; receive_parcel(from, &what, &fd);) {
		CUresult r = CUDA_SUCCESS;

		if (what.bytes == 0 && n > 0)
			r = ipc ? cu.cuIpcCloseMemHandle(pieces[--n].ptr) : give_vmm(&pieces[--n]);
		else if (n < MAX_PIECES) {
			ipc = fd < 0;
			r = receive(&what, fd, &pieces[n]);
			n += r == CUDA_SUCCESS;
		}
		if (write(from, &r, sizeof(r)) != sizeof(r))
			break;
	}
	_exit(0);
}

static CUresult hand_over(const struct parcel *what, int fd)
{
	CUresult r = CUDA_ERROR_OPERATING_SYSTEM;

	if (!send_parcel(what, fd) || read(hold.peer, &r, sizeof(r)) != sizeof(r))
		return CUDA_ERROR_OPERATING_SYSTEM;
	return r;
}

static CUresult take_ipc(struct piece *p, uint64_t n)
{
	struct parcel what = { .bytes = n };
	CUresult r = cu.cuMemAlloc_v2(&p->ptr, n);

	if (r != CUDA_SUCCESS)
		return r;
	r = cu.cuIpcGetMemHandle(&what.ipc, p->ptr);
	if (r == CUDA_SUCCESS)
		r = hand_over(&what, -1);
	if (r != CUDA_SUCCESS)
		cu.cuMemFree_v2(p->ptr);
	return r;
}

static CUresult give_ipc(struct piece *p)
{
	CUresult r = hand_over(&(struct parcel){ 0 }, -1);

	return r ? r : cu.cuMemFree_v2(p->ptr);
}

/* The maker lets go of the memory as soon as the other has it: who holds it must be charged. */
static CUresult take_export(struct piece *p, uint64_t n)
{
	struct parcel what = { .bytes = n };
	int fd = -1;
	CUresult r = vmm_create(p, n, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);

	if (r != CUDA_SUCCESS)
		return r;
	r = cu.cuMemExportToShareableHandle(&fd, p->handle,
					    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	if (r == CUDA_SUCCESS)
		r = hand_over(&what, fd);
	if (fd >= 0)
		close(fd);
	cu.cuMemRelease(p->handle);
	return r;
}

static CUresult give_export(struct piece *p)
{
	(void)p;
	return hand_over(&(struct parcel){ 0 }, -1);
}

struct path {
	const char *name;
	CUresult (*take)(struct piece *, uint64_t);
	CUresult (*give)(struct piece *);
	CUresult (*open)(void);
	void (*close)(void);  /* also gives back what the driver keeps idle */
	uint64_t least, most; /* bytes of one piece; 0: 2 MiB, a sixteenth of the cap */
	bool second;	      /* needs a second process */
};

static const struct path paths[] = {
	{ .name = "cuMemAlloc", .take = take_plain, .give = give_plain },
	{ .name = "cuMemAllocPitch", .take = take_pitch, .give = give_plain },
	{ .name = "cuMemAllocManaged", .take = take_managed, .give = give_plain },
	{ .name = "cuMemAllocAsync",
	  .take = take_async,
	  .give = give_async,
	  .close = trim_default_pool },
	{ .name = "cuMemAllocAsync_ptsz",
	  .take = take_ptsz,
	  .give = give_ptsz,
	  .close = trim_default_pool },
	{ .name = "pool, the default",
	  .take = take_pool,
	  .give = give_async,
	  .open = open_default_pool,
	  .close = trim_default_pool },
	{ .name = "pool, its own",
	  .take = take_pool,
	  .give = give_async,
	  .open = open_own_pool,
	  .close = close_own_pool },
	{ .name = "cuMemCreate + map", .take = take_vmm, .give = give_vmm },
	{ .name = "cuMemCreate, map, release", .take = take_vmm_released, .give = give_vmm_mapped },
	{ .name = "array 1D", .take = take_array1d, .give = give_array, .most = 2 * MIB },
	{ .name = "array 2D", .take = take_array2d, .give = give_array },
	{ .name = "array 3D", .take = take_array3d, .give = give_array, .least = 4 * MIB },
	{ .name = "array layered", .take = take_layered, .give = give_array, .least = 4 * MIB },
	{ .name = "mipmap", .take = take_mipmap, .give = give_mipmap },
	{ .name = "graph node", .take = take_graph_node, .give = give_graph, .close = trim_graphs },
	{ .name = "captured cuMemAllocAsync",
	  .take = take_captured,
	  .give = give_graph,
	  .close = trim_graphs },
	{ .name = "IPC, second process", .take = take_ipc, .give = give_ipc, .second = true },
	{ .name = "VMM export, second process",
	  .take = take_export,
	  .give = give_export,
	  .second = true },
	{ .name = "module variable", .take = take_module, .give = give_module },
	{ .name = "contexts", .take = take_context, .give = give_context },
};

static uint64_t free_bytes(void)
{
	size_t f = 0, t = 0;

	cu.cuMemGetInfo_v2(&f, &t);
	return f;
}

/* Steps grow smaller after a refusal, down to the least, so that the end is found closely. */
static CUresult fill(const struct path *p, uint64_t limit, uint64_t step, struct piece *pieces,
		     size_t *ret_n, uint64_t *ret_got)
{
	uint64_t least = p->least ? p->least : 2 * MIB;
	CUresult r = CUDA_SUCCESS, why = CUDA_SUCCESS;

	while (*ret_got + step <= limit && *ret_n < MAX_PIECES) {
		memset(&pieces[*ret_n], 0, sizeof(*pieces));
		pieces[*ret_n].bytes = step;
		r = p->take(&pieces[*ret_n], step);
		if (r == CUDA_SUCCESS) {
			*ret_got += pieces[(*ret_n)++].bytes;
			continue;
		}
		why = r;
		if (r != CUDA_ERROR_OUT_OF_MEMORY || step / 2 < least || p->take == take_context)
			break;
		step = step / 2 / least * least;
	}
	return why;
}

static void try_path(const struct options *o, const struct path *p)
{
	static struct piece pieces[MAX_PIECES];
	uint64_t before, peak, got = 0, limit = o->cap + o->cap / 4;
	uint64_t least = p->least ? p->least : 2 * MIB, step = p->most ? p->most : o->cap / 16;
	CUresult why, given_back = CUDA_SUCCESS;
	size_t n = 0;
	bool small;
	double us;
	char ready;

	step = step < least ? least : step / least * least;
	if (p->take == take_context)
		step = 512 * MIB; /* about what one costs; never more than a few */
	open_card(o);
	must(cu.cuStreamCreate(&hold.stream, CU_STREAM_NON_BLOCKING), "create a stream");
	works_still(); /* what the first allocation brings along is not this path's */
	if (p->second && read(hold.peer, &ready, 1) != 1)
		must(CUDA_ERROR_OPERATING_SYSTEM, "the second process");
	before = free_bytes();
	why = p->open ? p->open() : CUDA_SUCCESS;
	us = now_s();
	if (why == CUDA_SUCCESS)
		why = fill(p, limit, step, pieces, &n, &got);
	us = (now_s() - us) * 1e6 / (double)(n + 1);
	peak = free_bytes();
	if (n > 0)
		given_back = p->give(&pieces[--n]);
	small = works_still();
	while (n > 0 && given_back == CUDA_SUCCESS)
		given_back = p->give(&pieces[--n]);
	if (p->close)
		p->close();
	printf("{\"path\":\"%s\",\"got\":%llu,\"refused\":%s,\"error\":\"%s\",\"works_after\":%s,"
	       "\"free_error\":\"%s\",\"free_before\":%llu,\"seen_used\":%lld,\"not_back\":%lld,"
	       "\"us_each\":%.1f}\n",
	       p->name, (unsigned long long)got, why ? "true" : "false", error_name(why),
	       small ? "true" : "false", error_name(given_back), (unsigned long long)before,
	       (long long)(before - peak), (long long)(before - free_bytes()), us);
	fflush(stdout);
}

static void path_process(const struct options *o, const struct path *p)
{
	int pair[2];
	pid_t second = 0;

	bounded(60);
	if (p->second) {
		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0 ||
		    (second = fork()) < 0)
			need(NULL);
		if (second == 0) {
			bounded(60);
			close(pair[0]);
			second_process(o, pair[1]);
		}
		close(pair[1]);
		hold.peer = pair[0];
	}
	try_path(o, p);
	if (second > 0) {
		close(hold.peer);
		waitpid(second, NULL, 0);
	}
	exit(0);
}

/* Every path in a process of its own: none inherits what another left. */
static int memory(const struct options *o)
{
	int status, failed = 0;

	if (!given((double)o->cap, "cap"))
		return 2;
	for (size_t i = 0; i < COUNT(paths); i++) {
		pid_t pid;

		if (o->only && strcmp(o->only, paths[i].name) != 0)
			continue;
		fflush(stdout);
		pid = fork();
		if (pid < 0)
			need(NULL);
		if (pid == 0)
			path_process(o, &paths[i]);
		if (waitpid(pid, &status, 0) == pid && status == 0)
			continue;
		printf("{\"path\":\"%s\",\"got\":0,\"refused\":true,\"error\":\"ended with status "
		       "%d\"}\n",
		       paths[i].name, status);
		failed++;
	}
	return failed > 0;
}

/* --- stress --- */

/* Shared by all processes of a stress run. */
struct tally {
	_Atomic uint64_t allocs, frees, oom, other, live, peak;
	_Atomic int first_other;
};

enum { SLOTS = 64 };

static struct tally *tally;
static double stress_end;
static uint64_t stress_budget; /* bytes one thread wants to hold */

static void stress_note(CUresult r)
{
	int none = 0;

	if (r == CUDA_ERROR_OUT_OF_MEMORY) {
		atomic_fetch_add(&tally->oom, 1);
		return;
	}
	atomic_fetch_add(&tally->other, 1);
	atomic_compare_exchange_strong(&tally->first_other, &none, r);
}

static void stress_free(CUdeviceptr p, uint64_t bytes, bool async, CUstream s)
{
	CUresult r;

	atomic_fetch_sub(&tally->live, bytes);
	r = async ? cu.cuMemFreeAsync(p, s) : cu.cuMemFree_v2(p);
	if (r == CUDA_SUCCESS)
		atomic_fetch_add(&tally->frees, 1);
	else
		stress_note(r);
}

static bool stress_alloc(CUdeviceptr *p, uint64_t bytes, bool async, CUstream s)
{
	CUresult r = async ? cu.cuMemAllocAsync(p, bytes, s) : cu.cuMemAlloc_v2(p, bytes);
	uint64_t live, peak;

	if (r != CUDA_SUCCESS) {
		stress_note(r);
		return false;
	}
	atomic_fetch_add(&tally->allocs, 1);
	live = atomic_fetch_add(&tally->live, bytes) + bytes;
	for (peak = atomic_load(&tally->peak); live > peak;)
		if (atomic_compare_exchange_weak(&tally->peak, &peak, live))
			break;
	return true;
}

static void *stress_thread(void *arg)
{
	struct {
		CUdeviceptr p;
		uint64_t bytes;
		bool async;
	} slots[SLOTS] = { 0 };
	uint64_t seed = (uint64_t)(uintptr_t)arg * 0x9e3779b97f4a7c15 + 1, mine = 0;
	CUstream s;

	if (cu.cuCtxSetCurrent(card.ctx) || cu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING)) {
		stress_note(CUDA_ERROR_INVALID_CONTEXT);
		return NULL;
	}
	while (now_s() < stress_end) {
		size_t i;
		uint64_t bytes;

		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		i = seed % SLOTS;
		if ((seed >> 50) % 64 == 0) /* what was freed in order comes back now */
			cu.cuStreamSynchronize(s);
		if (slots[i].bytes) {
			stress_free(slots[i].p, slots[i].bytes, slots[i].async, s);
			mine -= slots[i].bytes;
			slots[i].bytes = 0;
			continue;
		}
		/* Sizes over all magnitudes: most are small, most bytes are in large ones. */
		bytes = (stress_budget / 8 >> ((seed >> 20) % 8)) + 512;
		slots[i].async = (seed >> 40) % 2;
		if (mine + bytes > stress_budget ||
		    !stress_alloc(&slots[i].p, bytes, slots[i].async, s))
			continue;
		slots[i].bytes = bytes;
		mine += bytes;
	}
	for (size_t i = 0; i < SLOTS; i++)
		if (slots[i].bytes)
			stress_free(slots[i].p, slots[i].bytes, slots[i].async, s);
	cu.cuStreamSynchronize(s);
	return NULL;
}

static void stress_process(const struct options *o, long index)
{
	pthread_t threads[256];
	long n;

	bounded((unsigned)o->seconds + 60);
	open_card(o);
	stress_end = now_s() + o->seconds;
	for (n = 0; n < o->threads; n++)
		if (pthread_create(&threads[n], NULL, stress_thread,
				   (void *)(uintptr_t)(index * 1000 + n + 1)) != 0)
			break;
	for (long i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	exit(n == o->threads ? 0 : 1);
}

static int stress(const struct options *o)
{
	long failed = 0, started = 0;
	int status;

	if (!given((double)o->processes, "processes") || !given((double)o->threads, "threads") ||
	    !given(o->seconds, "seconds") || !given((double)o->max, "max"))
		return 2;
	tally = mmap(NULL, sizeof(*tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (tally == MAP_FAILED)
		need(NULL);
	stress_budget = (o->max + o->max / 2) / (uint64_t)(o->processes * o->threads);
	for (; started < o->processes; started++) {
		pid_t pid = fork();

		if (pid < 0)
			break;
		if (pid == 0)
			stress_process(o, started);
	}
	for (long i = 0; i < started; i++)
		if (wait(&status) < 0 || status != 0)
			failed++;
	load_driver();
	printf("{\"processes\":%ld,\"threads\":%ld,\"seconds\":%g,\"max\":%llu,\"allocs\":%llu,"
	       "\"frees\":%llu,\"out_of_memory\":%llu,\"other_errors\":%llu,\"first_other\":\"%s\","
	       "\"peak_live\":%llu,\"live_at_end\":%llu,\"failed_processes\":%ld}\n",
	       started, o->threads, o->seconds, (unsigned long long)o->max,
	       (unsigned long long)tally->allocs, (unsigned long long)tally->frees,
	       (unsigned long long)tally->oom, (unsigned long long)tally->other,
	       error_name(tally->first_other), (unsigned long long)tally->peak,
	       (unsigned long long)tally->live, failed + (o->processes - started));
	return tally->other > 0 || failed > 0 || started < o->processes;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(const struct options *);
	} commands[] = { { "calibrate", calibrate }, { "run", run },	   { "latency", latency },
			 { "overhead", overhead },   { "memory", memory }, { "stress", stress },
			 { "init", init_only } };
	struct options o = { .depth = -1 };

	if (argc < 2)
		return usage(stderr);
	for (size_t i = 0; i < COUNT(commands); i++) {
		if (strcmp(argv[1], commands[i].name) != 0)
			continue;
		command = commands[i].name;
		if (!parse(argc - 1, argv + 1, &o))
			return usage(stderr);
		return commands[i].run(&o);
	}
	fprintf(stderr, "gpu_load: there is no command \"%s\"\n", argv[1]);
	return usage(stderr);
}
