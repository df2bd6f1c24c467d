/* SPDX-License-Identifier: Apache-2.0 */
/*                                                           sim/machine/share_book.h
 * Exported memory (share.h) in a device's book. The caller has the device's lock. Nothing here
 * depends on the calling process, or on what it sees of the node.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sim/machine/segment.h"

#define SHARE_NOBODY UINT32_MAX /* pays */

bool share_bit(const uint64_t *bits, uint32_t slot);
void share_set_bit(uint64_t *bits, uint32_t slot, bool on);

struct segment_share *share_find(struct segment_device *book, uint64_t id);

/* NULL where the table is full. */
struct segment_share *share_new(struct segment_device *book, uint64_t bytes, uint32_t slot,
				uint32_t payer);

/* The process no longer holds it. */
void share_drop(struct segment_device *book, struct segment_share *share, uint32_t slot);

/* Is any descriptor locked, `fd` itself not counted? Needs no lock. */
bool share_marked(int fd);

/* Frees shares that were only watched and have no descriptor left; returns how many. Not with a
 * lock held. */
unsigned share_reap(struct segment *segment, uint64_t own_namespace);

/* With the device's lock held. */
void share_bury(struct segment_device *device, uint32_t slot);
uint64_t share_sum(const struct segment_device *device);
uint64_t share_paid_by(const struct segment_device *device, uint32_t slot);
