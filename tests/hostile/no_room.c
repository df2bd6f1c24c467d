/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For meted's LD_PRELOAD: while the file that HOSTILE_NO_ROOM names is there, the store's pages are
 * refused by the error whose number is in it, as where the machine's memory is full (ENOSPC,
 * ENOMEM) or what holds it was made read-only (EROFS). Holes cannot be punched then, either.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/macros.h"

static int error_now(void)
{
	const char *path = getenv("HOSTILE_NO_ROOM");
	owned(close) int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	char number[8] = "";

	if (fd < 0 || read(fd, number, sizeof(number) - 1) <= 0)
		return 0;
	return (int)strtol(number, NULL, 10);
}

/* Files may be large here as in meted, so that this is fallocate64() to the linker. */
exported int fallocate(int fd, int mode, off_t offset, off_t bytes)
{
	static int (*real)(int, int, off_t, off_t);
	int error = error_now();

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "fallocate64");
	if (error) {
		errno = error;
		return -1;
	}
	return real(fd, mode, offset, bytes);
}
