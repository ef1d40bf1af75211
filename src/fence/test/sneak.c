/* A hostile tenant: tries one way around the fence, named by its first argument, to hold more than the
 * cap. Linked to the driver like an ordinary CUDA program. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fence/cuda_more.h"
#include "fence/ledger.h"
#include "fence/test/fake.h"
#include "fence/test/sneak.h"

extern char **environ;

struct driver {
	__typeof__(&cuInit) init;
	__typeof__(&cuCtxCreate_v2) context;
	__typeof__(&cuMemAlloc_v2) alloc;
};

static void die(const char *what)
{
	fprintf(stderr, "sneak: %s: %s\n", what, strerror(errno));
	_exit(3);
}

static void report(uint64_t bytes, int error)
{
	struct sneak_report r = { .pid = getpid(), .error = error, .bytes = bytes };
	char c;

	if (write(STDOUT_FILENO, &r, sizeof(r)) != sizeof(r))
		die("report");
	while (read(STDIN_FILENO, &c, 1) > 0)
		;
}

static uint64_t take(const struct driver *d, uint64_t goal, int *ret_error)
{
	uint64_t got = 0;
	CUdeviceptr p;
	CUresult r = CUDA_SUCCESS;

	while (r == CUDA_SUCCESS && got < goal) {
		r = d->alloc(&p, 16 * SNEAK_MIB);
		got += r == CUDA_SUCCESS ? 16 * SNEAK_MIB : 0;
	}
	*ret_error = (int)r;
	return got;
}

static void try_driver(struct driver d)
{
	CUcontext ctx;
	uint64_t got = 0;
	int error = (int)d.init(0);

	if (error == 0)
		error = (int)d.context(&ctx, 0, 0);
	if (error == 0)
		got = take(&d, SNEAK_GOAL, &error);
	report(got, error);
}

static const struct driver linked = { cuInit, cuCtxCreate_v2, cuMemAlloc_v2 };

static void plain(const char *unused)
{
	try_driver(linked);
}

static struct driver found_in(void *lib)
{
	if (!lib)
		die(dlerror());
	return (struct driver){ (__typeof__(&cuInit))dlsym(lib, "cuInit"),
				(__typeof__(&cuCtxCreate_v2))dlsym(lib, "cuCtxCreate_v2"),
				(__typeof__(&cuMemAlloc_v2))dlsym(lib, "cuMemAlloc_v2") };
}

static CUresult alloc_per_thread(CUdeviceptr *ret, size_t bytes)
{
	return cuMemAllocAsync_ptsz(ret, bytes, NULL);
}

static void per_thread(const char *unused)
{
	try_driver((struct driver){ cuInit, cuCtxCreate_v2, alloc_per_thread });
}

static void make_context(void)
{
	CUcontext ctx;

	if (cuInit(0) != CUDA_SUCCESS || cuCtxCreate_v2(&ctx, 0, 0) != CUDA_SUCCESS)
		die("join");
}

static CUresult launch_one(void)
{
	CUDA_MEM_ALLOC_NODE_PARAMS p = { .poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
							.location = { CU_MEM_LOCATION_TYPE_DEVICE,
								      0 } },
					 .bytesize = 16 * SNEAK_MIB };
	CUgraphExec exec = NULL;
	CUgraph graph = NULL;
	CUgraphNode node;
	CUresult r = cuGraphCreate(&graph, 0);

	if (r == CUDA_SUCCESS)
		r = cuGraphAddMemAllocNode(&node, graph, NULL, 0, &p);
	if (r == CUDA_SUCCESS)
		r = cuGraphInstantiateWithFlags(&exec, graph, 0);
	return r == CUDA_SUCCESS ? cuGraphLaunch(exec, NULL) : r;
}

/* Graphs that allocate and never free. */
static void by_graphs(const char *unused)
{
	CUresult r = CUDA_SUCCESS;

	make_context();
	for (int i = 0; i < 32 && r == CUDA_SUCCESS; i++)
		r = launch_one();
	report(fake_live(0), (int)r);
}

/* Memory of a friend in another container, opened here. */
static void handed_over(const char *unused)
{
	CUresult r = CUDA_SUCCESS;
	CUdeviceptr p;

	make_context();
	for (uint64_t i = 0; i < 16 && r == CUDA_SUCCESS; i++) {
		uint64_t say[] = { i, 32 * SNEAK_MIB };
		CUipcMemHandle handle = { { 0 } };

		memcpy(handle.reserved, say, sizeof(say));
		r = cuIpcOpenMemHandle_v2(&p, handle, 1);
	}
	report(fake_live(0), (int)r);
}

/* A driver file of the tenant's choice. */
static void other_file(const char *path)
{
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	try_driver(found_in(lib));
}

