/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the holder of a set of ids in the kubelet's checkpoint: see checkpoint.h. */
#pragma once

#include "plugin/plugin.h"

enum { IDS_OWNER_TEXT = 64 };

struct ids_owner {
	char uid[IDS_OWNER_TEXT], container[IDS_OWNER_TEXT]; /* of one of them */
	uint32_t pods; /* 0: none, or the checkpoint cannot be read; 2: more than one */
};

struct ids_owner ids_owner_find(const struct plugin *p, const char *resource,
				const char *const *ids, size_t count);
