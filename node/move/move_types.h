/* SPDX-License-Identifier: Apache-2.0 */
/* The state of memory that moves: move.h. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/loop.h"
#include "node/bounds.h"
#include "node/move/store.h"

enum {
	MOVE_ASKS_OF_GUEST = 64,   /* that wait, on a device */
	MOVE_ASKS_OF_TENANT = 512, /* likewise */
	MOVE_SEGMENTS = 16384,	   /* of a guest */
	MOVE_WAITS_OF_GUEST = 8,   /* waiting asks for segments */
	MOVE_PLAIN_MS = 20000,	   /* room is made for unmovable memory for this long */
	MOVE_HINDERED_MS = 15000,  /* an ask waits for this long for a tenant in its way */
	MOVE_SEGMENT_MS = 4000,	   /* others have this long to return parts of the store */
	MOVE_CHECK_MS = 500,
};

/* Of a guest on a device. */
struct move_guest {
	bool can;		 /* it has the store's descriptor */
	bool keeps;		 /* what it owes since `owes_since_ns`, for too long */
	bool stopping;		 /* it was told of the next generation, and has not answered */
	bool telling;		 /* it must be told its orders */
	bool host_hinders;	 /* `host_error` was of an ask for its present order to leave */
	uint64_t here, out;	 /* of its grant: on the device, and in the store */
	uint64_t recalled_bytes; /* by the latest recall, which it has not answered; 0: it has */
	struct list asks;	 /* its own, in order; move_ask.c */
	struct list segments, waits; /* move_store.c */
	uint32_t ask_count, segment_count, wait_count;
	int host_error; /* the host had no memory for its last ask; 0: it had */
	uint64_t segment_bytes;
	uint64_t foreign_bytes; /* in a former daemon's store */
	uint64_t given_bytes;	/* of segments it returned, and has not said so in MOVED */
	uint64_t owes_since_ns; /* since when it owes a drop; 0: it owes none */
	uint64_t queued_ns;	/* its threads had waited so long for a processor ... */
	uint64_t queued_at_ns;	/* ... at this time; 0: it was not to act */
	struct list in_want;	/* of the daemon: it was refused a segment, and not told since */
	uint64_t lacks_bytes;	/* the store is full for this ask of it */
	uint32_t behind;	/* of its tenant, as it was told */

	/* Its orders of this generation, and its reports of them. */
	uint32_t generation;
	uint64_t leave, enter, drop, prepare;
	uint64_t left, copied, entered, returned, dropped, failed;
	uint64_t saved; /* left without a copy, in earlier generations */
};

struct peer;
struct tenant;

/* Somebody waits until what a tenant was ordered to move out has left. */
struct move_wait {
	struct list link; /* of the daemon */
	struct tenant *tenant;
	struct peer *peer; /* borrowed */
	uint32_t id;
	uint64_t until_ns;
};

/* A device's part of the store. */
struct move_part {
	struct store_part store;
	struct list waits; /* guests' asks for segments; move_store.c's */
	bool serving;	   /* the first of them */
};

struct movement {
	struct stores stores;
	struct move_part part[DAEMON_DEVICES];
	uint64_t quota_bytes;	/* of the store, for one tenant */
	struct list due;	/* tenants' devices: their guests may have to be told something */
	struct list in_want;	/* guests' devices; move_store.c's */
	struct list suspending; /* waits for tenants' memory */
	struct loop_timer timer;
	uint64_t check_ns; /* when it is due; 0: it is not armed */
};
