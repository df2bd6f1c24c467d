/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes on a device: the tenant's own, as the daemon reports them. All of them are compute
 * processes; there are none of graphics or MPS.
 */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include <sys/mman.h>

#include "guest/answers/nvml.h"
#include "guest/driver/real.h"
#include "guest/hooks.h"
#include "guest/link/link.h"
#include "guest/process/join.h"
#include "guest/process/state.h"

enum {
	NO_INSTANCE = 0xffffffff, /* NVML's value without MIG */
	SAMPLES = 1024,
	SAMPLES_MOST = 65536,
	SAMPLES_TRIES = 4,
};

static void *map(size_t bytes)
{
	int saved = errno;
	void *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	errno = saved;
	return memory == MAP_FAILED ? NULL : memory;
}

static void unmap(void *memory, size_t bytes)
{
	int saved = errno;

	munmap(memory, bytes);
	errno = saved;
}

nvmlReturn_t nvml_processes(int index, struct nvml_processes *ret_processes)
{
	struct wire_process_row *rows = map(NVML_PROCESSES * sizeof(*rows));
	size_t count = 0;

	if (!rows)
		return NVML_ERROR_MEMORY;
	if (link_processes(index, rows, NVML_PROCESSES, &count) < 0) {
		unmap(rows, NVML_PROCESSES * sizeof(*rows));
		return NVML_ERROR_TIMEOUT;
	}
	ret_processes->rows = rows;
	ret_processes->count = count < NVML_PROCESSES ? count : NVML_PROCESSES;
	return NVML_SUCCESS;
}

void nvml_processes_drop(struct nvml_processes *processes)
{
	unmap(processes->rows, NVML_PROCESSES * sizeof(*processes->rows));
}

bool nvml_processes_has(const struct nvml_processes *processes, unsigned pid)
{
	for (size_t i = 0; i < processes->count; i++)
		if (processes->rows[i].pid == pid)
			return true;
	return false;
}

/* A row has two forms: of 16 bytes, and of 24. */
static void write_row(void *infos, size_t i, bool first_form, const struct wire_process_row *row)
{
	if (first_form)
		((nvmlProcessInfo_v1_t *)infos)[i] =
			(nvmlProcessInfo_v1_t){.pid = row->pid, .usedGpuMemory = row->used};
	else
		((nvmlProcessInfo_t *)infos)[i] =
			(nvmlProcessInfo_t){.pid = row->pid,
					    .usedGpuMemory = row->used,
					    .gpuInstanceId = NO_INSTANCE,
					    .computeInstanceId = NO_INSTANCE};
}

/* `r`: the real function's result, when asked for the number of processes. Returns it if it is an
 * error, and -1 if we answer instead. */
static int begin(nvmlDevice_t device, nvmlReturn_t r, int *ret_index)
{
	if (r != NVML_SUCCESS && r != NVML_ERROR_INSUFFICIENT_SIZE)
		return (int)r;
	r = nvml_device(device, ret_index);
	return r == NVML_SUCCESS ? -1 : (int)r;
}

static nvmlReturn_t compute(nvmlDevice_t device, nvmlReturn_t asked, unsigned *count, void *infos,
			    bool first_form)
{
	struct nvml_processes processes;
	unsigned room;
	nvmlReturn_t r;
	int index, begun = begin(device, asked, &index);

	if (begun >= 0)
		return (nvmlReturn_t)begun;
	if (!count)
		return NVML_ERROR_INVALID_ARGUMENT;
	room = *count;
	*count = 0;
	if (index < 0)
		return NVML_SUCCESS;
	r = nvml_processes(index, &processes);
	if (r != NVML_SUCCESS)
		return r;
	*count = (unsigned)processes.count;
	if (processes.count > room)
		r = NVML_ERROR_INSUFFICIENT_SIZE;
	else if (!infos && processes.count)
		r = NVML_ERROR_INVALID_ARGUMENT;
	for (size_t i = 0; r == NVML_SUCCESS && i < processes.count; i++)
		write_row(infos, i, first_form, &processes.rows[i]);
	nvml_processes_drop(&processes);
	return r;
}

static nvmlReturn_t none(nvmlDevice_t device, nvmlReturn_t asked, unsigned *count)
{
	int index, begun = begin(device, asked, &index);

	if (begun >= 0)
		return (nvmlReturn_t)begun;
	if (!count)
		return NVML_ERROR_INVALID_ARGUMENT;
	*count = 0;
	return NVML_SUCCESS;
}

