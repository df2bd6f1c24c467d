/* SPDX-License-Identifier: Apache-2.0 */
/*                                                   tests/system/sim/node.h
 * A simulated node for one test program: its own METE_SIM_DIR, no modelled waits, fresh memory with
 * a pattern in it. Made before main(), removed at the end.
 */
#pragma once

#include <stdbool.h>

#include "cuda/prototypes.h"
#include "tests/test.h"

#define expect_cuda(call, wanted)                                                                  \
	do {                                                                                       \
		CUresult got_cuda_ = (call);                                                       \
		if (got_cuda_ != (wanted))                                                         \
			test_fail(__FILE__, __LINE__, "%s is %d, wanted %d", #call,                \
				  (int)got_cuda_, (int)(wanted));                                  \
	} while (0)

#define expect_ok(call) expect_cuda(call, CUDA_SUCCESS)

#define MiB (1024ull * 1024)

/* A new context on device 0, current on the calling thread. */
CUcontext node_context(void);

size_t node_free_bytes(void); /* cuMemGetInfo */

/* PTX of a few kernels; see node.c. */
extern const char node_ptx[];

/* node_ptx as a module of the current context. */
CUmodule node_module(void);
CUfunction node_kernel(CUmodule module, const char *name);
