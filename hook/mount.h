/* SPDX-License-Identifier: Apache-2.0 */
/* Mounts in the mount namespace that this process is in, by descriptors. */
#pragma once

#include <stddef.h>

#include "hook/root.h"

/* `over` (O_PATH, no folder) shows `file` from now on, with the flags of the mount that `file` was
 * found in. */
must_check int mount_over(int file, int over);

/* 1: a mount over `fd` would appear elsewhere, too: a volume with mount propagation in both
 * directions, whose other end may be the host's own folder. The container's own root is not asked:
 * its other end is the container's, too. (Before Linux 5.8 nobody can tell: 0.) */
must_check int mount_is_shared(const struct root *root, int fd);

struct mount_link {
	char name[NAME_MAX + 1];
	char target[PATH_MAX];
};

/*
 * The folder shows these links beside its own entries, and instead of those of the same name;
 * nothing can be written there any more. For a folder that cannot be written anyway, or is not ours
 * to write to.
 * -EBUSY: other things are mounted in it, which would be hidden. -EXDEV: it is shared.
 */
must_check int mount_links(struct root *root, const char *folder, const struct mount_link *links,
			   size_t count);
