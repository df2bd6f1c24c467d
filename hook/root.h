/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder whose content others chose, as the root of all paths below it: links lead to where they
 * would lead a process that has it for its root, and nothing leads out of it. A file's kind is
 * checked before it is opened, and it is opened once: it cannot be exchanged in between.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "base/fault.h"

enum {
	ROOT_STEPS_MAX = 200000, /* look-ups: an image that needs more than that gets -E2BIG */
};

struct root {
	int fd; /* owned */
	unsigned steps;
	char path[PATH_MAX]; /* as /proc calls it, without a slash at its end: "" for / */
};

must_check int root_open(const char *path, struct root *ret_root, struct fault *why);
void root_close(struct root *root);
static inline void root_close_owned(struct root *root)
{
	root_close(root);
}

enum root_how {
	ROOT_FOLLOW = 0,
	ROOT_NO_FOLLOW = 1, /* what the last part names, though it be a link */
	ROOT_FOLDER = 2,
	ROOT_SAME_MOUNT =
		4, /* -EXDEV: another file system, or another mount of this one, is in the way */
};

/* Opens the file at that path as O_PATH. -ENOSYS: a kernel older than Linux 5.6; -E2BIG: it takes
 * too many look-ups. */
must_check int root_find(struct root *root, const char *path, unsigned how);

/* The words of an error of these functions, for a person. */
const char *root_says(int error);

/* Is it certain that nothing is found at that path? */
static inline bool root_is_absent(int error)
{
	return error == -ENOENT || error == -ENOTDIR || error == -ELOOP || error == -ENAMETOOLONG;
}

/* A regular file, whole, with a NUL behind it. -EINVAL: it is none; -EFBIG: longer than `most`. */
must_check int root_read(struct root *root, const char *path, size_t most, char **ret_text,
			 size_t *ret_size);

/* Where `fd` is, links resolved, from this root: "/usr/lib/libx.so.1". */
must_check int root_path(const struct root *root, int fd, char ret_path[PATH_MAX]);

/* Calls `entry` for each name in the folder but "." and "..", until it returns other than 0, which
 * is returned then. `folder` is O_PATH. */
must_check int root_list(struct root *root, int folder, int (*entry)(void *owner, const char *name),
			 void *owner);

/* Opens anew what `fd` (O_PATH) is: for reading, and never what blocks or acts when it is opened.
 */
must_check int root_reopen(int fd, int flags);
