/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of node/move/move.h: small sums, and finding a guest's device. */
#pragma once

#include "base/least.h"
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

/* Somebody waits, perhaps without any event to come: look again after a while. */
void move_look_later(struct daemon *d);
/* Must its guests report whether they want the device? */
bool move_listens(const struct tenant_device *at);
/* The room for movable memory: the device without the unmovable memory, and without the room that
 * is being made. The machine is told at its next step. */
uint64_t move_capacity(const struct daemon *d, uint32_t index);
/* How much of its part of the store it does not need. */
uint64_t move_surplus(const struct move_guest *m);
/* What there is of the device's part of the store, without what nobody knows how to get back. */
uint64_t move_budget(const struct daemon *d, uint32_t index);
