/* What the driver says, asked in children: neither NVML nor CUDA can be unloaded again, and a driver that
 * hangs must not hang the launcher. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "fence/launch/launch.h"
#include "gpu/context.h"

/* --- the cards --- */

struct answer {
	struct rf_err err;
	struct rf_machine machine;
};

static void read_machine(const void *arg, void *ret)
{
	struct answer *a = ret;
	struct rf_gpu *g = NULL;

	if (rf_gpu_open(NULL, &g, &a->err) < 0)
		return;
	a->machine.n = rf_gpu_count(g);
	for (size_t i = 0; i < a->machine.n; i++)
		a->machine.cards[i] = *rf_gpu_card(g, i);
	snprintf(a->machine.driver, sizeof(a->machine.driver), "%s", rf_gpu_driver_version(g));
}

int rf_machine_ask(struct rf_machine *ret, struct rf_err *err)
{
	rf_auto_free char *page = rf_alloc(sizeof(struct answer));
	struct answer *a = (struct answer *)page;

	if (!rf_gpu_in_child(read_machine, NULL, a, sizeof(*a)))
		return rf_fail(err, RF_UNAVAILABLE,
			       "the NVIDIA driver does not answer; does nvidia-smi work?");
	if (a->err.code != RF_OK)
		return rf_fail(err, (enum rf_code)a->err.code, "%s", a->err.msg);
	if (a->machine.n == 0)
		return rf_fail(err, RF_UNAVAILABLE, "this machine has no NVIDIA card");
	*ret = a->machine;
	return 0;
}

/* --- what a context takes, remembered in a folder of the user's own --- */

static int open_cache(void)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	char path[512];
	struct stat st;
	int fd;

	if (runtime != NULL && runtime[0] == '/')
		snprintf(path, sizeof(path), "%.480s/ringfence", runtime);
	else
		snprintf(path, sizeof(path), "/tmp/ringfence-%u", (unsigned)geteuid());
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return -1;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid() && (st.st_mode & 077) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1; /* somebody else's: do without */
}

uint64_t rf_machine_context_bytes(const struct rf_machine *m, const struct rf_gpu_card *card,
				  bool mps)
{
	rf_auto_close int dir = open_cache();
	int64_t bytes = dir >= 0 ? rf_gpu_context_recall(dir, card, m->driver, mps) : 0;

	if (bytes > 0)
		return (uint64_t)bytes;
	bytes = rf_gpu_context_measure(NULL, card);
	if (bytes > 0 && dir >= 0)
		rf_gpu_context_remember(dir, card, m->driver, mps, bytes);
	return (uint64_t)bytes;
}
