/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder of a daemon. Containers can write in a part of it, so that anything may be there: no
 * link is followed, no device is opened, and folders may be as deep as the container likes. Their
 * number is not bounded either, so what goes through all of them runs in a thread.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plugin/mps/inside.h"

enum { DEPTH_MOST = 16 };

struct removing {
	int top;
	unsigned moved; /* folders that were too deep, and are in the top folder now */
};

static int empty(struct removing *r, int fd, unsigned depth);

/* Under a name that is not taken: the container may have thought of some. */
static int move_up(struct removing *r, int at, const char *name)
{
	char up[24];
	int status;

	do {
		snprintf(up, sizeof(up), ".moved-%u", r->moved++);
		status = renameat(at, name, r->top, up) < 0 ? -errno : 0;
	} while ((status == -EEXIST || status == -ENOTEMPTY || status == -ENOTDIR) && r->moved);
	return status;
}

static int remove_folder(struct removing *r, int at, const char *name, unsigned depth)
{
	int fd, status;

	if (depth == DEPTH_MOST)
		return move_up(r, at, name);
	fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	status = empty(r, fd, depth + 1);
	return status == 0 && unlinkat(at, name, AT_REMOVEDIR) < 0 ? -errno : status;
}

/* Takes the descriptor. */
static int empty(struct removing *r, int fd, unsigned depth)
{
	DIR *folder = fdopendir(fd);
	struct dirent *entry;
	int status = 0;

	if (!folder) {
		status = -errno;
		close(fd);
		return status;
	}
	while (status == 0 && (entry = readdir(folder))) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
		    unlinkat(fd, entry->d_name, 0) == 0 || errno == ENOENT)
			continue;
		status = errno == EISDIR || errno == EPERM
				 ? remove_folder(r, fd, entry->d_name, depth)
				 : -errno;
	}
	closedir(folder);
	return status;
}

int mps_folder_remove(const char *path)
{
	owned(close) int top = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct removing r = {.top = top};
	unsigned before;
	int status, fd;

	if (top < 0)
		return errno == ENOENT ? 0 : -errno;
	do {
		before = r.moved;
		fd = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		status = fd < 0 ? -errno : empty(&r, fd, 0);
	} while (status == 0 && r.moved != before);
	return status == 0 && rmdir(path) < 0 ? -errno : status;
}

/* To open a device may do something already: a watchdog, opened and closed, restarts the host. */
int mps_folder_open_file(const char *path)
{
	owned(close) int at = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	char name[32];
	struct stat info;
	int fd;

	if (at < 0)
		return -errno;
	if (fstat(at, &info) < 0 || !S_ISREG(info.st_mode))
		return -EINVAL;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", at);
	/* Who has a lease of it would have meted wait for 45 s. */
	fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

/* In place of the pid's file a pipe would have the daemon wait for a reader, and our thread for the
 * daemon. */
static bool is_daemons(const char *name, mode_t mode)
{
	return S_ISREG(mode) || S_ISSOCK(mode) || S_ISDIR(mode) ||
	       (S_ISFIFO(mode) && strcmp(name, MPS_PID_FILE) != 0);
}

int mps_folder_unlink_links(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), status = 0;
	DIR *folder = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	struct stat info;

	if (!folder) {
		status = -errno;
		if (fd >= 0)
			close(fd);
		return status;
	}
	while ((entry = readdir(folder)))
		if (fstatat(fd, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
		    !is_daemons(entry->d_name, info.st_mode) &&
		    unlinkat(fd, entry->d_name, 0) < 0 && errno != ENOENT)
			status = -errno;
	closedir(folder);
	return status;
}
