/* The fake driver's other ways to memory: handles and pointers of others, contexts' limits, modules.
 *
 * Nothing really comes from another process: a handle says how large the memory behind it is. */
#include <stdlib.h>
#include <string.h>

#include "fence/test/fake_inside.h"

#define MIB ((uint64_t)1 << 20)

/* --- shareable handles: the descriptor's number is the size in MiB, of device 0 --- */

#define MULTICAST_FD 9999 /* this one is of a multicast object */
#define HOST_FD 9998	  /* and this of memory on the host */

static uint64_t neighbour;

CUresult cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
				      int type, unsigned long long flags)
{
	struct thing *t = fake_find(handle);

	if (!t)
		return CUDA_ERROR_INVALID_VALUE;
	*(int *)shareable = (int)(t->bytes / MIB);
	return CUDA_SUCCESS;
}
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shareable,
					int type)
{
	uint64_t fd = (uintptr_t)shareable;
	CUresult r = fake_failing();

	if (r != CUDA_SUCCESS)
		return r;
	*handle = (uintptr_t)fake_make(fd == MULTICAST_FD || fd == HOST_FD ? 0 : fd * MIB, 0);
	if (fd == MULTICAST_FD)
		fake_find(*handle)->source = "multicast";
	if (fd == HOST_FD)
		fake_find(*handle)->source = "host";
	return CUDA_SUCCESS;
}
CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
						CUmemGenericAllocationHandle handle)
{
	struct thing *t = fake_find(handle);

	if (!t || (t->source && strcmp(t->source, "multicast") == 0))
		return CUDA_ERROR_INVALID_VALUE;
	memset(prop, 0, sizeof(*prop));
	prop->type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop->location.type = t->source ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
	prop->location.id = t->dev;
	return CUDA_SUCCESS;
}
CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
				       int option)
{
	*granularity = 2 * MIB;
	return CUDA_SUCCESS;
}
static unsigned reserved;
unsigned fake_reserved(void)
{
	return reserved;
}
CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
			     unsigned long long flags)
{
	static CUdeviceptr next = 0x600000000000;
	CUresult r = fake_failing();

	if (r != CUDA_SUCCESS)
		return r;
	__atomic_add_fetch(&reserved, 1, __ATOMIC_SEQ_CST);
	*ptr = __atomic_fetch_add(&next, size, __ATOMIC_SEQ_CST);
	return CUDA_SUCCESS;
}
CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
	__atomic_sub_fetch(&reserved, 1, __ATOMIC_SEQ_CST);
	return CUDA_SUCCESS;
}

/* --- multicast: a bound handle is kept --- */

static struct binding {
	struct thing *object, *memory;
	size_t offset;
	int dev;
} bindings[16];

CUresult cuMulticastCreate(CUmemGenericAllocationHandle *object, const CUmulticastObjectProp *prop)
{
	struct thing *t = fake_make(0, 0);

	t->source = "multicast";
	*object = (uintptr_t)t;
	return CUDA_SUCCESS;
}
static CUresult bind(uint64_t object, int dev, size_t offset, uint64_t handle)
{
	struct thing *t = fake_find(handle);
	CUresult r = fake_failing();

	for (int i = 0; r == CUDA_SUCCESS && i < 16; i++) {
		if (bindings[i].object)
			continue;
		t->refs++;
		bindings[i] = (struct binding){ fake_find(object), t, offset, dev };
		return CUDA_SUCCESS;
	}
	return r ? r : CUDA_ERROR_UNKNOWN;
}
CUresult cuMulticastBindMem(CUmemGenericAllocationHandle object, size_t offset,
			    CUmemGenericAllocationHandle handle, size_t from, size_t size,
			    unsigned long long flags)
{
	return bind(object, fake_find(handle)->dev, offset, handle);
}
CUresult cuMulticastBindMem_v2(CUmemGenericAllocationHandle object, CUdevice dev, size_t offset,
			       CUmemGenericAllocationHandle handle, size_t from, size_t size,
			       unsigned long long flags)
{
	return bind(object, dev, offset, handle);
}
CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle object, size_t offset, CUdeviceptr ptr,
			     size_t size, unsigned long long flags)
{
	CUmemGenericAllocationHandle handle;
	CUresult r = cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)ptr);

	if (r != CUDA_SUCCESS)
		return r;
	r = bind(object, fake_find(handle)->dev, offset, handle);
	cuMemRelease(handle);
	return r;
}
CUresult cuMulticastUnbind(CUmemGenericAllocationHandle object, CUdevice dev, size_t offset,
			   size_t size)
{
	for (int i = 0; i < 16; i++) {
		struct binding *b = &bindings[i];

		if (b->object != fake_find(object) || b->dev != dev || b->offset != offset)
			continue;
		fake_unref(b->memory);
		*b = (struct binding){ 0 };
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}
/* The object's end lets go of what is bound. */
void fake_object_gone(void)
{
	for (int i = 0; i < 16; i++) {
		if (bindings[i].object && !fake_find((uintptr_t)bindings[i].object)) {
			fake_unref(bindings[i].memory);
			bindings[i] = (struct binding){ 0 };
		}
	}
}

/* --- IPC: the handle's first bytes are its number and size --- */

static struct thing *opened[16];

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *dptr, CUipcMemHandle handle, unsigned int flags)
{
	uint64_t say[2];
	CUresult r = fake_failing();

	fake_refused();
	if (handle.reserved[63]) { /* only to see whether the arguments come through */
		*dptr = flags + (unsigned char)handle.reserved[63];
		return CUDA_SUCCESS;
	}
	if (r != CUDA_SUCCESS)
		return r;
	memcpy(say, handle.reserved, sizeof(say));
	if (say[0] >= 16)
		return CUDA_ERROR_INVALID_VALUE;
	if (opened[say[0]] && fake_find((uintptr_t)opened[say[0]])) {
		opened[say[0]]->refs++;
	} else {
		opened[say[0]] = fake_make(say[1], say[0] >= 8); /* the upper ones of device 1 */
		cuCtxGetCurrent(&opened[say[0]]->ctx);
	}
	*dptr = (uintptr_t)opened[say[0]];
	return CUDA_SUCCESS;
}
CUresult cuIpcCloseMemHandle(CUdeviceptr dptr)
{
	struct thing *t = fake_find(dptr);
	CUresult r = fake_failing();

	if (r != CUDA_SUCCESS || !t)
		return r ? r : CUDA_ERROR_INVALID_VALUE;
	fake_unref(t);
	return CUDA_SUCCESS;
}
CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr dptr)
{
	struct thing *t = fake_find(dptr);
	CUresult r = fake_failing();

	if (r != CUDA_SUCCESS || !t)
		return r ? r : CUDA_ERROR_NOT_FOUND;
	*base = dptr;
	*size = t->bytes;
	return CUDA_SUCCESS;
}

