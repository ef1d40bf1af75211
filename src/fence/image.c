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

#define PAGE ((uint64_t)2 << 20)
#define SYMBOLS_MOST (1u << 22)

static const struct rf_image opaque = { 0, 0, false };

static uint64_t add(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* What a variable takes more if it is too large to share its pages with another such: the driver places each by itself. */
static uint64_t left_over(uint64_t bytes)
{
	return bytes > PAGE / 2 && bytes <= UINT64_MAX - PAGE ? (PAGE - bytes % PAGE) % PAGE : 0;
}

static void add_variable(struct rf_image *image, uint64_t bytes)
{
	image->bytes = add(image->bytes, bytes);
	image->apart = add(image->apart, add(bytes, left_over(bytes)));
}

/* --- cubins: the sections .nv.global (zeros) and .nv.global.init --- */

static bool is_global(const char *name, uint64_t room)
{
	static const char prefix[] = ".nv.global";

	return room > sizeof(prefix) && strncmp(name, prefix, sizeof(prefix) - 1) == 0;
}

struct elf {
	const unsigned char *p;
	uint64_t size;
	Elf64_Ehdr head;
	Elf64_Shdr names;
	uint64_t symbols; /* looked at so far */
};

static Elf64_Shdr section(const struct elf *e, unsigned i)
{
	Elf64_Shdr s;

	memcpy(&s, e->p + e->head.e_shoff + i * sizeof(s), sizeof(s));
	return s;
}

static bool holds_variables(const struct elf *e, const Elf64_Shdr *s)
{
	return s->sh_name < e->names.sh_size &&
	       is_global((const char *)e->p + e->names.sh_offset + s->sh_name, e->names.sh_size - s->sh_name);
}

/* How much more than their sections the variables take. False: the symbols do not say. */
static bool add_symbols(struct elf *e, const Elf64_Shdr *s, struct rf_image *image)
{
	uint64_t n = s->sh_size / sizeof(Elf64_Sym);

	e->symbols = add(e->symbols, n);
	if (s->sh_offset > e->size || s->sh_size > e->size - s->sh_offset || e->symbols > SYMBOLS_MOST)
		return false;
	for (uint64_t i = 0; i < n; i++) {
		Elf64_Sym symbol;
		Elf64_Shdr of;

		memcpy(&symbol, e->p + s->sh_offset + i * sizeof(symbol), sizeof(symbol));
		if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT || symbol.st_shndx >= e->head.e_shnum)
			continue;
		of = section(e, symbol.st_shndx);
		if (holds_variables(e, &of))
			image->apart = add(image->apart, left_over(symbol.st_size));
	}
	return true;
}

static bool open_elf(struct elf *e)
{
	const Elf64_Ehdr *h = &e->head;

	if (e->size < sizeof(*h))
		return false;
	memcpy(&e->head, e->p, sizeof(e->head));
	if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_machine != EM_CUDA_ ||
	    h->e_shentsize != sizeof(Elf64_Shdr) || h->e_shoff > e->size ||
	    h->e_shnum > (e->size - h->e_shoff) / sizeof(Elf64_Shdr) || h->e_shstrndx >= h->e_shnum)
		return false;
	e->names = section(e, h->e_shstrndx);
	return e->names.sh_offset <= e->size && e->names.sh_size <= e->size - e->names.sh_offset;
}

/* Without symbols each of the variables may be just too large to share a page. */
static struct rf_image read_elf(const unsigned char *p, uint64_t size)
{
	struct rf_image ret = { 0, 0, true };
	struct elf e = { .p = p, .size = size };
	bool named = false;

	if (!open_elf(&e))
		return opaque;
	for (unsigned i = 0; i < e.head.e_shnum; i++) {
		Elf64_Shdr s = section(&e, i);

		if (holds_variables(&e, &s)) {
			ret.bytes = add(ret.bytes, s.sh_size);
			ret.apart = add(ret.apart, s.sh_size);
		} else if (s.sh_type == SHT_SYMTAB) {
			named = add_symbols(&e, &s, &ret);
		}
	}
	if (!named && ret.bytes > PAGE / 2)
		ret.apart = add(ret.bytes, ret.bytes);
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

static uint64_t times(uint64_t a, uint64_t b)
{
	uint64_t product;

	return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/* One declaration, from behind ".global" to its end; several names may follow one type. */
static void declared(struct text *t, struct rf_image *image)
{
	uint64_t width = 0, lanes = 1, count = 1;
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
			add_variable(image, named ? times(count, width * lanes) : 0);
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
			count = times(count, n);
			t->p--;
		} else if (depth == 0 && !value && is_name(*t->p)) {
			named = true;
		}
	}
	add_variable(image, named ? times(count, width * lanes) : 0);
}

static struct rf_image read_ptx(const char *p, uint64_t size)
{
	struct rf_image ret = { 0, 0, true };
	struct text t = { p, p + size };

	while (!at_end(&t)) {
		if (skip_quoted(&t))
			continue;
		/* "ld.global" is an instruction, ".extern .global" lies elsewhere but is counted. */
		if (*t.p == '.' && (t.p == p || !is_name(t.p[-1])) && starts(&t, ".global") &&
		    t.end - t.p > 7 && !is_name(t.p[7]) && t.p[7] != '.') {
			t.p += 7;
			declared(&t, &ret);
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
	struct rf_image ret = { 0, 0, true };
	struct fat fat;
	uint64_t at;

	memcpy(&fat, p, sizeof(fat));
	at = fat.header;
	if (size < sizeof(fat) || at < sizeof(fat) || at > size || fat.size > size - at)
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
		ret.apart = one.apart > ret.apart ? one.apart : ret.apart;
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
