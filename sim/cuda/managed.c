/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/managed.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "cuda/prototypes.h"
#include "sim/machine/clock.h"
#include "sim/machine/device.h"
#include "sim/cuda/driver.h"
#include "sim/machine/engine.h"
#include "sim/cuda/stream.h"

struct page {
	uint64_t used; /* when a kernel last used it; in managed.now */
	int device;    /* where it is resident, or -1: on the host */
};

struct managed_area {
	struct list link;
	uint64_t base, bytes;
	struct managed_hints hints;
	size_t n_pages;
	struct page pages[];
};

static struct {
	pthread_mutex_t lock;
	struct list areas;
	uint64_t now;
	uint64_t resident[SETTINGS_DEVICES_MAX]; /* pages */
} managed = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- pages; the lock is held ----------------------------------------------------------------- */

static struct page *page_oldest(int device)
{
	struct page *oldest = NULL;

	list_for_each(link, &managed.areas)
	{
		struct managed_area *area = list_entry(link, struct managed_area, link);

		for (size_t i = 0; i < area->n_pages; i++)
			if (area->pages[i].device == device &&
			    (!oldest || area->pages[i].used < oldest->used))
				oldest = &area->pages[i];
	}
	return oldest;
}

/* So many bytes have left the device's book: the pages that were used longest ago are no longer
 * resident. */
static void pages_forget(int device, uint64_t bytes)
{
	for (; bytes >= SPACE_BLOCK; bytes -= SPACE_BLOCK) {
		struct page *page = page_oldest(device);

		if (!page)
			return;
		page->device = -1;
		managed.resident[device]--;
	}
}

static void page_leave(struct page *page)
{
	if (page->device < 0)
		return;
	device_give_managed(page->device, SPACE_BLOCK);
	managed.resident[page->device]--;
	page->device = -1;
}

/* False if the device has no room for it even without all other managed memory. */
static bool page_come(struct page *page, int device)
{
	uint64_t own = 0;

	page_leave(page);
	if (device_take_managed(device, SPACE_BLOCK, &own) != 0)
		return false;
	pages_forget(device, own);
	page->device = device;
	managed.resident[device]++;
	return true;
}

void managed_touch(int device)
{
	bool any;

	pthread_mutex_lock(&managed.lock);
	any = managed.resident[device] != 0;
	if (any)
		pages_forget(device, device_pushed_out(device));
	pthread_mutex_unlock(&managed.lock);
	if (any)
		device_touch_managed(device);
}

uint64_t managed_fault(struct space_range *range, uint64_t address, int device)
{
	struct managed_area *area = range->owner;
	uint64_t begin, end, cost_ns = 0;
	struct page *page;

	pthread_mutex_lock(&managed.lock);
	page = &area->pages[(address - area->base) / SPACE_BLOCK];
	page->used = ++managed.now;
	if (page->device != device) {
		best_effort(page_come(page, device));
		cost_ns = device_fault_ns(SPACE_BLOCK);
	}
	pthread_mutex_unlock(&managed.lock);
	begin = area->base + (address - area->base) / SPACE_BLOCK * SPACE_BLOCK;
	end = range->base + range->bytes;
	range->base = begin;
	range->bytes = end - begin < SPACE_BLOCK ? end - begin : SPACE_BLOCK;
	return cost_ns;
}

/* ---- areas ----------------------------------------------------------------------------------- */

static struct managed_area *area_new(size_t bytes)
{
	size_t n = (bytes + SPACE_BLOCK - 1) / SPACE_BLOCK;
	struct managed_area *area = calloc(1, sizeof(*area) + n * sizeof(area->pages[0]));
	void *memory;

	if (!area)
		return NULL;
	memory = space_host_new(bytes);
	if (!memory) {
		free(area);
		return NULL;
	}
	area->base = (uint64_t)(uintptr_t)memory;
	area->bytes = bytes;
	area->n_pages = n;
	for (size_t i = 0; i < n; i++)
		area->pages[i].device = -1;
	return area;
}

