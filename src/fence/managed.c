/* Managed memory. Its pages go where they are used: to any card, and with CU_MEM_ADVISE_SET_READ_MOSTLY
 * to several at once. So it is charged in full, whatever its flags, on the current card and on every
 * other card with a cap that the process can see.
 *
 * Memory of the system (malloc, mmap, registered host memory) moves onto a card in the same way where
 * the card can reach it. It has no moment of making at which to charge it, and the kernel takes its
 * pages back when it likes: to call it onto a capped card is refused. */
#include "fence/fence.h"

/* The capped cards this process can see, a bit for each. */
static uint32_t capped_cards(struct rf_fence *f)
{
	uint32_t cards = 0;
	int n = 0;

	RF_REAL(cuDeviceGetCount)(&n);
	for (CUdevice dev = 0; dev < n && dev < RF_DEVICES; dev++) {
		unsigned card;

		if (rf_card_of(f, dev, &card) == CUDA_SUCCESS && f->card[card].cap != UINT64_MAX)
			cards |= 1u << card;
	}
	return cards;
}

/* Charges once more on the other capped cards what is charged already; false: does not fit. cards: those where it did. */
static bool spread(const struct rf_charge *c, uint32_t *cards)
{
	uint32_t todo = capped_cards(c->fence) & ~(1u << c->card);

	for (*cards = 0; todo; todo &= todo - 1) {
		if (rf_reserve_or_squeeze(c->fence, (unsigned)__builtin_ctz(todo), c->bytes) !=
		    CUDA_SUCCESS)
			return false;
		*cards |= todo & -todo;
	}
	return true;
}

CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytes, unsigned int flags)
{
	struct rf_charge c;
	CUdeviceptr got = 0;
	uint32_t cards;
	CUresult r = dptr ? rf_plain_begin(&c, bytes) : CUDA_ERROR_INVALID_VALUE;

	if (r != CUDA_SUCCESS)
		return r;
	if (!spread(&c, &cards))
		return rf_plain_undo(&c, cards, CUDA_ERROR_OUT_OF_MEMORY);
	r = RF_REAL(cuMemAllocManaged)(&got, bytes, flags);
	r = rf_plain_end(&c, cards, r, got, bytes);
	if (r == CUDA_SUCCESS)
		*dptr = got;
	return r;
}

/* --- calls that bring pages to a card --- */

static bool says(CUdeviceptr ptr, int attribute, unsigned int value)
{
	unsigned int is = 0;

	return RF_REAL(cuPointerGetAttribute)(&is, attribute, ptr) == CUDA_SUCCESS && is == value;
}

/* Charged when it was made: managed, or memory of a card, about which the driver may complain. */
static bool is_charged(CUdeviceptr ptr)
{
	return says(ptr, CU_POINTER_ATTRIBUTE_IS_MANAGED, 1) ||
	       says(ptr, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_MEMORYTYPE_DEVICE);
}

/* A card that is not in the fence has no cap of ours, and no room. */
static bool has_cap(struct rf_fence *f, CUdevice dev)
{
	unsigned card;

	return rf_card_of(f, dev, &card) != CUDA_SUCCESS || f->card[card].cap != UINT64_MAX;
}

/* A place of a kind that is not known, such as a part of a card, may lie on a capped one. */
static CUresult check(CUdeviceptr ptr, int type, int dev)
{
	struct rf_fence *f = rf_join();
	bool card = type == CU_MEM_LOCATION_TYPE_DEVICE,
	     known = type <= RF_CU_MEM_LOCATION_TYPE_LAST;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (!f->any_cap || (known && (!card || dev < 0)))
		return CUDA_SUCCESS;
	return (!known || has_cap(f, dev)) && !is_charged(ptr) ? CUDA_ERROR_NOT_SUPPORTED
							       : CUDA_SUCCESS;
}

