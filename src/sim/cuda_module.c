/* Modules: any image is accepted and has every kernel one asks for. What a kernel costs is worked
 * out from its launch, or read from a line in the image:
 *
 *	// ringfence-sim: kernel=<name or *> ns=<nanoseconds>
 *
 * The .global variables of PTX text are device memory of the module. */
#include "sim/cuda_module.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIRECTIVE "ringfence-sim:"
#define IMAGE_MAX (64u << 20)
#define NAME_MAX_BYTES 1024
#define VARIABLES_MAX 4096
#define FATBIN_WRAPPER 0x466243b1u
#define FATBIN 0xba55ed50u

struct directive {
	char *name;
	uint64_t ns;
	struct directive *next;
};

struct variable {
	char *name;
	size_t bytes;
	CUdeviceptr at; /* 0: not loaded */
	struct variable *next;
};

struct CUmod_st {
	uint32_t magic;
	struct CUctx_st *ctx; /* whose its variables are; a library's once one was current */
	struct variable *variables;
	struct directive *directives;
	struct CUfunc_st *functions;
};

/* Libraries are modules without a context, and their kernels functions. */
#define AS_MODULE(lib) ((CUmodule)(void *)(lib))

/* --- reading the image --- */

static bool is_elf(const unsigned char *image)
{
	return memcmp(image, ELFMAG, SELFMAG) == 0 && image[EI_CLASS] == ELFCLASS64 &&
	       image[EI_DATA] == ELFDATA2LSB && image[EI_VERSION] == EV_CURRENT;
}

static bool is_fatbin(const unsigned char *image)
{
	uint32_t magic;

	memcpy(&magic, image, sizeof(magic));
	return magic == FATBIN;
}

static size_t elf_size(const unsigned char *image)
{
	Elf64_Ehdr h;
	uint64_t sections, segments;

	memcpy(&h, image, sizeof(h));
	sections = h.e_shoff + (uint64_t)h.e_shnum * h.e_shentsize;
	segments = h.e_phoff + (uint64_t)h.e_phnum * h.e_phentsize;
	return sections > segments ? sections : segments;
}

static size_t fatbin_size(const unsigned char *image)
{
	uint16_t header;
	uint64_t body;

	memcpy(&header, image + 6, sizeof(header));
	memcpy(&body, image + 8, sizeof(body));
	return header + body;
}

/* An image comes without its length; each kind says in its own way where it ends. */
static const unsigned char *image_bytes(const void *image, size_t *ret_n)
{
	const unsigned char *p = image;
	uint32_t magic;
	size_t n;

	if (p[0] == '\0')
		return NULL;
	n = strnlen((const char *)p, sizeof(magic));
	if (n < sizeof(magic)) {
		*ret_n = n;
		return p;
	}
	memcpy(&magic, p, sizeof(magic));
	if (magic == FATBIN_WRAPPER) {
		memcpy(&p, p + 8, sizeof(p));
		if (p == NULL)
			return NULL;
		memcpy(&magic, p, sizeof(magic));
	}
	if (is_elf(p))
		n = elf_size(p);
	else if (magic == FATBIN)
		n = fatbin_size(p);
	else
		n = strnlen((const char *)p, IMAGE_MAX);
	*ret_n = n < IMAGE_MAX ? n : IMAGE_MAX;
	return p;
}

static void add_directive(struct CUmod_st *m, const char *name, size_t n, uint64_t ns)
{
	struct directive *d = calloc(1, sizeof(*d));

	if (d == NULL)
		return;
	d->name = strndup(name, n);
	d->ns = ns;
	d->next = m->directives;
	m->directives = d;
}

/* One line behind the marker, not NUL-terminated. Anything malformed is a comment. */
static void read_directive(struct CUmod_st *m, const char *p, const char *end)
{
	char line[256], name[200];
	unsigned long long ns = 0;
	size_t n = 0;

	while (p + n < end && p[n] != '\n' && p[n] != '\0' && n < sizeof(line) - 1)
		n++;
	memcpy(line, p, n);
	line[n] = '\0';
	if (sscanf(line, " kernel=%199s ns=%llu", name, &ns) == 2)
		add_directive(m, name, strlen(name), ns);
}

