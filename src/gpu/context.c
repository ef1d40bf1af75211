#include "gpu/context.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "gpu/cuda_abi.h"
#include "gpu/models.h"

#define PATIENCE_MS 60000 /* a driver without persistence mode takes its time */

/* --- children --- */

struct task {
	void (*work)(const void *arg, void *ret);
	const void *arg;
	void *ret;
	size_t size;
};

/* All of it, or false. */
static bool read_answer(int fd, void *ret, size_t size)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	size_t got = 0;

	while (got < size) {
		ssize_t n;

		if (poll(&p, 1, PATIENCE_MS) == 0)
			return false;
		n = read(fd, (char *)ret + got, size - got);
		if (n == 0 || (n < 0 && errno != EINTR))
			return false;
		got += n > 0 ? (size_t)n : 0;
	}
	return true;
}

static _Noreturn void be_child(const struct task *t, int fd)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	t->work(t->arg, t->ret);
	_exit(write(fd, t->ret, t->size) == (ssize_t)t->size ? 0 : 1);
}

/* False: the child said nothing, or not in time. */
static bool run_child(const struct task *t)
{
	int pipe_fds[2];
	bool ok;
	pid_t pid;

	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return false;
	pid = fork();
	if (pid == 0)
		be_child(t, pipe_fds[1]);
	close(pipe_fds[1]);
	ok = pid > 0 && read_answer(pipe_fds[0], t->ret, t->size);
	close(pipe_fds[0]);
	if (pid < 0)
		return false;
	if (!ok)
		kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return ok;
}

bool rf_gpu_in_child(void (*work)(const void *arg, void *ret), const void *arg, void *ret,
		     size_t size)
{
	struct task t = { work, arg, ret, size };

	return run_child(&t);
}

/* --- measuring --- */

#define CUDA_CALLS(X)                                                                              \
	X(cuInit) X(cuDeviceGet) X(cuDeviceGetCount) X(cuDeviceGetUuid) X(cuDevicePrimaryCtxRetain)
struct cuda {
#define FIELD(name) __typeof__(&name) name;
	CUDA_CALLS(FIELD)
};

static bool load_cuda(const char *lib_dir, struct cuda *cu)
{
	char path[4096];
	void *lib;

	snprintf(path, sizeof(path), "%s%slibcuda.so.1", lib_dir ? lib_dir : "",
		 lib_dir ? "/" : "");
	lib = dlopen(path, RTLD_NOW);

	if (lib == NULL)
		return false;
#define LOAD(call)                                                                                 \
	{                                                                                          \
		void *p = dlsym(lib, #call);                                                       \
		if (p == NULL)                                                                     \
			return false;                                                              \
		memcpy(&cu->call, &p, sizeof(p));                                                  \
	}
	CUDA_CALLS(LOAD)
	return true;
}

static void uuid_text(const CUuuid *u, char ret[64])
{
	int n = snprintf(ret, 64, "GPU-");

	for (int i = 0; i < 16; i++)
		n += snprintf(ret + n, 64 - (size_t)n, "%s%02x",
			      i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			      (unsigned char)u->bytes[i]);
}

static bool make_context(const char *lib_dir, const char *uuid)
{
	struct cuda cu;
	CUcontext ctx;
	int count = 0;

	/* The card is meant, not what the program is to see. */
	unsetenv("CUDA_VISIBLE_DEVICES");
	if (!load_cuda(lib_dir, &cu) || cu.cuInit(0) != CUDA_SUCCESS ||
	    cu.cuDeviceGetCount(&count) != CUDA_SUCCESS)
		return false;
	for (int i = 0; i < count; i++) {
		char text[64];
		CUdevice dev;
		CUuuid u;

		if (cu.cuDeviceGet(&dev, i) != CUDA_SUCCESS ||
		    cu.cuDeviceGetUuid(&u, dev) != CUDA_SUCCESS)
			continue;
		uuid_text(&u, text);
		if (strcmp(text, uuid) == 0)
			return cu.cuDevicePrimaryCtxRetain(&ctx, dev) == CUDA_SUCCESS;
	}
	return false;
}

/* What NVML says that this process has; -1: it does not say (another pid namespace, MPS). */
static int64_t own_bytes(struct rf_gpu *g, size_t i)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_gpu_process *list = NULL;
	size_t n = 0;

	if (rf_gpu_processes(g, i, &a, &list, &n, NULL) < 0)
		return -1;
	for (size_t k = 0; k < n; k++)
		if (list[k].pid == getpid())
			return list[k].bytes;
	return -1;
}

