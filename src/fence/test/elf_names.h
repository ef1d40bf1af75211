/* The dynamic symbols of a library, read from its file: nothing is loaded. */
#ifndef RF_FENCE_TEST_ELF_NAMES_H
#define RF_FENCE_TEST_ELF_NAMES_H

#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct elf_image {
	const unsigned char *at;
	size_t size;
};

typedef void elf_name_fn(void *ctx, const char *name, bool defined);

static inline const void *elf_part(const struct elf_image *m, uint64_t offset, uint64_t size)
{
	return offset <= m->size && size <= m->size - offset ? m->at + offset : NULL;
}

static inline void elf_table(const struct elf_image *m, const Elf64_Shdr *table,
			     const Elf64_Shdr *names, elf_name_fn *each, void *ctx)
{
	const Elf64_Sym *sym = elf_part(m, table->sh_offset, table->sh_size);
	const char *text = elf_part(m, names->sh_offset, names->sh_size);

	if (!sym || !text || names->sh_size == 0 || text[names->sh_size - 1] != '\0')
		return;
	for (size_t i = 1; i < table->sh_size / sizeof(*sym); i++) {
		if (ELF64_ST_BIND(sym[i].st_info) != STB_LOCAL && sym[i].st_name < names->sh_size)
			each(ctx, text + sym[i].st_name, sym[i].st_shndx != SHN_UNDEF);
	}
}

static inline void elf_walk(const struct elf_image *m, elf_name_fn *each, void *ctx)
{
	const Elf64_Ehdr *e = elf_part(m, 0, sizeof(*e));
	const Elf64_Shdr *s = e ? elf_part(m, e->e_shoff, (uint64_t)e->e_shnum * sizeof(*s)) : NULL;

	for (unsigned i = 0; s && i < e->e_shnum; i++) {
		if (s[i].sh_type == SHT_DYNSYM && s[i].sh_link < e->e_shnum)
			elf_table(m, &s[i], &s[s[i].sh_link], each, ctx);
	}
}

/* False: there is no such file. */
static inline bool elf_names(const char *path, elf_name_fn *each, void *ctx)
{
	struct elf_image m;
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	m.size = fstat(fd, &st) == 0 ? (size_t)st.st_size : 0;
	m.at = mmap(NULL, m.size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (m.at == MAP_FAILED)
		return false;
	elf_walk(&m, each, ctx);
	munmap((void *)(uintptr_t)m.at, m.size);
	return true;
}

#endif
