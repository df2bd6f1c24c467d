/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/nvml_board.h"
#include "node/devices/nvml.h"
#include "node/devices/nvml_inside.h"
#include "node/devices/nvml_rows.h"

enum { SAMPLES_TRIES = 4 };

int nvml_processes(struct nvml *nvml, uint32_t index, struct nvml_process *out, uint32_t room,
		   uint32_t *ret_count)
{
	nvml_fn_nvmlDeviceGetComputeRunningProcesses_v3 *list =
		nvml->nvmlDeviceGetComputeRunningProcesses_v3
			? nvml->nvmlDeviceGetComputeRunningProcesses_v3
			: nvml->nvmlDeviceGetComputeRunningProcesses_v2;
	/* Not cleared: only the rows that the driver writes are touched, of the room for
	 * thousands. */
	owned(free) nvmlProcessInfo_t *infos = reallocarray(NULL, room, sizeof(*infos));
	unsigned int count = room;
	uint32_t n = 0;
	nvmlReturn_t r;

	if (!infos)
		return -ENOMEM;
	if (!list)
		return -EIO;
	r = list(nvml_handle(nvml, index), &count, infos);
	if (r == NVML_ERROR_INSUFFICIENT_SIZE)
		return -ENOSPC;
	if (r != NVML_SUCCESS || count > room)
		return -EIO;
	for (unsigned int i = 0; i < count; i++) {
		if (infos[i].usedGpuMemory == (unsigned long long)NVML_VALUE_NOT_AVAILABLE)
			continue;
		/* One row per process and MIG instance, or per context: they are one process. */
		out[n++] = (struct nvml_process){.pid = infos[i].pid,
						 .used_bytes = infos[i].usedGpuMemory};
	}
	*ret_count = n;
	return 0;
}

uint64_t nvml_used(struct nvml *nvml, uint32_t index)
{
	nvmlMemory_v2_t memory = {.version = NVML_STRUCT_VERSION(Memory, 2)};

	if (!nvml->nvmlDeviceGetMemoryInfo_v2 ||
	    nvml->nvmlDeviceGetMemoryInfo_v2(nvml_handle(nvml, index), &memory) != NVML_SUCCESS)
		return 0;
	return memory.used;
}

struct gpu_board nvml_board(struct nvml *nvml, uint32_t index)
{
	const struct nvml_board_calls calls = {
		.rates = nvml->nvmlDeviceGetUtilizationRates,
		.temperature = nvml->nvmlDeviceGetTemperature,
		.power = nvml->nvmlDeviceGetPowerUsage,
		.power_limit = nvml->nvmlDeviceGetEnforcedPowerLimit,
		.clock = nvml->nvmlDeviceGetClockInfo,
	};

	return nvml_board_read(&calls, nvml_handle(nvml, index));
}

/* The driver wants room for all that it may keep, whatever it then writes: 580 wants 72 rows, and
 * has written 1. It is only asked how much it wants if `room` does not suffice. */
static nvmlReturn_t read_samples(const struct nvml *nvml, uint32_t index, uint64_t since_us,
				 uint32_t room, nvmlProcessUtilizationSample_t **samples,
				 unsigned int *ret_count)
{
	nvmlReturn_t r = NVML_ERROR_INSUFFICIENT_SIZE;

	for (int i = 0; i < SAMPLES_TRIES && room <= NVML_SAMPLES_MOST; i++) {
		unsigned int wanted = 0;
		void *more = reallocarray(*samples, room, sizeof(**samples));

		if (!more)
			return NVML_ERROR_MEMORY;
		*samples = more;
		*ret_count = room;
		r = nvml->nvmlDeviceGetProcessUtilization(nvml_handle(nvml, index), *samples,
							  ret_count, since_us);
		if (r != NVML_ERROR_INSUFFICIENT_SIZE)
			return r == NVML_SUCCESS && *ret_count > room ? NVML_ERROR_UNKNOWN : r;
		nvml->nvmlDeviceGetProcessUtilization(nvml_handle(nvml, index), NULL, &wanted,
						      since_us);
		room = wanted > room ? wanted + wanted / 8 : 2 * room; /* it may grow */
	}
	return r;
}

int nvml_busy(struct nvml *nvml, uint32_t index, uint64_t since_us, struct nvml_busy *out,
	      uint32_t room, uint32_t *ret_count)
{
	owned(free) nvmlProcessUtilizationSample_t *samples = NULL;
	unsigned int count = 0;
	nvmlReturn_t r;

	if (!nvml->nvmlDeviceGetProcessUtilization)
		return -EIO;
	r = read_samples(nvml, index, since_us, room, &samples, &count);
	if (r == NVML_ERROR_MEMORY)
		return -ENOMEM;
	if (r == NVML_ERROR_NOT_FOUND)
		count = 0; /* no process had samples */
	else if (r == NVML_ERROR_INSUFFICIENT_SIZE || (r == NVML_SUCCESS && count > room))
		return -ENOSPC;
	else if (r != NVML_SUCCESS)
		return -EIO;
	for (unsigned int i = 0; i < count; i++)
		out[i] =
			(struct nvml_busy){samples[i].pid, samples[i].smUtil, samples[i].timeStamp};
	nvml_rows_sort(out, count, sizeof(*out));
	*ret_count = count;
	return 0;
}

const struct nvml_busy *nvml_busy_of(const struct nvml_busy *rows, uint32_t count, uint32_t pid,
				     uint32_t *ret_count)
{
	uint32_t first = nvml_rows_first(rows, count, sizeof(*rows), pid), of_pid = 0;

	while (first + of_pid < count && rows[first + of_pid].pid == pid)
		of_pid++;
	*ret_count = of_pid;
	return rows + first;
}
