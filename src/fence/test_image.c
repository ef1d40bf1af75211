/* What images say about their memory, and that broken ones are not believed. */
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "fence/image.h"

static uint64_t plain(const char *ptx)
{
	struct rf_image i = rf_image_read(ptx);

	assert_true(i.plain);
	return i.bytes;
}

static void ptx_says_what_its_variables_take(void **state)
{
	assert_int_equal(plain(".version 8.0\n.target sm_90\n"), 0);
	assert_int_equal(plain(".version 8.0\n.global .align 4 .b8 a[100];\n"), 100);
	assert_int_equal(plain(".version 8.0\n.visible .global .f64 a[3][5], b;\n"), 128);
	assert_int_equal(plain(".version 8.0\n.global .v4 .f32 a[2];.global .u16 c;\n"), 34);
	assert_int_equal(plain(".version 8.0\n.global .b32 a[2] = { 1, 2 }, b = 7;"), 12);
	assert_int_equal(plain(".version 8.0\n.global .attribute(.managed) .b8 m[9];"), 9);
	assert_int_equal(plain(".version 8.0\n// .global .b8 a[100];\n/* .global .b8 b[7]; */"), 0);
	assert_int_equal(plain(".version 8.0\n.entry k() { ld.global.u32 %r1, [a]; }"), 0);
	assert_int_equal(plain(".version 8.0\n.file 1 \"x.global .b8 y[9];\"\n"), 0);
	assert_int_equal(plain(".version 8.0\n.global .b64 a[99999999999999999999];"), UINT64_MAX);
	assert_int_equal(plain(".version 8.0\n.global .b64 a[4611686018427387904];"), UINT64_MAX);
	assert_int_equal(plain(".version 8.0\n.global .b8 a[4"), 4);
	assert_int_equal(plain(".version 8.0\n.global"), 0);
}

static void large_variables_take_pages_of_their_own(void **state)
{
	const uint64_t mib = 1 << 20;
	struct rf_image i = rf_image_read(".version 8.0\n.global .b8 a[1100000], b[1100000], c[1000];\n.global .b8 d[4194304];");

	assert_true(i.plain);
	assert_int_equal(i.bytes, 2 * 1100000 + 1000 + 4 * mib);
	assert_int_equal(i.apart, 2 * 2 * mib + 1000 + 4 * mib);
	i = rf_image_read(".version 8.0\n.global .b64 a[4611686018427387904], b;");
	assert_int_equal(i.apart, UINT64_MAX);
}

/* A cubin with the sections "", ".nv.global", ".nv.global.init" and ".nv.shared.k", and symbols if there are any. */
static size_t make_elf_with(unsigned char *p, uint64_t zeros, uint64_t set, const Elf64_Sym *symbols, unsigned n)
{
	static const char names[] = "\0.nv.global\0.nv.global.init\0.nv.shared.k\0.names";
	Elf64_Shdr s[6] = {
		{ 0 },
		{ .sh_name = 1, .sh_type = SHT_NOBITS, .sh_size = zeros },
		{ .sh_name = 12, .sh_type = SHT_PROGBITS, .sh_size = set },
		{ .sh_name = 28, .sh_type = SHT_NOBITS, .sh_size = 4096 },
		{ .sh_name = 41, .sh_type = SHT_STRTAB, .sh_size = sizeof(names) },
		{ .sh_type = n ? SHT_SYMTAB : SHT_NULL, .sh_size = n * sizeof(*symbols) },
	};
	Elf64_Ehdr h = { .e_ident = ELFMAG,
			 .e_machine = 190,
			 .e_shentsize = sizeof(Elf64_Shdr),
			 .e_shnum = 6,
			 .e_shstrndx = 4 };

	h.e_ident[EI_CLASS] = ELFCLASS64;
	h.e_shoff = sizeof(h);
	s[4].sh_offset = sizeof(h) + sizeof(s);
	s[5].sh_offset = s[4].sh_offset + sizeof(names);
	memcpy(p, &h, sizeof(h));
	memcpy(p + sizeof(h), s, sizeof(s));
	memcpy(p + s[4].sh_offset, names, sizeof(names));
	if (n)
		memcpy(p + s[5].sh_offset, symbols, n * sizeof(*symbols));
	return s[5].sh_offset + n * sizeof(*symbols);
}

static size_t make_elf(unsigned char *p, uint64_t zeros, uint64_t set)
{
	return make_elf_with(p, zeros, set, NULL, 0);
}

static void a_cubin_s_symbols_say_how_many_variables_are_large(void **state)
{
	const unsigned char object = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);
	const Elf64_Sym symbols[] = {
		{ .st_info = object, .st_shndx = 1, .st_size = 1100000 },
		{ .st_info = object, .st_shndx = 1, .st_size = 1100000 },
		{ .st_info = object, .st_shndx = 2, .st_size = 5000 },
		{ .st_info = object, .st_shndx = 3, .st_size = 1100000 }, /* shared */
		{ .st_info = ELF64_ST_INFO(STB_LOCAL, STT_SECTION), .st_shndx = 1, .st_size = 2200000 },
		{ .st_info = object, .st_shndx = 700, .st_size = 1100000 },
	};
	unsigned char elf[2048];
	struct rf_image i;

	make_elf_with(elf, 2200000, 5000, symbols, 6);
	i = rf_image_read(elf);
	assert_true(i.plain);
	assert_int_equal(i.bytes, 2205000);
	assert_int_equal(i.apart, (4 << 20) + 5000);
	make_elf(elf, 2200000, 5000); /* without, they may all be just too large */
	assert_int_equal(rf_image_read(elf).apart, 2 * 2205000);
	make_elf_with(elf, 2200000, 5000, symbols, 6);
	memset(elf + sizeof(Elf64_Ehdr) + 5 * sizeof(Elf64_Shdr) + offsetof(Elf64_Shdr, sh_size), 0x7f, 8);
	assert_int_equal(rf_image_read(elf).apart, 2 * 2205000); /* nor can these be read */
}

