/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of the guest, and what each does when something happens to the guest as a whole: it
 * begins, it is copied by fork(), or its connection to meted comes and goes. A part says this in a
 * struct of its own, PART_part, and guest/entry/parts.def lists them. So whoever sees such an event
 * need not know the parts, and none of them is included here.
 *
 * Any member may be NULL: nothing is to be done. Parts are called in the order of the list. No call
 * that launches, and none that allocates within its credit, comes by here.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "wire/wire.h"

struct guest_part {
	/* In a child of fork(): leaves the part as if nothing had been called. */
	void (*forget)(void);

	/* Joining begins. 0; -errno, which was reported: this process cannot join. */
	int (*start)(void);

	/* All have started. Waits, bounded, until the part's own beginning is over. The same
	 * results. */
	int (*await)(void);

	/* The own page is a new one: writes what the part shows there. */
	void (*publish)(void);

	/* Is memory of this process in the store, or on its way, so that it waits for a daemon? */
	bool (*is_away)(void);

	/* ---- where an allocation finds no credit: by the thread that wants `bytes` ------------
	 */

	/* Turns into credit, of what the part has and nobody uses, as much as it is asked for. */
	void (*spare)(int device, uint64_t bytes);

	/* Asks the driver again what it holds for the part, and returns the difference. false: the
	 * part has nothing. */
	bool (*settle)(int device);

	/* Has the driver release what it holds for the part and nobody uses. Not during a
	 * capture. */
	void (*trim)(int device);

	/* ---- the connection, always by the agent --------------------------------------------- */

	/* It is lost: what the daemon asked for on it must not be answered on the next one. */
	void (*down)(void);

	/* It is about to come up; gates may be closed. Then: it is up, and may be sent on. */
	void (*up)(void);
	void (*connected)(void);

	/* Adds what the part holds of a device to an inventory. It is stated again on the next
	 * connection if this one is lost. */
	void (*state)(int device, struct wire_inventory *inventory);

	/* The inventory of a device was answered, or will not be. `granted`: the daemon did not
	 * refuse it. */
	void (*stated)(int device, bool granted);

	/* Something that the daemon must know before it takes the inventory for complete. false:
	 * nothing. */
	bool (*state_more)(struct wire_message *ret_message);

	/* A message that answers nothing. Whoever takes its descriptor (-1: none) sets -1. */
	void (*heard)(const struct wire_message *message, int *fd);

	/* ---- answers with credit, with the connection's lock held ---------------------------- */

	/* One has arrived, for a thread that asked for `asked` bytes (0: it has given up). Returns
	 * how many are kept for that thread. Called in the order of the answers. */
	uint64_t (*granted)(const struct wire_credit_grant *grant, uint64_t asked);

	/* The thread will not fetch them. */
	void (*unclaimed)(const struct wire_credit_grant *grant, uint64_t kept);
};

/* Ends with NULL. */
extern const struct guest_part *const guest_parts[];

/* All parts that have `member`: `part` is each in turn. */
#define each_part(part, member)                                                                    \
	for (const struct guest_part *const *part##_at = guest_parts, *part;                       \
	     (part = *part##_at) != NULL; part##_at++)                                             \
		if (part->member)
