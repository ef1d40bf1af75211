/* MPS: one control daemon per card and trust domain, while somebody shares the card by it. For both agents.
 *
 * Each daemon has a tmpfs of its own, DATA/mps/<card>: `pipe` and `log` are the daemon's; `client` is what containers
 * get, read-only, and holds the one socket that programs need. The socket for commands, the pid file, the lock and
 * the pipe of the log stay outside; a log that a tenant makes grow ends where the tmpfs does.
 *
 * Who is on a card by MPS is written down (DATA/mps/gpu-<card>.json) before a daemon is started for it. Daemons
 * outlive the agent; the next one takes them over, or ends what nobody needs. */
#ifndef RF_NODE_MPS_H
#define RF_NODE_MPS_H

#include "gpu/gpu.h"
#include "observe/metrics.h"

#define RF_MPS_PROGRAM "nvidia-cuda-mps-control"
#define RF_MPS_DIED "MPSDaemonDied" /* the reason why a container ended */

struct rf_mps_opts {
	const char *dir;     /* DATA/mps, absolute */
	const char *program; /* the control daemon; NULL: /usr/bin and the like are looked through */
	bool on_host;	     /* the agent is in a container: daemons are started in the machine's namespaces */
	const struct rf_clock *clock; /* NULL: the system's */
};

struct rf_mps;

/* Takes over what the last agent left. */
struct rf_mps *rf_mps_open(const struct rf_mps_opts *o);
/* Daemons run on. NULL is allowed. */
void rf_mps_close(struct rf_mps *m);

/* RF_UNAVAILABLE, with what to do, if the machine has no control daemon. */
int rf_mps_check_program(const struct rf_mps *m, struct rf_err *err);

/* The owner (a pod's uid) shares the card by MPS from now on, until it leaves; written down, and the daemon up. Can
 * be repeated. RF_UNAVAILABLE while there is no daemon, with the reason; also if the daemon there is another trust
 * domain's: a card never has clients of two. */
int rf_mps_join(struct rf_mps *m, const struct rf_gpu_card *card, struct rf_str domain, struct rf_str owner,
		struct rf_err *err);
/* Did it join? */
bool rf_mps_has(const struct rf_mps *m, int index, struct rf_str owner);
/* Of the card's daemon: the folder that containers get. */
const char *rf_mps_client_dir(struct rf_arena *a, const struct rf_mps *m, int index);
/* When no process of the owner is left. The last one to leave a card ends its daemon: RF_UNAVAILABLE while a process
 * of that is there. */
int rf_mps_leave(struct rf_mps *m, struct rf_str owner, struct rf_err *err);
/* The daemon ended by itself under the owner: its programs cannot go on, and it joins no other before they were ended
 * and that was said (rf_mps_mourned). Also if it was another agent that noticed. */
bool rf_mps_lost(const struct rf_mps *m, struct rf_str owner, int *ret_index);
bool rf_mps_lost_on(const struct rf_mps *m, int index, struct rf_str owner);
void rf_mps_mourned(struct rf_mps *m, int index, struct rf_str owner);
/* The same as it is now, whoever has noticed: for who ended by itself, perhaps for that reason. */
bool rf_mps_is_dead_under(const struct rf_mps *m, struct rf_str owner, int *ret_index);
/* The owner is a client of the card's daemon and did not join, as what was written down is lost: as if the daemon had
 * ended under it. Nothing happens while another one ends; then call it again. */
void rf_mps_miss(struct rf_mps *m, const struct rf_gpu_card *card, struct rf_str domain, struct rf_str owner);
/* Is the card's daemon up, and its socket where containers look? */
bool rf_mps_is_up(const struct rf_mps *m, int index);
/* Lets those leave that are not wanted any more. Call it now and then. */
void rf_mps_sweep(struct rf_mps *m, bool (*wanted)(void *ctx, struct rf_str owner), void *ctx);
/* Once a second: notices deaths, starts again what died, ends what is not needed. */
void rf_mps_tick(struct rf_mps *m);

/* A control daemon of ours, or the server that it started. */
bool rf_mps_is_ours(const struct rf_mps *m, pid_t pid);

void rf_mps_metrics(struct rf_metrics *page, const struct rf_mps *m, struct rf_str node);

/* --- starting programs that outlive the agent (mps_run.c) --------------------------------------- */

#define RF_MPS_HOST_CGROUP "/sys/fs/cgroup/ringfence-mps" /* where on_host puts them, if that is a v2 tree */

struct rf_mps_run {
	const char *const *argv, *const *env;
	const char *output; /* file for what it says; made, appended to */
	const char *input;  /* what it reads, short; NULL: nothing */
	pid_t beside;	    /* in the mount and cgroup namespaces of this process; 0: in ours */
};
/* It is nobody's child afterwards. */
int rf_mps_run(const struct rf_mps_run *r, pid_t *ret_pid, struct rf_err *err);
/* When the process was started, in the kernel's ticks; 0: there is no such process, or it has ended. */
uint64_t rf_mps_started(pid_t pid);
/* Of processes in our own pid namespace: does its environment say name=value (prefix: or begin so)? What runs in a
 * container has another namespace and cannot pose as ours. */
bool rf_mps_env_has(pid_t pid, const char *text, bool prefix);

/* Processes that were found once. A process that is ending loses its environment before it lets go of the card. */
struct rf_mps_process {
	pid_t pid;
	uint64_t start;
};
struct rf_mps_seen {
	RF_VEC(struct rf_mps_process) list;
};
/* The signal (0: none) to all processes with exactly this in their environment; returns how many there were, and
 * adds them to seen unless that is NULL. */
size_t rf_mps_kill_all(const char *text, int signal, struct rf_mps_seen *seen);
/* How many of them are still there; forgets the others. */
size_t rf_mps_seen_left(struct rf_mps_seen *seen);

#endif
