/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tenant's view of a device's memory, for the driver's and for NVML's functions.
 */
#pragma once

#include <stdint.h>

struct view_memory {
	uint64_t total, free;
};

/* `physical_bytes`: the device's memory. The figures are between 0 and that. */
void view_memory(int device, uint64_t physical_bytes, struct view_memory *ret_memory);

/* The total alone, and the free bytes by the page: both without asking the daemon. */
uint64_t view_total(int device, uint64_t physical_bytes);
/* The rest of the tenant's limit, regardless of the device's room. */
uint64_t view_left(int device);
uint64_t view_free_seen(int device);
