/* SPDX-License-Identifier: Apache-2.0 */
/* A guest that has joined and does nothing: for bench/daemon-size.sh. Ends with its
 * standard input. */
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

int main(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	int (*init)(unsigned) = driver ? (int (*)(unsigned))dlsym(driver, "cuInit") : NULL;
	char end;

	if (!init || init(0) != 0) {
		fprintf(stderr, "idle_guest: cuInit failed: %s\n", driver ? "" : dlerror());
		return 1;
	}
	return read(STDIN_FILENO, &end, 1) < 0;
}
