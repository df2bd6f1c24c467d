/* SPDX-License-Identifier: Apache-2.0 */
/* What `mete events` was asked for, and how far it has come. */
#pragma once

#include "cli/remote.h"

enum { EVENTS_NAMES = 64 };

struct events_order {
	struct remote remote;
	const char *tenant; /* NULL: all events */
	uint64_t since_ns;  /* of the machine's clock */
	bool json;
	uint64_t after;		 /* the number of the last event that was read */
	bool printed, unwritten; /* the output takes no more */
	/* Of tenants that were told of, for one that is misspelt. */
	char name[EVENTS_NAMES][WIRE_TEXT_MAX + 1];
	uint32_t names;
};

/* Connects to meted, unless it is connected. ADMIN_ABSENT: none runs here. */
must_check int events_reach(struct events_order *order, struct fault *why);
typedef void events_taker(void *owner, const struct wire_event_row *event);
/* Reads the answer to a request of either kind. */
must_check int events_rows(struct admin *admin, events_taker *take_row, void *owner,
			   struct fault *why);
/* Likewise, and prints what was asked for. */
must_check int events_read(struct events_order *order, struct fault *why);
/* Prints one if it was asked for. */
void events_take(struct events_order *order, const struct wire_event_row *event);
/* Outcomes of events_read_kept(), besides ADMIN_ABSENT: there is nothing. */
enum {
	EVENTS_SYSTEMS = ADMIN_ABSENT + 1, /* only root may read what the system's meted has left */
};

/* Reads what a meted that has ended has left, the system's or the user's own, and says whose. */
must_check int events_read_kept(struct events_order *order);
/* Reads what happens as it happens. 0: nobody reads what we print. */
must_check int events_follow(struct events_order *order, struct fault *why);
