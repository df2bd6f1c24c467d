/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A prototype for each symbol that a driver exports, from cuda/api.def, under its exported name.
 * A definition whose parameters differ from the table's does not compile.
 *
 * api_fn_SYMBOL is the type of a pointer to it:
 *
 *	api_fn_cuMemAlloc_v2 *real = dlsym(driver, "cuMemAlloc_v2");
 */
#pragma once

#include "cuda/types.h"

#define CUDA_FUNCTION(base, version, stream, symbol, class, reason, returns, parameters,           \
		      arguments)                                                                   \
	returns symbol parameters;                                                                 \
	typedef returns api_fn_##symbol parameters;
#include "cuda/api.def"
#undef CUDA_FUNCTION
