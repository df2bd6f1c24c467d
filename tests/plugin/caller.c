/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of a pod, for tests that cannot load libraries themselves (an instrumented one goes
 * into no Python). It prints the driver's answer to its first calls, waits for its standard input's
 * end, and holds what it has until then.
 *
 *	caller nvml		opens NVML
 *	caller driver		opens the driver
 *	caller context		makes a context on its first device; each line is bytes, which it
 *				takes, and it says the answer
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/types.h"
#include "base/macros.h"

static void *function(void *library, const char *name)
{
	void *found = library ? dlsym(library, name) : NULL;

	if (!found) {
		fprintf(stderr, "%s: %s\n", name, dlerror());
		exit(1);
	}
	return found;
}

static int open_nvml(void)
{
	int (*init)(void) = NULL;

	*(void **)&init = function(dlopen("libnvidia-ml.so.1", RTLD_NOW), "nvmlInit_v2");
	return init();
}

static int make_context(void *driver)
{
	CUresult (*get)(CUdevice * device, int ordinal);
	CUresult (*create)(CUcontext * context, unsigned flags, CUdevice device);
	CUcontext context;
	CUdevice device;
	CUresult r;

	*(void **)&get = function(driver, "cuDeviceGet");
	*(void **)&create = function(driver, "cuCtxCreate_v2");
	r = get(&device, 0);
	return (int)(r == CUDA_SUCCESS ? create(&context, 0, device) : r);
}

static int take_bytes(void *driver, uint64_t bytes)
{
	CUresult (*allocate)(CUdeviceptr * address, size_t bytes);
	CUdeviceptr address;

	*(void **)&allocate = function(driver, "cuMemAlloc_v2");
	return (int)allocate(&address, bytes);
}

int main(int argc, char **argv)
{
	const char *what = argc == 2 ? argv[1] : "";
	CUresult (*init)(unsigned flags);
	void *driver = NULL;
	char line[64];
	int said;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (strcmp(what, "nvml") == 0) {
		said = open_nvml();
	} else {
		driver = dlopen("libcuda.so.1", RTLD_NOW);
		*(void **)&init = function(driver, "cuInit");
		said = (int)init(0);
		if (said == 0 && strcmp(what, "context") == 0)
			said = make_context(driver);
	}
	printf("%d\n", said);
	while (fgets(line, sizeof(line), stdin))
		printf("%d\n", take_bytes(driver, strtoull(line, NULL, 10)));
	return 0;
}
