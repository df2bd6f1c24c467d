/* SPDX-License-Identifier: Apache-2.0 */
/* NVML's answers about a device. */
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "tests/gpu/nvml_lab.h"

enum { GUARD = 64 };

CLAIM(nvml_old_forms_write_no_more_than_they_had)
{
	nvmlDevice_t device = nvml_device();
	union {
		nvmlPciInfo_v2_t info;
		unsigned char bytes[sizeof(nvmlPciInfo_v2_t) + GUARD];
	} pci[2];
	nvmlReturn_t r[2];

	memset(pci, 0xa5, sizeof(pci));
	r[0] = nvmlDeviceGetPciInfo(device, &pci[0].info);
	r[1] = nvmlDeviceGetPciInfo_v2(device, &pci[1].info);
	for (int i = 0; i < 2; i++) {
		if (r[i] != NVML_SUCCESS)
			claim_failed("form %d of nvmlDeviceGetPciInfo is %d", i + 1, (int)r[i]);
		for (size_t at = sizeof(nvmlPciInfo_v2_t); at < sizeof(pci[i]); at++)
			holds(pci[i].bytes[at] == 0xa5, "form %d writes byte %zu", i + 1, at);
	}
}

static void stray(void)
{
	struct lab lab = lab_begin();
	CUdeviceptr nowhere = 64;
	unsigned v = 1;
	void *arguments[] = {&nowhere, &v};

	must(lab_launch(lab_kernel(&lab, "store"), NULL, arguments));
	(void)cuCtxSynchronize();
}

/* For mig.py, which reads the event itself. */
CLAIM_PART(go_astray)
{
	stray();
}

/* By the first form of nvmlEventSetWait, whose data is shorter. */
CLAIM(nvml_reports_an_illegal_address_as_xid)
{
	nvmlDevice_t device = nvml_device();
	union {
		nvmlEventData_v1_t data;
		unsigned char bytes[sizeof(nvmlEventData_v1_t) + GUARD];
	} event;
	nvmlEventSet_t set;
	nvmlReturn_t r;

	memset(&event, 0xa5, sizeof(event));
	nvml(nvmlEventSetCreate(&set));
	nvml(nvmlDeviceRegisterEvents(device, nvmlEventTypeXidCriticalError, set));
	end_child(child_that(stray));
	r = nvmlEventSetWait(set, &event.data, 5000);
	holds(r == NVML_SUCCESS, "no event within 5 s: nvmlEventSetWait is %d", (int)r);
	for (size_t at = sizeof(nvmlEventData_v1_t); at < sizeof(event); at++)
		holds(event.bytes[at] == 0xa5, "the first form of nvmlEventSetWait writes byte %zu",
		      at);
	holds(event.data.device == device && event.data.eventType == nvmlEventTypeXidCriticalError,
	      "an event of type %llx", event.data.eventType);
	holds(event.data.eventData == 13 || event.data.eventData == 31, "Xid %llu",
	      event.data.eventData);
	claim_say("Xid %llu", event.data.eventData);
}

CLAIM(nvml_answers_within_2_s_on_a_sleeping_gpu)
{
	uint64_t from = lab_now_us(), took;
	nvmlDevice_t device = nvml_device();
	nvmlEnableState_t persistent;

	(void)nvml_lists(device, 1, NULL);
	took = lab_now_us() - from;
	nvml(nvmlDeviceGetPersistenceMode(device, &persistent));
	claim_say("%.0f ms", (double)took / 1e3);
	if (persistent == NVML_FEATURE_ENABLED)
		claim_needs("a GPU without persistence mode (nvidia-smi -pm 0) that nobody uses; "
			    "%.0f ms with it",
			    (double)took / 1e3);
	holds(took < 2000000, "%.0f ms", (double)took / 1e3);
}

