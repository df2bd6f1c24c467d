/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes part in turns, if the tenant's page says so (struct wire_tenant_turns): tells the daemon
 * when this process has no work on a device, and before it has work again (guest/time/want.h).
 * Everything here is the agent's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"

/* The closes that the agent is working on: of this device, and of any. */
struct turns_closes {
	bool draining; /* a close of this device is in progress */
	bool walking;  /* a walk over the slots is in progress */
};

/* Checks what is in flight on a device; returns after how many microseconds to check again (-1:
 * not before a message arrives). `wire_device`: -1: none; `device` as in guest/process/state.h. */
must_check int turns_step(uint32_t wire_device, int device, const struct turns_closes *closes);
