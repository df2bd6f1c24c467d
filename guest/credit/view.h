/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tenant's view of a device's memory, for the driver's and for NVML's functions.
 */
#pragma once

#include <stdint.h>

struct view_memory {
	uint64_t total, free;
};

/* `physical_bytes`: the device's memory. Never more than it, never below zero. */
void view_memory(int device, uint64_t physical_bytes, struct view_memory *ret_memory);

/* The total alone, and what is free as far as the page says: both without asking the daemon. */
uint64_t view_total(int device, uint64_t physical_bytes);
/* What is left of the tenant's limit, whatever room the device has. */
uint64_t view_left(int device);
uint64_t view_free_seen(int device);
