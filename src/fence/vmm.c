/* Memory by handle. A handle's bytes stay charged while anything keeps them on the card: a create,
 * import or retain that was not released, a mapping that was not unmapped, a multicast object they
 * are bound to. The card is the one the memory lies on, whatever context is current. */
#include <stdlib.h>

#include "fence/fence.h"

#define PAGE ((uint64_t)2 << 20)

static bool on_a_card(const CUmemAllocationProp *prop)
{
	return prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
}

/* Memory of a kind that moves between cards, or in a place this file does not know. */
static bool not_understood(const struct rf_fence *f, const CUmemAllocationProp *prop)
{
	return f->any_cap && (prop->type == RF_CU_MEM_ALLOCATION_TYPE_MANAGED ||
			      prop->location.type > RF_CU_MEM_LOCATION_TYPE_LAST);
}

#define SHARED 1 /* owner of a handle that other processes may have */

/* One more reference if the handle is known, as what it is. */
static bool is_known(struct rf_fence *f, CUmemGenericAllocationHandle handle, unsigned card,
		     uint64_t bytes)
{
	struct rf_entry *e;
	bool known;

	rf_table_lock(&f->table);
	e = rf_table_find(&f->table, RF_SPACE_HANDLE, handle);
	known = e && e->bytes == bytes && e->card == card;
	if (known)
		e->refs++;
	rf_table_unlock(&f->table);
	return known;
}

/* A handle without bytes of its own: of a multicast object, of memory that is not counted. It has its counts all the same,
 * or they would be another's that gets its name. */
static CUresult enter(struct rf_fence *f, CUmemGenericAllocationHandle handle, bool shared)
{
	struct rf_entry e = {
		.key = handle, .refs = 1, .owner = shared ? SHARED : 0, .space = RF_SPACE_HANDLE
	};

	if (!rf_table_room(&f->table))
		return CUDA_ERROR_OUT_OF_MEMORY;
	rf_charge_enter(f, &e);
	return CUDA_SUCCESS;
}

/* The same for one that may have been handed out before. */
static CUresult enter_or_again(struct rf_fence *f, CUmemGenericAllocationHandle handle)
{
	return is_known(f, handle, 0, 0) ? CUDA_SUCCESS : enter(f, handle, true);
}

/* One that was just made; let go again if there is no room for it. */
static CUresult keep_uncounted(struct rf_fence *f, CUmemGenericAllocationHandle handle)
{
	CUresult r = enter(f, handle, false);

	if (r != CUDA_SUCCESS)
		RF_REAL(cuMemRelease)(handle);
	return r;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
		     const CUmemAllocationProp *prop, unsigned long long flags)
{
	struct rf_fence *f = rf_join();
	struct rf_charge c;
	unsigned card;
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (prop && not_understood(f, prop))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!prop || !on_a_card(prop)) {
		r = RF_REAL(cuMemCreate)(handle, size, prop, flags);
		return r == CUDA_SUCCESS ? keep_uncounted(f, *handle) : r;
	}
	r = rf_card_of(f, prop->location.id, &card);
	if (r == CUDA_SUCCESS)
		r = rf_charge_begin_on(&c, f, card, rf_footprint(size));
	if (r != CUDA_SUCCESS)
		return r;
	r = RF_REAL(cuMemCreate)(handle, size, prop, flags);
	return rf_charge_end(&c, r, RF_SPACE_HANDLE, handle);
}

/* --- multicast: an object keeps what is bound to it --- */

/* The process has let go of the object. If it is shared, others may keep it, and with it the bound
 * memory: that stays charged until the process ends. */
static void object_gone(struct rf_fence *f, uint64_t object, bool shared)
{
	struct rf_binding *gone = NULL;

	pthread_mutex_lock(&f->bind_lock);
	for (struct rf_binding **p = &f->bindings; *p;) {
		struct rf_binding *b = *p;

		if (b->object != object) {
			p = &b->next;
			continue;
		}
		if (shared) {
			b->object = 0;
			continue;
		}
		*p = b->next;
		b->next = gone;
		gone = b;
	}
	pthread_mutex_unlock(&f->bind_lock);
	while (gone) {
		struct rf_binding *next = gone->next;

		rf_charge_count(f, RF_SPACE_HANDLE, gone->handle, 0, -1);
		free(gone);
		gone = next;
	}
}

