/* The containers' cgroups: /ringfence/<instance>/<pod uid>/<container>, in every v1 hierarchy or in
 * the v2 tree. The instance keeps two platforms on one machine apart: each touches its own only. */
#ifndef RF_NODE_CGROUP_H
#define RF_NODE_CGROUP_H

#include <sys/types.h>

#include "base/base.h"

#define RF_CGROUP_TOP "/ringfence"

/* Sixteen hex digits that stay the same for the same data folder. */
struct rf_str rf_cgroup_instance(struct rf_arena *a, struct rf_str data_dir);
/* "/ringfence/<instance>/<uid>/<container>"; uid and container may be empty. */
struct rf_str rf_cgroup_path(struct rf_arena *a, struct rf_str instance, struct rf_str uid,
			     struct rf_str container);

/* What /proc/<pid>/cgroup says: false unless the process is in a container of this instance. The
 * results point into text. */
bool rf_cgroup_parse(struct rf_str text, struct rf_str instance, struct rf_str *ret_uid,
		     struct rf_str *ret_container);
bool rf_cgroup_of_pid(struct rf_arena *a, pid_t pid, struct rf_str instance, struct rf_str *ret_uid,
		      struct rf_str *ret_container);

/* Folders of all mounted hierarchies, read from mountinfo text. */
struct rf_cgroup_mounts {
	struct rf_str dirs[24];
	bool v2[24];
	size_t n;
};
void rf_cgroup_mounts_parse(struct rf_arena *a, struct rf_str mountinfo,
			    struct rf_cgroup_mounts *ret);
void rf_cgroup_mounts_read(struct rf_arena *a, struct rf_cgroup_mounts *ret);
/* True if a v2 tree is mounted beside v1 hierarchies and holds controllers: crun refuses that. */
bool rf_cgroup_is_awkward(struct rf_arena *a, const struct rf_cgroup_mounts *m,
			  struct rf_str *ret_dir);

/* Processes below a cgroup path, itself included. */
size_t rf_cgroup_count(struct rf_arena *a, struct rf_str path);
/* SIGKILL to all of them; returns how many there were. */
size_t rf_cgroup_kill(struct rf_arena *a, struct rf_str path);
/* Removes the path and what is below it from every hierarchy; false while something remains. */
bool rf_cgroup_remove(struct rf_arena *a, struct rf_str path);
/* How often the kernel killed a process here for want of memory. */
int64_t rf_cgroup_oom_kills(struct rf_arena *a, struct rf_str path);
/* Memory in use by the cgroup, bytes; -1 if it is not known. */
int64_t rf_cgroup_memory(struct rf_arena *a, struct rf_str path);
/* Bounds what a cgroup and all below it may use together; makes it first. Best effort: where the
 * kernel does not let it be set, each container's own limit is all there is. */
void rf_cgroup_bound(struct rf_str path, int64_t memory, int64_t pids);
/* All pods of the instance together, so that the machine keeps some for itself. */
void rf_cgroup_keep_for_machine(struct rf_str instance);
/* For a container that names no limit: an eighth of the machine, so that one alone cannot make the
 * kernel choose its victims among the neighbours. */
int64_t rf_cgroup_default_memory(void);
/* Processes and threads of one pod: few enough that one pod cannot use up the machine's numbers. */
int64_t rf_cgroup_pids_per_pod(void);
/* Uids of the pods that have a cgroup in this instance. */
size_t rf_cgroup_pods(struct rf_arena *a, struct rf_str instance, struct rf_str **ret_uids);

#endif
