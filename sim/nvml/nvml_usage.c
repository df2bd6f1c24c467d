/* SPDX-License-Identifier: Apache-2.0 */
/* NVML: how much of a device is used: memory, utilisation, many values at once. */
#include <string.h>

#include "cuda/nvml_prototypes.h"
#include "sim/machine/clock.h"
#include "sim/machine/device.h"
#include "sim/machine/engine.h"
#include "sim/machine/engine_core.h"
#include "sim/nvml/nvml.h"

/* ---- memory -------------------------------------------------------------------------------- */

static nvmlReturn_t memory_of(nvmlDevice_t device, int *ret_number, uint64_t *ret_free,
			      uint64_t *ret_total)
{
	uint64_t free_bytes, total_bytes;
	int parts[MIG_PARTS];
	unsigned count;
	nvmlReturn_t r = nvml_device_or_part(device, ret_number);

	if (r != NVML_SUCCESS)
		return r;
	device_memory(*ret_number, ret_free, ret_total);
	count = parts_is_part((uint32_t)*ret_number) ? 0 : parts_list(*ret_number, true, parts);
	/* Memory in use in a GPU's parts is in use on the GPU. */
	for (unsigned i = 0; i < count; i++) {
		device_memory(parts[i], &free_bytes, &total_bytes);
		*ret_free -= total_bytes - free_bytes;
	}
	return NVML_SUCCESS;
}

/* The first version counts what the driver keeps for itself as used. */
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	uint64_t free_bytes, total_bytes;
	int n;
	nvmlReturn_t r = memory_of(device, &n, &free_bytes, &total_bytes);

	if (r != NVML_SUCCESS)
		return r;
	if (!memory)
		return NVML_ERROR_INVALID_ARGUMENT;
	memory->total = total_bytes;
	memory->free = free_bytes;
	memory->used = total_bytes - free_bytes;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
	uint64_t free_bytes, total_bytes, reserved_bytes;
	int n;
	nvmlReturn_t r = memory_of(device, &n, &free_bytes, &total_bytes);

	if (r != NVML_SUCCESS)
		return r;
	if (!memory)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (memory->version != NVML_STRUCT_VERSION(Memory, 2))
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	reserved_bytes = segment_settings()->reserved_bytes;
	if (reserved_bytes > total_bytes)
		reserved_bytes = total_bytes;
	memory->total = total_bytes;
	memory->reserved = reserved_bytes;
	memory->free = free_bytes;
	memory->used = total_bytes - reserved_bytes - free_bytes;
	return NVML_SUCCESS;
}

/* The window through which the host reaches device memory: all of it on devices with much. */
nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *memory)
{
	int n;
	nvmlReturn_t r = nvml_device_or_part(device, &n);
	unsigned long long window = 256ULL << 20;

	if (r != NVML_SUCCESS)
		return r;
	if (!memory)
		return NVML_ERROR_INVALID_ARGUMENT;
	while (device_shape(n)->memory_bytes >= 16ULL << 30 &&
	       window < device_shape(n)->memory_bytes)
		window *= 2;
	memory->bar1Total = window;
	memory->bar1Used = 1ULL << 20;
	memory->bar1Free = memory->bar1Total - memory->bar1Used;
	return NVML_SUCCESS;
}

/* ---- utilisation --------------------------------------------------------------------------- */

/* The driver reports none for a GPU in MIG mode and its parts. */
static nvmlReturn_t undivided(nvmlDevice_t device, int *ret_number)
{
	nvmlReturn_t r = nvml_device(device, ret_number);

	return r == NVML_SUCCESS && parts_on(*ret_number) ? NVML_ERROR_NOT_SUPPORTED : r;
}

/* A kernel that runs is taken to use the memory for as long as it runs. */
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilisation)
{
	int n;
	nvmlReturn_t r = undivided(device, &n);

	if (r != NVML_SUCCESS)
		return r;
	if (!utilisation)
		return NVML_ERROR_INVALID_ARGUMENT;
	utilisation->gpu = utilisation->memory = nvml_busy(n);
	return NVML_SUCCESS;
}

struct usage_sample {
	unsigned int pid, percent;
	unsigned long long at_us;
};

