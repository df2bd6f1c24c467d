/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of the guest as a whole, and the parts that handle them: it begins, it is copied by
 * fork(), an allocation finds no credit, its connection to meted comes and goes. A part handles an
 * event by a row of guest/process/parts.def, and by a function PART_EVENT() that is declared at the
 * end of this file. The module that sees the event calls parts_EVENT(), and includes none of the
 * parts.
 *
 * Launches, and allocations within the credit, do not pass here.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"
#include "guest/process/parts.def"
#include "wire/wire.h"

/* In a child of fork(): leaves each part as if nothing had been called. */
void parts_forget(void);

/* Joining begins; and, when all parts have started: waits, bounded, until it is over. 0; -errno,
 * which was reported: this process cannot join. */
must_check int parts_start(void);
must_check int parts_await(void);

/* There is a new own page: each part writes its figures there. */
void parts_new_page(void);

/* Is memory of this process in the store, or on its way, so that it waits for a daemon? */
bool parts_is_away(void);

/* ---- an allocation finds no credit: `bytes` are wanted --------------------------------------- */

/* Turns memory that the parts do not use into credit, until there is enough. */
void parts_spare(int device, uint64_t bytes);

/* Asks the driver again what it holds for a part, and returns the difference. false: no part holds
 * anything. */
bool parts_recount(int device);

/* Asks the driver to release unused memory, as far as there is too little credit. Not during
 * a capture. */
void parts_trim(int device, uint64_t bytes);

/* ---- the connection, by the agent ------------------------------------------------------------ */

/* The connection is lost: the daemon's questions on it must not be answered on the next one. */
void parts_down(void);

/* It is about to come up, and gates may be closed; and: it is up, and messages may be sent. */
void parts_up(void);
void parts_connected(void);

/* Adds to an inventory what each part holds of a device. It is stated again on the next connection
 * if this one is lost. */
void parts_state(int device, struct wire_inventory *inventory);

/* The inventory was answered, or will not be. `granted`: the daemon did not refuse it. */
void parts_stated(int device, bool granted);

/* Sends messages that belong to the inventory, before its end. 0; or as `send`. */
typedef int parts_send(struct wire_message *message);
must_check int parts_tell(parts_send *send);

/* A message that is no answer. A part that takes its descriptor (-1: none) sets -1. */
void parts_heard(const struct wire_message *message, int *fd);

/* ---- the same, with the connection's lock held ----------------------------------------------- */

/* Credit has arrived, for a thread that asked for `asked` bytes (0: it has given up). Returns how
 * many are kept for that thread. Called in the order of the answers. */
must_check uint64_t parts_granted(const struct wire_credit_grant *grant, uint64_t asked);

/* The thread will not fetch them. */
void parts_unclaimed(const struct wire_credit_grant *grant, uint64_t kept);

/* A part of the store has arrived, and no thread will fetch it. */
void parts_unread(void);

/* ---- what each part defines ------------------------------------------------------------------ */

#define PLAIN(event, part) void part##_##event(void);
PARTS_forget(PLAIN) PARTS_new_page(PLAIN) PARTS_down(PLAIN) PARTS_up(PLAIN) PARTS_connected(
	PLAIN) PARTS_unread(PLAIN)
#undef PLAIN

#define FAILS(event, part) must_check int part##_##event(void);
	PARTS_start(FAILS) PARTS_await(FAILS)
#undef FAILS

#define OTHER(event, part) bool part##_##event(void);
		PARTS_is_away(OTHER)
#undef OTHER
#define OTHER(event, part) void part##_##event(int device, uint64_t bytes);
			PARTS_spare(OTHER) PARTS_trim(OTHER)
#undef OTHER
#define OTHER(event, part) bool part##_##event(int device);
				PARTS_recount(OTHER)
#undef OTHER
#define OTHER(event, part) void part##_##event(int device, struct wire_inventory *inventory);
					PARTS_state(OTHER)
#undef OTHER
#define OTHER(event, part) void part##_##event(int device, bool granted);
						PARTS_stated(OTHER)
#undef OTHER
#define OTHER(event, part) must_check int part##_##event(parts_send *send);
							PARTS_tell(OTHER)
#undef OTHER
#define OTHER(event, part) void part##_##event(const struct wire_message *message, int *fd);
								PARTS_heard(OTHER)
#undef OTHER
#define OTHER(event, part)                                                                         \
	must_check uint64_t part##_##event(const struct wire_credit_grant *grant, uint64_t asked);
									PARTS_granted(OTHER)
#undef OTHER
#define OTHER(event, part)                                                                         \
	void part##_##event(const struct wire_credit_grant *grant, uint64_t kept);
										PARTS_unclaimed(
											OTHER)
#undef OTHER