static void other_namespace(const char *path)
{
	try_driver(found_in(dlmopen(LM_ID_NEWLM, path, RTLD_NOW | RTLD_LOCAL)));
}

static void by_version(const char *unused)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	struct driver d = found_in(lib);
	void *p = dlvsym(lib, "cuMemAlloc_v2", "LIBCUDA_1");
	void *(*again)(void *, const char *) =
		(void *(*)(void *, const char *))dlvsym(RTLD_DEFAULT, "dlsym", "GLIBC_2.34");

	if (p)
		d.alloc = (__typeof__(&cuMemAlloc_v2))p;
	else if (again)
		d.alloc = (__typeof__(&cuMemAlloc_v2))again(lib, "cuMemAlloc_v2");
	try_driver(d);
}

/* A library of the tenant's that is linked to the driver. */
static void grab_with(void *lib)
{
	__typeof__(&sneak_grab) grab =
		lib ? (__typeof__(&sneak_grab))dlsym(lib, "sneak_grab") : NULL;
	int32_t error = 0;
	uint64_t got;

	if (!grab)
		die(dlerror());
	got = grab(&error);
	report(got, error);
}

static void deep(const char *path)
{
	grab_with(dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND));
}

static void deep_namespace(const char *path)
{
	grab_with(dlmopen(LM_ID_NEWLM, path, RTLD_NOW | RTLD_LOCAL));
}

/* --- the driver's symbol table, read by hand --- */

static void *by_hand(const struct link_map *map, const char *name)
{
	const ElfW(Sym) *sym = NULL;
	const char *text = NULL;

	for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_SYMTAB)
			sym = (const ElfW(Sym) *)d->d_un.d_ptr;
		else if (d->d_tag == DT_STRTAB)
			text = (const char *)d->d_un.d_ptr;
	}
	/* The string table follows the symbols. */
	for (const ElfW(Sym) *s = sym; s && (const char *)s < text; s++) {
		if (s->st_shndx != SHN_UNDEF && strcmp(text + s->st_name, name) == 0)
			return (void *)(map->l_addr + s->st_value);
	}
	return NULL;
}

static struct driver real_driver(void)
{
	struct link_map *map = dlopen("libcuda.so.1", RTLD_NOW);
	struct driver d;

	if (!map)
		die(dlerror());
	d.init = (__typeof__(&cuInit))by_hand(map, "cuInit");
	d.context = (__typeof__(&cuCtxCreate_v2))by_hand(map, "cuCtxCreate_v2");
	d.alloc = (__typeof__(&cuMemAlloc_v2))by_hand(map, "cuMemAlloc_v2");
	if (!d.init || !d.context || !d.alloc)
		die("the driver's symbols");
	return d;
}

static void hand_made(const char *unused)
{
	try_driver(real_driver());
}

/* Joins the fence like a good program, then goes around it. */
static void joined_first(const char *unused)
{
	CUdeviceptr p;

	make_context();
	if (cuMemAlloc_v2(&p, SNEAK_MIB) != CUDA_SUCCESS)
		die("join");
	try_driver(real_driver());
}

/* --- the hook's own code --- */

static size_t jump_to(unsigned char code[16], const void *target)
{
#if defined(__x86_64__)
	static const unsigned char to[] = { 0x48, 0xb8 }, go[] = { 0xff, 0xe0 };

	memcpy(code, to, 2); /* mov $target, %rax; jmp *%rax */
	memcpy(code + 2, &target, 8);
	memcpy(code + 10, go, 2);
	return 12;
#else
	static const unsigned char go[] = { 0x50, 0, 0, 0x58, 0, 0x02, 0x1f, 0xd6 };

	memcpy(code, go, 8); /* ldr x16, . + 8; br x16 */
	memcpy(code + 8, &target, 8);
	return 16;
#endif
}

static void patch(void *at, const void *target)
{
	uintptr_t page = (uintptr_t)at & ~(uintptr_t)4095;
	unsigned char code[16];
	size_t n = jump_to(code, target);

	if (at == target) /* not hooked */
		return;
	if (mprotect((void *)page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC) < 0)
		die("mprotect");
	memcpy(at, code, n);
	__builtin___clear_cache((char *)at, (char *)at + n);
}

static void patched(const char *unused)
{
	struct driver d = real_driver();

	patch((void *)cuInit, (void *)d.init);
	patch((void *)cuCtxCreate_v2, (void *)d.context);
	patch((void *)cuMemAlloc_v2, (void *)d.alloc);
	try_driver(linked);
}

