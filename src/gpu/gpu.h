/* gpu: the machine's cards, read through NVML. The library is loaded by name at run time; a machine
 * without it, or a driver without one of its calls, is an ordinary answer, never a crash. */
#ifndef RF_GPU_H
#define RF_GPU_H

#include <sys/types.h>

#include "base/base.h"

#define RF_GPU_CARDS_MAX 32

struct rf_gpu;

/* What stays the same while a card is there. */
struct rf_gpu_card {
	/* What the card is called by, gpu-<index>: its minor number. NVML's own order closes the gap
	 * when a card is taken out, and a claim would then mean another card than it was made for. */
	int index;
	int minor;     /* /dev/nvidia<minor> */
	char uuid[64]; /* "GPU-..." */
	char name[96]; /* "NVIDIA H200" */
	char pci[32];  /* "00000000:3B:00.0" */
	int64_t memory_bytes;
	char pcie_root[16]; /* "pci0000:3a"; empty: not known */
	/* Cards with the same are joined by NVLink, each to at least one of the others; nobody else's number: to none.
	 * -1: not known. Read again when a card's MIG mode changes, as in that mode a card is joined to none. */
	int island;
	int numa; /* memory node it is near to; -1: not known */
};

/* What changes. -1: the card or the driver does not say. */
struct rf_gpu_sample {
	int64_t memory_total, memory_used;
	int64_t utilisation; /* per cent of time with a kernel running */
	int64_t temperature; /* degrees Celsius */
	int64_t power_mw;
	int64_t energy_mj;			/* since the driver was loaded */
	int64_t ecc_corrected, ecc_uncorrected; /* since the driver was loaded */
	int64_t recovery_action;		/* the driver's own advice; 0: none needed */
	int64_t mig;				/* 1: the card is in MIG mode */
	bool lost;				/* the card does not answer any more */
};

struct rf_gpu_process {
	pid_t pid;     /* the host's number */
	int64_t bytes; /* -1: not known */
};

/* lib_dir: a folder with libnvidia-ml.so.1, or NULL for the system's. RF_UNAVAILABLE without
 * library or driver: the machine then has no cards, and err says why. */
int rf_gpu_open(const char *lib_dir, struct rf_gpu **ret, struct rf_err *err);
void rf_gpu_free(struct rf_gpu *g); /* NULL is fine */

/* "00000000:3B:00.0", as NVML has it, is "0000:3b:00.0" everywhere else. */
#define RF_GPU_PCI_ADDRESS 16
bool rf_gpu_pci_address(const char *pci, char ret[RF_GPU_PCI_ADDRESS]);

size_t rf_gpu_count(const struct rf_gpu *g);
const struct rf_gpu_card *rf_gpu_card(const struct rf_gpu *g, size_t i);
const char *rf_gpu_driver_version(const struct rf_gpu *g);

void rf_gpu_sample(struct rf_gpu *g, size_t i, struct rf_gpu_sample *ret);
/* Compute and graphics processes and clients of MPS, each pid once. RF_UNAVAILABLE if the card is lost: then nobody
 * knows who is on it. */
int rf_gpu_processes(struct rf_gpu *g, size_t i, struct rf_arena *a, struct rf_gpu_process **ret,
		     size_t *ret_n, struct rf_err *err);

/* One pending event without waiting: true and what it says, false if there is none. */
struct rf_gpu_event {
	size_t card; /* position, as for rf_gpu_card */
	int64_t xid;
};
bool rf_gpu_next_event(struct rf_gpu *g, struct rf_gpu_event *ret);

/* What an XID means for the card, after NVIDIA's public catalogue. */
enum rf_xid_kind {
	RF_XID_APPLICATION, /* the program's own fault, or harmless: the card stays in service */
	RF_XID_RESET,	    /* the card needs a reset */
	RF_XID_REBOOT,	    /* the machine needs a restart: the card fell off the bus */
	RF_XID_SUPPORT,	    /* not known, or the maker must look */
};
enum rf_xid_kind rf_gpu_xid_kind(int64_t xid);
static inline bool rf_gpu_xid_is_fatal(int64_t xid)
{
	return rf_gpu_xid_kind(xid) != RF_XID_APPLICATION;
}

#endif
