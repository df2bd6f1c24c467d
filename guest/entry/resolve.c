/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/entry/resolve.h"

#include <stdbool.h>
#include <string.h>

#define TABLE_KINDS
#include "cuda/probe.h"
#include "cuda/resolve.h"
#include "guest/contexts/current.h"
#include "guest/driver/addresses.h"
#include "guest/driver/real.h"
#include "guest/hooks.h"
#include "guest/process/state.h"
#include "guest/say.h"
#include "guest/tables.h"

/* Functions that the tables do not have: rare. CUDA_ERROR_NOT_FOUND: the share is strict. */
static CUresult unlisted(const char *name, void **address, int version, uint64_t flags)
{
	static _Atomic uint32_t said;
	enum api_index row;
	int of = real_version();

	/* A request for a newer version than the driver's counts as one for the driver's. Up to the
	 * table's own version the table says which interface this is; beyond it, a function's
	 * arguments are not known. */
	if (of == 0 || of > version)
		of = version;
	if (resolve_symbol(name, of, flags, of, &row) != 0 || table_kind[row] == TRAMPOLINE_PASS)
		return CUDA_SUCCESS;
	if (of <= CUDA_VERSION) {
		real_adopt(row, *address);
		*address = guest_export(row);
		return CUDA_SUCCESS;
	}
	__atomic_fetch_add(&guest_own_page.unknown_functions, 1, __ATOMIC_RELAXED);
	if (!__atomic_load_n(&guest_tenant_page.strict, __ATOMIC_RELAXED))
		return CUDA_SUCCESS;
	if (atomic_exchange(&said, 1) == 0)
		say("%s of CUDA %d.%d is not known to mete, and the share is strict: refused", name,
		    version / 1000, version % 1000 / 10);
	*address = NULL;
	return CUDA_ERROR_NOT_FOUND;
}

static bool is_probe(const char *name, void **address)
{
	if (!name || name[0] != PROBE_NAME[0] || strcmp(name, PROBE_NAME) != 0)
		return false;
	if (address)
		*address = (void *)(uintptr_t)PROBE_ANSWER;
	return true;
}

/* Our function that the program gets instead of the driver's. If ours would only pass the call on,
 * the program gets the driver's own: a detour gains nothing. */
static inline CUresult replace(const char *name, void **address, int version, uint64_t flags)
{
	int row;

	if (!address || !*address)
		return CUDA_SUCCESS;
	row = addresses_row(*address);
	if (unlikely(row < 0))
		return unlisted(name, address, version, flags);
	if (table_kind[row] != TRAMPOLINE_PASS)
		*address = guest_export(row);
	return CUDA_SUCCESS;
}

CUresult hook_cuGetProcAddress(const char *symbol, void **pfn, int driverVersion, cuuint64_t flags)
{
	CUresult r;

	if (is_probe(symbol, pfn))
		return CUDA_SUCCESS;
	r = real(cuGetProcAddress)(symbol, pfn, driverVersion, flags);
	return r ? r : replace(symbol, pfn, driverVersion, flags);
}

CUresult hook_cuGetProcAddress_v2(const char *symbol, void **pfn, int driverVersion,
				  cuuint64_t flags, CUdriverProcAddressQueryResult *symbolFound)
{
	CUresult r;

	if (is_probe(symbol, pfn))
		return CUDA_SUCCESS;
	r = real(cuGetProcAddress_v2)(symbol, pfn, driverVersion, flags, symbolFound);
	if (r || likely(replace(symbol, pfn, driverVersion, flags) == CUDA_SUCCESS))
		return r;
	/* This form never fails for that. */
	if (symbolFound)
		*symbolFound = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
	return CUDA_SUCCESS;
}

/* Private tables of the driver: their functions are not known, so calls are passed on. */
CUresult hook_cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId)
{
	CUresult r = real(cuGetExportTable)(ppExportTable, pExportTableId);

	if (r == CUDA_SUCCESS)
		current_never();
	return r;
}
