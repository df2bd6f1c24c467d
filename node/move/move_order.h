/* SPDX-License-Identifier: Apache-2.0 */
/* A tenant's orders to move memory, split over its guests; what they report as done. */
#pragma once

#include "node/daemon.h"

/* There may be something to tell the tenant's guests. */
void move_due(struct tenant_device *at);
/* Tells them. False: nothing has changed. */
must_check bool move_orders(struct daemon *d, uint64_t now);
uint64_t move_open_credit(const struct move_guest *m);
/* Sets the ledger's `evicted` to what it should be. LEDGER_FULL: there is no room for what would
 * come back. */
must_check int move_match(struct guest_device *at);
/* Reads its page: the movable amount may have grown, and memory in the store may have been freed.
 * `exact`: it has no unused credit, so that the movable amount cannot be larger than the page says.
 */
void move_sync(struct guest_device *at, bool exact);
/* Recalls unused credit from it. */
void move_recall(struct guest_device *at, uint64_t bytes);
/* This much movable memory is gone: from the device, and from the store. */
void move_freed(struct guest_device *at, uint64_t here, uint64_t out);
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
