/* A program that minds its own state, with libringfence preloaded: whatever the fence does, umask,
 * signals, locale, errno, descriptors and threads stay as the program left them.
 *
 * "idle": never uses CUDA. "use": does, and runs into the cap. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fence/ledger.h"
#include "fence/test/sneak.h"
#include "gpu/cuda_abi.h"
#include "gpu/nvml_abi.h"

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "citizen: line %d: %s\n", __LINE__, #cond);                \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#define FDS 1024

struct state {
	mode_t mask;
	struct sigaction action[_NSIG];
	sigset_t blocked;
	char locale[256];
	bool open[FDS];
	int threads;
};

static int entries(const char *folder)
{
	DIR *d = opendir(folder);
	int n = 0;

	CHECK(d != NULL);
	for (struct dirent *e; (e = readdir(d)) != NULL;)
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

static void look(struct state *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->mask = umask(0);
	umask(ret->mask);
	for (int i = 1; i < _NSIG; i++)
		sigaction(i, NULL, &ret->action[i]);
	sigprocmask(SIG_BLOCK, NULL, &ret->blocked);
	snprintf(ret->locale, sizeof(ret->locale), "%s", setlocale(LC_ALL, NULL));
	for (int fd = 0; fd < FDS; fd++)
		ret->open[fd] = fcntl(fd, F_GETFD) >= 0;
	ret->threads = entries("/proc/self/task");
}

static void on_signal(int unused)
{
}

static void settle(void)
{
	sigset_t set;

	umask(027);
	CHECK(signal(SIGUSR1, on_signal) != SIG_ERR && signal(SIGUSR2, on_signal) != SIG_ERR);
	CHECK(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	CHECK(sigprocmask(SIG_SETMASK, &set, NULL) == 0);
	CHECK(setlocale(LC_ALL, "C.UTF-8") || setlocale(LC_ALL, "C"));
}

static void same(const struct state *a, const struct state *b)
{
	CHECK(a->mask == b->mask);
	for (int i = 1; i < _NSIG; i++)
		CHECK(a->action[i].sa_handler == b->action[i].sa_handler &&
		      a->action[i].sa_flags == b->action[i].sa_flags);
	CHECK(memcmp(&a->blocked, &b->blocked, sizeof(a->blocked)) == 0);
	CHECK(strcmp(a->locale, b->locale) == 0);
	CHECK(a->threads == b->threads);
}

static bool has_driver(void)
{
	return dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) != NULL ||
	       dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_NOLOAD) != NULL;
}

static void idle(void)
{
	struct state before, after;

	look(&before);
	CHECK(before.threads == 1);
	for (int fd = 3; fd < FDS; fd++)
		CHECK(!before.open[fd]);
	errno = 77;
	CHECK(dlsym(RTLD_DEFAULT, "strlen") != NULL && dlsym(RTLD_DEFAULT, "cuInit") == NULL);
	CHECK(errno == 77);
	look(&after);
	same(&before, &after);
	CHECK(memcmp(before.open, after.open, sizeof(before.open)) == 0);
	CHECK(!has_driver());
}

static void call_everything(void *cuda, void *nvml)
{
#define CU(name) ((__typeof__(&name))dlsym(cuda, #name))
#define ML(name) ((__typeof__(&name))dlsym(nvml, #name))
	nvmlDevice_t device;
	nvmlMemory_t memory;
	CUdeviceptr p;
	CUcontext ctx;
	size_t n, total;

	errno = 77;
	CHECK(CU(cuInit)(0) == CUDA_SUCCESS);
	CHECK(CU(cuCtxCreate_v2)(&ctx, 0, 0) == CUDA_SUCCESS);
	CHECK(CU(cuMemAlloc_v2)(&p, SNEAK_GOAL) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(CU(cuMemAlloc_v2)(&p, SNEAK_MIB) == CUDA_SUCCESS);
	CHECK(CU(cuMemGetInfo_v2)(&n, &total) == CUDA_SUCCESS && total == SNEAK_CAP);
	CHECK(CU(cuMemFree_v2)(p) == CUDA_SUCCESS);
	CHECK(ML(nvmlInit_v2)() == NVML_SUCCESS);
	CHECK(ML(nvmlDeviceGetHandleByIndex_v2)(1, &device) == NVML_SUCCESS);
	CHECK(ML(nvmlDeviceGetMemoryInfo)(device, &memory) == NVML_SUCCESS);
	CHECK(errno == 77);
}

/* The ledger alone, high up, and not for programs that are executed. */
static void check_new(const struct state *before, const struct state *after)
{
	int count = 0;

	for (int fd = 0; fd < FDS; fd++) {
		struct stat st;

		CHECK(!before->open[fd] || after->open[fd]);
		if (before->open[fd] || !after->open[fd])
			continue;
		count++;
		CHECK(fd >= 500 && (fcntl(fd, F_GETFD) & FD_CLOEXEC));
		CHECK(fstat(fd, &st) == 0 && st.st_size == (off_t)sizeof(struct rf_ledger));
	}
	CHECK(count == 1);
}

static void use(void)
{
	struct state before, after;
	void *cuda = dlopen("libcuda.so.1", RTLD_NOW),
	     *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);

	CHECK(cuda && nvml);
	look(&before);
	call_everything(cuda, nvml);
	look(&after);
	same(&before, &after);
	check_new(&before, &after);
}

int main(int argc, char **argv)
{
	settle();
	if (argc > 1 && strcmp(argv[1], "use") == 0)
		use();
	else
		idle();
	return 0;
}