/* For each process that computed after that time: the last whole period in which it did. */
static size_t process_samples(int number, unsigned long long since_us, struct usage_sample *ret)
{
	struct engine_sample samples[SEGMENT_SAMPLES_MAX];
	struct nvml_process *processes = calloc(SEGMENT_PROCESSES_MAX, sizeof(*processes));
	size_t count, found = 0;

	if (!processes)
		return 0;
	count = nvml_processes(number, processes);
	for (size_t p = 0; p < count; p++) {
		size_t n =
			engine_samples(number, processes[p].slot, 0, samples, SEGMENT_SAMPLES_MAX);

		while (n-- > 0) {
			unsigned long long at_us = nvml_wall_us(samples[n].end_ns);

			if (!samples[n].percent || at_us <= since_us)
				continue;
			ret[found++] = (struct usage_sample){.pid = processes[p].pid,
							     .percent = samples[n].percent,
							     .at_us = at_us};
			break;
		}
	}
	free(processes);
	return found;
}

/* Writes one row, in the form that the function has. */
typedef void sample_writer(void *rows, size_t i, const struct usage_sample *sample);

static void write_sample(void *rows, size_t i, const struct usage_sample *sample)
{
	((nvmlProcessUtilizationSample_t *)rows)[i] =
		(nvmlProcessUtilizationSample_t){.pid = sample->pid,
						 .timeStamp = sample->at_us,
						 .smUtil = sample->percent,
						 .memUtil = sample->percent};
}

static void write_info(void *rows, size_t i, const struct usage_sample *sample)
{
	((nvmlProcessUtilizationInfo_v1_t *)rows)[i] =
		(nvmlProcessUtilizationInfo_v1_t){.timeStamp = sample->at_us,
						  .pid = sample->pid,
						  .smUtil = sample->percent,
						  .memUtil = sample->percent};
}

/* NVIDIA's driver requires room for all samples that it may keep before it searches for any. */
static nvmlReturn_t process_utilisation(int number, unsigned long long since_us,
					unsigned int *count, void *rows, sample_writer *writer)
{
	struct usage_sample *samples = calloc(SEGMENT_PROCESSES_MAX, sizeof(*samples));
	unsigned int room = rows ? *count : 0, found;
	uint64_t kept = segment_settings()->samples_kept;

	if (!samples)
		return NVML_ERROR_MEMORY;
	found = (unsigned)process_samples(number, since_us, samples);
	kept = kept > found ? kept : found;
	*count = kept > room ? (unsigned)kept : found;
	for (size_t i = 0; kept <= room && i < found; i++)
		writer(rows, i, &samples[i]);
	free(samples);
	return kept > room ? NVML_ERROR_INSUFFICIENT_SIZE
	       : found	   ? NVML_SUCCESS
			   : NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
					     nvmlProcessUtilizationSample_t *utilisation,
					     unsigned int *count, unsigned long long since_us)
{
	int n;
	nvmlReturn_t r = undivided(device, &n);

	if (r != NVML_SUCCESS)
		return r;
	if (!count)
		return NVML_ERROR_INVALID_ARGUMENT;
	return process_utilisation(n, since_us, count, utilisation, write_sample);
}

nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device,
						   nvmlProcessesUtilizationInfo_t *info)
{
	int n;
	nvmlReturn_t r = undivided(device, &n);

	if (r != NVML_SUCCESS)
		return r;
	if (!info)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (info->version != NVML_STRUCT_VERSION(ProcessesUtilizationInfo, 1))
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	return process_utilisation(n, info->lastSeenTimeStamp, &info->processSamplesCount,
				   info->procUtilArray, write_info);
}

