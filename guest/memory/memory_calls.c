/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rarer calls that allocate: of old versions, managed memory, rows with a pitch. The usual one
 * is in guest/memory/memory.c, freeing in guest/memory/memory_free.c.
 */
#include "guest/contexts/memory_place.h"
#include "guest/credit/blocks.h"
#include "guest/credit/memory_types.h"
#include "guest/driver/nested.h"
#include "guest/driver/real.h"
#include "guest/hooks.h"
#include "guest/memory/memory.h"
#include "guest/movable/movable.h"
#include "guest/process/changes.h"

CUresult memory_request(struct memory_request *q)
{
	struct memory_place place;
	CUresult r = memory_begin(&place, q->nested);

	if (unlikely(r != CUDA_SUCCESS))
		return r;
	if (unlikely(!place.tracked || q->bytes == 0 || !q->place))
		return driver_call(q->call(q));
	changes_begin();
	r = memory_allocate(&place, q);
	changes_end();
	return r;
}

static CUresult call_alloc_v1(struct memory_request *q)
{
	CUresult r = real(cuMemAlloc)(q->place, (unsigned)q->bytes);

	if (r == CUDA_SUCCESS && q->place)
		q->address = *(CUdeviceptr_v1 *)q->place;
	return r;
}

static CUresult call_managed(struct memory_request *q)
{
	CUresult r = real(cuMemAllocManaged)(q->place, q->bytes, q->flags);

	movable_why(WIRE_UNMOVABLE_MANAGED);
	if (r == CUDA_SUCCESS && q->place)
		q->address = *(CUdeviceptr *)q->place;
	return r;
}

static CUresult call_pitch(struct memory_request *q)
{
	CUresult r = real(cuMemAllocPitch_v2)(q->place, q->pitch, q->width, q->height, q->element);

	if (r == CUDA_SUCCESS && q->place && q->pitch) {
		q->address = *(CUdeviceptr *)q->place;
		q->bytes = *(size_t *)q->pitch * q->height;
	}
	return r;
}

static CUresult call_pitch_v1(struct memory_request *q)
{
	CUresult r = real(cuMemAllocPitch)(q->place, q->pitch, (unsigned)q->width,
					   (unsigned)q->height, q->element);

	if (r == CUDA_SUCCESS && q->place && q->pitch) {
		q->address = *(CUdeviceptr_v1 *)q->place;
		q->bytes = (uint64_t)(*(unsigned *)q->pitch) * q->height;
	}
	return r;
}

/* Bytes of rows, each of whole units; UINT64_MAX if that overflows. */
static uint64_t pitched_bytes(uint64_t width, uint64_t height)
{
	uint64_t row, bytes;

	if (width > UINT64_MAX - BLOCKS_UNIT)
		return UINT64_MAX;
	row = (width + BLOCKS_UNIT - 1) & ~(BLOCKS_UNIT - 1);
	return __builtin_mul_overflow(row, height, &bytes) ? UINT64_MAX : bytes;
}

CUresult hook_cuMemAlloc(CUdeviceptr_v1 *dptr, unsigned int bytesize)
{
	struct memory_request q = {.call = call_alloc_v1,
				   .bytes = bytesize,
				   .shares = true,
				   .nested = driver_nested(),
				   .place = dptr};

	return memory_request(&q);
}

/* Managed memory may be larger than the device, and the driver may page it. It is charged whole, as
 * the driver may bring all of it to the device. */
CUresult hook_cuMemAllocManaged(CUdeviceptr_v2 *dptr, size_t bytesize, unsigned int flags)
{
	struct memory_request q = {.call = call_managed,
				   .bytes = bytesize,
				   .managed = true,
				   .nested = driver_nested(),
				   .place = dptr,
				   .flags = flags};

	return memory_request(&q);
}

/* For both versions, whose pointers have different widths. */
static CUresult allocate_pitch(CUresult (*call)(struct memory_request *request), bool nested,
			       void *place, void *pitch, size_t width, size_t height,
			       unsigned element)
{
	struct memory_request q = {
		.call = call,
		.bytes = pitch ? pitched_bytes(width, height) : 0,
		.shares = true,
		.movable = call == call_pitch,
		.nested = nested,
		.place = place,
		.pitch = pitch,
		.width = width,
		.height = height,
		.element = element,
	};

	return memory_request(&q);
}

CUresult hook_cuMemAllocPitch_v2(CUdeviceptr_v2 *dptr, size_t *pPitch, size_t WidthInBytes,
				 size_t Height, unsigned int ElementSizeBytes)
{
	return allocate_pitch(call_pitch, driver_nested(), dptr, pPitch, WidthInBytes, Height,
			      ElementSizeBytes);
}

CUresult hook_cuMemAllocPitch(CUdeviceptr_v1 *dptr, unsigned int *pPitch, unsigned int WidthInBytes,
			      unsigned int Height, unsigned int ElementSizeBytes)
{
	return allocate_pitch(call_pitch_v1, driver_nested(), dptr, pPitch, WidthInBytes, Height,
			      ElementSizeBytes);
}
