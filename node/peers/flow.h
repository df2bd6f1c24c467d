/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules the tenants' requests to meted, so that none delays the others. Requests are served one
 * at a time; the next one is of the tenant on which the least time was spent (core/service.h).
 * After a slice the loop runs once: timers are served and new connections are seen.
 *
 * A tenant that floods is served late: all such tenants share a tenth of meted's time, and their
 * descriptors are not polled until they have nothing more to send. Under any flood meted is
 * therefore idle most of the time, and a busy machine schedules it at once for other requests.
 *
 * flow: a tenant's. It pays for messages and connections from one bucket of FLOW_RATE a second, in
 * addition to the buckets of the peers, so that the sum over its connections is bounded, too.
 * Unread answers are counted here: at most FLOW_BACKLOG for one flow, and FLOWS_BACKLOG for all.
 * Beyond that, a connection is ended: the one with the most, in the flow with the most.
 *
 * item: something that may have work to do: a connection, or the listener.
 *
 * pause: something goes on after a while. One timer is for all of them, since few pause at a time,
 * and a timer for each would be a third of what a connection takes.
 *
 * Freed memory is soon returned to the system, see flows_gave_back().
 */
#pragma once

#include <stdbool.h>

#include "base/discard.h"
#include "base/list.h"
#include "base/loop.h"
#include "core/service.h"

enum {
	FLOW_RATE = 20000, /* messages a second */
	FLOW_BURST = 16000,
	FLOW_CONNECTION = 16, /* messages that a new connection counts for */
	FLOW_BACKLOG = 8 << 20,
	FLOWS_BACKLOG = 32 << 20,
};

struct flow_item {
	struct list link; /* of the flow; not linked: it wants nothing */
	struct flow *flow;
	/* Serves one request; true: there may be more. It may close the object that it is part
	 * of. */
	bool (*work)(struct flow_item *item);
	/* Whether to poll its descriptor: not while its flow is served late and already has a
	 * request from it. */
	void (*hush)(struct flow_item *item, bool hushed);
};

struct flow_pause {
	struct list link; /* of the flows; not linked: it does not pause */
	uint64_t until_ns;
	/* It may close any object, also the one that it is part of. */
	void (*over)(struct flow_pause *pause);
};

struct flows {
	struct service service;
	struct loop_after after;
	struct loop_timer late_timer; /* armed while a flow is served late */
	struct flow *last;
	struct list pauses;
	struct loop_timer pause_timer;
	uint64_t pause_at_ns;	/* when that is due; 0: it is not armed */
	struct loop_timer trim; /* armed while what was freed has not been given back */
	size_t backlog_bytes;
	struct list debtors;	    /* flows with unread answers */
	struct discarder discarder; /* of peers' connections; it ends with the process */
};

struct flow {
	struct flows *flows;
	struct service_member member;
	struct list items;
	bool last;
	bool long_lists; /* its peers are sent long lists */
	uint64_t tokens, filled_ns;
	size_t backlog_bytes;
	struct list debtor;  /* of the flows */
	struct list debtors; /* peers with unread answers */
};

must_check int flows_open(struct flows *flows, struct loop *loop, uint32_t most);
void flows_close(struct flows *flows);
void flow_init(struct flow *flow, struct flows *flows);
void flow_init_last(struct flow *flow, struct flows *flows);
void flow_done(struct flow *flow);

/* It has a request: the loop serves it when it is its turn. */
void flow_want(struct flow_item *item);
void flow_forget(struct flow_item *item);

/* Pays from the bucket; false: it is empty. */
bool flow_pay(struct flow *flow, uint64_t price);

/* Calls over() after `delay_ns` or a little later, from the loop. If it pauses already, the end is
 * put off, or brought forward. */
void flow_pause(struct flows *flows, struct flow_pause *pause, uint64_t delay_ns);
/* It does not pause any more; over() is not called. */
void flow_go_on(struct flow_pause *pause);

/* Memory was freed, perhaps a lot: it is returned to the system within a second. */
void flows_gave_back(struct flows *flows);
