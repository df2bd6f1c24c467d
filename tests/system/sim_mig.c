/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs that MIG divides, as clients of the simulated management library and driver see them. */
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "cuda/nvml_prototypes.h"
#include "cuda/prototypes.h"
#include "sim/machine/device.h"
#include "sim/machine/engine.h"
#include "sim/machine/part_files.h"
#include "sim/machine/parts.h"
#include "tests/check.h"
#include "tests/sim_folder.h"
#include "tests/system/sim_child.h"
#include "tests/test.h"

#define MIB (1ULL << 20)

enum { ONE = 19, ONE_MEDIA = 20, ONE_LARGE = 15, TWO = 14, THREE = 9, FOUR = 5, SEVEN = 0 };

static void remove_files(void)
{
	part_files_clear(getenv("METE_SIM_DIR"));
}

/* The test's own copy of the bottom plays CUDA's part. One node for all tests. */
static nvmlDevice_t gpu(unsigned index)
{
	static bool made;
	nvmlDevice_t device;

	if (!made) {
		made = true;
		sim_folder_make();
		atexit(sim_folder_remove);
		atexit(remove_files);
		setenv("METE_SIM_DEVICES", "2xH100,1xSIM,1xA100", 1);
		setenv("METE_SIM_PARTS", "1:1g.10gb;3:3g.40gb,1g.10gb", 1);
		expect_eq(segment_join(), 0);
		expect_eq(nvmlInit_v2(), NVML_SUCCESS);
	}
	expect_eq(nvmlDeviceGetHandleByIndex_v2(index, &device), NVML_SUCCESS);
	return device;
}

static void set_mode(nvmlDevice_t device, unsigned mode, nvmlReturn_t wanted)
{
	nvmlReturn_t activation;

	expect_eq(nvmlDeviceSetMigMode(device, mode, &activation), NVML_SUCCESS);
	expect_eq(activation, wanted);
}

static nvmlGpuInstance_t make_at(nvmlDevice_t device, unsigned profile, unsigned start)
{
	nvmlGpuInstancePlacement_t place = {start, 0};
	nvmlGpuInstance_t instance;

	expect_eq(nvmlDeviceCreateGpuInstanceWithPlacement(device, profile, &place, &instance),
		  NVML_SUCCESS);
	return instance;
}

static nvmlComputeInstance_t complete(nvmlGpuInstance_t instance, unsigned kind)
{
	nvmlComputeInstanceProfileInfo_t profile;
	nvmlComputeInstance_t compute;

	expect_eq(nvmlGpuInstanceGetComputeInstanceProfileInfo(
			  instance, kind, NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED, &profile),
		  NVML_SUCCESS);
	expect_eq(nvmlGpuInstanceCreateComputeInstance(instance, profile.id, &compute),
		  NVML_SUCCESS);
	return compute;
}

static nvmlDevice_t device_of(nvmlComputeInstance_t compute)
{
	nvmlComputeInstanceInfo_t info;

	expect_eq(nvmlComputeInstanceGetInfo_v2(compute, &info), NVML_SUCCESS);
	return info.device;
}

/* All parts of a GPU go, and the mode. */
static void clear(nvmlDevice_t device)
{
	static const unsigned profiles[] = {ONE, ONE_MEDIA, ONE_LARGE, TWO, THREE, FOUR, SEVEN};
	nvmlGpuInstance_t instances[7];
	nvmlComputeInstance_t compute;
	unsigned count;

	for (size_t i = 0; i < ARRAY_SIZE(profiles); i++) {
		expect_eq(nvmlDeviceGetGpuInstances(device, profiles[i], instances, &count),
			  NVML_SUCCESS);
		for (unsigned k = 0; k < count; k++) {
			if (nvmlGpuInstanceGetComputeInstanceById(instances[k], 0, &compute) ==
			    NVML_SUCCESS)
				expect_eq(nvmlComputeInstanceDestroy(compute), NVML_SUCCESS);
			expect_eq(nvmlGpuInstanceDestroy(instances[k]), NVML_SUCCESS);
		}
	}
	set_mode(device, NVML_DEVICE_MIG_DISABLE, NVML_SUCCESS);
}

/* Work of processes of their own. */
static void hold_8_gib(const char *uuid)
{
	check(device_show(uuid) == 0 && device_count() == 1);
	device_count_context(0, 1);
	check(device_take(0, 8192 * MIB) == 0);
}

