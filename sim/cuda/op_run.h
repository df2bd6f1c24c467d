/* SPDX-License-Identifier: Apache-2.0 */
/*                                                               sim/cuda/op_run.h
 * Carries out an op on the worker of its stream. A failure sticks to the context. In a context that
 * has failed (or is ending) work is dropped, but events and marks that others wait for are reached,
 * and callbacks are called.
 */
#pragma once

#include <stdint.h>

#include "base/macros.h"
#include "sim/cuda/op.h"

/* *time_ns: from when it could run, in modelled time; afterwards when it ended. */
void op_run(struct op *op, struct CUstream_st *stream, uint64_t *time_ns);

/* Runs one op in a context that has not failed; the caller makes an error sticky. */
must_check CUresult op_execute(struct op *op, struct CUstream_st *stream, uint64_t *time_ns);
