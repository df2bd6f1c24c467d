/* SPDX-License-Identifier: Apache-2.0 */
/* What a program of NVIDIA's runtime sees where there is no device: runtime LIBCUDART */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

static void *symbol(void *handle, const char *name)
{
	void *address = handle ? dlsym(handle, name) : NULL;

	if (!address) {
		fprintf(stderr, "runtime: %s\n", dlerror());
		exit(2);
	}
	return address;
}

int main(int argc, char **argv)
{
	void *handle = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL, *memory = NULL;
	int (*runtime)(int *) = (int (*)(int *))symbol(handle, "cudaRuntimeGetVersion");
	int (*driver)(int *) = (int (*)(int *))symbol(handle, "cudaDriverGetVersion");
	int (*count)(int *) = (int (*)(int *))symbol(handle, "cudaGetDeviceCount");
	int (*set)(int) = (int (*)(int))symbol(handle, "cudaSetDevice");
	int (*allocate)(void **, size_t) = (int (*)(void **, size_t))symbol(handle, "cudaMalloc");
	int (*end)(void) = (int (*)(void))symbol(handle, "cudaDeviceSynchronize");
	int version = -1, r = runtime(&version);

	printf("runtime %d %d\n", r, version);
	r = driver(&version);
	printf("driver %d %d\n", r, version);
	r = count(&version);
	printf("devices %d\n", r);
	printf("set %d malloc %d end %d\n", set(0), allocate(&memory, 1 << 20), end());
	return 0;
}
