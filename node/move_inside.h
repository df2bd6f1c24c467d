/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of node/move.h share among themselves: small sums, and where a guest's device is.
 */
#pragma once

#include "node/daemon.h"

static inline uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static inline uint64_t beyond(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static inline uint64_t take_bytes(uint64_t *bytes)
{
	uint64_t had = *bytes;

	*bytes = 0;
	return had;
}

/* What there is for what can move: all but what cannot, and what room is being made for. The
 * machine is told at its next step. */
uint64_t move_capacity(const struct daemon *d, uint32_t index);

/* The device's place among its tenant's. */
static inline uint32_t index_of(const struct guest_device *at)
{
	return (uint32_t)(at - at->guest->device);
}

static inline struct tenant_device *of_tenant(const struct guest_device *at)
{
	return &at->guest->tenant->device[index_of(at)];
}
