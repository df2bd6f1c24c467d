/* SPDX-License-Identifier: Apache-2.0 */
/* Asks for unmovable memory, where movable memory is in the way. */
#pragma once

#include "node/daemon.h"

/* The bytes of classes above batch for which room is being made. */
uint64_t move_plain_above(const struct device *device);
/* Passes on the asks that room was made for, if they fit now. */
must_check bool move_plain(struct daemon *d, uint32_t device);
/* An ask for unmovable memory, where others have movable memory. False: the ledger handles it. */
must_check bool move_ask_plain(struct guest_device *at, const struct ledger_request *request);
struct ask;
struct ledger_action;
/* One that was not refused for its tenant's limit, but has no room. False: it is dropped, and the
 * ledger's answer stands. */
must_check bool move_plain_again(struct ask *ask);
/* All guests have stated what they hold: asks that waited only for that are judged like new ones.
 */
void move_plain_all_stated(struct device *device);
/* The ledger's answer to an ask that was passed on. True: the ask waits for room again. */
must_check bool move_plain_answered(struct ask *ask, const struct ledger_action *action);
/* Answers one that has waited for long enough; false: there is none. */
must_check bool move_end_plain(struct device *device, uint64_t now_ns);