/* A kernel that never ends. */
static void hang(const char *uuid)
{
	static struct engine_ticket ticket;

	check(device_show(uuid) == 0 && device_count() == 1);
	device_count_context(0, 1);
	engine_kernel_begin(0, 1, 0, UINT64_MAX / 4, &ticket);
	check(ticket.id != 0);
}

TEST(a_model_offers_no_part_that_it_cannot_make)
{
	nvmlGpuInstanceProfileInfo_t info;
	unsigned now, later;

	expect_eq(nvmlDeviceGetMigMode(gpu(2), &now, &later), NVML_ERROR_NOT_SUPPORTED);
	expect_eq(nvmlDeviceGetGpuInstanceProfileInfo(gpu(2), 0, &info), NVML_ERROR_NOT_SUPPORTED);
	expect_eq(nvmlDeviceGetMigMode(gpu(0), &now, &later), NVML_SUCCESS);
	expect_eq(now, NVML_DEVICE_MIG_DISABLE);
}

TEST(profiles_and_placements_are_those_of_the_model)
{
	nvmlGpuInstanceProfileInfo_v2_t info = {
		.version = NVML_STRUCT_VERSION(GpuInstanceProfileInfo, 2)};
	nvmlGpuInstancePlacement_t places[8];
	unsigned count = 0;

	expect_eq(nvmlDeviceGetGpuInstanceProfileInfoV(gpu(0), NVML_GPU_INSTANCE_PROFILE_3_SLICE,
						       &info),
		  NVML_SUCCESS);
	expect_str(info.name, "3g.40gb");
	expect_eq(info.id, THREE);
	expect_eq(info.instanceCount, 2);
	expect_eq(info.sliceCount, 3);
	set_mode(gpu(0), NVML_DEVICE_MIG_ENABLE, NVML_SUCCESS);
	expect_eq(nvmlDeviceGetGpuInstancePossiblePlacements_v2(gpu(0), THREE, NULL, &count),
		  NVML_SUCCESS);
	expect_eq(count, 2);
	expect_eq(nvmlDeviceGetGpuInstancePossiblePlacements_v2(gpu(0), THREE, places, &count),
		  NVML_SUCCESS);
	expect_eq(places[1].start, 4);
	expect_eq(places[1].size, 4);
	clear(gpu(0));
}

TEST(parts_lie_side_by_side_and_nowhere_twice)
{
	nvmlDevice_t device = gpu(0);
	nvmlGpuInstancePlacement_t place = {4, 4};
	nvmlGpuInstance_t instance;
	nvmlGpuInstanceInfo_t info;
	unsigned count;

	expect_eq(nvmlDeviceCreateGpuInstance(device, ONE, &instance), NVML_ERROR_NOT_SUPPORTED);
	set_mode(device, NVML_DEVICE_MIG_ENABLE, NVML_SUCCESS);
	instance = make_at(device, THREE, 4);
	expect_eq(nvmlGpuInstanceGetInfo(instance, &info), NVML_SUCCESS);
	expect(info.id == 2 && info.profileId == THREE && info.placement.start == 4);
	expect_eq(nvmlDeviceCreateGpuInstanceWithPlacement(device, THREE, &place, &instance),
		  NVML_ERROR_INSUFFICIENT_RESOURCES);
	place.start = 1;
	expect_eq(nvmlDeviceCreateGpuInstanceWithPlacement(device, THREE, &place, &instance),
		  NVML_ERROR_INVALID_ARGUMENT);
	expect_eq(nvmlDeviceGetGpuInstanceRemainingCapacity(device, ONE, &count), NVML_SUCCESS);
	expect_eq(count, 4);
	make_at(device, ONE_MEDIA, 3);
	expect_eq(nvmlDeviceCreateGpuInstance(device, ONE_MEDIA, &instance),
		  NVML_ERROR_INSUFFICIENT_RESOURCES);
	for (unsigned i = 0; i < 3; i++)
		expect_eq(nvmlDeviceCreateGpuInstance(device, ONE, &instance), NVML_SUCCESS);
	expect_eq(nvmlDeviceCreateGpuInstance(device, ONE, &instance),
		  NVML_ERROR_INSUFFICIENT_RESOURCES);
	set_mode(device, NVML_DEVICE_MIG_DISABLE, NVML_ERROR_IN_USE);
	clear(device);
}

