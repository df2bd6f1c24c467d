/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the two books consistent: guests' pages, which say what of their memory moves, and the
 * ledger. */
#pragma once

#include "node/daemon.h"

/* There may be something to tell the tenant's guests. */
void move_due(struct tenant_device *at);
/* The bytes that may come back to it at any moment. */
uint64_t move_open_credit(const struct move_guest *m);
/* Sets the ledger's `evicted` to what it should be. LEDGER_FULL: there is no room for the bytes
 * that would come back. */
must_check int move_match(struct guest_device *at);
/* Reads its page: the movable amount may have grown, and memory in the store may have been freed.
 * `exact`: it has no unused credit, so that the movable amount cannot be larger than the page says.
 */
void move_sync(struct guest_device *at, bool exact);
/* Recalls unused credit from it. */
void move_recall(struct guest_device *at, uint64_t bytes);
/* This much movable memory is gone: from the device, and from the store. */
void move_freed(struct guest_device *at, uint64_t here, uint64_t out);
/* The bytes that it was told to move out, and has not. */
uint64_t move_open_order(const struct move_guest *m);
/* More is movable than was asked for as movable: guests use any credit for it. */
void move_grow(struct guest_device *at, uint64_t bytes);
/* Its generation ends. */
void move_forget_orders(struct move_guest *m);