static void read_directives(struct CUmod_st *m, const unsigned char *image, size_t n)
{
	const char *p = (const char *)image, *end = p + n;

	while ((p = memmem(p, (size_t)(end - p), DIRECTIVE, strlen(DIRECTIVE))) != NULL) {
		p += strlen(DIRECTIVE);
		read_directive(m, p, end);
	}
}

/* --- variables: .global .align 4 .b8 name[1024]; --- */

static const char *skip_space(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r'))
		p++;
	return p;
}

static size_t word(const char *p, const char *end)
{
	size_t n = 0;

	while (p + n < end && strchr(" \t\r\n[;={,", p[n]) == NULL)
		n++;
	return n;
}

/* What a modifier or type multiplies the size by: .u32 by 4, .v2 by 2. */
static size_t factor(const char *p, size_t n)
{
	size_t bits;

	if (n < 3 || strchr("busfv", p[1]) == NULL || p[2] < '1' || p[2] > '9')
		return 1;
	bits = strtoul(p + 2, NULL, 10);
	return p[1] == 'v' ? bits : bits / 8;
}

static size_t times_dimensions(const char *p, const char *end, size_t bytes)
{
	for (p = skip_space(p, end); p < end && *p == '['; p = skip_space(p, end)) {
		char *stop = NULL;
		size_t n = strtoull(p + 1, &stop, 10);

		if (stop == NULL || stop >= end || *stop != ']' ||
		    __builtin_mul_overflow(bytes, n, &bytes))
			return 0;
		p = stop + 1;
	}
	return bytes;
}

/* The declaration behind ".global". Anything odd is skipped. */
static void read_variable(struct CUmod_st *m, const char *p, const char *end)
{
	struct variable *v;
	size_t bytes = 1, n;

	for (p = skip_space(p, end); p < end && *p == '.'; p = skip_space(p + n, end)) {
		n = word(p, end);
		if (n == 6 && memcmp(p, ".align", 6) == 0) {
			p = skip_space(p + n, end);
			n = word(p, end);
		} else {
			bytes *= factor(p, n);
		}
	}
	n = word(p, end);
	bytes = times_dimensions(p + n, end, bytes);
	if (n == 0 || n >= NAME_MAX_BYTES || bytes == 0)
		return;
	v = calloc(1, sizeof(*v));
	if (v == NULL)
		return;
	v->name = strndup(p, n);
	v->bytes = bytes;
	v->next = m->variables;
	m->variables = v;
}

static bool in_comment(const char *text, const char *p)
{
	while (p > text && p[-1] != '\n')
		if (*--p == '/' && p[1] == '/')
			return true;
	return false;
}

static void read_variables(struct CUmod_st *m, const unsigned char *image, size_t n)
{
	const char *text = (const char *)image, *end = text + n, *p = text;
	unsigned found = 0;

	while ((p = memmem(p, (size_t)(end - p), ".global", 7)) != NULL &&
	       found++ < VARIABLES_MAX) {
		bool begins = p == text || strchr(" \t\n\r;}", p[-1]) != NULL;

		p += 7;
		if (begins && p < end && strchr(" \t\n\r", *p) != NULL && !in_comment(text, p))
			read_variable(m, p, end);
	}
}

/* Under sim_big. */
static CUresult load_variables(struct CUmod_st *m, struct CUctx_st *ctx)
{
	CUresult r = CUDA_SUCCESS;

	if (m->ctx != NULL)
		return r;
	for (struct variable *v = m->variables; r == CUDA_SUCCESS && v != NULL; v = v->next)
		r = sim_alloc(ctx, v->bytes, SIM_HEAP_VARIABLES, &v->at);
	if (r == CUDA_SUCCESS) {
		m->ctx = ctx;
		return r;
	}
	for (struct variable *v = m->variables; v != NULL; v = v->next) {
		if (v->at != 0)
			sim_free((uintptr_t)v->at);
		v->at = 0;
	}
	return r;
}

/* A library is loaded when it is first used with a context current. */
static CUresult load_now(struct CUmod_st *m)
{
	struct CUctx_st *ctx;
	CUresult r;

	if (sim_current(&ctx) != CUDA_SUCCESS)
		return CUDA_SUCCESS;
	pthread_mutex_lock(&sim_big);
	r = load_variables(m, ctx);
	pthread_mutex_unlock(&sim_big);
	return r;
}