TEST(a_part_is_a_device_of_its_own)
{
	nvmlDevice_t device = gpu(0), part, found;
	nvmlDeviceAttributes_t attributes;
	char uuid[80], name[96];
	nvmlMemory_t memory;
	unsigned value;

	set_mode(device, NVML_DEVICE_MIG_ENABLE, NVML_SUCCESS);
	make_at(device, FOUR, 0);
	expect_eq(nvmlDeviceGetMigDeviceHandleByIndex(device, 0, &part), NVML_ERROR_NOT_FOUND);
	part = device_of(complete(make_at(device, ONE, 6), NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE));
	expect_eq(nvmlDeviceGetMigDeviceHandleByIndex(device, 0, &found), NVML_SUCCESS);
	expect(found == part);
	expect_eq(nvmlDeviceGetName(part, name, sizeof(name)), NVML_SUCCESS);
	expect_str(name, "NVIDIA H100 80GB HBM3 MIG 1g.10gb");
	expect_eq(nvmlDeviceGetUUID(part, uuid, sizeof(uuid)), NVML_SUCCESS);
	expect(strncmp(uuid, "MIG-", 4) == 0);
	expect_eq(nvmlDeviceGetHandleByUUID(uuid, &found), NVML_SUCCESS);
	expect(found == part);
	expect_eq(nvmlDeviceGetMemoryInfo(part, &memory), NVML_SUCCESS);
	expect_eq(memory.total, 9984 * MIB);
	expect_eq(nvmlDeviceGetAttributes_v2(part, &attributes), NVML_SUCCESS);
	expect(attributes.multiprocessorCount == 16 && attributes.gpuInstanceSliceCount == 1 &&
	       attributes.memorySizeMB == 9984);
	expect_eq(nvmlDeviceGetGpuInstanceId(part, &value), NVML_SUCCESS);
	expect_eq(value, 13);
	expect_eq(nvmlDeviceGetComputeInstanceId(part, &value), NVML_SUCCESS);
	expect_eq(value, 0);
	expect_eq(nvmlDeviceIsMigDeviceHandle(part, &value), NVML_SUCCESS);
	expect_eq(value, 1);
	expect_eq(nvmlDeviceGetDeviceHandleFromMigDeviceHandle(part, &found), NVML_SUCCESS);
	expect(found == device);
	/* Properties that only a board has. */
	expect_eq(nvmlDeviceGetPowerUsage(part, &value), NVML_ERROR_INVALID_ARGUMENT);
	expect_eq(nvmlDeviceGetMinorNumber(part, &value), NVML_ERROR_INVALID_ARGUMENT);
	clear(device);
}

TEST(a_part_in_use_stays_and_a_destroyed_one_is_no_other_one)
{
	nvmlDevice_t device = gpu(0), part, again;
	char uuid[80], later[80];
	nvmlComputeInstance_t compute;
	nvmlGpuInstance_t instance;
	nvmlProcessInfo_t row[4];
	unsigned count = 4;
	pid_t pid;

	set_mode(device, NVML_DEVICE_MIG_ENABLE, NVML_SUCCESS);
	instance = make_at(device, ONE, 0);
	compute = complete(instance, NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE);
	part = device_of(compute);
	expect_eq(nvmlDeviceGetUUID(part, uuid, sizeof(uuid)), NVML_SUCCESS);
	expect_eq(nvmlGpuInstanceDestroy(instance), NVML_ERROR_IN_USE);
	pid = start_child(hold_8_gib, uuid);
	expect_eq(nvmlComputeInstanceDestroy(compute), NVML_ERROR_IN_USE);
	expect_eq(nvmlDeviceGetComputeRunningProcesses_v3(device, &count, row), NVML_SUCCESS);
	expect_eq(count, 1);
	expect(row[0].pid == (unsigned)pid && row[0].gpuInstanceId == 7 &&
	       row[0].computeInstanceId == 0 && row[0].usedGpuMemory == 8192 * MIB);
	end_child(pid);
	expect_eq(nvmlComputeInstanceDestroy(compute), NVML_SUCCESS);
	expect_eq(nvmlComputeInstanceDestroy(compute), NVML_ERROR_INVALID_ARGUMENT);
	expect_eq(nvmlGpuInstanceDestroy(instance), NVML_SUCCESS);
	again = device_of(complete(make_at(device, ONE, 0), NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE));
	expect(again != part);
	expect_eq(nvmlDeviceGetUUID(part, later, sizeof(later)), NVML_ERROR_INVALID_ARGUMENT);
	expect_eq(nvmlDeviceGetUUID(again, later, sizeof(later)), NVML_SUCCESS);
	expect_str(later, uuid);
	clear(device);
}

