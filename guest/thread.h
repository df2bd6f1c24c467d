/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a thread knows of itself on the way to the driver's memory calls: one object, so that its
 * address is found once in a hook. Each part is its module's, and is written by nobody else.
 */
#pragma once

#include <stdint.h>

#include "cuda/types.h"

/* guest/moves.h */
struct moves_own {
	union {
		struct {
			uint32_t open, paused;
		};
		uint64_t any; /* 0: neither */
	};
	uintptr_t entered; /* where the stack was when the first of them began */
};

/* guest/current.h */
struct current {
	CUcontext context;
	struct state_device *home; /* the device's, where it is the tenant's */
	int32_t device;
	uint32_t era;  /* it is true in this one; 0: nothing is remembered */
	uint32_t turn; /* counts what was asked: a handler of signals may ask in between */
};

/* guest/pools_place.c: the pool that served the thread's last request of a stream's memory. */
struct pools_own {
	CUcontext context; /* that was current */
	CUstream stream;
	CUmemoryPool asked, handle;
	struct pool *pool;
	uint32_t current_era, era; /* 0: nothing is remembered */
	uint32_t turn;		   /* counts what was asked, as below */
};

struct guest_thread {
	struct moves_own moves;
	struct current current;
	struct pools_own pools;
	uint32_t inside; /* guest/memory.h */
};

extern __thread struct guest_thread guest_thread __attribute__((tls_model("initial-exec")));
