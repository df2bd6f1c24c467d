/* SPDX-License-Identifier: Apache-2.0 */
/* What guests keep of the store though they were told to drop it. */
#pragma once

#include "node/daemon.h"

/* It was told to drop more; it has given so much back. */
void move_owes(struct guest_device *at);
void move_gave(struct guest_device *at, uint64_t bytes);
/* Reckons what there is of the store anew. */
void move_count_kept(struct daemon *d, uint64_t now_ns);
/* Who on the device keeps most, though it was to give it back; NULL: nobody. */
const struct tenant_device *move_keeper(const struct device *device);
