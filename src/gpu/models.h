/* Card models: pure data, from the vendor's data sheets and from listings of real machines.
 * The running driver has the last word about a real card; this table is for what must be known
 * without one: planning, and the simulated driver. libc only. */
#ifndef RF_GPU_MODELS_H
#define RF_GPU_MODELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RF_MIG_STARTS_MAX 8
#define RF_MIG_MEMORY_SLICES 8  /* a placement is a range of these */
#define RF_MIG_COMPUTE_SLICES 7 /* what profiles' `slices` add up to at most */

struct rf_mig_profile {
	const char *name;       /* "1g.18gb", "1g.18gb+me" */
	unsigned nvml_profile;  /* what NVML's profile calls take: NVML_GPU_INSTANCE_PROFILE_* */
	unsigned nvml_id;       /* the driver's number: 19 for 1g, 0 for 7g ... */
	unsigned slices;        /* compute slices, of 7 */
	unsigned memory_slices; /* of 8: the size of every placement */
	unsigned max;           /* instances of this profile on one card */
	unsigned sms;
	unsigned memory_mib;
	unsigned copy_engines;
	unsigned decoders;
	unsigned jpegs;
	unsigned ofas;
	unsigned n_starts;
	unsigned char starts[RF_MIG_STARTS_MAX]; /* first memory slice of each placement */
};

struct rf_gpu_model {
	const char *key;     /* "H200": what users write */
	const char *product; /* "NVIDIA H200": what the driver says */
	const char *arch;    /* "hopper" */
	unsigned nvml_arch;  /* NVML_DEVICE_ARCH_* */
	unsigned cc_major, cc_minor;
	unsigned memory_mib;   /* NVML's total */
	unsigned reserved_mib; /* the driver's own part of it */
	unsigned context_mib;  /* what one CUDA context costs */
	unsigned sms;
	unsigned cores_per_sm;
	unsigned threads_per_sm;
	unsigned power_w;      /* default limit */
	unsigned idle_w;
	unsigned sm_mhz;       /* highest clocks */
	unsigned memory_mhz;
	unsigned memory_gbps;  /* bandwidth, 10^9 bytes a second */
	unsigned pcie_gbps;    /* what one direction of host copies reaches */
	unsigned bus_bits;
	unsigned l2_mib;
	unsigned pci_device;   /* device id, the vendor's being 0x10de */
	bool nvlink;           /* cards of this model in one machine are joined */
	const struct rf_mig_profile *mig; /* NULL: the card has no MIG */
	size_t n_mig;
};

/* By key, letters without case; NULL if unknown. */
const struct rf_gpu_model *rf_gpu_model_by_key(const char *key);
/* By the driver's product name, exact; NULL if unknown. */
const struct rf_gpu_model *rf_gpu_model_by_product(const char *product);
/* The one name under which a model is counted, however it is written: "h200" for "H200" and for "NVIDIA H200", and
 * "acme-9000" for "ACME 9000", of which nothing is known (NULL). At most 63 characters of it. */
const struct rf_gpu_model *rf_gpu_model_named(const char *written, size_t n, char ret_name[64]);
/* In order, NULL past the end. */
const struct rf_gpu_model *rf_gpu_model_at(size_t i);
/* By profile name ("3g.71gb"); NULL if the model has none of that name. */
const struct rf_mig_profile *rf_gpu_model_mig(const struct rf_gpu_model *m, const char *name);

#endif
