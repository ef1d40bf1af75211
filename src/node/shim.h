/* What the shim and the agent agree on: files in a container's folder.
 *
 *	config.json rootfs/      the OCI bundle
 *	began                    the last attempt that a shim took up
 *	shim.lock                a write lock (fcntl) held by the shim as long as it lives
 *	pid                      the container's first process, in the host's numbers
 *	log log.1                CRI format
 *	runtime.log              what crun complained about
 *	exit.<attempt>.json      written once, when the container is gone and its cgroup removed */
#ifndef RF_NODE_SHIM_H
#define RF_NODE_SHIM_H

#include <sys/types.h>

#include "base/base.h"

struct rf_exit {
	int code;   /* as a shell tells it: 128 + signal if it was killed */
	int signal; /* 0: it exited by itself */
	bool oom;
	bool start_failed; /* it could not be started; message says why */
	bool never_ran;	   /* the agent gave up before a shim began; starting anew is safe */
	int64_t started_ms, finished_ms;
	struct rf_str message;
};
int rf_exit_read(struct rf_arena *a, const char *dir, int attempt, struct rf_exit *ret,
		 struct rf_err *err);
int rf_exit_write(const char *dir, int attempt, const struct rf_exit *e, struct rf_err *err);

/* A shim says so before it does anything for an attempt. */
int rf_shim_mark_begun(const char *dir, int attempt, struct rf_err *err);

/* The shim that holds dir's lock, 0 if none does. */
pid_t rf_shim_holder(const char *dir);

/* Ends an attempt whose shim is dead or never came: writes e (with never_ran set) as its exit
 * unless a shim holds the lock (RF_CONFLICT) or one was written already. A shim that comes too
 * late then starts nothing. */
int rf_shim_give_up(const char *dir, int attempt, const struct rf_exit *e, struct rf_err *err);

/* Enters a mount namespace of its own and takes a v2 cgroup tree with controllers out of a hybrid
 * layout there, since crun refuses such a layout. Elsewhere it does nothing. */
int rf_shim_enter_view(struct rf_err *err);

/* Makes everything that the bundle binds read-only read-only for the runtime too, with all that is
 * mounted below. The runtime makes missing mount points and working folders as root before it
 * remounts anything: without this, a pod's mountPath "/etc/x" makes a folder on the machine. */
int rf_shim_protect(const char *bundle, const char *root, struct rf_err *err);

#endif
