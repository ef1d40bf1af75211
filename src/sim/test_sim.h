/* For sim's tests: the driver libraries loaded by path, a machine per test, and child processes
 * that take turns with the test over a pair of pipes. */
#ifndef RF_SIM_TEST_H
#define RF_SIM_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/cuda_abi.h"
#include "gpu/nvml_abi.h"
#include "sim/sim.h"

#define MIB (1ULL << 20)
#define GIB (1ULL << 30)

static inline void *test_symbol(const char *lib, const char *name)
{
	char path[4096];
	void *handle, *symbol;

	snprintf(path, sizeof(path), "%s/%s", SIM_LIB_DIR, lib);
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	symbol = handle != NULL ? dlsym(handle, name) : NULL;
	if (symbol == NULL) {
		fprintf(stderr, "%s: %s\n", name, dlerror());
		abort();
	}
	return symbol;
}

/* CU(cuInit)(0) calls the simulated driver. */
#define CU(name) ((__typeof__(&name))test_symbol("libcuda.so.1", #name))
#define NVML(name) ((__typeof__(&name))test_symbol("libnvidia-ml.so.1", #name))

/* In a child: a failed check ends it, and the test sees its exit status. */
#define need(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: child needs %s\n", __FILE__, __LINE__, #cond);     \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)
#define need_is(expr, want)                                                                        \
	do {                                                                                       \
		long long got_ = (long long)(expr), want_ = (long long)(want);                     \
		if (got_ != want_) {                                                               \
			fprintf(stderr, "%s:%d: child: %s is %lld, not %lld\n", __FILE__,          \
				__LINE__, #expr, got_, want_);                                     \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

struct machine {
	char dir[64];
};

static inline void machine_up_with(struct machine *m, const char *spec,
				   const struct rf_sim_options *opt)
{
	struct rf_err err = RF_ERR_INIT;

	snprintf(m->dir, sizeof(m->dir), "/tmp/rf-sim-test-XXXXXX");
	assert_non_null(mkdtemp(m->dir));
	if (rf_sim_machine_create(m->dir, rf_str(spec), opt, &err) < 0)
		fail_msg("%s", err.msg);
	setenv("RINGFENCE_SIM", m->dir, 1);
	unsetenv("CUDA_VISIBLE_DEVICES");
}

static inline void machine_up(struct machine *m, const char *spec, bool virtual_time)
{
	struct rf_sim_options opt = { .virtual_time = virtual_time };

	machine_up_with(m, spec, &opt);
}

static inline void machine_down(struct machine *m)
{
	struct rf_err err = RF_ERR_INIT;

	if (rf_sim_machine_remove(m->dir, &err) < 0)
		fail_msg("%s", err.msg);
	unsetenv("RINGFENCE_SIM");
}

struct child {
	pid_t pid;
	int to, from; /* the test's ends */
};

static int child_in = -1, child_out = -1; /* the child's ends */
static int test_ends[64];		  /* the test's ends so far: not for later children */
static size_t n_test_ends;

/* The child says where it has got to, and waits to be told to go on. */
static inline void child_tell(char what)
{
	need(write(child_out, &what, 1) == 1);
}

static inline void child_wait(void)
{
	char c;

	if (read(child_in, &c, 1) != 1)
		_exit(0); /* the test is over */
}

static inline struct child child_start(void (*run)(void))
{
	struct child c = { .pid = -1 };
	int down[2], up[2];

	assert_int_equal(pipe2(down, O_CLOEXEC), 0);
	assert_int_equal(pipe2(up, O_CLOEXEC), 0);
	c.pid = fork();
	assert_true(c.pid >= 0);
	if (c.pid == 0) {
		signal(SIGSEGV, SIG_DFL); /* a crash is the child's own, not cmocka's */
		signal(SIGABRT, SIG_DFL);
		signal(SIGBUS, SIG_DFL);
		close(down[1]);
		close(up[0]);
		for (size_t i = 0; i < n_test_ends; i++)
			close(test_ends[i]);
		child_in = down[0];
		child_out = up[1];
		run();
		_exit(0);
	}
	close(down[0]);
	close(up[1]);
	c.to = down[1];
	c.from = up[0];
	assert_true(n_test_ends + 2 <= RF_COUNT(test_ends));
	test_ends[n_test_ends++] = c.to;
	test_ends[n_test_ends++] = c.from;
	return c;
}

static inline char child_said(struct child *c)
{
	char what = '?';

	if (read(c->from, &what, 1) != 1)
		return '\0';
	return what;
}

static inline void child_go(struct child *c)
{
	assert_int_equal(write(c->to, "g", 1), 1);
}

static inline void child_forget(struct child *c)
{
	for (size_t i = 0; i < n_test_ends;)
		if (test_ends[i] == c->to || test_ends[i] == c->from)
			test_ends[i] = test_ends[--n_test_ends];
		else
			i++;
}

static inline void child_ends_well(struct child *c)
{
	int status = 0;

	child_forget(c);
	close(c->to);
	assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
	close(c->from);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static inline void child_kill(struct child *c)
{
	assert_int_equal(kill(c->pid, SIGKILL), 0);
	assert_int_equal(waitpid(c->pid, NULL, 0), c->pid);
	child_forget(c);
	close(c->to);
	close(c->from);
}

static inline CUcontext child_context(int device)
{
	CUcontext ctx = NULL;

	need_is(CU(cuInit)(0), CUDA_SUCCESS);
	need_is(CU(cuCtxCreate_v2)(&ctx, 0, device), CUDA_SUCCESS);
	return ctx;
}

/* A kernel that takes exactly `ns`. */
static inline CUfunction child_kernel(unsigned long ns)
{
	CUmodule mod = NULL;
	CUfunction fn = NULL;
	char ptx[200];

	snprintf(ptx, sizeof(ptx), "// ringfence-sim: kernel=work ns=%lu\n.version 7.0\n", ns);
	need_is(CU(cuModuleLoadData)(&mod, ptx), CUDA_SUCCESS);
	need_is(CU(cuModuleGetFunction)(&fn, mod, "work"), CUDA_SUCCESS);
	return fn;
}

static inline void child_launch(CUfunction fn, int times)
{
	__typeof__(&cuLaunchKernel) launch = CU(cuLaunchKernel);

	for (int i = 0; i < times; i++)
		need_is(launch(fn, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), CUDA_SUCCESS);
}

#endif
