/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For meted's LD_PRELOAD: while the file that HOSTILE_NO_ROOM names is there, the store's pages are
 * refused by the error whose number is in it, as where the machine's memory is full (ENOSPC,
 * ENOMEM) or what holds it was made read-only (EROFS). Holes cannot be punched then, either.
 */
#include <dlfcn.h>
#include <errno.h>
#include <sys/types.h>

#include "tests/hostile/number_file.h"

/* Files may be large here as in meted, so that this is fallocate64() to the linker. */
exported int fallocate(int fd, int mode, off_t offset, off_t bytes)
{
	static int (*real)(int, int, off_t, off_t);
	int error = (int)number_in("HOSTILE_NO_ROOM");

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "fallocate64");
	if (error) {
		errno = error;
		return -1;
	}
	return real(fd, mode, offset, bytes);
}
