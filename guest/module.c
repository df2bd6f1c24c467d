/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules and libraries: their code and static data are device memory of unknown size, so that the
 * daemon measures after each of them came or went. It says then whether the tenant has more than it
 * may, and what was loaded is unloaded again.
 *
 * A library is loaded into a context when it is first used there, and a kernel's launch is such a
 * use. So that it can still be refused it is put into the current context at once.
 */
#include <stdatomic.h>

#include "guest/context.h"
#include "guest/futex.h"
#include "guest/hooks.h"
#include "guest/link.h"
#include "guest/memory.h"
#include "guest/real.h"
#include "guest/say.h"
#include "guest/state.h"

/* From a load to the answer about it, so that no other thread's module is mistaken for it. */
static struct futex_lock loading;

static CUresult settled(CUresult r)
{
	if (r == CUDA_SUCCESS && state_joined())
		context_settle(state_current_device());
	return r;
}

/* Whether the tenant may have what it has now. While the daemon is away nobody can say. */
static bool within_limit(int device)
{
	struct wire_message message = {.code = WIRE_residual_check}, answer;
	static _Atomic uint32_t said;

	message.residual_check.device = atomic_load(&state.device[device].wire_index);
	if (link_ask(&message, 0, &answer) != 0 || answer.code != WIRE_refused)
		return true;
	if (answer.refused.code != WIRE_REFUSED_LIMIT && answer.refused.code != WIRE_REFUSED_FULL) {
		context_settle(device); /* it does not know the word */
		return true;
	}
	if (atomic_exchange(&said, 1) == 0)
		say("no room for a module: %s", answer.refused.reason.text);
	return false;
}

/* Before a load: CUDA_SUCCESS, and the lock is held unless *ret_device is -1: a call from inside
 * the driver, or nothing to ask for. */
static CUresult begin(int *ret_device)
{
	CUresult r = memory_inside ? CUDA_SUCCESS : state_ready();

	*ret_device = -1;
	if (r != CUDA_SUCCESS || memory_inside || !state_joined())
		return r;
	*ret_device = state_current_device();
	if (*ret_device >= 0)
		futex_lock_take(&loading);
	return r;
}

static CUresult end(int device, CUresult r, void **handle, CUresult (*unload)(void *))
{
	if (device < 0)
		return r;
	if (r == CUDA_SUCCESS && handle && !within_limit(device)) {
		best_effort(memory_driver(unload(*handle)));
		context_settle(device);
		*handle = NULL;
		r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	futex_lock_give(&loading);
	return r;
}

static CUresult unload_module(void *module)
{
	return real(cuModuleUnload)(module);
}

static CUresult unload_library(void *library)
{
	return real(cuLibraryUnload)(library);
}

/* The result of a load by `call`, if there is room for what it stored in *place. */
#define LOAD(place, call, unload)                                                                  \
	({                                                                                         \
		int device_;                                                                       \
		CUresult result_ = begin(&device_);                                                \
		if (result_ == CUDA_SUCCESS) {                                                     \
			result_ = memory_driver(call);                                             \
			result_ = end(device_, result_, (void **)(place), unload);                 \
		}                                                                                  \
		result_;                                                                           \
	})

CUresult hook_cuModuleLoad(CUmodule *module, const char *fname)
{
	return LOAD(module, real(cuModuleLoad)(module, fname), unload_module);
}

CUresult hook_cuModuleLoadData(CUmodule *module, const void *image)
{
	return LOAD(module, real(cuModuleLoadData)(module, image), unload_module);
}

CUresult hook_cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions,
				 CUjit_option *options, void **optionValues)
{
	return LOAD(module,
		    real(cuModuleLoadDataEx)(module, image, numOptions, options, optionValues),
		    unload_module);
}

CUresult hook_cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin)
{
	return LOAD(module, real(cuModuleLoadFatBinary)(module, fatCubin), unload_module);
}

CUresult hook_cuModuleUnload(CUmodule hmod)
{
	return settled(real(cuModuleUnload)(hmod));
}

CUresult hook_cuFuncLoad(CUfunction hfunc)
{
	CUresult r = state_ready();

	return r ? r : settled(real(cuFuncLoad)(hfunc));
}

/* Where no context is current, or the library has nothing for its device, the driver refuses: that
 * is none of the program's business. */
static CUresult put_into_context(CUresult r, const CUlibrary *library)
{
	CUmodule module;

	if (r == CUDA_SUCCESS && library && state_joined() && state_current_device() >= 0)
		best_effort(real(cuLibraryGetModule)(&module, *library));
	return r;
}

CUresult hook_cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions,
				void **jitOptionsValues, unsigned int numJitOptions,
				CUlibraryOption *libraryOptions, void **libraryOptionValues,
				unsigned int numLibraryOptions)
{
	return LOAD(library,
		    put_into_context(real(cuLibraryLoadData)(library, code, jitOptions,
							     jitOptionsValues, numJitOptions,
							     libraryOptions, libraryOptionValues,
							     numLibraryOptions),
				     library),
		    unload_library);
}

CUresult hook_cuLibraryLoadFromFile(CUlibrary *library, const char *fileName,
				    CUjit_option *jitOptions, void **jitOptionsValues,
				    unsigned int numJitOptions, CUlibraryOption *libraryOptions,
				    void **libraryOptionValues, unsigned int numLibraryOptions)
{
	return LOAD(library,
		    put_into_context(real(cuLibraryLoadFromFile)(
					     library, fileName, jitOptions, jitOptionsValues,
					     numJitOptions, libraryOptions, libraryOptionValues,
					     numLibraryOptions),
				     library),
		    unload_library);
}

CUresult hook_cuLibraryUnload(CUlibrary library)
{
	return settled(real(cuLibraryUnload)(library));
}

void module_forget(void)
{
	loading = (struct futex_lock){0};
}
