/* books: what the fence counts beside what the card lost, for many small pieces of memory with holes between them. In
 * one process, inside a fence: the program's own cuMemGetInfo shows the books, the driver's own one shows the card.
 *   cc -O2 -o books books.c -ldl;  ringfence fence --memory 30Gi -- ./books
 * For each kind of memory a line of JSON with stages: pieces are made, most are freed at random, some are made again, all
 * are freed. Nobody else may use the card meanwhile. Changes no setting of it, and takes 4 GiB of it at most. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/gpu/cuda_abi.h"
#include "driver.h"

enum { MOST = 20000, MODULES = 400, MULTICAST_SUPPORTED = 132 };

#define MIB ((uint64_t)1 << 20)
#define MOST_BYTES (2048 * MIB) /* of all pieces together, as they were asked for */

/* X(name): taken from the fence, or from the driver where there is none. */
#define CALLS(X)                                                                                                                          \
	X(cuInit) X(cuDeviceGet) X(cuDevicePrimaryCtxRetain) X(cuCtxSetCurrent) X(cuCtxSynchronize) X(cuMemGetInfo_v2) X(cuMemAlloc_v2)     \
	X(cuMemAllocPitch_v2) X(cuMemAllocManaged) X(cuMemFree_v2) X(cuMemsetD8_v2) X(cuArray3DCreate_v2) X(cuArrayDestroy)                 \
	X(cuModuleLoadData) X(cuModuleUnload) X(cuModuleGetGlobal_v2) X(cuDeviceGetAttribute) X(cuMemCreate) X(cuMemRelease)                \
	X(cuMemAddressReserve) X(cuMemMap) X(cuMemUnmap) X(cuMulticastCreate) X(cuMulticastAddDevice) X(cuMulticastBindMem)

#define FIELD(name) __typeof__(&name) name;
static struct {
	CALLS(FIELD)
} cu;
static __typeof__(&cuMemGetInfo_v2) card_info;
static CUdevice dev;

static void must(CUresult r, const char *what)
{
	if (r == CUDA_SUCCESS)
		return;
	fprintf(stderr, "books: cannot %s: CUDA error %d\n", what, (int)r);
	exit(1);
}

static void open_card(void)
{
	struct driver driver;
	CUcontext ctx;

	if (!driver_open(&driver)) {
		fprintf(stderr, "books: cannot read the driver: %s\n", driver.lib ? "its table of symbols is of another kind" : dlerror());
		exit(1);
	}
#define LOAD(name) cu.name = (__typeof__(&name))dlsym(driver.lib, #name);
	CALLS(LOAD)
	card_info = (__typeof__(&cuMemGetInfo_v2))driver_own(&driver, "cuMemGetInfo_v2");
	must(cu.cuInit(0), "start the driver");
	must(cu.cuDeviceGet(&dev, 0), "find the card");
	must(cu.cuDevicePrimaryCtxRetain(&ctx, dev), "have a context");
	must(cu.cuCtxSetCurrent(ctx), "use the context");
}

/* --- pieces --- */

static uint64_t seed = 20261119;

static uint64_t below(uint64_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % n;
}

/* From 1 to 2^bits: each power of two as often as the next. */
static uint64_t some_size(unsigned bits)
{
	return 1 + below((uint64_t)1 << (1 + below(bits)));
}

struct piece {
	uint64_t asked; /* 0: there is none */
	CUdeviceptr ptr;
	CUarray array;
	CUmodule module;
};

static CUresult plain(struct piece *p, unsigned bits)
{
	p->asked = some_size(bits);
	return cu.cuMemAlloc_v2(&p->ptr, p->asked);
}

static CUresult take_tiny(struct piece *p)
{
	return plain(p, 12);
}

static CUresult take_small(struct piece *p)
{
	return plain(p, 19);
}

static CUresult take_any(struct piece *p)
{
	return plain(p, 22);
}

static CUresult take_pitch(struct piece *p)
{
	size_t pitch = 0;
	CUresult r = cu.cuMemAllocPitch_v2(&p->ptr, &pitch, some_size(11), 1 + below(256), 4);

	p->asked = pitch ? pitch : 1;
	return r;
}

