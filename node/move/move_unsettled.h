/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that count as unmovable, and may be about to change. */
#pragma once

#include "node/daemon.h"

/* A guest from before this daemon has not stated what it holds. The ledger keeps room for that, and
 * nothing is moved, and no ask judged, according to figures that lack it. */
bool move_is_expecting(const struct daemon *d, uint32_t index);

/* The bytes of the whole device that count as unmovable, but may turn out to be movable or not
 * there at all. Reads all guests' pages, and recalls guests' unused credit: somebody waits. */
uint64_t move_unsettled(const struct device *device);
/* Bytes that count as movable, but are credit that guests do not use: of a tenant, of all. */
uint64_t move_idle_credit_of(const struct tenant_device *of);
uint64_t move_idle_credit_on(const struct device *device);
/* Without that of guests that may be using it just now, or whose memory comes. */
uint64_t move_unused_credit_of(const struct tenant_device *of);
/* Recalls unused credit if there is a tenant that could never come back whole: the device has less
 * for movable memory than when that tenant's memory was granted. Checks again while that is so. */
void move_recall_if_short(struct daemon *d, uint32_t index);
