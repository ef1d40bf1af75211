#include "fence/image.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define EM_CUDA_ 190
#define FAT_MAGIC 0xba55ed50u
#define WRAPPER_MAGIC 0x466243b1u
#define FAT_PTX 1
#define FAT_ELF 2
#define FAT_COMPRESSED 0xa000u /* flags: packed, in one of two ways */
#define PARTS 1024	       /* of a fat binary that are looked at */
#define UNBOUNDED ((uint64_t)1 << 32)
#define FILE_MOST (64 << 20) /* larger files are not looked into */

static const struct rf_image opaque = { 0, false };

static uint64_t add(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* --- cubins: the sections .nv.global (zeros) and .nv.global.init --- */

static bool is_global(const char *name, uint64_t room)
{
	static const char prefix[] = ".nv.global";

	return room > sizeof(prefix) && strncmp(name, prefix, sizeof(prefix) - 1) == 0;
}

static struct rf_image read_elf(const unsigned char *p, uint64_t size)
{
	struct rf_image ret = { 0, true };
	Elf64_Ehdr h;
	Elf64_Shdr names;

	memcpy(&h, p, sizeof(h));
	if (size < sizeof(h) || h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_machine != EM_CUDA_ ||
	    h.e_shentsize != sizeof(Elf64_Shdr) || h.e_shoff > size ||
	    h.e_shnum > (size - h.e_shoff) / sizeof(Elf64_Shdr) || h.e_shstrndx >= h.e_shnum)
		return opaque;
	memcpy(&names, p + h.e_shoff + h.e_shstrndx * sizeof(names), sizeof(names));
	if (names.sh_offset > size || names.sh_size > size - names.sh_offset)
		return opaque;
	for (unsigned i = 0; i < h.e_shnum; i++) {
		Elf64_Shdr s;

		memcpy(&s, p + h.e_shoff + i * sizeof(s), sizeof(s));
		if (s.sh_name < names.sh_size &&
		    is_global((const char *)p + names.sh_offset + s.sh_name,
			      names.sh_size - s.sh_name))
			ret.bytes = add(ret.bytes, s.sh_size);
	}
	return ret;
}

/* --- PTX: ".global ... .type name[n][m]" outside of functions --- */

struct text {
	const char *p, *end; /* end: where the text stops at the latest */
};

static bool at_end(const struct text *t)
{
	return t->p >= t->end || *t->p == '\0';
}

static bool starts(const struct text *t, const char *word)
{
	size_t n = strlen(word);

	return (size_t)(t->end - t->p) >= n && strncmp(t->p, word, n) == 0;
}

static bool is_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '$' || c == '%';
}

/* Past comments and quoted text; true if it moved. */
static bool skip_quoted(struct text *t)
{
	const char *stop = starts(t, "//") ? "\n" : starts(t, "/*") ? "*/" : NULL;

	if (!stop && *t->p == '"')
		stop = "\"";
	if (!stop)
		return false;
	for (t->p++; !at_end(t) && !(starts(t, stop) && t->p[-1] != '\\'); t->p++)
		;
	t->p += at_end(t) ? 0 : strlen(stop);
	return true;
}

static uint64_t number(struct text *t)
{
	uint64_t n = 0;

	while (!at_end(t) && (*t->p == ' ' || *t->p == '\t'))
		t->p++;
	for (; !at_end(t) && *t->p >= '0' && *t->p <= '9'; t->p++) {
		if (__builtin_mul_overflow(n, 10, &n))
			return UINT64_MAX;
		n = add(n, (uint64_t)(*t->p - '0'));
	}
	return n;
}

/* ".u32" and the like: a letter or two, then the bits. */
static uint64_t width_of(const char *type, size_t n)
{
	uint64_t bits = 0;

	if (n == 4 && strncmp(type, "pred", 4) == 0)
		return 1;
	while (n > 0 && is_name(*type) && (*type < '0' || *type > '9')) {
		type++;
		n--;
	}
	for (; n > 0 && *type >= '0' && *type <= '9' && bits < 1000; type++, n--)
		bits = bits * 10 + (uint64_t)(*type - '0');
	return n == 0 ? bits / 8 : 0;
}

/* One declaration, from behind ".global" to its end; several names may follow one type. */
static uint64_t declared(struct text *t)
{
	uint64_t sum = 0, width = 0, lanes = 1, count = 1;
	unsigned depth = 0;
	bool named = false, value = false;

	for (; !at_end(t) && *t->p != ';'; t->p++) {
		if (skip_quoted(t)) {
			t->p--;
			continue;
		}
		if (*t->p == '{' || *t->p == '(')
			depth++;
		else if ((*t->p == '}' || *t->p == ')') && depth > 0)
			depth--;
		else if (depth == 0 && *t->p == '=')
			value = true;
		else if (depth == 0 && *t->p == ',') {
			sum = add(sum, named ? count : 0);
			count = 1;
			named = value = false;
		} else if (depth == 0 && !value && *t->p == '.') {
			const char *word = ++t->p;
			uint64_t w;

			while (!at_end(t) && is_name(*t->p))
				t->p++;
			w = width_of(word, (size_t)(t->p - word));
			if (t->p - word == 2 && *word == 'v')
				lanes = (uint64_t)(word[1] - '0');
			else if (w > 0)
				width = w;
			t->p--;
		} else if (depth == 0 && !value && *t->p == '[') {
			uint64_t n;

			t->p++;
			n = number(t);
			if (__builtin_mul_overflow(count, n, &count))
				return UINT64_MAX;
			t->p--;
		} else if (depth == 0 && !value && is_name(*t->p)) {
			named = true;
		}
	}
	sum = add(sum, named ? count : 0);
	return __builtin_mul_overflow(sum, width * lanes, &sum) ? UINT64_MAX : sum;
}

