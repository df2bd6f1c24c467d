/* SPDX-License-Identifier: Apache-2.0 */
/* NVML: the processes that use a device or a part of one. */
#include <errno.h>
#include <time.h>

#include "cuda/nvml_prototypes.h"
#include "sim/machine/device.h"
#include "sim/machine/share.h"
#include "sim/nvml/nvml.h"

/* The processes of one place. The node's lock is held. */
static size_t processes_of(int place, struct nvml_process *ret, size_t room)
{
	struct segment *segment = segment_get();
	struct segment_device *book = &segment->devices[place];
	uint32_t instance =
		parts_is_part((uint32_t)place) ? parts_get(place)->instance : UINT32_MAX;
	size_t count = 0;

	segment_lock(book);
	for (uint32_t i = 0; i < segment_slots(segment) && count < room; i++) {
		const struct segment_process *process = &segment->processes[i];
		const struct segment_usage *usage = &process->usage[place];
		uint64_t used_bytes;

		if (atomic_load(&process->state) != SEGMENT_ALIVE)
			continue;
		used_bytes = usage->used_bytes + share_paid_by(book, i);
		if (usage->contexts || used_bytes)
			ret[count++] = (struct nvml_process){
				.slot = i,
				.used_bytes = used_bytes,
				.instance = instance,
				.compute_instance = instance == UINT32_MAX ? UINT32_MAX : 0};
	}
	segment_unlock(book);
	return count;
}

size_t nvml_processes(int number, struct nvml_process *ret)
{
	struct segment *segment;
	int parts[MIG_PARTS];
	unsigned among = 0;
	size_t count;

	segment_reap();
	segment = segment_get();
	if (!parts_is_part((uint32_t)number))
		among = parts_list(number, true, parts);
	segment_lock_node();
	count = processes_of(number, ret, SEGMENT_PROCESSES_MAX);
	for (unsigned i = 0; i < among; i++)
		count += processes_of(parts[i], ret + count, SEGMENT_PROCESSES_MAX - count);
	for (size_t i = 0; i < count; i++)
		ret[i].pid = (unsigned)segment_pid(&segment->processes[ret[i].slot]);
	segment_unlock_node();
	/* Processes of other containers that the caller cannot see have no pid for it. */
	for (size_t i = 0; i < count;)
		if (ret[i].pid)
			i++;
		else
			ret[i] = ret[--count];
	return count;
}

/* Writes one row, in the form that the function's version has. */
typedef void process_writer(void *rows, size_t i, const struct nvml_process *process);

static void write_v1(void *rows, size_t i, const struct nvml_process *process)
{
	((nvmlProcessInfo_v1_t *)rows)[i] =
		(nvmlProcessInfo_v1_t){.pid = process->pid, .usedGpuMemory = process->used_bytes};
}

static void write_v2(void *rows, size_t i, const struct nvml_process *process)
{
	((nvmlProcessInfo_v2_t *)rows)[i] =
		(nvmlProcessInfo_v2_t){.pid = process->pid,
				       .usedGpuMemory = process->used_bytes,
				       .gpuInstanceId = process->instance,
				       .computeInstanceId = process->compute_instance};
}

static void take_time(uint64_t ns)
{
	struct timespec left = {.tv_sec = (time_t)(ns / 1000000000),
				.tv_nsec = (long)(ns % 1000000000)};

	while (ns && nanosleep(&left, &left) != 0 && errno == EINTR)
		;
}

static nvmlReturn_t compute_processes(nvmlDevice_t device, unsigned int *count, void *rows,
				      process_writer *writer)
{
	struct nvml_process *processes;
	unsigned int room;
	int n;
	nvmlReturn_t r = nvml_device_or_part(device, &n);

	if (r != NVML_SUCCESS)
		return r;
	if (!count)
		return NVML_ERROR_INVALID_ARGUMENT;
	processes = calloc(SEGMENT_PROCESSES_MAX, sizeof(*processes));
	if (!processes)
		return NVML_ERROR_MEMORY;
	room = rows ? *count : 0;
	*count = (unsigned)nvml_processes(n, processes);
	if (*count > room)
		r = NVML_ERROR_INSUFFICIENT_SIZE;
	for (size_t i = 0; r == NVML_SUCCESS && i < *count; i++)
		writer(rows, i, &processes[i]);
	free(processes);
	take_time(segment_settings()->answer_ns);
	return r;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned int *count,
						  nvmlProcessInfo_v1_t *infos)
{
	return compute_processes(device, count, infos, write_v1);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int *count,
						     nvmlProcessInfo_v2_t *infos)
{
	return compute_processes(device, count, infos, write_v2);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
						     nvmlProcessInfo_t *infos)
{
	return compute_processes(device, count, infos, write_v2);
}

/* No process draws, and there is no MPS server. */
#define NONE(symbol, type)                                                                         \
	nvmlReturn_t symbol(nvmlDevice_t device, unsigned int *count, type *infos)                 \
	{                                                                                          \
		int n;                                                                             \
		nvmlReturn_t r = nvml_device_or_part(device, &n);                                  \
                                                                                                   \
		(void)infos;                                                                       \
		if (r != NVML_SUCCESS)                                                             \
			return r;                                                                  \
		if (!count)                                                                        \
			return NVML_ERROR_INVALID_ARGUMENT;                                        \
		*count = 0;                                                                        \
		return NVML_SUCCESS;                                                               \
	}
NONE(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t)
NONE(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_v2_t)
NONE(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_t)
NONE(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t)
NONE(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_v2_t)
NONE(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_t)
#undef NONE

static void write_detail(void *rows, size_t i, const struct nvml_process *process)
{
	((nvmlProcessDetail_v1_t *)rows)[i] =
		(nvmlProcessDetail_v1_t){.pid = process->pid,
					 .usedGpuMemory = process->used_bytes,
					 .gpuInstanceId = process->instance,
					 .computeInstanceId = process->compute_instance};
}

nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device,
						   nvmlProcessDetailList_t *list)
{
	if (!list)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (list->version != NVML_STRUCT_VERSION(ProcessDetailList, 1))
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	if (list->mode != 0) {
		list->numProcArrayEntries = 0;
		return list->mode > 2 ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
	}
	return compute_processes(device, &list->numProcArrayEntries, list->procArray, write_detail);
}
