/* SPDX-License-Identifier: Apache-2.0 */
/*                                                              sim/cuda/library.h
 * Libraries belong to no context: their code is read once, to know its kernels, and becomes a
 * module in each context that uses it. A CUkernel names one kernel in all of them.
 */
#pragma once

#include <stddef.h>

#include "base/macros.h"
#include "cuda/types.h"

struct CUfunc_st;

/* The kernel in the current context, loading it if need be. */
must_check CUresult library_function(CUkernel kernel, struct CUfunc_st **ret_function);