CLAIM(nvml_numbers_the_buss_highest_speed_and_names_the_present_one)
{
	nvmlDevice_t device = nvml_device();
	unsigned number = 0, mbps = 0, generation = 0;

	nvml(nvmlDeviceGetPcieLinkMaxSpeed(device, &number));
	nvml(nvmlDeviceGetMaxPcieLinkGeneration(device, &generation));
	nvml(nvmlDeviceGetPcieSpeed(device, &mbps));
	holds(number >= generation && number <= NVML_PCIE_LINK_MAX_SPEED_64000MBPS,
	      "the highest speed of generation %u is %u", generation, number);
	holds(mbps >= 2500, "the present speed is %u", mbps);
	claim_say("generation %u: number %u, %u MBPS now", generation, number, mbps);
}

CLAIM(nvml_minor_number_is_that_of_the_device_file)
{
	nvmlDevice_t device = nvml_device();
	nvmlPciInfo_t pci;
	struct stat about;
	char path[128], line[128];
	unsigned minor_number, told = ~0u;
	FILE *information;

	nvml(nvmlDeviceGetMinorNumber(device, &minor_number));
	snprintf(path, sizeof(path), "/dev/nvidia%u", minor_number);
	if (stat(path, &about) != 0)
		claim_needs("the device file: there is no %s", path);
	holds(minor(about.st_rdev) == minor_number, "%s has the minor number %u", path,
	      minor(about.st_rdev));
	nvml(nvmlDeviceGetPciInfo_v3(device, &pci));
	snprintf(path, sizeof(path), "/proc/driver/nvidia/gpus/%04x:%02x:%02x.0/information",
		 pci.domain, pci.bus, pci.device);
	information = fopen(path, "r");
	if (!information)
		claim_needs("the kernel module's word: there is no %s", path);
	while (fgets(line, sizeof(line), information))
		if (sscanf(line, "Device Minor: %u", &told) == 1)
			break;
	fclose(information);
	holds(told == minor_number, "NVML says %u, the kernel module %u", minor_number, told);
}

CLAIM(nvml_reserved_is_what_nobody_gets)
{
	struct lab lab = lab_begin();
	nvmlDevice_t device = nvml_device();
	nvmlMemory_v2_t memory;
	size_t bytes = 1024 * MiB;
	unsigned long long mine, missing;
	CUdeviceptr at;

	(void)lab;
	for (; bytes >= 2 * MiB; bytes /= 2)
		while (cuMemAlloc_v2(&at, bytes) == CUDA_SUCCESS)
			;
	memset(&memory, 0, sizeof(memory));
	memory.version = (unsigned)(sizeof(memory) | 2 << 24);
	nvml(nvmlDeviceGetMemoryInfo_v2(device, &memory));
	mine = nvml_bytes_of(device, getpid());
	if (memory.used > mine + 16 * MiB)
		claim_needs("a device that nobody else uses: %llu MiB are others'",
			    (memory.used - mine) >> 20);
	holds(memory.total - memory.reserved >= mine,
	      "%llu bytes were had, reserved are %llu of %llu", mine, memory.reserved,
	      memory.total);
	missing = memory.total - memory.reserved - mine;
	holds(missing < 64 * MiB, "%llu MiB more than what is reserved are not had", missing >> 20);
	claim_say("reserved %llu MiB; %llu MiB more were not had", memory.reserved >> 20,
		  missing >> 20);
}

static unsigned utilisation(nvmlDevice_t device)
{
	nvmlUtilization_t rates;

	nvml(nvmlDeviceGetUtilizationRates(device, &rates));
	return rates.gpu;
}

CLAIM(nvml_utilisation_is_the_busy_part_of_the_last_sixth_of_a_second)
{
	nvmlDevice_t device;
	pid_t child;
	unsigned busy, idle;

	lab_needs_real_time();
	device = nvml_device();
	child = child_that(keep_busy);
	usleep(1200000); /* several of its periods: the figure itself is the claim */
	busy = utilisation(device);
	end_child(child);
	usleep(1200000);
	idle = utilisation(device);
	holds(busy >= 95, "%u %% while a kernel runs", busy);
	holds(idle <= 5, "%u %% while nothing runs", idle);
}