static void drop_variables(struct CUmod_st *m)
{
	pthread_mutex_lock(&sim_big);
	while (m->variables != NULL) {
		struct variable *v = m->variables;

		m->variables = v->next;
		if (v->at != 0 && m->ctx->alive)
			sim_free((uintptr_t)v->at);
		free(v->name);
		free(v);
	}
	pthread_mutex_unlock(&sim_big);
}

static CUresult unload(CUmodule m);

static CUresult make_module(const void *image, CUmodule *ret)
{
	const unsigned char *bytes;
	struct CUmod_st *m;
	size_t n = 0;

	bytes = image_bytes(image, &n);
	if (bytes == NULL)
		return CUDA_ERROR_INVALID_IMAGE;
	m = calloc(1, sizeof(*m));
	if (m == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	m->magic = SIM_MAGIC_MODULE;
	read_directives(m, bytes, n);
	if (n >= 4 && !is_elf(bytes) && !is_fatbin(bytes))
		read_variables(m, bytes, n);
	if (load_now(m) != CUDA_SUCCESS) {
		unload(m);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret = m;
	return CUDA_SUCCESS;
}

static CUresult load_file(const char *path, char **ret_image)
{
	FILE *f = fopen(path, "re");
	char *image;
	size_t n;

	if (f == NULL)
		return CUDA_ERROR_FILE_NOT_FOUND;
	image = calloc(1, IMAGE_MAX + 1);
	if (image == NULL) {
		fclose(f);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	n = fread(image, 1, IMAGE_MAX, f);
	fclose(f);
	/* An empty file is an empty image, which is refused as such. */
	image[n] = '\0';
	*ret_image = image;
	return CUDA_SUCCESS;
}

/* --- modules --- */

CUresult cuModuleLoadDataEx(CUmodule *mod, const void *image, unsigned int n, int *options,
			    void **values)
{
	struct CUctx_st *ctx;
	CUresult r;

	if (mod == NULL || image == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = sim_current(&ctx);
	return r == CUDA_SUCCESS ? make_module(image, mod) : r;
}

CUresult cuModuleLoadData(CUmodule *mod, const void *image)
{
	return cuModuleLoadDataEx(mod, image, 0, NULL, NULL);
}

CUresult cuModuleLoadFatBinary(CUmodule *mod, const void *fat)
{
	return cuModuleLoadDataEx(mod, fat, 0, NULL, NULL);
}

CUresult cuModuleLoad(CUmodule *mod, const char *path)
{
	char *image = NULL;
	CUresult r;

	if (mod == NULL || path == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = load_file(path, &image);
	if (r == CUDA_SUCCESS)
		r = cuModuleLoadData(mod, image);
	free(image);
	return r;
}

static bool is_module(CUmodule m)
{
	return m != NULL && m->magic == SIM_MAGIC_MODULE;
}

static CUresult unload(CUmodule m)
{
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (!is_module(m))
		return CUDA_ERROR_INVALID_HANDLE;
	m->magic = 0;
	while (m->functions != NULL) {
		struct CUfunc_st *f = m->functions;

		m->functions = f->next;
		f->magic = 0;
		free(f->name);
		free(f);
	}
	drop_variables(m);
	while (m->directives != NULL) {
		struct directive *d = m->directives;

		m->directives = d->next;
		free(d->name);
		free(d);
	}
	free(m);
	return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule mod)
{
	return unload(mod);
}

CUresult cuModuleGetLoadingMode(int *mode)
{
	if (mode == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*mode = 1; /* eager */
	return CUDA_SUCCESS;
}

static uint64_t named_cost(const struct CUmod_st *m, const char *name)
{
	uint64_t any = SIM_COST_BY_SHAPE;

	for (const struct directive *d = m->directives; d != NULL; d = d->next) {
		if (d->name != NULL && strcmp(d->name, name) == 0)
			return d->ns;
		if (d->name != NULL && strcmp(d->name, "*") == 0)
			any = d->ns;
	}
	return any;
}

static struct CUfunc_st *find_function(CUmodule m, const char *name)
{
	struct CUfunc_st *f = m->functions;

	while (f != NULL && strcmp(f->name, name) != 0)
		f = f->next;
	if (f != NULL)
		return f;
	f = calloc(1, sizeof(*f));
	if (f == NULL || (f->name = strdup(name)) == NULL) {
		free(f);
		return NULL;
	}
	f->magic = SIM_MAGIC_FUNC;
	f->module = m;
	f->cost_ns = named_cost(m, name);
	f->max_dynamic_smem = 49152;
	f->block[0] = f->block[1] = f->block[2] = 1;
	f->next = m->functions;
	m->functions = f;
	return f;
}

static CUresult get_function(CUfunction *fn, CUmodule mod, const char *name)
{
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (fn == NULL || name == NULL || name[0] == '\0' ||
	    strnlen(name, NAME_MAX_BYTES) == NAME_MAX_BYTES)
		return CUDA_ERROR_INVALID_VALUE;
	if (!is_module(mod))
		return CUDA_ERROR_INVALID_HANDLE;
	pthread_mutex_lock(&sim_big);
	*fn = find_function(mod, name);
	pthread_mutex_unlock(&sim_big);
	return *fn != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuModuleGetFunction(CUfunction *fn, CUmodule mod, const char *name)
{
	return get_function(fn, mod, name);
}

static CUresult get_variable(CUdeviceptr *dptr, size_t *bytes, CUmodule m, const char *name)
{
	CUresult r;

	if (!is_module(m))
		return CUDA_ERROR_INVALID_HANDLE;
	if (name == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = load_now(m);
	for (const struct variable *v = m->variables; r == CUDA_SUCCESS && v != NULL; v = v->next) {
		if (v->name == NULL || v->at == 0 || strcmp(v->name, name) != 0)
			continue;
		if (dptr != NULL)
			*dptr = v->at;
		if (bytes != NULL)
			*bytes = v->bytes;
		return CUDA_SUCCESS;
	}
	return r == CUDA_SUCCESS ? CUDA_ERROR_NOT_FOUND : r;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule mod, const char *name)
{
	return get_variable(dptr, bytes, mod, name);
}

/* --- libraries --- */

CUresult cuLibraryLoadData(CUlibrary *lib, const void *code, int *jit_options, void **jit_values,
			   unsigned int n_jit, int *lib_options, void **lib_values,
			   unsigned int n_lib)
{
	CUresult r = sim_ready();
	CUmodule m = NULL;

	if (r != CUDA_SUCCESS)
		return r;
	if (lib == NULL || code == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = make_module(code, &m);
	if (r == CUDA_SUCCESS)
		*lib = (CUlibrary)(void *)m;
	return r;
}

CUresult cuLibraryLoadFromFile(CUlibrary *lib, const char *path, int *jit_options,
			       void **jit_values, unsigned int n_jit, int *lib_options,
			       void **lib_values, unsigned int n_lib)
{
	char *image = NULL;
	CUresult r;

	if (lib == NULL || path == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = load_file(path, &image);
	if (r == CUDA_SUCCESS)
		r = cuLibraryLoadData(lib, image, NULL, NULL, 0, NULL, NULL, 0);
	free(image);
	return r;
}

CUresult cuLibraryUnload(CUlibrary lib)
{
	return unload(AS_MODULE(lib));
}

CUresult cuLibraryGetModule(CUmodule *mod, CUlibrary lib)
{
	if (mod == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (!is_module(AS_MODULE(lib)))
		return CUDA_ERROR_INVALID_HANDLE;
	*mod = AS_MODULE(lib);
	return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary lib, const char *name)
{
	CUfunction fn = NULL;
	CUresult r;

	if (kernel == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = get_function(&fn, AS_MODULE(lib), name);
	if (r == CUDA_SUCCESS)
		*kernel = (CUkernel)(void *)fn;
	return r;
}

CUresult cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary lib, const char *name)
{
	return cuModuleGetGlobal_v2(dptr, bytes, AS_MODULE(lib), name);
}

CUresult cuKernelGetFunction(CUfunction *fn, CUkernel kernel)
{
	CUfunction f = (CUfunction)(void *)kernel;

	if (fn == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (f == NULL || f->magic != SIM_MAGIC_FUNC)
		return CUDA_ERROR_INVALID_HANDLE;
	*fn = f;
	return CUDA_SUCCESS;
}
