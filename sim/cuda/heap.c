/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/heap.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/list.h"
#include "sim/machine/clock.h"
#include "sim/machine/device.h"
#include "sim/machine/segment.h"

#define BLOCK_UNITS (SPACE_BLOCK / SPACE_UNIT)
#define BLOCK_WORDS (BLOCK_UNITS / 64)
#define SMALL_BYTES (SPACE_BLOCK / 2) /* larger allocations get blocks of their own */

struct heap_block {
	struct list link;
	uint64_t base, bytes;
	size_t used_units;
	uint64_t units[BLOCK_WORDS]; /* a bit per unit that is taken, in blocks of small ones */
	bool small;		     /* holds small allocations, or none */
	int fd;			     /* of a shared block, or -1 */
};

struct heap {
	pthread_mutex_t lock;
	int device;
	struct list busy;  /* blocks with something in them */
	struct list empty; /* kept for the next allocation */
	uint64_t keep;	   /* bytes of empty blocks to keep */
	uint64_t empty_bytes;
	uint64_t owed_ns; /* modelled time, for the last taker to spend without the lock */
	struct heap_sizes sizes;
};

struct heap *heap_new(int device)
{
	struct heap *heap = calloc(1, sizeof(*heap));

	if (!heap)
		return NULL;
	pthread_mutex_init(&heap->lock, NULL);
	heap->device = device;
	list_init(&heap->busy);
	list_init(&heap->empty);
	return heap;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static void block_free(struct heap *heap, struct heap_block *block)
{
	list_remove(&block->link);
	space_unback(block->base, block->bytes);
	space_release(block->base, block->bytes);
	device_give(heap->device, block->bytes);
	heap->sizes.reserved -= block->bytes;
	if (block->fd >= 0)
		close(block->fd);
	free(block);
}

static CUresult block_new(struct heap *heap, uint64_t bytes, struct heap_block **ret_block)
{
	struct heap_block *block = calloc(1, sizeof(*block));

	if (!block)
		return CUDA_ERROR_OUT_OF_MEMORY;
	block->bytes = bytes;
	block->fd = -1;
	if (device_take(heap->device, bytes) != 0)
		goto no_book;
	if (space_reserve(bytes, SPACE_BLOCK, 0, &block->base) < 0)
		goto no_space;
	if (space_back(block->base, bytes) < 0)
		goto no_memory;
	heap->owed_ns += segment_settings()->create_ns + device_clear_ns(bytes);
	heap->sizes.reserved += bytes;
	if (heap->sizes.reserved > heap->sizes.reserved_high)
		heap->sizes.reserved_high = heap->sizes.reserved;
	*ret_block = block;
	return CUDA_SUCCESS;
no_memory:
	space_release(block->base, bytes);
no_space:
	device_give(heap->device, bytes);
no_book:
	free(block);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static void empty_trim(struct heap *heap, uint64_t keep_empty, uint64_t keep_reserved)
{
	list_for_each(link, &heap->empty)
	{
		struct heap_block *block = list_entry(link, struct heap_block, link);

		if (heap->empty_bytes <= keep_empty || heap->sizes.reserved <= keep_reserved)
			return;
		heap->empty_bytes -= block->bytes;
		block_free(heap, block);
	}
}

/* An empty block of exactly this size: a kept one, or a new one, for which kept ones of other sizes
 * are released if necessary. It is on the busy list afterwards. */
static CUresult block_get(struct heap *heap, uint64_t bytes, struct heap_block **ret_block)
{
	struct heap_block *block;
	CUresult r;

	list_for_each(link, &heap->empty)
	{
		block = list_entry(link, struct heap_block, link);
		if (block->bytes == bytes) {
			list_remove(&block->link);
			heap->empty_bytes -= bytes;
			if (space_has_pattern() && block->fd < 0)
				best_effort(space_back(block->base, bytes));
			goto found;
		}
	}
	r = block_new(heap, bytes, &block);
	if (r != CUDA_SUCCESS && !list_empty(&heap->empty)) {
		empty_trim(heap, 0, 0);
		r = block_new(heap, bytes, &block);
	}
	if (r != CUDA_SUCCESS)
		return r;
found:
	list_prepend(&heap->busy, &block->link);
	*ret_block = block;
	return CUDA_SUCCESS;
}

static void block_put(struct heap *heap, struct heap_block *block)
{
	list_remove(&block->link);
	block->small = false;
	list_append(&heap->empty, &block->link);
	heap->empty_bytes += block->bytes;
	empty_trim(heap, heap->keep, 0);
}

/* ---- small allocations ----------------------------------------------------------------------- */

static bool unit_taken(const struct heap_block *block, size_t unit)
{
	return block->units[unit / 64] >> (unit % 64) & 1;
}

static void units_mark(struct heap_block *block, size_t first, size_t n, bool taken)
{
	for (size_t i = first; i < first + n; i++) {
		if (taken)
			block->units[i / 64] |= 1ull << (i % 64);
		else
			block->units[i / 64] &= ~(1ull << (i % 64));
	}
	block->used_units = taken ? block->used_units + n : block->used_units - n;
}

/* The first run of n free units; BLOCK_UNITS if there is none. */
static size_t units_find(const struct heap_block *block, size_t n)
{
	size_t run = 0;

	for (size_t unit = 0; unit < BLOCK_UNITS; unit++) {
		if (unit % 64 == 0 && block->units[unit / 64] == UINT64_MAX) {
			run = 0;
			unit += 63;
			continue;
		}
		run = unit_taken(block, unit) ? 0 : run + 1;
		if (run == n)
			return unit + 1 - n;
	}
	return BLOCK_UNITS;
}

static CUresult small_take(struct heap *heap, size_t units, struct heap_block **ret_block,
			   uint64_t *ret_base)
{
	struct heap_block *block;
	size_t at;
	CUresult r;

	list_for_each(link, &heap->busy)
	{
		block = list_entry(link, struct heap_block, link);
		if (!block->small || BLOCK_UNITS - block->used_units < units)
			continue;
		at = units_find(block, units);
		if (at < BLOCK_UNITS)
			goto found;
	}
	r = block_get(heap, SPACE_BLOCK, &block);
	if (r != CUDA_SUCCESS)
		return r;
	block->small = true;
	at = 0;
found:
	units_mark(block, at, units, true);
	*ret_block = block;
	*ret_base = block->base + at * SPACE_UNIT;
	return CUDA_SUCCESS;
}

/* ---- allocations ----------------------------------------------------------------------------- */

/* The lock is held. */
static void range_give(struct heap *heap, struct heap_block *block, uint64_t base, size_t bytes)
{
	heap->sizes.used -= bytes;
	if (block->small)
		units_mark(block, (base - block->base) / SPACE_UNIT, bytes / SPACE_UNIT, false);
	if (!block->small || block->used_units == 0)
		block_put(heap, block);
}

CUresult heap_take(struct heap *heap, size_t bytes, struct space_range *range)
{
	struct heap_block *block = NULL;
	size_t rounded = space_round(bytes);
	uint64_t owed_ns;
	CUresult r;

	if (bytes == 0 || rounded < bytes || rounded > UINT64_MAX - SPACE_BLOCK)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&heap->lock);
	if (bytes <= SMALL_BYTES) {
		r = small_take(heap, rounded / SPACE_UNIT, &block, &range->base);
	} else {
		r = block_get(heap, (bytes + SPACE_BLOCK - 1) & ~(SPACE_BLOCK - 1), &block);
		if (r == CUDA_SUCCESS)
			range->base = block->base;
	}
	if (r == CUDA_SUCCESS) {
		range->bytes = rounded;
		range->asked = bytes;
		range->device = heap->device;
		range->heap = heap;
		range->block = block;
		range->delta = (uint64_t)(uintptr_t)space_shadow(range->base) - range->base;
		heap->sizes.used += rounded;
		if (heap->sizes.used > heap->sizes.used_high)
			heap->sizes.used_high = heap->sizes.used;
		/* Large fresh blocks have the pattern already; writing it would touch pages. */
		if (block->small)
			space_pattern(space_shadow(range->base), rounded);
		if (space_add(range) < 0) {
			range_give(heap, block, range->base, rounded);
			r = CUDA_ERROR_OUT_OF_MEMORY;
		}
	}
	owed_ns = heap->owed_ns;
	heap->owed_ns = 0;
	pthread_mutex_unlock(&heap->lock);
	if (owed_ns)
		clock_spend(owed_ns);
	return r;
}

void heap_give(struct heap *heap, uint64_t base)
{
	struct space_range range;

	if (space_remove(base, &range) < 0)
		return;
	pthread_mutex_lock(&heap->lock);
	range_give(heap, range.block, range.base, range.bytes);
	pthread_mutex_unlock(&heap->lock);
}

void heap_keep(struct heap *heap, uint64_t bytes)
{
	pthread_mutex_lock(&heap->lock);
	heap->keep = bytes;
	empty_trim(heap, bytes, 0);
	pthread_mutex_unlock(&heap->lock);
}

void heap_trim(struct heap *heap, uint64_t bytes)
{
	pthread_mutex_lock(&heap->lock);
	empty_trim(heap, 0, bytes);
	pthread_mutex_unlock(&heap->lock);
}

void heap_free(struct heap *heap)
{
	struct space_range range;

	if (!heap)
		return;
	list_for_each(link, &heap->busy)
	{
		struct heap_block *block = list_entry(link, struct heap_block, link);

		while (space_next(block->base, block->base + block->bytes, &range) == 0)
			best_effort(space_remove(range.base, &range));
		block_free(heap, block);
	}
	empty_trim(heap, 0, 0);
	pthread_mutex_destroy(&heap->lock);
	free(heap);
}

/* ---- sharing --------------------------------------------------------------------------------- */

/* Copies the block's bytes into a file and maps that in its place. */
static CUresult block_to_file(struct heap_block *block)
{
	owned(close) int fd = memfd_create("mete-sim-shared", MFD_CLOEXEC);
	void *at;

	if (fd < 0 || ftruncate(fd, (off_t)block->bytes) < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	at = mmap(NULL, block->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(at, space_shadow(block->base), block->bytes);
	munmap(at, block->bytes);
	if (space_back_file(block->base, block->bytes, fd, 0) < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	block->fd = take_fd(&fd);
	return CUDA_SUCCESS;
}

CUresult heap_share(struct heap *heap, const struct space_range *range, int *ret_fd,
		    uint64_t *ret_offset)
{
	struct heap_block *block = range->block;
	CUresult r = CUDA_SUCCESS;

	pthread_mutex_lock(&heap->lock);
	if (block->fd < 0)
		r = block_to_file(block);
	if (r == CUDA_SUCCESS) {
		*ret_fd = block->fd;
		*ret_offset = range->base - block->base;
	}
	pthread_mutex_unlock(&heap->lock);
	return r;
}

void heap_sizes(struct heap *heap, struct heap_sizes *ret_sizes)
{
	pthread_mutex_lock(&heap->lock);
	*ret_sizes = heap->sizes;
	pthread_mutex_unlock(&heap->lock);
}

void heap_reset_high(struct heap *heap, bool reserved, bool used)
{
	pthread_mutex_lock(&heap->lock);
	if (reserved)
		heap->sizes.reserved_high = heap->sizes.reserved;
	if (used)
		heap->sizes.used_high = heap->sizes.used;
	pthread_mutex_unlock(&heap->lock);
}
