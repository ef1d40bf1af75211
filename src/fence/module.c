/* Modules and libraries: variables in global memory, and code.
 *
 * An image that can be read says what its variables take: that is charged before it is loaded. Of one
 * that cannot (compressed parts) the driver's own count of free memory is taken before and after. A
 * neighbour may allocate in that moment, so a large difference is looked at again: the module is
 * unloaded and loaded once more.
 *
 * A library is not loaded into a context before it is used there; then it is charged, once for each
 * context. Code that the driver loads later, at a function's first launch, is not seen. */
#include <stdlib.h>

#include "fence/fence.h"
#include "fence/image.h"
#include "fence/pool.h"

#define LARGE ((uint64_t)32 << 20)
#define NEAR ((uint64_t)2 << 20)
#define ROUNDS 3

/* What the card had free, and what this process had booked. */
struct gauge {
	uint64_t free;
	uint64_t held;
};

static struct gauge look(struct rf_fence *f, unsigned card)
{
	size_t free = 0, total = 0;
	int mode = rf_pool_relax();

	if (RF_REAL(cuMemGetInfo_v2)(&free, &total) != CUDA_SUCCESS)
		free = 0;
	rf_pool_restore(mode);
	return (struct gauge){ free, __atomic_load_n(&f->held[card], __ATOMIC_RELAXED) };
}

/* Taken from the card in between, other than by what was booked in between. */
static uint64_t taken(struct rf_fence *f, unsigned card, const struct gauge *before)
{
	struct gauge now = look(f, card);
	int64_t lost = (int64_t)(before->free - now.free) - (int64_t)(now.held - before->held);

	return lost > 0 ? (uint64_t)lost : 0;
}

/* The card whose cap the current context is under; false: there is none. */
static bool capped_card(struct rf_fence *f, unsigned *ret)
{
	return f->any_cap && rf_current_card(f, ret) == CUDA_SUCCESS &&
	       f->card[*ret].cap != UINT64_MAX;
}

/* --- modules --- */

struct load {
	enum { MODULE_FILE, MODULE_DATA, MODULE_DATA_EX, MODULE_FAT } kind;
	CUmodule *mod;
	const void *image; /* or path */
	unsigned int n;
	int *options;
	void **values;
};

static CUresult load(const struct load *l)
{
	switch (l->kind) {
	case MODULE_FILE:
		return RF_REAL(cuModuleLoad)(l->mod, l->image);
	case MODULE_DATA:
		return RF_REAL(cuModuleLoadData)(l->mod, l->image);
	case MODULE_DATA_EX:
		return RF_REAL(cuModuleLoadDataEx)(l->mod, l->image, l->n, l->options, l->values);
	default:
		return RF_REAL(cuModuleLoadFatBinary)(l->mod, l->image);
	}
}

static uint64_t middle(const uint64_t v[ROUNDS])
{
	uint64_t low = v[0] < v[1] ? v[0] : v[1], high = v[0] < v[1] ? v[1] : v[0];

	return v[2] < low ? low : v[2] > high ? high : v[2];
}

static bool agree(uint64_t a, uint64_t b)
{
	return (a > b ? a - b : b - a) <= NEAR;
}

/* Loads and says what that took. Options may be written to by the driver: such a load is not done
 * twice. */
static CUresult load_measured(struct rf_fence *f, unsigned card, const struct load *l,
			      uint64_t *ret)
{
	uint64_t seen[ROUNDS];

	for (unsigned i = 0; i < ROUNDS; i++) {
		struct gauge before = look(f, card);
		CUresult r = load(l);

		if (r != CUDA_SUCCESS)
			return r;
		*ret = seen[i] = taken(f, card, &before);
		if (seen[i] <= LARGE || l->n > 0 || (i > 0 && agree(seen[i], seen[i - 1])))
			return CUDA_SUCCESS;
		if (i + 1 < ROUNDS)
			RF_REAL(cuModuleUnload)(*l->mod);
	}
	*ret = middle(seen);
	return CUDA_SUCCESS;
}

static CUresult load_opaque(struct rf_charge *c, const struct load *l)
{
	uint64_t bytes = 0;
	CUmodule mod;
	CUresult r;

	pthread_mutex_lock(&c->fence->module_lock);
	r = load_measured(c->fence, c->card, l, &bytes);
	pthread_mutex_unlock(&c->fence->module_lock);
	if (r != CUDA_SUCCESS)
		return rf_charge_undo(c, r);
	mod = *l->mod;
	r = rf_charge_settle(c, bytes > c->bytes ? bytes : c->bytes);
	if (r == CUDA_SUCCESS)
		rf_charge_keep(c, RF_SPACE_MODULE, (uintptr_t)mod);
	else
		RF_REAL(cuModuleUnload)(mod);
	return r;
}

