/* SPDX-License-Identifier: Apache-2.0 */
#include "node/process.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"

/* The 22nd field of /proc/PID/stat; the second, a name in parentheses, may hold anything. */
uint64_t process_started(pid_t pid)
{
	owned(free) char *text = NULL;
	char path[64], *at;
	size_t size;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (file_slurp(path, 4096, &text, &size) < 0)
		return 0;
	at = strrchr(text, ')');
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at + 1, NULL, 10) : 0;
}

int process_open(pid_t pid, uint64_t started, int *ret_pidfd)
{
	owned(close) int fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;

	/* After the pidfd: whoever has this number now is the one that is asked about. */
	if (fd < 0 || process_started(pid) != started)
		return -ESRCH;
	*ret_pidfd = take_fd(&fd);
	return 0;
}
