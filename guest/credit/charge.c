/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/credit/charge.h"

#include "guest/contexts/devices.h"
#include "guest/credit/blocks.h"
#include "guest/credit/credit.h"
#include "guest/credit/view.h"
#include "guest/driver/nested.h"
#include "guest/driver/real.h"
#include "guest/process/parts.h"
#include "guest/process/state.h"
#include "guest/time/capture.h"

uint64_t memory_round(uint64_t bytes)
{
	if (bytes > UINT64_MAX - BLOCKS_BYTES)
		return UINT64_MAX - BLOCKS_BYTES + 1;
	return (bytes + BLOCKS_BYTES - 1) & ~(BLOCKS_BYTES - 1);
}

CUresult memory_refuse_device(CUdevice ordinal)
{
	CUuuid uuid;

	if (!state_joined() || devices_index(ordinal) >= 0 ||
	    driver_call(real(cuDeviceGetUuid)(&uuid, ordinal)) != CUDA_SUCCESS)
		return CUDA_SUCCESS;
	return memory_charge(-1, 1, CREDIT_ASK);
}

bool memory_seems_short(int device, uint64_t bytes)
{
	struct view_memory seen;

	view_memory(device, state_page(device, total_bytes), &seen);
	return seen.free < bytes;
}

/* Rarely run: once in many allocations there is no credit left. */
static noinline_ void find_bytes(int device, uint64_t bytes)
{
	parts_spare(device, bytes);
	/* If there is nothing to take back, the daemon is asked at once, and only once. */
	if (credit_unused(device) >= bytes || !parts_recount(device))
		return;
	if (credit_unused(device) < bytes && memory_seems_short(device, bytes))
		parts_trim(device, bytes);
}

int memory_charge_outcome(int device, uint64_t bytes, enum credit_how how)
{
	if (how == CREDIT_WAIT && capture_open())
		how = CREDIT_ASK;
	if (bytes == 0)
		return 0;
	if (unlikely(device >= 0 && credit_unused(device) < bytes))
		find_bytes(device, bytes);
	return credit_take(device, bytes, how);
}

CUresult memory_charge(int device, uint64_t bytes, enum credit_how how)
{
	return memory_charge_outcome(device, bytes, how) == 0 ? CUDA_SUCCESS
							      : CUDA_ERROR_OUT_OF_MEMORY;
}
