/* SPDX-License-Identifier: Apache-2.0 */
/* What node/move_ask.c and node/move_plain.c share: an ask that waits. */
#pragma once

#include "node/move_inside.h"

enum ask_state {
	ASK_LINE,    /* stands behind others */
	ASK_SETTLES, /* likewise; it would be refused, unless the device's figures change */
	ASK_MACHINE, /* the machine will grant it */
	ASK_LEDGER,  /* it has; the ledger has not answered */
	ASK_PLAIN,   /* it cannot move: room is made */
	ASK_DOUBTED, /* likewise; it would strand somebody, unless the device's figures change */
};

struct ask {
	struct list link; /* of the tenant's device, or of the device */
	struct list own;  /* of the guest's */
	struct guest_device *at;
	struct ledger_request request;
	uint64_t granted_bytes; /* by the machine: of ASK_LEDGER */
	uint64_t since_ns;
	enum ask_state state;
	unsigned tries;
};

static inline struct device *device_of(const struct guest_device *at)
{
	return &at->guest->tenant->daemon->device[of_tenant(at)->index];
}

/* ---- move_ask.c ------------------------------------------------------------------------------ */

/* It waits, or is refused: there are too many. NULL: the latter. */
struct ask *move_ask_make(struct guest_device *at, const struct ledger_request *request);
void move_ask_drop(struct ask *ask);
/* What of the whole device cannot move as far as is known, and may turn out not to be there, or to
 * move; with `recalls` guests are asked for credit that nobody uses. All guests' pages are read. */
uint64_t move_unsettled(const struct device *device, bool recalls);

/* ---- move_plain.c ---------------------------------------------------------------------------- */

/* What cannot move, where others' memory can. False: it is the ledger's. */
must_check bool move_ask_plain(struct guest_device *at, const struct ledger_request *request);
/* One that has waited for long enough is answered; false: nobody has. */
must_check bool move_end_plain(struct device *device, uint64_t now_ns);
