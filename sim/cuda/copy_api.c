/* SPDX-License-Identifier: Apache-2.0 */
/* Plain copies and sets: they become ops of a stream. */
#include <stdlib.h>
#include <string.h>

#include "cuda/prototypes.h"
#include "sim/cuda/copy_api.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/handle.h"
#include "sim/cuda/space.h"
#include "sim/cuda/stream.h"
#include "sim/cuda/stream_core.h"

static bool all_done(struct CUstream_st *stream)
{
	struct stream_mark mark;
	bool done;

	if (!stream)
		return true;
	stream_end(stream, &mark);
	done = !mark.stream;
	stream_mark_drop(&mark);
	return done;
}

/* Would work that is submitted now begin at once? */
static bool stream_is_idle(struct CUstream_st *stream)
{
	if (!all_done(stream) || stream_is_gated(stream->set))
		return false;
	return stream_is_apart(stream) ||
	       (all_done(stream_legacy(stream->set)) && !stream_blocking_pending(stream->set));
}

/* If a copy from pageable memory can begin at once, it is complete when the call returns: on a GPU,
 * too, another context's stream, which nothing orders after this one, finds the bytes. */
CUresult copy_submit(struct copy_work *copy, CUstream handle, bool wait)
{
	struct op op = {.kind = OP_COPY};
	struct CUstream_st *stream;
	CUresult r = stream_find(handle, &stream);

	if (r == CUDA_SUCCESS)
		r = copy_check(copy, stream_capturing(stream));
	if (r != CUDA_SUCCESS)
		goto failed;
	if (!stream_capturing(stream)) {
		wait = wait || copy_is_synchronous(copy);
		if (!wait)
			r = copy_stage(copy);
		wait = wait || (copy->staged && stream_is_idle(stream));
		if (r != CUDA_SUCCESS)
			goto failed;
	}
	op.copy = *copy;
	return wait ? stream_run(stream, &op) : stream_submit(stream, &op);
failed:
	copy_done(copy);
	return r;
}

enum copy_sides {
	COPY_ANY,
	COPY_HOST_TO_DEVICE,
	COPY_DEVICE_TO_HOST,
	COPY_DEVICE_TO_DEVICE,
};

static CUresult copy_linear(uint64_t to, uint64_t from, size_t bytes, enum copy_sides sides,
			    CUstream stream, bool wait)
{
	struct copy_work copy;

	copy_plain(&copy, to, sides == COPY_ANY || sides == COPY_DEVICE_TO_HOST, from,
		   sides == COPY_ANY || sides == COPY_HOST_TO_DEVICE, bytes);
	return copy_submit(&copy, stream, wait);
}

static uint64_t host(const void *pointer)
{
	return (uint64_t)(uintptr_t)pointer;
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	return copy_linear(to, from, bytes, COPY_ANY, NULL, true);
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	return copy_linear(to, from, bytes, COPY_ANY, stream, false);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
	return copy_linear(to, host(from), bytes, COPY_HOST_TO_DEVICE, NULL, true);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
	return copy_linear(to, host(from), bytes, COPY_HOST_TO_DEVICE, stream, false);
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
	return copy_linear(host(to), from, bytes, COPY_DEVICE_TO_HOST, NULL, true);
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	return copy_linear(host(to), from, bytes, COPY_DEVICE_TO_HOST, stream, false);
}

/* Within the device the host is not waited for, as on a GPU. */
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	return copy_linear(to, from, bytes, COPY_DEVICE_TO_DEVICE, NULL, false);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	return copy_linear(to, from, bytes, COPY_DEVICE_TO_DEVICE, stream, false);
}

static CUresult peers_check(CUcontext to, CUcontext from)
{
	CUresult r = driver_ready();

	if (r != CUDA_SUCCESS)
		return r;
	return handle_is(HANDLE_CONTEXT, to) && handle_is(HANDLE_CONTEXT, from)
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
		      CUcontext from_context, size_t bytes)
{
	CUresult r = peers_check(to_context, from_context);

	return r == CUDA_SUCCESS ? copy_linear(to, from, bytes, COPY_DEVICE_TO_DEVICE, NULL, true)
				 : r;
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
			   CUcontext from_context, size_t bytes, CUstream stream)
{
	CUresult r = peers_check(to_context, from_context);

	return r == CUDA_SUCCESS
		       ? copy_linear(to, from, bytes, COPY_DEVICE_TO_DEVICE, stream, false)
		       : r;
}

