/* SPDX-License-Identifier: Apache-2.0 */
/* A tenant's orders to move memory, split over its guests; what they report as done. */
#pragma once

#include "node/daemon.h"

/* Tells them. False: nothing has changed. */
must_check bool move_orders(struct daemon *d, uint64_t now);
/* It states what it has, after HELLO: `movable` bytes of those on the device, and `out` bytes in
 * addition. */
void move_adopt(struct guest_device *at, uint64_t movable, uint64_t out);
/* What counts as being in the store, on all devices. */
uint64_t move_out_of(const struct guest *g);
void move_heard(struct guest *g, uint32_t id, const struct wire_moved *said);
/* A new guest; its connection has ended; its process has ended. */
void move_begin(struct move_guest *m);
void move_away(struct guest *g);
void move_left(struct guest *g);
