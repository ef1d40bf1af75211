/* launch: `ringfence fence`, a fence around one program with no platform and without root. libc, base and
 * gpu only.
 *
 * The launcher stays the program's ancestor (daemons too: it is their subreaper), listens under its own
 * pid where libringfence.so looks for it (dial.h), and ends when the program and all it left behind have
 * ended. It loads no driver: what it must know of the cards a
 * short-lived child finds out. */
#ifndef RF_FENCE_LAUNCH_H
#define RF_FENCE_LAUNCH_H

#include "fence/server.h"
#include "gpu/gpu.h"

/* What was asked for, as written; NULL: not said. */
struct rf_launch_opts {
	const char *memory;  /* of each card: "20Gi" */
	const char *compute; /* per cent of each card's time */
	const char *cards;   /* "0", "0,1", "GPU-...", "all"; NULL: "0" */
	const char *name;
	int64_t priority;
	bool burst;
	bool mps;
};

/* The exit status: the program's own, 128 + n if signal n ended it, 126 or 127 if it could not be run. A
 * negative code if there was no fence to be had: nothing was run. */
int rf_launch(const struct rf_launch_opts *o, char **argv, struct rf_err *err);

/* All fences of this machine that the caller may see, as a table or as JSON. */
int rf_launch_stats(bool json, struct rf_err *err);

/* Runs nothing but the arbiter, until a signal ends it. */
int rf_launch_arbiter(struct rf_err *err);

/* --- folder.c: where launchers listen (dial.h) -------------------------------------------------- */

struct rf_folder {
	unsigned which;
	int fd; /* the owner's to close */
};

/* Root's folder for root, else the user's own; makes it. */
int rf_folder_open(struct rf_folder *ret, struct rf_err *err);
/* Root's sockets are open to all: who may come is for the listener to say. */
int rf_folder_listen(const struct rf_folder *f, const char *name, int backlog, int *ret_fd,
		     struct rf_err *err);
void rf_folder_remove(const struct rf_folder *f, const char *name);
/* Removes what launchers that were killed have left. */
void rf_folder_sweep(const struct rf_folder *f);
/* Another user's arbiter listens on this machine. */
bool rf_folder_others(uid_t *ret);

/* --- machine.c: what the driver says ----------------------------------------------------------- */

struct rf_machine {
	size_t n;
	struct rf_gpu_card cards[RF_GPU_CARDS_MAX];
	char driver[96];
};

int rf_machine_ask(struct rf_machine *ret, struct rf_err *err);
/* What a context takes of the card for itself; 0: not known. Measured once per card and driver. */
uint64_t rf_machine_context_bytes(const struct rf_machine *m, const struct rf_gpu_card *card,
				  bool mps);

/* --- terms.c: from words to limits ------------------------------------------------------------- */

/* What can be said of the words before the machine is known. Of figures rf_terms_read says the same. */
int rf_terms_check(const struct rf_launch_opts *o, struct rf_err *err);
int rf_terms_read(const struct rf_launch_opts *o, const struct rf_machine *m,
		  struct rf_fence_limits *ret, struct rf_err *err);
/* The cap holds at least a context, if it is known what one takes (l->context_bytes). */
int rf_terms_check_context(const struct rf_launch_opts *o, const struct rf_gpu_card *c,
			   const struct rf_fence_limit *l, struct rf_err *err);
/* visible: CUDA_VISIBLE_DEVICES as the caller has it. It must not name a card outside of the fence. */
int rf_terms_check_visible(const char *visible, const struct rf_machine *m,
			   const struct rf_fence_limits *limits, struct rf_err *err);

/* --- registry.c: one arbiter for all launchers of the machine ------------------------------------ */

struct rf_registry;

/* Registers with root's arbiter if there is one, else with the user's own: whoever is first runs it, and
 * when it goes the others elect again. ledger_fd stays the caller's and open as long as the registry.
 * Waits for a first gate. Without limits and ledger (NULL, -1): runs the arbiter only, now or when
 * whoever runs it is gone. */
int rf_registry_open(const struct rf_fence_limits *limits, int ledger_fd, struct rf_registry **ret,
		     struct rf_err *err);
void rf_registry_close(struct rf_registry *r); /* NULL is allowed */
/* Readable when there is something to do; then call turn, which never blocks. */
int rf_registry_fd(const struct rf_registry *r);
void rf_registry_turn(struct rf_registry *r);
/* True once after every change: gate and desk are then the caller's, -1 if there are none just now. */
bool rf_registry_changed(struct rf_registry *r, int *ret_gate, int *ret_desk);
/* Thousandths of the card's time that all fences on it were promised, when this one came. */
uint32_t rf_registry_promised(const struct rf_registry *r, size_t card);
/* Lets go of the arbiter before the launcher is stopped, so that others elect another. */
void rf_registry_pause(struct rf_registry *r);
void rf_registry_resume(struct rf_registry *r);

/* --- report.c: what `fence stats` gets ---------------------------------------------------------- */

#define RF_REPORT_NAME 64

struct rf_report {
	char name[RF_REPORT_NAME];
	struct rf_fence_limits limits;
	int index[RF_FENCE_CARDS]; /* what people call the cards */
	struct rf_fence_server *server;
};

/* Answers some of those who wait at a socket beside the fence's own, if they are of the same user or
 * root. Never blocks. */
void rf_report_answer(int listen_fd, const struct rf_report *r);

#endif
