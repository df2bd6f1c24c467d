/* SPDX-License-Identifier: Apache-2.0 */
/*
 * opener NAME...: prints for each library whether dlopen() finds mete's guest, another one, or
 * none. It searches the driver as programs do, and uses nothing of it.
 *
 * opener --least-stack: prints what cuInit() returns to a thread with the least stack that there
 * is.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cuda/probe.h"

static const char *judge(const char *name)
{
	void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL), *answer = NULL;
	int (*look_up)(const char *, void **, int, unsigned long long);

	if (!library)
		return strstr(dlerror(), "No such file") ? "none" : "error";
	*(void **)&look_up = dlsym(library, "cuGetProcAddress");
	if (look_up && look_up(PROBE_NAME, &answer, 0, 0) == 0 && answer &&
	    strcmp(answer, PROBE_ANSWER) == 0)
		return "guest";
	return "other";
}

static void *first_call(void *library)
{
	unsigned (*init)(unsigned);

	*(void **)&init = dlsym(library, "cuInit");
	printf("%u\n", init ? init(0) : ~0u);
	return NULL;
}

static int with_the_least_stack(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	pthread_attr_t least;
	pthread_t thread;

	pthread_attr_init(&least);
	if (!library ||
	    pthread_attr_setstacksize(&least, (size_t)sysconf(_SC_THREAD_STACK_MIN)) != 0 ||
	    pthread_create(&thread, &least, first_call, library) != 0)
		return 1;
	pthread_join(thread, NULL);
	pthread_attr_destroy(&least);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--least-stack") == 0)
		return with_the_least_stack();
	for (int i = 1; i < argc; i++)
		printf("%s%s", judge(argv[i]), i + 1 < argc ? " " : "\n");
	return 0;
}
