/* SPDX-License-Identifier: Apache-2.0 */
/* A guest's segments of its tenant's store: taken, refused, given back. */
#pragma once

#include "node/daemon.h"
#include "node/move/store.h"

/* 0: the guest hears of the segment, or that there is none, when its pages have been prepared. Else
 * the reason, for move_segment_refuse(); STORE_BUDGET: another guest may have to return some. */
must_check int move_segment_take(struct guest_device *at, uint32_t id, uint64_t bytes);
void move_segment_refuse(struct guest_device *at, uint32_t id, uint64_t bytes, int r);
/* Until it has a segment of this size, or asks for another one, it cannot move memory that has no
 * place in the store. */
void move_segment_lacks(struct guest_device *at, uint64_t bytes);
void move_segment_release(struct store_segment *segment);