static void area_free(struct managed_area *area)
{
	space_host_free((void *)(uintptr_t)area->base, area->bytes);
	managed_hints_free(&area->hints);
	free(area);
}

CUresult managed_take(struct CUctx_st *context, size_t bytes, unsigned flags,
		      struct space_range *ret_range)
{
	struct space_range range = {
		.bytes = bytes,
		.kind = SPACE_MANAGED,
		.device = context->device,
		.flags = flags,
		.context = context,
		.origin = context->id,
		.readable = SPACE_DEVICE_ALL,
		.writable = SPACE_DEVICE_ALL,
	};
	struct managed_area *area = bytes < SIZE_MAX / 2 ? area_new(bytes) : NULL;

	if (!area)
		return CUDA_ERROR_OUT_OF_MEMORY;
	range.base = area->base;
	range.owner = area;
	pthread_mutex_lock(&managed.lock);
	if (!managed.areas.next)
		list_init(&managed.areas);
	list_append(&managed.areas, &area->link);
	pthread_mutex_unlock(&managed.lock);
	if (space_add(&range) < 0) {
		pthread_mutex_lock(&managed.lock);
		list_remove(&area->link);
		pthread_mutex_unlock(&managed.lock);
		area_free(area);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret_range = range;
	return CUDA_SUCCESS;
}

void managed_give(uint64_t base)
{
	struct managed_area *area;
	struct space_range range;

	if (space_remove(base, &range) < 0)
		return;
	area = range.owner;
	pthread_mutex_lock(&managed.lock);
	for (size_t i = 0; i < area->n_pages; i++)
		page_leave(&area->pages[i]);
	list_remove(&area->link);
	pthread_mutex_unlock(&managed.lock);
	area_free(area);
}

CUresult cuMemAllocManaged(CUdeviceptr *address, size_t bytes, unsigned flags)
{
	struct CUctx_st *context;
	struct space_range range;
	CUresult r = context_current(&context);

	if (r == CUDA_SUCCESS)
		r = stream_capture_check();
	if (r != CUDA_SUCCESS)
		return r;
	if (!address || bytes == 0 ||
	    (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
		return CUDA_ERROR_INVALID_VALUE;
	r = managed_take(context, bytes, flags, &range);
	if (r == CUDA_SUCCESS)
		*address = range.base;
	return r;
}

/* ---- hints ----------------------------------------------------------------------------------- */

static struct managed_area *area_around(uint64_t address, size_t bytes)
{
	struct space_range range;

	if (!bytes || space_find(address, &range) < 0 || range.kind != SPACE_MANAGED ||
	    bytes > range.base + range.bytes - address)
		return NULL;
	return range.owner;
}

CUresult managed_check(uint64_t address, size_t bytes)
{
	struct CUctx_st *context;
	CUresult r = context_current(&context);

	if (r != CUDA_SUCCESS)
		return r;
	return area_around(address, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult managed_hints_change(uint64_t address, size_t bytes,
			      void (*change)(struct managed_hint *hint, const void *what),
			      const void *what)
{
	struct managed_hint *hints;
	struct managed_area *area;
	CUresult r = CUDA_ERROR_INVALID_VALUE;
	size_t n = 0;

	pthread_mutex_lock(&managed.lock);
	area = area_around(address, bytes);
	if (area)
		r = managed_hints_span(&area->hints, area->bytes, address - area->base,
				       address - area->base + bytes, &hints, &n) < 0
			    ? CUDA_ERROR_OUT_OF_MEMORY
			    : CUDA_SUCCESS;
	for (size_t i = 0; r == CUDA_SUCCESS && i < n; i++)
		change(&hints[i], what);
	pthread_mutex_unlock(&managed.lock);
	return r;
}

CUresult managed_hint_common(uint64_t address, size_t bytes, struct managed_hint *ret_hint)
{
	struct managed_area *area;

	pthread_mutex_lock(&managed.lock);
	area = area_around(address, bytes);
	if (area)
		*ret_hint = managed_hints_common(&area->hints, address - area->base,
						 address - area->base + bytes);
	pthread_mutex_unlock(&managed.lock);
	return area ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* A prefetch, executed by its stream: whole pages move at the link's rate, without faults. */
struct prefetch {
	uint64_t address, bytes;
	int device; /* or CU_DEVICE_CPU */
};

/* Moves the pages of the area; returns how many bytes moved in all. */
static uint64_t prefetch_pages(const struct prefetch *prefetch, int *ret_from)
{
	uint64_t moved = 0, last = prefetch->address + prefetch->bytes - 1;
	struct managed_area *area;
	struct space_range range;

	if (space_find(prefetch->address, &range) < 0 || range.kind != SPACE_MANAGED)
		return 0;
	area = range.owner;
	pthread_mutex_lock(&managed.lock);
	for (uint64_t i = (prefetch->address - area->base) / SPACE_BLOCK;
	     i <= (last - area->base) / SPACE_BLOCK && i < area->n_pages; i++) {
		struct page *page = &area->pages[i];

		if (page->device == prefetch->device || (prefetch->device < 0 && page->device < 0))
			continue;
		if (page->device >= 0)
			*ret_from = page->device;
		if (prefetch->device < 0)
			page_leave(page);
		else if (!page_come(page, prefetch->device))
			break; /* pages that do not fit stay where they are, as on a GPU */
		page->used = ++managed.now;
		moved += SPACE_BLOCK;
	}
	pthread_mutex_unlock(&managed.lock);
	return moved;
}

static CUresult prefetch_run(struct CUctx_st *context, void *data)
{
	const struct prefetch *prefetch = data;
	int from = context->device;
	uint64_t bytes, end_ns;

	space_use(); /* the area stays */
	bytes = prefetch_pages(prefetch, &from);
	space_unuse();
	if (!bytes)
		return CUDA_SUCCESS;
	if (prefetch->device < 0)
		return engine_copy(from, SEGMENT_DEVICE_TO_HOST, bytes, clock_now_ns(), &end_ns) ==
				       0
			       ? CUDA_SUCCESS
			       : CUDA_ERROR_UNKNOWN;
	return engine_copy(prefetch->device, SEGMENT_HOST_TO_DEVICE, bytes, clock_now_ns(),
			   &end_ns) == 0
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_UNKNOWN;
}

/* The location of the last prefetch is noted at the call, although its stream runs it later. */
static void remember_prefetch(struct managed_hint *hint, const void *location)
{
	hint->prefetched = *(const CUmemLocation *)location;
}

static CUresult managed_prefetch(CUdeviceptr address, size_t bytes, const CUmemLocation *location,
				 CUstream handle)
{
	struct prefetch *prefetch;
	struct CUstream_st *stream;
	struct op op = {.kind = OP_CALL};
	CUresult r = managed_check(address, bytes);

	if (r == CUDA_SUCCESS)
		r = stream_find(handle, &stream);
	if (r != CUDA_SUCCESS)
		return r;
	prefetch = malloc(sizeof(*prefetch));
	if (!prefetch)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*prefetch = (struct prefetch){
		address, bytes,
		location->type == CU_MEM_LOCATION_TYPE_DEVICE ? location->id : CU_DEVICE_CPU};
	op.call.run = prefetch_run;
	op.call.drop = free;
	op.call.data = prefetch;
	r = stream_submit(stream, &op);
	if (r != CUDA_SUCCESS)
		return r;
	return managed_hints_change(address, bytes, remember_prefetch, location);
}

CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUdevice device, CUstream stream)
{
	CUmemLocation location;
	CUresult r = managed_location(device, &location);

	return r == CUDA_SUCCESS ? managed_prefetch(address, bytes, &location, stream) : r;
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t bytes, CUmemLocation location,
			       unsigned flags, CUstream stream)
{
	CUresult r = flags ? CUDA_ERROR_INVALID_VALUE : managed_location_check(&location);

	return r == CUDA_SUCCESS ? managed_prefetch(address, bytes, &location, stream) : r;
}
