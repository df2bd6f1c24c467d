/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every function of NVML's header, weak: a definition elsewhere replaces it. Loaders want all names
 * or none.
 */
#include "cuda/nvml_prototypes.h"
#include "sim/nvml/nvml.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

#define NVML_NAME(symbol, class, reason)                                                           \
	__attribute__((weak)) nvmlReturn_t symbol(void);                                           \
	nvmlReturn_t symbol(void)                                                                  \
	{                                                                                          \
		return nvml_missing(#symbol);                                                      \
	}
#define NVML_FUNCTION(symbol, class, reason, returns, parameters, arguments)                       \
	__attribute__((weak)) returns symbol parameters                                            \
	{                                                                                          \
		return (returns)(uintptr_t)nvml_missing(#symbol);                                  \
	}
#include "cuda/nvml.def"
