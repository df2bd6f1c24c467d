/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which claim is read from the API server next: a few at a time, in the order in which the kubelet
 * asked. Pure: times in, decisions out.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

enum {
	QUEUE_READS = 8, /* at a time */
	QUEUE_READ_S = 30,
	/* From the kubelet's call on: it gives up after 45 s, and the answer has to reach it. */
	QUEUE_CALL_S = 44,
};

struct queue {
	struct list waiting;
	uint32_t reading;
};

/* All zero: neither waiting nor being read. */
struct queued {
	struct list link;
	uint64_t asked_ns;
	bool reading;
};

void queue_init(struct queue *queue);
/* `now_ns` must not be smaller than at an earlier call. */
void queue_add(struct queue *queue, struct queued *queued, uint64_t now_ns);
/* The one whose turn it is; from now on it is being read. NULL: there is none. */
struct queued *queue_next(struct queue *queue);
/* It has been read, or nobody wants it any more. Harmless if it is not in the queue. */
void queue_leave(struct queue *queue, struct queued *queued);
/* How long its reading may take from now on. 0: the kubelet would have given up. Whatever precedes
 * it in the queue has ended by then. */
uint64_t queue_within_ns(const struct queued *queued, uint64_t now_ns);