static CUresult load_module(const struct load *l)
{
	struct rf_fence *f = rf_join();
	struct rf_image image;
	struct rf_charge c;
	unsigned card;
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (!l->mod || !capped_card(f, &card))
		return load(l);
	image = l->kind == MODULE_FILE ? rf_image_read_file(l->image) : rf_image_read(l->image);
	r = rf_charge_begin(&c, rf_footprint(image.bytes));
	if (r != CUDA_SUCCESS)
		return r;
	if (!image.plain)
		return load_opaque(&c, l);
	r = load(l);
	return rf_charge_end(&c, r, RF_SPACE_MODULE, l->mod);
}

CUresult cuModuleLoad(CUmodule *mod, const char *path)
{
	return load_module(&(struct load){ .kind = MODULE_FILE, .mod = mod, .image = path });
}

CUresult cuModuleLoadData(CUmodule *mod, const void *image)
{
	return load_module(&(struct load){ .kind = MODULE_DATA, .mod = mod, .image = image });
}

CUresult cuModuleLoadDataEx(CUmodule *mod, const void *image, unsigned int n, int *options,
			    void **values)
{
	return load_module(&(struct load){ MODULE_DATA_EX, mod, image, n, options, values });
}

CUresult cuModuleLoadFatBinary(CUmodule *mod, const void *fat)
{
	return load_module(&(struct load){ .kind = MODULE_FAT, .mod = mod, .image = fat });
}

CUresult cuModuleUnload(CUmodule mod)
{
	struct rf_fence *f = rf_join();
	struct rf_entry e;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (!rf_table_take(&f->table, RF_SPACE_MODULE, (uintptr_t)mod, &e))
		return RF_REAL(cuModuleUnload)(mod);
	return rf_charge_drop(f, &e, RF_REAL(cuModuleUnload)(mod));
}

/* --- libraries --- */

static void push(struct rf_fence *f, struct rf_library *one)
{
	pthread_mutex_lock(&f->library_lock);
	one->next = f->libraries;
	f->libraries = one;
	pthread_mutex_unlock(&f->library_lock);
}

/* Takes out all records of the library, or all of the context. */
static struct rf_library *pull(struct rf_fence *f, CUlibrary lib, CUcontext ctx)
{
	struct rf_library *out = NULL;

	pthread_mutex_lock(&f->library_lock);
	for (struct rf_library **p = &f->libraries; *p;) {
		struct rf_library *one = *p;

		if (lib ? one->lib != lib : one->ctx != ctx) {
			p = &one->next;
			continue;
		}
		*p = one->next;
		one->next = out;
		out = one;
	}
	pthread_mutex_unlock(&f->library_lock);
	return out;
}

static void end_all(struct rf_fence *f, struct rf_library *list)
{
	while (list) {
		struct rf_library *next = list->next;

		if (list->ctx)
			rf_release(f, list->card, list->bytes);
		free(list);
		list = next;
	}
}

void rf_module_context_gone(struct rf_fence *f, CUcontext ctx)
{
	end_all(f, pull(f, NULL, ctx));
}

/* What is known of the library, and whether it is charged for the context already. */
static bool known(struct rf_fence *f, CUlibrary lib, CUcontext ctx, struct rf_library *ret,
		  bool *ret_charged)
{
	bool found = false;

	*ret_charged = false;
	pthread_mutex_lock(&f->library_lock);
	for (struct rf_library *one = f->libraries; one; one = one->next) {
		if (one->lib != lib)
			continue;
		if (!one->ctx) {
			*ret = *one;
			found = true;
		} else if (one->ctx == ctx) {
			*ret_charged = true;
		}
	}
	pthread_mutex_unlock(&f->library_lock);
	return found;
}

static CUresult charge_library(struct rf_fence *f, CUlibrary lib, CUcontext ctx, unsigned card,
			       uint64_t bytes)
{
	struct rf_library *one = malloc(sizeof(*one));
	CUresult r;

	if (!one)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*one = (struct rf_library){ .lib = lib, .ctx = ctx, .bytes = bytes, .card = (uint8_t)card };
	r = rf_reserve_or_squeeze(f, card, bytes);
	if (r == CUDA_SUCCESS)
		push(f, one);
	else
		free(one);
	return r;
}

/* The library is about to be used in the current context. With a gauge to look at afterwards, if it
 * may take what nobody told. */
struct use {
	struct rf_fence *fence;
	CUlibrary lib;
	CUcontext ctx;
	unsigned card;
	bool measure;
	struct gauge before;
};

static CUresult use_begin(struct use *u, CUlibrary lib, bool loads)
{
	struct rf_library all = { 0 };
	bool charged;

	*u = (struct use){ .fence = rf_join(), .lib = lib };
	if (!u->fence)
		return CUDA_ERROR_NOT_PERMITTED;
	if (!capped_card(u->fence, &u->card) || RF_REAL(cuCtxGetCurrent)(&u->ctx) != CUDA_SUCCESS ||
	    !known(u->fence, lib, u->ctx, &all, &charged) || charged)
		return CUDA_SUCCESS;
	if (all.plain)
		return all.bytes ? charge_library(u->fence, lib, u->ctx, u->card, all.bytes)
				 : CUDA_SUCCESS;
	u->measure = loads;
	if (loads) {
		pthread_mutex_lock(&u->fence->module_lock);
		u->before = look(u->fence, u->card);
	}
	return CUDA_SUCCESS;
}

