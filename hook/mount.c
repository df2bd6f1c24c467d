/* SPDX-License-Identifier: Apache-2.0 */
#include "hook/mount.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* sys/mount.h does not go together with linux/mount.h before glibc 2.37. */
static int mount_at(int fd, const char *type, unsigned long flags, const char *options)
{
	char target[32];

	snprintf(target, sizeof(target), "/proc/self/fd/%d", fd);
	return syscall(SYS_mount, type, target, type, flags, options) == 0 ? 0 : -errno;
}

int mount_over(int file, int over)
{
	owned(close) int tree = (int)syscall(SYS_open_tree, file, "",
					     OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);

	if (tree < 0 || syscall(SYS_move_mount, tree, "", over, "",
				MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) != 0)
		return -errno;
	return 0;
}

/* "\040" is how /proc writes a blank in a path. In place. */
static void unescape(char *text)
{
	char *out = text;

	for (; *text; text++) {
		if (text[0] == '\\' && text[1] >= '0' && text[1] <= '3' && text[2] && text[3]) {
			*out++ = (char)((text[1] - '0') << 6 | (text[2] - '0') << 3 |
					(text[3] - '0'));
			text += 3;
		} else {
			*out++ = *text;
		}
	}
	*out = '\0';
}

struct mountinfo {
	FILE *file; /* owned */
	char *line; /* owned */
	size_t size;
	/* Of the mount read last: */
	unsigned long long id;
	char *point, *options;
};

static void mountinfo_done(struct mountinfo *m)
{
	fclose_owned(&m->file);
	free(m->line);
}
#define mountinfo_done_owned mountinfo_done

/* id parent device root MOUNT-POINT options [shared:N] [master:N] ... - type source options */
static bool next_mount(struct mountinfo *m)
{
	while (getline(&m->line, &m->size, m->file) > 0) {
		char *at = m->line, *field[5];
		size_t found = 0;

		while (found < ARRAY_SIZE(field) && at)
			field[found++] = strsep(&at, " ");
		if (!at)
			continue;
		m->id = strtoull(field[0], NULL, 10);
		m->point = field[4];
		m->options = at;
		unescape(m->point);
		return true;
	}
	return false;
}

/* Is anything mounted below the folder? */
static int holds_mounts(const struct root *root, const char *folder)
{
	owned(mountinfo_done) struct mountinfo m = {.file = fopen("/proc/self/mountinfo", "re")};
	char prefix[2 * PATH_MAX];
	size_t length;

	if (!m.file)
		return -errno;
	length = (size_t)snprintf(prefix, sizeof(prefix), "%s%s/", root->path, folder);
	while (next_mount(&m))
		if (strncmp(m.point, prefix, length) == 0)
			return 1;
	return 0;
}

static int mount_id(int fd, unsigned long long *ret_id)
{
	struct statx about;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &about) != 0)
		return -errno;
	if (!(about.stx_mask & STATX_MNT_ID))
		return -ENOSYS;
	*ret_id = about.stx_mnt_id;
	return 0;
}

int mount_is_shared(const struct root *root, int fd)
{
	owned(mountinfo_done) struct mountinfo m = {.file = NULL};
	unsigned long long id = 0, own = 0;
	int r = mount_id(fd, &id);

	if (r == 0)
		r = mount_id(root->fd, &own);
	if (r < 0 || id == own)
		return r == -ENOSYS ? 0 : r;
	m.file = fopen("/proc/self/mountinfo", "re");
	if (!m.file)
		return -errno;
	while (next_mount(&m)) {
		char *end = strstr(m.options, " - ");

		if (m.id != id)
			continue;
		if (end)
			*end = '\0';
		return strstr(m.options, " shared:") != NULL;
	}
	return 0;
}

static int fill(int folder, const struct mount_link *links, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (symlinkat(links[i].target, folder, links[i].name) != 0)
			return -errno;
	return 0;
}

/* Two layers and none to write to: the links, and the folder as it was. The first is a file system
 * of its own, which lies in the folder's place until the second covers it. */
static int lay(struct root *root, int under, const struct mount_link *links, size_t count)
{
	char options[96], path[PATH_MAX];
	owned(close) int layer = -1;
	int r = root_path(root, under, path);

	if (r == 0)
		r = mount_at(under, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=1m");
	if (r < 0)
		return r;
	layer = root_find(root, path, ROOT_FOLDER);
	if (layer < 0)
		return layer;
	r = fill(layer, links, count);
	snprintf(options, sizeof(options), "lowerdir=/proc/self/fd/%d:/proc/self/fd/%d", layer,
		 under);
	return r < 0 ? r : mount_at(under, "overlay", MS_RDONLY | MS_NODEV, options);
}

int mount_links(struct root *root, const char *folder, const struct mount_link *links, size_t count)
{
	owned(close) int under = root_find(root, folder, ROOT_FOLDER);
	char path[PATH_MAX];
	int r;

	if (under < 0)
		return under;
	r = mount_is_shared(root, under);
	if (r != 0)
		return r < 0 ? r : -EXDEV;
	r = root_path(root, under, path);
	if (r == 0)
		r = holds_mounts(root, path);
	if (r != 0)
		return r < 0 ? r : -EBUSY;
	return lay(root, under, links, count);
}
