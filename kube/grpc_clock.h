/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deadlines of calls on one timer. They are mostly added in the order in which they are due, so the
 * list is searched from its end. The owner bounds their number.
 */
#pragma once

#include "base/list.h"
#include "base/loop.h"

/* All zero: not set. */
struct grpc_deadline {
	struct list link;
	uint64_t at_ns;
};

struct grpc_clock {
	struct loop_timer timer;
	struct list deadlines;
	/* The deadline has passed and is no longer set. Anything may be closed here. */
	void (*late)(struct grpc_deadline *deadline);
};

must_check int grpc_clock_init(struct loop *loop, struct grpc_clock *clock,
			       void (*late)(struct grpc_deadline *deadline));
void grpc_clock_set(struct grpc_clock *clock, struct grpc_deadline *deadline, uint64_t within_ns);
/* Call it before its memory is freed; harmless if it is not set. */
void grpc_clock_forget(struct grpc_deadline *deadline);
/* The loop calls `closed` with the clock's timer. */
void grpc_clock_close(struct grpc_clock *clock, void (*closed)(struct loop_timer *timer));
