/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by node/move/move_ask.c and node/move/move_plain.c: an ask that waits. */
#pragma once

#include "node/move/ask_types.h"

/* Creates a waiting ask. NULL: there are too many, and it was refused. */
struct ask *move_ask_make(struct guest_device *at, const struct ledger_request *request);
void move_ask_drop(struct ask *ask);

/* Asks for memory that wait here, and not in the ledger: their number, and the one that has waited
 * longest, by schedule_now(). False: none waits. */
uint32_t move_asks(const struct tenant_device *at);
must_check bool move_first_ask(const struct tenant_device *at, uint64_t *ret_bytes,
			       uint64_t *ret_since_ns);
/* An ask of a guest. False: the ledger handles it from the beginning. */
must_check bool move_ask(struct guest_device *at, const struct ledger_request *request,
			 bool movable);
/* One that exceeds its tenant's limit: the ledger refuses it whatever moves, unless the tenant's
 * charge is about to fall; or, if it `expects`, one that does not fit while guests have not stated
 * what they hold. False: the ledger handles it from the beginning. */
must_check bool move_ask_limit(struct guest_device *at, const struct ledger_request *request,
			       bool movable, bool expects);
/* The ledger has answered; true: do not tell the guest (yet). */
must_check bool move_answered(struct guest_device *at, const struct ledger_action *action);
/* RESIDENCY_GRANT. / Serves the next in line. */
void move_granted(struct tenant_device *at);
must_check bool move_line(struct tenant_device *at, uint64_t now);
/* The device's figures have changed: asks that waited for that are tried again. */
void move_settled(struct device *device);
void move_ask_forget(struct guest_device *at);
void move_ask_late(struct daemon *d, uint64_t now_ns);
