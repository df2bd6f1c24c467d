/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules and libraries: their code and static data are device memory of unknown size, so the
 * daemon measures after each load and unload. If the tenant then has more than it may, the module
 * is unloaded again.
 *
 * The driver loads a library into a context at its first use there, such as a kernel's launch. We
 * load it into the current context at once, so that it can still be refused.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "guest/contexts/current.h"
#include "guest/contexts/devices.h"
#include "guest/credit/settle.h"
#include "guest/driver/nested.h"
#include "guest/driver/real.h"
#include "guest/driver_lock.h"
#include "guest/hooks.h"
#include "guest/link/link.h"
#include "guest/process/join.h"
#include "guest/process/changes.h"
#include "guest/process/parts.h"
#include "guest/process/state.h"
#include "guest/residual/libraries.h"
#include "guest/residual/module.h"
#include "guest/say.h"

/* Held from a load until the daemon's answer, so that no other thread's module is mistaken for it.
 */
static struct driver_lock loading;

static CUresult settled(CUresult r)
{
	if (r == CUDA_SUCCESS && state_joined())
		settle_device(devices_current());
	return r;
}

struct check_word {
	struct link_word word;
	int device;
};

static int write_check(struct link_word *word, struct wire_message *message)
{
	const struct check_word *about = container_of(word, struct check_word, word);

	message->code = WIRE_residual_check;
	message->residual_check.device = atomic_load(&state.device[about->device].wire_index);
	return 0;
}

/* Whether the tenant is within its limit now. While the daemon is away the answer is yes. */
static bool within_limit(int device, enum link_patience patience, struct wire_answer *ret_answer)
{
	struct check_word about = {{write_check, NULL}, device};

	if (link_ask(&about.word, patience, NULL, ret_answer) != 0 ||
	    ret_answer->code != WIRE_refused)
		return true;
	if (ret_answer->refused.code == WIRE_REFUSED_LIMIT ||
	    ret_answer->refused.code == WIRE_REFUSED_FULL)
		return false;
	settle_device(device); /* an older daemon, which does not know the message */
	return true;
}

static bool may_stay(int device)
{
	struct wire_answer answer;
	static _Atomic uint32_t said;

	if (within_limit(device, LINK_AT_ONCE, &answer))
		return true;
	if (atomic_exchange(&said, 1) == 0)
		say("no room for a module: %s", answer.refused.reason.text);
	return false;
}

void module_came(int device)
{
	struct wire_answer answer;
	bool mine;

	if (device < 0 || !state_joined())
		return;
	mine = driver_lock_take(&loading);
	/* If it fails, the inventory tells the next daemon. */
	best_effort(within_limit(device, LINK_HERE, &answer));
	driver_lock_give(&loading, mine);
}

/* Before the first code: what contexts take is learnt where there is nothing else, and most
 * programs load code as soon as they have one. Nobody waits for a daemon that is away. */
static void measure_contexts(int device)
{
	struct wire_answer answer;

	if (device >= 0 && atomic_load(&state.device[device].others) == 0 &&
	    atomic_load(&state.device[device].contexts) != 0)
		best_effort(within_limit(device, LINK_HERE, &answer));
}

struct load {
	int device; /* -1: a call from inside the driver, or no device of the tenant */
	bool mine;
};

/* Before a load: CUDA_SUCCESS, and the lock is held if there is a device. */
static CUresult begin(struct load *ret_load, bool nested)
{
	CUresult r = nested ? CUDA_SUCCESS : state_ready();

	*ret_load = (struct load){.device = -1};
	if (r != CUDA_SUCCESS || nested || !state_joined())
		return r;
	ret_load->device = devices_current();
	measure_contexts(ret_load->device);
	changes_other(ret_load->device);
	if (ret_load->device >= 0)
		ret_load->mine = driver_lock_take(&loading);
	return r;
}

static CUresult end(const struct load *load, CUresult r, void **handle, CUresult (*unload)(void *))
{
	if (load->device < 0)
		return r;
	if (r == CUDA_SUCCESS && handle && !may_stay(load->device)) {
		best_effort(driver_call(unload(*handle)));
		settle_device(load->device);
		*handle = NULL;
		r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	driver_lock_give(&loading, load->mine);
	return r;
}

static CUresult unload_module(void *module)
{
	return real(cuModuleUnload)(module);
}

static CUresult unload_library(void *library)
{
	CUresult r = real(cuLibraryUnload)(library);

	libraries_unloaded();
	return r;
}

/* Loads by `call`, which stores in *place, and unloads again if there is no room. */
#define LOAD(place, call, unload)                                                                  \
	({                                                                                         \
		struct load load_;                                                                 \
		CUresult result_ = begin(&load_, driver_nested());                                 \
		if (result_ == CUDA_SUCCESS) {                                                     \
			result_ = driver_call(call);                                               \
			result_ = end(&load_, result_, (void **)(place), unload);                  \
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

	if (r == CUDA_SUCCESS && state_joined())
		changes_other(devices_current());
	if (r == CUDA_SUCCESS)
		r = real(cuFuncLoad)(hfunc);
	if (r == CUDA_SUCCESS)
		module_came(state_joined() ? devices_current() : -1);
	return r;
}

/* If no context is current, or the library has nothing for its device, the driver refuses: the
 * program is not told. */
static CUresult put_into_context(CUresult r, const CUlibrary *library)
{
	CUcontext context;
	CUmodule module;

	if (r == CUDA_SUCCESS && library && state_joined() && current_find(&context) != -1 &&
	    real(cuLibraryGetModule)(&module, *library) == CUDA_SUCCESS)
		libraries_note(*library, context);
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
	return settled(unload_library(library));
}

void module_forget(void)
{
	memset(&loading, 0, sizeof(loading));
	libraries_unloaded(); /* the driver may reuse the handle */
}
