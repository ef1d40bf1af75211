#include "gpu/models.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "gpu/nvml_abi.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Every MIG card so far has the same geometry; only names, memory and SM counts differ. */
#define STARTS_1 7, { 0, 1, 2, 3, 4, 5, 6 }
#define STARTS_1_DOUBLE 4, { 0, 2, 4, 6 }
#define STARTS_2 3, { 0, 2, 4 }
#define STARTS_3 2, { 0, 4 }
#define STARTS_4 1, { 0 }
#define STARTS_7 1, { 0 }
#define P_1G NVML_GPU_INSTANCE_PROFILE_1_SLICE, 19, 1, 1, 7
#define P_1G_ME NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV1, 20, 1, 1, 1
#define P_1G_DOUBLE NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV2, 15, 1, 2, 4
#define P_2G NVML_GPU_INSTANCE_PROFILE_2_SLICE, 14, 2, 2, 3
#define P_3G NVML_GPU_INSTANCE_PROFILE_3_SLICE, 9, 3, 4, 2
#define P_4G NVML_GPU_INSTANCE_PROFILE_4_SLICE, 5, 4, 4, 1
#define P_7G NVML_GPU_INSTANCE_PROFILE_7_SLICE, 0, 7, 8, 1

/* Columns after the geometry: SMs, MiB, copy engines, decoders, JPEG, OFA. */
static const struct rf_mig_profile mig_a100[] = {
	{ "1g.10gb", P_1G, 14, 9728, 1, 0, 0, 0, STARTS_1 },
	{ "1g.10gb+me", P_1G_ME, 14, 9728, 1, 1, 1, 1, STARTS_1 },
	{ "1g.20gb", P_1G_DOUBLE, 14, 19968, 1, 1, 0, 0, STARTS_1_DOUBLE },
	{ "2g.20gb", P_2G, 28, 19968, 2, 1, 0, 0, STARTS_2 },
	{ "3g.40gb", P_3G, 42, 40192, 3, 2, 0, 0, STARTS_3 },
	{ "4g.40gb", P_4G, 56, 40192, 4, 2, 0, 0, STARTS_4 },
	{ "7g.80gb", P_7G, 98, 80896, 7, 5, 1, 1, STARTS_7 },
};

static const struct rf_mig_profile mig_h100[] = {
	{ "1g.10gb", P_1G, 16, 9984, 1, 1, 1, 0, STARTS_1 },
	{ "1g.10gb+me", P_1G_ME, 16, 9984, 1, 1, 1, 1, STARTS_1 },
	{ "1g.20gb", P_1G_DOUBLE, 26, 20096, 1, 1, 1, 0, STARTS_1_DOUBLE },
	{ "2g.20gb", P_2G, 32, 20096, 2, 2, 2, 0, STARTS_2 },
	{ "3g.40gb", P_3G, 60, 40448, 3, 3, 3, 0, STARTS_3 },
	{ "4g.40gb", P_4G, 64, 40448, 4, 4, 4, 0, STARTS_4 },
	{ "7g.80gb", P_7G, 132, 81152, 8, 7, 7, 1, STARTS_7 },
};

static const struct rf_mig_profile mig_h200[] = {
	{ "1g.18gb", P_1G, 16, 16384, 1, 1, 1, 0, STARTS_1 },
	{ "1g.18gb+me", P_1G_ME, 16, 16384, 1, 1, 1, 1, STARTS_1 },
	{ "1g.35gb", P_1G_DOUBLE, 26, 33280, 1, 1, 1, 0, STARTS_1_DOUBLE },
	{ "2g.35gb", P_2G, 32, 33280, 2, 2, 2, 0, STARTS_2 },
	{ "3g.71gb", P_3G, 60, 71424, 3, 3, 3, 0, STARTS_3 },
	{ "4g.71gb", P_4G, 64, 71424, 4, 4, 4, 0, STARTS_4 },
	{ "7g.141gb", P_7G, 132, 142848, 8, 7, 7, 1, STARTS_7 },
};

static const struct rf_mig_profile mig_b200[] = {
	{ "1g.23gb", P_1G, 18, 22016, 2, 1, 1, 0, STARTS_1 },
	{ "1g.23gb+me", P_1G_ME, 18, 22016, 2, 1, 1, 1, STARTS_1 },
	{ "1g.45gb", P_1G_DOUBLE, 30, 45056, 2, 1, 1, 0, STARTS_1_DOUBLE },
	{ "2g.45gb", P_2G, 36, 45056, 3, 1, 1, 0, STARTS_2 },
	{ "3g.90gb", P_3G, 70, 91136, 6, 1, 1, 0, STARTS_3 },
	{ "4g.90gb", P_4G, 74, 91136, 8, 1, 1, 0, STARTS_4 },
	{ "7g.180gb", P_7G, 148, 182272, 16, 1, 1, 1, STARTS_7 },
};

