/* Modules and libraries: variables in global memory, and code.
 *
 * An image that can be read says what its variables take: that is reserved before it is loaded. Of one
 * that cannot (compressed parts) only the card's free memory before and after tells (heap.c). A
 * neighbour may allocate in that moment, so a large difference is looked at again: the module is
 * unloaded and loaded once more.
 *
 * A library is not loaded into a context before it is used there; then it is charged, once for each
 * context. Code that the driver loads later, at a function's first launch, is not seen. */
#include <stdlib.h>

#include "fence/fence.h"
#include "fence/image.h"

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

static CUresult load(const void *call, uint64_t *ret)
{
	const struct load *l = call;
	CUmodule got = NULL;
	CUresult r;

	switch (l->kind) {
	case MODULE_FILE:
		r = RF_REAL(cuModuleLoad)(&got, l->image);
		break;
	case MODULE_DATA:
		r = RF_REAL(cuModuleLoadData)(&got, l->image);
		break;
	case MODULE_DATA_EX:
		r = RF_REAL(cuModuleLoadDataEx)(&got, l->image, l->n, l->options, l->values);
		break;
	default:
		r = RF_REAL(cuModuleLoadFatBinary)(&got, l->image);
	}
	*ret = (uintptr_t)got;
	return r;
}

static CUresult unload(uint64_t key)
{
	return RF_REAL(cuModuleUnload)((CUmodule)(uintptr_t)key);
}

/* The driver may write to the options: such a load is not done twice. */
static CUresult load_counted(const struct load *l, const struct rf_image *image, uint64_t *ret)
{
	if (image->plain && image->bytes == 0)
		return load(l, ret);
	return rf_heap_make(&(struct rf_making){ .make = load,
						 .call = l,
						 .unmake = unload,
						 .space = RF_SPACE_MODULE,
						 .bytes = image->bytes,
						 .apart = image->apart,
						 .told = image->plain,
						 .once = l->n > 0 },
			    ret);
}

static CUresult load_module(const struct load *l)
{
	struct rf_fence *f = rf_join();
	struct rf_image image = { .plain = true };
	uint64_t key = 0;
	unsigned card;
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (!l->mod)
		return CUDA_ERROR_INVALID_VALUE;
	if (capped_card(f, &card))
		image = l->kind == MODULE_FILE ? rf_image_read_file(l->image) : rf_image_read(l->image);
	r = load_counted(l, &image, &key);
	if (r == CUDA_SUCCESS)
		*l->mod = (CUmodule)(uintptr_t)key;
	return r;
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
	return rf_heap_end(RF_SPACE_MODULE, (uintptr_t)mod, unload);
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

static struct rf_heap_part part_of(const struct rf_library *one)
{
	return (struct rf_heap_part){ .ctx = (uintptr_t)one->ctx,
				      .card = one->card,
				      .kind = RF_HEAP_MODULES,
				      .bytes = one->bytes,
				      .apart = one->apart };
}

static void end_all(struct rf_fence *f, struct rf_library *list)
{
	while (list) {
		struct rf_library *next = list->next;
		struct rf_heap_part part = part_of(list);

		if (list->ctx && !list->ended)
			rf_heap_leave(f, &part, RF_HEAP_UNSEEN);
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

/* took: what the card was seen to lose, or RF_HEAP_UNSEEN. */
static CUresult charge_library(struct rf_fence *f, CUlibrary lib, CUcontext ctx, unsigned card,
			       uint64_t bytes, uint64_t took)
{
	bool seen = took != RF_HEAP_UNSEEN;
	uint64_t apart = seen ? rf_heap_most(took) : rf_whole_pages(bytes), reserve = seen ? took : apart;
	struct rf_library *one = malloc(sizeof(*one));
	struct rf_heap_part part;
	CUresult r;

	if (!one)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*one = (struct rf_library){
		.lib = lib, .ctx = ctx, .bytes = bytes, .apart = apart, .card = (uint8_t)card
	};
	part = part_of(one);
	r = rf_heap_room(f, &part) ? rf_reserve_or_squeeze(f, card, reserve) : CUDA_ERROR_OUT_OF_MEMORY;
	if (r != CUDA_SUCCESS && seen) /* the card has lost it already, until the library is unloaded */
		rf_book(f, card, reserve);
	if ((r == CUDA_SUCCESS || seen) && rf_heap_add(f, &part, took, reserve))
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
	bool locked;
	struct rf_gauge before;
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
		return all.bytes ? charge_library(u->fence, lib, u->ctx, u->card, all.bytes,
							RF_HEAP_UNSEEN)
				 : CUDA_SUCCESS;
	u->measure = loads;
	if (loads) {
		u->locked = rf_gauge_lock(u->fence);
		u->before = rf_gauge_look(u->fence, u->card);
	}
	return CUDA_SUCCESS;
}

static CUresult use_end(struct use *u, CUresult r)
{
	struct rf_gauge now;
	uint64_t bytes;

	if (!u->measure)
		return r;
	now = rf_gauge_look(u->fence, u->card);
	bytes = rf_gauge_taken(&u->before, &now);
	if (u->locked)
		rf_gauge_unlock(u->fence);
	return r == CUDA_SUCCESS ? charge_library(u->fence, u->lib, u->ctx, u->card, 0, bytes) : r;
}

static struct rf_library *begin_library(const struct rf_image *image)
{
	struct rf_library *one = malloc(sizeof(*one));

	if (one)
		*one = (struct rf_library){ .bytes = image->apart,
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

static CUresult unload_library(uint64_t key)
{
	return RF_REAL(cuLibraryUnload)((CUlibrary)(uintptr_t)key);
}

/* What it gives back is known if it is in use in one context. */
static struct rf_library *only_one(struct rf_library *list)
{
	struct rf_library *found = NULL;

	for (; list; list = list->next) {
		if (list->ctx && found)
			return NULL;
		if (list->ctx)
			found = list;
	}
	return found;
}

CUresult cuLibraryUnload(CUlibrary lib)
{
	struct rf_fence *f = rf_join();
	struct rf_library *list, *one;
	struct rf_heap_part part;
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	list = lib ? pull(f, lib, NULL) : NULL;
	one = only_one(list);
	if (one)
		part = part_of(one);
	r = rf_heap_unmake(f, one ? &part : NULL, unload_library, (uintptr_t)lib);
	if (r == CUDA_SUCCESS) {
		if (one)
			one->ended = true;
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
