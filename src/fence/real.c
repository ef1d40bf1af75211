#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>

#include "fence/fence.h"

/* --- libc's own dlsym and dlvsym ---
 *
 * They cannot be asked for by name: the names lead back here. So they are read from libc's symbol
 * table, which also goes past any other library that replaces them. */

struct elf_names {
	const ElfW(Sym) * symbols;
	const char *strings;
	const uint32_t *hash; /* DT_GNU_HASH */
};

static bool names_of(const struct link_map *map, struct elf_names *ret)
{
	*ret = (struct elf_names){ 0 };
	for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_SYMTAB)
			ret->symbols = (const ElfW(Sym) *)d->d_un.d_ptr;
		else if (d->d_tag == DT_STRTAB)
			ret->strings = (const char *)d->d_un.d_ptr;
		else if (d->d_tag == DT_GNU_HASH)
			ret->hash = (const uint32_t *)d->d_un.d_ptr;
	}
	return ret->symbols && ret->strings && ret->hash;
}

static uint32_t gnu_hash(const char *name)
{
	uint32_t h = 5381;

	for (; *name; name++)
		h = h * 33 + (unsigned char)*name;
	return h;
}

static void *find_symbol(const struct link_map *map, const char *name)
{
	struct elf_names e;
	uint32_t want = gnu_hash(name);

	if (!names_of(map, &e))
		return NULL;
	uint32_t buckets = e.hash[0], first = e.hash[1], bloom = e.hash[2];
	const uint32_t *bucket = e.hash + 4 + bloom * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
	const uint32_t *chain = bucket + buckets;

	for (uint32_t i = buckets ? bucket[want % buckets] : 0; i >= first && i != 0; i++) {
		const ElfW(Sym) *s = &e.symbols[i];

		if ((chain[i - first] | 1) == (want | 1) && s->st_shndx != SHN_UNDEF &&
		    strcmp(e.strings + s->st_name, name) == 0)
			return (void *)(map->l_addr + s->st_value);
		if (chain[i - first] & 1)
			break;
	}
	return NULL;
}

static void *find_in_libc(const char *name)
{
	static const char *const libs[] = { "libc.so.6", "libdl.so.2" };
	int saved = errno;
	void *p = NULL;

	for (size_t i = 0; i < sizeof(libs) / sizeof(libs[0]) && !p; i++) {
		struct link_map *map = dlopen(libs[i], RTLD_LAZY | RTLD_NOLOAD);

		if (map) {
			p = find_symbol(map, name);
			dlclose(map);
		}
	}
	errno = saved;
	return p;
}

static void *no_dlsym(void *handle, const char *name)
{
	return NULL;
}

static void *no_dlvsym(void *handle, const char *name, const char *version)
{
	return NULL;
}

rf_dlsym_fn *rf_real_dlsym(void)
{
	static rf_dlsym_fn *found;
	rf_dlsym_fn *p = __atomic_load_n(&found, __ATOMIC_RELAXED);

	if (!p) {
		p = (rf_dlsym_fn *)find_in_libc("dlsym");
		p = p ? p : no_dlsym;
		__atomic_store_n(&found, p, __ATOMIC_RELAXED);
	}
	return p;
}

rf_dlvsym_fn *rf_real_dlvsym(void)
{
	static rf_dlvsym_fn *found;
	rf_dlvsym_fn *p = __atomic_load_n(&found, __ATOMIC_RELAXED);

	if (!p) {
		p = (rf_dlvsym_fn *)find_in_libc("dlvsym");
		p = p ? p : no_dlvsym;
		__atomic_store_n(&found, p, __ATOMIC_RELAXED);
	}
	return p;
}

/* --- the driver's functions --- */

static void *library(bool nvml, bool load)
{
	static void *handles[2];
	const char *name = nvml ? "libnvidia-ml.so.1" : "libcuda.so.1";
	void *h = __atomic_load_n(&handles[nvml], __ATOMIC_ACQUIRE);

	if (h)
		return h;
	h = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
	if (!h && load)
		h = dlopen(name, RTLD_LAZY);
	if (h) /* kept for good, as the pointers into it are */
		__atomic_store_n(&handles[nvml], h, __ATOMIC_RELEASE);
	return h;
}

void *rf_reals[RF_SYM_COUNT];

void *rf_real_or_null(enum rf_symbol_id id, bool load)
{
	void *p = __atomic_load_n(&rf_reals[id], __ATOMIC_ACQUIRE);
	int saved = errno;
	void *lib;

	if (p)
		return p;
	lib = library(id >= RF_SYM_NVML_FIRST, load);
	p = lib ? rf_real_dlsym()(lib, rf_symbols[id].name) : NULL;
	if (p)
		__atomic_store_n(&rf_reals[id], p, __ATOMIC_RELEASE);
	else
		dlerror(); /* the program did not ask for this one */
	errno = saved;
	return p;
}

/* Stand in for functions of any signature: the arguments are never looked at. */
static CUresult missing_cuda(void)
{
	return CUDA_ERROR_NOT_FOUND;
}

static nvmlReturn_t missing_nvml(void)
{
	return NVML_ERROR_FUNCTION_NOT_FOUND;
}

void *rf_real(enum rf_symbol_id id)
{
	void *p = rf_real_or_null(id, true);

	if (p)
		return p;
	return id >= RF_SYM_NVML_FIRST ? (void *)missing_nvml : (void *)missing_cuda;
}
