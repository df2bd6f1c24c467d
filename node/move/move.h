/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Movable memory: carries out what core/residency/residency.h decides, docs/decisions/0091.
 *
 *	move.c		 the machine of each device: its members, its capacity, its actions
 *	move_order.c	 a tenant's orders, split over its guests
 *	move_heard.c	 the guests' reports of these orders
 *	move_sync.c	 both books, and what guests' pages say
 *	move_guest.c	 a guest's memory that moves, from its first connection to its end
 *	move_ask.c	 asks for movable memory
 *	move_plain.c	 asks for unmovable memory, where movable memory is in the way
 *	move_refuse.c	 why an ask is refused, in words
 *	move_unsettled.c figures that may be about to change, so that an ask waits
 *	move_behind.c	 tenants that wait at their gates for one that does not make room
 *	move_store.c	 guests' parts of the store
 *	move_kept.c	 parts that guests keep though they were told to drop them
 *	move_suspend.c	 a tenant's memory leaves by a person's order
 *
 * There are two books. core/ledger/ledger.h knows what was granted, and counts what is not
 * `evicted` as being on the device; core/residency/residency.h knows which part of that can move.
 * Each guest's `here` and `out` keep them consistent: the movable part of its grant that is on the
 * device, and the part that is in the store. The ledger's `evicted` is `out` minus what may come
 * back at any moment (move_open_credit()). A guest's false reports therefore harm only its own
 * tenant: what it calls movable but does not move counts as unmovable, and reduces the machine's
 * capacity.
 */
#pragma once

#include "node/daemon.h"

must_check int move_open(struct daemon *d);
/* Is meted's store too small for anything to move, for good or, after a division, for now? *ret_why
 * has the sentence. */
must_check bool move_why_never(const struct daemon *d, struct fault *ret_why);
void move_close(struct daemon *d);
/* Sets how long class batch runs before it is parked, and how long a higher class waits for
 * that. */
void move_parking(struct daemon *d, uint64_t run_ns, uint64_t delay_ns);
/* A tenant takes its seat on a device, or is about to leave it. */
void move_sit(struct tenant_device *at, uint64_t now);
void move_stand_up(struct tenant_device *at, uint64_t now);
/* It has memory in the store from a former meted's time, which is to come back whatever its share
 * says now. */
void move_takes_part(struct tenant_device *at, uint64_t now);
/* Its share has changed. */
void move_set(struct tenant *t);
/* Whether it wants the device, according to its guests. */
void move_wants(struct tenant_device *at, bool wants, uint64_t now);
/* Does what is to be done; false: there was nothing. Call it after every event of the turns and of
 * the book. */
must_check bool move_step(struct daemon *d, uint64_t now);
/* meted did not run for so long, by the loop's clock: it counts for no ask. */
void move_lost(struct daemon *d, uint64_t ns);
void move_tick(struct daemon *d, uint64_t now);
uint64_t move_deadline(const struct daemon *d);
void move_row(const struct tenant_device *at, struct wire_tenant_row *ret_row);
