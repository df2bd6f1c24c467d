/* SPDX-License-Identifier: Apache-2.0 */
/*                                                             sim/cuda/physical.h
 * Physical memory of cuMemCreate(), apart from addresses. It is a piece of one sparse file of the
 * process, and a file of its own once it was handed to other processes: thousands of blocks do not
 * take thousands of descriptors, even if each of them could be handed over. It is in the device's
 * book until neither a handle nor a mapping is left. Once exported, it is until that holds in all
 * processes, and no descriptor is open (sim/machine/share.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/macros.h"
#include "cuda/types.h"

struct physical {
	CUmemAllocationProp properties;
	int device;
	uint64_t bytes;
	unsigned handles, mappings; /* it goes when both are 0 */
	uint64_t share;		    /* once exported or imported; sim/machine/share.h */
	struct list shared;	    /* of those with a share */
	bool watched;		    /* no longer used here, but kept for open descriptors */
	int fd;			    /* of its own, or -1: a piece of the store */
	uint64_t home;		    /* addresses that stand for its place in the store */
};

/* INVALID_VALUE for garbage. */
must_check CUresult physical_named(CUmemGenericAllocationHandle handle,
				   struct physical **ret_allocation);

/* The file, and where in it the memory begins. */
int physical_fd(const struct physical *allocation);
uint64_t physical_offset(const struct physical *allocation);

/* With one handle, and no memory yet. OUT_OF_MEMORY. */
must_check CUresult physical_new(const CUmemAllocationProp *properties, int device, uint64_t bytes,
				 struct physical **ret_allocation);
void physical_free(struct physical *allocation);

/* Gives its place in the store back. */
void physical_home_leave(struct physical *allocation);

/* vmm.c: between the two nothing is mapped or unmapped. */
void physical_maps_stop(void);
void physical_maps_go_on(void);

/* A mapping comes. */
void physical_hold(struct physical *allocation);

/* Drops handles and mappings; frees the memory with the last of them. */
void physical_drop(struct physical *allocation, unsigned handles, unsigned mappings);
