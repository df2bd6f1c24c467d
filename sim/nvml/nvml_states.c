/* SPDX-License-Identifier: Apache-2.0 */
/* NVML: performance states (there is one), processors beside a device, and devices beside it. */
#include <sched.h>
#include <string.h>

#include "cuda/nvml_prototypes.h"
#include "sim/machine/device.h"
#include "sim/nvml/nvml.h"

/* ---- performance states ---------------------------------------------------------------------- */

nvmlReturn_t nvmlDeviceGetSupportedPerformanceStates(nvmlDevice_t device, nvmlPstates_t *pstates,
						     unsigned int size)
{
	int n;
	nvmlReturn_t r = nvml_device(device, &n);

	if (r != NVML_SUCCESS)
		return r;
	if (!pstates)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (size < sizeof(*pstates))
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (size_t i = 0; i < size / sizeof(*pstates); i++)
		pstates[i] = i ? NVML_PSTATE_UNKNOWN : NVML_PSTATE_0;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMinMaxClockOfPState(nvmlDevice_t device, nvmlClockType_t type,
					      nvmlPstates_t pstate, unsigned int *minClockMHz,
					      unsigned int *maxClockMHz)
{
	unsigned int mhz;
	nvmlReturn_t r = nvmlDeviceGetMaxClockInfo(device, type, &mhz);

	if (r != NVML_SUCCESS)
		return r;
	if (!minClockMHz || !maxClockMHz || (unsigned)pstate > NVML_PSTATE_15)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (pstate != NVML_PSTATE_0)
		return NVML_ERROR_NOT_SUPPORTED;
	*minClockMHz = *maxClockMHz = mhz;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxCustomerBoostClock(nvmlDevice_t device, nvmlClockType_t clockType,
						unsigned int *clockMHz)
{
	return nvmlDeviceGetMaxClockInfo(device, clockType, clockMHz);
}

/* The utilisation of multiprocessors and of memory; there are no video engines. */
nvmlReturn_t nvmlDeviceGetDynamicPstatesInfo(nvmlDevice_t device,
					     nvmlGpuDynamicPstatesInfo_t *pDynamicPstatesInfo)
{
	nvmlUtilization_t rates;
	nvmlReturn_t r = nvmlDeviceGetUtilizationRates(device, &rates);

	if (r != NVML_SUCCESS)
		return r;
	if (!pDynamicPstatesInfo)
		return NVML_ERROR_INVALID_ARGUMENT;
	memset(pDynamicPstatesInfo, 0, sizeof(*pDynamicPstatesInfo));
	pDynamicPstatesInfo->utilization[0].bIsPresent = 1;
	pDynamicPstatesInfo->utilization[0].percentage = rates.gpu;
	pDynamicPstatesInfo->utilization[1].bIsPresent = 1;
	pDynamicPstatesInfo->utilization[1].percentage = rates.memory;
	return NVML_SUCCESS;
}

/* ---- processors ------------------------------------------------------------------------------ */

/* One NUMA node and one socket, with all processors. */
nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t device, unsigned int cpuSetSize,
						 unsigned long *cpuSet, nvmlAffinityScope_t scope)
{
	if (scope != NVML_AFFINITY_SCOPE_NODE && scope != NVML_AFFINITY_SCOPE_SOCKET)
		return NVML_ERROR_INVALID_ARGUMENT;
	return nvmlDeviceGetCpuAffinity(device, cpuSetSize, cpuSet);
}

/* The calling thread runs where it may: all processors are beside every device. */
nvmlReturn_t nvmlDeviceSetCpuAffinity(nvmlDevice_t device)
{
	cpu_set_t all;
	int n;
	nvmlReturn_t r = nvml_device(device, &n);

	if (r != NVML_SUCCESS)
		return r;
	memset(&all, 0xff, sizeof(all));
	return sched_setaffinity(0, sizeof(all), &all) == 0 ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

nvmlReturn_t nvmlDeviceClearCpuAffinity(nvmlDevice_t device)
{
	return nvmlDeviceSetCpuAffinity(device);
}

/* ---- other devices --------------------------------------------------------------------------- */

/* All devices but `except`: a count of 0 asks for their number, any other count for that many of
 * them. */
static nvmlReturn_t list(int except, bool any, unsigned int *count, nvmlDevice_t *devices)
{
	unsigned int n = 0;

	if (!count || (*count && !devices))
		return NVML_ERROR_INVALID_ARGUMENT;
	for (int i = 0; any && i < device_count(); i++) {
		if (i == except || (*count && n == *count))
			continue;
		if (*count)
			devices[n] = nvml_handle(i);
		n++;
	}
	*count = n;
	return NVML_SUCCESS;
}

static nvmlReturn_t nearest(int number, nvmlGpuTopologyLevel_t level, unsigned int *count,
			    nvmlDevice_t *devices)
{
	switch (level) {
	case NVML_TOPOLOGY_INTERNAL:
	case NVML_TOPOLOGY_SINGLE:
	case NVML_TOPOLOGY_MULTIPLE:
	case NVML_TOPOLOGY_HOSTBRIDGE:
	case NVML_TOPOLOGY_SYSTEM:
		return list(number, false, count, devices);
	case NVML_TOPOLOGY_NODE:
		return list(number, true, count, devices);
	}
	return NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, nvmlGpuTopologyLevel_t level,
					      unsigned int *count, nvmlDevice_t *deviceArray)
{
	int n;
	nvmlReturn_t r = nvml_device(device, &n);

	return r == NVML_SUCCESS ? nearest(n, level, count, deviceArray) : r;
}

nvmlReturn_t nvmlSystemGetTopologyGpuSet(unsigned int cpuNumber, unsigned int *count,
					 nvmlDevice_t *deviceArray)
{
	nvmlReturn_t r = nvml_ready();

	if (r == NVML_SUCCESS && cpuNumber >= (unsigned long)sysconf(_SC_NPROCESSORS_CONF))
		r = NVML_ERROR_INVALID_ARGUMENT;
	return r == NVML_SUCCESS ? list(-1, true, count, deviceArray) : r;
}

nvmlReturn_t nvmlDeviceGetHandleByUUIDV(const nvmlUUID_t *uuid, nvmlDevice_t *device)
{
	char text[NVML_DEVICE_UUID_ASCII_LEN];
	uint8_t bytes[NVML_DEVICE_UUID_BINARY_LEN];
	nvmlReturn_t r = nvml_ready();

	if (r != NVML_SUCCESS)
		return r;
	if (!uuid || !device)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (uuid->version != NVML_STRUCT_VERSION(UUID, 1))
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	if (uuid->type == NVML_UUID_TYPE_ASCII) {
		memcpy(text, uuid->value.str, sizeof(text));
		text[sizeof(text) - 1] = '\0';
		return nvmlDeviceGetHandleByUUID(text, device);
	}
	if (uuid->type != NVML_UUID_TYPE_BINARY)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (int i = 0; i < device_count(); i++) {
		device_uuid(i, bytes);
		if (memcmp(bytes, uuid->value.bytes, sizeof(bytes)) == 0) {
			*device = nvml_handle(i);
			return NVML_SUCCESS;
		}
	}
	return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlGetExcludedDeviceCount(unsigned int *deviceCount)
{
	if (!deviceCount)
		return NVML_ERROR_INVALID_ARGUMENT;
	*deviceCount = 0;
	return NVML_SUCCESS;
}
