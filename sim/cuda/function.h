/* SPDX-License-Identifier: Apache-2.0 */
/*                                                             sim/cuda/function.h
 * Attributes and parameters of functions, for the calls that take a CUfunction and those that take
 * a CUkernel.
 */
#pragma once

#include <stddef.h>

#include "base/macros.h"
#include "cuda/types.h"

struct CUfunc_st;
struct ptx_kernel;

/* INVALID_VALUE for attributes that do not exist. */
must_check CUresult function_attribute(const struct CUfunc_st *function,
				       CUfunction_attribute attribute, int *ret_value);
must_check CUresult function_set_attribute(struct CUfunc_st *function,
					   CUfunction_attribute attribute, int value);

/* INVALID_VALUE beyond the last parameter. ret_bytes may be NULL. */
must_check CUresult function_parameter(const struct ptx_kernel *kernel, size_t index,
				       size_t *ret_offset, size_t *ret_bytes);
