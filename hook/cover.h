/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts the guest into the driver's place in a container's file system: over each libcuda and
 * libnvidia-ml that is there, and the driver's other files over those of other versions; and makes
 * the names in the folders that the linker searches without being told.
 *
 * Files that are there are covered by mounts, and stay as they are below them. Names that are
 * missing are links in the container's own layer, or, where that cannot be written, a layer of
 * links above it: never in a folder that was mounted into the container, which may be the host's.
 */
#pragma once

#include "hook/mount.h"

enum {
	COVER_FOLDERS_MAX = 1024,
	COVER_DRIVER_MAX = 256, /* files of the driver */
	COVER_MOUNTS_MAX = 2048,
};

struct cover_file {
	char name[NAME_MAX + 1];
	int fd; /* owned */
};

struct cover {
	struct root *root;
	int guest;	   /* owned; in the container */
	struct stat about; /* of the guest */
	unsigned files, folders, mounts;
	struct cover_file file[COVER_DRIVER_MAX];
	struct {
		dev_t device;
		ino_t inode;
	} folder[COVER_FOLDERS_MAX]; /* that were searched */
};

/* `guest`: the library on the host. If the container has the very same file where the edits put it,
 * the runtime has made the mounts, and they are the right ones. */
must_check int cover_open(struct root *root, const char *guest, struct cover **ret_cover,
			  struct fault *why);
void cover_free(struct cover *cover);
OWNED_POINTER(struct cover, cover_free)

/* All of the driver's names in that folder; a folder that is not there has none. `why` of this and
 * of what follows is empty ("") when they are called. */
must_check int cover_folder(struct cover *cover, const char *folder, struct fault *why);

/* One file, if it has one of the names. */
must_check int cover_path(struct cover *cover, const char *path, struct fault *why);

/* The folder has all names from now on; to be called before its files are covered. */
must_check int cover_names(struct cover *cover, const char *folder, struct fault *why);
