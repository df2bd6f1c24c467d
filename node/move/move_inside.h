/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of node/move/move.h: small sums, and finding a guest's device. */
#pragma once

#include "base/least.h"
#include "node/move/move.h"
#include "node/daemon.h"

static inline uint64_t take_bytes(uint64_t *bytes)
{
	uint64_t had = *bytes;

	*bytes = 0;
	return had;
}

struct move_words {
	char text[WIRE_TEXT_MAX + 1];
};

/* "tenant 3 (x), which has 1GiB of the device, is stuck: ..."; of residency_hindrance(). */
struct move_words move_hindrance(const struct residency_member *by);

/* The device's index among its tenant's. */
static inline uint32_t index_of(const struct guest_device *at)
{
	return (uint32_t)(at - at->guest->device);
}

static inline struct tenant_device *of_tenant(const struct guest_device *at)
{
	return &at->guest->tenant->device[index_of(at)];
}
