/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Movable memory: carries out what core/residency/residency.h decides, docs/decisions/0091.
 *
 *	move.c	      the machine of each device: its members, its capacity, its actions
 *	move_order.c  a tenant's orders, split over its guests; what they report as done
 *	move_ask.c    asks for movable memory
 *	move_behind.c who waits at its gate for who does not make room
 *	move_plain.c  asks for unmovable memory, where that is in the way of movable memory
 *	move_store.c  guests' parts of the store
 *	move_kept.c   what they keep of it though they were told to drop it
 *
 * There are two books. core/ledger/ledger.h knows what was granted, and counts what is not
 *`evicted` as being on the device; core/residency/residency.h knows which part of that can move.
 *Each guest's `here` and `out` keep them consistent: the movable part of its grant that is on the
 *device, and the part that is in the store. The ledger's `evicted` is `out` minus what may come
 *back at any moment (move_open_credit()). A guest's false reports therefore harm only its own
 *tenant: what it calls movable but does not move counts as unmovable, and reduces the machine's
 *capacity.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/fault.h"
#include "base/list.h"
#include "core/residency/residency.h"
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
	MOVE_WAITS_OF_GUEST = 8,   /* waiting asks for segments */
	MOVE_PLAIN_MS = 20000,	   /* room is made for unmovable memory for this long */
	MOVE_HINDERED_MS = 15000,  /* an ask waits for this long for who does not make room */
	MOVE_SEGMENT_MS = 4000,	   /* others have this long to return parts of the store */
	MOVE_LOOK_MS = 500,
};

/* Of a guest on a device. */
struct move_guest {
	bool can;	    /* it has the store's descriptor */
	uint64_t here, out; /* of its grant: on the device, and in the store */
	struct list asks;   /* its own, in order; move_ask.c */
	uint32_t ask_count;
	struct list segments, waits; /* move_store.c */
	uint32_t segment_count, wait_count;
	uint64_t segment_bytes;
	uint64_t foreign_bytes; /* in a former daemon's store */
	uint64_t given_bytes;	/* of segments it returned, and has not said so in MOVED */
	uint64_t owes_since_ns; /* what it is to drop; 0: it owes nothing */
	bool keeps;		/* for too long */
	struct list in_want;	/* of the daemon: it was refused a segment, and not told since */
	uint32_t behind;	/* of its tenant, as it was told */
	uint64_t lacks_bytes;	/* the store is full for this ask of it */

	/* What it was told to do in this generation, and what it reported as done. */
	uint32_t generation;
	bool stopping; /* it was told of the next generation, and has not answered */
	bool telling;  /* it must be told the following */
	uint64_t leave, enter, drop, prepare;
	uint64_t left, copied, entered, returned, dropped, failed;
	uint64_t saved; /* left without a copy, in earlier generations */
};

/* move.c */
must_check int move_open(struct daemon *d);
/* Is meted's store too small for anything to move? *ret_why says so. */
must_check bool move_why_never(const struct daemon *d, struct fault *ret_why);
void move_close(struct daemon *d);
/* How long class batch runs before it is parked, and how long a higher class waits before. */
void move_parking(struct daemon *d, uint64_t run_ns, uint64_t delay_ns);
/* Somebody waits, perhaps without any event to come: look again after a while. */
void move_look_later(struct daemon *d);
/* A tenant takes its seat on a device, or is about to leave it; its share has changed. */
void move_sit(struct tenant_device *at, uint64_t now);
void move_stand_up(struct tenant_device *at, uint64_t now);
/* It has memory out of a former meted's time, whatever its share says now: that is to come back. */
void move_takes_part(struct tenant_device *at, uint64_t now);
void move_set(struct tenant *t);
/* Whether it wants the device, according to its guests. */
void move_wants(struct tenant_device *at, bool wants, uint64_t now);
/* Must its guests report whether they want the device? */
bool move_listens(const struct tenant_device *at);
/* Does what is to be done; false: there was nothing. Call it after every event of the turns and of
 * the book. */
must_check bool move_step(struct daemon *d, uint64_t now);
/* The ledger's figures have changed. */
void move_book_changed(struct daemon *d);
void move_tick(struct daemon *d, uint64_t now);
uint64_t move_deadline(const struct daemon *d);
/* `mete suspend` and `mete resume`. */
struct move_sent {
	uint64_t moves_bytes; /* that leave the devices, or have left */
	uint64_t stays_bytes; /* that stay, because they cannot move */
};
must_check int move_send_away(struct tenant *t, bool away, struct move_sent *ret,
			      struct fault *why);
void move_row(const struct tenant_device *at, struct wire_tenant_row *ret_row);
/* Asks for memory that wait here, and not in the ledger: how many; false: none; the one that has
 * waited longest, by schedule_now(). */
uint32_t move_asks(const struct tenant_device *at);
must_check bool move_first_ask(const struct tenant_device *at, uint64_t *ret_bytes,
			       uint64_t *ret_since_ns);

/* move_order.c */
/* There may be something to tell the tenant's guests. */
void move_due(struct tenant_device *at);
/* Tells them. False: nothing has changed. */
must_check bool move_orders(struct daemon *d, uint64_t now);
uint64_t move_open_credit(const struct move_guest *m);
/* Sets the ledger's `evicted` to what it should be. LEDGER_FULL: there is no room for what would
 * come back. */
must_check int move_match(struct guest_device *at);
/* Reads its page: the movable amount may have grown, and memory in the store may have been freed.
 * `exact`: it has no unused credit, so that the movable amount cannot be larger than the page says.
 */
void move_sync(struct guest_device *at, bool exact);
/* Recalls unused credit from it. */
void move_recall(struct guest_device *at, uint64_t bytes);
/* This much movable memory is gone: from the device, and from the store. */
void move_freed(struct guest_device *at, uint64_t here, uint64_t out);
/* It states what it has, after HELLO: `movable` bytes of those on the device, and `out` bytes in
 * addition. */
void move_adopt(struct guest_device *at, uint64_t movable, uint64_t out);
/* What counts as being in the store, on all devices. */
uint64_t move_out_of(const struct guest *g);
void move_heard(struct guest *g, uint32_t id, const struct wire_moved *said);
/* A new guest; its connection has ended; its process has ended. */
void move_begin(struct move_guest *m);
void move_away(struct guest *g);
void move_left(struct guest *g);

/* move_ask.c */
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

/* move_behind.c */
void move_look_behind(struct daemon *d);

/* move_plain.c */
/* Passes on the asks that room was made for, if they fit now. */
must_check bool move_plain(struct daemon *d, uint32_t device);

/* move_store.c */
must_check int move_store_open(struct daemon *d);
void move_store_ask(struct guest *g, uint32_t id, uint32_t device);
void move_segment_ask(struct guest *g, uint32_t id, const struct wire_segment_ask *said);
void move_segment_return(struct guest *g, uint32_t id, const struct wire_segment_return *said);
void move_segments_forget(struct guest_device *at);
void move_segments_late(struct daemon *d, uint64_t now_ns);
/* How much of its part of the store it does not need. */
uint64_t move_surplus(const struct move_guest *m);

/* move_kept.c */
/* It was told to drop more; it has given so much back. */
void move_owes(struct guest_device *at);
void move_gave(struct guest_device *at, uint64_t bytes);
/* Reckons what there is of the store anew. */
void move_count_kept(struct daemon *d, uint64_t now_ns);
/* Who on the device keeps most, though it was to give it back; NULL: nobody. */
const struct tenant_device *move_keeper(const struct device *device);
