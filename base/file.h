/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and replaces small files as a whole. After a replacement, a reader (or a crash) sees either
 * the old content or the new one, never a mixture.
 */
#pragma once

#include <stddef.h>

#include "base/macros.h"

/* Reads at most `most` bytes; -EFBIG if there are more. A NUL follows the content. */
must_check int file_slurp(const char *path, size_t most, char **ret_text, size_t *ret_size);

/* The same from the current offset of an open descriptor. */
must_check int file_slurp_from(int fd, size_t most, char **ret_text, size_t *ret_size);

/* Writes a temporary file next to it, syncs, and renames. A failure leaves nothing behind. */
must_check int file_replace(const char *path, const void *content, size_t size, unsigned mode);

/* The same without syncing, for files that mean nothing after a restart of the machine: a process
 * that dies leaves the old content or the new one, a machine that crashes may leave half of it. */
must_check int file_replace_unsynced(const char *path, const void *content, size_t size,
				     unsigned mode);

/* Writes everything, despite signals and short writes. */
must_check int file_write(int fd, const void *content, size_t size);
