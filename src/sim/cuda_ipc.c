/* Memory from process to process: IPC handles, descriptors, external memory. */
#include "sim/cuda_token.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define TOKEN_MAGIC 0x6e656b6f746d6973ULL
#define IPC_MAGIC 0x6370696d6973ULL

int sim_token_make(uint32_t kind, const struct sim_device *d, uint64_t id, uint64_t bytes,
		   const CUmemAllocationProp *prop)
{
	struct sim_token t = { .magic = TOKEN_MAGIC, .kind = kind, .id = id, .bytes = bytes };
	int fd = memfd_create("sim-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	memcpy(t.uuid, d->uuid, sizeof(t.uuid));
	if (prop != NULL)
		t.prop = *prop;
	if (fd < 0)
		return -1;
	if (write(fd, &t, sizeof(t)) == (ssize_t)sizeof(t) &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
		return fd;
	close(fd);
	return -1;
}

bool sim_token_read(int fd, uint32_t kind, struct sim_token *ret, struct sim_device **ret_dev)
{
	if (pread(fd, ret, sizeof(*ret), 0) != (ssize_t)sizeof(*ret) || ret->magic != TOKEN_MAGIC ||
	    ret->kind != kind)
		return false;
	*ret_dev = sim_device_by_uuid(ret->uuid);
	return *ret_dev != NULL;
}

/* --- IPC handles --- */

struct ipc {
	uint64_t magic;
	uint8_t uuid[16];
	uint64_t id;	 /* the share */
	uint64_t offset; /* of the allocation in it */
	uint64_t bytes;
	uint64_t tail; /* the share behind it that the allocation ends in, 0: none */
};
_Static_assert(sizeof(struct ipc) <= sizeof(CUipcMemHandle), "an IPC handle has 64 bytes");

/* Under sim_big. */
static CUresult export_region(struct CUctx_st *ctx, uintptr_t at, struct ipc *ret)
{
	struct sim_region *g = sim_region_find(at);
	uintptr_t base = 0;
	size_t size = 0;
	CUresult r;

	if (g == NULL || (g->kind != SIM_KIND_DEVICE && g->kind != SIM_KIND_PAGE) ||
	    g->dev != ctx->dev || !sim_region_part(g, at, &base, &size))
		return CUDA_ERROR_INVALID_VALUE;
	g = sim_region_find(base); /* `at` may lie in the tail */
	r = sim_region_share(g);
	if (r == CUDA_SUCCESS && g->tail != NULL)
		r = sim_region_share(g->tail);
	if (r != CUDA_SUCCESS)
		return r;
	*ret = (struct ipc){
		.magic = IPC_MAGIC, .id = g->held->id, .offset = base - g->base, .bytes = size
	};
	if (g->tail != NULL)
		ret->tail = g->tail->held->id;
	memcpy(ret->uuid, g->dev->uuid, sizeof(ret->uuid));
	return CUDA_SUCCESS;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr dptr)
{
	struct CUctx_st *ctx;
	struct ipc ipc;
	CUresult r;

	if (handle == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = sim_current(&ctx);
	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&sim_big);
	r = export_region(ctx, (uintptr_t)dptr, &ipc);
	pthread_mutex_unlock(&sim_big);
	if (r != CUDA_SUCCESS)
		return r;
	memset(handle, 0, sizeof(*handle));
	memcpy(handle, &ipc, sizeof(ipc));
	return CUDA_SUCCESS;
}

/* Maps a share, and the one with its tail if there is one behind it. */
static uintptr_t map_both(struct sim_held *h, struct sim_held *tail)
{
	size_t size = h->size + (tail != NULL ? tail->size : 0);
	char *at = sim_map_memory(size, SIM_CHUNK, 0);

	if (at == NULL)
		return 0;
	if (sim_held_map(h, at) != NULL &&
	    (tail == NULL || sim_held_map(tail, at + h->size) != NULL))
		return (uintptr_t)at;
	munmap(at, size);
	return 0;
}

/* Shows a share somewhere, as a region of the context. Takes over the holds. */
static CUresult show(struct CUctx_st *ctx, struct sim_held *h, struct sim_held *tail,
		     struct sim_region **ret)
{
	size_t size = h->size + (tail != NULL ? tail->size : 0);
	struct sim_region *g = calloc(1, sizeof(*g));

	if (g != NULL) {
		*g = (struct sim_region){ .size = size,
					  .charged = size,
					  .kind = SIM_KIND_IPC,
					  .dev = ctx->dev,
					  .ctx = ctx,
					  .held = h,
					  .held_tail = tail,
					  .opens = 1 };
		g->base = map_both(h, tail);
	}
	if (g == NULL || g->base == 0 || !sim_region_add(g)) {
		if (g != NULL && g->base != 0)
			munmap((void *)g->base, size);
		free(g);
		sim_held_put(h);
		if (tail != NULL)
			sim_held_put(tail);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret = g;
	return CUDA_SUCCESS;
}

static CUresult hold_both(struct sim_device *d, const struct ipc *ipc, struct sim_held **ret,
			  struct sim_held **ret_tail)
{
	struct sim_held *h = NULL;
	CUresult r = sim_held_take(d, ipc->id, &h);

	if (r == CUDA_SUCCESS && ipc->tail != 0)
		r = sim_held_take(d, ipc->tail, ret_tail);
	if (r == CUDA_SUCCESS)
		*ret = h;
	else if (h != NULL)
		sim_held_put(h);
	return r;
}

/* Under sim_big. A handle that is open already is opened once more, at the same address. */
static CUresult open_ipc(struct CUctx_st *ctx, const struct ipc *ipc, CUdeviceptr *ret)
{
	struct sim_held *h = sim_held_find(ctx->dev, ipc->id), *tail = NULL;
	struct sim_region *g = h != NULL ? h->opened : NULL;
	CUresult r;

	if (h != NULL && h->own)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (g != NULL) {
		g->opens++;
		*ret = g->base + ipc->offset;
		return CUDA_SUCCESS;
	}
	r = hold_both(ctx->dev, ipc, &h, &tail);
	if (r == CUDA_SUCCESS)
		r = show(ctx, h, tail, &g);
	if (r != CUDA_SUCCESS)
		return r;
	h->opened = g;
	*ret = g->base + ipc->offset;
	return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *dptr, CUipcMemHandle handle, unsigned int flags)
{
	struct CUctx_st *ctx;
	struct ipc ipc;
	CUresult r;

	if (dptr == NULL || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
		return CUDA_ERROR_INVALID_VALUE;
	r = sim_current(&ctx);
	if (r == CUDA_SUCCESS)
		r = sim_unsafe();
	if (r != CUDA_SUCCESS)
		return r;
	memcpy(&ipc, &handle, sizeof(ipc));
	if (ipc.magic != IPC_MAGIC || memcmp(ipc.uuid, ctx->dev->uuid, sizeof(ipc.uuid)) != 0)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&sim_big);
	r = open_ipc(ctx, &ipc, dptr);
	pthread_mutex_unlock(&sim_big);
	return r;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *dptr, CUipcMemHandle handle, unsigned int flags)
{
	return cuIpcOpenMemHandle_v2(dptr, handle, flags);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr dptr)
{
	struct sim_region *g;
	struct CUctx_st *ctx;
	CUresult r = sim_current(&ctx);

	if (r == CUDA_SUCCESS)
		r = sim_unsafe();
	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&sim_big);
	g = sim_region_find((uintptr_t)dptr);
	if (g == NULL || g->kind != SIM_KIND_IPC)
		r = CUDA_ERROR_INVALID_VALUE;
	else if (--g->opens == 0)
		sim_region_release(g);
	pthread_mutex_unlock(&sim_big);
	return r;
}

/* --- external memory: only what another simulated driver exported --- */

struct CUextMemory_st {
	uint32_t magic;
	struct CUctx_st *ctx;
	struct sim_held *held;
};

CUresult cuImportExternalMemory(CUexternalMemory *mem, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
{
	struct CUextMemory_st *m;
	struct sim_device *d;
	struct CUctx_st *ctx;
	struct sim_token t;
	CUresult r = sim_current(&ctx);

	if (r != CUDA_SUCCESS)
		return r;
	if (mem == NULL || desc == NULL || desc->size == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (desc->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!sim_token_read(desc->handle.fd, SIM_TOKEN_MEMORY, &t, &d) || d != ctx->dev ||
	    desc->size > t.bytes)
		return CUDA_ERROR_INVALID_VALUE;
	m = calloc(1, sizeof(*m));
	if (m == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	m->magic = SIM_MAGIC_EXTERNAL;
	m->ctx = ctx;
	pthread_mutex_lock(&sim_big);
	r = sim_held_take(d, t.id, &m->held);
	pthread_mutex_unlock(&sim_big);
	if (r != CUDA_SUCCESS) {
		free(m);
		return r;
	}
	close(desc->handle.fd); /* the driver's from now on */
	*mem = m;
	return CUDA_SUCCESS;
}

static CUresult external_check(CUexternalMemory m)
{
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	return m != NULL && m->magic == SIM_MAGIC_EXTERNAL ? sim_ctx_check(m->ctx)
							   : CUDA_ERROR_INVALID_HANDLE;
}

/* Given back with cuMemFree. */
CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *dptr, CUexternalMemory mem,
					 const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc)
{
	CUresult r = external_check(mem);
	struct sim_region *g = NULL;

	if (r != CUDA_SUCCESS)
		return r;
	if (dptr == NULL || desc == NULL || desc->flags != 0 || desc->size == 0 ||
	    desc->offset > mem->held->size || desc->size > mem->held->size - desc->offset)
		return CUDA_ERROR_INVALID_VALUE;
	if (desc->offset != 0)
		return CUDA_ERROR_NOT_SUPPORTED;
	pthread_mutex_lock(&sim_big);
	mem->held->refs++;
	r = show(mem->ctx, mem->held, NULL, &g);
	if (r == CUDA_SUCCESS) {
		g->kind = SIM_KIND_DEVICE;
		g->size = desc->size;
		*dptr = g->base;
	}
	pthread_mutex_unlock(&sim_big);
	return r;
}

CUresult cuDestroyExternalMemory(CUexternalMemory mem)
{
	CUresult r = external_check(mem);

	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&sim_big);
	mem->magic = 0;
	sim_held_put(mem->held);
	pthread_mutex_unlock(&sim_big);
	free(mem);
	return CUDA_SUCCESS;
}
