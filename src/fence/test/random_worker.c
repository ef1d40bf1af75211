/* A program inside a fence that uses memory in every way there is, at random; see ../test_fence_random.c.
 *
 *   random_worker seed threads milliseconds how number
 *
 * how: "all"; "imports": handles of cuMemCreate are imported too; "plain": plain and stream-ordered
 * allocations alone. What is refused is not an error,
 * nor is what another process has taken back by the time it is opened. Handles go from process to process
 * over the file `board`, descriptors over /proc. */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fence/cuda_more.h"
#include "fence/test/random_board.h"

#define MIB ((uint64_t)1 << 20)
#define CU(name)                                                                                   \
	({                                                                                         \
		static __typeof__(&name) fn_;                                                      \
		if (!fn_)                                                                          \
			fn_ = (__typeof__(&name))symbol(#name);                                    \
		fn_;                                                                               \
	})

static void *symbol(const char *name)
{
	static void *lib;
	void *p;

	if (!lib)
		lib = dlopen("libcuda.so.1", RTLD_NOW);
	p = lib ? dlsym(lib, name) : NULL;
	if (!p) {
		fprintf(stderr, "random_worker: no %s\n", name);
		_exit(3);
	}
	return p;
}

enum kind {
	NOTHING,
	PLAIN,
	PITCH,
	MANAGED,
	ASYNC,
	OWN_POOL,
	HANDLE, /* of cuMemCreate, mapped */
	ARRAY,
	MIPMAP,
	GRAPH,
	CONTEXT,
	MODULE,
	OPENED,	  /* an IPC handle */
	IMPORTED, /* a handle of cuMemCreate */
	POINTER,  /* of another process's pool */
	KINDS
};

struct thing {
	enum kind kind;
	uint64_t bytes;
	CUdeviceptr ptr;
	CUmemGenericAllocationHandle handle;
	CUarray array;
	CUmipmappedArray mipmap;
	CUgraph graph;
	CUgraphExec exec;
	CUcontext ctx;
	CUmodule module;
	CUmemoryPool pool;
	int fd;
};

#define SLOTS 12

struct worker {
	uint64_t seed;
	CUstream stream;
	CUcontext ctx;
	CUmemoryPool pool;
	int pool_fd;
	bool plain, imports;
	struct thing things[SLOTS];
};

static struct board *board;
static unsigned shelf;
static uint64_t async_bytes; /* one size per process: a pool never lies in pieces that fit nobody */
static int64_t end_ns;

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static uint64_t dice(struct worker *w, uint64_t n)
{
	w->seed = w->seed * 6364136223846793005ull + 1442695040888963407ull;
	return (w->seed >> 33) % n;
}

static void must(CUresult r, const char *what)
{
	if (r == CUDA_SUCCESS)
		return;
	fprintf(stderr, "random_worker %d: %s: error %d\n", getpid(), what, r);
	_exit(1);
}

/* Refused, or anything else that may happen to a call that takes memory. */
static bool got(CUresult r, const char *what)
{
	if (r != CUDA_SUCCESS && r != CUDA_ERROR_OUT_OF_MEMORY)
		must(r, what);
	return r == CUDA_SUCCESS;
}

/* Small ones share pages. */
static uint64_t some_bytes(struct worker *w)
{
	if (dice(w, 3) == 0)
		return 1 + dice(w, 1 << dice(w, 21));
	return MIB + 1 + dice(w, (1 << dice(w, 7)) * MIB);
}

/* --- the board --- */

static void post(struct worker *w, enum kind kind, const struct thing *t, const void *blob, int fd)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	struct note n = { .kind = kind, .bytes = t->bytes, .pid = getpid(), .fd = fd };

	memcpy(n.blob, blob, sizeof(n.blob));
	pthread_mutex_lock(&lock);
	board_write(&board->place[shelf * SHELF + dice(w, SHELF)], &n);
	pthread_mutex_unlock(&lock);
}

