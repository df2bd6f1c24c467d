/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's functions that describe an address. */
#include <stdlib.h>
#include <string.h>

#include "cuda/prototypes.h"
#include "sim/cuda/context.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/space.h"

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr address)
{
	struct CUctx_st *context;
	struct space_range range;
	CUresult r = context_current(&context);

	if (r != CUDA_SUCCESS)
		return r;
	if (space_find(address, &range) < 0)
		return CUDA_ERROR_NOT_FOUND;
	if (base)
		*base = range.base;
	if (bytes)
		*bytes = space_asked(&range);
	return CUDA_SUCCESS;
}

static bool on_host(const struct space_range *range)
{
	return range->kind == SPACE_PINNED || range->kind == SPACE_REGISTERED;
}

/* The form of an attribute's answer in memory. */
union answer {
	int32_t number;
	uint64_t wide;
};

static const size_t answer_bytes[] = {
#define ANSWER(attribute, type, value, known) [CU_POINTER_ATTRIBUTE_##attribute] = sizeof(type),
#include "sim/cuda/pointer_answers.def"
#undef ANSWER
};

static size_t answer_size(CUpointer_attribute attribute)
{
	return (unsigned)attribute < ARRAY_SIZE(answer_bytes) ? answer_bytes[attribute] : 0;
}

static uint32_t access_flags(const struct space_range *range)
{
	if (range->peers || range->writable)
		return CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
	return range->readable ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ
			       : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
}

static bool answer(CUpointer_attribute attribute, const struct space_range *range, uint64_t address,
		   union answer *ret)
{
	*ret = (union answer){.wide = 0};
	switch ((int)attribute) {
#define ANSWER(attribute, type, value, known)                                                      \
	case CU_POINTER_ATTRIBUTE_##attribute: {                                                   \
		type is = (value);                                                                 \
                                                                                                   \
		memcpy(ret, &is, sizeof(is));                                                      \
		return known;                                                                      \
	}
#include "sim/cuda/pointer_answers.def"
#undef ANSWER
	default:
		return false;
	}
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr address)
{
	struct space_range range;
	union answer value;
	CUresult r = driver_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (!data || !answer_size(attribute) || space_find(address, &range) < 0 ||
	    !answer(attribute, &range, address, &value))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(data, &value, answer_size(attribute));
	return CUDA_SUCCESS;
}

/* Unknown addresses are no error here: they get zeroes. */
CUresult cuPointerGetAttributes(unsigned n, CUpointer_attribute *attributes, void **data,
				CUdeviceptr address)
{
	struct space_range range;
	CUresult r = driver_ready();
	bool known;

	if (r != CUDA_SUCCESS)
		return r;
	if (!n || !attributes || !data)
		return CUDA_ERROR_INVALID_VALUE;
	known = space_find(address, &range) == 0;
	for (unsigned i = 0; i < n; i++) {
		union answer value = {.wide = 0};

		if (!answer_size(attributes[i]) || !data[i])
			return CUDA_ERROR_INVALID_VALUE;
		if (!known || !answer(attributes[i], &range, address, &value))
			value.wide = 0;
		if (!known && attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
			value.number = CU_DEVICE_INVALID;
		memcpy(data[i], &value, answer_size(attributes[i]));
	}
	return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
			       CUdeviceptr address)
{
	struct space_range range;
	CUresult r = driver_ready();

	if (r != CUDA_SUCCESS)
		return r;
	/* Copies of the simulator are as synchronous as this attribute could make them. */
	if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS ||
	    space_find(address, &range) < 0 || on_host(&range))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}
