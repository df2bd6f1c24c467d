/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/context.h"
#include "sim/machine/device.h"
#include "sim/machine/engine.h"
#include "sim/cuda/execute.h"
#include "sim/cuda/memory.h"
#include "sim/cuda/space.h"

#define COPY_PIECE	(1u << 20) /* the space is held for reading for so many bytes at a time */
#define COPY_STAGE_MOST (1u << 20) /* for larger copies the call waits instead */

void copy_plain(struct copy_work *ret_copy, uint64_t to, bool to_host, uint64_t from,
		bool from_host, size_t bytes)
{
	*ret_copy = (struct copy_work){
		.to = {.address = to, .host = to_host},
		.from = {.address = from, .host = from_host},
		.width_bytes = bytes,
		.height = 1,
		.depth = 1,
	};
}

/* From the first byte to behind the last one. False if that does not fit 64 bits. */
static bool place_span(const struct copy_work *copy, const struct copy_place *place,
		       uint64_t *ret_bytes)
{
	uint64_t rows, slices, span;

	if (__builtin_mul_overflow(copy->height - 1, place->pitch_bytes, &rows) ||
	    __builtin_mul_overflow(copy->depth - 1, place->slice_bytes, &slices) ||
	    __builtin_add_overflow(rows, slices, &span) ||
	    __builtin_add_overflow(span, copy->width_bytes, &span) ||
	    place->address + span < place->address)
		return false;
	*ret_bytes = span;
	return true;
}

static bool copy_empty(const struct copy_work *copy)
{
	return !copy->width_bytes || !copy->height || !copy->depth;
}

/* Host memory that the driver does not know is accessed unchecked. */
static bool place_pageable(const struct copy_place *place)
{
	struct space_range range;

	return place->host && !space_in_window(place->address) &&
	       space_find(place->address, &range) < 0;
}

bool copy_is_pageable(const struct copy_work *copy)
{
	return place_pageable(&copy->to) || place_pageable(&copy->from);
}