static void poke(pid_t pid, const void *at, const void *target)
{
	unsigned char code[16];
	size_t n = jump_to(code, target);

	for (size_t i = 0; at != target && i < 16; i += 8) {
		long word = ptrace(PTRACE_PEEKTEXT, pid, (const char *)at + i, NULL);

		memcpy(&word, code + i, n - i < 8 ? n - i : 8);
		if (ptrace(PTRACE_POKETEXT, pid, (const char *)at + i, (void *)word) < 0)
			die("poke");
	}
}

/* The child is rewritten by its parent; same addresses in both. */
static void traced(const char *unused)
{
	struct driver d = real_driver();
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
			die("traceme");
		raise(SIGSTOP);
		try_driver(linked);
		_exit(0);
	}
	if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
		die("stop");
	poke(pid, (void *)cuInit, (void *)d.init);
	poke(pid, (void *)cuCtxCreate_v2, (void *)d.context);
	poke(pid, (void *)cuMemAlloc_v2, (void *)d.alloc);
	if (ptrace(PTRACE_DETACH, pid, NULL, NULL) < 0)
		die("detach");
	waitpid(pid, &status, 0);
}

static int find_own(struct dl_phdr_info *info, size_t size, void *ret)
{
	if (!strstr(info->dlpi_name, "libringfence"))
		return 0;
	*(struct dl_phdr_info *)ret = *info;
	return 1;
}

/* Without the library's pages its calls end nowhere. */
static void unmapped(const char *unused)
{
	struct dl_phdr_info info = { 0 };
	CUdeviceptr p;

	if (!dl_iterate_phdr(find_own, &info))
		die("the library");
	for (int i = 0; i < info.dlpi_phnum; i++) {
		const ElfW(Phdr) *h = &info.dlpi_phdr[i];

		if (h->p_type == PT_LOAD && (h->p_flags & PF_X))
			munmap((void *)((info.dlpi_addr + h->p_vaddr) & ~(uintptr_t)4095),
			       h->p_memsz);
	}
	cuMemAlloc_v2(&p, SNEAK_GOAL); /* the end */
	report(SNEAK_GOAL, 0);
}

static void unloaded(const char *path)
{
	for (int i = 0; i < 20; i++) {
		void *lib = dlopen(path, RTLD_NOW | RTLD_NOLOAD);

		for (int k = 0; lib && k < 3; k++)
			dlclose(lib);
	}
	try_driver(linked);
}

/* --- the books --- */

static struct rf_ledger *find_ledger(void)
{
	for (int fd = 3; fd < 1024; fd++) {
		struct stat st;
		void *p;

		if (fstat(fd, &st) < 0 || st.st_size != (off_t)sizeof(struct rf_ledger))
			continue;
		p = mmap(NULL, sizeof(struct rf_ledger), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (p != MAP_FAILED)
			return p;
	}
	die("the ledger");
	return NULL;
}

static void spoiled(const char *unused)
{
	struct rf_ledger *l;
	uint64_t got = 0;
	int error = 0;

	make_context();
	take(&linked, 16 * SNEAK_MIB, &error);
	l = find_ledger();
	while (error == 0 && got < SNEAK_GOAL) {
		memset(l->used, 0, sizeof(l->used));
		got += take(&linked, 16 * SNEAK_MIB, &error);
	}
	report(got, error);
}

static size_t ask(int *fds)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX, .sun_path = "fence.sock" };
	struct rf_fence_hello hello = { .magic = RF_FENCE_MAGIC, .version = RF_FENCE_VERSION };
	struct rf_fence_reply reply;
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * RF_FENCE_FDS)] = { 0 };
	struct iovec iov = { &reply, sizeof(reply) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct cmsghdr *c;
	size_t n;

	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 ||
	    send(fd, &hello, sizeof(hello), 0) != (ssize_t)sizeof(hello) ||
	    recvmsg(fd, &msg, 0) < 0)
		die("ask");
	c = CMSG_FIRSTHDR(&msg);
	if (!c)
		die("no descriptors");
	n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	memcpy(fds, CMSG_DATA(c), n * sizeof(int));
	close(fd);
	return n;
}

/* Says by bytes what could be written: 1 the limits, 2 the gate. */
static void rewrite(const char *unused)
{
	uint64_t lie = UINT64_MAX, done = 0;
	int fds[RF_FENCE_FDS];
	size_t n = ask(fds);

	for (size_t i = 0; i < n; i += 2) { /* limits and gate; ledger and desk are the tenant's */
		void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fds[i], 0);
		void *q = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fds[i], 0);

		if (p != MAP_FAILED || pwrite(fds[i], &lie, 8, 0) >= 0 ||
		    ftruncate(fds[i], 0) == 0 || ftruncate(fds[i], 1 << 20) == 0 ||
		    q == MAP_FAILED || mprotect(q, 4096, PROT_READ | PROT_WRITE) == 0)
			done += 1 + i / 2;
	}
	report(done, (int)n);
}

