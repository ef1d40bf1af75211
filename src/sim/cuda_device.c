/* cuDevice*: what a device is. */
#include "sim/cuda_priv.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static CUresult device_of(CUdevice dev, struct sim_device **ret_dev)
{
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	return sim_device_of(dev, ret_dev) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetCount(int *count)
{
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (count == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*count = sim_device_count();
	return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	struct sim_device *d;
	CUresult r;

	if (device == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = device_of(ordinal, &d);
	if (r == CUDA_SUCCESS)
		*device = ordinal;
	return r;
}

CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
{
	struct sim_device *d;
	CUresult r;

	if (name == NULL || len <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	r = device_of(dev, &d);
	if (r == CUDA_SUCCESS)
		snprintf(name, (size_t)len, "%s", d->name);
	return r;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
	struct sim_device *d;
	CUresult r;

	if (uuid == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = device_of(dev, &d);
	/* The unversioned call names the card, the second version the MIG instance. */
	if (r == CUDA_SUCCESS)
		memcpy(uuid->bytes, d->card->s->uuid, sizeof(uuid->bytes));
	return r;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
	struct sim_device *d;
	CUresult r;

	if (uuid == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = device_of(dev, &d);
	if (r == CUDA_SUCCESS)
		memcpy(uuid->bytes, d->uuid, sizeof(uuid->bytes));
	return r;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
	struct sim_device *d;
	CUresult r;

	if (bytes == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = device_of(dev, &d);
	if (r == CUDA_SUCCESS)
		*bytes = sim_memory_total(d->card, d->part);
	return r;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
	struct sim_device *d;
	CUresult r;

	if (major == NULL || minor == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = device_of(dev, &d);
	if (r != CUDA_SUCCESS)
		return r;
	*major = (int)d->card->model->cc_major;
	*minor = (int)d->card->model->cc_minor;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *bus_id, int len, CUdevice dev)
{
	struct sim_device *d;
	CUresult r;

	if (bus_id == NULL || len <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	r = device_of(dev, &d);
	if (r == CUDA_SUCCESS)
		snprintf(bus_id, (size_t)len, "0000:%02X:00.0", d->card->s->pci_bus & 0xff);
	return r;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *dev, const char *bus_id)
{
	CUresult r = sim_ready();
	char text[32];

	if (r != CUDA_SUCCESS)
		return r;
	if (dev == NULL || bus_id == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	for (int i = 0; i < sim_device_count(); i++) {
		cuDeviceGetPCIBusId(text, sizeof(text), i);
		if (strcasecmp(text, bus_id) != 0 && strcasecmp(text + 5, bus_id) != 0)
			continue;
		*dev = i;
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice dev, CUdevice peer)
{
	struct sim_device *d;
	CUresult r;

	if (can == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = device_of(dev, &d);
	if (r == CUDA_SUCCESS)
		r = device_of(peer, &d);
	if (r == CUDA_SUCCESS)
		*can = 0;
	return r;
}

/* Attributes that are the same for every model. */
static bool fixed_attribute(int attribute, int *value)
{
	static const int fixed[][2] = {
		{ CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024 },
		{ CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024 },
		{ CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024 },
		{ CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64 },
		{ CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, INT_MAX },
		{ CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535 },
		{ CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535 },
		{ CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152 },
		{ CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536 },
		{ CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32 },
		{ CU_DEVICE_ATTRIBUTE_MAX_PITCH, INT_MAX },
		{ CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536 },
		{ CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512 },
		{ CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1 },
		{ CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1 },
		{ CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1 },
		{ CU_DEVICE_ATTRIBUTE_ECC_ENABLED, 1 },
		{ CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3 },
		{ CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1 },
		{ CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1 },
		{ CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 102400 },
		{ CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536 },
		{ CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1 },
		{ CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1 },
		{ CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1 },
		{ CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 101376 },
		{ CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1 },
		{ CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1 },
		{ CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32 },
		{ CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1 },
		{ CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1 },
		{ CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES,
		  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR },
		{ CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 1 },
	};

	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++) {
		if (fixed[i][0] != attribute)
			continue;
		*value = fixed[i][1];
		return true;
	}
	return false;
}

static int device_attribute(const struct sim_device *d, int attribute)
{
	const struct rf_gpu_model *m = d->card->model;

	switch (attribute) {
	case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
		return (int)d->sms;
	case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
		return (int)m->sm_mhz * 1000;
	case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
		return (int)m->memory_mhz * 1000;
	case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
		return (int)m->bus_bits;
	case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
		return (int)m->l2_mib << 20;
	case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
		return (int)m->threads_per_sm;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
		return (int)m->cc_major;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
		return (int)m->cc_minor;
	case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
		return (int)d->card->s->pci_bus;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE:
		return (int)d->card->s->compute_mode;
	default:
		return 0; /* a feature this machine has not */
	}
}

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice dev)
{
	struct sim_device *d;
	CUresult r;

	if (value == NULL || attribute < 1 || attribute >= CU_DEVICE_ATTRIBUTE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	r = device_of(dev, &d);
	if (r == CUDA_SUCCESS && !fixed_attribute(attribute, value))
		*value = device_attribute(d, attribute);
	return r;
}
