/* SPDX-License-Identifier: Apache-2.0 */
/* A guest's memory that moves, from its first connection to its end. */
#pragma once

#include "node/daemon.h"

/* The guest states its memory, after HELLO: `movable` bytes of those on the device, and `out` bytes
 * in addition. */
void move_adopt(struct guest_device *at, uint64_t movable, uint64_t out);
/* The bytes that count as being in the store, of all devices. */
uint64_t move_out_of(const struct guest *g);
/* A new guest; its connection has ended; its process has ended. */
void move_begin(struct move_guest *m);
void move_away(struct guest *g);
void move_left(struct guest *g);
/* Bytes returned without SEGMENT_RETURN belonged to a former daemon's store. */
void move_forget_foreign(struct guest_device *at, uint64_t bytes);