/* --- external memory: what is mapped keeps it --- */

CUresult cuImportExternalMemory(CUexternalMemory *mem, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
{
	CUresult r = fake_failing();
	struct thing *t;
	uint64_t size;

	if (r != CUDA_SUCCESS || !desc)
		return r ? r : CUDA_ERROR_INVALID_VALUE;
	size = desc->type == 1 ? (uint64_t)desc->handle.fd * MIB : 0; /* all of it stays on the card */
	t = fake_make(size > desc->size ? size : desc->size, 0);
	cuCtxGetCurrent(&t->ctx);
	*mem = (CUexternalMemory)t;
	return CUDA_SUCCESS;
}
CUresult cuDestroyExternalMemory(CUexternalMemory mem)
{
	CUresult r = fake_failing();

	if (r == CUDA_SUCCESS)
		fake_unref((struct thing *)mem);
	return r;
}
static CUdeviceptr buffer_at;
static struct thing *buffer_of;
CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *dptr, CUexternalMemory mem,
					 const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc)
{
	CUresult r = fake_failing();
	struct thing *t;

	if (r != CUDA_SUCCESS)
		return r;
	buffer_of = (struct thing *)mem;
	buffer_of->refs++;
	t = fake_make(0, 0);
	buffer_at = (uintptr_t)t;
	*dptr = buffer_at;
	return CUDA_SUCCESS;
}
/* Called when the buffer was freed. */
void fake_buffer_gone(void)
{
	if (buffer_of && !fake_find(buffer_at)) {
		fake_unref(buffer_of);
		buffer_of = NULL;
	}
}

/* --- limits: taken at once, with 2 SMs of 1024 threads --- */

static size_t limits[CU_LIMIT_MAX] = { 1024, 1 << 20, 8 << 20, 2, 2048 };

