/* The library's own sources in one program with an arbiter, built for the thread sanitizer: threads
 * launch, wait, capture, copy, allocate and free on a simulated card by every path at once. The sanitizer
 * ends the program with an error if any two of them race.
 *
 * What would be the dynamic linker's part (real.c, lookup.c) is here: the hooks are linked, the driver
 * is loaded. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fence/fence.h"
#include "fence/server.h"
#include "sim/sim.h"

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "races: line %d: %s\n", __LINE__, #cond);                  \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)
#define OK(call)                                                                                   \
	do {                                                                                       \
		CUresult r_ = (call);                                                              \
		if (r_ != CUDA_SUCCESS) {                                                          \
			fprintf(stderr, "races: line %d: %s is %d\n", __LINE__, #call, r_);        \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)
/* What does not fit or is not there is none of our business here. */
#define TRY(call) ((call) == CUDA_SUCCESS)

/* The simulated driver is not instrumented, and takes its locks by a call the sanitizer does not know. */
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
	return "mutex:libcuda.so.1\n";
}

/* --- in place of real.c and lookup.c --- */

#define NAME(sym, ...) [RF_SYM_##sym] = #sym,
static const char *const names[RF_SYM_COUNT] = { RF_CUDA_SYMBOLS(NAME, NAME, NAME)
							 RF_NVML_SYMBOLS(NAME, NAME, NAME) };
static void *cuda, *nvml;
void *rf_reals[RF_SYM_COUNT];

static CUresult missing(void)
{
	return CUDA_ERROR_NOT_FOUND;
}

