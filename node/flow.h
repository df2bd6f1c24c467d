/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each tenant wants of meted, so that none delays the others: whatever its connections want is
 * done one thing at a time, of that tenant next for which least time was spent (core/service.h).
 * After a slice the loop goes round: timers are served, and who has come meanwhile is seen.
 *
 * Who floods is served late: with a tenth of meted's time, which all that flood share, and its
 * descriptors are not polled until it has nothing more to say. So meted is idle most of the time
 * under any flood, and a busy machine lets it run at once when somebody else wants something.
 *
 * flow: a tenant's. It pays for messages and connections from one bucket of FLOW_RATE a second,
 * besides those of the peers: what its connections do together is bounded, too. Answers that it
 * does not read are counted here: FLOW_BACKLOG of one, FLOWS_BACKLOG of all are the most; beyond
 * that whoever of them has the most unread is ended.
 *
 * item: something that may want to be done: a connection, or the listener.
 *
 * What leaves gives its memory back to the system soon, see flows_gave_back().
 */
#pragma once

#include <stdbool.h>

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
	/* Does one thing; true: there may be more. It may close what it is part of. */
	bool (*work)(struct flow_item *item);
	/* Whether its descriptor is to be polled: not while its flow is served late and knows that
	 * it wants something. */
	void (*hush)(struct flow_item *item, bool hushed);
};

struct flows {
	struct service service;
	struct loop_after after;
	struct loop_timer late_timer; /* while somebody is to be served late */
	bool late_armed;
	struct flow *last;
	struct loop_timer trim;
	bool trimming;
	size_t backlog_bytes;
	struct list debtors; /* flows with unread answers */
};

struct flow {
	struct flows *flows;
	struct service_member member;
	struct list items;
	bool last;
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

/* It wants something: it is done from the loop, when it is its turn. */
void flow_want(struct flow_item *item);
void flow_forget(struct flow_item *item);

/* Pays from the bucket; false: it is empty. */
bool flow_pay(struct flow *flow, uint64_t price);

/* Memory was freed, perhaps much: the system has it back within a second. */
void flows_gave_back(struct flows *flows);
