/* SPDX-License-Identifier: Apache-2.0 */
#include "base/held.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/file.h"

enum { LOCKS_MOST = 4 << 20 };

/* "1: FLOCK  ADVISORY  WRITE 4711 00:1a:1234 0 EOF"; one that waits has "->" before FLOCK. */
int held_in(const char *locks, unsigned device_major, unsigned device_minor, uint64_t inode)
{
	for (const char *line = locks; line && *line; line = strchr(line, '\n')) {
		unsigned on_major, on_minor;
		uint64_t on_inode;

		line += *line == '\n';
		if (sscanf(line, "%*u: FLOCK %*s %*s %*d %x:%x:%" SCNu64, &on_major, &on_minor,
			   &on_inode) == 3 &&
		    on_major == device_major && on_minor == device_minor && on_inode == inode)
			return 1;
	}
	return 0;
}

int held_file(const char *path)
{
	owned(free) char *locks = NULL;
	struct stat there;
	size_t size;
	int r;

	if (stat(path, &there) != 0)
		return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
	r = file_slurp("/proc/locks", LOCKS_MOST, &locks, &size);
	if (r < 0)
		return r;
	return held_in(locks, major(there.st_dev), minor(there.st_dev), there.st_ino);
}

static void on_alarm(int signal)
{
	(void)signal; /* only to interrupt flock() */
}

int held_await(int fd, unsigned seconds)
{
	struct sigaction interrupt = {.sa_handler = on_alarm}, before;
	int r;

	sigaction(SIGALRM, &interrupt, &before);
	alarm(seconds);
	r = flock(fd, LOCK_EX) == 0 ? 0 : -errno;
	alarm(0);
	sigaction(SIGALRM, &before, NULL);
	return r;
}
