/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/graph_memory.h"

#include <pthread.h>
#include <string.h>

#include "base/list.h"
#include "cuda/prototypes.h"
#include "sim/cuda/context.h"
#include "sim/machine/device.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/space.h"

struct allocation {
	struct list link;
	CUdeviceptr address;
	size_t bytes; /* of whole blocks */
	size_t asked;
	int device;
	unsigned refs;
	unsigned pending; /* launches that have claimed it and have not reached its node */
	bool backed;	  /* counted in the device's book */
	bool claimed;	  /* a launch has allocated it, as the program sees it */
	bool mapped;	  /* likewise, as the device sees it */
};

struct sums {
	uint64_t used, used_high, reserved, reserved_high;
	uint64_t left; /* the part of `reserved` that former allocations have left */
};

static struct {
	pthread_mutex_t lock;
	struct list all;
	struct sums sums[SETTINGS_DEVICES_MAX];
} memory = {.lock = PTHREAD_MUTEX_INITIALIZER, .all = {.next = &memory.all, .prev = &memory.all}};

static void grow(uint64_t *sum, uint64_t *high, uint64_t bytes)
{
	*sum += bytes;
	if (*high < *sum)
		*high = *sum;
}

/* ---- under the lock ------------------------------------------------------------------------ */

static struct allocation *find(CUdeviceptr address)
{
	list_for_each(link, &memory.all)
	{
		struct allocation *allocation = list_entry(link, struct allocation, link);

		if (allocation->address == address)
			return allocation;
	}
	return NULL;
}

/* Memory that former allocations have left is taken first. */
static CUresult reserve(int device, size_t bytes)
{
	struct sums *sums = &memory.sums[device];
	uint64_t again = bytes < sums->left ? bytes : sums->left;
	int result = bytes > again ? device_take(device, bytes - again) : 0;

	if (result)
		return result == DEVICE_LOST ? CUDA_ERROR_DEVICE_UNAVAILABLE
					     : CUDA_ERROR_OUT_OF_MEMORY;
	sums->left -= again;
	grow(&sums->reserved, &sums->reserved_high, bytes - again);
	return CUDA_SUCCESS;
}

static void give_left(int device)
{
	struct sums *sums = &memory.sums[device];

	if (!sums->left)
		return;
	device_give(device, sums->left);
	sums->reserved -= sums->left;
	sums->left = 0;
}

/* In the space's table from here on, so that calls with the address are accepted. Work that runs
 * before the allocation's node cannot access it. */
