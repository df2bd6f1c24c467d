/* SPDX-License-Identifier: Apache-2.0 */
/* cuGetProcAddress: cuda/resolve.h says which row, this table where it is. */
#include <string.h>

#include "cuda/api.h"
#include "cuda/prototypes.h"
#include "cuda/resolve.h"
#include "sim/driver.h"

static void *const addresses[API_ROWS] = {
#define CUDA_FUNCTION(base, version, stream, symbol, class, reason, returns, parameters,           \
		      arguments)                                                                   \
	[API_##symbol] = (void *)symbol,
#include "cuda/api.def"
#undef CUDA_FUNCTION
};

static CUdriverProcAddressQueryResult resolve(const char *symbol, void **ret_address, int version,
					      cuuint64_t flags)
{
	enum api_index index;
	int r = resolve_symbol(symbol, version, flags, driver_version(), &index);

	*ret_address = r == 0 ? addresses[index] : NULL;
	switch (r) {
	case 0:
		return CU_GET_PROC_ADDRESS_SUCCESS;
	case RESOLVE_TOO_OLD:
		return CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
	default:
		return CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	}
}

CUresult cuGetProcAddress_v2(const char *symbol, void **address, int version, cuuint64_t flags,
			     CUdriverProcAddressQueryResult *found)
{
	CUdriverProcAddressQueryResult result;

	if (!symbol || !address || flags > (RESOLVE_LEGACY | RESOLVE_PER_THREAD))
		return CUDA_ERROR_INVALID_VALUE;
	result = resolve(symbol, address, version, flags);
	if (found)
		*found = result;
	if (result == CU_GET_PROC_ADDRESS_SUCCESS || found)
		return CUDA_SUCCESS;
	return CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetProcAddress(const char *symbol, void **address, int version, cuuint64_t flags)
{
	return cuGetProcAddress_v2(symbol, address, version, flags, NULL);
}
