/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by node/move/move_ask.c and node/move/move_plain.c: an ask that waits. */
#pragma once

#include "node/move/move_inside.h"

enum ask_state {
	ASK_LINE,    /* waits behind others */
	ASK_SETTLES, /* likewise; it would be refused, unless the device's figures change */
	ASK_MACHINE, /* the machine will grant it */
	ASK_LEDGER,  /* the machine has granted it; the ledger has not answered */
	ASK_PLAIN,   /* for unmovable memory: room is being made */
	ASK_DOUBTED, /* likewise; it would strand a tenant, unless the device's figures change */
};

struct ask {
	struct list link; /* of the tenant's device, or of the device */
	struct list own;  /* of the guest's device */
	struct guest_device *at;
	struct ledger_request request;
	uint64_t granted_bytes; /* by the machine, in ASK_LEDGER */
	uint64_t since_ns;
	enum ask_state state;
	unsigned tries;
};

static inline struct device *device_of(const struct guest_device *at)
{
	return &at->guest->tenant->daemon->device[of_tenant(at)->index];
}

/* ---- move_ask.c ------------------------------------------------------------------------------ */

/* Creates a waiting ask. NULL: there are too many, and it was refused. */
struct ask *move_ask_make(struct guest_device *at, const struct ledger_request *request);
void move_ask_drop(struct ask *ask);
/* The bytes of the whole device that count as unmovable, but may turn out to be movable or not
 * there at all. Reads all guests' pages; with `recalls`, also recalls guests' unused credit. */
uint64_t move_unsettled(const struct device *device, bool recalls);

/* ---- move_plain.c ---------------------------------------------------------------------------- */

/* An ask for unmovable memory, where others have movable memory. False: the ledger handles it. */
must_check bool move_ask_plain(struct guest_device *at, const struct ledger_request *request);
/* Answers one that has waited for long enough; false: there is none. */
must_check bool move_end_plain(struct device *device, uint64_t now_ns);
