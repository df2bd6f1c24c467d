/* SPDX-License-Identifier: Apache-2.0 */
/*                                                          sim/cuda/graph_memory.h
 * Memory of allocation nodes. The address is fixed when the node is made. Memory comes to it when
 * a graph with the node is launched (which is when it can fail), is reachable from the node's turn
 * on until it is freed (by a free node, or by the program), and stays reserved to graphs until
 * cuDeviceGraphMemTrim() takes it back. When the last node of that address has gone, other graphs'
 * launches reuse the memory.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/macros.h"
#include "cuda/types.h"
#include "sim/cuda/op.h"

/* Reserves an address for the node: params->dptr. SUCCESS, INVALID_VALUE, OUT_OF_MEMORY. */
must_check CUresult graph_memory_describe(CUDA_MEM_ALLOC_NODE_PARAMS *params, struct op *ret_op);

/* For each op that has the address; op_clone() and op_done() call them. */
void graph_memory_ref(CUdeviceptr address);
void graph_memory_unref(CUdeviceptr address);

/* A launch is about to be queued that allocates the address. INVALID_VALUE while an earlier one's
 * allocation has not been freed, unless `again`; OUT_OF_MEMORY. */
must_check CUresult graph_memory_claim(CUdeviceptr address, struct CUctx_st *context, bool again);

/* A claim whose launch was not queued after all. */
void graph_memory_unclaim(CUdeviceptr address);

/* A free of the address has been queued: it may be claimed again. */
void graph_memory_disclaim(CUdeviceptr address);

/* Is it the address of an allocation that a launch has made and that is not freed yet? */
bool graph_memory_owns(CUdeviceptr address);

/* Do all of the bytes belong to one allocation node, whether its memory is there or not? */
bool graph_memory_covers(CUdeviceptr address, size_t bytes);

/* cuMemFree of such an address, when nothing uses it any more. */
must_check CUresult graph_memory_free_now(CUdeviceptr address);

/* OP_ALLOC and OP_FREE, on a worker. */
must_check CUresult graph_memory_run(const struct op *op);
