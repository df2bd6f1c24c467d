/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events that samples (guest/time/flight.h) leave in their streams, before their calls: when the
 * device reaches them tells how long calls last. All with the caller's lock held.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"
#include "cuda/types.h"
#include "guest/time/lasts.h"
#include "guest/time/vain.h"

enum { MARKS = 4 /* two that may not be reached yet, and two whose times are known */ };

struct mark {
	CUevent event;	 /* dies with the context */
	CUstream stream; /* in which it was left; it may be gone */
	uint32_t calls;	 /* of the thread that left it, before it */
	bool dry;	 /* nothing may have been under way just before it */
	bool reached;	 /* the device was seen to have reached it, */
	bool timed;	 /* and `apart_ns` after the mark before it. The driver is asked once. */
	uint64_t left_ns, apart_ns;
};

/* Of a context. The n-th mark is mark[n % MARKS]. */
struct marks {
	CUcontext context; /* NULL: the place is free */
	struct mark mark[MARKS];
	uint64_t count;	   /* marks that were left, */
	uint64_t waits;	   /* waits at gates until then */
	uint64_t judged;   /* those that were looked at for `lasts` */
	uint64_t apart_ns; /* between the last two that are known to be reached, */
	/* and in sum, of late. Threads share the marks, so two of them may be close to each other.
	 */
	uint64_t sum_apart_ns, sum_calls;
	uint32_t sums, skipped;
	struct lasts lasts;
	struct presence_vain vain;
};

must_check bool marks_make(struct marks *m, CUcontext context);
/* `waits`: gate_waits(), as of now. */
void marks_leave(struct marks *m, CUstream stream, uint32_t calls, bool waited, uint64_t waits);

/* Has the device reached the last mark but n - 1? */
must_check bool marks_reached(struct marks *m, uint64_t n);

/* The stream of the last mark but n - 1. */
must_check CUstream marks_stream(const struct marks *m, uint64_t n);

/* When the last one was left; 0: none was. */
must_check uint64_t marks_left_ns(const struct marks *m);

/* From the mark before it to the n-th; both are known to be reached. */
must_check bool marks_apart(struct marks *m, uint64_t n, uint64_t *ret_ns);
void marks_add_time(struct marks *m, uint64_t apart_ns, uint64_t calls);

/* Did work that lasted long end by itself? `passed_ns`: see lasts_ended(); it is known. */
void marks_judge(struct marks *m, uint64_t passed_ns);