/* Changes a handle's counts; what it kept goes with it. */
static void count(struct rf_fence *f, uint64_t handle, int refs, int maps)
{
	struct rf_entry *e;
	bool shared;

	rf_table_lock(&f->table);
	e = rf_table_find(&f->table, RF_SPACE_HANDLE, handle);
	shared = e && e->owner == SHARED;
	rf_table_unlock(&f->table);
	if (rf_charge_count(f, RF_SPACE_HANDLE, handle, refs, maps))
		object_gone(f, handle, shared);
}

CUresult cuMulticastCreate(CUmemGenericAllocationHandle *object, const CUmulticastObjectProp *prop)
{
	struct rf_fence *f = rf_join();
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	r = RF_REAL(cuMulticastCreate)(object, prop);
	return r == CUDA_SUCCESS ? keep_uncounted(f, *object) : r;
}

/* handle 0: whichever is bound there. */
static void forget_binding(struct rf_fence *f, uint64_t object, CUdevice dev, uint64_t offset,
			   uint64_t handle)
{
	struct rf_binding *b;
	struct rf_binding **p;

	pthread_mutex_lock(&f->bind_lock);
	for (p = &f->bindings; *p; p = &(*p)->next) {
		if ((*p)->object == object && (*p)->dev == dev && (*p)->offset == offset &&
		    (handle == 0 || (*p)->handle == handle))
			break;
	}
	b = *p;
	if (b)
		*p = b->next;
	pthread_mutex_unlock(&f->bind_lock);
	if (b)
		rf_charge_count(f, RF_SPACE_HANDLE, b->handle, 0, -1);
	free(b);
}

/* What keeps a handle's memory is counted before the driver is asked, so that a release on another thread does not
 * give its charge back. All handles are known under a cap: who names another one guesses. */
static CUresult hold(struct rf_fence *f, CUmemGenericAllocationHandle handle)
{
	return rf_charge_again(f, RF_SPACE_HANDLE, handle, 0, 1) || !f->any_cap
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_INVALID_VALUE;
}

/* The handle's memory is kept by the object from before the driver is asked. */
static CUresult begin_binding(struct rf_fence *f, uint64_t object, CUdevice dev, uint64_t offset,
			      CUmemGenericAllocationHandle handle)
{
	struct rf_binding *b = malloc(sizeof(*b));
	CUresult r = b ? hold(f, handle) : CUDA_ERROR_OUT_OF_MEMORY;

	if (r != CUDA_SUCCESS) {
		free(b);
		return r;
	}
	*b = (struct rf_binding){
		.object = object, .offset = offset, .handle = handle, .dev = dev
	};
	pthread_mutex_lock(&f->bind_lock);
	b->next = f->bindings;
	f->bindings = b;
	pthread_mutex_unlock(&f->bind_lock);
	return CUDA_SUCCESS;
}

static CUresult home_of(CUmemGenericAllocationHandle handle, CUdevice *ret)
{
	CUmemAllocationProp prop = { 0 };
	CUresult r = RF_REAL(cuMemGetAllocationPropertiesFromHandle)(&prop, handle);

	if (r == CUDA_SUCCESS)
		*ret = on_a_card(&prop) ? prop.location.id : -1;
	return r;
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle object, size_t offset,
			    CUmemGenericAllocationHandle handle, size_t from, size_t size,
			    unsigned long long flags)
{
	struct rf_fence *f = rf_join();
	CUdevice dev = -1;
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	r = home_of(handle, &dev);
	if (r == CUDA_SUCCESS)
		r = begin_binding(f, object, dev, offset, handle);
	if (r != CUDA_SUCCESS)
		return r;
	r = RF_REAL(cuMulticastBindMem)(object, offset, handle, from, size, flags);
	if (r != CUDA_SUCCESS)
		forget_binding(f, object, dev, offset, handle);
	return r;
}

