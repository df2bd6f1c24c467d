/* SPDX-License-Identifier: Apache-2.0 */
/*
 * opener NAME...: prints for each library whether dlopen() finds mete's guest, another one, or
 * none. It searches the driver as programs do, and uses nothing of it.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

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

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		printf("%s%s", judge(argv[i]), i + 1 < argc ? " " : "\n");
	return 0;
}
