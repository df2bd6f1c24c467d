/* SPDX-License-Identifier: Apache-2.0 */
/*                                                               sim/cuda/module.h
 * Modules: code and variables in one context. Libraries: code that becomes a module in each context
 * that uses it. sim/cuda/image.h reads the forms of code (PTX text, fat binaries, the output of
 * cuLink*); sim/ptx/ptx.h interprets it.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/macros.h"
#include "cuda/types.h"
#include "sim/cuda/context.h"
#include "sim/cuda/image.h"
#include "sim/ptx/ptx.h"

/* A CUfunction. Lives as long as its module. */
struct CUfunc_st {
	struct CUmod_st *module;
	const struct ptx_kernel *kernel;
	_Atomic int max_dynamic_shared; /* as set with cuFuncSetAttribute */
	_Atomic int carveout;
	_Atomic uint64_t last_ns; /* the modelled time of its last launch */
	/* For cuParamSet* and cuLaunchGrid, which one thread may use at a time. */
	uint32_t block[3], shared_bytes;
	size_t parameters_bytes;
	uint8_t *parameters; /* owned */
};

struct CUmod_st {
	struct list link; /* in its context's, under the driver's lock */
	struct CUctx_st *context;
	struct CUlib_st *library; /* NULL: loaded by cuModuleLoad* */
	struct ptx_module *code;
	uint64_t base;		/* of its variables; 0 where it has none */
	bool managed;		/* they are in managed memory */
	unsigned max_registers; /* as asked for when it was loaded or linked; 0: not limited */
	size_t n_functions;
	struct CUfunc_st *functions;
};

/* The image becomes a module of the context. The log takes the reason of a failure. */
must_check CUresult module_load(struct CUctx_st *context, const struct image *image,
				struct CUlib_st *library, struct CUmod_st **ret_module,
				struct image_log *log);

/* Waits for the context first; its functions' handles end. */
void module_unload(struct CUmod_st *module);

/* All modules of a context that has no streams any more. */
void module_context_ended(struct CUctx_st *context);

/* NULL: no such kernel. */
struct CUfunc_st *module_function(const struct CUmod_st *module, const char *name);

/* NOT_FOUND where the module has no such variable. */
must_check CUresult module_variable(const struct CUmod_st *module, const char *name,
				    uint64_t *ret_address, size_t *ret_bytes);

/* The function that a program has passed: a CUfunction, or a CUkernel, which is looked up in (and
 * loaded into) the current context. INVALID_HANDLE for anything else. */
must_check CUresult function_find(CUfunction named, struct CUfunc_st **ret_function);

/* Registers per thread: the interpreter's estimate, within the requested maximum. */
uint32_t function_registers(const struct CUfunc_st *function);

/* How many of its blocks run at the same time on one multiprocessor. */
uint32_t function_blocks_per_sm(const struct CUfunc_st *function, uint32_t threads,
				uint64_t dynamic_shared_bytes);
