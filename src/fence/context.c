/* Contexts: each takes memory of its card for itself (as much as the agent measured), some of its
 * limits make it take more, and when it goes it takes what was allocated in it along.
 *
 * A green context is a part of the card's primary context, with little memory of its own; it keeps
 * the primary context alive. */
#include <stdlib.h>

#include "fence/fence.h"

/* The lock is held while the driver makes or ends a context, so that no new one can get an old
 * one's name before that one's charges are gone. A driver that calls its own exported functions by
 * name comes back on the same thread; such a call is part of one already accounted for. */
static _Thread_local __attribute__((tls_model("initial-exec"))) bool inside;

static bool enter(struct rf_fence *f)
{
	if (inside)
		return false;
	pthread_mutex_lock(&f->context_lock);
	inside = true;
	return true;
}

static void leave(struct rf_fence *f)
{
	inside = false;
	pthread_mutex_unlock(&f->context_lock);
}

/* --- which there are; all under the lock --- */

static struct rf_context *find(struct rf_fence *f, CUcontext ctx)
{
	struct rf_context *c = f->contexts;

	while (c && c->ctx != ctx)
		c = c->next;
	return c;
}

void rf_context_tell(struct rf_fence *f)
{
	uint32_t cards = __atomic_load_n(&f->context_cards, __ATOMIC_RELAXED);

	rf_ledger_mark(&f->place, cards);
}

static void recount(struct rf_fence *f)
{
	uint32_t cards = 0;

	for (struct rf_context *c = f->contexts; c; c = c->next)
		cards |= 1u << c->card;
	__atomic_store_n(&f->context_cards, cards, __ATOMIC_RELAXED);
	rf_context_tell(f);
}

static void gone(void *fence, const struct rf_entry *e)
{
	rf_charge_give_back(fence, e);
}

static void forget(struct rf_fence *f, CUcontext ctx)
{
	rf_table_forget(&f->table, (uintptr_t)ctx, gone, f);
	rf_module_context_gone(f, ctx);
	rf_heap_context_gone(f, ctx);
	rf_share_capture_context_gone(ctx);
	for (struct rf_context **p = &f->contexts; *p; p = &(*p)->next) {
		struct rf_context *c = *p;

		if (c->ctx != ctx)
			continue;
		*p = c->next;
		rf_release(f, c->card, c->bytes);
		free(c);
		break;
	}
	recount(f);
}

/* --- making one --- */

/* A record for a context on the device, charged; *ret stays NULL for a card that is not in the
 * fence: a context there is no use, but harms nobody's cap. */
static CUresult begin(struct rf_fence *f, CUdevice dev, struct rf_context **ret)
{
	struct rf_context *c;
	struct rf_charge charge;
	unsigned card;
	CUresult r;

	*ret = NULL;
	if (rf_card_of(f, dev, &card) != CUDA_SUCCESS)
		return CUDA_SUCCESS;
	c = calloc(1, sizeof(*c));
	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*c = (struct rf_context){ .dev = dev,
				  .card = (uint8_t)card,
				  .bytes = f->card[card].context_bytes };
	r = rf_charge_begin_on(&charge, f, card, c->bytes);
	if (r != CUDA_SUCCESS) {
		free(c);
		return r;
	}
	rf_table_waive(&f->table); /* contexts have a list of their own */
	*ret = c;
	return CUDA_SUCCESS;
}

static void cancel(struct rf_fence *f, struct rf_context *c)
{
	if (c)
		rf_release(f, c->card, c->bytes);
	free(c);
}

static void keep(struct rf_fence *f, struct rf_context *c, CUcontext ctx)
{
	if (!c)
		return;
	c->ctx = ctx;
	c->next = f->contexts;
	f->contexts = c;
	recount(f);
}

/* The four ways to ask for one. */
struct wish {
	int version;
	CUcontext *ctx;
	void *params;
	int n;
	unsigned int flags;
	CUdevice dev;
};

static CUresult ask(const struct wish *w)
{
	switch (w->version) {
	case 1:
		return RF_REAL(cuCtxCreate)(w->ctx, w->flags, w->dev);
	case 2:
		return RF_REAL(cuCtxCreate_v2)(w->ctx, w->flags, w->dev);
	case 3:
		return RF_REAL(cuCtxCreate_v3)(w->ctx, w->params, w->n, w->flags, w->dev);
	default:
		return RF_REAL(cuCtxCreate_v4)(w->ctx, w->params, w->flags, w->dev);
	}
}