CUresult cuMulticastBindMem_v2(CUmemGenericAllocationHandle object, CUdevice dev, size_t offset,
			       CUmemGenericAllocationHandle handle, size_t from, size_t size,
			       unsigned long long flags)
{
	struct rf_fence *f = rf_join();
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	r = begin_binding(f, object, dev, offset, handle);
	if (r != CUDA_SUCCESS)
		return r;
	r = RF_REAL(cuMulticastBindMem_v2)(object, dev, offset, handle, from, size, flags);
	if (r != CUDA_SUCCESS)
		forget_binding(f, object, dev, offset, handle);
	return r;
}

/* By address: the handle behind it is found by retaining it for a moment. Memory that has none (of
 * pools) could be freed and stay bound, with nobody to charge: not under a cap. */
static CUresult begin_at(struct rf_fence *f, uint64_t object, CUdevice *dev, uint64_t offset,
			 CUdeviceptr ptr, uint64_t *ret_handle)
{
	CUmemGenericAllocationHandle handle;
	CUresult r;

	*ret_handle = 0;
	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	r = RF_REAL(cuMemRetainAllocationHandle)(&handle, (void *)(uintptr_t)ptr);
	if (r != CUDA_SUCCESS)
		return f->any_cap ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
	if (*dev < 0)
		r = home_of(handle, dev);
	if (r == CUDA_SUCCESS)
		r = begin_binding(f, object, *dev, offset, handle);
	*ret_handle = handle;
	RF_REAL(cuMemRelease)(handle);
	return r;
}

CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle object, size_t offset, CUdeviceptr ptr,
			     size_t size, unsigned long long flags)
{
	struct rf_fence *f = rf_join();
	CUdevice dev = -1;
	uint64_t handle;
	CUresult r = begin_at(f, object, &dev, offset, ptr, &handle);

	if (r != CUDA_SUCCESS)
		return r;
	r = RF_REAL(cuMulticastBindAddr)(object, offset, ptr, size, flags);
	if (r != CUDA_SUCCESS)
		forget_binding(f, object, dev, offset, handle);
	return r;
}

CUresult cuMulticastBindAddr_v2(CUmemGenericAllocationHandle object, CUdevice dev, size_t offset,
				CUdeviceptr ptr, size_t size, unsigned long long flags)
{
	struct rf_fence *f = rf_join();
	CUdevice on = dev;
	uint64_t handle;
	CUresult r = begin_at(f, object, &on, offset, ptr, &handle);

	if (r != CUDA_SUCCESS)
		return r;
	r = RF_REAL(cuMulticastBindAddr_v2)(object, dev, offset, ptr, size, flags);
	if (r != CUDA_SUCCESS)
		forget_binding(f, object, on, offset, handle);
	return r;
}

CUresult cuMulticastUnbind(CUmemGenericAllocationHandle object, CUdevice dev, size_t offset,
			   size_t size)
{
	struct rf_fence *f = rf_join();
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	r = RF_REAL(cuMulticastUnbind)(object, dev, offset, size);
	if (r == CUDA_SUCCESS)
		forget_binding(f, object, dev, offset, 0);
	return r;
}

/* --- out of the process and into it --- */

CUresult cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
				      int type, unsigned long long flags)
{
	struct rf_fence *f = rf_join();
	struct rf_entry *e;
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	r = RF_REAL(cuMemExportToShareableHandle)(shareable, handle, type, flags);
	if (r != CUDA_SUCCESS)
		return r;
	rf_table_lock(&f->table);
	e = rf_table_find(&f->table, RF_SPACE_HANDLE, handle);
	if (e)
		e->owner = SHARED;
	rf_table_unlock(&f->table);
	return r;
}

/* A place to try mappings at. */
struct trial {
	CUmemGenericAllocationHandle handle;
	CUdeviceptr at;
	uint64_t step; /* sizes are multiples of it */
	uint64_t most; /* larger than this is over the cap anyway */
};

/* A mapping that nobody was given access to touches nothing on the card. */
static bool fits(const struct trial *t, uint64_t size)
{
	if (size > t->most || RF_REAL(cuMemMap)(t->at, size, 0, t->handle, 0) != CUDA_SUCCESS)
		return false;
	RF_REAL(cuMemUnmap)(t->at, size);
	return true;
}

