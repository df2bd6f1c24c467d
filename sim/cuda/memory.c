/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/memory.h"

#include <stdlib.h>
#include <string.h>

#include "cuda/prototypes.h"
#include "sim/machine/clock.h"
#include "sim/machine/device.h"
#include "sim/cuda/driver.h"
#include "sim/machine/faults.h"
#include "sim/cuda/graph_memory.h"
#include "sim/cuda/heap.h"
#include "sim/cuda/managed.h"
#include "sim/cuda/pool.h"
#include "sim/cuda/stream.h"
#include "sim/cuda/stream_set.h"

#define PITCH_ALIGN 512
#define PITCH_MOST  0x7fffffffull

CUresult memory_take(struct CUctx_st *context, size_t bytes, enum space_kind kind,
		     struct space_range *ret_range)
{
	struct space_range range = {
		.kind = kind,
		.context = context,
		.origin = context->id,
		.peers = true,
		.readable = 1ull << context->device,
		.writable = 1ull << context->device,
	};
	CUresult r = heap_take(context->heap, bytes, &range);

	if (r == CUDA_SUCCESS)
		*ret_range = range;
	return r;
}

void memory_give(const struct space_range *range)
{
	if (range->kind == SPACE_MANAGED)
		managed_give(range->base);
	else
		heap_give(range->heap, range->base);
}

/* ---- linear memory --------------------------------------------------------------------------- */

