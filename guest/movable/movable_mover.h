/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the mover's two files: movable_move.c is the thread, movable_way.c moves blocks out
 * and in. No other file includes this.
 */
#pragma once

#include "guest/movable/movable_object.h"

enum {
	MOVER_DEPTH = 2,
};

/* A block under way. */
struct flight {
	struct movable_block *block;
	CUevent event;
	bool copies; /* its content is copied, not only hashed */
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
	uint32_t era; /* of the context in which it works; 0: none */
	CUcontext context;
	bool again;   /* its context has ended: it must take another, if there is one */
	bool lowered; /* threads that touch memory wait at the door, and none is inside */
};

extern struct mover movable_mover;

/* Sends MOVED; if it cannot be sent now, it is sent later. */
void movable_report(void);

/* Wakes threads that wait for a block. */
void movable_arrived(void);

/* Is there a context to work in? */
must_check bool movable_open_context(void);

/* With the lock held: are the current orders to be followed? Do they require more to leave? */
bool movable_obeys(void);
bool movable_leaves_more(void);

/* A claimed block does not leave; `flew`: its copy had begun. */
void movable_stays(struct movable_block *block, bool flew);

/* One step each. Returns whether there was progress. */
must_check bool movable_begin_out(void);
must_check bool movable_begin_in(void);
must_check bool movable_end_out(void);
must_check bool movable_end_in(void);

/* `given`: bytes that the daemon got back a moment ago. It does not know that they are part of what
 * it ordered to be dropped. */
must_check bool movable_drop_given(uint64_t given);

/* Likewise: releases what the program has freed. / Reports what of a former daemon's store was
 * freed as dropped, as far as bytes are to be dropped. / Returns credit for memory that the program
 * has freed since it was given. */
must_check bool movable_over_step(void);
must_check bool movable_drop_freed(void);
must_check bool movable_return_freed(void);

/* Opens the door, if everything is on the device. */
void movable_raise_if_whole(void);
