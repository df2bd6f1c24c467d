/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's functions about devices that need no context. */
#include <stdlib.h>
#include <string.h>

#include "cuda/prototypes.h"
#include "sim/machine/device.h"
#include "sim/cuda/driver.h"

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	CUresult r = driver_device(ordinal);

	if (r != CUDA_SUCCESS)
		return r;
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	*device = ordinal;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
	CUresult r = driver_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = device_count();
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
	CUresult r = driver_device(device);

	if (r != CUDA_SUCCESS)
		return r;
	if (!name || length <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	snprintf(name, (size_t)length, "%s", device_shape(device)->name);
	return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
	CUresult r = driver_device(device);
	uint64_t unused_free, total;

	if (r != CUDA_SUCCESS)
		return r;
	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	device_memory(device, &unused_free, &total);
	*bytes = total;
	return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice device)
{
	size_t total;
	CUresult r;

	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	r = cuDeviceTotalMem_v2(&total, device);
	if (r == CUDA_SUCCESS)
		*bytes = total > UINT32_MAX ? UINT32_MAX : (unsigned int)total;
	return r;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	CUresult r = driver_device(device);

	if (r != CUDA_SUCCESS)
		return r;
	if (!value || device_attribute(device, (int)attribute, value) != 0)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
	CUresult r = driver_device(device);

	if (r != CUDA_SUCCESS)
		return r;
	if (!uuid)
		return CUDA_ERROR_INVALID_VALUE;
	device_gpu_uuid(device, (uint8_t *)uuid->bytes);
	return CUDA_SUCCESS;
}

/* The first version answers with the GPU, also for a part of one. */
CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
	CUresult r = cuDeviceGetUuid(uuid, device);

	if (r == CUDA_SUCCESS)
		device_uuid(device, (uint8_t *)uuid->bytes);
	return r;
}

CUresult cuDeviceGetPCIBusId(char *text, int length, CUdevice device)
{
	CUresult r = driver_device(device);
	char bus[16];

	if (r != CUDA_SUCCESS)
		return r;
	if (!text || length <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	device_pci_text(device, bus);
	snprintf(text, (size_t)length, "%s", bus);
	return CUDA_SUCCESS;
}

/* [domain:]bus:device[.function], in hexadecimal. */
CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *text)
{
	unsigned domain = 0, bus = 0, slot = 0, function = 0;
	CUresult r = driver_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (!device || !text)
		return CUDA_ERROR_INVALID_VALUE;
	if (sscanf(text, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3) {
		domain = function = 0;
		if (sscanf(text, "%x:%x.%x", &bus, &slot, &function) < 2)
			return CUDA_ERROR_INVALID_VALUE;
	}
	for (int i = 0; i < device_count(); i++) {
		if (domain == 0 && slot == 0 && function == 0 && device_pci_bus(i) == bus) {
			*device = i;
			return CUDA_SUCCESS;
		}
	}
	return CUDA_ERROR_INVALID_DEVICE;
}

static int attribute_of(CUdevice device, CUdevice_attribute attribute)
{
	int value = 0;

	best_effort(device_attribute(device, (int)attribute, &value));
	return value;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
	CUresult r = driver_device(device);

	if (r != CUDA_SUCCESS)
		return r;
	if (!major || !minor)
		return CUDA_ERROR_INVALID_VALUE;
	*major = (int)device_shape(device)->capability_major;
	*minor = (int)device_shape(device)->capability_minor;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetProperties(CUdevprop *properties, CUdevice device)
{
	CUresult r = driver_device(device);

	if (r != CUDA_SUCCESS)
		return r;
	if (!properties)
		return CUDA_ERROR_INVALID_VALUE;
	memset(properties, 0, sizeof(*properties));
	properties->maxThreadsPerBlock =
		attribute_of(device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
	properties->maxThreadsDim[0] = attribute_of(device, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
	properties->maxThreadsDim[1] = attribute_of(device, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y);
	properties->maxThreadsDim[2] = attribute_of(device, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
	properties->maxGridSize[0] = attribute_of(device, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
	properties->maxGridSize[1] = attribute_of(device, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
	properties->maxGridSize[2] = attribute_of(device, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
	properties->sharedMemPerBlock =
		attribute_of(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
	properties->totalConstantMemory =
		attribute_of(device, CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
	properties->SIMDWidth = attribute_of(device, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
	properties->memPitch = attribute_of(device, CU_DEVICE_ATTRIBUTE_MAX_PITCH);
	properties->regsPerBlock =
		attribute_of(device, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
	properties->clockRate = attribute_of(device, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
	properties->textureAlign = attribute_of(device, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
	return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice other)
{
	CUresult r = driver_device(device);

	if (r == CUDA_SUCCESS)
		r = driver_device(other);
	if (r != CUDA_SUCCESS)
		return r;
	if (!can)
		return CUDA_ERROR_INVALID_VALUE;
	*can = device != other && device_peer(device, other);
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice device,
				 CUdevice other)
{
	CUresult r = driver_device(device);

	if (r == CUDA_SUCCESS)
		r = driver_device(other);
	if (r != CUDA_SUCCESS)
		return r;
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	if (device == other)
		return CUDA_ERROR_INVALID_DEVICE;
	switch ((int)attribute) {
	case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
		*value = 0;
		return CUDA_SUCCESS;
	case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
	case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
	case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
		*value = device_peer(device, other);
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult cuDeviceGetExecAffinitySupport(int *value, CUexecAffinityType type, CUdevice device)
{
	CUresult r = driver_device(device);

	if (r != CUDA_SUCCESS)
		return r;
	if (!value || type != CU_EXEC_AFFINITY_TYPE_SM_COUNT)
		return CUDA_ERROR_INVALID_VALUE;
	*value = 0; /* a feature of MPS */
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t *width, CUarray_format format, unsigned channels,
					    CUdevice device)
{
	CUresult r = driver_device(device);

	if (r != CUDA_SUCCESS)
		return r;
	if (!width || channels == 0 || channels > 4)
		return CUDA_ERROR_INVALID_VALUE;
	(void)format;
	*width = (size_t)1 << 28;
	return CUDA_SUCCESS;
}
