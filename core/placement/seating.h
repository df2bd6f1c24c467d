/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which GPUs of one node its pods get, where the scheduler has chosen the node by sums
 * alone: a pod is on the node already, and waits there until GPUs have room for all of its
 * containers together.
 *
 * Pure: the caller gives the memory and the list of pods, which is all that is remembered between
 * calls. Each call decides with fresh books (core/placement/placement.h), so that nothing can
 * drift.
 *
 * Laws (tests/unit/test_seating_always.c):
 *   - no more of a device is promised than there is, times overcommit; a pod that had its seat
 *     before that was exceeded keeps it. Memory of pods that yield does not count for pods that are
 * above them and fit on no device otherwise; time counts;
 *   - no pod waits for which the devices have room; the numbers of a refusal are those of the
 * books;
 *   - waiting pods are considered in the list's order; a pod that fits need not wait for others.
 *
 * Of several GPUs that fit the fullest is taken: large pods find room later. Amounts are per GPU.
 */
#pragma once

#include "core/placement/placement.h"

enum { SEATING_DEVICES = PLACEMENT_DEVICES };

struct seating_device {
	uint64_t memory_bytes; /* of the device; no container gets more of it. 0: not shared out */
	uint64_t promised_bytes; /* what may be promised of it, in sum: overcommit */
	/* A slot of the configuration: the amount of a container that states none. */
	uint64_t slot_bytes;
	uint32_t slot_milli;
	uint8_t numa;
	bool closed; /* takes no new pods: unhealthy, or not shared out */
};

struct seating_node {
	uint32_t devices;
	struct seating_device device[SEATING_DEVICES];
};

struct seating_container {
	uint64_t memory_bytes;
	uint32_t milli;
	bool slot_memory, slot_milli; /* by the device's slot, until the container is seated */
	bool exclusive;
	uint8_t gpus;			 /* different ones, at least 1 */
	uint8_t kind;			 /* enum placement_kind */
	uint8_t device[SEATING_DEVICES]; /* of a seated one: `gpus` of them, in their order */
};

/* Why a pod waits: what its container needs, and the best that the node has, as in struct
 * placement_refusal. PLACEMENT_NO_DEVICE_COUNT and PLACEMENT_NO_MEMORY_SIZE: it would wait for
 * ever. PLACEMENT_NO_LOST: the GPUs that are large enough, and of these how many are in service. */
struct seating_refusal {
	enum placement_reason reason;
	uint8_t container;
	uint64_t needed, available;
	uint64_t together; /* of memory or time: what the devices have left in sum */
	uint64_t whole;	   /* likewise: of the device that has the most left */
	bool elsewhere;	   /* there is more, and something else is in the way there */
};

struct seating_pod {
	bool seated;
	bool yields; /* it is parked while a pod above it needs its memory's room */
	bool above;  /* pods that yield are parked for it */
	uint8_t containers;
	struct seating_container container[PLACEMENT_CONTAINERS];
	struct seating_refusal refusal; /* where it is not seated */
};

/* The memory that a call needs for these pods. */
size_t seating_size(struct seating_pod *const *pods, size_t count);

/* Seats those of the pods that have no seat and fit, in the list's order, and sets the others'
 * refusals. Returns how many were seated. -EINVAL: a pod that makes no sense (no containers, no
 * GPU, more than PLACEMENT_SLOTS of them), with its place in *ret_wrong, or a malformed node;
 * -ENOSPC: the memory is too small or misaligned. No pod has been seated then. */
must_check int seating_settle(const struct seating_node *node, struct seating_pod *const *pods,
			      size_t count, void *memory, size_t size, size_t *ret_wrong);

/* 0: it can be seated somewhere; -EINVAL: it makes no sense, as above. */
must_check int seating_valid(const struct seating_pod *pod);
