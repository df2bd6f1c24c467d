/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The structures of memory that moves, for its own files: movable.c allocates, movable_free.c
 * frees, movable_own.c does both for memory that the program creates and maps itself,
 * movable_find.c finds by address, movable_stock.c keeps freed memory, movable_freed.c says what
 * that makes of orders, movable_debt.c accounts for lent memory that was freed, movable_contexts.c
 * has the end of contexts, movable_back.c the memory behind addresses, movable_move.c the mover,
 * movable_store.c its segments, movable_held.c the account of them. No other file includes this.
 */
#pragma once

#include <stdatomic.h>

#include "guest/contexts/memory_place.h"
#include "guest/credit/ranges.h"
#include "guest/futex.h"
#include "guest/link/link.h"
#include "guest/movable/movable.h"

enum movable_serving {
	MOVABLE_UNASKED = 0,
	MOVABLE_ASKING,
	MOVABLE_PLAIN,
	MOVABLE_SERVED,
};

/* As in MOVE and MOVED. */
struct movable_order {
	uint32_t generation;
	uint64_t leave, enter, drop, prepare;
};
struct movable_done {
	uint64_t left, copied, entered, returned, dropped, failed;
};

struct movable_stock {
	_Atomic uint32_t count;	    /* read without the lock for a guess */
	_Atomic uint32_t going;	    /* areas that were taken from it, and are not credit yet */
	_Atomic uint32_t recall_id; /* of a recall that the mover answers; 0: none */
	struct movable_area *newest;
	struct movable_area *released; /* these areas */
	uint64_t recall_bytes, recall_ns;
};

struct movable_object {
	_Atomic uint32_t serving;  /* enum movable_serving; a futex */
	_Atomic uint32_t kicks;	   /* the mover has something to check; a futex */
	_Atomic uint32_t arrivals; /* a block has arrived, or will not move; a futex */
	_Atomic uint32_t why;
	_Atomic uint32_t open;	    /* allocations; 0: nothing needs to be looked up */
	_Atomic uint32_t leaving;   /* contexts that are ending */
	_Atomic uint32_t capturing; /* allocations that were freed during a capture */
	_Atomic bool mover_began;   /* the mover has a context, or found none */
	_Atomic int device;	    /* as in guest/process/state.h */
	CUdevice ordinal;
	CUmemAllocationProp about; /* of blocks */
	uint64_t chunk;		   /* the largest size of a block */

	struct futex_lock lock;	     /* of the following */
	struct ranges areas;	     /* value: the area */
	struct ranges aliases;	     /* the program's own mappings; value: the area */
	struct movable_area *recent; /* slab */
	struct movable_area *over;   /* freed, with segments that the mover gives back */
	uint64_t next_id;
	uint64_t resident, out, saved; /* resident: what can move */
	uint64_t stated_out;	       /* by the last inventory */
	uint64_t leaves, enters;       /* under way */
	uint64_t prepared;	       /* bytes of segments */
	uint64_t foreign;	       /* of a former daemon's store, as this one has counted it */
	uint64_t former;	       /* freed of that, which it has not heard of */
	struct movable_order order;
	struct movable_done done; /* of `generation` */
	uint32_t generation;
	uint32_t heard;	   /* orders, as a count */
	bool up;	   /* the daemon has the inventory: orders are obeyed, reports sent */
	bool stated;	   /* a daemon has been sent the inventory */
	bool ask_again;	   /* ask a new daemon for its store */
	bool refused;	   /* it gave none: it is asked again when it orders something */
	bool stuck;	   /* no segment is available, until a message arrives */
	bool report_due;   /* MOVED must be sent */
	uint32_t flying;   /* blocks whose copy is in progress */
	CUcontext context; /* the mover's; ... */
	bool give_up;	   /* ... and it must give it up */
	struct movable_stock stock;
};

extern struct movable_object movable_;

enum { MOVABLE_CHECK_MS = 100 }; /* how often a thread that waits for a block checks */

static inline struct movable_area *movable_area_of(const struct range *range)
{
	return (struct movable_area *)(uintptr_t)range->value;
}

/* With the lock held. */
static inline struct movable_area *movable_area_at(size_t i)
{
	return movable_area_of(&movable_.areas.range[i]);
}

/* STORE_ASK. 0: granted; 1: refused; <0. For the mover, and for the thread that asks first. A new
 * daemon gives no segment before this. */
must_check int movable_ask_store(enum link_patience patience);

/* Starts the mover. 0; -errno. */
must_check int movable_start(void);

static inline void movable_kick(void)
{
	atomic_fetch_add(&movable_.kicks, 1);
	futex_wake_all(&movable_.kicks);
}

/* With the lock held: from here on nobody else refers to the area. Then, without it: releases what
 * the area has. */
