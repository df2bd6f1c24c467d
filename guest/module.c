/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules and libraries: their code and static data are device memory of unknown size, so that the
 * daemon measures after each of them came or went.
 */
#include "guest/context.h"
#include "guest/hooks.h"
#include "guest/real.h"
#include "guest/state.h"

static CUresult settled(CUresult r)
{
	if (r == CUDA_SUCCESS && state_joined())
		context_settle(state_current_device());
	return r;
}

CUresult hook_cuModuleLoad(CUmodule *module, const char *fname)
{
	CUresult r = state_ready();

	return r ? r : settled(real(cuModuleLoad)(module, fname));
}

CUresult hook_cuModuleLoadData(CUmodule *module, const void *image)
{
	CUresult r = state_ready();

	return r ? r : settled(real(cuModuleLoadData)(module, image));
}

CUresult hook_cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions,
				 CUjit_option *options, void **optionValues)
{
	CUresult r = state_ready();

	return r ? r
		 : settled(real(cuModuleLoadDataEx)(module, image, numOptions, options,
						    optionValues));
}

CUresult hook_cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin)
{
	CUresult r = state_ready();

	return r ? r : settled(real(cuModuleLoadFatBinary)(module, fatCubin));
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

CUresult hook_cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions,
				void **jitOptionsValues, unsigned int numJitOptions,
				CUlibraryOption *libraryOptions, void **libraryOptionValues,
				unsigned int numLibraryOptions)
{
	CUresult r = state_ready();

	return r ? r
		 : settled(real(cuLibraryLoadData)(library, code, jitOptions, jitOptionsValues,
						   numJitOptions, libraryOptions,
						   libraryOptionValues, numLibraryOptions));
}

CUresult hook_cuLibraryLoadFromFile(CUlibrary *library, const char *fileName,
				    CUjit_option *jitOptions, void **jitOptionsValues,
				    unsigned int numJitOptions, CUlibraryOption *libraryOptions,
				    void **libraryOptionValues, unsigned int numLibraryOptions)
{
	CUresult r = state_ready();

	return r ? r
		 : settled(real(cuLibraryLoadFromFile)(
			   library, fileName, jitOptions, jitOptionsValues, numJitOptions,
			   libraryOptions, libraryOptionValues, numLibraryOptions));
}

CUresult hook_cuLibraryUnload(CUlibrary library)
{
	return settled(real(cuLibraryUnload)(library));
}
