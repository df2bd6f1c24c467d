/* SPDX-License-Identifier: Apache-2.0 */
#include "base/held.h"

#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { LINE_MOST = 256 };

/* "1: FLOCK  ADVISORY  WRITE 4711 00:1a:1234 0 EOF"; one that waits has "->" before FLOCK. */
static bool is_on(const char *line, unsigned device_major, unsigned device_minor, uint64_t inode)
{
	unsigned on_major, on_minor;
	uint64_t on_inode;

	return sscanf(line, "%*u: FLOCK %*s %*s %*d %x:%x:%" SCNu64, &on_major, &on_minor,
		      &on_inode) == 3 &&
	       on_major == device_major && on_minor == device_minor && on_inode == inode;
}

/* Line by line, and however long it is: it has the locks of all users, and anybody may have
 * hundreds of thousands of them. */
int held_in(FILE *locks, unsigned device_major, unsigned device_minor, uint64_t inode)
{
	char line[LINE_MOST];

	while (fgets(line, sizeof(line), locks))
		if (is_on(line, device_major, device_minor, inode))
			return 1;
	return ferror(locks) ? -EIO : 0;
}

int held_file(const char *path)
{
	owned(fclose) FILE *locks = NULL;
	struct stat there;

	if (stat(path, &there) != 0)
		return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
	locks = fopen("/proc/locks", "re");
	if (!locks)
		return -errno;
	/* Each read walks all locks before its own: as few reads as the kernel allows. */
	best_effort(setvbuf(locks, NULL, _IOFBF, 1 << 16));
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