static void load_drivers(void)
{
	cuda = dlopen(SIM_LIB_DIR "/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	nvml = dlopen(SIM_LIB_DIR "/libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	CHECK(cuda && nvml);
	for (int i = 0; i < RF_SYM_COUNT; i++)
		rf_reals[i] = dlsym(i >= RF_SYM_NVML_FIRST ? nvml : cuda, names[i]);
}

void *rf_real_or_null(enum rf_symbol_id id, bool load)
{
	return rf_reals[id];
}

void *rf_real(enum rf_symbol_id id)
{
	return rf_reals[id] ? rf_reals[id] : (void *)missing;
}

#define CU(name) ((__typeof__(&name))dlsym(cuda, #name))

/* --- the agent, in this process too --- */

static struct rf_arbiter *arbiter;
static struct rf_fence_server *server;
static struct rf_fence_limits limits;
static int held_fd;
static bool stop; /* atomic */

static bool stopped(void)
{
	return __atomic_load_n(&stop, __ATOMIC_RELAXED);
}

static void nap(long us)
{
	nanosleep(&(struct timespec){ .tv_nsec = us * 1000 }, NULL);
}

/* The arbiter asks whether seats are taken, and nobody sees his own locks: another process holds them. */
static pid_t hold_seats(void)
{
	struct flock all = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = RF_LEDGER_SEATS };
	int ready[2];
	char c;
	pid_t pid;

	held_fd = open("held", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK(held_fd >= 0 && pipe(ready) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		alarm(60);
		if (fcntl(held_fd, F_SETLK, &all) < 0 || write(ready[1], "r", 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	CHECK(read(ready[0], &c, 1) == 1);
	close(ready[0]);
	close(ready[1]);
	return pid;
}

static void give_gate(void)
{
	int id, gate, desk;

	CHECK(rf_arbiter_start(&arbiter) == 0);
	CHECK(rf_arbiter_add(arbiter, &limits, held_fd, &id, &gate, &desk) == 0);
	CHECK(rf_fence_server_set_gate(server, gate, desk) == 0);
}

/* Once in between the arbiter goes and another comes. */
static void *serve(void *arg)
{
	for (int i = 0; !stopped(); i++) {
		struct rf_fence_usage u;

		rf_fence_server_turn(server);
		rf_fence_server_usage(server, 0, &u);
		nap(2000);
		if (i != 250)
			continue;
		rf_arbiter_stop(arbiter);
		give_gate();
	}
	return NULL;
}

/* --- what threads do --- */

static CUcontext ctx;
static CUfunction fn;

static void launch(CUstream s)
{
	OK(cuLaunchKernel(fn, 1, 1, 1, 32, 1, 1, 0, s, NULL, NULL));
}

static void *launches(void *arg)
{
	CUstream s;

	OK(CU(cuCtxSetCurrent)(ctx));
	for (unsigned i = 0; !stopped(); i++) {
		OK(CU(cuStreamCreate)(&s, CU_STREAM_NON_BLOCKING));
		for (int j = 0; j < 20; j++)
			launch(s);
		(void)TRY(cuStreamSynchronize(s));
		OK(cuLaunchKernel_ptsz(fn, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
		(void)TRY(cuStreamSynchronize_ptsz(NULL));
		OK(cuStreamDestroy_v2(s));
	}
	return NULL;
}

static void *captures(void *arg)
{
	CUgraph graph;
	CUgraphExec exec;
	CUstream s;

	OK(CU(cuCtxSetCurrent)(ctx));
	OK(CU(cuStreamCreate)(&s, CU_STREAM_NON_BLOCKING));
	while (!stopped()) {
		OK(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
		launch(s);
		launch(s);
		OK(cuStreamEndCapture(s, &graph));
		OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
		for (int i = 0; i < 3; i++)
			OK(cuGraphLaunch(exec, s));
		OK(cuStreamSynchronize(s));
		OK(cuGraphExecDestroy(exec));
		OK(CU(cuGraphDestroy)(graph));
	}
	return NULL;
}

static void virtual_memory(void)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUmemGenericAllocationHandle h;

	if (TRY(cuMemCreate(&h, 2 << 20, &prop, 0)))
		OK(cuMemRelease(h));
}

static void *memory(void *arg)
{
	CUstream s;

	OK(CU(cuCtxSetCurrent)(ctx));
	OK(CU(cuStreamCreate)(&s, CU_STREAM_NON_BLOCKING));
	for (unsigned i = 0; !stopped(); i++) {
		CUdeviceptr p = 0, q = 0;
		size_t pitch, f, t;
		char host[64];

		OK(cuMemAlloc_v2(&p, 3 << 20));
		OK(cuMemAllocAsync(&q, 1 << 20, s));
		OK(cuMemsetD8Async(q, 0, 4096, s));
		OK(cuMemcpyDtoDAsync_v2(p, q, 4096, s));
		OK(cuMemcpyDtoH_v2(host, p, sizeof(host)));
		OK(cuMemFreeAsync(q, s));
		OK(cuMemFree_v2(p));
		OK(cuMemAllocPitch_v2(&p, &pitch, 1000, 10, 4));
		OK(cuMemFree_v2(p));
		OK(cuMemAllocManaged(&p, 1 << 20, CU_MEM_ATTACH_GLOBAL));
		OK(cuMemFree_v2(p));
		virtual_memory();
		OK(cuMemGetInfo_v2(&f, &t));
		CHECK(f <= t);
		if (i % 16 == 0)
			OK(cuStreamSynchronize(s));
	}
	return NULL;
}

static void *modules(void *arg)
{
	static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
				  ".visible .global .align 4 .b8 room[4096];\n";
	CUcontext own;

	while (!stopped()) {
		CUmodule mod;

		OK(cuCtxCreate_v2(&own, 0, 0));
		OK(cuModuleLoadData(&mod, ptx));
		launch(NULL);
		OK(cuCtxSynchronize());
		OK(cuModuleUnload(mod));
		OK(cuCtxDestroy_v2(own));
		nap(5000);
	}
	return NULL;
}

static void set_up(void)
{
	struct rf_fence_card card = { .memory_bytes = 4ull << 30, .compute_milli = 600 };
	struct rf_sim_card_info info;
	struct rf_err err = RF_ERR_INIT;
	size_t n;

	CHECK(rf_sim_machine_create("sim", rf_str("1xH200"), NULL, &err) == 0);
	CHECK(rf_sim_machine_cards("sim", &info, 1, &n, &err) == 0);
	snprintf(card.uuid, sizeof(card.uuid), "%s", info.uuid);
	CHECK(rf_fence_limits_fill(&limits, &card, 1, &err) == 0);
	CHECK(rf_fence_server_start(".", "ledger", &card, 1, NULL, &server, &err) == 0);
	give_gate();
	setenv("RINGFENCE_SIM", "sim", 1);
	load_drivers();
}

static void set_up_card(void)
{
	CUmodule mod;

	OK(cuInit(0));
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	OK(cuModuleLoadData(&mod, "// ringfence-sim: kernel=work ns=200000\n.version 7.0\n"));
	OK(CU(cuModuleGetFunction)(&fn, mod, "work"));
}

int main(void)
{
	static void *(*const does[])(void *) = { launches, launches, captures, memory,
						 memory,   modules,  launches };
	char folder[] = "/tmp/ringfence-races-XXXXXX";
	struct rf_err err = RF_ERR_INIT;
	pthread_t thread[RF_COUNT(does)], agent;
	pid_t holder;

	CHECK(mkdtemp(folder) && chdir(folder) == 0);
	alarm(100);
	holder = hold_seats();
	set_up();
	CHECK(pthread_create(&agent, NULL, serve, NULL) == 0);
	set_up_card();
	for (size_t i = 0; i < RF_COUNT(does); i++)
		CHECK(pthread_create(&thread[i], NULL, does[i], NULL) == 0);
	for (int i = 0; i < 30; i++)
		nap(100000);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (size_t i = 0; i < RF_COUNT(does); i++)
		pthread_join(thread[i], NULL);
	pthread_join(agent, NULL);
	OK(cuCtxDestroy_v2(ctx));
	rf_fence_server_stop(server);
	rf_arbiter_stop(arbiter);
	kill(holder, SIGKILL);
	waitpid(holder, NULL, 0);
	rf_sim_machine_remove("sim", &err);
	unlink("held");
	unlink("ledger");
	CHECK(chdir("/") == 0 && rmdir(folder) == 0);
	printf("1..1\nok 1 - no races\n");
	return 0;
}