/* The beginning of every allocating call. */
static CUresult allocation_begin(struct CUctx_st **ret_context)
{
	CUresult r = context_current(ret_context);

	if (r == CUDA_SUCCESS)
		r = stream_capture_check();
	if (r != CUDA_SUCCESS)
		return r;
	switch ((int)faults_at(FAULTS_ALLOCATION, (*ret_context)->device)) {
	case FAULTS_OUT_OF_MEMORY:
		return CUDA_ERROR_OUT_OF_MEMORY;
	case FAULTS_LOST:
		context_fail(*ret_context, CUDA_ERROR_UNKNOWN);
		return CUDA_ERROR_UNKNOWN;
	default:
		return CUDA_SUCCESS;
	}
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
	struct CUctx_st *context;
	struct space_range range;
	CUresult r;

	r = allocation_begin(&context);
	if (r != CUDA_SUCCESS)
		return r;
	if (!address || bytes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	r = memory_take(context, bytes, SPACE_LINEAR, &range);
	if (r == CUDA_SUCCESS)
		*address = range.base;
	return r;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width_bytes, size_t height,
			    unsigned element_bytes)
{
	struct CUctx_st *context;
	struct space_range range;
	size_t row;
	CUresult r = allocation_begin(&context);

	if (r != CUDA_SUCCESS)
		return r;
	if (!address || !pitch || width_bytes == 0 || height == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (element_bytes != 4 && element_bytes != 8 && element_bytes != 16)
		return CUDA_ERROR_INVALID_VALUE;
	if (width_bytes > PITCH_MOST || height > SIZE_MAX / 2 / (width_bytes + PITCH_ALIGN))
		return CUDA_ERROR_INVALID_VALUE;
	row = (width_bytes + PITCH_ALIGN - 1) & ~(size_t)(PITCH_ALIGN - 1);
	r = memory_take(context, row * height, SPACE_LINEAR, &range);
	if (r == CUDA_SUCCESS) {
		*address = range.base;
		*pitch = row;
	}
	return r;
}

/* The context of a call that frees: it is known by the address, so none needs to be current. numba
 * frees memory after it has popped its last context. */
static CUresult memory_freer(uint64_t address, struct CUctx_st **ret_context)
{
	struct space_range range;
	CUresult r = context_current(ret_context);

	if (r != CUDA_ERROR_INVALID_CONTEXT || space_find(address, &range) < 0 || !range.context)
		return r;
	*ret_context = range.context;
	return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr address)
{
	struct CUctx_st *context;
	struct space_range range;
	CUresult r = memory_freer(address, &context);

	if (r == CUDA_SUCCESS)
		r = stream_capture_check();
	if (r != CUDA_SUCCESS)
		return r;
	if (!address)
		return CUDA_SUCCESS;
	if (graph_memory_owns(address)) {
		stream_set_drain(context->streams);
		return graph_memory_free_now(address);
	}
	if (space_find(address, &range) < 0 || range.base != address)
		return CUDA_ERROR_INVALID_VALUE;
	switch ((int)range.kind) {
	case SPACE_LINEAR:
	case SPACE_MANAGED:
		/* Waits for work that uses it, in the context in which it was allocated. */
		if (range.context)
			stream_set_drain(((struct CUctx_st *)range.context)->streams);
		memory_give(&range);
		break;
	case SPACE_POOL:
		stream_set_drain(context->streams);
		return pool_free_now(&range);
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	return context_error(context);
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
	struct CUctx_st *context;
	uint64_t available, total;
	CUresult r = context_current(&context);

	if (r != CUDA_SUCCESS)
		return r;
	device_memory(context->device, &available, &total);
	if (free_bytes)
		*free_bytes = available;
	if (total_bytes)
		*total_bytes = total;
	return CUDA_SUCCESS;
}

CUresult cuMemGetInfo(unsigned *free_bytes, unsigned *total_bytes)
{
	size_t available = 0, total = 0;
	CUresult r = cuMemGetInfo_v2(&available, &total);

	if (r != CUDA_SUCCESS)
		return r;
	if (free_bytes)
		*free_bytes = available > UINT32_MAX ? UINT32_MAX : (unsigned)available;
	if (total_bytes)
		*total_bytes = total > UINT32_MAX ? UINT32_MAX : (unsigned)total;
	return CUDA_SUCCESS;
}

/* ---- pinned host memory ---------------------------------------------------------------------- */

#define HOSTALLOC_FLAGS                                                                            \
	(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED)
#define HOSTREGISTER_FLAGS                                                                         \
	(CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |                              \
	 CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY)

static struct space_range host_range(const struct CUctx_st *context, void *memory, size_t bytes,
				     enum space_kind kind, unsigned flags)
{
	return (struct space_range){
		.base = (uint64_t)(uintptr_t)memory,
		.bytes = bytes,
		.kind = kind,
		.device = context->device,
		.flags = flags,
		.context = (void *)(uintptr_t)context,
		.origin = context->id,
		.readable = SPACE_DEVICE_ALL,
		.writable = SPACE_DEVICE_ALL,
	};
}

CUresult cuMemHostAlloc(void **ret_memory, size_t bytes, unsigned flags)
{
	struct CUctx_st *context;
	struct space_range range;
	void *memory;
	CUresult r = context_current(&context);

	if (r == CUDA_SUCCESS)
		r = stream_capture_check();
	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_memory || bytes == 0 || flags & ~(unsigned)HOSTALLOC_FLAGS)
		return CUDA_ERROR_INVALID_VALUE;
	memory = bytes < SIZE_MAX / 2 ? space_host_new(bytes) : NULL;
	if (!memory)
		return CUDA_ERROR_OUT_OF_MEMORY;
	range = host_range(context, memory, bytes, SPACE_PINNED, flags);
	if (space_add(&range) < 0) {
		space_host_free(memory, bytes);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	clock_spend(device_pin_ns(bytes));
	*ret_memory = memory;
	return CUDA_SUCCESS;
}

CUresult cuMemAllocHost_v2(void **ret_memory, size_t bytes)
{
	return cuMemHostAlloc(ret_memory, bytes, 0);
}

CUresult cuMemAllocHost(void **ret_memory, unsigned bytes)
{
	return cuMemHostAlloc(ret_memory, bytes, 0);
}

CUresult cuMemFreeHost(void *memory)
{
	struct CUctx_st *context;
	struct space_range range;
	CUresult r = memory_freer((uint64_t)(uintptr_t)memory, &context);

	if (r != CUDA_SUCCESS)
		return r;
	if (space_find((uint64_t)(uintptr_t)memory, &range) < 0 ||
	    range.base != (uint64_t)(uintptr_t)memory || range.kind != SPACE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	stream_set_drain(context->streams);
	if (space_remove(range.base, &range) < 0)
		return CUDA_ERROR_INVALID_VALUE;
	space_host_free(memory, range.bytes);
	return context_error(context);
}

CUresult cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags)
{
	struct CUctx_st *context;
	struct space_range range;
	CUresult r = context_current(&context);
	int added;

	if (r != CUDA_SUCCESS)
		return r;
	if (!memory || bytes == 0 || flags & ~(unsigned)HOSTREGISTER_FLAGS ||
	    (uint64_t)(uintptr_t)memory + bytes < bytes)
		return CUDA_ERROR_INVALID_VALUE;
	range = host_range(context, memory, bytes, SPACE_REGISTERED, flags);
	if (flags & CU_MEMHOSTREGISTER_READ_ONLY)
		range.writable = 0;
	added = space_add(&range);
	if (added < 0)
		return added == -EEXIST ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
					: CUDA_ERROR_OUT_OF_MEMORY;
	clock_spend(device_pin_ns(bytes));
	return CUDA_SUCCESS;
}

CUresult cuMemHostRegister(void *memory, size_t bytes, unsigned flags)
{
	return cuMemHostRegister_v2(memory, bytes, flags);
}

CUresult cuMemHostUnregister(void *memory)
{
	struct CUctx_st *context;
	struct space_range range;
	CUresult r = memory_freer((uint64_t)(uintptr_t)memory, &context);

	if (r != CUDA_SUCCESS)
		return r;
	if (!memory)
		return CUDA_ERROR_INVALID_VALUE;
	if (space_find((uint64_t)(uintptr_t)memory, &range) < 0 ||
	    range.base != (uint64_t)(uintptr_t)memory || range.kind != SPACE_REGISTERED)
		return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	stream_set_drain(context->streams);
	if (space_remove(range.base, &range) < 0)
		return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	return context_error(context);
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *memory, unsigned flags)
{
	struct CUctx_st *context;
	struct space_range range;
	CUresult r = context_current(&context);

	if (r != CUDA_SUCCESS)
		return r;
	if (!address || flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (space_find((uint64_t)(uintptr_t)memory, &range) < 0 ||
	    (range.kind != SPACE_PINNED && range.kind != SPACE_REGISTERED))
		return CUDA_ERROR_INVALID_VALUE;
	*address = (uint64_t)(uintptr_t)memory;
	return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned *flags, void *memory)
{
	struct CUctx_st *context;
	struct space_range range;
	CUresult r = context_current(&context);

	if (r != CUDA_SUCCESS)
		return r;
	if (!flags || space_find((uint64_t)(uintptr_t)memory, &range) < 0 ||
	    range.kind != SPACE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = range.flags | CU_MEMHOSTALLOC_DEVICEMAP;
	return CUDA_SUCCESS;
}

bool memory_is_pinned(uint64_t address, size_t bytes)
{
	struct space_range range;

	return space_find(address, &range) == 0 && address + bytes <= range.base + range.bytes;
}

/* ---- a context ends -------------------------------------------------------------------------- */

struct ended {
	uint64_t origin, found;
	enum space_kind kind;
};

static void ended_step(const struct space_range *range, void *data)
{
	struct ended *ended = data;

	if (ended->found || range->origin != ended->origin)
		return;
	if (range->kind == SPACE_PINNED || range->kind == SPACE_REGISTERED ||
	    range->kind == SPACE_MANAGED || range->kind == SPACE_SHARED) {
		ended->found = range->base;
		ended->kind = range->kind;
	}
}

void memory_context_ended(struct CUctx_st *context)
{
	for (;;) {
		struct ended ended = {.origin = context->id};
		struct space_range range;

		space_visit(ended_step, &ended);
		if (!ended.found)
			return;
		if (ended.kind == SPACE_MANAGED) {
			managed_give(ended.found);
			continue;
		}
		if (space_remove(ended.found, &range) < 0)
			continue;
		if (range.kind == SPACE_PINNED) {
			space_host_free((void *)(uintptr_t)range.base, range.bytes);
		} else if (range.kind == SPACE_SHARED) {
			space_unback(range.reserved, range.charged);
			space_release(range.reserved, range.charged);
		}
	}
}