static CUresult create(const struct wish *w)
{
	struct rf_fence *f = rf_join();
	struct rf_context *c;
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (!enter(f))
		return ask(w);
	r = begin(f, w->dev, &c);
	if (r == CUDA_SUCCESS) {
		r = ask(w);
		if (r == CUDA_SUCCESS)
			keep(f, c, *w->ctx);
		else
			cancel(f, c);
	}
	leave(f);
	return r;
}

CUresult cuCtxCreate(CUcontext *ctx, unsigned int flags, CUdevice dev)
{
	return create(&(struct wish){ .version = 1, .ctx = ctx, .flags = flags, .dev = dev });
}

CUresult cuCtxCreate_v2(CUcontext *ctx, unsigned int flags, CUdevice dev)
{
	return create(&(struct wish){ .version = 2, .ctx = ctx, .flags = flags, .dev = dev });
}

CUresult cuCtxCreate_v3(CUcontext *ctx, CUexecAffinityParam *params, int n, unsigned int flags,
			CUdevice dev)
{
	return create(&(struct wish){ 3, ctx, params, n, flags, dev });
}

CUresult cuCtxCreate_v4(CUcontext *ctx, CUctxCreateParams *params, unsigned int flags, CUdevice dev)
{
	return create(&(struct wish){ 4, ctx, params, 0, flags, dev });
}

static CUresult destroy(CUcontext ctx, __typeof__(&cuCtxDestroy_v2) real)
{
	struct rf_fence *f = rf_join();
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (!enter(f))
		return real(ctx);
	rf_share_context_gone(ctx);
	rf_pool_stream_gone(f, NULL);
	r = real(ctx);
	if (r == CUDA_SUCCESS && ctx)
		forget(f, ctx);
	leave(f);
	return r;
}

CUresult cuCtxDestroy(CUcontext ctx)
{
	return destroy(ctx, RF_REAL(cuCtxDestroy));
}

CUresult cuCtxDestroy_v2(CUcontext ctx)
{
	return destroy(ctx, RF_REAL(cuCtxDestroy_v2));
}

/* --- primary contexts --- */

static bool numbered(CUdevice dev)
{
	return dev >= 0 && dev < RF_DEVICES;
}

/* Charged before a call that may bring it to life; *ret is NULL if it lives already. */
static CUresult begin_primary(struct rf_fence *f, CUdevice dev, struct rf_context **ret)
{
	*ret = NULL;
	if (!numbered(dev) || find(f, __atomic_load_n(&f->primary[dev], __ATOMIC_RELAXED)))
		return CUDA_SUCCESS;
	return begin(f, dev, ret);
}

static void keep_primary(struct rf_fence *f, CUdevice dev, struct rf_context *c, CUcontext ctx)
{
	if (numbered(dev))
		__atomic_store_n(&f->primary[dev], ctx, __ATOMIC_RELAXED);
	keep(f, c, ctx);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice dev)
{
	struct rf_fence *f = rf_join();
	struct rf_context *c;
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (!enter(f))
		return RF_REAL(cuDevicePrimaryCtxRetain)(ctx, dev);
	r = begin_primary(f, dev, &c);
	if (r == CUDA_SUCCESS) {
		r = RF_REAL(cuDevicePrimaryCtxRetain)(ctx, dev);
		if (r == CUDA_SUCCESS) {
			keep_primary(f, dev, c, *ctx);
			c = find(f, *ctx);
			if (c)
				c->refs++;
		} else {
			cancel(f, c);
		}
	}
	leave(f);
	return r;
}

/* Only when the driver says that the primary context is gone are its allocations gone too. */
static void look_after(struct rf_fence *f, CUdevice dev)
{
	unsigned int flags;
	int active = 1;
	CUcontext ctx;

	if (!numbered(dev) ||
	    RF_REAL(cuDevicePrimaryCtxGetState)(dev, &flags, &active) != CUDA_SUCCESS || active)
		return;
	ctx = __atomic_exchange_n(&f->primary[dev], NULL, __ATOMIC_RELAXED);
	if (ctx)
		forget(f, ctx);
}

/* What is launched there is told before the last reference goes. */
static void prepare(struct rf_fence *f, CUdevice dev, bool reset)
{
	CUcontext ctx = numbered(dev) ? __atomic_load_n(&f->primary[dev], __ATOMIC_RELAXED) : NULL;
	struct rf_context *c = ctx ? find(f, ctx) : NULL;

	if (c && (reset || c->refs <= 1))
		rf_share_context_gone(ctx);
	if (c && c->refs > 0)
		c->refs--;
}

