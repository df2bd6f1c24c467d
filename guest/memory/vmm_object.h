/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of physical memory that the program maps itself: vmm_table.c keeps them, vmm.c has
 * the calls about memory, vmm_multicast.c those about multicast objects. No other file includes
 * this.
 *
 * One lock around all of it, the driver's call included: a handle's number may be given out again
 * as soon as it was released, and these calls take the driver tens of microseconds anyway.
 */
#pragma once

#include <stdbool.h>

#include "guest/credit/pointers.h"
#include "guest/credit/ranges.h"
#include "guest/driver_lock.h"
#include "guest/movable/movable_own.h"

enum {
	CHUNK = 256, /* pieces */
	CHUNKS = 4096,
	BINDINGS = 1024,
};

/* Physical memory, or a multicast object. */
struct piece {
	uint64_t bytes;	  /* charged */
	uint32_t handles; /* not released yet */
	uint32_t maps;
	uint32_t bound; /* multicast objects that hold it */
	int32_t device;
	uint32_t next; /* in the list of unused pieces; index + 1 */
	bool multicast;
	bool outgoing;		   /* exported */
	struct movable_area *area; /* NULL: it does not move, and its handle is the driver's */
};

struct binding {
	uint32_t object, memory; /* pieces; index + 1 */
	CUdevice device;
	uint64_t offset, bytes;
};

struct vmm {
	struct driver_lock lock;
	struct piece *chunk[CHUNKS];
	uint32_t made, unused_;
	struct pointers
		handles;    /* detail: the piece's index; bytes: how often it is to be released */
	struct ranges maps; /* value: the piece's index */
	struct binding binding[BINDINGS];
	bool import_ended; /* the daemon is told of its end after the change: vmm_leave() */
};

extern struct vmm vmm;

/* ---- with the lock held ---------------------------------------------------------------------- */

static inline struct piece *piece_at(uint32_t index)
{
	return &vmm.chunk[index / CHUNK][index % CHUNK];
}

/* Index of a new piece, or -ENOMEM. */
must_check int64_t piece_new(uint64_t bytes, int device);

/* If nothing holds the piece any more, returns its charge, unless it was exported. */
void piece_end(uint32_t index);

/* The piece of a handle, or -1. */
must_check int64_t piece_of(CUmemGenericAllocationHandle handle);

/* One more release is due for the handle. 0; -ENOMEM: it is not noted. */
must_check int handle_add(CUmemGenericAllocationHandle handle, uint32_t index);

/* Notes a handle without a charge: imported, or host memory. */
void note_free_of_charge(CUmemGenericAllocationHandle handle, bool multicast);

/* Takes the lock, and holds memory that moves on the device: that of the handle, or of all mappings
 * in the range. Waits until it is there. */
must_check bool vmm_take_held(CUmemGenericAllocationHandle handle, int64_t *ret_index);
must_check bool vmm_take_range_held(uint64_t address, uint64_t bytes);

/* It may move again. The lock is still held. */
void vmm_let(int64_t index);
void vmm_let_range(uint64_t address, uint64_t bytes);

/* The area of the first mapping in the range that has one. NULL: none, all are plain. */
struct movable_area *vmm_area_in(uint64_t address, uint64_t bytes);

/* Ends a change, and the section of the lock in it. The driver may have counted imported memory as
 * ours: once it is gone there is something to measure. */
void vmm_leave(bool mine);
