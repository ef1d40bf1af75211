/* sim: a machine with simulated GPUs. This header is for whoever makes such a machine and breaks it
 * on purpose (the command line, tests); programs that use the cards load libcuda.so.1 and
 * libnvidia-ml.so.1 from the build's src/sim folder with RINGFENCE_SIM naming the machine's folder.
 *
 * A card is named by its number N, that of its file `nvidia<N>`. Card files that were opened stay
 * open until the process ends: closing one would drop the liveness locks that a CUDA context in the
 * same process holds on it. */
#ifndef RF_SIM_H
#define RF_SIM_H

#include <sys/types.h>

#include "base/base.h"
#include "gpu/models.h"

#define RF_SIM_CARDS_MAX 64

struct rf_sim_spec {
	size_t n;
	const struct rf_gpu_model *cards[RF_SIM_CARDS_MAX];
	bool mig[RF_SIM_CARDS_MAX]; /* in MIG mode from the start */
};

/* "2xH200", "1xA100,1xT4", "H100", "1xH100:mig" for one in MIG mode. Models: A100, H100, H200, B200, L40S, T4. */
int rf_sim_spec_parse(struct rf_str text, struct rf_sim_spec *ret_spec, struct rf_err *err);

struct rf_sim_options {
	bool virtual_time;  /* waiting jumps the card's clock instead of sleeping */
	const char *driver; /* NULL: "580.159.04" */
	int cuda_version;   /* 0: 13000 */
	int context_mib;    /* what a context costs; 0: as the model says, -1: nothing */
	/* How much of the card is lost, in thousandths, while several contexts take turns. */
	unsigned switch_milli;
};

/* Makes the folder (its parent must exist) and one file per card. RF_EXISTS if the folder already
 * holds a machine. opt may be NULL. */
int rf_sim_machine_create(const char *dir, struct rf_str spec, const struct rf_sim_options *opt,
			  struct rf_err *err);
/* Removes the machine's files and, if then empty, the folder. */
int rf_sim_machine_remove(const char *dir, struct rf_err *err);

struct rf_sim_card_info {
	unsigned card; /* N */
	const struct rf_gpu_model *model;
	char uuid[48];
	char pci[16]; /* "0000:1B:00.0" */
	char driver[32];
	bool virtual_time;
	uint64_t clock_ns;
	uint64_t memory_total, memory_used; /* as CUDA sees them */
	unsigned processes;
	unsigned utilisation; /* per cent, last second */
	bool mig;
	unsigned gpu_instances;
	bool hung, off_bus;
	unsigned last_xid; /* 0: none */
	uint64_t ecc_corrected, ecc_uncorrected;
};

/* Up to `max` cards in order; *ret_n is how many there are. */
int rf_sim_machine_cards(const char *dir, struct rf_sim_card_info *cards, size_t max, size_t *ret_n,
			 struct rf_err *err);
/* The same as a small table for people. */
int rf_sim_machine_describe(const char *dir, struct rf_buf *out, struct rf_err *err);

/* The XID is told to every process that registered for events. XIDs that end contexts in reality
 * (13, 31, 43, 45, 46, 48, 62, 69, 74, 79, 94, 95, 109, 119, 120, 140) put every context on the
 * card into a sticky error; 79 also takes the card off the bus. */
int rf_sim_inject_xid(const char *dir, unsigned card, unsigned xid, struct rf_err *err);
/* As above, but only the contexts of one process (its pid as the caller sees it) are hit. */
int rf_sim_inject_xid_at(const char *dir, unsigned card, unsigned xid, pid_t pid,
			 struct rf_err *err);
/* Uncorrectable errors are told as double-bit errors and as XID 48, and end all contexts. */
int rf_sim_inject_ecc(const char *dir, unsigned card, bool correctable, unsigned count,
		      struct rf_err *err);
/* While on, work on the card never completes. */
int rf_sim_hang(const char *dir, unsigned card, bool on, struct rf_err *err);
/* XID 79: NVML says the GPU is lost, CUDA that the device is unavailable, until cleared. */
int rf_sim_off_bus(const char *dir, unsigned card, struct rf_err *err);
/* The card as after a reset: no fault, error counters at zero. Contexts that were hit stay hit. */
int rf_sim_clear(const char *dir, unsigned card, struct rf_err *err);
/* How NVML fails those who ask it about processes. */
enum rf_sim_nvml {
	RF_SIM_NVML_WELL,
	RF_SIM_NVML_STALE, /* the utilisation of processes stays what it was, time stamp and all */
	RF_SIM_NVML_EMPTY, /* there seem to be no processes */
	RF_SIM_NVML_NOT_FOUND,	/* no samples of utilisation */
	RF_SIM_NVML_IMPOSSIBLE, /* every process uses 101 % */
	RF_SIM_NVML_DEAD,	/* every question about the card: NVML_ERROR_UNKNOWN */
};
int rf_sim_nvml(const char *dir, unsigned card, enum rf_sim_nvml how, struct rf_err *err);
/* Moves the clock of a machine with virtual time. */
int rf_sim_advance(const char *dir, unsigned card, uint64_t ns, struct rf_err *err);

#endif