/* Takes a seat without the library, so as not to be missed, and then what it likes. */
static void false_seat(const char *unused)
{
	uint64_t none[RF_FENCE_CARDS] = { 0 };
	struct rf_ledger_place place;
	int fds[RF_FENCE_FDS];

	ask(fds);
	if (rf_ledger_open(&place, fds[1]) < 0 || rf_ledger_sit(&place, none) < 0)
		die("sit");
	try_driver(linked);
}

static void closed(const char *unused)
{
	uint64_t got;
	int error;

	make_context();
	got = take(&linked, 128 * SNEAK_MIB, &error);
	close_range(3, ~0U, 0);
	got += take(&linked, SNEAK_GOAL, &error);
	report(got, error);
}

/* What one holds without a descriptor, another may not have as well. */
static void closed_beside(const char *unused)
{
	uint64_t got, *sum;
	int error;
	pid_t pid;

	sum = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid = fork();
	if (pid == 0) {
		while (!__atomic_load_n(&sum[0], __ATOMIC_SEQ_CST))
			usleep(1000);
		make_context();
		__atomic_store_n(&sum[1], 1 + take(&linked, SNEAK_CAP, &error), __ATOMIC_SEQ_CST);
		pause(); /* holding it */
		_exit(0);
	}
	make_context();
	got = take(&linked, 128 * SNEAK_MIB, &error);
	close_range(3, ~0U, 0);
	__atomic_store_n(&sum[0], 1, __ATOMIC_SEQ_CST);
	while (!__atomic_load_n(&sum[1], __ATOMIC_SEQ_CST))
		usleep(1000);
	report(got + sum[1] - 1, 0);
	kill(pid, SIGKILL);
}

/* --- processes --- */

/* Each of eight children tries to have the cap for itself; the last one stands for all. */
static void forked(const char *unused)
{
	uint64_t got, *sum;
	int error;

	sum = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	make_context();
	for (int i = 0; i < 8; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			got = take(&linked, SNEAK_CAP, &error);
			__atomic_add_fetch(&sum[0], got, __ATOMIC_SEQ_CST);
			__atomic_add_fetch(&sum[1], 1, __ATOMIC_SEQ_CST);
			pause(); /* holding it */
			_exit(0);
		}
		sum[2 + i] = (uint64_t)pid;
	}
	while (__atomic_load_n(&sum[1], __ATOMIC_SEQ_CST) < 8)
		usleep(1000);
	report(sum[0], 0);
	for (int i = 0; i < 8; i++)
		kill((pid_t)sum[2 + i], SIGKILL);
}

static char **without_preload(void)
{
	static char *kept[64];
	size_t n = 0;

	for (char **e = environ; *e && n < 63; e++) {
		if (strncmp(*e, "LD_PRELOAD=", 11) != 0)
			kept[n++] = *e;
	}
	return kept;
}

static void executed(const char *program)
{
	static char way[] = "plain";
	char *argv[] = { (char *)(uintptr_t)program, way, NULL };

	execve(program, argv, without_preload());
	die("exec");
}

/* env: "clean" or "same" */
static void spawned(const char *env)
{
	static char way[] = "plain", path[4096];
	char *argv[] = { path, way, NULL };
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	pid_t pid;
	int status;

	path[n > 0 ? n : 0] = '\0';
	if (posix_spawn(&pid, path, NULL, NULL, argv,
			strcmp(env, "clean") == 0 ? without_preload() : environ) != 0)
		die("spawn");
	waitpid(pid, &status, 0);
}

static const struct {
	const char *name;
	void (*run)(const char *arg);
} ways[] = {
	{ "plain", plain },
	{ "per-thread", per_thread },
	{ "graphs", by_graphs },
	{ "handed-over", handed_over },
	{ "other-file", other_file },
	{ "other-namespace", other_namespace },
	{ "by-version", by_version },
	{ "deep", deep },
	{ "deep-namespace", deep_namespace },
	{ "by-hand", hand_made },
	{ "joined-first", joined_first },
	{ "patched", patched },
	{ "traced", traced },
	{ "unmapped", unmapped },
	{ "unloaded", unloaded },
	{ "spoiled", spoiled },
	{ "rewrite", rewrite },
	{ "false-seat", false_seat },
	{ "closed", closed },
	{ "closed-beside", closed_beside },
	{ "forked", forked },
	{ "executed", executed },
	{ "spawned", spawned },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof(ways) / sizeof(ways[0]); i++) {
		if (strcmp(ways[i].name, argv[1]) == 0) {
			ways[i].run(argc > 2 ? argv[2] : "");
			return 0;
		}
	}
	fprintf(stderr, "sneak: no such way\n");
	return 2;
}
