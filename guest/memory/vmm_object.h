/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of physical memory that the program maps itself, for its own files: vmm_table.c has
 * them, vmm.c what is done with memory, vmm_multicast.c what is done with multicast objects. No
 * other file includes this.
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
	uint32_t handles; /* that were not released */
	uint32_t maps;
	uint32_t bound; /* multicast objects that hold it */
	int32_t device;
	uint32_t next; /* of the unused ones; index + 1 */
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

/* If nothing holds it any more, its memory is the driver's again, unless it was exported. */
void piece_end(uint32_t index);

/* The piece of a handle, or -1. */
must_check int64_t piece_of(CUmemGenericAllocationHandle handle);

/* One more release is due for the handle. 0; -ENOMEM: it is not noted. */
must_check int handle_add(CUmemGenericAllocationHandle handle, uint32_t index);

/* A handle that came without being charged: imported, or host memory. */
void note_free_of_charge(CUmemGenericAllocationHandle handle, bool multicast);

/* Takes the lock, with memory that moves held where it is: the piece's of the handle, or that of
 * all mappings in the range. Waits until it is on the device. */
must_check bool vmm_take_held(CUmemGenericAllocationHandle handle, int64_t *ret_index);
must_check bool vmm_take_range_held(uint64_t address, uint64_t bytes);

/* It may move again. The lock is still held. */
void vmm_let(int64_t index);
void vmm_let_range(uint64_t address, uint64_t bytes);

/* What the first mapping in the range belongs to that is not created plainly. NULL: none. */
struct movable_area *vmm_area_in(uint64_t address, uint64_t bytes);

/* Ends a change, and the section of the lock in it. The driver may have counted imported memory as
 * ours: once it is gone there is something to measure. */
void vmm_leave(bool mine);
