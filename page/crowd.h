/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who watches: for all who see the same there is one text of what has changed, once a second. A
 * viewer that has not taken the last one by then misses it, and gets everything as soon as it reads
 * again. Without viewers there are no crowds and no timer.
 *
 * The stream is of server-sent events: `state` (all that is seen, as /v1/node has it), then
 * `change` (objects with what names them and the keys that have changed; docs/page.md).
 */
#pragma once

#include "http/http_stream.h"
#include "page/rights.h"

enum {
	CROWD_TICK_MS = 1000,
	CROWD_VIEWERS_EACH = 4, /* of a user of the cluster: many may come from one proxy */
	CROWD_QUIET_TICKS = 10, /* after so many without a change a comment says that we live */
};

struct crowd;

struct crowds {
	struct looks *looks;	     /* borrowed; likewise: */
	struct rights_table *rights; /* a stream ends when one that it had is gone */
	struct crowd *first;
	struct loop_timer tick;
};

must_check int crowds_open(struct crowds *crowds, struct looks *looks, struct rights_table *rights);
/* After the last viewer has left. */
void crowds_close(struct crowds *crowds, void (*closed)(struct loop_timer *timer));

/* A new viewer. -EBUSY: that user of the cluster is CROWD_VIEWERS_EACH already. -ENOMEM. */
must_check int crowds_join(struct crowds *crowds, const struct sight *sight,
			   struct http_stream **ret_stream);
