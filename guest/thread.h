/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread's own state for the driver's memory calls, in one object, so that a hook computes its
 * address only once. Each part belongs to one module, and only that module writes it.
 */
#pragma once

#include <stdint.h>

#include "cuda/types.h"

/* guest/process/changes.h */
struct changes_own {
	union {
		struct {
			uint32_t open, paused;
		};
		uint64_t any; /* 0: neither */
	};
	uintptr_t entered; /* the stack position when the first open change began */
};

/* guest/contexts/current.h */
struct current {
	CUcontext context;
	struct state_device *home; /* of the device, if that is the tenant's */
	int32_t device;
	uint32_t era;	/* valid in this epoch; 0: nothing is cached */
	uint32_t known; /* likewise, about `context` itself, whether it is current or not */
	uint32_t turn;	/* counts requests: a signal handler may make one in between */
};

/* guest/memory/pools_place.c: the pool that served the thread's last request of a stream's memory.
 */
struct pools_own {
	CUcontext context; /* the current one at that time */
	CUstream stream;
	CUmemoryPool asked, handle;
	struct pool *pool;
	uint32_t current_era, era; /* 0: nothing is remembered */
	uint32_t turn;		   /* counts requests, as below */
};

struct guest_thread {
	struct changes_own changes;
	struct current current;
	struct pools_own pools;
	uint32_t inside; /* guest/memory/memory.h */
	uint32_t scarce; /* guest/credit/scarce.h: between its begin and its end */
	uint32_t hushed; /* guest/memory/memory.c: a refusal is not the program's yet, so it is not
			    explained */
};

extern __thread struct guest_thread guest_thread __attribute__((tls_model("initial-exec")));
