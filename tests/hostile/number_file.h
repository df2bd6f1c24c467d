/* SPDX-License-Identifier: Apache-2.0 */
/* A number that others may change at any time. */
#pragma once

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/macros.h"

/* Of the file that an environment variable names; 0: there is none now. */
static inline long number_in(const char *variable)
{
	const char *path = getenv(variable);
	owned(close) int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	char number[24] = "";

	if (fd < 0 || read(fd, number, sizeof(number) - 1) <= 0)
		return 0;
	return strtol(number, NULL, 10);
}