/* The largest size that can be mapped, if parts can be; else the one size that can. 0: none. */
static uint64_t largest(const struct trial *t)
{
	uint64_t low = t->step, high;

	if (!fits(t, low)) {
		while (low <= t->most && !fits(t, low))
			low += t->step;
		return low <= t->most ? low : 0;
	}
	for (high = 2 * low; fits(t, high); high *= 2)
		low = high;
	while (high - low > t->step) {
		uint64_t middle = low + (high - low) / 2 / t->step * t->step;

		if (fits(t, middle))
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* The driver does not tell the size of an imported handle, but it refuses to map more of it. */
static CUresult size_of(CUmemGenericAllocationHandle handle, const CUmemAllocationProp *prop,
			uint64_t cap, uint64_t *ret)
{
	struct trial t = { .handle = handle };
	size_t step = 0;
	CUresult r;

	if (RF_REAL(cuMemGetAllocationGranularity)(&step, prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM) !=
		    CUDA_SUCCESS ||
	    step == 0)
		step = PAGE;
	t.step = step;
	t.most = (cap / step + 1) * step;
	r = RF_REAL(cuMemAddressReserve)(&t.at, t.most, 0, 0, 0);
	if (r != CUDA_SUCCESS)
		return r;
	*ret = largest(&t);
	RF_REAL(cuMemAddressFree)(t.at, t.most);
	return *ret == 0 || *ret > cap ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

/* In full, always: the exporter may be gone before the importer is. */
static CUresult charge_import(struct rf_fence *f, CUmemGenericAllocationHandle handle)
{
	CUmemAllocationProp prop = { 0 };
	struct rf_charge c;
	uint64_t size = 0;
	unsigned card;
	CUresult r;

	/* What has no properties is no memory but a multicast object. */
	if (RF_REAL(cuMemGetAllocationPropertiesFromHandle)(&prop, handle) != CUDA_SUCCESS)
		return enter_or_again(f, handle);
	if (not_understood(f, &prop))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!on_a_card(&prop))
		return enter_or_again(f, handle);
	r = rf_card_of(f, prop.location.id, &card);
	if (r != CUDA_SUCCESS)
		return r;
	if (f->card[card].cap == UINT64_MAX)
		return rf_charge_again(f, RF_SPACE_HANDLE, handle, 1, 0) ? r
									 : enter(f, handle, true);
	r = size_of(handle, &prop, f->card[card].cap, &size);
	if (r == CUDA_SUCCESS && is_known(f, handle, card, rf_footprint(size)))
		return r;
	if (r == CUDA_SUCCESS)
		r = rf_charge_begin_on(&c, f, card, rf_footprint(size));
	if (r != CUDA_SUCCESS)
		return r;
	c.owner = SHARED;
	rf_charge_keep(&c, RF_SPACE_HANDLE, handle);
	return r;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shareable,
					int type)
{
	struct rf_fence *f = rf_join();
	CUmemGenericAllocationHandle got = 0;
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (!f->any_cap || !handle)
		return RF_REAL(cuMemImportFromShareableHandle)(handle, shareable, type);
	r = RF_REAL(cuMemImportFromShareableHandle)(&got, shareable, type);
	if (r != CUDA_SUCCESS)
		return r;
	r = charge_import(f, got);
	if (r == CUDA_SUCCESS)
		*handle = got;
	else
		RF_REAL(cuMemRelease)(got);
	return r;
}

CUresult rf_vmm_behind(struct rf_fence *f, int fd, unsigned *ret_card, uint64_t *ret_bytes)
{
	CUmemGenericAllocationHandle handle = 0;
	CUmemAllocationProp prop = { 0 };
	CUresult r = CUDA_SUCCESS;

	*ret_bytes = 0;
	if (RF_REAL(cuMemImportFromShareableHandle)(&handle, (void *)(intptr_t)fd,
						    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) !=
	    CUDA_SUCCESS)
		return CUDA_SUCCESS;
	if (RF_REAL(cuMemGetAllocationPropertiesFromHandle)(&prop, handle) == CUDA_SUCCESS &&
	    on_a_card(&prop)) {
		r = rf_card_of(f, prop.location.id, ret_card);
		if (r == CUDA_SUCCESS && f->card[*ret_card].cap != UINT64_MAX)
			r = size_of(handle, &prop, f->card[*ret_card].cap, ret_bytes);
	}
	RF_REAL(cuMemRelease)(handle);
	return r;
}

/* --- references and mappings --- */

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct rf_fence *f = rf_join();
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	rf_move_begin(f);
	r = RF_REAL(cuMemRelease)(handle);
	if (r == CUDA_SUCCESS)
		count(f, handle, -1, 0);
	rf_move_end(f);
	return r;
}

/* If another thread unmaps it meanwhile, the fence may have forgotten it already: then it is charged anew. */
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
	struct rf_fence *f = rf_join();
	CUmemGenericAllocationHandle got = 0;
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	r = RF_REAL(cuMemRetainAllocationHandle)(handle ? &got : NULL, addr);
	if (r != CUDA_SUCCESS)
		return r;
	if (!rf_charge_again(f, RF_SPACE_HANDLE, got, 1, 0) && f->any_cap)
		r = charge_import(f, got);
	if (r == CUDA_SUCCESS)
		*handle = got;
	else
		RF_REAL(cuMemRelease)(got);
	return r;
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
		  unsigned long long flags)
{
	struct rf_fence *f = rf_join();
	struct rf_entry e = {
		.key = ptr, .bytes = size, .owner = handle, .space = RF_SPACE_MAPPING
	};
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (!rf_table_room(&f->table))
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = hold(f, handle);
	if (r != CUDA_SUCCESS) {
		rf_table_waive(&f->table);
		return r;
	}
	r = RF_REAL(cuMemMap)(ptr, size, offset, handle, flags);
	if (r != CUDA_SUCCESS) {
		rf_table_waive(&f->table);
		count(f, handle, 0, -1);
		return r;
	}
	rf_table_put(&f->table, &e);
	return r;
}

