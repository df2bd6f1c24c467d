/* SPDX-License-Identifier: Apache-2.0 */
/*                                                             sim/cuda/coredump.h
 * A program's settings of core dumps: stored and returned, for the process and for each context. No
 * dump is ever written; a program that switches them on is told so.
 *
 * A context has a copy of the process's wishes as they were when it began.
 */
#pragma once

#include <stdbool.h>

#include "base/macros.h"

struct CUctx_st;

/* A context begins a life: it gets its copy, which coredump_end() frees. False: no memory. */
must_check bool coredump_begin(struct CUctx_st *context);

/* Its life is over; harmless without a copy. */
void coredump_end(struct CUctx_st *context);
