/* SPDX-License-Identifier: Apache-2.0 */
/* A guest that has joined, has a context on each of the first DEVICES devices (default: 1) and does
 * nothing. It prints "ready", and ends with its standard input. Argument: DEVICES */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	int (*init)(unsigned) = driver ? (int (*)(unsigned))dlsym(driver, "cuInit") : NULL;
	int (*retain)(void **, int) =
		driver ? (int (*)(void **, int))dlsym(driver, "cuDevicePrimaryCtxRetain") : NULL;
	int devices = argc > 1 ? atoi(argv[1]) : 1;
	void *context;
	char end;

	if (!init || init(0) != 0 || !retain) {
		fprintf(stderr, "idle_guest: no driver: %s\n", driver ? "" : dlerror());
		return 1;
	}
	for (int device = 0; device < devices; device++)
		if (retain(&context, device) != 0) {
			fprintf(stderr, "idle_guest: no context on device %d\n", device);
			return 1;
		}
	puts("ready");
	fflush(stdout);
	return read(STDIN_FILENO, &end, 1) < 0;
}
