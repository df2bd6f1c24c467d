/* SPDX-License-Identifier: Apache-2.0 */
/* A tenant's orders to move memory, split over its guests; what they report as done. */
#pragma once

#include "node/daemon.h"

/* Tells them. False: nothing has changed. */
must_check bool move_orders(struct daemon *d, uint64_t now);
