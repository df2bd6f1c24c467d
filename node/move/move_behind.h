/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants that wait at their gates for one that does not make room. */
#pragma once

#include "node/daemon.h"

void move_check_behind(struct daemon *d);
/* The number of the tenant that its memory waits for: one that is stuck, or for which it is parked.
 * 0: none. */
uint32_t move_behind(const struct tenant_device *of);