TEST(parts_share_neither_memory_nor_time)
{
	nvmlDevice_t device = gpu(0), parts[2];
	struct engine_ticket ticket;
	nvmlMemory_t memory;
	char uuids[2][80];
	pid_t pids[3];

	set_mode(device, NVML_DEVICE_MIG_ENABLE, NVML_SUCCESS);
	for (unsigned i = 0; i < 2; i++) {
		parts[i] = device_of(
			complete(make_at(device, ONE, i), NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE));
		expect_eq(nvmlDeviceGetUUID(parts[i], uuids[i], 80), NVML_SUCCESS);
		pids[i] = start_child(hold_8_gib, uuids[i]);
	}
	expect_eq(nvmlDeviceGetMemoryInfo(parts[1], &memory), NVML_SUCCESS);
	expect_eq(memory.used, 8192 * MIB);
	expect_eq(nvmlDeviceGetMemoryInfo(device, &memory), NVML_SUCCESS);
	expect_eq(memory.used, 2 * 8192 * MIB);
	pids[2] = start_child(hang, uuids[0]);
	expect_eq(device_show(uuids[1]), 0);
	expect_eq(device_take(0, 4096 * MIB), DEVICE_FULL);
	/* It ends though the other part's kernel never does. */
	engine_kernel_begin(0, 1, 0, 50000000, &ticket);
	expect_eq(engine_kernel_end(&ticket, 50000000, NULL, NULL), 0);
	for (size_t i = 0; i < 3; i++)
		end_child(pids[i]);
	clear(device);
}

/* ---- CUDA ---------------------------------------------------------------------------------- */

struct seen {
	int result, count, sms;
	size_t bytes;
	char name[96], uuid[16], gpu[16];
};

#define ASK(name) ((api_fn_##name *)dlsym(library, #name))

/* The devices that a program is told with that CUDA_VISIBLE_DEVICES (NULL: none). */
static struct seen seen_with(const char *visible)
{
	struct seen seen = {0};
	int pipes[2];
	pid_t pid;

	expect_eq(pipe(pipes), 0);
	pid = fork();
	if (pid == 0) {
		void *library;

		unsetenv("METE_SIM_PARTS");
		if (visible)
			setenv("CUDA_VISIBLE_DEVICES", visible, 1);
		library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
		check(library != NULL);
		seen.result = ASK(cuInit)(0);
		if (seen.result == CUDA_SUCCESS) {
			check(ASK(cuDeviceGetCount)(&seen.count) == CUDA_SUCCESS);
			check(ASK(cuDeviceTotalMem_v2)(&seen.bytes, 0) == CUDA_SUCCESS);
			check(ASK(cuDeviceGetName)(seen.name, sizeof(seen.name), 0) ==
			      CUDA_SUCCESS);
			check(ASK(cuDeviceGetAttribute)(&seen.sms,
							CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
							0) == CUDA_SUCCESS);
			check(ASK(cuDeviceGetUuid_v2)((CUuuid *)seen.uuid, 0) == CUDA_SUCCESS);
			check(ASK(cuDeviceGetUuid)((CUuuid *)seen.gpu, 0) == CUDA_SUCCESS);
		}
		check(write(pipes[1], &seen, sizeof(seen)) == sizeof(seen));
		_exit(0);
	}
	close(pipes[1]);
	expect_eq(read(pipes[0], &seen, sizeof(seen)), sizeof(seen));
	close(pipes[0]);
	expect_eq(waitpid(pid, NULL, 0), pid);
	return seen;
}

