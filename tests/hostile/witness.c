/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's own books, by its management library and not by mete's: witness LIBRARY. Every few
 * milliseconds in which something changed, and every 200 ms otherwise, a line: the monotonic time
 * in ms, and device:pid:bytes of each process that has something on a device.
 */
#include <dlfcn.h>
#include <string.h>
#include <time.h>

#include "cuda/nvml_prototypes.h"
#include "tests/guest/must.h"

enum { ROWS = 512, EVERY_US = 10000, QUIET_MS = 200 };

static nvmlReturn_t (*processes)(nvmlDevice_t, unsigned *, nvmlProcessInfo_t *);

static size_t look(nvmlDevice_t device, unsigned index, char *text, size_t room)
{
	static nvmlProcessInfo_t rows[ROWS];
	unsigned count = ROWS;
	size_t n = 0;
	nvmlReturn_t r = processes(device, &count, rows);

	/* A witness that does not see must not be taken for one that sees nothing. */
	if (r != NVML_SUCCESS)
		fail("the library answers %d", (int)r);
	for (unsigned i = 0; i < count && n + 64 < room; i++)
		n += (size_t)snprintf(text + n, room - n, " %u:%u:%llu", index, rows[i].pid,
				      (unsigned long long)rows[i].usedGpuMemory);
	return n;
}

int main(int argc, char **argv)
{
	void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
	static char now[1 << 16], before[sizeof(now)] = "?";
	nvmlReturn_t (*init)(void) = NULL;
	nvmlReturn_t (*count_devices)(unsigned *) = NULL;
	nvmlReturn_t (*by_index)(unsigned, nvmlDevice_t *) = NULL;
	long long said = 0;
	unsigned devices;

	if (!library)
		fail("usage: witness LIBRARY (%s)", dlerror());
	*(void **)&init = dlsym(library, "nvmlInit_v2");
	*(void **)&count_devices = dlsym(library, "nvmlDeviceGetCount_v2");
	*(void **)&by_index = dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
	*(void **)&processes = dlsym(library, "nvmlDeviceGetComputeRunningProcesses_v3");
	if (!init || !count_devices || !by_index || !processes || init() != 0 ||
	    count_devices(&devices) != 0)
		fail("%s: no management library", argv[1]);
	for (;; usleep(EVERY_US)) {
		struct timespec time;
		long long ms;
		size_t n = 0;

		clock_gettime(CLOCK_MONOTONIC, &time);
		ms = (long long)time.tv_sec * 1000 + time.tv_nsec / 1000000;
		now[0] = '\0';
		for (unsigned i = 0; i < devices; i++) {
			nvmlDevice_t device;

			if (by_index(i, &device) != NVML_SUCCESS)
				fail("there is no device %u any more", i);
			n += look(device, i, now + n, sizeof(now) - n);
		}
		if (strcmp(now, before) == 0 && ms - said < QUIET_MS)
			continue;
		memcpy(before, now, n + 1);
		said = ms;
		if (printf("%lld%s\n", ms, now) < 0 || fflush(stdout) != 0)
			return 0;
	}
}
