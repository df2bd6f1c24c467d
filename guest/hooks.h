/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hooks: a C function hook_SYMBOL, of the prototype in cuda/api.def or cuda/nvml.def, for
 * each symbol of the classes ALLOC, FREE, QUERY, CONTEXT and RESOLVE, for the functions that open
 * and end a stream capture, and for each symbol in guest/hooks.txt. The exported SYMBOL is a jump
 * to it.
 *
 * To write one, define it (guest/memory/memory.c, ...). A wrong signature does not compile, and a
 * missing hook does not link. guest/unwritten.txt lists hooks that may still be missing and are
 * forwarded to the driver; the shape test `unwritten` fails while it lists any.
 *
 * Every hook calls state_ready() first (guest/process/state.h) unless it must work before cuInit.
 */
#pragma once

#include "cuda/nvml_prototypes.h"
#include "cuda/prototypes.h"

#define CUDA_FUNCTION(base, version, stream, symbol, class, reason, returns, parameters,           \
		      arguments)                                                                   \
	returns hook_##symbol parameters;
#include "cuda/api.def"
#undef CUDA_FUNCTION

#define NVML_FUNCTION(symbol, class, reason, returns, parameters, arguments)                       \
	returns hook_##symbol parameters;
#define NVML_NAME(symbol, class, reason)
#include "cuda/nvml.def"
#undef NVML_FUNCTION
#undef NVML_NAME