nvmlReturn_t nvmlDeviceGetSamples(nvmlDevice_t device, nvmlSamplingType_t type,
				  unsigned long long since_us, nvmlValueType_t *ret_type,
				  unsigned int *count, nvmlSample_t *samples)
{
	struct engine_sample found[SEGMENT_SAMPLES_MAX];
	unsigned int room, written = 0;
	size_t most;
	nvmlReturn_t r;
	int n;

	r = undivided(device, &n);
	if (r != NVML_SUCCESS)
		return r;
	if (!ret_type || !count || (unsigned)type >= NVML_SAMPLINGTYPE_COUNT)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (type != NVML_GPU_UTILIZATION_SAMPLES && type != NVML_MEMORY_UTILIZATION_SAMPLES)
		return NVML_ERROR_NOT_SUPPORTED;
	*ret_type = NVML_VALUE_TYPE_UNSIGNED_INT;
	room = *count;
	*count = SEGMENT_SAMPLES_MAX;
	if (!samples)
		return NVML_SUCCESS;
	most = engine_samples(n, UINT32_MAX, 0, found, SEGMENT_SAMPLES_MAX);
	for (size_t i = 0; i < most && written < room; i++) {
		unsigned long long at_us = nvml_wall_us(found[i].end_ns);

		if (at_us <= since_us)
			continue;
		samples[written++] =
			(nvmlSample_t){.timeStamp = at_us, .sampleValue.uiVal = found[i].percent};
	}
	*count = written;
	return written ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

/* KB/s over the host link since the process's previous call: the link's rate times how busy it was.
 * The device receives what the host sends. */
nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, nvmlPcieUtilCounter_t counter,
					 unsigned int *value)
{
	static struct {
		_Atomic uint64_t at_ns, busy_ns;
	} last[SETTINGS_DEVICES_MAX][NVML_PCIE_UTIL_COUNT];
	uint64_t now_ns, busy_ns, then_ns, before_ns;
	nvmlReturn_t r;
	int n;

	r = nvml_device(device, &n);
	if (r != NVML_SUCCESS)
		return r;
	if (!value || (unsigned)counter >= NVML_PCIE_UTIL_COUNT)
		return NVML_ERROR_INVALID_ARGUMENT;
	busy_ns = engine_device_busy_ns(n, counter == NVML_PCIE_UTIL_RX_BYTES
						   ? SEGMENT_HOST_TO_DEVICE
						   : SEGMENT_DEVICE_TO_HOST);
	now_ns = clock_now_ns();
	then_ns = atomic_exchange(&last[n][counter].at_ns, now_ns);
	before_ns = atomic_exchange(&last[n][counter].busy_ns, busy_ns);
	*value = 0;
	if (then_ns && now_ns > then_ns && busy_ns >= before_ns)
		*value = (unsigned int)((double)(busy_ns - before_ns) / (double)(now_ns - then_ns) *
					(double)device_shape(n)->link_rate / 1000);
	return NVML_SUCCESS;
}

/* ---- many values at once ------------------------------------------------------------------- */

static void field(int n, nvmlDevice_t device, nvmlFieldValue_t *value)
{
	unsigned int watt = device_shape(n)->power_watt;
	unsigned long long energy = 0;

	value->nvmlReturn = NVML_SUCCESS;
	value->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
	switch (value->fieldId) {
	case NVML_FI_DEV_ECC_CURRENT:
	case NVML_FI_DEV_ECC_PENDING:
		value->value.uiVal = 1;
		return;
	case NVML_FI_DEV_MEMORY_TEMP:
		value->value.uiVal = nvml_temperature(n);
		return;
	case NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION:
		value->valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
		value->nvmlReturn = nvmlDeviceGetTotalEnergyConsumption(device, &energy);
		value->value.ullVal = energy;
		return;
	case NVML_FI_DEV_PCIE_REPLAY_COUNTER:
		value->value.uiVal = 0;
		return;
	case NVML_FI_DEV_POWER_AVERAGE:
	case NVML_FI_DEV_POWER_INSTANT:
		value->value.uiVal = nvml_power_mw(n);
		return;
	case NVML_FI_DEV_POWER_MIN_LIMIT:
		value->value.uiVal = watt * 500;
		return;
	case NVML_FI_DEV_POWER_MAX_LIMIT:
	case NVML_FI_DEV_POWER_DEFAULT_LIMIT:
	case NVML_FI_DEV_POWER_CURRENT_LIMIT:
		value->value.uiVal = watt * 1000;
		return;
	default:
		value->nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
	}
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
	int n;
	nvmlReturn_t r = nvml_device(device, &n);

	if (r != NVML_SUCCESS)
		return r;
	if (!values || count <= 0)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (int i = 0; i < count; i++) {
		values[i].timestamp = (long long)nvml_wall_us(clock_now_ns());
		values[i].latencyUsec = 0;
		field(n, device, &values[i]);
	}
	return NVML_SUCCESS;
}
