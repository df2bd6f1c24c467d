/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a part of a simulated GPU, as `nvidia-smi mig -cgi PROFILE -C` would: divide LIBRARY GPU
 * PROFILE. A program, as an instrumented library cannot be loaded by Python. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "cuda/nvml_prototypes.h"

enum { WHOLE_PART = 1 }; /* how test_nvidia_mig.py's parts are used: by one compute instance */

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

int main(int argc, char **argv)
{
	nvmlComputeInstance_t made;
	nvmlGpuInstance_t part;
	nvmlDevice_t gpu;

	library = argc == 4 ? dlopen(argv[1], RTLD_NOW) : NULL;
	if (!library) {
		fprintf(stderr, "divide: %s\n", argc == 4 ? dlerror() : "LIBRARY GPU PROFILE");
		return 2;
	}
	CALL(nvmlInit_v2);
	CALL(nvmlDeviceGetHandleByIndex_v2, (unsigned)atoi(argv[2]), &gpu);
	CALL(nvmlDeviceCreateGpuInstance, gpu, (unsigned)atoi(argv[3]), &part);
	CALL(nvmlGpuInstanceCreateComputeInstance, part, WHOLE_PART, &made);
	CALL(nvmlShutdown);
	return 0;
}
