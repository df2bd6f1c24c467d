/* SPDX-License-Identifier: Apache-2.0 */
/* For meted's LD_PRELOAD: the time of day is so many seconds off as the file says that
 * HOSTILE_CLOCK names, from one call to the next. The clock that only runs stays as it is. */
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>

#include "tests/hostile/number_file.h"

exported int clock_gettime(clockid_t clock, struct timespec *now)
{
	static int (*real)(clockid_t, struct timespec *);
	int r;

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
	r = real(clock, now);
	if (r == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		now->tv_sec += number_in("HOSTILE_CLOCK");
	return r;
}

exported time_t time(time_t *ret_now)
{
	struct timespec now = {0};

	clock_gettime(CLOCK_REALTIME, &now);
	if (ret_now)
		*ret_now = now.tv_sec;
	return now.tv_sec;
}
