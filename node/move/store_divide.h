/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Divides the store evenly among devices. A device may use more than its part, because there were
 * fewer devices when it was given that, or because it is gone. Then it keeps what it uses and gets
 * no more, and the others divide the rest. So of `budget_bytes`
 *
 *  1. each device that is here may have as much as every other one;
 *  2. the parts of all devices, and the bytes that some use beyond them, add up to no more than the
 *     budget if the used bytes do, and fall short of it by fewer bytes than there are devices;
 *  3. no part becomes smaller when less is used.
 *
 * Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct store_use {
	uint64_t bytes; /* that the device's tenants have in the store */
	bool here;	/* false: the device is gone, and may have no more */
};

/* Returns what each device that is here may have. */
uint64_t store_divide(uint64_t budget_bytes, const struct store_use *uses, size_t count);
