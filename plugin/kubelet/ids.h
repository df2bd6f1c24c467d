/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ids by which the kubelet knows places on a device: "<UUID>::<n>", or "slot-<n>" if the
 * scheduler chooses the device. A container has a set of them, and the set has a name: Allocate
 * knows nothing else about the container. Pure.
 */
#pragma once

#include <stdbool.h>

#include "base/macros.h"

enum {
	IDS_BYTES = 64, /* of an id with its NUL; the kubelet's own bound is 63 */
	IDS_KEY = 17,	/* of a set's name with its NUL */
	IDS_MAX = 1024, /* in a set */
};

/* The name is the same for the same ids in any order, and differs between resources: several
 * instances of mete may use the names for files in one folder. */
void ids_key(const char *resource, const char *const *ids, size_t count, char ret_key[IDS_KEY]);

/* Of a name. */
uint64_t ids_hash(const char *id);

/* Both hold the same ids. */
bool ids_same(const char *const *a, size_t a_count, const char *const *b, size_t b_count);

/* The number of "GPU-...::7" of that device; -1: it is not an id of that device. */
int ids_number(const char *id, const char *uuid);

/* "slot-007": 7; -1: it is not a slot id. */
int ids_slot(const char *id);

void ids_of_device(const char *uuid, unsigned number, char ret_id[IDS_BYTES]);
void ids_of_slot(unsigned number, char ret_id[IDS_BYTES]);
