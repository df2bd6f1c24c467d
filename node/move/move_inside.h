/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of node/move/ share: sums over a device and its store, and finding a guest's
 * device. */
#pragma once

#include "base/least.h"
#include "node/daemon.h"
#include "node/time/schedule_now.h"

static inline uint64_t take_bytes(uint64_t *bytes)
{
	uint64_t had = *bytes;

	*bytes = 0;
	return had;
}

/* The device's index among its tenant's. */
static inline uint32_t index_of(const struct guest_device *at)
{
	return (uint32_t)(at - at->guest->device);
}

static inline uint64_t move_now(const struct guest_device *at)
{
	return schedule_now(at->guest->tenant->daemon);
}

static inline struct tenant_device *of_tenant(const struct guest_device *at)
{
	return &at->guest->tenant->device[index_of(at)];
}

static inline struct device *move_device(const struct tenant_device *at)
{
	return &at->tenant->daemon->device[at->index];
}

static inline struct device *device_under(const struct guest_device *at)
{
	return move_device(of_tenant(at));
}

static inline struct move_part *part_under(const struct guest_device *at)
{
	return &at->guest->tenant->daemon->move.part[of_tenant(at)->index];
}

struct move_words {
	char text[WIRE_TEXT_MAX + 1];
};

/* Why the host has no memory for what the tenant is to move out, which is not the tenant's fault:
 * -errno; 0: it has. */
int move_host_error(const struct tenant_device *of);
/* It does not do as it was told. That the host had no memory for an earlier order is no reason. */
void move_blame(struct tenant_device *of);
/* "tenant 3 (x), which has 1GiB of the device, is stuck: ..."; of residency_hindrance(). */
struct move_words move_hindrance(const struct residency_member *by);

/* Something waits, and perhaps no event will end that: check again after a while. */
void move_check_later(struct daemon *d);
/* Must the tenant's guests report whether they want the device? */
bool move_listens(const struct tenant_device *at);
/* The room for movable memory: the device without the unmovable memory, and without the room that
 * is being made. The machine is told at its next step. */
uint64_t move_capacity(const struct daemon *d, uint32_t index);
/* Tells the machine now. True: the room has changed. */
bool move_show_capacity(struct daemon *d, uint32_t index, uint64_t now);
/* The bytes that this room lacks by unmovable memory of classes above batch. */
uint64_t move_above(const struct daemon *d, uint32_t index);
/* The bytes of its part of the store that a guest does not need. */
uint64_t move_surplus(const struct move_guest *m);
/* What it was told to drop of that and still can: copies may have become the only place of their
 * memory since. */
uint64_t move_told_drop(const struct move_guest *m);
/* The device's part of the store, without the bytes that are lost or kept, perhaps for ever. */
uint64_t move_budget(const struct daemon *d, uint32_t index);
/* The most of that for one tenant. */
uint64_t move_quota(const struct daemon *d, uint32_t index);
