/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes the folder of a container's daemon. The container could write in a part of it, so that
 * anything may be there: no link is followed, and neither depth nor number is trusted.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "plugin/mps/inside.h"

enum { DEPTH_MOST = 16, ENTRIES_MOST = 10000 };

/* -EBUSY: there are too many for one time; -ELOOP: they are too deep. */
static int empty(int at, const char *name, unsigned depth, unsigned *left)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), r = 0;
	DIR *folder = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (!folder) {
		r = -errno;
		if (fd >= 0)
			close(fd);
		return r;
	}
	while (r == 0 && (entry = readdir(folder))) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (!(*left)--) {
			r = -EBUSY;
			*left = 0;
		} else if (unlinkat(fd, entry->d_name, 0) < 0 && errno != ENOENT) {
			r = errno != EISDIR && errno != EPERM ? -errno
			    : depth == DEPTH_MOST	      ? -ELOOP
						  : empty(fd, entry->d_name, depth + 1, left);
			if (r == 0 && unlinkat(fd, entry->d_name, AT_REMOVEDIR) < 0)
				r = -errno;
		}
	}
	closedir(folder);
	return r;
}

int mps_folder_remove(const char *path)
{
	unsigned left = ENTRIES_MOST;
	int r = empty(AT_FDCWD, path, 0, &left);

	if (r == 0 && rmdir(path) < 0)
		r = -errno;
	return r == -ENOENT ? 0 : r;
}
