/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The few functions of the null driver and of the recording driver whose outputs a caller reads.
 * One device, whose UUID is sixteen times 0x11; one context, which is always current.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/prototypes.h"
#include "cuda/resolve.h"

#define SPECIAL(symbol) __typeof__(symbol) special_##symbol

SPECIAL(cuDriverGetVersion);
SPECIAL(cuDeviceGetUuid);
SPECIAL(cuDeviceGetUuid_v2);
SPECIAL(cuDeviceGetCount);
SPECIAL(cuDeviceGet);
SPECIAL(cuCtxGetCurrent);
SPECIAL(cuCtxGetDevice);
SPECIAL(cuGetProcAddress);
SPECIAL(cuGetProcAddress_v2);
SPECIAL(cuStreamGetCtx);

static int version(void)
{
	const char *given = getenv("METE_TEST_DRIVER_VERSION");

	return given ? atoi(given) : 12090;
}

CUresult special_cuDriverGetVersion(int *driverVersion)
{
	*driverVersion = version();
	return CUDA_SUCCESS;
}

CUresult special_cuDeviceGetUuid(CUuuid *uuid, CUdevice_v1 dev)
{
	if (dev != 0)
		return CUDA_ERROR_INVALID_DEVICE;
	memset(uuid->bytes, 0x11, sizeof(uuid->bytes));
	return CUDA_SUCCESS;
}

CUresult special_cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice_v1 dev)
{
	return special_cuDeviceGetUuid(uuid, dev);
}

CUresult special_cuDeviceGetCount(int *count)
{
	*count = 1;
	return CUDA_SUCCESS;
}

CUresult special_cuDeviceGet(CUdevice_v1 *device, int ordinal)
{
	*device = ordinal;
	return ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult special_cuCtxGetCurrent(CUcontext *pctx)
{
	*pctx = (CUcontext)0x1000;
	return CUDA_SUCCESS;
}

CUresult special_cuCtxGetDevice(CUdevice_v1 *device)
{
	*device = 0;
	return CUDA_SUCCESS;
}

CUresult special_cuStreamGetCtx(CUstream hStream, CUcontext *pctx)
{
	(void)hStream;
	*pctx = (CUcontext)0x1000;
	return CUDA_SUCCESS;
}

/* The address that a driver hands out for a function that it does not export. */
static CUresult inner(void)
{
	return (CUresult)4242;
}

static CUresult look_up(const char *symbol, void **pfn, int asked, cuuint64_t flags,
			CUdriverProcAddressQueryResult *status)
{
	static void *self;
	enum api_index row;
	Dl_info about;
	int r;

	/* With RTLD_DEFAULT the guest's own functions could be found. */
	if (!self && dladdr((void *)look_up, &about))
		self = dlopen(about.dli_fname, RTLD_NOW | RTLD_NOLOAD);
	*pfn = NULL;
	r = resolve_symbol(symbol, asked, flags, version(), &row);
	if (r == 0 && self)
		*pfn = dlsym(self, api_symbol(&api_rows[row]));
	if (r == 0 && getenv("METE_TEST_INNER"))
		*pfn = (void *)inner;
	if (status)
		*status = r == 0		 ? CU_GET_PROC_ADDRESS_SUCCESS
			  : r == RESOLVE_TOO_OLD ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
						 : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return *pfn ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult special_cuGetProcAddress(const char *symbol, void **pfn, int driverVersion,
				  cuuint64_t flags)
{
	return look_up(symbol, pfn, driverVersion, flags, NULL);
}

CUresult special_cuGetProcAddress_v2(const char *symbol, void **pfn, int driverVersion,
				     cuuint64_t flags, CUdriverProcAddressQueryResult *symbolFound)
{
	return look_up(symbol, pfn, driverVersion, flags, symbolFound);
}