CUresult cuMemPrefetchAsync(CUdeviceptr ptr, size_t n, CUdevice dev, CUstream stream)
{
	CUresult r = check(ptr, CU_MEM_LOCATION_TYPE_DEVICE, dev);

	return r == CUDA_SUCCESS ? RF_REAL(cuMemPrefetchAsync)(ptr, n, dev, stream) : r;
}

CUresult cuMemPrefetchAsync_ptsz(CUdeviceptr ptr, size_t n, CUdevice dev, CUstream stream)
{
	CUresult r = check(ptr, CU_MEM_LOCATION_TYPE_DEVICE, dev);

	return r == CUDA_SUCCESS ? RF_REAL(cuMemPrefetchAsync_ptsz)(ptr, n, dev, stream) : r;
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr ptr, size_t n, CUmemLocation to, unsigned int flags,
			       CUstream stream)
{
	CUresult r = check(ptr, to.type, to.id);

	return r == CUDA_SUCCESS ? RF_REAL(cuMemPrefetchAsync_v2)(ptr, n, to, flags, stream) : r;
}

CUresult cuMemPrefetchAsync_v2_ptsz(CUdeviceptr ptr, size_t n, CUmemLocation to, unsigned int flags,
				    CUstream stream)
{
	CUresult r = check(ptr, to.type, to.id);

	return r == CUDA_SUCCESS ? RF_REAL(cuMemPrefetchAsync_v2_ptsz)(ptr, n, to, flags, stream)
				 : r;
}

typedef __typeof__(&cuMemPrefetchBatchAsync) batch_fn;

/* Each pointer against each place, without sorting out which goes where. */
static CUresult batch(batch_fn real, CUdeviceptr *ptrs, size_t *sizes, size_t n, CUmemLocation *to,
		      size_t *to_from, size_t n_to, unsigned long long flags, CUstream stream)
{
	CUresult r = check(0, CU_MEM_LOCATION_TYPE_HOST, 0);

	for (size_t i = 0; ptrs && to && i < n_to && r == CUDA_SUCCESS; i++) {
		for (size_t j = 0; j < n && r == CUDA_SUCCESS; j++)
			r = check(ptrs[j], to[i].type, to[i].id);
	}
	if (r != CUDA_SUCCESS)
		return r;
	return real(ptrs, sizes, n, to, to_from, n_to, flags, stream);
}

#define BATCH(name)                                                                                \
	CUresult name(CUdeviceptr *ptrs, size_t *sizes, size_t n, CUmemLocation *to,               \
		      size_t *to_from, size_t n_to, unsigned long long flags, CUstream stream)     \
	{                                                                                          \
		return batch(RF_REAL(name), ptrs, sizes, n, to, to_from, n_to, flags, stream);     \
	}
BATCH(cuMemPrefetchBatchAsync)
BATCH(cuMemPrefetchBatchAsync_ptsz)
BATCH(cuMemDiscardAndPrefetchBatchAsync)
BATCH(cuMemDiscardAndPrefetchBatchAsync_ptsz)

static CUresult advise(CUdeviceptr ptr, int advice, int type, int dev)
{
	if (advice != RF_CU_MEM_ADVISE_SET_PREFERRED_LOCATION)
		type = CU_MEM_LOCATION_TYPE_HOST;
	return check(ptr, type, dev);
}

CUresult cuMemAdvise(CUdeviceptr ptr, size_t n, int advice, CUdevice dev)
{
	CUresult r = advise(ptr, advice, CU_MEM_LOCATION_TYPE_DEVICE, dev);

	return r == CUDA_SUCCESS ? RF_REAL(cuMemAdvise)(ptr, n, advice, dev) : r;
}

CUresult cuMemAdvise_v2(CUdeviceptr ptr, size_t n, int advice, CUmemLocation where)
{
	CUresult r = advise(ptr, advice, where.type, where.id);

	return r == CUDA_SUCCESS ? RF_REAL(cuMemAdvise_v2)(ptr, n, advice, where) : r;
}
