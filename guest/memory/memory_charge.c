/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/answers/query.h"
#include "guest/contexts/devices.h"
#include "guest/driver/real.h"
#include "guest/memory/blocks.h"
#include "guest/memory/credit.h"
#include "guest/memory/graphs.h"
#include "guest/memory/memory.h"
#include "guest/memory/pools.h"
#include "guest/movable/movable_lend.h"
#include "guest/movable/movable_stock.h"
#include "guest/process/state.h"
#include "guest/time/capture.h"

uint64_t memory_round(uint64_t bytes)
{
	if (bytes > UINT64_MAX - BLOCKS_BYTES)
		return UINT64_MAX - BLOCKS_BYTES + 1;
	return (bytes + BLOCKS_BYTES - 1) & ~(BLOCKS_BYTES - 1);
}

int memory_ordinal(int device)
{
	int count = 0;

	for (int i = 0; i < STATE_ORDINALS && device >= 0; i++)
		if (atomic_load_explicit(&state.ordinal[i], memory_order_relaxed) == device + 1)
			return i;
	if (device < 0 || memory_driver(real(cuDeviceGetCount)(&count)) != CUDA_SUCCESS)
		return -1;
	for (int i = 0; i < count; i++)
		if (devices_index(i) == device)
			return i;
	return -1;
}

CUresult memory_refuse_device(CUdevice ordinal)
{
	CUuuid uuid;

	if (!state_joined() || devices_index(ordinal) >= 0 ||
	    memory_driver(real(cuDeviceGetUuid)(&uuid, ordinal)) != CUDA_SUCCESS)
		return CUDA_SUCCESS;
	return memory_charge(-1, 1, CREDIT_ASK);
}

bool memory_looks_short(int device, uint64_t bytes)
{
	struct query_memory seen;

	query_memory(device, state_page(device, total_bytes), &seen);
	return seen.free < bytes;
}

/* Rarely run: once in many allocations there is no credit left. */
static noinline_ void look_for_bytes(int device, uint64_t bytes)
{
	/* Nothing is unmapped while a capture is open; the daemon's recall does it. */
	if (!capture_open())
		movable_stock_release(device, bytes);
	if (credit_unused(device) < bytes)
		debt_settle();
	if (credit_unused(device) >= bytes)
		return;
	/* Nothing to find: the daemon is asked at once, and once. */
	if (!pools_used() && !graphs_used())
		return;
	pools_settle(device);
	graphs_settle(device);
	if (credit_unused(device) >= bytes || !memory_looks_short(device, bytes))
		return;
	pools_trim(device);
	if (credit_unused(device) < bytes)
		graphs_trim(device);
}

int memory_charge_outcome(int device, uint64_t bytes, enum credit_how how)
{
	if (how == CREDIT_WAIT && capture_open())
		how = CREDIT_ASK;
	if (bytes == 0)
		return 0;
	if (unlikely(device >= 0 && credit_unused(device) < bytes))
		look_for_bytes(device, bytes);
	return credit_take(device, bytes, how);
}

CUresult memory_charge(int device, uint64_t bytes, enum credit_how how)
{
	return memory_charge_outcome(device, bytes, how) == 0 ? CUDA_SUCCESS
							      : CUDA_ERROR_OUT_OF_MEMORY;
}
