/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated management library as its clients see it, with processes that use the device. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "cuda/nvml.h"
#include "cuda/nvml_prototypes.h"
#include "sim/machine/clock.h"
#include "sim/machine/device.h"
#include "sim/machine/engine.h"
#include "sim/machine/share.h"
#include "tests/sim_folder.h"
#include "tests/system/sim_child.h"
#include "tests/test.h"

#define GIB (1ULL << 30)

enum { KEPT = 72 }; /* METE_SIM_SAMPLES_KEPT */

/* The test's own copy of the bottom plays CUDA's part; the library has another one. One node for
 * all tests: the library stays on it. */
static nvmlDevice_t given(void)
{
	static bool made;
	nvmlDevice_t device;

	if (!made) {
		made = true;
		sim_folder_make();
		atexit(sim_folder_remove);
		setenv("METE_SIM_DEVICES", "2xH200,2xT4", 1);
		setenv("METE_SIM_RESERVED", "1GiB", 1);
		expect_eq(segment_join(), 0);
		expect_eq(nvmlDeviceGetHandleByIndex_v2(0, &device), NVML_ERROR_UNINITIALIZED);
		expect_eq(nvmlInit_v2(), NVML_SUCCESS);
	}
	expect_eq(nvmlDeviceGetHandleByIndex_v2(0, &device), NVML_SUCCESS);
	return device;
}

/* A process with a context and 3 GiB on device 0, which answers when it has them. */
static void hold_3_gib(const char *nothing)
{
	(void)nothing;
	device_count_context(0, 1);
	check(device_take(0, 3 * GIB) == 0);
}

static pid_t start_tenant(void)
{
	return start_child(hold_3_gib, NULL);
}

TEST(every_name_of_the_header_is_exported)
{
	given();
	for (size_t i = 0; i < NVML_ROWS; i++)
		expect(dlsym(RTLD_DEFAULT, nvml_symbol(&nvml_rows[i])) != NULL);
}

TEST(functions_that_are_not_simulated_say_so)
{
	nvmlReturn_t (*missing)(nvmlDevice_t) =
		(nvmlReturn_t(*)(nvmlDevice_t))dlsym(RTLD_DEFAULT, "nvmlDeviceClearEccErrorCounts");

	expect(missing != NULL);
	expect_eq(missing(given()), NVML_ERROR_NOT_SUPPORTED);
}

