/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPUs that a process in a container sees, in one text line of key=value:
 *
 *	seen [cuda=LIBRARY] [nvml=LIBRARY] [take=BYTES] [hold=1]
 *
 * "seen devices=0 why=..." where there is none. With take, whether it can have so much device
 * memory; with hold, it keeps that, and lives until it is told to end.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/macros.h"
#include "cuda/nvml_prototypes.h"
#include "cuda/prototypes.h"

static const char *argument(int argc, char **argv, const char *name, const char *otherwise)
{
	size_t length = strlen(name);

	for (int i = 1; i < argc; i++)
		if (strncmp(argv[i], name, length) == 0 && argv[i][length] == '=')
			return argv[i] + length + 1;
	return otherwise;
}

static noreturn_ void nothing(const char *why)
{
	printf("seen devices=0 why=%s\n", why);
	exit(0);
}

static void *find(void *library, const char *symbol)
{
	void *found = library ? dlsym(library, symbol) : NULL;

	if (!found)
		nothing(symbol);
	return found;
}

#define CALL(library, symbol, ...) ((api_fn_##symbol *)find(library, #symbol))(__VA_ARGS__)
#define NVML(library, symbol, ...) ((nvml_fn_##symbol *)find(library, #symbol))(__VA_ARGS__)

static void show_memory(void *cuda, int index)
{
	CUdevice device;
	CUcontext context;
	CUuuid uuid;
	size_t total, free_bytes, whole;

	if (CALL(cuda, cuDeviceGet, &device, index) || CALL(cuda, cuDeviceGetUuid, &uuid, device) ||
	    CALL(cuda, cuDeviceTotalMem_v2, &whole, device) ||
	    CALL(cuda, cuDevicePrimaryCtxRetain, &context, device) ||
	    CALL(cuda, cuCtxSetCurrent, context) ||
	    CALL(cuda, cuMemGetInfo_v2, &free_bytes, &total))
		nothing("a call of the driver failed");
	printf(" uuid=");
	for (unsigned i = 0; i < sizeof(uuid.bytes); i++)
		printf("%02x", (unsigned char)uuid.bytes[i]);
	printf(" total=%zu free=%zu whole=%zu", total, free_bytes, whole);
}

static void show_nvml(const char *path)
{
	void *nvml = dlopen(path, RTLD_NOW);
	nvmlMemory_t memory;
	nvmlDevice_t device;
	unsigned count;

	if (!nvml || NVML(nvml, nvmlInit_v2) || NVML(nvml, nvmlDeviceGetCount_v2, &count)) {
		printf(" nvml_devices=0");
		return;
	}
	printf(" nvml_devices=%u", count);
	if (count && !NVML(nvml, nvmlDeviceGetHandleByIndex_v2, 0, &device) &&
	    !NVML(nvml, nvmlDeviceGetMemoryInfo, device, &memory))
		printf(" nvml_total=%llu", (unsigned long long)memory.total);
}

int main(int argc, char **argv)
{
	void *cuda = dlopen(argument(argc, argv, "cuda", "libcuda.so.1"), RTLD_NOW);
	size_t take = strtoull(argument(argc, argv, "take", "0"), NULL, 10);
	CUdeviceptr memory;
	int devices;

	if (!cuda)
		nothing("no driver");
	if (CALL(cuda, cuInit, 0) || CALL(cuda, cuDeviceGetCount, &devices) || devices == 0)
		nothing("no device");
	printf("seen devices=%d", devices);
	for (int i = devices - 1; i >= 0; i--)
		show_memory(cuda, i);
	show_nvml(argument(argc, argv, "nvml", "libnvidia-ml.so.1"));
	if (take)
		printf(" take=%s",
		       CALL(cuda, cuMemAlloc_v2, &memory, take) ? "refused" : "granted");
	printf("\n");
	fflush(stdout);
	while (strcmp(argument(argc, argv, "hold", "0"), "1") == 0)
		pause();
	return 0;
}
