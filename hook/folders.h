/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists the folders in which programs of an image find a driver: its linkers' own folders, those
 * that the linkers' configuration and cache name, those of the container's LD_LIBRARY_PATH, and
 * those in which NVIDIA's images keep drivers of their own.
 */
#pragma once

#include "hook/cover.h"

enum {
	FOLDERS_CACHE_MAX =
		8 << 20, /* bytes of an ld.so.cache; the largest usual ones have 0.3 MiB */
	FOLDERS_TEXT_MAX = 256 << 10, /* of another file of the linker's */
	FOLDERS_INCLUDES_MAX = 256,
};

/* `library_path`: the container's LD_LIBRARY_PATH, or "". A file that is too large to be read is a
 * failure: a folder that is not covered is not protected. */
must_check int folders_cover(struct cover *cover, const char *library_path, struct fault *why);