TEST(memory_is_the_books_and_the_old_form_counts_reserved_memory)
{
	nvmlMemory_v2_t memory = {.version = NVML_STRUCT_VERSION(Memory, 2)};
	nvmlDevice_t device = given();
	nvmlMemory_t old;
	pid_t tenant = start_tenant();

	expect_eq(nvmlDeviceGetMemoryInfo_v2(device, &memory), NVML_SUCCESS);
	expect_eq(memory.total, 143771ULL << 20);
	expect_eq(memory.reserved, GIB);
	expect_eq(memory.used, 3 * GIB);
	expect_eq(memory.free, memory.total - 4 * GIB);
	expect_eq(nvmlDeviceGetMemoryInfo(device, &old), NVML_SUCCESS);
	expect_eq(old.used, 4 * GIB);
	expect_eq(old.total, memory.total);
	end_child(tenant);
	expect_eq(nvmlDeviceGetMemoryInfo_v2(device, &memory), NVML_SUCCESS);
	expect_eq(memory.used, 0);
	memory.version = 7;
	expect_eq(nvmlDeviceGetMemoryInfo_v2(device, &memory),
		  NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
}

TEST(processes_are_listed_in_the_form_that_each_version_has)
{
	nvmlDevice_t device = given(), other;
	nvmlProcessInfo_v1_t old[4];
	nvmlProcessInfo_t infos[4];
	unsigned int count = 4;
	pid_t first = start_tenant(), second = start_tenant();
	char name[4096];

	memset(old, 0x55, sizeof(old));
	expect_eq(nvmlDeviceGetComputeRunningProcesses(device, &count, old), NVML_SUCCESS);
	expect_eq(count, 2);
	expect_eq(old[0].pid + old[1].pid, first + second);
	expect_eq(old[0].usedGpuMemory, 3 * GIB);
	expect_eq(old[2].pid, 0x55555555); /* nothing is written behind the last */
	expect_eq(sizeof(old[0]), 16);
	count = 4;
	expect_eq(nvmlDeviceGetComputeRunningProcesses_v2(device, &count, infos), NVML_SUCCESS);
	expect_eq(count, 2);
	count = 4;
	expect_eq(nvmlDeviceGetComputeRunningProcesses_v3(device, &count, infos), NVML_SUCCESS);
	expect_eq(count, 2);
	expect_eq(infos[1].usedGpuMemory, 3 * GIB);
	expect_eq(infos[1].gpuInstanceId, 0xffffffff);
	expect_eq(sizeof(infos[0]), 24);
	/* Too small: how many there are. */
	count = 1;
	expect_eq(nvmlDeviceGetComputeRunningProcesses_v3(device, &count, infos),
		  NVML_ERROR_INSUFFICIENT_SIZE);
	expect_eq(count, 2);
	count = 0;
	expect_eq(nvmlDeviceGetComputeRunningProcesses_v3(device, &count, NULL),
		  NVML_ERROR_INSUFFICIENT_SIZE);
	expect_eq(count, 2);
	count = 4;
	expect_eq(nvmlDeviceGetGraphicsRunningProcesses_v3(device, &count, infos), NVML_SUCCESS);
	expect_eq(count, 0);
	count = 4;
	expect_eq(nvmlDeviceGetHandleByIndex_v2(1, &other), NVML_SUCCESS);
	expect_eq(nvmlDeviceGetComputeRunningProcesses_v3(other, &count, infos), NVML_SUCCESS);
	expect_eq(count, 0);
	expect_eq(nvmlSystemGetProcessName((unsigned)first, name, sizeof(name)), NVML_SUCCESS);
	expect(strstr(name, "sim_nvml") != NULL);
	end_child(first);
	end_child(second);
}

/* A process that has exported 3 GiB on device 0: their share's id. */
static pid_t start_maker(uint64_t *ret_share)
{
	uint64_t share;
	int pipes[2];
	pid_t pid;

	expect_eq(pipe(pipes), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (device_take(0, 3 * GIB) != 0 || share_make(0, 3 * GIB, &share) != 0 ||
		    write(pipes[1], &share, sizeof(share)) != sizeof(share))
			_exit(1);
		for (;;)
			pause();
	}
	close(pipes[1]);
	expect_eq(read(pipes[0], ret_share, sizeof(*ret_share)), sizeof(*ret_share));
	close(pipes[0]);
	return pid;
}

TEST(exported_memory_is_its_makers_and_then_nobodys)
{
	nvmlMemory_v2_t memory = {.version = NVML_STRUCT_VERSION(Memory, 2)};
	nvmlDevice_t device = given();
	nvmlProcessInfo_t infos[4];
	unsigned int count = 4;
	uint64_t share;
	pid_t maker = start_maker(&share);

	expect_eq(share_join(0, 3 * GIB, &share), 0);
	expect_eq(nvmlDeviceGetComputeRunningProcesses_v3(device, &count, infos), NVML_SUCCESS);
	expect_eq(count, 1);
	expect_eq(infos[0].pid, maker);
	expect_eq(infos[0].usedGpuMemory, 3 * GIB);
	end_child(maker);
	count = 4;
	expect_eq(nvmlDeviceGetComputeRunningProcesses_v3(device, &count, infos), NVML_SUCCESS);
	expect_eq(count, 0);
	expect_eq(nvmlDeviceGetMemoryInfo_v2(device, &memory), NVML_SUCCESS);
	expect_eq(memory.used, 3 * GIB);
	share_leave(0, share);
	expect_eq(nvmlDeviceGetMemoryInfo_v2(device, &memory), NVML_SUCCESS);
	expect_eq(memory.used, 0);
}

TEST(devices_are_found_by_all_of_their_names)
{
	nvmlDevice_t device = given(), found;
	nvmlPciInfo_t pci;
	char uuid[80], serial[30], name[64];
	unsigned int index;

	expect_eq(nvmlDeviceGetHandleByIndex_v2(2, &device), NVML_SUCCESS);
	expect_eq(nvmlDeviceGetHandleByIndex_v2(4, &found), NVML_ERROR_INVALID_ARGUMENT);
	expect_eq(nvmlDeviceGetUUID(device, uuid, sizeof(uuid)), NVML_SUCCESS);
	expect_eq(nvmlDeviceGetUUID(device, uuid, 40), NVML_ERROR_INSUFFICIENT_SIZE);
	expect_eq(nvmlDeviceGetHandleByUUID(uuid, &found), NVML_SUCCESS);
	expect(found == device);
	expect_eq(nvmlDeviceGetHandleByUUID("GPU-0", &found), NVML_ERROR_NOT_FOUND);
	expect_eq(nvmlDeviceGetPciInfo_v3(device, &pci), NVML_SUCCESS);
	expect_eq(nvmlDeviceGetHandleByPciBusId_v2(pci.busId, &found), NVML_SUCCESS);
	expect(found == device);
	expect_eq(nvmlDeviceGetHandleByPciBusId(pci.busIdLegacy, &found), NVML_SUCCESS);
	expect(found == device);
	expect_eq(nvmlDeviceGetHandleByPciBusId_v2("0000:00:00.0", &found), NVML_ERROR_NOT_FOUND);
	expect_eq(nvmlDeviceGetHandleByPciBusId_v2("nonsense", &found),
		  NVML_ERROR_INVALID_ARGUMENT);
	expect_eq(nvmlDeviceGetSerial(device, serial, sizeof(serial)), NVML_SUCCESS);
	expect_eq(nvmlDeviceGetHandleBySerial(serial, &found), NVML_SUCCESS);
	expect(found == device);
	expect_eq(nvmlDeviceGetIndex(device, &index), NVML_SUCCESS);
	expect_eq(index, 2);
	expect_eq(nvmlDeviceGetName(device, name, sizeof(name)), NVML_SUCCESS);
	expect_str(name, "Tesla T4");
}

TEST(there_is_one_performance_state)
{
	nvmlDevice_t device = given();
	nvmlPstates_t states[4];
	nvmlGpuDynamicPstatesInfo_t info;
	nvmlUtilization_t rates;
	unsigned int least = 1, most = 2, clock = 3, speed = 0;

	expect_eq(nvmlDeviceGetSupportedPerformanceStates(device, states, sizeof(states)),
		  NVML_SUCCESS);
	expect_eq(states[0], NVML_PSTATE_0);
	expect_eq(states[3], NVML_PSTATE_UNKNOWN);
	expect_eq(nvmlDeviceGetSupportedPerformanceStates(device, states, 3),
		  NVML_ERROR_INSUFFICIENT_SIZE);
	expect_eq(nvmlDeviceGetMaxClockInfo(device, NVML_CLOCK_MEM, &clock), NVML_SUCCESS);
	expect_eq(nvmlDeviceGetMinMaxClockOfPState(device, NVML_CLOCK_MEM, NVML_PSTATE_0, &least,
						   &most),
		  NVML_SUCCESS);
	expect_eq(least, clock);
	expect_eq(most, clock);
	expect_eq(nvmlDeviceGetMinMaxClockOfPState(device, NVML_CLOCK_MEM, NVML_PSTATE_8, &least,
						   &most),
		  NVML_ERROR_NOT_SUPPORTED);
	expect_eq(nvmlDeviceGetUtilizationRates(device, &rates), NVML_SUCCESS);
	memset(&info, 0x55, sizeof(info));
	expect_eq(nvmlDeviceGetDynamicPstatesInfo(device, &info), NVML_SUCCESS);
	expect_eq(info.utilization[0].bIsPresent, 1);
	expect_eq(info.utilization[2].bIsPresent, 0);
	expect_eq(nvmlDeviceGetPcieSpeed(device, &speed), NVML_SUCCESS);
	expect_eq(speed, 32000); /* an H200 is of the fifth generation */
	expect_eq(nvmlDeviceGetPcieLinkMaxSpeed(device, &speed), NVML_SUCCESS);
	expect_eq(speed, NVML_PCIE_LINK_MAX_SPEED_32000MBPS);
}

TEST(devices_are_beside_each_other_and_all_processors)
{
	nvmlDevice_t device = given(), others[4], found;
	unsigned long node[16], all[16];
	nvmlUUID_t uuid = {.version = NVML_STRUCT_VERSION(UUID, 1), .type = NVML_UUID_TYPE_ASCII};
	unsigned int count = 0;

	expect_eq(nvmlDeviceGetTopologyNearestGpus(device, NVML_TOPOLOGY_NODE, &count, NULL),
		  NVML_SUCCESS);
	expect_eq(count, 3);
	expect_eq(nvmlDeviceGetTopologyNearestGpus(device, NVML_TOPOLOGY_NODE, &count, others),
		  NVML_SUCCESS);
	expect(others[0] != device && others[2] != others[1]);
	count = 1;
	expect_eq(nvmlDeviceGetTopologyNearestGpus(device, NVML_TOPOLOGY_NODE, &count, others),
		  NVML_SUCCESS);
	expect_eq(count, 1);
	expect_eq(nvmlDeviceGetTopologyNearestGpus(device, NVML_TOPOLOGY_NODE, &count, NULL),
		  NVML_ERROR_INVALID_ARGUMENT);
	count = 0;
	expect_eq(nvmlDeviceGetTopologyNearestGpus(device, NVML_TOPOLOGY_SINGLE, &count, NULL),
		  NVML_SUCCESS);
	expect_eq(count, 0);
	expect_eq(nvmlDeviceGetTopologyNearestGpus(device, 7, &count, NULL),
		  NVML_ERROR_INVALID_ARGUMENT);
	expect_eq(nvmlSystemGetTopologyGpuSet(0, &count, NULL), NVML_SUCCESS);
	expect_eq(count, 4);
	expect_eq(nvmlSystemGetTopologyGpuSet(1u << 30, &count, NULL), NVML_ERROR_INVALID_ARGUMENT);
	expect_eq(nvmlDeviceGetCpuAffinity(device, 16, all), NVML_SUCCESS);
	expect_eq(nvmlDeviceGetCpuAffinityWithinScope(device, 16, node, NVML_AFFINITY_SCOPE_NODE),
		  NVML_SUCCESS);
	expect_eq(memcmp(all, node, sizeof(all)), 0);
	expect_eq(nvmlDeviceGetCpuAffinityWithinScope(device, 16, node, 7),
		  NVML_ERROR_INVALID_ARGUMENT);
	expect_eq(nvmlDeviceSetCpuAffinity(device), NVML_SUCCESS);
	expect_eq(nvmlDeviceClearCpuAffinity(device), NVML_SUCCESS);
	expect_eq(nvmlDeviceGetUUID(device, uuid.value.str, sizeof(uuid.value.str)), NVML_SUCCESS);
	expect_eq(nvmlDeviceGetHandleByUUIDV(&uuid, &found), NVML_SUCCESS);
	expect(found == device);
	uuid.type = NVML_UUID_TYPE_BINARY;
	device_uuid(1, uuid.value.bytes);
	expect_eq(nvmlDeviceGetHandleByUUIDV(&uuid, &found), NVML_SUCCESS);
	expect(found != device);
	uuid.version = 3;
	expect_eq(nvmlDeviceGetHandleByUUIDV(&uuid, &found), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
}

TEST(garbage_is_refused)
{
	nvmlDevice_t device = given();
	unsigned int value;

	expect_eq(nvmlDeviceGetIndex(NULL, &value), NVML_ERROR_INVALID_ARGUMENT);
	expect_eq(nvmlDeviceGetIndex((nvmlDevice_t)(uintptr_t)0x1234, &value),
		  NVML_ERROR_INVALID_ARGUMENT);
	expect_eq(nvmlDeviceGetIndex((nvmlDevice_t)((char *)device + 1), &value),
		  NVML_ERROR_INVALID_ARGUMENT);
	expect_eq(nvmlDeviceGetIndex(device, NULL), NVML_ERROR_INVALID_ARGUMENT);
	expect_eq(nvmlDeviceGetPowerUsage(device, NULL), NVML_ERROR_INVALID_ARGUMENT);
	expect_eq(nvmlDeviceGetComputeRunningProcesses_v3(device, NULL, NULL),
		  NVML_ERROR_INVALID_ARGUMENT);
	expect_eq(nvmlEventSetFree(NULL), NVML_ERROR_INVALID_ARGUMENT);
	expect_str(nvmlErrorString(NVML_ERROR_UNINITIALIZED), "nvmlInit has not been called");
	expect_str(nvmlErrorString((nvmlReturn_t)500), "an error of no known kind");
}

TEST(versions_follow_the_drivers)
{
	char text[80];
	int version;

	given();
	expect_eq(nvmlSystemGetDriverVersion(text, sizeof(text)), NVML_SUCCESS);
	expect(strncmp(text, "575.", 4) == 0);
	expect_eq(nvmlSystemGetNVMLVersion(text, sizeof(text)), NVML_SUCCESS);
	expect(strncmp(text, "12.575.", 7) == 0);
	expect_eq(nvmlSystemGetCudaDriverVersion_v2(&version), NVML_SUCCESS);
	expect_eq(version, 12090);
}

static void *post(void *arg)
{
	/* Long after the waiter has begun, as a rule; right in any order. */
	best_effort(clock_wait_until(clock_now_ns() + 20000000, NULL, 0));
	device_xid(1, (uintptr_t)arg);
	return NULL;
}

TEST(events_wake_threads_that_wait_for_them)
{
	nvmlDevice_t device = given(), other;
	nvmlEventData_t data = {0};
	nvmlEventSet_t set;
	pthread_t thread;

	expect_eq(nvmlDeviceGetHandleByIndex_v2(1, &other), NVML_SUCCESS);
	device_xid(1, 13); /* before: not reported */
	expect_eq(nvmlEventSetCreate(&set), NVML_SUCCESS);
	expect_eq(nvmlDeviceRegisterEvents(device, nvmlEventTypeXidCriticalError, set),
		  NVML_SUCCESS);
	expect_eq(nvmlDeviceRegisterEvents(other, nvmlEventTypeXidCriticalError, set),
		  NVML_SUCCESS);
	expect_eq(nvmlEventSetWait_v2(set, &data, 0), NVML_ERROR_TIMEOUT);
	expect_eq(pthread_create(&thread, NULL, post, (void *)(uintptr_t)31), 0);
	expect_eq(nvmlEventSetWait_v2(set, &data, 60000), NVML_SUCCESS);
	expect_eq(pthread_join(thread, NULL), 0);
	expect(data.device == other);
	expect_eq(data.eventType, nvmlEventTypeXidCriticalError);
	expect_eq(data.eventData, 31);
	expect_eq(nvmlEventSetWait_v2(set, &data, 1), NVML_ERROR_TIMEOUT);
	/* Not asked for: the corrected one. Its uncorrected sister brings Xid 48. */
	device_ecc_error(0, true);
	device_ecc_error(0, false);
	expect_eq(nvmlEventSetWait_v2(set, &data, 60000), NVML_SUCCESS);
	expect(data.device == device);
	expect_eq(data.eventData, 48);
	expect_eq(nvmlEventSetFree(set), NVML_SUCCESS);
}

static void compute(uint64_t total_ns)
{
	uint64_t end_ns = clock_now_ns(), start_ns = end_ns;

	while (end_ns < start_ns + total_ns) {
		struct engine_ticket ticket;

		engine_kernel_begin(0, 0, end_ns, 0, &ticket);
		expect_eq(engine_kernel_end(&ticket, 5000000, &end_ns, NULL), 0);
	}
}

TEST(samples_need_room_for_all_that_the_driver_keeps)
{
	nvmlProcessUtilizationSample_t processes[KEPT];
	nvmlProcessesUtilizationInfo_t info = {
		.version = NVML_STRUCT_VERSION(ProcessesUtilizationInfo, 1)};
	nvmlDevice_t device = given();
	unsigned int count = 0;

	expect_eq(nvmlDeviceGetProcessUtilization(device, NULL, &count, 0),
		  NVML_ERROR_INSUFFICIENT_SIZE);
	expect_eq(count, KEPT);
	count = KEPT - 1;
	expect_eq(nvmlDeviceGetProcessUtilization(device, processes, &count, 0),
		  NVML_ERROR_INSUFFICIENT_SIZE);
	expect_eq(count, KEPT);
	expect_eq(nvmlDeviceGetProcessUtilization(device, processes, &count, UINT64_MAX),
		  NVML_ERROR_NOT_FOUND);
	expect_eq(nvmlDeviceGetProcessesUtilizationInfo(device, &info),
		  NVML_ERROR_INSUFFICIENT_SIZE);
	expect_eq(info.processSamplesCount, KEPT);
}

TEST(utilisation_has_the_process_and_the_time)
{
	nvmlProcessUtilizationSample_t processes[KEPT];
	nvmlDevice_t device = given();
	nvmlUtilization_t rates;
	nvmlValueType_t type;
	nvmlSample_t samples[64];
	unsigned int count = KEPT, busiest = 0;
	unsigned long long energy[2];

	device_count_context(0, 1);
	expect_eq(nvmlDeviceGetTotalEnergyConsumption(device, &energy[0]), NVML_SUCCESS);
	compute(400000000); /* two whole periods at least */
	expect_eq(nvmlDeviceGetProcessUtilization(device, processes, &count, 0), NVML_SUCCESS);
	expect_eq(count, 1);
	expect_eq(processes[0].pid, getpid());
	expect(processes[0].smUtil > 0 && processes[0].smUtil <= 100);
	/* Nothing newer than what was seen, but for a period that has ended since. */
	expect(processes[0].timeStamp / 1000000 <= (unsigned long long)time(NULL) + 1);
	expect(processes[0].timeStamp / 1000000 + 60 >= (unsigned long long)time(NULL));
	count = KEPT;
	expect_eq(nvmlDeviceGetProcessUtilization(device, processes, &count,
						  processes[0].timeStamp + 60000000),
		  NVML_ERROR_NOT_FOUND);
	count = ARRAY_SIZE(samples);
	expect_eq(nvmlDeviceGetSamples(device, NVML_GPU_UTILIZATION_SAMPLES, 0, &type, &count,
				       samples),
		  NVML_SUCCESS);
	expect(count > 0);
	expect_eq(type, NVML_VALUE_TYPE_UNSIGNED_INT);
	for (unsigned i = 0; i < count; i++)
		if (samples[i].sampleValue.uiVal > busiest)
			busiest = samples[i].sampleValue.uiVal;
	expect_eq(busiest, 100);
	expect_eq(nvmlDeviceGetUtilizationRates(device, &rates), NVML_SUCCESS);
	expect(rates.gpu <= 100);
	expect_eq(nvmlDeviceGetTotalEnergyConsumption(device, &energy[1]), NVML_SUCCESS);
	/* 0.4 s at 700 W are 280 J */
	expect(energy[1] - energy[0] >= 200000);
	device_count_context(0, -1);
}

TEST(a_lost_device_is_lost_but_can_be_named)
{
	nvmlDevice_t t4 = given();
	unsigned int value;
	char uuid[80];

	expect_eq(nvmlDeviceGetHandleByIndex_v2(3, &t4), NVML_SUCCESS);
	device_lose(3);
	expect_eq(nvmlDeviceGetPowerUsage(t4, &value), NVML_ERROR_GPU_IS_LOST);
	expect_eq(nvmlDeviceGetUUID(t4, uuid, sizeof(uuid)), NVML_SUCCESS);
	expect_eq(nvmlDeviceGetIndex(t4, &value), NVML_SUCCESS);
	expect_eq(value, 3);
}