CUresult cuCtxGetLimit(size_t *value, int limit)
{
	*value = limits[limit];
	return CUDA_SUCCESS;
}
CUresult cuCtxSetLimit(int limit, size_t value)
{
	int64_t unit = limit == CU_LIMIT_STACK_SIZE			    ? 2048
		       : limit == CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT ? 4096
									    : 1;
	CUcontext ctx = NULL;
	CUresult r = fake_failing();

	if (r != CUDA_SUCCESS)
		return r;
	cuCtxGetCurrent(&ctx);
	value = limit == CU_LIMIT_STACK_SIZE ? (value + 15) / 16 * 16 : value;
	if (ctx && limit != CU_LIMIT_PERSISTING_L2_CACHE_SIZE)
		fake_context_grow(ctx, ((int64_t)value - (int64_t)limits[limit]) * unit);
	limits[limit] = value;
	return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice dev)
{
	*value = attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT		   ? 2
		 : attribute == CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR ? 1024
										   : 0;
	return CUDA_SUCCESS;
}
CUresult cuCtxCreate_v3(CUcontext *ctx, CUexecAffinityParam *params, int n, unsigned int flags,
			CUdevice dev)
{
	return n == 7 ? cuCtxCreate_v2(ctx, flags, dev) : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuCtxCreate_v4(CUcontext *ctx, CUctxCreateParams *params, unsigned int flags, CUdevice dev)
{
	return params ? cuCtxCreate_v2(ctx, flags, dev) : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGreenCtxCreate(rf_green_ctx *ctx, rf_resources desc, CUdevice dev, unsigned int flags)
{
	CUcontext primary;
	CUresult r = cuDevicePrimaryCtxRetain(&primary, dev);

	if (r == CUDA_SUCCESS)
		fake_context_grow(primary, 6 * MIB);
	*ctx = (rf_green_ctx)primary;
	return r;
}
CUresult cuGreenCtxDestroy(rf_green_ctx ctx)
{
	fake_context_grow((CUcontext)ctx, -(int64_t)(6 * MIB));
	return cuDevicePrimaryCtxRelease_v2(0);
}

/* --- modules: "OPAQUE <bytes>" takes so much; other text as much as its first ".b8 x[n]" says --- */

void fake_neighbour(uint64_t bytes)
{
	neighbour = bytes;
}
static uint64_t size_said(const char *image)
{
	const char *p = strchr(image, '[');

	if (strncmp(image, "\x01OPAQUE ", 8) == 0)
		return strtoull(image + 8, NULL, 10);
	return p ? strtoull(p + 1, NULL, 10) : 0;
}
CUresult cuModuleLoadData(CUmodule *mod, const void *image)
{
	CUresult r = fake_failing();
	struct thing *t;

	if (r != CUDA_SUCCESS)
		return r;
	t = fake_make(size_said(image), 0);
	cuCtxGetCurrent(&t->ctx);
	*mod = (CUmodule)t;
	if (neighbour)
		fake_make(neighbour, 0);
	neighbour = 0;
	return CUDA_SUCCESS;
}
CUresult cuModuleLoadDataEx(CUmodule *mod, const void *image, unsigned int n, int *options,
			    void **values)
{
	return cuModuleLoadData(mod, image);
}
CUresult cuModuleLoadFatBinary(CUmodule *mod, const void *fat)
{
	return cuModuleLoadData(mod, fat);
}
CUresult cuModuleUnload(CUmodule mod)
{
	CUresult r = fake_failing();

	if (r == CUDA_SUCCESS)
		fake_unref((struct thing *)mod);
	return r;
}

struct CUlib_st {
	uint64_t bytes;
	struct thing *in_context;
};
CUresult cuLibraryLoadData(CUlibrary *lib, const void *code, int *jit_options, void **jit_values,
			   unsigned int n_jit, int *lib_options, void **lib_values,
			   unsigned int n_lib)
{
	CUresult r = fake_failing();

	if (r != CUDA_SUCCESS)
		return r;
	*lib = calloc(1, sizeof(**lib));
	(*lib)->bytes = size_said(code);
	return n_jit == 3 && n_lib == 4 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuLibraryUnload(CUlibrary lib)
{
	CUresult r = fake_failing();

	if (r != CUDA_SUCCESS)
		return r;
	if (lib->in_context && fake_find((uintptr_t)lib->in_context))
		fake_unref(lib->in_context);
	free(lib);
	return CUDA_SUCCESS;
}
CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary lib, const char *name)
{
	*kernel = (CUkernel)lib;
	return CUDA_SUCCESS;
}
CUresult cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary lib, const char *name)
{
	if (!lib->in_context) {
		lib->in_context = fake_make(lib->bytes, 0);
		cuCtxGetCurrent(&lib->in_context->ctx);
	}
	*dptr = (uintptr_t)lib->in_context;
	return CUDA_SUCCESS;
}

/* --- pages --- */

static unsigned prefetches;
unsigned fake_prefetches(void)
{
	return prefetches;
}
/* Every pointer this driver made is managed. */
CUresult cuPointerGetAttribute(void *data, int attribute, CUdeviceptr ptr)
{
	struct thing *t = fake_find(ptr);
	unsigned int yes = t != NULL;

	if (!yes)
		return CUDA_ERROR_INVALID_VALUE;
	if (attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE) { /* of an imported one */
		memcpy(data, &t->at, sizeof(t->at));
		return CUDA_SUCCESS;
	}
	if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
		yes = (unsigned int)t->dev;
	memcpy(data, &yes, sizeof(yes));
	return CUDA_SUCCESS;
}
CUresult cuMemPrefetchAsync(CUdeviceptr ptr, size_t n, CUdevice dev, CUstream stream)
{
	prefetches++;
	return CUDA_SUCCESS;
}
CUresult cuMemPrefetchAsync_v2(CUdeviceptr ptr, size_t n, CUmemLocation to, unsigned int flags,
			       CUstream stream)
{
	prefetches++;
	return to.id < 100 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemPrefetchBatchAsync(CUdeviceptr *ptrs, size_t *sizes, size_t n, CUmemLocation *to,
				 size_t *to_from, size_t n_to, unsigned long long flags,
				 CUstream stream)
{
	prefetches += flags == 5;
	return CUDA_SUCCESS;
}
CUresult cuMemAdvise(CUdeviceptr ptr, size_t n, int advice, CUdevice dev)
{
	prefetches++;
	return CUDA_SUCCESS;
}
CUresult cuMemAdvise_v2(CUdeviceptr ptr, size_t n, int advice, CUmemLocation where)
{
	prefetches++;
	return CUDA_SUCCESS;
}
