/* SPDX-License-Identifier: Apache-2.0 */
/* Notices that somebody has divided a GPU by MIG in another way: see the top of divided.c. */
#pragma once

#include "node/daemon.h"

/* May there be more devices, or others, while we run? */
bool divided_may_be(const struct daemon *d);
/* Notes and logs a device that the driver lists. */
void divided_found(struct daemon *d, uint32_t index);
/* We have divided one ourselves: once more, soon, and one look is enough. */
void divided_now(struct daemon *d);
must_check int divided_open(struct daemon *d);
void divided_close(struct daemon *d);