/* Copies before the first that fails are submitted, as the driver documents. */
static CUresult copy_batch(CUdeviceptr *to, CUdeviceptr *from, size_t *bytes, size_t count,
			   size_t *ret_failed, CUstream stream)
{
	if (ret_failed)
		*ret_failed = SIZE_MAX;
	if (!to || !from || !bytes || !count || !stream || stream == CU_STREAM_LEGACY)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++) {
		CUresult r =
			bytes[i] ? copy_linear(to[i], from[i], bytes[i], COPY_ANY, stream, false)
				 : CUDA_ERROR_INVALID_VALUE;

		if (r != CUDA_SUCCESS) {
			if (ret_failed)
				*ret_failed = i;
			return r;
		}
	}
	return CUDA_SUCCESS;
}

CUresult cuMemcpyBatchAsync(CUdeviceptr *to, CUdeviceptr *from, size_t *bytes, size_t count,
			    CUmemcpyAttributes *attributes, size_t *attribute_index,
			    size_t n_attributes, size_t *ret_failed, CUstream stream)
{
	if (!attributes || !attribute_index || !n_attributes || n_attributes > count)
		return CUDA_ERROR_INVALID_VALUE;
	return copy_batch(to, from, bytes, count, ret_failed, stream);
}

CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *to, CUdeviceptr *from, size_t *bytes, size_t count,
			       CUmemcpyAttributes *attributes, size_t *attribute_index,
			       size_t n_attributes, CUstream stream)
{
	return cuMemcpyBatchAsync(to, from, bytes, count, attributes, attribute_index, n_attributes,
				  NULL, stream);
}

/* ---- sets ------------------------------------------------------------------------------------ */

/* Sets do not wait, except those of pinned host memory, which the program may read at once. */
static bool set_is_synchronous(uint64_t address)
{
	struct space_range range;

	return space_find(address, &range) == 0 &&
	       (range.kind == SPACE_PINNED || range.kind == SPACE_REGISTERED);
}

static CUresult set_submit(uint64_t address, size_t pitch, uint32_t value, uint32_t element_bytes,
			   size_t width, size_t height, CUstream handle, bool async)
{
	struct op op = {.kind = OP_SET};
	struct CUstream_st *stream;
	CUresult r = stream_find(handle, &stream);

	op.set = (struct set_work){
		.address = address,
		.pitch_bytes = height == 1 ? 0 : pitch,
		.width_elements = width,
		.height = height,
		.value = value,
		.element_bytes = element_bytes,
	};
	if (r == CUDA_SUCCESS)
		r = set_check(&op.set, stream_capturing(stream));
	if (r != CUDA_SUCCESS)
		return r;
	if (!async && set_is_synchronous(address))
		return stream_run(stream, &op);
	return stream_submit(stream, &op);
}

#define SET(name, type, bytes)                                                                     \
	CUresult cuMemset##name##_v2(CUdeviceptr address, type value, size_t n)                    \
	{                                                                                          \
		return set_submit(address, 0, value, bytes, n, 1, NULL, false);                    \
	}                                                                                          \
	CUresult cuMemset##name##Async(CUdeviceptr address, type value, size_t n, CUstream stream) \
	{                                                                                          \
		return set_submit(address, 0, value, bytes, n, 1, stream, true);                   \
	}
#define SET_ROWS(name, type, bytes)                                                                \
	CUresult cuMemset##name##_v2(CUdeviceptr address, size_t pitch, type value, size_t width,  \
				     size_t height)                                                \
	{                                                                                          \
		return set_submit(address, pitch, value, bytes, width, height, NULL, false);       \
	}                                                                                          \
	CUresult cuMemset##name##Async(CUdeviceptr address, size_t pitch, type value,              \
				       size_t width, size_t height, CUstream stream)               \
	{                                                                                          \
		return set_submit(address, pitch, value, bytes, width, height, stream, true);      \
	}

SET(D8, unsigned char, 1)
SET(D16, unsigned short, 2)
SET(D32, unsigned int, 4)
SET_ROWS(D2D8, unsigned char, 1)
SET_ROWS(D2D16, unsigned short, 2)
SET_ROWS(D2D32, unsigned int, 4)