TEST(a_program_sees_the_first_part_or_the_one_that_it_is_given)
{
	char first[80], second[80], both[200];
	nvmlDevice_t part;
	struct seen seen;

	expect_eq(nvmlDeviceGetMigDeviceHandleByIndex(gpu(3), 0, &part), NVML_SUCCESS);
	expect_eq(nvmlDeviceGetUUID(part, first, sizeof(first)), NVML_SUCCESS);
	expect_eq(nvmlDeviceGetMigDeviceHandleByIndex(gpu(3), 1, &part), NVML_SUCCESS);
	expect_eq(nvmlDeviceGetUUID(part, second, sizeof(second)), NVML_SUCCESS);
	/* Of all devices: the part, and no GPU beside it. */
	seen = seen_with(NULL);
	expect_eq(seen.count, 1);
	expect_str(seen.name, "NVIDIA H100 80GB HBM3 MIG 1g.10gb");
	expect_eq(seen.bytes, 9984 * MIB);
	seen = seen_with(first);
	expect_eq(seen.count, 1);
	expect_str(seen.name, "NVIDIA A100-SXM4-80GB MIG 3g.40gb");
	expect_eq(seen.bytes, 40192 * MIB);
	expect_eq(seen.sms, 42);
	expect(memcmp(seen.uuid, seen.gpu, 16) != 0);
	seen = seen_with(second);
	expect_eq(seen.count, 1);
	expect_eq(seen.bytes, 9728 * MIB);
	expect_eq(seen.sms, 14);
	snprintf(both, sizeof(both), "0,%s,%s", second, first);
	seen = seen_with(both);
	expect_eq(seen.count, 1);
	expect_eq(seen.bytes, 9728 * MIB);
	seen = seen_with("3");
	expect_eq(seen.bytes, 40192 * MIB);
	seen = seen_with("0,2");
	expect_eq(seen.count, 2);
	set_mode(gpu(0), NVML_DEVICE_MIG_ENABLE, NVML_SUCCESS);
	expect_eq(seen_with("0").result, CUDA_ERROR_NO_DEVICE);
	clear(gpu(0));
}

/* ---- what befalls them --------------------------------------------------------------------- */

TEST(an_error_of_a_part_is_reported_by_its_gpu_with_the_parts_number)
{
	nvmlEventSet_t set;
	nvmlEventData_t data;
	nvmlDevice_t part;
	char uuid[80];

	expect_eq(nvmlDeviceGetMigDeviceHandleByIndex(gpu(3), 1, &part), NVML_SUCCESS);
	expect_eq(nvmlDeviceGetUUID(part, uuid, sizeof(uuid)), NVML_SUCCESS);
	expect_eq(nvmlEventSetCreate(&set), NVML_SUCCESS);
	expect_eq(nvmlDeviceRegisterEvents(gpu(3), nvmlEventTypeXidCriticalError, set),
		  NVML_SUCCESS);
	expect_eq(device_show(uuid), 0);
	device_xid(0, 13);
	expect_eq(nvmlEventSetWait_v2(set, &data, 0), NVML_SUCCESS);
	expect(data.device == gpu(3) && data.eventData == 13);
	expect_eq(data.gpuInstanceId, 11);
	expect_eq(data.computeInstanceId, 0);
	expect_eq(nvmlEventSetFree(set), NVML_SUCCESS);
}

static bool has_file(const char *path)
{
	char whole[SETTINGS_PATH_MAX + 96];

	snprintf(whole, sizeof(whole), "%s/proc/driver/nvidia/capabilities/%s", segment_folder(),
		 path);
	return access(whole, F_OK) == 0;
}

TEST(files_say_which_nodes_give_access_to_a_part)
{
	nvmlDevice_t device = gpu(0);

	expect(has_file("gpu3/mig/gi1/access") && has_file("gpu3/mig/gi1/ci0/access"));
	set_mode(device, NVML_DEVICE_MIG_ENABLE, NVML_SUCCESS);
	complete(make_at(device, TWO, 2), NVML_COMPUTE_INSTANCE_PROFILE_2_SLICE);
	make_at(device, TWO, 4);
	expect(has_file("gpu0/mig/gi4/ci0/access"));
	expect(has_file("gpu0/mig/gi5/access") && !has_file("gpu0/mig/gi5/ci0/access"));
	clear(device);
	expect(!has_file("gpu0/mig/gi4/access"));
}

TEST(a_lost_gpu_takes_its_parts_along)
{
	nvmlDevice_t part;
	nvmlMemory_t memory;
	char uuid[80];

	expect_eq(nvmlDeviceGetMigDeviceHandleByIndex(gpu(1), 0, &part), NVML_SUCCESS);
	expect_eq(nvmlDeviceGetUUID(part, uuid, sizeof(uuid)), NVML_SUCCESS);
	expect_eq(device_show(uuid), 0);
	device_lose(0);
	expect_eq(nvmlDeviceGetMemoryInfo(part, &memory), NVML_ERROR_GPU_IS_LOST);
	expect_eq(nvmlDeviceGetMemoryInfo(gpu(1), &memory), NVML_ERROR_GPU_IS_LOST);
}
