/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the driver's libraries as descriptors that can be given to a hostile container.
 *
 * A container's root is often the host's root: it owns these files and could write them through any
 * mount that is not read-only. Therefore each descriptor refers to a mount of its own: a clone of
 * that one file's mount, made read-only, and detached for good as soon as the file is open. A
 * detached mount can neither be made writable again nor be mounted anywhere.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/statvfs.h>

#include "plugin/inject/inject_driver.h"

void inject_handout_done(struct inject_handout *handout)
{
	for (unsigned i = 0; i < WIRE_LIBRARIES; i++) {
		if (handout->fd[i] >= 0)
			close(handout->fd[i]);
		handout->fd[i] = -1;
	}
}

static int is_read_only(int fd)
{
	struct statvfs about;

	if (fstatvfs(fd, &about) != 0)
		return -errno;
	return about.f_flag & ST_RDONLY ? 0 : -EROFS;
}

/* Needs Linux 5.12 and the right to mount. */
static int through_read_only_mount(int there, int *ret_fd)
{
	struct mount_attr attributes = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID |
						    MOUNT_ATTR_NODEV};
	owned(close) int tree =
		open_tree(there, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
	owned(close) int fd = -1;
	int r;

	if (tree < 0)
		return -errno;
	if (mount_setattr(tree, "", AT_EMPTY_PATH, &attributes, sizeof(attributes)) != 0)
		return -errno;
	/* Opens the file again, so that the mount is detached when `tree` is closed, not when
	 * the last guest has ended. */
	fd = root_reopen(tree, O_PATH);
	if (fd < 0)
		return fd;
	r = is_read_only(fd);
	if (r == 0)
		*ret_fd = take_fd(&fd);
	return r;
}

static int hand_out(struct inject_driver *driver, const char *name, int *ret_fd)
{
	char path[PATH_MAX], real[PATH_MAX];
	owned(close) int there = -1;
	int r;

	if (snprintf(path, sizeof(path), "%s/%s", driver->folder, name) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	there = root_find(&driver->root, path, ROOT_FOLLOW);
	if (there < 0)
		return there;
	r = root_path(&driver->root, there, real);
	if (r < 0)
		return r;
	if (!inject_is_of_release(driver, real))
		return -ENOENT;
	r = through_read_only_mount(there, ret_fd);
	/* The kernel is older. But if meted's own container cannot write the file, this
	 * descriptor does not allow writing either. */
	if (r == -ENOSYS && is_read_only(there) == 0) {
		*ret_fd = take_fd(&there);
		r = 0;
	}
	return r;
}

int inject_hand_out(struct inject_driver *driver, struct inject_handout *ret_handout)
{
	int *fd = ret_handout->fd;
	int r = hand_out(driver, "libcuda.so.1", &fd[WIRE_LIBRARY_CUDA]);

	if (r == 0)
		r = hand_out(driver, "libnvidia-ml.so.1", &fd[WIRE_LIBRARY_NVML]);
	/* Not every machine has libnvidia-ml.so.1: then there is no NVML. */
	if (fd[WIRE_LIBRARY_CUDA] >= 0 && root_is_absent(r))
		r = 0;
	if (r < 0)
		inject_handout_done(ret_handout);
	return r;
}
