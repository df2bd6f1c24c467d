/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the store that guests keep though they were told to drop them. */
#pragma once

#include "node/daemon.h"

/* The guest was told to drop more. / It has given this much back. */
void move_owes(struct guest_device *at);
void move_gave(struct guest_device *at, uint64_t bytes);
/* Counts the kept bytes anew. */
void move_count_kept(struct daemon *d, uint64_t now_ns);
/* The tenant on the device that keeps most; NULL: none does. */
const struct tenant_device *move_keeper(const struct device *device);