static int64_t measure_on(const char *lib_dir, struct rf_gpu *g, size_t i)
{
	struct rf_gpu_sample before, after;
	int64_t own;

	rf_gpu_sample(g, i, &before);
	if (!make_context(lib_dir, rf_gpu_card(g, i)->uuid))
		return 0;
	own = own_bytes(g, i);
	if (own > 0)
		return own;
	rf_gpu_sample(g, i, &after);
	return before.memory_used < 0 ? 0 : after.memory_used - before.memory_used;
}

struct wanted {
	const char *lib_dir;
	const struct rf_gpu_card *card;
};

static void measure(const void *arg, void *ret)
{
	const struct wanted *w = arg;
	struct rf_gpu *g = NULL;

	if (rf_gpu_open(w->lib_dir, &g, NULL) < 0)
		return;
	for (size_t i = 0; i < rf_gpu_count(g); i++)
		if (strcmp(rf_gpu_card(g, i)->uuid, w->card->uuid) == 0)
			*(int64_t *)ret = measure_on(w->lib_dir, g, i);
}

/* 0 for what cannot be. */
static int64_t believed(const struct rf_gpu_card *card, int64_t bytes)
{
	return bytes > 0 && bytes < card->memory_bytes / 4 ? bytes : 0;
}

int64_t rf_gpu_context_measure(const char *lib_dir, const struct rf_gpu_card *card)
{
	struct wanted w = { lib_dir, card };
	int64_t bytes = 0;

	return rf_gpu_in_child(measure, &w, &bytes, sizeof(bytes)) ? believed(card, bytes) : 0;
}

int64_t rf_gpu_context_guess(const struct rf_gpu_card *card)
{
	const struct rf_gpu_model *m = rf_gpu_model_by_product(card->name);

	return m != NULL ? (int64_t)m->context_mib << 20 : 0;
}

/* --- remembering --- */

static void cache_name(const struct rf_gpu_card *card, const char *driver, bool mps, char ret[256])
{
	snprintf(ret, 256, "context-%s-%s%s", card->uuid, driver, mps ? "-mps" : "");
	for (char *p = ret; *p != '\0'; p++)
		if (*p == '/')
			*p = '_';
}

static int64_t read_cache(int dir, const char *name)
{
	rf_auto_close int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	char text[32];
	int64_t bytes = 0;
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));

	if (n <= 0 || rf_str_int(rf_str_n(text, (size_t)n), &bytes, NULL) < 0)
		return 0;
	return bytes;
}

static void write_cache(int dir, const char *name, int64_t bytes)
{
	char tmp[300], text[32];
	int n = snprintf(text, sizeof(text), "%lld", (long long)bytes);

	snprintf(tmp, sizeof(tmp), ".%s.%d", name, (int)getpid());
	rf_auto_close int fd =
		openat(dir, tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	if (write(fd, text, (size_t)n) != n || renameat(dir, tmp, dir, name) < 0)
		unlinkat(dir, tmp, 0);
}

int64_t rf_gpu_context_recall(int dir_fd, const struct rf_gpu_card *card, const char *driver,
			      bool mps)
{
	char name[256];

	cache_name(card, driver, mps, name);
	return believed(card, read_cache(dir_fd, name));
}

void rf_gpu_context_remember(int dir_fd, const struct rf_gpu_card *card, const char *driver,
			     bool mps, int64_t bytes)
{
	char name[256];

	cache_name(card, driver, mps, name);
	write_cache(dir_fd, name, bytes);
}