/* On the card as soon as the card has written it. */
static CUresult take_managed(struct piece *p)
{
	CUresult r;

	p->asked = some_size(19);
	r = cu.cuMemAllocManaged(&p->ptr, p->asked, CU_MEM_ATTACH_GLOBAL);
	return r == CUDA_SUCCESS ? cu.cuMemsetD8_v2(p->ptr, 1, p->asked) : r;
}

static CUresult image(struct piece *p, unsigned bits)
{
	CUDA_ARRAY3D_DESCRIPTOR d = { .Width = some_size(bits),
				      .Height = below(4) ? some_size(bits) : 0,
				      .Format = CU_AD_FORMAT_FLOAT,
				      .NumChannels = 1u << below(3) };

	p->asked = d.Width * (d.Height ? d.Height : 1) * 4 * d.NumChannels;
	return cu.cuArray3DCreate_v2(&p->array, &d);
}

static CUresult take_array(struct piece *p)
{
	return image(p, 7);
}

static CUresult take_large_array(struct piece *p)
{
	return image(p, 9);
}

static CUresult take_plain_or_array(struct piece *p)
{
	return below(2) ? take_small(p) : take_array(p);
}

static CUresult take_module(struct piece *p)
{
	char text[256];
	CUdeviceptr where = 0;
	size_t bytes = 0;
	CUresult r;

	p->asked = some_size(18);
	snprintf(text, sizeof(text), ".version 6.0\n.target sm_50\n.address_size 64\n.visible .global .align 4 .b8 some[%llu];\n",
		 (unsigned long long)p->asked);
	r = cu.cuModuleLoadData(&p->module, text);
	return r == CUDA_SUCCESS ? cu.cuModuleGetGlobal_v2(&where, &bytes, p->module, "some") : r;
}

/* Ten, each larger than half a page. */
static CUresult take_ten(struct piece *p)
{
	char text[1024];
	int n = snprintf(text, sizeof(text), ".version 6.0\n.target sm_50\n.address_size 64\n");

	for (int i = 0; i < 10; i++)
		n += snprintf(text + n, sizeof(text) - (size_t)n, ".visible .global .align 16 .b8 some%d[%u];\n", i,
			      1100u << 10);
	p->asked = 10 * (1100 << 10);
	return cu.cuModuleLoadData(&p->module, text);
}

static const struct kind {
	const char *name;
	CUresult (*take)(struct piece *p);
	size_t most;
} kinds[] = {
	{ "cuMemAlloc up to 4 KiB", take_tiny, MOST },
	{ "cuMemAlloc up to 512 KiB", take_small, MOST },
	{ "cuMemAlloc up to 4 MiB", take_any, MOST / 4 },
	{ "cuMemAllocPitch", take_pitch, MOST },
	{ "cuMemAllocManaged up to 512 KiB", take_managed, MOST / 4 },
	{ "arrays up to 256 KiB", take_array, MOST },
	{ "arrays up to 4 MiB", take_large_array, MOST / 4 },
	{ "cuMemAlloc up to 512 KiB and arrays", take_plain_or_array, MOST },
	{ "module variables up to 256 KiB", take_module, MODULES },
	{ "ten module variables of 1.1 MiB", take_ten, 20 },
};

static struct piece pieces[MOST];
static uint64_t asked; /* of all that are there */

static bool take(const struct kind *k, struct piece *p)
{
	memset(p, 0, sizeof(*p));
	if (asked > MOST_BYTES)
		return false;
	if (k->take(p) != CUDA_SUCCESS) {
		p->asked = 0;
		return false;
	}
	asked += p->asked;
	return true;
}

static void drop(struct piece *p)
{
	if (p->asked == 0)
		return;
	asked -= p->asked;
	if (p->ptr)
		must(cu.cuMemFree_v2(p->ptr), "free");
	if (p->array)
		must(cu.cuArrayDestroy(p->array), "destroy an array");
	if (p->module)
		must(cu.cuModuleUnload(p->module), "unload a module");
	p->asked = 0;
}

/* --- stages --- */

struct seen {
	uint64_t card, books;
};

static struct seen look(void)
{
	struct seen s = { 0 };
	size_t total = 0, left = 0;

