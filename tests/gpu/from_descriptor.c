/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver as containers get it (guest/driver/driver_file.c): a file that is opened, and loaded
 * by the path of its descriptor. Its PTX compiler is a library of its own, which it has to find by
 * name. Exit status 0: a kernel ran.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda/prototypes.h"

static void *driver;

#define CALL(symbol, ...)                                                                          \
	do {                                                                                       \
		api_fn_##symbol *f_ = (api_fn_##symbol *)dlsym(driver, #symbol);                   \
		CUresult r_ = f_ ? f_(__VA_ARGS__) : CUDA_ERROR_NOT_FOUND;                         \
		if (r_ != CUDA_SUCCESS) {                                                          \
			printf("%s is %d\n", #symbol, (int)r_);                                    \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static const char text[] =
	".version 6.3\n.target sm_70\n.address_size 64\n"
	".visible .entry k(.param .u64 p)\n{\n.reg .u64 %a;\n.reg .u32 %v;\n"
	"ld.param.u64 %a, [p];\nmov.u32 %v, 4711;\nst.global.u32 [%a], %v;\nret;\n}\n";

/* Where the linker finds it; loaded, and no more of it is kept than its path. */
static int open_driver(void)
{
	void *found = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	char path[PATH_MAX] = "";
	Dl_info info;

	if (found && dladdr(dlsym(found, "cuInit"), &info) && !realpath(info.dli_fname, path))
		path[0] = '\0';
	if (found)
		dlclose(found);
	return path[0] ? open(path, O_RDONLY | O_CLOEXEC) : -1;
}

int main(int argc, char **argv)
{
	int fd = argc > 1 ? open(argv[1], O_RDONLY | O_CLOEXEC) : open_driver();
	char path[64];
	CUcontext context;
	CUmodule module;
	CUfunction kernel;
	CUdeviceptr at;
	unsigned word = 0;
	void *arguments[] = {&at};

	if (fd < 0) {
		puts("there is no driver");
		return 2;
	}
	if (argc == 1) { /* anew, so that its path is nowhere in the process */
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		if (fcntl(fd, F_SETFD, 0) != 0 ||
		    execl("/proc/self/exe", argv[0], path, (char *)NULL) != 0)
			return 2;
	}
	snprintf(path, sizeof(path), "/proc//self//task/%d/fd/%d", (int)gettid(), fd);
	driver = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!driver) {
		puts(dlerror());
		return 1;
	}
	CALL(cuInit, 0);
	CALL(cuCtxCreate_v2, &context, 0, 0);
	CALL(cuModuleLoadData, &module, text);
	CALL(cuModuleGetFunction, &kernel, module, "k");
	CALL(cuMemAlloc_v2, &at, 4);
	CALL(cuLaunchKernel, kernel, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL);
	CALL(cuMemcpyDtoH_v2, &word, at, 4);
	printf("a kernel wrote %u\n", word);
	return word == 4711 ? 0 : 1;
}
