/* SPDX-License-Identifier: Apache-2.0 */
/*                                                                sim/cuda/memop.h
 * Stream memory operations: waiting for a word of memory and writing one, in a stream's order.
 *
 * A wait polls, because the program itself may write the word, through mapped host memory; it
 * sleeps between its reads, longer and longer up to half a millisecond. A context that ends waits
 * until the word is written, as an H100's driver (580.159.04) does.
 */
#pragma once

#include <stdint.h>

#include "base/macros.h"
#include "sim/cuda/op.h"

/* Are the operations known, their flags valid and their words mapped and aligned? INVALID_VALUE.
 * Those of a graph may name memory that a graph will allocate. */
must_check CUresult memop_check(const CUstreamBatchMemOpParams *params, unsigned count,
				struct CUctx_st *context, bool graph);

/* Owns a copy of the parameters. SUCCESS or OUT_OF_MEMORY. */
must_check CUresult memop_describe(const CUstreamBatchMemOpParams *params, unsigned count,
				   struct op *ret_op);

must_check CUresult memop_run(const struct op_memop *memop, struct CUctx_st *context,
			      uint64_t *time_ns);
