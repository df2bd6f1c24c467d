/* SPDX-License-Identifier: Apache-2.0 */
/* An ask that waits for memory to move. */
#pragma once

#include "node/move/move_inside.h"

enum ask_state {
	ASK_LINE,    /* waits behind others */
	ASK_SETTLES, /* likewise; it would be refused, unless the device's figures change */
	ASK_MACHINE, /* the machine will grant it */
	ASK_LEDGER,  /* the machine has granted it; the ledger has not answered */
	ASK_LIMIT,   /* it exceeds its tenant's limit by figures that may change; likewise */
	ASK_PLAIN,   /* for unmovable memory: room is being made */
	ASK_PASSED,  /* likewise; the room is there, and the ledger has not answered */
	ASK_DOUBTED, /* likewise; it would strand a tenant, unless the device's figures change */
};

struct ask {
	struct list link; /* of the tenant's device, or of the device */
	struct list own;  /* of the guest's device */
	struct guest_device *at;
	struct ledger_request request;
	uint64_t granted_bytes; /* by the machine, in ASK_LEDGER */
	uint64_t since_ns;
	uint64_t lost_ns; /* meted itself did not run for so long since */
	enum ask_state state;
	unsigned tries;
	bool plain;   /* for unmovable memory */
	bool expects; /* in ASK_LIMIT, only until all guests have stated what they hold */
};

/* For how long it has waited while meted ran. It may be younger than `now_ns`. */
static inline uint64_t ask_age(const struct ask *ask, uint64_t now_ns)
{
	return beyond(now_ns, ask->since_ns + ask->lost_ns);
}

/* Of the device's `plain_bytes`: movable memory does not come back into this room. */
static inline bool ask_keeps_room(const struct ask *ask)
{
	return ask->state == ASK_PLAIN || ask->state == ASK_PASSED;
}
