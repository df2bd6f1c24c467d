/* SPDX-License-Identifier: Apache-2.0 */
/* cuGetProcAddress: cuda/resolve.h chooses the row, this table has its function. */
#include <stdbool.h>

#include "cuda/api.h"
#include "cuda/prototypes.h"
#include "cuda/resolve.h"
#include "sim/cuda/driver.h"

static void *const addresses[API_ROWS] = {
#define CUDA_FUNCTION(base, version, stream, symbol, class, reason, returns, parameters,           \
		      arguments)                                                                   \
	[API_##symbol] = (void *)symbol,
#include "cuda/api.def"
#undef CUDA_FUNCTION
};

/* NVIDIA's drivers treat the other arguments like this (tests/driver): the newer form always
 * succeeds and tells why there is no address; the older one does not touch the caller's variable.
 */
static bool is_asked_well(const char *symbol, void **address, cuuint64_t flags)
{
	return symbol && address && flags <= (RESOLVE_LEGACY | RESOLVE_PER_THREAD);
}

CUresult cuGetProcAddress_v2(const char *symbol, void **address, int version, cuuint64_t flags,
			     CUdriverProcAddressQueryResult *found)
{
	enum api_index index;
	int r;

	if (!is_asked_well(symbol, address, flags))
		return CUDA_ERROR_INVALID_VALUE;
	r = resolve_symbol(symbol, version, flags, driver_version(), &index);
	*address = r == 0 ? addresses[index] : NULL;
	if (found)
		*found = r == 0			? CU_GET_PROC_ADDRESS_SUCCESS
			 : r == RESOLVE_TOO_OLD ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
						: CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return CUDA_SUCCESS;
}

CUresult cuGetProcAddress(const char *symbol, void **address, int version, cuuint64_t flags)
{
	enum api_index index;

	if (!is_asked_well(symbol, address, flags))
		return CUDA_ERROR_INVALID_VALUE;
	if (resolve_symbol(symbol, version, flags, driver_version(), &index) != 0)
		return CUDA_ERROR_NOT_FOUND;
	*address = addresses[index];
	return CUDA_SUCCESS;
}
