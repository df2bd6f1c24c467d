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

static inline struct device *device_under(const struct guest_device *at)
{
	return &at->guest->tenant->daemon->device[of_tenant(at)->index];
}

/* Creates a waiting ask. NULL: there are too many, and it was refused. */
struct ask *move_ask_make(struct guest_device *at, const struct ledger_request *request);
void move_ask_drop(struct ask *ask);
/* The bytes of the whole device that count as unmovable, but may turn out to be movable or not
 * there at all. Reads all guests' pages; with `recalls`, also recalls guests' unused credit. */
uint64_t move_unsettled(const struct device *device, bool recalls);

/* Asks for memory that wait here, and not in the ledger: how many; false: none; the one that has
 * waited longest, by schedule_now(). */
uint32_t move_asks(const struct tenant_device *at);
must_check bool move_first_ask(const struct tenant_device *at, uint64_t *ret_bytes,
			       uint64_t *ret_since_ns);
/* An ask of a guest. False: the ledger handles it from the beginning. */
must_check bool move_ask(struct guest_device *at, const struct ledger_request *request,
			 bool movable);
/* The ledger has answered; true: do not tell the guest (yet). */
must_check bool move_answered(struct guest_device *at, const struct ledger_action *action);
/* RESIDENCY_GRANT. The second function serves the next in line. */
void move_granted(struct tenant_device *at);
must_check bool move_line(struct tenant_device *at, uint64_t now);
/* The device's figures have changed: asks that waited for that are tried again. */
void move_settled(struct device *device);
void move_ask_forget(struct guest_device *at);
void move_ask_late(struct daemon *d, uint64_t now_ns);