static CUresult use_end(struct use *u, CUresult r)
{
	uint64_t bytes;

	if (!u->measure)
		return r;
	bytes = taken(u->fence, u->card, &u->before);
	pthread_mutex_unlock(&u->fence->module_lock);
	return r == CUDA_SUCCESS && bytes > 0
		       ? charge_library(u->fence, u->lib, u->ctx, u->card, bytes)
		       : r;
}

static struct rf_library *begin_library(const struct rf_image *image)
{
	struct rf_library *one = malloc(sizeof(*one));

	if (one)
		*one = (struct rf_library){ .bytes = rf_footprint(image->bytes),
					    .plain = image->plain };
	return one;
}

/* With a context current the charge comes at once: what does not fit is not loaded. */
static CUresult end_library(struct rf_fence *f, struct rf_library *one, CUlibrary lib, CUresult r)
{
	struct use u;

	if (r != CUDA_SUCCESS) {
		free(one);
		return r;
	}
	one->lib = lib;
	push(f, one);
	r = use_begin(&u, lib, false);
	if (r == CUDA_SUCCESS)
		return r;
	RF_REAL(cuLibraryUnload)(lib);
	end_all(f, pull(f, lib, NULL));
	return r;
}

CUresult cuLibraryLoadData(CUlibrary *lib, const void *code, int *jit_options, void **jit_values,
			   unsigned int n_jit, int *lib_options, void **lib_values,
			   unsigned int n_lib)
{
	struct rf_fence *f = rf_join();
	struct rf_library *one;
	struct rf_image image;
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (!f->any_cap || !lib)
		return RF_REAL(cuLibraryLoadData)(lib, code, jit_options, jit_values, n_jit,
						  lib_options, lib_values, n_lib);
	image = rf_image_read(code);
	one = begin_library(&image);
	if (!one)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = RF_REAL(cuLibraryLoadData)(lib, code, jit_options, jit_values, n_jit, lib_options,
				       lib_values, n_lib);
	return end_library(f, one, r == CUDA_SUCCESS ? *lib : NULL, r);
}

CUresult cuLibraryLoadFromFile(CUlibrary *lib, const char *path, int *jit_options,
			       void **jit_values, unsigned int n_jit, int *lib_options,
			       void **lib_values, unsigned int n_lib)
{
	struct rf_fence *f = rf_join();
	struct rf_library *one;
	struct rf_image image;
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (!f->any_cap || !lib)
		return RF_REAL(cuLibraryLoadFromFile)(lib, path, jit_options, jit_values, n_jit,
						      lib_options, lib_values, n_lib);
	image = rf_image_read_file(path);
	one = begin_library(&image);
	if (!one)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = RF_REAL(cuLibraryLoadFromFile)(lib, path, jit_options, jit_values, n_jit, lib_options,
					   lib_values, n_lib);
	return end_library(f, one, r == CUDA_SUCCESS ? *lib : NULL, r);
}

CUresult cuLibraryUnload(CUlibrary lib)
{
	struct rf_fence *f = rf_join();
	struct rf_library *list;
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	list = lib ? pull(f, lib, NULL) : NULL;
	r = RF_REAL(cuLibraryUnload)(lib);
	if (r == CUDA_SUCCESS) {
		end_all(f, list);
		return r;
	}
	while (list) {
		struct rf_library *next = list->next;

		push(f, list);
		list = next;
	}
	return r;
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary lib, const char *name)
{
	struct use u;
	CUresult r = use_begin(&u, lib, false);

	return r == CUDA_SUCCESS ? RF_REAL(cuLibraryGetKernel)(kernel, lib, name) : r;
}

CUresult cuLibraryGetModule(CUmodule *mod, CUlibrary lib)
{
	struct use u;
	CUresult r = use_begin(&u, lib, true);

	return r == CUDA_SUCCESS ? use_end(&u, RF_REAL(cuLibraryGetModule)(mod, lib)) : r;
}

CUresult cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary lib, const char *name)
{
	struct use u;
	CUresult r = use_begin(&u, lib, true);

	return r == CUDA_SUCCESS ? use_end(&u, RF_REAL(cuLibraryGetGlobal)(dptr, bytes, lib, name))
				 : r;
}

CUresult cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary lib, const char *name)
{
	struct use u;
	CUresult r = use_begin(&u, lib, true);

	return r == CUDA_SUCCESS ? use_end(&u, RF_REAL(cuLibraryGetManaged)(dptr, bytes, lib, name))
				 : r;
}
