/* SPDX-License-Identifier: Apache-2.0 */
#include "hook/root.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>

int root_open(const char *path, struct root *ret_root, struct fault *why)
{
	struct root root = {.fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC)};
	int r;

	if (root.fd < 0)
		return fault_set(why, -errno, "%s: %s", path, strerror(errno));
	r = root_path(&root, root.fd, root.path);
	if (r < 0) {
		close(root.fd);
		return fault_set(why, r, "%s: /proc does not say where it is: %s", path,
				 strerror(-r));
	}
	if (strcmp(root.path, "/") == 0)
		root.path[0] = '\0';
	*ret_root = root;
	return 0;
}

void root_close(struct root *root)
{
	if (root->fd >= 0)
		close(root->fd);
	root->fd = -1;
}

const char *root_says(int error)
{
	return error == -E2BIG ? "there are more entries than are examined" : strerror(-error);
}

int root_find(struct root *root, const char *path, unsigned how)
{
	struct open_how about = {
		.flags = O_PATH | O_CLOEXEC | (how & ROOT_NO_FOLLOW ? O_NOFOLLOW : 0) |
			 (how & ROOT_FOLDER ? O_DIRECTORY : 0),
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS |
			   (how & ROOT_SAME_MOUNT ? RESOLVE_NO_XDEV : 0),
	};
	int fd;

	if (root->steps++ >= ROOT_STEPS_MAX)
		return -E2BIG;
	do {
		/* -EAGAIN: something was renamed meanwhile, and ".." is not sure then. */
		fd = (int)syscall(SYS_openat2, root->fd, path, &about, sizeof(about));
	} while (fd < 0 && (errno == EAGAIN || errno == EINTR) && root->steps++ < ROOT_STEPS_MAX);
	return fd < 0 ? -errno : fd;
}

static void name_fd(int fd, char ret_name[32])
{
	snprintf(ret_name, 32, "/proc/self/fd/%d", fd);
}

int root_reopen(int fd, int flags)
{
	char name[32];
	int opened;

	name_fd(fd, name);
	opened = open(name, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	return opened < 0 ? -errno : opened;
}

static int read_all(int fd, char *text, size_t size, size_t *ret_size)
{
	size_t used = 0;
	ssize_t n;

	do {
		n = read(fd, text + used, size - used);
		if (n > 0)
			used += (size_t)n;
	} while ((n > 0 && used < size) || (n < 0 && errno == EINTR));
	*ret_size = used;
	return n < 0 ? -errno : 0;
}

int root_read(struct root *root, const char *path, size_t most, char **ret_text, size_t *ret_size)
{
	owned(close) int there = root_find(root, path, ROOT_FOLLOW), fd = -1;
	owned(free) char *text = NULL;
	struct stat about;
	int r;

	if (there < 0)
		return there;
	if (fstat(there, &about) != 0)
		return -errno;
	if (!S_ISREG(about.st_mode))
		return -EINVAL;
	if (about.st_size < 0 || (size_t)about.st_size > most)
		return -EFBIG;
	fd = root_reopen(there, O_RDONLY);
	if (fd < 0)
		return fd;
	/* Of a file that grows meanwhile: its former content. */
	text = malloc((size_t)about.st_size + 1);
	if (!text)
		return -ENOMEM;
	r = read_all(fd, text, (size_t)about.st_size, ret_size);
	if (r < 0)
		return r;
	text[*ret_size] = '\0';
	*ret_text = take(text);
	return 0;
}

int root_path(const struct root *root, int fd, char ret_path[PATH_MAX])
{
	size_t prefix = strlen(root->path);
	char name[32], whole[PATH_MAX];
	ssize_t n;

	name_fd(fd, name);
	n = readlink(name, whole, sizeof(whole));
	if (n < 0)
		return -errno;
	if (n == sizeof(whole))
		return -ENAMETOOLONG;
	whole[n] = '\0';
	if (whole[0] != '/' || strncmp(whole, root->path, prefix) != 0 ||
	    (whole[prefix] != '/' && whole[prefix] != '\0'))
		return -ENOENT;
	snprintf(ret_path, PATH_MAX, "%s", whole[prefix] ? whole + prefix : "/");
	return 0;
}

int root_list(struct root *root, int folder, int (*entry)(void *owner, const char *name),
	      void *owner)
{
	int fd = root_reopen(folder, O_RDONLY | O_DIRECTORY), r = 0;
	DIR *open_folder = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *found;

	if (!open_folder) {
		r = fd < 0 ? fd : -errno;
		if (fd >= 0)
			close(fd);
		return r;
	}
	errno = 0;
	while (r == 0 && (found = readdir(open_folder))) {
		if (root->steps++ >= ROOT_STEPS_MAX)
			r = -E2BIG;
		else if (strcmp(found->d_name, ".") != 0 && strcmp(found->d_name, "..") != 0)
			r = entry(owner, found->d_name);
		errno = 0;
	}
	if (r == 0 && errno)
		r = -errno;
	closedir(open_folder);
	return r;
}
