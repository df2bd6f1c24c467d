/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A prototype for each NVML function of cuda/nvml.def that has one, under its exported name.
 * nvml_fn_SYMBOL is its type, as api_fn_SYMBOL is for the driver (cuda/prototypes.h).
 */
#pragma once

#include "cuda/nvml_types.h"

#define NVML_FUNCTION(symbol, class, reason, returns, parameters, arguments)                       \
	returns symbol parameters;                                                                 \
	typedef returns nvml_fn_##symbol parameters;
#define NVML_NAME(symbol, class, reason)
#include "cuda/nvml.def"
#undef NVML_FUNCTION
#undef NVML_NAME