static CUresult back(struct allocation *allocation, struct CUctx_st *context)
{
	struct space_range range = {
		.base = allocation->address,
		.bytes = allocation->bytes,
		.asked = allocation->asked,
		.kind = SPACE_POOL,
		.device = allocation->device,
		.withheld = true,
		.readable = 1ull << allocation->device,
		.writable = 1ull << allocation->device,
		.origin = context->id,
		.context = context,
	};
	CUresult result;

	if (allocation->backed)
		return CUDA_SUCCESS;
	result = reserve(allocation->device, allocation->bytes);
	if (result != CUDA_SUCCESS)
		return result;
	range.delta = (uint64_t)(uintptr_t)space_shadow(range.base) - range.base;
	if (space_back(allocation->address, allocation->bytes) < 0) {
		memory.sums[allocation->device].left += allocation->bytes;
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (space_add(&range) < 0) {
		space_unback(allocation->address, allocation->bytes);
		memory.sums[allocation->device].left += allocation->bytes;
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	allocation->backed = true;
	return CUDA_SUCCESS;
}

/* The memory stays reserved. */
static void unback(struct allocation *allocation)
{
	struct space_range range;

	if (!allocation->backed)
		return;
	best_effort(space_remove(allocation->address, &range));
	space_unback(allocation->address, allocation->bytes);
	memory.sums[allocation->device].left += allocation->bytes;
	allocation->backed = false;
}

/* No op has the address any more, and it has no memory. */
static void drop_unused(struct allocation *allocation)
{
	if (allocation->refs || allocation->claimed || allocation->mapped)
		return;
	unback(allocation);
	space_release(allocation->address, allocation->bytes);
	list_remove(&allocation->link);
	free(allocation);
}

/* ---- nodes --------------------------------------------------------------------------------- */

CUresult graph_memory_describe(CUDA_MEM_ALLOC_NODE_PARAMS *params, struct op *ret_op)
{
	const CUmemPoolProps *props = &params->poolProps;
	struct allocation *made;
	uint64_t base;

	if (!params->bytesize || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    props->location.type != CU_MEM_LOCATION_TYPE_DEVICE || props->location.id < 0 ||
	    props->location.id >= device_count())
		return CUDA_ERROR_INVALID_VALUE;
	made = calloc(1, sizeof(*made));
	if (!made)
		return CUDA_ERROR_OUT_OF_MEMORY;
	made->bytes = (params->bytesize + SPACE_BLOCK - 1) / SPACE_BLOCK * SPACE_BLOCK;
	made->asked = params->bytesize;
	made->device = props->location.id;
	made->refs = 1;
	if (made->bytes < params->bytesize ||
	    space_reserve(made->bytes, SPACE_BLOCK, 0, &base) < 0) {
		free(made);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	made->address = params->dptr = base;
	pthread_mutex_lock(&memory.lock);
	list_append(&memory.all, &made->link);
	pthread_mutex_unlock(&memory.lock);
	*ret_op = (struct op){.kind = OP_ALLOC,
			      .alloc = {.address = base, .size_bytes = params->bytesize}};
	return CUDA_SUCCESS;
}

void graph_memory_ref(CUdeviceptr address)
{
	struct allocation *allocation;

	pthread_mutex_lock(&memory.lock);
	allocation = find(address);
	if (allocation)
		allocation->refs++;
	pthread_mutex_unlock(&memory.lock);
}

void graph_memory_unref(CUdeviceptr address)
{
	struct allocation *allocation;

	pthread_mutex_lock(&memory.lock);
	allocation = find(address);
	if (allocation) {
		allocation->refs--;
		drop_unused(allocation);
	}
	pthread_mutex_unlock(&memory.lock);
}

/* ---- launches ------------------------------------------------------------------------------ */

CUresult graph_memory_claim(CUdeviceptr address, struct CUctx_st *context, bool again)
{
	struct allocation *allocation;
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	pthread_mutex_lock(&memory.lock);
	allocation = find(address);
	if (allocation && (!allocation->claimed || again))
		result = back(allocation, context);
	if (result == CUDA_SUCCESS) {
		allocation->claimed = true;
		allocation->pending++;
	}
	pthread_mutex_unlock(&memory.lock);
	return result;
}

void graph_memory_unclaim(CUdeviceptr address)
{
	struct allocation *allocation;

	pthread_mutex_lock(&memory.lock);
	allocation = find(address);
	if (allocation && allocation->pending && !--allocation->pending && !allocation->mapped)
		allocation->claimed = false;
	pthread_mutex_unlock(&memory.lock);
}

void graph_memory_disclaim(CUdeviceptr address)
{
	struct allocation *allocation;

	pthread_mutex_lock(&memory.lock);
	allocation = find(address);
	if (allocation)
		allocation->claimed = false;
	pthread_mutex_unlock(&memory.lock);
}

bool graph_memory_owns(CUdeviceptr address)
{
	struct allocation *allocation;
	bool owns;

	pthread_mutex_lock(&memory.lock);
	allocation = find(address);
	owns = allocation && allocation->claimed;
	pthread_mutex_unlock(&memory.lock);
	return owns;
}

bool graph_memory_covers(CUdeviceptr address, size_t bytes)
{
	bool covers = false;

	pthread_mutex_lock(&memory.lock);
	list_for_each(link, &memory.all)
	{
		const struct allocation *allocation = list_entry(link, struct allocation, link);

		covers = address >= allocation->address &&
			 address - allocation->address <= allocation->bytes &&
			 bytes <= allocation->bytes - (address - allocation->address);
		if (covers)
			break;
	}
	pthread_mutex_unlock(&memory.lock);
	return covers;
}

static CUresult expose(const struct allocation *allocation, bool on)
{
	struct space_range range;

	if (space_find(allocation->address, &range) < 0)
		return CUDA_ERROR_UNKNOWN;
	range.withheld = !on;
	return space_change(&range) < 0 ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult map(struct allocation *allocation)
{
	struct sums *sums = &memory.sums[allocation->device];
	CUresult result;

	if (!allocation->backed)
		return CUDA_ERROR_INVALID_VALUE; /* a launch claims before it is queued */
	if (allocation->mapped)
		return CUDA_SUCCESS;
	space_pattern(space_shadow(allocation->address), allocation->bytes);
	result = expose(allocation, true);
	if (result != CUDA_SUCCESS)
		return result;
	allocation->mapped = true;
	grow(&sums->used, &sums->used_high, allocation->bytes);
	return CUDA_SUCCESS;
}

static CUresult unmap(struct allocation *allocation)
{
	CUresult result;

	if (!allocation->mapped)
		return CUDA_ERROR_INVALID_VALUE;
	result = expose(allocation, false);
	if (result != CUDA_SUCCESS)
		return result;
	allocation->mapped = false;
	memory.sums[allocation->device].used -= allocation->bytes;
	drop_unused(allocation);
	return CUDA_SUCCESS;
}

CUresult graph_memory_run(const struct op *op)
{
	struct allocation *allocation;
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	pthread_mutex_lock(&memory.lock);
	allocation = find(op->alloc.address);
	if (allocation && op->kind == OP_ALLOC) {
		if (allocation->pending)
			allocation->pending--;
		result = map(allocation);
	}
	if (allocation && op->kind != OP_ALLOC)
		result = unmap(allocation);
	pthread_mutex_unlock(&memory.lock);
	return result;
}

CUresult graph_memory_free_now(CUdeviceptr address)
{
	struct op op = {.kind = OP_FREE, .alloc.address = address};
	CUresult result;

	graph_memory_ref(address);
	result = graph_memory_run(&op);
	graph_memory_disclaim(address);
	op_done(&op);
	return result;
}

/* ---- the driver's functions ---------------------------------------------------------------- */

exported CUresult cuDeviceGraphMemTrim(CUdevice device)
{
	CUresult result = driver_device(device);

	if (result != CUDA_SUCCESS)
		return result;
	pthread_mutex_lock(&memory.lock);
	list_for_each(link, &memory.all)
	{
		struct allocation *allocation = list_entry(link, struct allocation, link);

		/* A launch that also frees it has released its claim when it was queued. */
		if (allocation->device == device && !allocation->claimed && !allocation->mapped &&
		    !allocation->pending)
			unback(allocation);
	}
	give_left(device);
	pthread_mutex_unlock(&memory.lock);
	return CUDA_SUCCESS;
}

exported CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr,
					       void *value)
{
	CUresult result = driver_device(device);
	struct sums sums;
	uint64_t answer;

	if (result != CUDA_SUCCESS)
		return result;
	if (!value || attr > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&memory.lock);
	sums = memory.sums[device];
	pthread_mutex_unlock(&memory.lock);
	answer = attr == CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT	  ? sums.used
		 : attr == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH	  ? sums.used_high
		 : attr == CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT ? sums.reserved
								  : sums.reserved_high;
	memcpy(value, &answer, sizeof(answer));
	return CUDA_SUCCESS;
}

/* Only the high-water marks can be set, and only to zero, which means "to the current amount". */
exported CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr,
					       void *value)
{
	CUresult result = driver_device(device);
	uint64_t wanted;

	if (result != CUDA_SUCCESS)
		return result;
	if (!value || (attr != CU_GRAPH_MEM_ATTR_USED_MEM_HIGH &&
		       attr != CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&wanted, value, sizeof(wanted));
	if (wanted)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&memory.lock);
	if (attr == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
		memory.sums[device].used_high = memory.sums[device].used;
	else
		memory.sums[device].reserved_high = memory.sums[device].reserved;
	pthread_mutex_unlock(&memory.lock);
	return CUDA_SUCCESS;
}