static void a_cubin_says_it_in_its_sections(void **state)
{
	unsigned char elf[1024];
	struct rf_image i;

	make_elf(elf, 1000000, 234);
	i = rf_image_read(elf);
	assert_true(i.plain);
	assert_int_equal(i.bytes, 1000234);
	((Elf64_Ehdr *)elf)->e_shstrndx = 9;
	assert_false(rf_image_read(elf).plain);
	make_elf(elf, UINT64_MAX, 5);
	assert_int_equal(rf_image_read(elf).bytes, UINT64_MAX);
}

static size_t add_part(unsigned char *p, uint16_t kind, uint64_t flags, const void *data, size_t n)
{
	uint32_t header = 64;
	uint64_t size = n;

	memset(p, 0, header);
	memcpy(p, &kind, 2);
	memcpy(p + 4, &header, 4);
	memcpy(p + 8, &size, 8);
	memcpy(p + 48, &flags, 8);
	memcpy(p + header, data, n);
	return header + n;
}

static size_t make_fat(unsigned char *p, uint64_t flags)
{
	static const char ptx[] = ".version 8.0\n.global .b8 a[5000];";
	unsigned char elf[1024];
	uint32_t magic = 0xba55ed50;
	uint16_t header = 16;
	uint64_t size;
	size_t n = make_elf(elf, 700, 0);

	size = add_part(p + header, 2, 0, elf, n);
	size += add_part(p + header + size, 1, flags, ptx, sizeof(ptx));
	memset(p, 0, header);
	memcpy(p, &magic, 4);
	memcpy(p + 6, &header, 2);
	memcpy(p + 8, &size, 8);
	return header + size;
}

static void a_fat_binary_takes_what_its_largest_part_takes(void **state)
{
	unsigned char fat[4096];
	struct {
		uint32_t magic, version;
		const void *data;
		void *more;
	} wrapper = { 0x466243b1, 1, fat, NULL };

	make_fat(fat, 0);
	assert_true(rf_image_read(fat).plain);
	assert_int_equal(rf_image_read(fat).bytes, 5000);
	assert_int_equal(rf_image_read(&wrapper).bytes, 5000);
	make_fat(fat, 0x2000); /* the text is compressed */
	assert_false(rf_image_read(&wrapper).plain);
	assert_int_equal(rf_image_read(&wrapper).bytes, 700);
}

static void what_is_not_known_is_not_believed(void **state)
{
	assert_false(rf_image_read(NULL).plain);
	assert_false(rf_image_read("").plain);
	assert_false(rf_image_read("ab").plain);
	assert_false(rf_image_read("\x01\x02\x03\x04").plain);
	assert_false(rf_image_read_file("/no/such/file").plain);
	assert_false(rf_image_read_file("/dev/zero").plain);
	assert_false(rf_image_read_file(NULL).plain);
}

static struct rf_image through_file(const void *data, size_t n)
{
	char path[] = "/tmp/ringfence-image-XXXXXX";
	int fd = mkstemp(path);
	struct rf_image i;

	assert_int_equal(write(fd, data, n), n);
	i = rf_image_read_file(path);
	close(fd);
	unlink(path);
	return i;
}

/* Cut short or with bytes changed: read within bounds, whatever comes of it. */
static void broken_files_are_read_within_bounds(void **state)
{
	struct rf_prng r = { .state = 20261115 };
	unsigned char fat[4096], copy[4096];
	size_t n = make_fat(fat, 0);

	assert_int_equal(through_file(fat, n).bytes, 5000);
	for (int i = 0; i < 3000; i++) {
		size_t cut = (size_t)rf_prng_below(&r, n + 1);

		memcpy(copy, fat, n);
		for (uint64_t k = rf_prng_below(&r, 6); k > 0; k--)
			copy[rf_prng_below(&r, n)] = (unsigned char)rf_prng_below(&r, 256);
		through_file(copy + (i % 4 == 0 ? 80 : 0), i % 2 && cut > 80 ? cut - 80 : n - 80);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ptx_says_what_its_variables_take),
		cmocka_unit_test(large_variables_take_pages_of_their_own),
		cmocka_unit_test(a_cubin_s_symbols_say_how_many_variables_are_large),
		cmocka_unit_test(a_cubin_says_it_in_its_sections),
		cmocka_unit_test(a_fat_binary_takes_what_its_largest_part_takes),
		cmocka_unit_test(what_is_not_known_is_not_believed),
		cmocka_unit_test(broken_files_are_read_within_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
