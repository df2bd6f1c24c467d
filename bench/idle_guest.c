/* SPDX-License-Identifier: Apache-2.0 */
/* A guest that has joined, has a context and does nothing: for bench/daemon-size.py. Says so, and
 * ends with its standard input. */
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

int main(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	int (*init)(unsigned) = driver ? (int (*)(unsigned))dlsym(driver, "cuInit") : NULL;
	int (*retain)(void **, int) =
		driver ? (int (*)(void **, int))dlsym(driver, "cuDevicePrimaryCtxRetain") : NULL;
	void *context;
	char end;

	if (!init || init(0) != 0 || !retain || retain(&context, 0) != 0) {
		fprintf(stderr, "idle_guest: no context: %s\n", driver ? "" : dlerror());
		return 1;
	}
	puts("ready");
	fflush(stdout);
	return read(STDIN_FILENO, &end, 1) < 0;
}
