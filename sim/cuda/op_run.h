/* SPDX-License-Identifier: Apache-2.0 */
/*                                                               sim/cuda/op_run.h
 * Carries out an op whose turn has come, on the worker of a stream. What fails sticks to the
 * context; in a context that has failed (or is ending) work is dropped, but points in time that
 * others wait for are passed and callbacks are told.
 */
#pragma once

#include <stdint.h>

#include "base/macros.h"
#include "sim/cuda/op.h"

/* *time_ns: from when it could run, in modelled time; afterwards when it ended. */
void op_run(struct op *op, struct CUstream_st *stream, uint64_t *time_ns);

/* One op in a context that is well; what it answers is the caller's to make stick. */
must_check CUresult op_execute(struct op *op, struct CUstream_st *stream, uint64_t *time_ns);