static struct rf_image read_ptx(const char *p, uint64_t size)
{
	struct rf_image ret = { 0, true };
	struct text t = { p, p + size };

	while (!at_end(&t)) {
		if (skip_quoted(&t))
			continue;
		/* "ld.global" is an instruction, ".extern .global" lies elsewhere but is counted. */
		if (*t.p == '.' && (t.p == p || !is_name(t.p[-1])) && starts(&t, ".global") &&
		    t.end - t.p > 7 && !is_name(t.p[7]) && t.p[7] != '.') {
			t.p += 7;
			ret.bytes = add(ret.bytes, declared(&t));
			continue;
		}
		t.p++;
	}
	return ret;
}

/* --- fat binaries: the same code for several cards; at most one part is loaded --- */

struct fat {
	uint32_t magic;
	uint16_t version;
	uint16_t header;
	uint64_t size;
};

struct part {
	uint16_t kind;
	uint16_t version;
	uint32_t header;
	uint64_t size;
	uint32_t packed;
	uint32_t unknown[7];
	uint64_t flags;
};

static struct rf_image read_part(const unsigned char *p, const struct part *part)
{
	if (part->flags & FAT_COMPRESSED)
		return opaque;
	if (part->kind == FAT_ELF)
		return read_elf(p, part->size);
	if (part->kind == FAT_PTX)
		return read_ptx((const char *)p, part->size);
	return opaque;
}

static struct rf_image read_fat(const unsigned char *p, uint64_t size)
{
	struct rf_image ret = { 0, true };
	struct fat fat;
	uint64_t at;

	memcpy(&fat, p, sizeof(fat));
	at = fat.header;
	if (size < sizeof(fat) || fat.size > size - sizeof(fat) || at < sizeof(fat))
		return opaque;
	for (unsigned i = 0; at + sizeof(struct part) <= fat.header + fat.size; i++) {
		struct rf_image one;
		struct part part;

		memcpy(&part, p + at, sizeof(part));
		if (i == PARTS || part.header < sizeof(part) ||
		    part.size > fat.header + fat.size - at ||
		    part.header > fat.header + fat.size - at - part.size)
			return opaque;
		one = read_part(p + at + part.header, &part);
		ret.plain = ret.plain && one.plain;
		ret.bytes = one.bytes > ret.bytes ? one.bytes : ret.bytes;
		at += part.header + part.size;
	}
	return ret;
}

/* --- */

static struct rf_image read_some(const unsigned char *p, uint64_t size)
{
	uint32_t magic = 0;

	if (size < sizeof(magic))
		return opaque;
	memcpy(&magic, p, sizeof(magic));
	if (memcmp(p, ELFMAG, SELFMAG) == 0)
		return size < sizeof(Elf64_Ehdr) ? opaque : read_elf(p, size);
	if (magic == FAT_MAGIC)
		return size < sizeof(struct fat) ? opaque : read_fat(p, size);
	/* Anything else that is text from its first letter on is PTX to the driver. */
	for (int i = 0; i < 4; i++) {
		if (p[i] >= 127 || (p[i] < 32 && p[i] != '\n' && p[i] != '\t' && p[i] != '\r'))
			return opaque;
	}
	return read_ptx((const char *)p, size);
}

struct rf_image rf_image_read(const void *image)
{
	struct {
		uint32_t magic;
		uint32_t version;
		const void *data;
	} wrapper;

	if (!image)
		return opaque;
	if (((const char *)image)[0] == '\0')
		return opaque;
	if (strncmp(image, "\xb1\x43\x62\x46", 4) == 0) {
		memcpy(&wrapper, image, sizeof(wrapper));
		return wrapper.data ? read_some(wrapper.data, UNBOUNDED) : opaque;
	}
	/* A text may be shorter than the four bytes that tell. */
	if (memchr(image, '\0', 4) && strncmp(image, ELFMAG, SELFMAG) != 0)
		return opaque;
	return read_some(image, UNBOUNDED);
}

/* Read, not mapped: the file may shrink meanwhile. */
static struct rf_image read_fd(int fd)
{
	struct rf_image ret = opaque;
	struct stat st;
	char *p;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size < 1 || st.st_size > FILE_MOST)
		return ret;
	p = malloc((size_t)st.st_size);
	if (p && read(fd, p, (size_t)st.st_size) == st.st_size)
		ret = read_some((unsigned char *)p, (uint64_t)st.st_size);
	free(p);
	return ret;
}

struct rf_image rf_image_read_file(const char *path)
{
	int saved = errno;
	struct rf_image ret = opaque;
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;

	if (fd >= 0) {
		ret = read_fd(fd);
		close(fd);
	}
	errno = saved;
	return ret;
}
