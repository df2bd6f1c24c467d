/* SPDX-License-Identifier: Apache-2.0 */
/* The clock of turns, and whether a tenant is busy. */
#pragma once

#include "node/daemon.h"

/* The clock of turns. */
uint64_t schedule_now(const struct daemon *d);
/* Is one of its guests busy on the device, according to their messages? */
bool schedule_is_busy(const struct tenant_device *at);