	must(cu.cuCtxSynchronize(), "wait");
	must(card_info(&left, &total), "ask the card");
	s.card = total - left;
	must(cu.cuMemGetInfo_v2(&left, &total), "ask the fence");
	s.books = total - left;
	return s;
}

static void tell(const char *stage, struct seen before)
{
	struct seen now = look();
	size_t n = 0;

	for (size_t i = 0; i < MOST; i++)
		n += pieces[i].asked != 0;
	printf(",\"%s\":{\"pieces\":%zu,\"asked\":%llu,\"card\":%lld,\"books\":%lld}", stage, n, (unsigned long long)asked,
	       (long long)(now.card - before.card), (long long)(now.books - before.books));
}

static void try_kind(const struct kind *k)
{
	struct piece first = { 0 };
	struct seen before;
	size_t n = 0;

	take(k, &first); /* what the first one brings along is not this kind's */
	drop(&first);
	before = look();
	printf("{\"kind\":\"%s\"", k->name);
	while (n < k->most && take(k, &pieces[n]))
		n++;
	tell("made", before);
	for (size_t i = 0; i < n; i++)
		if (below(8))
			drop(&pieces[i]);
	tell("seven of eight freed", before);
	for (size_t i = 0; i < n; i += 2)
		if (pieces[i].asked == 0)
			take(k, &pieces[i]);
	tell("some made again", before);
	for (size_t i = 0; i < n; i++)
		if (below(64))
			drop(&pieces[i]);
	tell("nearly all freed", before);
	for (size_t i = 0; i < n; i++)
		drop(&pieces[i]);
	tell("all freed", before);
	printf("}\n");
	fflush(stdout);
}

/* --- names of handles --- */

/* Whether a handle's value is given out again while something else keeps the memory it stood for. */
static int comes_again(CUmemGenericAllocationHandle gone, const CUmemAllocationProp *prop)
{
	CUmemGenericAllocationHandle h[256];
	int n = 0, found = 0;

	while (n < 256 && cu.cuMemCreate(&h[n], 2 * MIB, prop, 0) == CUDA_SUCCESS)
		found += h[n++] == gone;
	while (n > 0)
		cu.cuMemRelease(h[--n]);
	return found;
}

static void try_handles(void)
{
	CUmemAllocationProp prop = { .type = 1, .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUmulticastObjectProp many = { .numDevices = 1, .size = 512 * MIB };
	CUmemGenericAllocationHandle h, object;
	CUdeviceptr at = 0;
	struct seen before = look();
	int supported = -1;

	must(cu.cuMemCreate(&h, 64 * MIB, &prop, 0), "create memory");
	must(cu.cuMemAddressReserve(&at, 64 * MIB, 0, 0, 0), "reserve addresses");
	must(cu.cuMemMap(at, 64 * MIB, 0, h, 0), "map");
	must(cu.cuMemRelease(h), "release");
	printf("{\"handle of mapped memory comes again\":%d", comes_again(h, &prop));
	must(cu.cuMemUnmap(at, 64 * MIB), "unmap");
	cu.cuDeviceGetAttribute(&supported, MULTICAST_SUPPORTED, dev);
	printf(",\"multicast supported\":%d", supported);
	if (cu.cuMulticastCreate(&object, &many) == CUDA_SUCCESS) {
		CUresult r = cu.cuMulticastAddDevice(object, dev);

		printf(",\"object of one card\":%d", (int)r);
		must(cu.cuMemCreate(&h, 512 * MIB, &prop, 0), "create memory");
		r = cu.cuMulticastBindMem(object, 0, h, 0, 512 * MIB, 0);
		printf(",\"bound\":%d", (int)r);
		must(cu.cuMemRelease(h), "release");
		printf(",\"kept, MiB\":%lld", (long long)(look().card - before.card) >> 20);
		printf(",\"handle of bound memory comes again\":%d", comes_again(h, &prop));
		must(cu.cuMemRelease(object), "release the object");
	}
	printf(",\"left, MiB\":%lld}\n", (long long)(look().card - before.card) >> 20);
}

int main(void)
{
	open_card();
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		try_kind(&kinds[i]);
	try_handles();
	return 0;
}
