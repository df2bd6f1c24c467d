/* SPDX-License-Identifier: Apache-2.0 */
/* The file in which a segment lies: making one, and finding one that can be joined. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/macros.h"
#include "sim/machine/segment.h"

/* A new one with these settings, which replaces a file of that name. */
must_check int segment_make(const char *path, mode_t mode, const struct settings *settings,
			    int *ret_fd, struct segment **ret_segment);

/* 0 with a segment that processes of that pid namespace use; 1: there is none to join; -EPROTO: one
 * is in use by another build. */
must_check int segment_find(const char *path, uint64_t namespace_id, int *ret_fd,
			    struct segment **ret_segment);
