/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which claims are read from the API server next: by a few requests at a time, in the order in
 * which the kubelet asked. Where several of a namespace wait, one request reads them together.
 * Pure: times in, decisions out.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

enum {
	QUEUE_READS = 8, /* requests at a time */
	QUEUE_READ_S = 30,
	/* From the kubelet's call on: it gives up after 45 s, and the answer has to reach it. */
	QUEUE_CALL_S = 44,
	/* So many of a namespace are read by one list of it ... */
	QUEUE_TOGETHER = 4,
	QUEUE_TOGETHER_MOST = 256,
	/* ... which is no longer than that, for each of them: an object in a list costs the server
	 * a small part of what a request costs it. */
	QUEUE_LISTED_EACH = 16,
	/* For a burst that goes on nothing is read yet, in so many rounds of the loop at most. */
	QUEUE_ROUNDS = 16,
};

struct queue {
	struct list waiting;
	uint32_t reads; /* under way */
	bool came;	/* one, since queue_grows() was asked */
	uint32_t rounds;
};

/* Claims that one request reads; all zero: none. */
struct queue_batch {
	struct list claims;
	uint32_t count;
};

/* All zero: neither waiting nor being read. */
struct queued {
	struct list link;
	uint64_t asked_ns;
	const char *namespace;	   /* borrowed while it is in the queue */
	struct queue_batch *batch; /* that reads it; NULL: none */
	bool alone;		   /* a list did not have it: it is read by itself */
};

void queue_init(struct queue *queue);
/* `now_ns` must not be smaller than at an earlier call. */
void queue_add(struct queue *queue, struct queued *queued, const char *namespace, uint64_t now_ns);
/* To be asked once a round of the loop, before queue_next(): has one been added since? Then more
 * may be about to come, and one list is to have them all. */
bool queue_grows(struct queue *queue);
/* Moves those whose turn it is into `batch`, which is under way from now on. False: there is none,
 * or enough is under way. */
bool queue_next(struct queue *queue, struct queue_batch *batch);
/* It has been read, or nobody wants it any more. Harmless if it is not in the queue. */
void queue_leave(struct queued *queued);
/* The request has ended. What it did not read is next, each by itself. */
void queue_end(struct queue *queue, struct queue_batch *batch);
/* How long its reading may take from now on. 0: the kubelet would have given up. Whatever precedes
 * it in the queue has ended by then. */
uint64_t queue_within_ns(const struct queued *queued, uint64_t now_ns);
