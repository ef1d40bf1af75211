/* The driver's own functions, by its table of symbols, which nobody can put himself in front of. */
#ifndef RF_BENCH_DRIVER_H
#define RF_BENCH_DRIVER_H

#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <string.h>

struct driver {
	void *lib;
	const ElfW(Sym) *symbols;
	const char *strings;
	uint32_t count; /* of symbols */
	ElfW(Addr) base;
};

/* False where there is no driver, or one whose table cannot be read; dlerror() knows the first. */
static inline int driver_open(struct driver *d)
{
	const uint32_t *table = NULL;
	const struct link_map *map;

	*d = (struct driver){.lib = dlopen("libcuda.so.1", RTLD_NOW)};
	if (!d->lib || dlinfo(d->lib, RTLD_DI_LINKMAP, &map) < 0)
		return 0;
	d->base = map->l_addr;
	for (const ElfW(Dyn) *t = map->l_ld; t->d_tag != DT_NULL; t++) {
		if (t->d_tag == DT_SYMTAB)
			d->symbols = (const ElfW(Sym) *)t->d_un.d_ptr;
		else if (t->d_tag == DT_STRTAB)
			d->strings = (const char *)t->d_un.d_ptr;
		else if (t->d_tag == DT_GNU_HASH)
			table = (const uint32_t *)t->d_un.d_ptr;
	}
	if (!d->symbols || !d->strings || !table)
		return 0;
	const uint32_t *bucket = table + 4 + table[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
	const uint32_t *chain = bucket + table[0];
	uint32_t last = 0;

	for (uint32_t i = 0; i < table[0]; i++)
		last = bucket[i] > last ? bucket[i] : last;
	while (last && !(chain[last - table[1]] & 1)) /* the last chain ends with the last symbol */
		last++;
	d->count = last ? last + 1 : 0;
	return d->count > 0;
}

static inline const char *driver_name(const struct driver *d, uint32_t i)
{
	return d->strings + d->symbols[i].st_name;
}

/* NULL when symbol i is not a function of the driver's. */
static inline void *driver_own_at(const struct driver *d, uint32_t i)
{
	const ElfW(Sym) *s = &d->symbols[i];

	return s->st_shndx != SHN_UNDEF && (s->st_info & 15) == STT_FUNC ? (void *)(d->base + s->st_value) : NULL;
}

static inline void *driver_own(const struct driver *d, const char *name)
{
	for (uint32_t i = 0; i < d->count; i++)
		if (strcmp(driver_name(d, i), name) == 0)
			return driver_own_at(d, i);
	return NULL;
}

#endif
