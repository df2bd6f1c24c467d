/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/contexts/devices.h"
#include "guest/process/join.h"
#include "guest/residual/libraries.h"

#include <stdatomic.h>

#include "guest/contexts/current.h"
#include "guest/driver/nested.h"
#include "guest/driver/real.h"
#include "guest/hooks.h"
#include "guest/process/changes.h"
#include "guest/process/state.h"
#include "guest/residual/module.h"

enum {
	SEEN = 1024, /* pairs; a pair that another one has replaced is measured once more */
};

/* Each word stands for a pair of library and context. Words are never removed: instead they depend
 * on `unloads` and on the number of contexts that have ended. */
static struct {
	_Atomic uint64_t seen[SEEN];
	_Atomic uint64_t unloads;
} libraries;

static uint64_t mix(uint64_t word)
{
	word ^= word >> 32;
	word *= 0xd6e8feb86659fd93ull;
	word ^= word >> 32;
	word *= 0xd6e8feb86659fd93ull;
	return word ^ word >> 32;
}

static uint64_t word_of(const void *library, CUcontext context)
{
	uint64_t era = atomic_load_explicit(&current_era, memory_order_relaxed);

	return mix(mix(mix((uint64_t)(uintptr_t)library) + (uint64_t)(uintptr_t)context) +
		   (era << 32) + atomic_load(&libraries.unloads)) |
	       1;
}

bool libraries_seen(const void *library, CUcontext context)
{
	uint64_t word = word_of(library, context);

	return atomic_load(&libraries.seen[(word >> 1) % SEEN]) == word;
}

void libraries_note(const void *library, CUcontext context)
{
	uint64_t word = word_of(library, context);

	atomic_store(&libraries.seen[(word >> 1) % SEEN], word);
}

void libraries_unloaded(void)
{
	atomic_fetch_add(&libraries.unloads, 1);
}

/* A call that may load a library into the current context. */
struct use {
	const void *library; /* NULL: nothing to measure */
	CUcontext context;
	int device;
};

static CUresult begin(struct use *ret_use, const void *library, bool nested)
{
	CUresult r = nested ? CUDA_SUCCESS : state_ready();
	struct use use = {NULL, NULL, -1};

	if (r == CUDA_SUCCESS && !nested && library && state_joined()) {
		use.device = current_find(&use.context);
		if (use.device == -2)
			use.device = devices_of_context(use.context);
		if (use.device >= 0 && !libraries_seen(library, use.context)) {
			use.library = library;
			changes_other(use.device);
		}
	}
	*ret_use = use;
	return r;
}

static CUresult end(const struct use *use, CUresult r)
{
	if (r == CUDA_SUCCESS && use->library) {
		/* Measured before the program can allocate memory that the library already uses.
		 * Two threads may both measure, but none goes on before it was measured. */
		module_came(use->device);
		libraries_note(use->library, use->context);
	}
	return r;
}

#define USE(library, call)                                                                         \
	({                                                                                         \
		struct use use_;                                                                   \
		CUresult result_ = begin(&use_, library, driver_nested());                         \
		result_ ? result_ : end(&use_, driver_call(call));                                 \
	})

/* Drivers before 12.5 do not tell the library of a kernel: then each kernel is measured. */
static const void *library_of(CUkernel kernel)
{
	CUlibrary library = NULL;

	if (!kernel || !state_joined() || !real_has(cuKernelGetLibrary))
		return kernel;
	if (driver_call(real(cuKernelGetLibrary)(&library, kernel)) != CUDA_SUCCESS)
		return NULL;
	return library;
}

CUresult hook_cuLibraryGetModule(CUmodule *pMod, CUlibrary library)
{
	return USE(library, real(cuLibraryGetModule)(pMod, library));
}

CUresult hook_cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library,
				 const char *name)
{
	return USE(library, real(cuLibraryGetGlobal)(dptr, bytes, library, name));
}

CUresult hook_cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library,
				  const char *name)
{
	return USE(library, real(cuLibraryGetManaged)(dptr, bytes, library, name));
}

CUresult hook_cuLibraryGetUnifiedFunction(void **fptr, CUlibrary library, const char *symbol)
{
	return USE(library, real(cuLibraryGetUnifiedFunction)(fptr, library, symbol));
}

CUresult hook_cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel)
{
	return USE(library_of(kernel), real(cuKernelGetFunction)(pFunc, kernel));
}
