/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What memory that moves consists of, for its files: movable.c is what threads call,
 * movable_contexts.c what becomes of it when contexts end, movable_move.c the mover,
 * movable_store.c its segments. Nobody else includes this.
 */
#pragma once

#include <stdatomic.h>

#include "guest/futex.h"
#include "guest/link.h"
#include "guest/movable.h"
#include "guest/ranges.h"

enum movable_serving {
	MOVABLE_UNASKED = 0,
	MOVABLE_ASKING,
	MOVABLE_PLAIN,
	MOVABLE_SERVED,
};

/* As in MOVE, and as in MOVED. */
struct movable_order {
	uint32_t generation;
	uint64_t leave, enter, drop, prepare;
};
struct movable_done {
	uint64_t left, copied, entered, returned, dropped, failed;
};

struct movable_object {
	_Atomic uint32_t serving;  /* enum movable_serving; a futex */
	_Atomic uint32_t kicks;	   /* the mover has something to look at; a futex */
	_Atomic uint32_t arrivals; /* a block has arrived, or will not go; a futex */
	_Atomic uint32_t why;
	_Atomic uint32_t open;	    /* allocations; 0: nobody looks further */
	_Atomic uint32_t leaving;   /* contexts that end */
	_Atomic uint32_t capturing; /* allocations that were freed under a capture */
	_Atomic int device;	    /* as in guest/state.h */
	CUdevice ordinal;
	uint64_t chunk; /* no block is larger */

	struct futex_lock lock;	     /* of what follows */
	struct ranges areas;	     /* value: the area */
	struct movable_area *recent; /* slab */
	struct movable_area *over;   /* freed, with segments that the mover gives back */
	uint64_t next_id;
	uint64_t resident, out, saved; /* resident: what can move */
	uint64_t leaves, enters;       /* under way */
	uint64_t prepared;	       /* bytes of segments */
	struct movable_order order;
	struct movable_done done; /* of `generation` */
	uint32_t generation;
	bool ask_again;	   /* a new daemon is to be asked for its store */
	bool stuck;	   /* no segment is to be had, until something is heard */
	bool unsaid;	   /* MOVED is to be said */
	uint32_t flying;   /* blocks whose copy is under way */
	CUcontext context; /* the mover's; ... */
	bool give_up;	   /* ... and it is to have none */
};

extern struct movable_object movable_;

enum { MOVABLE_LOOK_MS = 100 }; /* who waits for a block looks so often, whatever is heard */

static inline struct movable_area *movable_area_of(const struct range *range)
{
	return (struct movable_area *)(uintptr_t)range->value;
}

/* With the lock held. */
static inline struct movable_area *movable_area_at(size_t i)
{
	return movable_area_of(&movable_.areas.range[i]);
}

/* STORE_ASK. 0: granted; 1: refused; <0. The mover's, and that of who asks first. Of a new daemon
 * no segment is to be had before. */
must_check int movable_ask_store(enum link_patience patience);

/* Starts the mover. 0; -errno. */
must_check int movable_start(void);

static inline void movable_kick(void)
{
	atomic_fetch_add(&movable_.kicks, 1);
	futex_wake_all(&movable_.kicks);
}

/* With the lock held: the area is nobody's from here on; then, without it, what it has goes. */
void movable_leave_table(struct movable_area *area);
void movable_dissolve(struct movable_area *area);

/* What was freed under a capture, of a context. */
void movable_late_gone(uint64_t owner);
void movable_late_rename(uint64_t owner, uint64_t now);

/* With the lock held: the own page. */
void movable_show(void);

/* Backs a block, or all of an area: creates, maps. CUDA_SUCCESS: usable. */
must_check CUresult movable_back(uint64_t address, uint64_t bytes);
must_check CUresult movable_access(uint64_t address, uint64_t bytes);

/* ---- segments: the mover's ------------------------------------------------------------------- */

/* A registered segment for the block. 0; -EAGAIN: the daemon is away, or its store is to be
 * asked for first; <0: none is to be had. Does not wait for a daemon: the next one waits for what
 * the mover has under way. */
must_check int movable_segment_get(struct movable_block *block, uint32_t era);

/* Unregisters, unmaps, says so; harmless where there is none. With `era` 0 it is not registered. */
void movable_segment_end(struct movable_segment *segment, uint32_t era);

/* Registered no more, as its context ends. */
void movable_segment_unpin(struct movable_segment *segment, uint32_t era);

/* The descriptor of the store goes. */
void movable_store_close(void);

/* The new daemon's store. */
void movable_store_take(int fd, uint64_t chunk);
