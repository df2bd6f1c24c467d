/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a part of a simulated GPU, as `nvidia-smi mig -cgi PROFILE -C` would, and prints its UUID:
 * divide LIBRARY GPU PROFILE. Or removes one: divide LIBRARY undo UUID. A program, as an
 * instrumented library cannot be loaded by Python.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/nvml_prototypes.h"

/* Each part is used by one compute instance, of all of its slices. */
static unsigned whole_of(unsigned profile)
{
	enum { ONE_SLICE = 19, TWO_SLICES = 14 }; /* profiles of an H100 */

	return profile == ONE_SLICE    ? NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE
	       : profile == TWO_SLICES ? NVML_COMPUTE_INSTANCE_PROFILE_2_SLICE
				       : NVML_COMPUTE_INSTANCE_PROFILE_3_SLICE;
}

static void *library;

static void *symbol(const char *name)
{
	void *found = dlsym(library, name);

	if (!found) {
		fprintf(stderr, "divide: %s\n", dlerror());
		exit(1);
	}
	return found;
}

#define CALL(name, ...)                                                                            \
	do {                                                                                       \
		nvmlReturn_t r = ((__typeof__(&name))symbol(#name))(__VA_ARGS__);                  \
		if (r != NVML_SUCCESS) {                                                           \
			fprintf(stderr, "divide: " #name ": %d\n", (int)r);                        \
			return 1;                                                                  \
		}                                                                                  \
	} while (0)

static int make(unsigned index, unsigned profile)
{
	nvmlComputeInstanceInfo_t info;
	nvmlComputeInstance_t made;
	nvmlGpuInstance_t part;
	nvmlDevice_t gpu;
	char uuid[96];

	CALL(nvmlDeviceGetHandleByIndex_v2, index, &gpu);
	CALL(nvmlDeviceCreateGpuInstance, gpu, profile, &part);
	CALL(nvmlGpuInstanceCreateComputeInstance, part, whole_of(profile), &made);
	CALL(nvmlComputeInstanceGetInfo_v2, made, &info);
	CALL(nvmlDeviceGetUUID, info.device, uuid, sizeof(uuid));
	printf("%s\n", uuid);
	return 0;
}

static int undo(const char *uuid)
{
	nvmlDevice_t device, gpu;
	nvmlComputeInstance_t within;
	nvmlGpuInstance_t part;
	unsigned id;

	CALL(nvmlDeviceGetHandleByUUID, uuid, &device);
	CALL(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, device, &gpu);
	CALL(nvmlDeviceGetGpuInstanceId, device, &id);
	CALL(nvmlDeviceGetGpuInstanceById, gpu, id, &part);
	CALL(nvmlDeviceGetComputeInstanceId, device, &id);
	CALL(nvmlGpuInstanceGetComputeInstanceById, part, id, &within);
	CALL(nvmlComputeInstanceDestroy, within);
	CALL(nvmlGpuInstanceDestroy, part);
	return 0;
}

int main(int argc, char **argv)
{
	int status;

	library = argc == 4 ? dlopen(argv[1], RTLD_NOW) : NULL;
	if (!library) {
		fprintf(stderr, "divide: %s\n",
			argc == 4 ? dlerror() : "LIBRARY GPU PROFILE, or LIBRARY undo UUID");
		return 2;
	}
	CALL(nvmlInit_v2);
	status = strcmp(argv[2], "undo") == 0
			 ? undo(argv[3])
			 : make((unsigned)atoi(argv[2]), (unsigned)atoi(argv[3]));
	CALL(nvmlShutdown);
	return status;
}