CUresult copy_check(const struct copy_work *copy, bool captured)
{
	const struct copy_place *places[] = {&copy->to, &copy->from};

	if (copy_empty(copy))
		return CUDA_SUCCESS;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		const struct copy_place *place = places[i];
		uint64_t bytes;

		if (!place->address || !place_span(copy, place, &bytes))
			return CUDA_ERROR_INVALID_VALUE;
		if (place->host && !space_in_window(place->address))
			continue;
		if (!captured && !space_covers(place->address, bytes))
			return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

static uint64_t copy_bytes(const struct copy_work *copy)
{
	return (uint64_t)copy->width_bytes * copy->height * copy->depth;
}

CUresult copy_stage(struct copy_work *copy)
{
	char *staged;

	if (copy_empty(copy) || copy->staged || !place_pageable(&copy->from))
		return CUDA_SUCCESS;
	staged = malloc(copy_bytes(copy));
	if (!staged)
		return CUDA_ERROR_OUT_OF_MEMORY;
	copy->staged = staged;
	for (size_t z = 0; z < copy->depth; z++) {
		for (size_t y = 0; y < copy->height; y++) {
			uint64_t from = copy->from.address + y * copy->from.pitch_bytes +
					z * copy->from.slice_bytes;

			memcpy(staged, (const void *)(uintptr_t)from, copy->width_bytes);
			staged += copy->width_bytes;
		}
	}
	copy->from.address = (uint64_t)(uintptr_t)copy->staged;
	copy->from.pitch_bytes = copy->width_bytes;
	copy->from.slice_bytes = copy->width_bytes * copy->height;
	return CUDA_SUCCESS;
}

bool copy_is_synchronous(const struct copy_work *copy)
{
	if (copy_empty(copy))
		return false;
	if (place_pageable(&copy->to))
		return true;
	return place_pageable(&copy->from) && copy_bytes(copy) > COPY_STAGE_MOST;
}

CUresult copy_clone(const struct copy_work *copy, struct copy_work *ret_copy)
{
	*ret_copy = *copy;
	if (!copy->staged)
		return CUDA_SUCCESS;
	ret_copy->staged = malloc(copy_bytes(copy));
	if (!ret_copy->staged)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(ret_copy->staged, copy->staged, copy_bytes(copy));
	ret_copy->from.address = (uint64_t)(uintptr_t)ret_copy->staged;
	return CUDA_SUCCESS;
}

void copy_done(struct copy_work *copy)
{
	free(copy->staged);
	memset(copy, 0, sizeof(*copy));
}

/* ---- carrying it out ------------------------------------------------------------------------- */

/* The host address of a device address, for at most *bytes. The space is in use. */
static int place_follow(uint64_t address, bool host, bool write, size_t *bytes, char **ret_at)
{
	struct space_range range;
	uint64_t left;

	if (space_find(address, &range) < 0) {
		if (!host || space_in_window(address))
			return -ENOENT;
		*ret_at = (char *)(uintptr_t)address;
		return 0;
	}
	if (range.withheld || (!range.peers && !(write ? range.writable : range.readable)))
		return -EACCES;
	left = range.base + range.bytes - address;
	if (left < *bytes)
		*bytes = left;
	*ret_at = (char *)(uintptr_t)(address + range.delta);
	return 0;
}

/* Words are written whole, as a copy engine does: a thread may be polling one. */
static void bytes_move(char *to, const char *from, size_t n)
{
	uintptr_t both = (uintptr_t)to | (uintptr_t)from;

	if (n == 4 && both % 4 == 0)
		__atomic_store_n(
			(uint32_t *)(void *)to,
			__atomic_load_n((const uint32_t *)(const void *)from, __ATOMIC_RELAXED),
			__ATOMIC_RELEASE);
	else if (n == 8 && both % 8 == 0)
		__atomic_store_n(
			(uint64_t *)(void *)to,
			__atomic_load_n((const uint64_t *)(const void *)from, __ATOMIC_RELAXED),
			__ATOMIC_RELEASE);
	else
		memmove(to, from, n);
}

static CUresult row_execute(const struct copy_work *copy, uint64_t to, uint64_t from, size_t bytes)
{
	while (bytes) {
		size_t n = bytes < COPY_PIECE ? bytes : COPY_PIECE;
		char *to_at, *from_at;
		int r;

		space_use();
		r = place_follow(to, copy->to.host, true, &n, &to_at);
		if (r == 0)
			r = place_follow(from, copy->from.host, false, &n, &from_at);
		if (r == 0)
			bytes_move(to_at, from_at, n);
		space_unuse();
		if (r < 0)
			return CUDA_ERROR_ILLEGAL_ADDRESS;
		to += n;
		from += n;
		bytes -= n;
	}
	return CUDA_SUCCESS;
}

/* The device that memory lies on; -1 for the host. */
static int place_device(const struct copy_place *place)
{
	struct space_range range;

	if (!space_in_window(place->address) || space_find(place->address, &range) < 0)
		return -1;
	return range.device;
}

static CUresult copy_take_time(const struct copy_work *copy, struct CUctx_st *context,
			       uint64_t *time_ns)
{
	int to = place_device(&copy->to), from = place_device(&copy->from);
	int device = to >= 0 ? to : from;
	enum segment_lane lane = SEGMENT_DEVICE_TO_DEVICE;
	int r;

	if (to < 0 && from < 0)
		return CUDA_SUCCESS;
	if (from < 0)
		lane = SEGMENT_HOST_TO_DEVICE;
	else if (to < 0)
		lane = SEGMENT_DEVICE_TO_HOST;
	else if (to != from)
		lane = SEGMENT_PEER;
	(void)context;
	r = engine_copy(device, lane, copy_bytes(copy), *time_ns, time_ns);
	return r == 0 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

CUresult copy_execute(const struct copy_work *copy, struct CUctx_st *context, uint64_t *time_ns)
{
	if (copy_empty(copy))
		return CUDA_SUCCESS;
	for (size_t z = 0; z < copy->depth; z++) {
		for (size_t y = 0; y < copy->height; y++) {
			uint64_t to = copy->to.address + y * copy->to.pitch_bytes +
				      z * copy->to.slice_bytes;
			uint64_t from = copy->from.address + y * copy->from.pitch_bytes +
					z * copy->from.slice_bytes;
			CUresult r = row_execute(copy, to, from, copy->width_bytes);

			if (r != CUDA_SUCCESS)
				return r;
		}
	}
	return copy_take_time(copy, context, time_ns);
}

/* ---- sets ------------------------------------------------------------------------------------ */

CUresult set_check(const struct set_work *set, bool captured)
{
	uint64_t width, span;

	if (set->element_bytes != 1 && set->element_bytes != 2 && set->element_bytes != 4)
		return CUDA_ERROR_INVALID_VALUE;
	if (set->address % set->element_bytes || set->pitch_bytes % set->element_bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (!set->width_elements || !set->height)
		return CUDA_SUCCESS;
	if (__builtin_mul_overflow(set->width_elements, set->element_bytes, &width) ||
	    __builtin_mul_overflow(set->height - 1, set->pitch_bytes, &span) ||
	    __builtin_add_overflow(span, width, &span))
		return CUDA_ERROR_INVALID_VALUE;
	if (set->height > 1 && set->pitch_bytes < width)
		return CUDA_ERROR_INVALID_VALUE;
	return captured || space_covers(set->address, span) ? CUDA_SUCCESS
							    : CUDA_ERROR_INVALID_VALUE;
}

static void set_fill(char *at, size_t bytes, uint32_t value, uint32_t element_bytes)
{
	if (element_bytes == 4 && bytes == 4) {
		__atomic_store_n((uint32_t *)(void *)at, value, __ATOMIC_RELEASE);
	} else if (element_bytes == 1) {
		memset(at, (int)value, bytes);
	} else if (element_bytes == 2) {
		for (size_t i = 0; i < bytes / 2; i++)
			((uint16_t *)(void *)at)[i] = (uint16_t)value;
	} else {
		for (size_t i = 0; i < bytes / 4; i++)
			((uint32_t *)(void *)at)[i] = value;
	}
}

static CUresult set_row(const struct set_work *set, uint64_t address, size_t bytes)
{
	while (bytes) {
		size_t n = bytes < COPY_PIECE ? bytes : COPY_PIECE;
		char *at;
		int r;

		space_use();
		r = place_follow(address, false, true, &n, &at);
		if (r == 0)
			set_fill(at, n, set->value, set->element_bytes);
		space_unuse();
		if (r < 0)
			return CUDA_ERROR_ILLEGAL_ADDRESS;
		address += n;
		bytes -= n;
	}
	return CUDA_SUCCESS;
}

CUresult set_execute(const struct set_work *set, struct CUctx_st *context, uint64_t *time_ns)
{
	size_t bytes = set->width_elements * set->element_bytes;
	int r;

	if (!bytes || !set->height)
		return CUDA_SUCCESS;
	for (size_t y = 0; y < set->height; y++) {
		CUresult done = set_row(set, set->address + y * set->pitch_bytes, bytes);

		if (done != CUDA_SUCCESS)
			return done;
	}
	r = engine_work(context->device, SEGMENT_DEVICE_TO_DEVICE,
			device_bandwidth_ns(context->device, (uint64_t)bytes * set->height),
			*time_ns, time_ns);
	return r == 0 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}