#define COMPUTE(symbol, row, first_form)                                                           \
	nvmlReturn_t hook_##symbol(nvmlDevice_t device, unsigned int *infoCount, row *infos)       \
	{                                                                                          \
		unsigned n = 0;                                                                    \
                                                                                                   \
		return compute(device, real_nvml(symbol)(device, &n, NULL), infoCount, infos,      \
			       first_form);                                                        \
	}
COMPUTE(nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_v1_t, true)
COMPUTE(nvmlDeviceGetComputeRunningProcesses_v2, nvmlProcessInfo_v2_t, false)
COMPUTE(nvmlDeviceGetComputeRunningProcesses_v3, nvmlProcessInfo_t, false)
#undef COMPUTE

#define NONE(symbol, row)                                                                          \
	nvmlReturn_t hook_##symbol(nvmlDevice_t device, unsigned int *infoCount, row *infos)       \
	{                                                                                          \
		unsigned n = 0;                                                                    \
                                                                                                   \
		(void)infos;                                                                       \
		return none(device, real_nvml(symbol)(device, &n, NULL), infoCount);               \
	}
NONE(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t)
NONE(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_v2_t)
NONE(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_t)
NONE(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t)
NONE(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_v2_t)
NONE(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_t)
#undef NONE

/* Mode 0 is compute. */
nvmlReturn_t hook_nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device,
							nvmlProcessDetailList_t *plist)
{
	struct nvml_processes processes;
	nvmlProcessDetailList_t asked;
	nvmlReturn_t r;
	int index, begun;
	unsigned room;

	if (!plist)
		return NVML_ERROR_INVALID_ARGUMENT;
	asked = *plist;
	asked.numProcArrayEntries = 0;
	asked.procArray = NULL;
	begun = begin(device, real_nvml(nvmlDeviceGetRunningProcessDetailList)(device, &asked),
		      &index);
	if (begun >= 0)
		return (nvmlReturn_t)begun;
	room = plist->numProcArrayEntries;
	plist->numProcArrayEntries = 0;
	if (index < 0 || plist->mode != 0)
		return NVML_SUCCESS;
	r = nvml_processes(index, &processes);
	if (r != NVML_SUCCESS)
		return r;
	plist->numProcArrayEntries = (unsigned)processes.count;
	if (processes.count > room || (processes.count && !plist->procArray))
		r = NVML_ERROR_INSUFFICIENT_SIZE;
	for (size_t i = 0; r == NVML_SUCCESS && i < processes.count; i++)
		plist->procArray[i] =
			(nvmlProcessDetail_v1_t){.pid = processes.rows[i].pid,
						 .usedGpuMemory = processes.rows[i].used,
						 .gpuInstanceId = NO_INSTANCE,
						 .computeInstanceId = NO_INSTANCE};
	nvml_processes_drop(&processes);
	return r;
}

/* ---- utilisation by process ------------------------------------------------------------------ */