static CUresult let_go(CUdevice dev, bool reset, __typeof__(&cuDevicePrimaryCtxRelease_v2) real)
{
	struct rf_fence *f = rf_join();
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (!enter(f))
		return real(dev);
	prepare(f, dev, reset);
	rf_pool_stream_gone(f, NULL);
	r = real(dev);
	if (r == CUDA_SUCCESS)
		look_after(f, dev);
	leave(f);
	return r;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev)
{
	return let_go(dev, false, RF_REAL(cuDevicePrimaryCtxRelease));
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	return let_go(dev, false, RF_REAL(cuDevicePrimaryCtxRelease_v2));
}

CUresult cuDevicePrimaryCtxReset(CUdevice dev)
{
	return let_go(dev, true, RF_REAL(cuDevicePrimaryCtxReset));
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
	return let_go(dev, true, RF_REAL(cuDevicePrimaryCtxReset_v2));
}

#define GREEN_BYTES ((uint64_t)6 << 20) /* measured on an H200 */

/* Charged as contexts are: where it is known what those take. */
static CUresult begin_green(struct rf_fence *f, CUdevice dev, struct rf_charge *ret)
{
	unsigned card;

	ret->fence = NULL;
	if (rf_card_of(f, dev, &card) != CUDA_SUCCESS || f->card[card].context_bytes == 0)
		return CUDA_SUCCESS;
	return rf_charge_begin_on(ret, f, card, GREEN_BYTES);
}

/* The primary context lives now; its name is asked for by retaining it a moment. */
static void meet_primary(struct rf_fence *f, CUdevice dev, struct rf_context *c)
{
	CUcontext primary;

	if (c && RF_REAL(cuDevicePrimaryCtxRetain)(&primary, dev) == CUDA_SUCCESS) {
		keep_primary(f, dev, c, primary);
		RF_REAL(cuDevicePrimaryCtxRelease_v2)(dev);
	} else {
		cancel(f, c);
	}
}

/* Under the lock. */
static CUresult make_green(struct rf_fence *f, rf_green_ctx *ctx, rf_resources desc, CUdevice dev,
			   unsigned int flags)
{
	struct rf_charge charge;
	struct rf_context *c;
	CUresult r = begin_primary(f, dev, &c);

	if (r != CUDA_SUCCESS)
		return r;
	r = begin_green(f, dev, &charge);
	if (r == CUDA_SUCCESS) {
		r = RF_REAL(cuGreenCtxCreate)(ctx, desc, dev, flags);
		if (r != CUDA_SUCCESS && charge.fence)
			rf_charge_undo(&charge, r);
	}
	if (r != CUDA_SUCCESS) {
		cancel(f, c);
		return r;
	}
	meet_primary(f, dev, c);
	if (charge.fence) {
		charge.owner = (uintptr_t)__atomic_load_n(&f->primary[dev], __ATOMIC_RELAXED);
		rf_charge_keep(&charge, RF_SPACE_GREEN, (uintptr_t)*ctx);
	}
	return r;
}

CUresult cuGreenCtxCreate(rf_green_ctx *ctx, rf_resources desc, CUdevice dev, unsigned int flags)
{
	struct rf_fence *f = rf_join();
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (!enter(f))
		return RF_REAL(cuGreenCtxCreate)(ctx, desc, dev, flags);
	r = make_green(f, ctx, desc, dev, flags);
	leave(f);
	return r;
}

CUresult cuGreenCtxDestroy(rf_green_ctx ctx)
{
	struct rf_fence *f = rf_join();
	struct rf_entry e;
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (!enter(f))
		return RF_REAL(cuGreenCtxDestroy)(ctx);
	if (rf_table_take(&f->table, RF_SPACE_GREEN, (uintptr_t)ctx, &e))
		r = rf_charge_drop(f, &e, RF_REAL(cuGreenCtxDestroy)(ctx));
	else
		r = RF_REAL(cuGreenCtxDestroy)(ctx);
	for (CUdevice dev = 0; r == CUDA_SUCCESS && dev < RF_DEVICES; dev++) {
		if (__atomic_load_n(&f->primary[dev], __ATOMIC_RELAXED))
			look_after(f, dev);
	}
	leave(f);
	return r;
}

