/* SPDX-License-Identifier: Apache-2.0 */
/* The structure of a pool; for sim/cuda/pool*.c only. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"
#include "cuda/types.h"

struct heap;

struct CUmemPoolHandle_st {
	pthread_mutex_t lock;
	int device;
	struct heap *heap;
	uint64_t threshold, most_bytes;
	int reuse[4]; /* CU_MEMPOOL_ATTR_REUSE_*, by number */
	uint64_t readable, writable;
	bool standard; /* a device's own: cannot be destroyed */
	bool doomed;   /* destroyed; freed with its last allocation */
	uint64_t alive;
	_Atomic uint64_t leaving; /* freed, but not yet by its stream */
};

/* SUCCESS: it is a living pool, in a driver that is ready. */
must_check CUresult pool_named(CUmemoryPool pool);
