/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/gpu/nvml_lab.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MANY = 64 };

void nvml_must(nvmlReturn_t r, const char *call)
{
	if (r == NVML_ERROR_NOT_SUPPORTED)
		claim_needs("the driver does not support it: %s", call);
	if (r != NVML_SUCCESS)
		claim_failed("%s is %d", call, (int)r);
}

nvmlDevice_t nvml_device(void)
{
	nvmlDevice_t device;

	nvml(nvmlInit_v2());
	nvml(nvmlDeviceGetHandleByIndex_v2(0, &device));
	return device;
}

bool nvml_lists(nvmlDevice_t device, pid_t pid, unsigned long long *ret_bytes)
{
	nvmlProcessInfo_t processes[MANY];
	unsigned n = MANY;

	nvml(nvmlDeviceGetComputeRunningProcesses_v3(device, &n, processes));
	for (unsigned i = 0; i < n; i++) {
		if (processes[i].pid != (unsigned)pid)
			continue;
		if (ret_bytes)
			*ret_bytes = processes[i].usedGpuMemory;
		return true;
	}
	return false;
}

unsigned long long nvml_bytes_of(nvmlDevice_t device, pid_t pid)
{
	unsigned long long bytes = 0;

	if (!nvml_lists(device, pid, &bytes))
		claim_failed("process %d is not listed", (int)pid);
	if (bytes == ~0ull)
		claim_needs("a driver that tells processes' memory");
	return bytes;
}

unsigned long long nvml_bytes_of_nobody(nvmlDevice_t device)
{
	nvmlMemory_v2_t memory = {.version = NVML_STRUCT_VERSION(Memory, 2)};
	nvmlProcessInfo_t processes[MANY];
	unsigned long long listed_bytes = 0;
	unsigned n = MANY;

	nvml(nvmlDeviceGetComputeRunningProcesses_v3(device, &n, processes));
	nvml(nvmlDeviceGetMemoryInfo_v2(device, &memory));
	for (unsigned i = 0; i < n; i++)
		listed_bytes += processes[i].usedGpuMemory;
	return memory.used > listed_bytes ? memory.used - listed_bytes : 0;
}

pid_t child_that(void (*act)(void))
{
	int ends[2];
	char byte = 1;
	pid_t child;

	if (pipe(ends) != 0)
		claim_failed("no pipe");
	child = lab_fork();
	if (child == 0) {
		act();
		if (write(ends[1], &byte, 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ends[1]);
	if (read(ends[0], &byte, 1) != 1)
		claim_failed("the second process did not get so far");
	close(ends[0]);
	return child;
}

void end_child(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

void make_context(void)
{
	(void)lab_begin();
}

void keep_busy(void)
{
	enum { KERNELS = 60 };
	struct lab lab = lab_begin();
	unsigned n = 1000; /* 100 ms */
	void *arguments[] = {&n};

	for (int i = 0; i < KERNELS; i++)
		must(lab_launch(lab_kernel(&lab, "sleep"), NULL, arguments));
}