#define FEW 16

/* The mappings that begin in a range, taken out of the table. */
struct mappings {
	struct rf_entry few[FEW];
	struct rf_entry *all; /* few, or the heap's */
	size_t n;
};

static size_t count_mappings(struct rf_table *t, CUdeviceptr ptr, size_t size)
{
	const struct rf_entry *e;
	size_t n = 0;

	rf_table_lock(t);
	for (CUdeviceptr at = ptr; at - ptr < size; at += e->bytes, n++) {
		e = rf_table_find(t, RF_SPACE_MAPPING, at);
		if (!e || e->bytes == 0)
			break;
	}
	rf_table_unlock(t);
	return n;
}

static bool take_mappings(struct rf_table *t, CUdeviceptr ptr, size_t size, struct mappings *m)
{
	size_t most = count_mappings(t, ptr, size);

	m->n = 0;
	m->all = most <= FEW ? m->few : calloc(most, sizeof(*m->all));
	for (CUdeviceptr at = ptr; m->all && m->n < most && at - ptr < size;
	     at += m->all[m->n++].bytes)
		if (!rf_table_take(t, RF_SPACE_MAPPING, at, &m->all[m->n]))
			break;
	return m->all != NULL;
}

/* One call may undo several adjacent mappings. They are out of the table while the driver works: others may come to
 * their places at once. */
CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	struct rf_fence *f = rf_join();
	struct mappings m;
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (!take_mappings(&f->table, ptr, size, &m))
		return CUDA_ERROR_OUT_OF_MEMORY;
	rf_move_begin(f);
	r = RF_REAL(cuMemUnmap)(ptr, size);
	for (size_t i = 0; i < m.n; i++) {
		if (r != CUDA_SUCCESS) {
			rf_table_put(&f->table, &m.all[i]);
			continue;
		}
		rf_table_waive(&f->table);
		count(f, m.all[i].owner, 0, -1);
	}
	rf_move_end(f);
	if (m.all != m.few)
		free(m.all);
	return r;
}
