/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mover's own, for its two files: movable_move.c is the thread, movable_way.c has blocks leave
 * and enter. Nobody else includes this.
 */
#pragma once

#include "guest/movable_object.h"

enum {
	MOVER_DEPTH = 2,
};

/* A block under way. */
struct flight {
	struct movable_block *block;
	CUevent event;
	bool copies; /* its content is copied, not only its hash found */
	bool hashes;
};

/* One direction: first in, first out. */
struct way {
	CUstream stream;
	struct flight flight[MOVER_DEPTH];
	unsigned first, count;
};

struct mover {
	struct way out, in;
	uint32_t era; /* of the context that it works in; 0: none */
	CUcontext context;
	bool lowered; /* threads that touch memory stand at the door, and none is inside */
};

extern struct mover movable_mover;

/* Says MOVED; what cannot be said now is said later. */
void movable_say(void);

/* Whoever waits for a block looks again. */
void movable_arrived(void);

/* Is there a context to work in? */
must_check bool movable_open_context(void);

/* With the lock held: are the orders of now to be followed, and is more to leave by them? */
bool movable_obeys(void);
bool movable_leaves_more(void);

/* A block that was claimed does not leave; `flew`: its copy had begun. */
void movable_stays(struct movable_block *block, bool flew);

/* One step each: did it get anywhere? */
must_check bool movable_begin_out(void);
must_check bool movable_begin_in(void);
must_check bool movable_end_out(void);
must_check bool movable_end_in(void);

/* Opens the door, if everything is on the device. */
void movable_raise_if_whole(void);
