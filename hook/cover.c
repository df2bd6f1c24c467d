/* SPDX-License-Identifier: Apache-2.0 */
#include "hook/cover.h"

#include <fcntl.h>
#include <string.h>

#include "base/place.h"
#include "hook/linker.h"

#define SHARED "its volume is shared with the host (mountPropagation: Bidirectional)"

/* The names under which programs open the driver. */
static const char *const guest_names[] = {"libcuda.so", "libcuda.so.1", "libnvidia-ml.so",
					  "libnvidia-ml.so.1"};

static bool is_guests(const char *name)
{
	return linker_has_stem(name, "libcuda") || linker_has_stem(name, "libnvidia-ml");
}

static int open_guest(struct cover *c, const char *host, struct fault *why)
{
	struct stat on_host;

	c->guest = root_find(c->root, PLACE_GUEST, ROOT_FOLLOW);
	if (c->guest == -ENOSYS)
		return fault_set(why, -ENOSYS, "this kernel is too old: Linux 5.6 is needed");
	if (c->guest < 0)
		return fault_set(why, c->guest,
				 "the container has no " PLACE_GUEST " (%s): the runtime runs this "
				 "hook before its mounts, or has not made them",
				 root_says(c->guest));
	if (fstat(c->guest, &c->about) != 0 || stat(host, &on_host) != 0)
		return fault_set(why, -errno, "%s: %s", host, strerror(errno));
	if (c->about.st_dev != on_host.st_dev || c->about.st_ino != on_host.st_ino)
		return fault_set(why, -EPERM,
				 "the container's " PLACE_GUEST " is not the host's %s", host);
	return 0;
}

static int add_driver_file(void *owner, const char *name)
{
	struct cover *c = owner;
	struct cover_file *file = &c->file[c->files];
	char path[PATH_MAX];

	if (!linker_stem(name) || is_guests(name))
		return 0;
	if (c->files == COVER_DRIVER_MAX)
		return -E2BIG;
	snprintf(path, sizeof(path), PLACE_DRIVER "/%s", name);
	snprintf(file->name, sizeof(file->name), "%s", name);
	file->fd = root_find(c->root, path, ROOT_FOLLOW);
	if (file->fd < 0)
		return file->fd;
	c->files++;
	return 0;
}

static int open_driver(struct cover *c, struct fault *why)
{
	owned(close) int folder = root_find(c->root, PLACE_DRIVER, ROOT_FOLDER);
	int r = folder < 0 ? folder : root_list(c->root, folder, add_driver_file, c);

	/* A driver made only of the files that meted hands out. */
	if (root_is_absent(folder))
		return 0;
	if (r < 0)
		return fault_set(why, r, "the container's " PLACE_DRIVER ": %s", root_says(r));
	return 0;
}

int cover_open(struct root *root, const char *guest, struct cover **ret_cover, struct fault *why)
{
	owned(cover_free) struct cover *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return fault_set(why, -ENOMEM, "out of memory");
	c->root = root;
	c->guest = -1;
	r = open_guest(c, guest, why);
	if (r == 0)
		r = open_driver(c, why);
	if (r < 0)
		return r;
	*ret_cover = take(c);
	return 0;
}

void cover_free(struct cover *c)
{
	if (!c)
		return;
	for (unsigned i = 0; i < c->files; i++)
		close(c->file[i].fd);
	if (c->guest >= 0)
		close(c->guest);
	free(c);
}

/* The descriptor of the file that belongs in the place of that name; -1: the file that is there may
 * stay. */
static int instead_of(const struct cover *c, const char *name)
{
	size_t stem = linker_stem(name);
	int found = -1;

	if (is_guests(name))
		return c->guest;
	for (unsigned i = 0; stem && i < c->files; i++) {
		const struct cover_file *file = &c->file[i];

		if (strcmp(file->name, name) == 0)
			return file->fd;
		/* Another version's file: the driver takes none but its own. */
		if (linker_stem(file->name) == stem && memcmp(file->name, name, stem) == 0)
			found = file->fd;
	}
	return found;
}

static bool is_same(int a, int b)
{
	struct stat about_a, about_b;

	return fstat(a, &about_a) == 0 && fstat(b, &about_b) == 0 &&
	       about_a.st_dev == about_b.st_dev && about_a.st_ino == about_b.st_ino;
}

static int cover_file(struct cover *c, const char *path, const char *name, struct fault *why)
{
	int with = instead_of(c, name), r;
	owned(close) int there = -1;
	struct stat about;

	if (with < 0)
		return 0;
	there = root_find(c->root, path, ROOT_FOLLOW);
	if (there < 0 && root_is_absent(there))
		return 0;
	if (there < 0)
		return fault_set(why, there, "%s cannot be read: %s", path, root_says(there));
	if (fstat(there, &about) != 0)
		return fault_set(why, -errno, "%s: %s", path, strerror(errno));
	/* A linker that is led to a folder gives up: there is nothing to cover. */
	if (S_ISDIR(about.st_mode) || is_same(there, with))
		return 0;
	if (c->mounts++ >= COVER_MOUNTS_MAX)
		return fault_set(why, -E2BIG, "more than %d driver files", COVER_MOUNTS_MAX);
	r = mount_is_shared(c->root, there);
	if (r == 1)
		return fault_set(why, -EXDEV, "%s cannot be covered: " SHARED, path);
	if (r == 0)
		r = mount_over(with, there);
	/* -ENOENT: removed meanwhile. */
	return r == 0 || r == -ENOENT
		       ? 0
		       : fault_set(why, r, "%s cannot be covered: %s", path, root_says(r));
}