nvmlReturn_t hook_nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
						  nvmlProcessUtilizationSample_t *utilization,
						  unsigned int *processSamplesCount,
						  unsigned long long lastSeenTimeStamp)
{
	struct nvml_processes processes;
	unsigned kept = 0;
	int index = -1;
	nvmlReturn_t r = real_nvml(nvmlDeviceGetProcessUtilization)(
		device, utilization, processSamplesCount, lastSeenTimeStamp);

	if (r == NVML_SUCCESS)
		r = nvml_device(device, &index);
	if (r == NVML_SUCCESS && nvml_foreign(index) && utilization) {
		memset(utilization, 0, *processSamplesCount * sizeof(*utilization));
		*processSamplesCount = 0;
		return NVML_ERROR_NOT_FOUND; /* as NVML answers if no process computes */
	}
	if (r != NVML_SUCCESS || index < 0 || !utilization)
		return r;
	r = nvml_processes(index, &processes);
	if (r != NVML_SUCCESS)
		return r;
	for (unsigned i = 0; i < *processSamplesCount; i++)
		if (nvml_processes_has(&processes, utilization[i].pid))
			utilization[kept++] = utilization[i];
	nvml_processes_drop(&processes);
	*processSamplesCount = kept;
	return kept ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t
hook_nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device,
					   nvmlProcessesUtilizationInfo_t *procesesUtilInfo)
{
	nvmlProcessesUtilizationInfo_t *info = procesesUtilInfo;
	struct nvml_processes processes;
	unsigned kept = 0;
	int index = -1;
	nvmlReturn_t r = real_nvml(nvmlDeviceGetProcessesUtilizationInfo)(device, info);

	if (r == NVML_SUCCESS)
		r = nvml_device(device, &index);
	if (r == NVML_SUCCESS && nvml_foreign(index) && info->procUtilArray) {
		memset(info->procUtilArray, 0,
		       info->processSamplesCount * sizeof(*info->procUtilArray));
		info->processSamplesCount = 0;
		return NVML_ERROR_NOT_FOUND;
	}
	if (r != NVML_SUCCESS || index < 0 || !info->procUtilArray)
		return r;
	r = nvml_processes(index, &processes);
	if (r != NVML_SUCCESS)
		return r;
	for (unsigned i = 0; i < info->processSamplesCount; i++)
		if (nvml_processes_has(&processes, info->procUtilArray[i].pid))
			info->procUtilArray[kept++] = info->procUtilArray[i];
	nvml_processes_drop(&processes);
	info->processSamplesCount = kept;
	return kept ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

struct samples {
	nvmlProcessUtilizationSample_t *rows; /* mapped */
	unsigned count, room;
};

static void drop_samples(struct samples *samples)
{
	unmap(samples->rows, samples->room * sizeof(*samples->rows));
	*samples = (struct samples){NULL, 0, 0};
}

/* The samples of all tenants. The driver requires room for all samples that it may keep, even if it
 * then writes few. */
static nvmlReturn_t read_samples(nvmlDevice_t device, struct samples *ret_samples)
{
	nvmlReturn_t r = NVML_ERROR_INSUFFICIENT_SIZE;
	unsigned room = SAMPLES;

	for (int i = 0; i < SAMPLES_TRIES && room <= SAMPLES_MOST; i++) {
		struct samples samples = {map(room * sizeof(*samples.rows)), room, room};
		unsigned wanted = 0;

		if (!samples.rows)
			return NVML_ERROR_MEMORY;
		r = real_nvml(nvmlDeviceGetProcessUtilization)(device, samples.rows, &samples.count,
							       0);
		if (r == NVML_SUCCESS) {
			*ret_samples = samples;
			return r;
		}
		drop_samples(&samples);
		if (r != NVML_ERROR_INSUFFICIENT_SIZE)
			return r;
		real_nvml(nvmlDeviceGetProcessUtilization)(device, NULL, &wanted, 0);
		room = wanted > room ? wanted + wanted / 8
				     : 2 * room; /* with some more, as it may grow */
	}
	return r;
}

nvmlReturn_t nvml_utilization(nvmlDevice_t device, int index, nvmlUtilization_t *ret_utilization)
{
	struct nvml_processes processes;
	nvmlUtilization_t sum = {0, 0};
	struct samples samples;
	nvmlReturn_t r = read_samples(device, &samples);

	if (r == NVML_ERROR_NOT_FOUND) { /* nobody computes */
		*ret_utilization = sum;
		return NVML_SUCCESS;
	}
	if (r != NVML_SUCCESS)
		return r;
	r = nvml_processes(index, &processes);
	for (unsigned i = 0; r == NVML_SUCCESS && i < samples.count; i++) {
		if (!nvml_processes_has(&processes, samples.rows[i].pid))
			continue;
		sum.gpu += samples.rows[i].smUtil;
		sum.memory += samples.rows[i].memUtil;
	}
	drop_samples(&samples);
	if (r != NVML_SUCCESS)
		return r;
	nvml_processes_drop(&processes);
	ret_utilization->gpu = sum.gpu < 100 ? sum.gpu : 100;
	ret_utilization->memory = sum.memory < 100 ? sum.memory : 100;
	return NVML_SUCCESS;
}

/* The names of other tenants' programs are hidden. */
nvmlReturn_t hook_nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length)
{
	nvmlReturn_t r = real_nvml(nvmlSystemGetProcessName)(pid, name, length);
	struct nvml_processes processes;
	bool ours = pid == (unsigned)getpid();

	if (r != NVML_SUCCESS && r != NVML_ERROR_INSUFFICIENT_SIZE)
		return r;
	if (state_ready() != CUDA_SUCCESS)
		return NVML_ERROR_UNKNOWN;
	for (int i = 0; state_joined() && !ours && i < (int)atomic_load(&state.devices); i++) {
		if (nvml_processes(i, &processes) != NVML_SUCCESS)
			continue;
		ours = nvml_processes_has(&processes, pid);
		nvml_processes_drop(&processes);
	}
	if (ours || !state_joined())
		return r;
	if (name && length)
		memset(name, 0, length);
	return NVML_ERROR_NOT_FOUND;
}