static const struct rf_gpu_model models[] = {
	{ .key = "A100", .product = "NVIDIA A100-SXM4-80GB", .arch = "ampere",
	  .nvml_arch = NVML_DEVICE_ARCH_AMPERE, .cc_major = 8, .cc_minor = 0,
	  .memory_mib = 81920, .reserved_mib = 767, .context_mib = 418,
	  .sms = 108, .cores_per_sm = 64, .threads_per_sm = 2048,
	  .power_w = 400, .idle_w = 62, .sm_mhz = 1410, .memory_mhz = 1593,
	  .memory_gbps = 2039, .pcie_gbps = 25, .bus_bits = 5120, .l2_mib = 40,
	  .pci_device = 0x20b2, .nvlink = true, .mig = mig_a100, .n_mig = COUNT(mig_a100) },
	{ .key = "H100", .product = "NVIDIA H100 80GB HBM3", .arch = "hopper",
	  .nvml_arch = NVML_DEVICE_ARCH_HOPPER, .cc_major = 9, .cc_minor = 0,
	  .memory_mib = 81559, .reserved_mib = 551, .context_mib = 518,
	  .sms = 132, .cores_per_sm = 128, .threads_per_sm = 2048,
	  .power_w = 700, .idle_w = 70, .sm_mhz = 1980, .memory_mhz = 2619,
	  .memory_gbps = 3350, .pcie_gbps = 55, .bus_bits = 5120, .l2_mib = 50,
	  .pci_device = 0x2330, .nvlink = true, .mig = mig_h100, .n_mig = COUNT(mig_h100) },
	{ .key = "H200", .product = "NVIDIA H200", .arch = "hopper",
	  .nvml_arch = NVML_DEVICE_ARCH_HOPPER, .cc_major = 9, .cc_minor = 0,
	  .memory_mib = 143771, .reserved_mib = 615, .context_mib = 524,
	  .sms = 132, .cores_per_sm = 128, .threads_per_sm = 2048,
	  .power_w = 700, .idle_w = 76, .sm_mhz = 1980, .memory_mhz = 3201,
	  .memory_gbps = 4800, .pcie_gbps = 55, .bus_bits = 6144, .l2_mib = 60,
	  .pci_device = 0x2335, .nvlink = true, .mig = mig_h200, .n_mig = COUNT(mig_h200) },
	{ .key = "B200", .product = "NVIDIA B200", .arch = "blackwell",
	  .nvml_arch = NVML_DEVICE_ARCH_BLACKWELL, .cc_major = 10, .cc_minor = 0,
	  .memory_mib = 183359, .reserved_mib = 723, .context_mib = 560,
	  .sms = 148, .cores_per_sm = 128, .threads_per_sm = 2048,
	  .power_w = 1000, .idle_w = 140, .sm_mhz = 1965, .memory_mhz = 3996,
	  .memory_gbps = 8000, .pcie_gbps = 55, .bus_bits = 8192, .l2_mib = 126,
	  .pci_device = 0x2901, .nvlink = true, .mig = mig_b200, .n_mig = COUNT(mig_b200) },
	{ .key = "L40S", .product = "NVIDIA L40S", .arch = "ada",
	  .nvml_arch = NVML_DEVICE_ARCH_ADA, .cc_major = 8, .cc_minor = 9,
	  .memory_mib = 46068, .reserved_mib = 593, .context_mib = 364,
	  .sms = 142, .cores_per_sm = 128, .threads_per_sm = 1536,
	  .power_w = 350, .idle_w = 33, .sm_mhz = 2520, .memory_mhz = 9001,
	  .memory_gbps = 864, .pcie_gbps = 25, .bus_bits = 384, .l2_mib = 96,
	  .pci_device = 0x26b9 },
	{ .key = "T4", .product = "Tesla T4", .arch = "turing",
	  .nvml_arch = NVML_DEVICE_ARCH_TURING, .cc_major = 7, .cc_minor = 5,
	  .memory_mib = 15360, .reserved_mib = 445, .context_mib = 104,
	  .sms = 40, .cores_per_sm = 64, .threads_per_sm = 1024,
	  .power_w = 70, .idle_w = 9, .sm_mhz = 1590, .memory_mhz = 5001,
	  .memory_gbps = 320, .pcie_gbps = 12, .bus_bits = 256, .l2_mib = 4,
	  .pci_device = 0x1eb8 },
};

const struct rf_gpu_model *rf_gpu_model_at(size_t i)
{
	return i < COUNT(models) ? &models[i] : NULL;
}

const struct rf_gpu_model *rf_gpu_model_by_key(const char *key)
{
	for (size_t i = 0; i < COUNT(models); i++)
		if (strcasecmp(models[i].key, key) == 0)
			return &models[i];
	return NULL;
}

const struct rf_gpu_model *rf_gpu_model_by_product(const char *product)
{
	for (size_t i = 0; i < COUNT(models); i++)
		if (strcmp(models[i].product, product) == 0)
			return &models[i];
	return NULL;
}

const struct rf_gpu_model *rf_gpu_model_named(const char *written, size_t n, char ret_name[64])
{
	const struct rf_gpu_model *m = NULL;

	snprintf(ret_name, 64, "%.*s", n < 64 ? (int)n : 63, written);
	if (n < 64) /* a longer one is none of them */
		m = rf_gpu_model_by_product(ret_name);
	if (n < 64 && m == NULL)
		m = rf_gpu_model_by_key(ret_name);
	if (m != NULL)
		snprintf(ret_name, 64, "%s", m->key);
	for (char *c = ret_name; *c != '\0'; c++)
		*c = isalnum((unsigned char)*c) || *c == '.' ? (char)tolower((unsigned char)*c) : '-';
	return m;
}

const struct rf_mig_profile *rf_gpu_model_mig(const struct rf_gpu_model *m, const char *name)
{
	for (size_t i = 0; i < m->n_mig; i++)
		if (strcmp(m->mig[i].name, name) == 0)
			return &m->mig[i];
	return NULL;
}
