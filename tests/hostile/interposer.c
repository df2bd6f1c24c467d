/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another library that is preloaded beside the guest and wants the same calls, as HAMi's and
 * nvshare's do: it wraps dlsym() and cuGetProcAddress(), and passes on to the driver that it has
 * opened itself. HOSTILE_INTERPOSER=apart: in a namespace of its own (dlmopen).
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "cuda/prototypes.h"

typedef void *dlsym_fn(void *handle, const char *name);

exported void *dlsym(void *handle, const char *name);

static void *look_up(void *handle, const char *name)
{
	static dlsym_fn *next;

	if (!next)
		next = (dlsym_fn *)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
	return next(handle, name);
}

static void *driver(const char *name)
{
	static void *library;
	const char *how = getenv("HOSTILE_INTERPOSER");

	if (!library && how && strcmp(how, "apart") == 0)
		library = dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW);
	if (!library)
		library = dlopen("libcuda.so.1", RTLD_NOW);
	return library ? look_up(library, name) : NULL;
}

static CUresult allocate(CUdeviceptr *address, size_t bytes)
{
	api_fn_cuMemAlloc_v2 *next = (api_fn_cuMemAlloc_v2 *)driver("cuMemAlloc_v2");

	return next ? next(address, bytes) : CUDA_ERROR_NOT_FOUND;
}

static CUresult init(unsigned flags)
{
	api_fn_cuInit *next = (api_fn_cuInit *)driver("cuInit");

	return next ? next(flags) : CUDA_ERROR_NOT_FOUND;
}

static CUresult find(const char *name, void **ret_function, int version, cuuint64_t flags,
		     CUdriverProcAddressQueryResult *ret_how)
{
	api_fn_cuGetProcAddress_v2 *next =
		(api_fn_cuGetProcAddress_v2 *)driver("cuGetProcAddress_v2");
	CUresult r =
		next ? next(name, ret_function, version, flags, ret_how) : CUDA_ERROR_NOT_FOUND;

	if (r == CUDA_SUCCESS && strcmp(name, "cuMemAlloc") == 0)
		*ret_function = (void *)allocate;
	return r;
}

void *dlsym(void *handle, const char *name)
{
	if (strcmp(name, "cuMemAlloc_v2") == 0)
		return (void *)allocate;
	if (strcmp(name, "cuInit") == 0)
		return (void *)init;
	if (strcmp(name, "cuGetProcAddress_v2") == 0)
		return (void *)find;
	/* What else there is it takes from the driver, whatever the program has opened. */
	return strncmp(name, "cu", 2) == 0 ? driver(name) : look_up(handle, name);
}
