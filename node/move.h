/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that moves: does what core/residency.h decides, docs/decisions/0091.
 *
 *	move.c	      the machine of each device: who is in it, how large it is, what it says
 *	move_order.c  what a tenant is told to do, split over its guests; what they say they did
 *	move_ask.c    asks for memory that can move
 *	move_plain.c  asks for what cannot, where that is in the way of what can
 *	move_store.c  guests' parts of the store
 *
 * Two books are kept. core/ledger.h has what was granted, and counts for the device what is not
 * `evicted`; core/residency.h has what of that can move. They agree through each guest's `here` and
 * `out`: of its grant, what can move and is on the device, and what is in the store. The ledger's
 * `evicted` is `out`, less what may come at any moment (move_open_credit()). So what a guest says
 * wrongly is its own tenant's harm: what can move according to it, and does not, counts as
 * unmovable, and makes the machine's device smaller.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/fault.h"
#include "base/list.h"
#include "core/residency.h"
#include "wire/wire.h"

struct daemon;
struct device;
struct tenant;
struct tenant_device;
struct guest;
struct guest_device;
struct ledger_action;
struct ledger_request;

enum {
	MOVE_ASKS_OF_GUEST = 64,   /* that wait, on a device */
	MOVE_ASKS_OF_TENANT = 512, /* likewise */
	MOVE_SEGMENTS = 16384,	   /* of a guest */
	MOVE_WAITS_OF_GUEST = 8,   /* asks for segments that wait */
	MOVE_PLAIN_MS = 20000,	   /* so long room is made for what cannot move */
	MOVE_SEGMENT_MS = 4000,	   /* so long others are waited for to give back of the store */
	MOVE_LOOK_MS = 500,
};

/* Of a guest on a device. */
struct move_guest {
	bool can;	    /* it has the store's descriptor */
	uint64_t here, out; /* of its grant: on the device, and in the store */
	struct list asks;   /* of its, in line; move_ask.c */
	uint32_t ask_count;
	struct list segments, waits; /* move_store.c */
	uint32_t segment_count, wait_count;
	uint64_t segment_bytes;
	uint64_t foreign_bytes; /* in a former daemon's store */

	/* What it was told since the generation began, and what it said that it did. */
	uint32_t generation;
	bool stopping; /* it was told of the next generation, and has not answered */
	bool telling;  /* it is to be told what follows */
	uint64_t leave, enter, drop, prepare;
	uint64_t left, copied, entered, returned, dropped, failed;
	uint64_t saved; /* left without a copy, of generations before */
};

/* move.c */
must_check int move_open(struct daemon *d);
void move_close(struct daemon *d);
/* Somebody waits whom nothing may ever wake. */
void move_look_later(struct daemon *d);
/* A tenant's seat on a device is joined, is about to be left; its share has changed. */
void move_sit(struct tenant_device *at, uint64_t now);
void move_stand_up(struct tenant_device *at, uint64_t now);
void move_set(struct tenant *t);
/* Whether it wants, as its guests say. */
void move_wants(struct tenant_device *at, bool wants, uint64_t now);
/* Do its guests have to say whether they want? */
bool move_listens(const struct tenant_device *at);
/* Does what is to be done; false: nothing was. After every event of turns and of the book. */
must_check bool move_step(struct daemon *d, uint64_t now);
/* The ledger's figures have changed. */
void move_book_changed(struct daemon *d);
void move_tick(struct daemon *d, uint64_t now);
uint64_t move_deadline(const struct daemon *d);
/* `mete suspend` and `mete resume`. */
must_check int move_send_away(struct tenant *t, bool away, struct fault *why);
void move_row(const struct tenant_device *at, struct wire_tenant_row *ret_row);

/* move_order.c */
/* Something is to be told to the tenant's guests, or may be. */
void move_due(struct tenant_device *at);
/* Tells them. False: nothing had changed. */
must_check bool move_orders(struct daemon *d, uint64_t now);
uint64_t move_open_credit(const struct move_guest *m);
/* The ledger's `evicted` is made what it should be. LEDGER_FULL: there is no room to come. */
must_check int move_match(struct guest_device *at);
/* What its page says: how much can move may have grown, and what is in the store may have been
 * freed; `exact`: it has no credit that it does not use, so that it cannot be more, either. */
void move_sync(struct guest_device *at, bool exact);
/* It is asked for credit that it does not use. */
void move_recall(struct guest_device *at, uint64_t bytes);
/* Of what can move so much is gone: on the device, and in the store. */
void move_freed(struct guest_device *at, uint64_t here, uint64_t out);
/* It says what it has: after HELLO. `movable` of what is on the device, `out` beside it. */
void move_adopt(struct guest_device *at, uint64_t movable, uint64_t out);
void move_heard(struct guest *g, uint32_t id, const struct wire_moved *said);
/* A new guest. Its connection has ended; its process has. */
void move_begin(struct move_guest *m);
void move_away(struct guest *g);
void move_left(struct guest *g);

/* move_ask.c */
/* An ask of a guest. False: it is the ledger's from the beginning. */
must_check bool move_ask(struct guest_device *at, const struct ledger_request *request,
			 bool movable);
/* The ledger has answered; true: the guest is not to be told (yet). */
must_check bool move_answered(struct guest_device *at, const struct ledger_action *action);
/* RESIDENCY_GRANT; and who is next in line. */
void move_granted(struct tenant_device *at);
must_check bool move_line(struct tenant_device *at, uint64_t now);
/* What is known of the device has changed: asks that waited for that are looked at again. */
void move_settled(struct device *device);
void move_ask_forget(struct guest_device *at);
void move_ask_late(struct daemon *d, uint64_t now_ns);

/* move_plain.c */
/* Asks that room is made for: those that fit go on. */
must_check bool move_plain(struct daemon *d, uint32_t device);

/* move_store.c */
must_check int move_store_open(struct daemon *d);
void move_store_ask(struct guest *g, uint32_t id, uint32_t device);
void move_segment_ask(struct guest *g, uint32_t id, const struct wire_segment_ask *said);
void move_segment_return(struct guest *g, uint32_t id, const struct wire_segment_return *said);
void move_segments_forget(struct guest_device *at);
void move_segments_late(struct daemon *d, uint64_t now_ns);
/* What it could give back without losing anything. */
uint64_t move_surplus(const struct move_guest *m);