void movable_leave_table(struct movable_area *area);
void movable_dissolve(struct movable_area *area);

/* Unmaps the first `count` blocks, as far as they are on the device. Returns the bytes unmapped. */
uint64_t movable_unback_first(struct movable_area *area, uint32_t count);

/* Frees the allocation at the address, which no work uses any more. */
must_check CUresult movable_free_at(uint64_t address);

/* Completes frees that were made during a capture that is over. */
void movable_reap(void);

/* Gives an area that is in no table, and all on the device, back to the driver. */
void movable_give_back(struct movable_area *area);

/* Of such frees: forgets those of a context, gives them the context's new name, and forgets all. */
void movable_late_gone(uint64_t owner);
void movable_late_rename(uint64_t owner, uint64_t now);
void movable_late_clear(void);

/* Writes the own page. The first with the lock held. */
void movable_show(void);
void movable_publish(void);

/* The state when memory was charged. */
struct movable_charged {
	uint32_t connection, recalls;
};
struct movable_charged movable_charged_now(void);

/* Makes an area, charged and furnished; with `own` it is the program's, by cuMemCreate(). NULL:
 * failed, see *ret_why. */
must_check struct movable_area *movable_make(const struct memory_place *place, uint64_t bytes,
					     bool slab, const CUmemAllocationProp *own,
					     CUresult *ret_why);

/* Adds it to the table; charged after `then`. If that fails, nothing is left of it. */
must_check CUresult movable_enter(struct movable_area *area, int device,
				  struct movable_charged then);

/* With the lock held: the area of cuMemAlloc() around the address. NULL: it is not ours. */
struct movable_area *movable_around(uint64_t address);

/* With the lock held; released while waiting. Waits until the mover is done with the whole area. */
void movable_wait_for_arrival(const struct movable_area *area);

/* With the lock held: is all of it on the device? */
must_check bool movable_is_here(const struct movable_area *area);

/* With the lock held: it stays from now on, where it is: on the device. */
void movable_fix(struct movable_area *area, uint32_t why);

/* Waits a while for memory to come back, and tells the daemon that it is wanted. No lock is held.
 */
void movable_await(void);

/* Creates a block's memory, and maps it where only the mover reaches it. CUDA_SUCCESS. */
must_check CUresult movable_back(struct movable_block *block);
must_check CUresult movable_access(uint64_t address, uint64_t bytes);

/* The same, with access, and wherever the program has mapped it; and undoes all of it. */
must_check CUresult movable_furnish(struct movable_block *block);
must_check CUresult movable_unback(struct movable_block *block);

/* ---- segments: the mover's ------------------------------------------------------------------- */

/* Gets a registered segment for the block. 0; -EAGAIN: the daemon is away, or must be asked for its
 * store first; <0: none is available. Does not wait for a daemon: the next one waits for what the
 * mover has under way. */
must_check int movable_segment_get(struct movable_block *block, uint32_t era);

/* Unregisters and unmaps it, and gives it back; harmless if there is none. With `era` 0 it is not
 * registered. Returns the bytes that the daemon has got: none, if the return failed. What it has
 * not got is returned, and counted, by movable_held_step(). */
must_check uint64_t movable_segment_end(struct movable_segment *segment, uint32_t era);

/* Unregisters it, because its context ends. */
void movable_segment_unpin(struct movable_segment *segment, uint32_t era);

/* The daemon is new, and counts what was out as being in a former one's store. */
void movable_store_is_new(void);

/* With the lock held: so much of a former daemon's store is no longer used. Returns how much of
 * that this daemon counts. */
uint64_t movable_former_ends(uint64_t bytes);

/* Of a former daemon's store: this one hears nothing of its end. */
must_check bool movable_segment_is_former(const struct movable_segment *segment);

/* SEGMENT_RETURN of all segments that begin in this part of the file. 0, and *ret_given; LINK_MOOT:
 * the daemon is another one; <0. */
must_check int movable_store_return(uint64_t offset, uint64_t bytes, uint64_t *ret_given);

/* What this process holds of the daemon's file. -EEXIST: a part of it is held; -ENOMEM. */
must_check int movable_held_add(uint64_t offset, uint64_t bytes);
void movable_held_take(uint64_t offset, uint64_t bytes);

/* The daemon may count something as this process's that is not held: all of that is returned. By
 * any thread. */
void movable_doubt(void);

/* The mover's: this was to be returned, and nobody knows whether the daemon has got it. / The same
 * daemon's file is here on another connection. / Is a return of what is not held still due? */
void movable_held_owe(uint64_t bytes);
void movable_held_again(void);
must_check bool movable_held_in_doubt(void);
must_check bool movable_held_step(void);

/* Closes the store's descriptor. */
void movable_store_close(void);

/* Takes over the new daemon's store. */
void movable_store_take(int fd, uint64_t chunk);
