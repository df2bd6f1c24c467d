/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory of cuMemAlloc(), and events, in other processes. A handle names the process and the
 * descriptor that holds the memory or the event's page; it is good while that process lives, and
 * has not freed it.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/prototypes.h"
#include "sim/cuda/context.h"
#include "sim/machine/device.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/event.h"
#include "sim/cuda/handle.h"
#include "sim/cuda/heap.h"
#include "sim/cuda/space.h"
#include "sim/cuda/stream_set.h"

struct ipc_handle {
	char magic[8];
	int32_t pid, fd;
	uint64_t offset, bytes;
	uint8_t uuid[16];
	uint8_t reserved[16];
};

_Static_assert(sizeof(struct ipc_handle) == sizeof(CUipcMemHandle), "an IPC handle has 64 bytes");

static const char ipc_magic[8] = "metesim";

CUresult cuIpcGetMemHandle(CUipcMemHandle *ret_handle, CUdeviceptr address)
{
	struct ipc_handle handle = {.pid = getpid()};
	struct CUctx_st *context;
	struct space_range range;
	CUresult r = context_current(&context);

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_handle || space_find(address, &range) < 0 || range.kind != SPACE_LINEAR)
		return CUDA_ERROR_INVALID_VALUE;
	r = stream_set_synchronize(((struct CUctx_st *)range.context)->streams);
	if (r == CUDA_SUCCESS)
		r = heap_share(range.heap, &range, &handle.fd, &handle.offset);
	if (r != CUDA_SUCCESS)
		return r;
	memcpy(handle.magic, ipc_magic, sizeof(ipc_magic));
	handle.bytes = space_asked(&range);
	device_uuid(range.device, handle.uuid);
	memcpy(ret_handle, &handle, sizeof(handle));
	return CUDA_SUCCESS;
}

/* The whole blocks around the memory are mapped; the range is what the handle names. */
static CUresult ipc_map(const struct ipc_handle *handle, int fd, struct space_range *range)
{
	uint64_t from = handle->offset & ~(SPACE_BLOCK - 1);
	uint64_t end = (handle->offset + handle->bytes + SPACE_BLOCK - 1) & ~(SPACE_BLOCK - 1);

	range->charged = end - from; /* of the reservation: nothing is charged */
	if (space_reserve(range->charged, SPACE_BLOCK, 0, &range->reserved) < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	range->base = range->reserved + (handle->offset - from);
	range->bytes = space_round(handle->bytes);
	range->asked = handle->bytes;
	range->delta = (uint64_t)(uintptr_t)space_shadow(range->base) - range->base;
	if (space_back_file(range->reserved, range->charged, fd, from) < 0 ||
	    space_add(range) < 0) {
		space_unback(range->reserved, range->charged);
		space_release(range->reserved, range->charged);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *ret_address, CUipcMemHandle opaque, unsigned flags)
{
	struct ipc_handle handle;
	struct CUctx_st *context;
	struct space_range range = {.kind = SPACE_SHARED, .peers = true};
	owned(close) int fd = -1;
	char path[64];
	CUresult r = context_current(&context);

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_address || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&handle, &opaque, sizeof(handle));
	if (memcmp(handle.magic, ipc_magic, sizeof(ipc_magic)) != 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (handle.pid == getpid())
		return CUDA_ERROR_INVALID_CONTEXT; /* the memory is this process's own */
	range.device = device_by_uuid(handle.uuid);
	if (range.device < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", handle.pid, handle.fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return CUDA_ERROR_MAP_FAILED;
	range.context = context;
	range.origin = context->id;
	range.readable = range.writable = 1ull << range.device;
	r = ipc_map(&handle, fd, &range);
	if (r == CUDA_SUCCESS)
		*ret_address = range.base;
	return r;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *ret_address, CUipcMemHandle handle, unsigned flags)
{
	return cuIpcOpenMemHandle_v2(ret_address, handle, flags);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address)
{
	struct CUctx_st *context;
	struct space_range range;
	CUresult r = context_current(&context);

	if (r != CUDA_SUCCESS)
		return r;
	if (space_find(address, &range) < 0 || range.kind != SPACE_SHARED || range.base != address)
		return CUDA_ERROR_INVALID_VALUE;
	best_effort(stream_set_synchronize(context->streams));
	if (space_remove(address, &range) < 0)
		return CUDA_ERROR_INVALID_VALUE;
	space_unback(range.reserved, range.charged);
	space_release(range.reserved, range.charged);
	return CUDA_SUCCESS;
}

/* ---- events ---------------------------------------------------------------------------------- */

struct ipc_event {
	char magic[8];
	int32_t pid, fd;
	uint8_t reserved[48];
};

_Static_assert(sizeof(struct ipc_event) == sizeof(CUipcEventHandle), "an IPC handle has 64 bytes");

static const char event_magic[8] = "metesev";

CUresult cuIpcGetEventHandle(CUipcEventHandle *ret_handle, CUevent event)
{
	struct ipc_event handle = {.pid = getpid()};
	struct CUctx_st *context;
	CUresult r = context_current(&context);

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_handle)
		return CUDA_ERROR_INVALID_VALUE;
	if (!handle_is(HANDLE_EVENT, event) || !event->share)
		return CUDA_ERROR_INVALID_HANDLE;
	memcpy(handle.magic, event_magic, sizeof(event_magic));
	handle.fd = event_share_fd(event->share);
	memcpy(ret_handle, &handle, sizeof(handle));
	return CUDA_SUCCESS;
}

CUresult cuIpcOpenEventHandle(CUevent *ret_event, CUipcEventHandle opaque)
{
	struct ipc_event handle;
	struct event_share *share;
	struct CUctx_st *context;
	CUresult r = context_current(&context);

	if (r != CUDA_SUCCESS)
		return r;
	memcpy(&handle, &opaque, sizeof(handle));
	if (!ret_event || memcmp(handle.magic, event_magic, sizeof(event_magic)) != 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (handle.pid == getpid())
		return CUDA_ERROR_INVALID_CONTEXT; /* the event is this process's own */
	share = event_share_open(handle.pid, handle.fd);
	if (!share)
		return CUDA_ERROR_MAP_FAILED;
	r = event_new(context, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING, share, ret_event);
	if (r != CUDA_SUCCESS)
		event_share_unref(share);
	return r;
}
