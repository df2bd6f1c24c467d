/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small files, whole: reading, and replacing so that a reader (or a crash) sees the old content or
 * the new one, never a mixture.
 */
#pragma once

#include <stddef.h>

#include "base/macros.h"

/* Reads at most `most` bytes; -EFBIG where there are more. A NUL is put behind the content. */
must_check int file_slurp(const char *path, size_t most, char **ret_text, size_t *ret_size);

/* Writes beside the file, syncs, and renames. Nothing is left behind on failure. */
must_check int file_replace(const char *path, const void *content, size_t size, unsigned mode);

/* Writes all of it, through signals and short writes. */
must_check int file_write(int fd, const void *content, size_t size);