/* --- limits --- */

#define PENDING_BYTES 4096 /* per launch that waits inside the card: an estimate */

static uint64_t threads_of(CUdevice dev)
{
	int sms = 0, threads = 0;

	RF_REAL(cuDeviceGetAttribute)(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, dev);
	RF_REAL(cuDeviceGetAttribute)
	(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, dev);
	return (uint64_t)sms * (uint64_t)threads;
}

/* What a limit of so much takes of the card. */
static uint64_t cost(CUdevice dev, int limit, uint64_t value)
{
	uint64_t unit = 1, product;

	if (limit == CU_LIMIT_STACK_SIZE) /* every thread the card can hold has one */
		unit = threads_of(dev);
	else if (limit == CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT)
		unit = PENDING_BYTES;
	return __builtin_mul_overflow(value, unit, &product) ? UINT64_MAX : product;
}

static bool takes_memory(int limit)
{
	return limit >= 0 && limit < RF_CONTEXT_LIMITS;
}

/* The base is what the context was measured with. */
static void measure(struct rf_context *c)
{
	for (int i = 0; !c->measured && i < RF_CONTEXT_LIMITS; i++) {
		size_t value = 0;

		if (RF_REAL(cuCtxGetLimit)(&value, i) != CUDA_SUCCESS)
			value = 0; /* this card has no such limit */
		c->base[i] = cost(c->dev, i, value);
	}
	c->measured = true;
}

/* Brings what is charged for a limit to what a value of it takes beyond the base. */
static CUresult charge_limit(struct rf_fence *f, struct rf_context *c, int limit, uint64_t value)
{
	uint64_t all = cost(c->dev, limit, value);
	uint64_t want = all > c->base[limit] ? all - c->base[limit] : 0;
	uint64_t have = c->extra[limit];
	CUresult r = CUDA_SUCCESS;

	if (want > have) {
		r = rf_reserve_or_squeeze(f, c->card, want - have);
	} else {
		rf_release(f, c->card, have - want);
	}
	if (r != CUDA_SUCCESS)
		return r;
	c->bytes += want - have;
	c->extra[limit] = want;
	return r;
}

/* Charged before, and once more afterwards with what the driver made of the value. */
static CUresult set_limit(struct rf_fence *f, struct rf_context *c, int limit, size_t value)
{
	size_t before = 0, after = value;
	CUresult r;

	measure(c);
	RF_REAL(cuCtxGetLimit)(&before, limit);
	if (value > before) {
		r = charge_limit(f, c, limit, value);
		if (r != CUDA_SUCCESS)
			return r;
	}
	r = RF_REAL(cuCtxSetLimit)(limit, value);
	if (r != CUDA_SUCCESS) {
		charge_limit(f, c, limit, before);
		return r;
	}
	RF_REAL(cuCtxGetLimit)(&after, limit);
	r = charge_limit(f, c, limit, after);
	if (r != CUDA_SUCCESS) {
		RF_REAL(cuCtxSetLimit)(limit, before);
		charge_limit(f, c, limit, before);
	}
	return r;
}

/* The record of the current context; for a green one that of the primary it is a part of. */
static struct rf_context *current(struct rf_fence *f)
{
	struct rf_context *c = NULL;
	CUcontext ctx = NULL;
	CUdevice dev = -1;

	if (RF_REAL(cuCtxGetCurrent)(&ctx) == CUDA_SUCCESS && ctx)
		c = find(f, ctx);
	if (!c && ctx && RF_REAL(cuCtxGetDevice)(&dev) == CUDA_SUCCESS && numbered(dev))
		c = find(f, __atomic_load_n(&f->primary[dev], __ATOMIC_RELAXED));
	return c;
}

CUresult cuCtxSetLimit(int limit, size_t value)
{
	struct rf_fence *f = rf_join();
	struct rf_context *c;
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	/* Per level of depth the driver keeps the state of the whole card aside; nobody says how
	 * much that is, nor what newer limits take. */
	if (f->any_cap && (limit == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH || limit > RF_CU_LIMIT_LAST))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!f->any_cap || !takes_memory(limit))
		return RF_REAL(cuCtxSetLimit)(limit, value);
	if (!enter(f))
		return RF_REAL(cuCtxSetLimit)(limit, value);
	c = current(f);
	r = c ? set_limit(f, c, limit, value) : RF_REAL(cuCtxSetLimit)(limit, value);
	leave(f);
	return r;
}