/* A descriptor of another process, which may be gone. */
static int fetch(const struct note *n)
{
	static const char memory[] = "/memfd:";
	char path[64], what[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", n->pid, n->fd);
	/* To open and close a file that has locks of this process would drop them. */
	if (readlink(path, what, sizeof(what)) < (ssize_t)sizeof(memory) ||
	    memcmp(what, memory, sizeof(memory) - 1) != 0)
		return -1;
	return open(path, O_RDWR | O_CLOEXEC);
}

static bool open_ipc(struct thing *t, const struct note *n)
{
	CUipcMemHandle handle;

	memcpy(&handle, n->blob, sizeof(handle));
	t->kind = OPENED;
	return CU(cuIpcOpenMemHandle_v2)(&t->ptr, handle, 1) == CUDA_SUCCESS;
}

static bool import_handle(struct thing *t, const struct note *n)
{
	int fd = fetch(n);
	CUresult r;

	if (fd < 0)
		return false;
	r = CU(cuMemImportFromShareableHandle)(&t->handle, (void *)(intptr_t)fd,
					       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	close(fd);
	t->kind = IMPORTED;
	return r == CUDA_SUCCESS;
}

static bool import_pointer(struct thing *t, const struct note *n)
{
	CUmemPoolPtrExportData data;
	int fd = fetch(n);
	CUresult r;

	if (fd < 0)
		return false;
	r = CU(cuMemPoolImportFromShareableHandle)(&t->pool, (void *)(intptr_t)fd,
						   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	close(fd);
	if (r != CUDA_SUCCESS)
		return false;
	memcpy(&data, n->blob, sizeof(data));
	t->kind = POINTER;
	if (CU(cuMemPoolImportPointer)(&t->ptr, t->pool, &data) == CUDA_SUCCESS)
		return true;
	CU(cuMemPoolDestroy)(t->pool);
	return false;
}

static bool take_from_board(struct worker *w, struct thing *t)
{
	struct note n;

	if (!board_read(&board->place[dice(w, BOARD)], &n) || n.pid == getpid())
		return false;
	switch (n.kind) {
	case PLAIN:
		return open_ipc(t, &n);
	case HANDLE:
		return w->imports && import_handle(t, &n);
	case OWN_POOL:
		return import_pointer(t, &n);
	default:
		return false;
	}
}

/* --- taking --- */

static bool take_plain(struct worker *w, struct thing *t)
{
	CUipcMemHandle handle;

	if (!got(CU(cuMemAlloc_v2)(&t->ptr, t->bytes), "cuMemAlloc"))
		return false;
	if (!w->plain && dice(w, 2) && CU(cuIpcGetMemHandle)(&handle, t->ptr) == CUDA_SUCCESS)
		post(w, PLAIN, t, &handle, -1);
	return true;
}

static CUmemAllocationProp props(void)
{
	return (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
	};
}

static bool take_handle(struct worker *w, struct thing *t)
{
	CUmemAllocationProp p = props();
	char blob[64] = { 0 };

	t->fd = -1;
	t->bytes = (t->bytes + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
	if (!got(CU(cuMemCreate)(&t->handle, t->bytes, &p, 0), "cuMemCreate"))
		return false;
	must(CU(cuMemAddressReserve)(&t->ptr, t->bytes, 0, 0, 0), "cuMemAddressReserve");
	must(CU(cuMemMap)(t->ptr, t->bytes, 0, t->handle, 0), "cuMemMap");
	if (dice(w, 2) && CU(cuMemExportToShareableHandle)(&t->fd, t->handle,
							   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
							   0) == CUDA_SUCCESS)
		post(w, HANDLE, t, blob, t->fd);
	must(CU(cuMemRelease)(t->handle), "cuMemRelease"); /* the mapping keeps it */
	return true;
}

static bool take_own_pool(struct worker *w, struct thing *t)
{
	CUmemPoolPtrExportData data;

	t->bytes = async_bytes;
	if (!got(CU(cuMemAllocFromPoolAsync)(&t->ptr, t->bytes, w->pool, w->stream),
		 "cuMemAllocFromPoolAsync"))
		return false;
	if (dice(w, 2) && CU(cuMemPoolExportPointer)(&data, t->ptr) == CUDA_SUCCESS)
		post(w, OWN_POOL, t, &data, w->pool_fd);
	return true;
}

static bool take_array(struct worker *w, struct thing *t)
{
	CUDA_ARRAY3D_DESCRIPTOR d = { .Width = 1024 + dice(w, 1024),
				      .Height = 128 + dice(w, 2048),
				      .Format = CU_AD_FORMAT_FLOAT,
				      .NumChannels = 4 };

	/* The simulated driver keeps each level by itself: of whole pages here. */
	if (t->kind == MIPMAP) {
		d.Width = 1024;
		d.Height = 2048 * (1 + dice(w, 2));
		return got(CU(cuMipmappedArrayCreate)(&t->mipmap, &d, 3), "mipmap");
	}
	d.Depth = dice(w, 2) ? 0 : 1 + dice(w, 4);
	return got(CU(cuArray3DCreate_v2)(&t->array, &d), "array");
}

static bool take_graph(struct worker *w, struct thing *t)
{
	CUDA_MEM_ALLOC_NODE_PARAMS p = {
		.poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			       .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } },
		.bytesize = t->bytes,
	};
	CUgraphNode node;

	must(CU(cuGraphCreate)(&t->graph, 0), "cuGraphCreate");
	must(CU(cuGraphAddMemAllocNode)(&node, t->graph, NULL, 0, &p), "allocation node");
	t->ptr = p.dptr;
	if (got(CU(cuGraphInstantiateWithFlags)(&t->exec, t->graph, 0), "instantiate")) {
		if (got(CU(cuGraphLaunch)(t->exec, w->stream), "cuGraphLaunch"))
			return true;
		must(CU(cuGraphExecDestroy)(t->exec), "cuGraphExecDestroy");
	}
	must(CU(cuGraphDestroy)(t->graph), "cuGraphDestroy");
	return false;
}

static bool take_module(struct thing *t)
{
	char image[256];

	snprintf(image, sizeof(image),
		 ".version 6.0\n.target sm_50\n.address_size 64\n"
		 ".visible .global .align 16 .b8 big[%llu];\n",
		 (unsigned long long)t->bytes);
	return got(CU(cuModuleLoadData)(&t->module, image), "cuModuleLoadData");
}

static bool take_context(struct worker *w, struct thing *t)
{
	bool ok = got(CU(cuCtxCreate_v2)(&t->ctx, 0, 0), "cuCtxCreate");

	if (ok && dice(w, 2)) { /* with something in it, which goes along */
		CUdeviceptr p;

		got(CU(cuMemAlloc_v2)(&p, t->bytes), "cuMemAlloc in a context");
	}
	if (ok)
		must(CU(cuCtxPopCurrent_v2)(&t->ctx), "cuCtxPopCurrent");
	return ok;
}

static bool take(struct worker *w, struct thing *t)
{
	size_t pitch;

	t->bytes = some_bytes(w);
	switch (t->kind) {
	case PLAIN:
		return take_plain(w, t);
	case PITCH:
		return got(CU(cuMemAllocPitch_v2)(&t->ptr, &pitch, 700 + dice(w, 9000),
						  dice(w, 2) ? 2048 + dice(w, 999) : 1 + dice(w, 2000), 4),
			   "pitch");
	case MANAGED:
		return got(CU(cuMemAllocManaged)(&t->ptr, t->bytes, 1), "cuMemAllocManaged");
	case ASYNC:
		return got(CU(cuMemAllocAsync)(&t->ptr, async_bytes, w->stream), "cuMemAllocAsync");
	case OWN_POOL:
		return take_own_pool(w, t);
	case HANDLE:
		return take_handle(w, t);
	case ARRAY:
	case MIPMAP:
		return take_array(w, t);
	case GRAPH:
		return take_graph(w, t);
	case CONTEXT:
		return take_context(w, t);
	case MODULE:
		return take_module(t);
	default:
		return take_from_board(w, t);
	}
}

/* --- giving back --- */

static void give_handle(struct thing *t)
{
	must(CU(cuMemUnmap)(t->ptr, t->bytes), "cuMemUnmap");
	must(CU(cuMemAddressFree)(t->ptr, t->bytes), "cuMemAddressFree");
	if (t->fd >= 0)
		close(t->fd);
}

static void give(struct worker *w, struct thing *t)
{
	switch (t->kind) {
	case PLAIN:
	case PITCH:
	case MANAGED:
		must(CU(cuMemFree_v2)(t->ptr), "cuMemFree");
		break;
	case ASYNC:
	case OWN_POOL:
		must(CU(cuMemFreeAsync)(t->ptr, w->stream), "cuMemFreeAsync");
		break;
	case HANDLE:
		give_handle(t);
		break;
	case ARRAY:
		must(CU(cuArrayDestroy)(t->array), "cuArrayDestroy");
		break;
	case MIPMAP:
		must(CU(cuMipmappedArrayDestroy)(t->mipmap), "cuMipmappedArrayDestroy");
		break;
	case GRAPH:
		must(CU(cuMemFreeAsync)(t->ptr, w->stream), "free what a graph left");
		must(CU(cuGraphExecDestroy)(t->exec), "cuGraphExecDestroy");
		must(CU(cuGraphDestroy)(t->graph), "cuGraphDestroy");
		break;
	case CONTEXT:
		must(CU(cuCtxDestroy_v2)(t->ctx), "cuCtxDestroy");
		break;
	case MODULE:
		must(CU(cuModuleUnload)(t->module), "cuModuleUnload");
		break;
	case OPENED:
		must(CU(cuIpcCloseMemHandle)(t->ptr), "cuIpcCloseMemHandle");
		break;
	case IMPORTED:
		must(CU(cuMemRelease)(t->handle), "release an import");
		break;
	case POINTER:
		must(CU(cuMemFree_v2)(t->ptr), "free an imported pointer");
		must(CU(cuMemPoolDestroy)(t->pool), "destroy an imported pool");
		break;
	default:
		break;
	}
	t->kind = NOTHING;
}

/* A child of fork holds nothing, and neither takes nor gives back anything of its parent's. */
static void fork_once(void)
{
	pid_t pid = fork();
	CUdeviceptr p;

	if (pid == 0)
		alarm(10);
	if (pid == 0)
		_exit(CU(cuMemAlloc_v2)(&p, 2 * MIB) == CUDA_SUCCESS);
	if (pid > 0)
		waitpid(pid, NULL, 0);
}

static void step(struct worker *w)
{
	struct thing *t = &w->things[dice(w, SLOTS)];

	if (t->kind != NOTHING) {
		give(w, t);
	} else {
		memset(t, 0, sizeof(*t));
		t->kind = w->plain ? (dice(w, 2) ? PLAIN : ASYNC)
				   : (enum kind)(1 + dice(w, KINDS - 1));
		if (!take(w, t))
			t->kind = NOTHING;
	}
	if (dice(w, 16) == 0)
		must(CU(cuStreamSynchronize)(w->stream), "cuStreamSynchronize");
	if (!w->plain && dice(w, 400) == 0)
		fork_once();
}

static void *work(void *arg)
{
	struct worker *w = arg;
	CUmemPoolProps pool = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				.location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };

	must(CU(cuCtxSetCurrent)(w->ctx), "cuCtxSetCurrent");
	must(CU(cuStreamCreate)(&w->stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
	must(CU(cuMemPoolCreate)(&w->pool, &pool), "cuMemPoolCreate");
	must(CU(cuMemPoolExportToShareableHandle)(&w->pool_fd, w->pool,
						  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
	     "export a pool");
	while (now_ns() < end_ns)
		step(w);
	for (int i = 0; i < SLOTS; i++)
		give(w, &w->things[i]);
	must(CU(cuStreamSynchronize)(w->stream), "cuStreamSynchronize");
	must(CU(cuMemPoolDestroy)(w->pool), "cuMemPoolDestroy");
	close(w->pool_fd);
	return NULL;
}

static void run_threads(uint64_t seed, int n, const char *how, CUcontext ctx)
{
	struct worker *w = calloc((size_t)n, sizeof(*w));
	pthread_t *t = calloc((size_t)n, sizeof(*t));

	for (int i = 0; w && t && i < n; i++) {
		w[i] = (struct worker){ .seed = seed * 1000003 + (uint64_t)i,
					.ctx = ctx,
					.plain = strcmp(how, "plain") == 0,
					.imports = strcmp(how, "imports") == 0 };
		if (pthread_create(&t[i], NULL, work, &w[i]) != 0)
			_exit(4);
	}
	for (int i = 0; w && t && i < n; i++)
		pthread_join(t[i], NULL);
	free(w);
	free(t);
}

/* All of the cap, to the page, is there again. */
static void take_everything(uint64_t bytes)
{
	CUdeviceptr p;

	must(CU(cuMemAlloc_v2)(&p, bytes), "the whole cap at once");
	execl("/bin/true", "true", NULL); /* which holds nothing any more */
}

/* One that lends what it has and waits for its end, and one that opens it and holds it for a while. */
static void lend(uint64_t bytes)
{
	struct note n = { .kind = PLAIN, .bytes = bytes, .pid = getpid(), .fd = -1 };
	CUdeviceptr p;

	must(CU(cuMemAlloc_v2)(&p, bytes), "cuMemAlloc");
	must(CU(cuIpcGetMemHandle)((CUipcMemHandle *)n.blob, p), "cuIpcGetMemHandle");
	board_write(&board->place[0], &n);
	pause();
}

static void borrow(void)
{
	struct thing t;
	struct note n;

	if (!board_read(&board->place[0], &n) || !open_ipc(&t, &n))
		_exit(1);
	n.kind = NOTHING; /* tells that it is open */
	board_write(&board->place[1], &n);
	pause();
}

/* Says that the card stands as it shall be looked at. */
static void stand(void)
{
	struct note n = { .kind = PLAIN, .bytes = 1, .pid = getpid(), .fd = -1 };

	board_write(&board->place[0], &n);
	alarm(60); /* should the test have failed and nobody end it */
	pause();
}

/* Whatever pages the fence still gives. */
static void take_the_rest(void)
{
	CUdeviceptr page;

	while (got(CU(cuMemAlloc_v2)(&page, 2 * MIB), "a page"))
		;
	stand();
}

/* Keeps one small allocation in each page and frees those beside it, until the cap is reached. */
static void leave_holes(uint64_t bytes)
{
	static CUdeviceptr all[1 << 16];
	size_t n = 0;

	while (n < 1 << 16 && got(CU(cuMemAlloc_v2)(&all[n], bytes), "small"))
		n++;
	for (size_t i = 1; i < n; i++)
		if (all[i] / (2 * MIB) == all[i - 1] / (2 * MIB))
			must(CU(cuMemFree_v2)(all[i]), "free a small one");
	take_the_rest();
}

/* Plain allocations of all sizes come and go at random. Then all is taken that can be had beside them. */
static void mix_sizes(struct worker *w)
{
	static CUdeviceptr all[2048];

	while (now_ns() < end_ns) {
		CUdeviceptr *p = &all[dice(w, 2048)];

		if (*p)
			must(CU(cuMemFree_v2)(*p), "free one of many");
		if (!got(CU(cuMemAlloc_v2)(p, 1 + dice(w, (uint64_t)1 << dice(w, 24))), "one of many"))
			*p = 0;
	}
	take_the_rest();
}

/* Arrays, or modules, that come and go at random. Most are ended then, and all is taken that can be had beside the rest. */
struct piece {
	CUarray array;
	CUmodule module;
};

static bool make_piece(struct worker *w, bool module, struct piece *p)
{
	/* As many bytes in tiles as row by row. */
	CUDA_ARRAY_DESCRIPTOR d = { 16 * (1 + dice(w, 87)), 128, CU_AD_FORMAT_FLOAT, 1 };
	char text[128];

	snprintf(text, sizeof(text), ".version 6.0\n.visible .global .align 4 .b8 some[%zu];\n", d.Width * 512);
	return module ? got(CU(cuModuleLoadData)(&p->module, text), "a module")
		      : got(CU(cuArrayCreate_v2)(&p->array, &d), "an array");
}

static void end_piece(struct piece *p)
{
	if (p->array)
		must(CU(cuArrayDestroy)(p->array), "end an array");
	if (p->module)
		must(CU(cuModuleUnload)(p->module), "end a module");
	*p = (struct piece){ 0 };
}

static void change_pieces(struct worker *w, bool modules)
{
	enum { MOST = 4096 };
	static struct piece all[MOST];

	while (now_ns() < end_ns) {
		struct piece *p = &all[dice(w, MOST)];

		end_piece(p);
		if (dice(w, 4) && !make_piece(w, modules, p))
			*p = (struct piece){ 0 };
	}
	for (int i = 0; i < MOST; i++)
		if (dice(w, 16))
			end_piece(&all[i]);
}

static void leave_pieces(struct worker *w, bool modules)
{
	change_pieces(w, modules);
	take_the_rest();
}

/* The same beside a thread that allocates and frees, and one that makes contexts with arrays in them. */
static void *allocate_beside(void *ctx)
{
	CUdeviceptr p;

	must(CU(cuCtxSetCurrent)(ctx), "cuCtxSetCurrent");
	while (now_ns() < end_ns)
		if (got(CU(cuMemAlloc_v2)(&p, 2 * MIB), "beside"))
			must(CU(cuMemFree_v2)(p), "beside");
	return NULL;
}

static void *contexts_beside(void *seed)
{
	struct worker w = { .seed = (uintptr_t)seed };
	struct piece p;
	CUcontext ctx;

	while (now_ns() < end_ns) {
		if (!got(CU(cuCtxCreate_v2)(&ctx, 0, 0), "a context"))
			continue;
		for (int i = 0; i < 20; i++)
			make_piece(&w, dice(&w, 2), &p);
		must(CU(cuCtxDestroy_v2)(ctx), "end a context");
	}
	return NULL;
}

static void leave_pieces_beside(struct worker *w, CUcontext ctx)
{
	pthread_t t[2];

	if (pthread_create(&t[0], NULL, allocate_beside, ctx) != 0 ||
	    pthread_create(&t[1], NULL, contexts_beside, (void *)(uintptr_t)w->seed) != 0)
		_exit(4);
	change_pieces(w, dice(w, 2));
	pthread_join(t[0], NULL);
	pthread_join(t[1], NULL);
	take_the_rest();
}

/* Modules of variables that are each too large to share a page with another. */
static void leave_large_variables(void)
{
	static const char variables[] = ".version 6.0\n.global .b8 a[1100000];\n.global .b8 b[1100000];\n"
					".global .b8 c[1100000];\n";
	CUmodule module[20];

	for (int i = 0; i < 20; i++)
		must(CU(cuModuleLoadData)(&module[i], variables), "load variables");
	for (int i = 0; i < 20; i += 2)
		must(CU(cuModuleUnload)(module[i]), "unload variables");
	take_the_rest();
}

/* Modules of files too large to be read, whose variables share pages two by two. The larger of each pair is unloaded. */
static void load_unread(CUmodule *module, unsigned bytes)
{
	int fd = memfd_create("image", 0);
	char text[128], path[32];
	int n = snprintf(text, sizeof(text), ".version 6.0\n.visible .global .align 4 .b8 some[%u];\n", bytes);

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (fd < 0 || write(fd, text, (size_t)n) != n || ftruncate(fd, (64 << 20) + 1) != 0)
		_exit(4);
	must(CU(cuModuleLoad)(module, path), "load a file");
	close(fd);
}

static void leave_unread(void)
{
	CUmodule large[20], small;

	for (int i = 0; i < 20; i++) {
		load_unread(&large[i], 1100 << 10);
		load_unread(&small, 900 << 10);
	}
	for (int i = 0; i < 20; i++)
		must(CU(cuModuleUnload)(large[i]), "unload a file");
	take_the_rest();
}

/* Buffers of external memory that is destroyed at once: its name is free then, its memory is not. */
static void keep_buffers(void)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = { .type = 1, .size = 2 * MIB };
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC part = { .size = 2 * MIB };
	CUmemAllocationProp p = props();
	CUmemGenericAllocationHandle handle;
	CUexternalMemory memory;
	CUdeviceptr at;

	while (got(CU(cuMemCreate)(&handle, 64 * MIB, &p, 0), "cuMemCreate")) {
		must(CU(cuMemExportToShareableHandle)(&desc.handle.fd, handle,
						      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
		     "cuMemExportToShareableHandle");
		if (!got(CU(cuImportExternalMemory)(&memory, &desc), "cuImportExternalMemory"))
			break;
		must(CU(cuExternalMemoryGetMappedBuffer)(&at, memory, &part), "a buffer");
		must(CU(cuDestroyExternalMemory)(memory), "cuDestroyExternalMemory");
		must(CU(cuMemRelease)(handle), "cuMemRelease");
	}
	stand();
}

/* Two threads at the same instant, again and again. */
static struct {
	CUcontext ctx;
	uint64_t round; /* atomic */
	uint64_t over;	/* atomic: the other's part of it */
	uint64_t pause[2];
	CUresult (*does)(void);
	CUmemGenericAllocationHandle handle;
	CUmemoryPool pool;
	CUdeviceptr at;
	CUresult result;
} duel;

static void spin(uint64_t n)
{
	for (volatile uint64_t i = 0; i < n; i++)
		;
}

static void *second(void *arg)
{
	must(CU(cuCtxSetCurrent)(duel.ctx), "cuCtxSetCurrent");
	for (uint64_t i = 1;; i++) {
		while (__atomic_load_n(&duel.round, __ATOMIC_ACQUIRE) < i)
			sched_yield();
		spin(duel.pause[0]);
		duel.result = duel.does();
		__atomic_store_n(&duel.over, i, __ATOMIC_RELEASE);
	}
	return NULL;
}

static void start_duel(CUcontext ctx, CUresult (*does)(void))
{
	pthread_t t;

	duel.ctx = ctx;
	duel.does = does;
	if (pthread_create(&t, NULL, second, NULL) != 0)
		_exit(4);
}

static CUresult meet(struct worker *w, CUresult (*first)(void))
{
	CUresult r;

	duel.pause[0] = dice(w, 300);
	duel.pause[1] = dice(w, 300);
	__atomic_add_fetch(&duel.round, 1, __ATOMIC_RELEASE);
	if (dice(w, 4) == 0)
		sched_yield(); /* on a busy machine the other would never be first */
	spin(duel.pause[1]);
	r = first();
	while (__atomic_load_n(&duel.over, __ATOMIC_ACQUIRE) < duel.round)
		sched_yield();
	return r;
}

static CUresult map_it(void)
{
	return CU(cuMemMap)(duel.at, 2 * MIB, 0, duel.handle, 0);
}

static CUresult release_it(void)
{
	return CU(cuMemRelease)(duel.handle);
}

/* What was mapped while its last handle was released stays mapped. */
static void map_what_goes(struct worker *w, CUcontext ctx)
{
	CUmemAllocationProp p = props();

	start_duel(ctx, map_it);
	while (now_ns() < end_ns) {
		must(CU(cuMemAddressReserve)(&duel.at, 2 * MIB, 0, 0, 0), "cuMemAddressReserve");
		if (!got(CU(cuMemCreate)(&duel.handle, 2 * MIB, &p, 0), "cuMemCreate"))
			break;
		must(meet(w, release_it), "cuMemRelease");
	}
	stand();
}

static CUresult allocate_from_it(void)
{
	CUdeviceptr p;

	return CU(cuMemAllocFromPoolAsync)(&p, 8 * MIB, duel.pool, 0);
}

static CUresult destroy_it(void)
{
	return CU(cuMemPoolDestroy)(duel.pool);
}

/* What was allocated from a pool while it was destroyed stays. */
static void allocate_from_what_goes(struct worker *w, CUcontext ctx)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUdeviceptr p[6];

	start_duel(ctx, allocate_from_it);
	while (now_ns() < end_ns) {
		must(CU(cuMemPoolCreate)(&duel.pool, &props), "cuMemPoolCreate");
		for (int i = 0; i < 6; i++)
			if (!got(CU(cuMemAllocFromPoolAsync)(&p[i], 8 * MIB, duel.pool, 0), "cuMemAllocFromPoolAsync"))
				p[i] = 0;
		for (int i = 0; i < 6; i++)
			if (p[i])
				must(CU(cuMemFreeAsync)(p[i], 0), "cuMemFreeAsync");
		meet(w, destroy_it);
		must(CU(cuStreamSynchronize)(0), "cuStreamSynchronize");
	}
	stand();
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 5 ? strtoull(argv[1], NULL, 10) : 0;
	struct worker w = { .seed = seed };
	CUcontext ctx;
	CUresult r;

	if (argc < 6)
		return 2;
	board = board_open();
	shelf = (unsigned)atoi(argv[5]) % (BOARD / SHELF);
	async_bytes = (4ull << seed % 4) * MIB; /* all divide a pool's piece of 32 MiB */
	end_ns = now_ns() + atoll(argv[3]) * 1000000;
	must(CU(cuInit)(0), "cuInit");
	r = CU(cuDevicePrimaryCtxRetain)(&ctx, 0);
	while (r == CUDA_ERROR_OUT_OF_MEMORY && now_ns() < end_ns) {
		usleep(1000);
		r = CU(cuDevicePrimaryCtxRetain)(&ctx, 0);
	}
	if (r == CUDA_ERROR_OUT_OF_MEMORY)
		return 0; /* never room for a context */
	must(r, "cuDevicePrimaryCtxRetain");
	must(CU(cuCtxSetCurrent)(ctx), "cuCtxSetCurrent");
	if (strcmp(argv[4], "everything") == 0)
		take_everything(seed);
	else if (strcmp(argv[4], "lend") == 0)
		lend(seed);
	else if (strcmp(argv[4], "borrow") == 0)
		borrow();
	else if (strcmp(argv[4], "holes") == 0)
		leave_holes(seed);
	else if (strcmp(argv[4], "mix") == 0)
		mix_sizes(&w);
	else if (strcmp(argv[4], "arrays") == 0 || strcmp(argv[4], "modules") == 0)
		leave_pieces(&w, strcmp(argv[4], "modules") == 0);
	else if (strcmp(argv[4], "beside") == 0)
		leave_pieces_beside(&w, ctx);
	else if (strcmp(argv[4], "variables") == 0)
		leave_large_variables();
	else if (strcmp(argv[4], "unread") == 0)
		leave_unread();
	else if (strcmp(argv[4], "buffers") == 0)
		keep_buffers();
	else if (strcmp(argv[4], "map") == 0)
		map_what_goes(&w, ctx);
	else if (strcmp(argv[4], "pool") == 0)
		allocate_from_what_goes(&w, ctx);
	else
		run_threads(seed, atoi(argv[2]), argv[4], ctx);
	/* Some end with a context, some without, some become another program. */
	if (seed % 3 != 0)
		must(CU(cuDevicePrimaryCtxRelease_v2)(0), "cuDevicePrimaryCtxRelease");
	if (seed % 3 == 1)
		execl("/bin/true", "true", NULL);
	return 0;
}