int cover_path(struct cover *c, const char *path, struct fault *why)
{
	const char *slash = strrchr(path, '/');

	return slash ? cover_file(c, path, slash + 1, why) : 0;
}

struct listing {
	struct cover *cover;
	const char *folder;
	struct fault *why;
};

static int cover_entry(void *owner, const char *name)
{
	struct listing *in = owner;
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/%s", in->folder, name) >= (int)sizeof(path))
		return 0;
	return cover_file(in->cover, path, name, in->why);
}

/* 1: a folder that was not searched before. */
static int note_folder(struct cover *c, int fd, struct fault *why)
{
	struct stat about;

	if (fstat(fd, &about) != 0)
		return fault_set(why, -errno, "a folder: %s", strerror(errno));
	for (unsigned i = 0; i < c->folders; i++)
		if (c->folder[i].device == about.st_dev && c->folder[i].inode == about.st_ino)
			return 0;
	if (c->folders == COVER_FOLDERS_MAX)
		return fault_set(why, -E2BIG, "the image's linker searches more than %d folders",
				 COVER_FOLDERS_MAX);
	c->folder[c->folders].device = about.st_dev;
	c->folder[c->folders++].inode = about.st_ino;
	return 1;
}

int cover_folder(struct cover *c, const char *folder, struct fault *why)
{
	struct listing in = {c, folder, why};
	owned(close) int fd = root_find(c->root, folder, ROOT_FOLDER);
	int r = fd;

	if (fd < 0 && root_is_absent(fd))
		return 0;
	if (fd >= 0) {
		r = note_folder(c, fd, why);
		if (r <= 0)
			return r;
		r = root_list(c->root, fd, cover_entry, &in);
	}
	if (r < 0 && !*why->text)
		return fault_set(why, r, "%s cannot be read: %s", folder, root_says(r));
	return r;
}

struct wanted {
	struct mount_link link[COVER_DRIVER_MAX + ARRAY_SIZE(guest_names)];
	size_t count;
};

/* Nothing can be found by that name: it is to be made. */
static int want(struct cover *c, struct wanted *w, const char *folder, const char *name,
		const char *target)
{
	struct mount_link *link = &w->link[w->count];
	char path[PATH_MAX];
	int there;

	if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	there = root_find(c->root, path, ROOT_FOLLOW);
	if (there >= 0)
		close(there);
	if (there >= 0 || !root_is_absent(there))
		return there < 0 ? there : 0;
	snprintf(link->name, sizeof(link->name), "%s", name);
	snprintf(link->target, sizeof(link->target), "%s", target);
	w->count++;
	return 0;
}

static int list_wanted(struct cover *c, const char *folder, struct wanted *w)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(guest_names); i++)
		r = want(c, w, folder, guest_names[i], PLACE_GUEST);
	for (unsigned i = 0; r == 0 && i < c->files; i++) {
		char target[PATH_MAX];

		snprintf(target, sizeof(target), PLACE_DRIVER "/%s", c->file[i].name);
		r = want(c, w, folder, c->file[i].name, target);
	}
	return r;
}

/* A link of that name leads nowhere, or there is nothing. */
static int make_link(int folder, const struct mount_link *link)
{
	struct stat about;

	if (fstatat(folder, link->name, &about, AT_SYMLINK_NOFOLLOW) == 0 &&
	    (!S_ISLNK(about.st_mode) || unlinkat(folder, link->name, 0) != 0))
		return S_ISLNK(about.st_mode) ? -errno : -EEXIST;
	return symlinkat(link->target, folder, link->name) == 0 ? 0 : -errno;
}

/* In the container's own layer. 1: nothing can be written there, or it is not its own. */
static int write_links(struct cover *c, const char *folder, const struct wanted *w)
{
	owned(close) int fd = root_find(c->root, folder, ROOT_FOLDER | ROOT_SAME_MOUNT);
	int r = fd < 0 ? fd : 0;

	for (size_t i = 0; r == 0 && i < w->count; i++)
		r = make_link(fd, &w->link[i]);
	switch (-r) {
	case EXDEV:
	case EROFS:
	case EACCES:
	case EPERM:
	case ENOSPC:
	case EDQUOT:
		return 1;
	default:
		return r;
	}
}

int cover_names(struct cover *c, const char *folder, struct fault *why)
{
	owned(free) struct wanted *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return fault_set(why, -ENOMEM, "out of memory");
	r = list_wanted(c, folder, w);
	if (r == 0 && w->count)
		r = write_links(c, folder, w);
	if (r == 1)
		r = mount_links(c->root, folder, w->link, w->count);
	if (r == -EBUSY)
		return fault_set(why, r,
				 "%s cannot be written, and no layer can be laid over it, as other "
				 "things are mounted in it",
				 folder);
	if (r == -EXDEV)
		return fault_set(why, r, "%s: no layer can be laid over it: " SHARED, folder);
	return r < 0 ? fault_set(why, r, "%s: the driver's names cannot be made: %s", folder,
				 root_says(r))
		     : r;
}
