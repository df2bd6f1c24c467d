/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/device_heap.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/list.h"
#include "sim/cuda/memory.h"

#define PIECE_ALIGN 16

/* The heap is one row of pieces, each free or taken. */
struct piece {
	struct list link;
	uint64_t base, bytes;
	bool taken;
};

struct device_heap {
	struct list link;
	struct CUctx_st *context;
	struct list pieces;
};

static struct {
	pthread_mutex_t lock;
	struct list heaps;
} device_heaps = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct device_heap *heap_of(const struct CUctx_st *context)
{
	if (!device_heaps.heaps.next)
		list_init(&device_heaps.heaps);
	list_for_each(link, &device_heaps.heaps)
	{
		struct device_heap *heap = list_entry(link, struct device_heap, link);

		if (heap->context == context)
			return heap;
	}
	return NULL;
}

static struct device_heap *heap_make(struct CUctx_st *context)
{
	struct device_heap *heap = calloc(1, sizeof(*heap));
	struct piece *piece = calloc(1, sizeof(*piece));
	size_t bytes = atomic_load(&context->limits[CU_LIMIT_MALLOC_HEAP_SIZE]);
	struct space_range range;

	if (!heap || !piece || !bytes ||
	    memory_take(context, bytes, SPACE_MODULE, &range) != CUDA_SUCCESS) {
		free(heap);
		free(piece);
		return NULL;
	}
	piece->base = range.base;
	piece->bytes = range.bytes;
	heap->context = context;
	list_init(&heap->pieces);
	list_append(&heap->pieces, &piece->link);
	list_append(&device_heaps.heaps, &heap->link);
	atomic_store(&context->device_heap, range.base);
	return heap;
}

static uint64_t piece_cut(struct piece *piece, uint64_t bytes)
{
	if (piece->bytes > bytes) {
		struct piece *rest = calloc(1, sizeof(*rest));

		if (!rest)
			return 0;
		rest->base = piece->base + bytes;
		rest->bytes = piece->bytes - bytes;
		piece->bytes = bytes;
		list_prepend(&piece->link, &rest->link);
	}
	piece->taken = true;
	return piece->base;
}

uint64_t device_heap_alloc(struct CUctx_st *context, uint64_t bytes)
{
	struct device_heap *heap;
	uint64_t address = 0;

	if (!bytes || bytes > UINT64_MAX / 2)
		return 0;
	bytes = (bytes + PIECE_ALIGN - 1) & ~(uint64_t)(PIECE_ALIGN - 1);
	pthread_mutex_lock(&device_heaps.lock);
	heap = heap_of(context);
	if (!heap)
		heap = heap_make(context);
	if (heap) {
		list_for_each(link, &heap->pieces)
		{
			struct piece *piece = list_entry(link, struct piece, link);

			if (!piece->taken && piece->bytes >= bytes) {
				address = piece_cut(piece, bytes);
				break;
			}
		}
	}
	pthread_mutex_unlock(&device_heaps.lock);
	return address;
}

/* Joins a free piece with the next one if that is free too. */
static void piece_join(struct device_heap *heap, struct piece *piece)
{
	struct piece *next;

	if (piece->link.next == &heap->pieces)
		return;
	next = list_entry(piece->link.next, struct piece, link);
	if (next->taken)
		return;
	piece->bytes += next->bytes;
	list_remove(&next->link);
	free(next);
}

bool device_heap_free(struct CUctx_st *context, uint64_t address)
{
	struct device_heap *heap;
	bool found = false;

	pthread_mutex_lock(&device_heaps.lock);
	heap = heap_of(context);
	if (heap) {
		list_for_each(link, &heap->pieces)
		{
			struct piece *piece = list_entry(link, struct piece, link);
			struct piece *before;

			if (piece->base != address || !piece->taken)
				continue;
			found = true;
			piece->taken = false;
			piece_join(heap, piece);
			if (link->prev != &heap->pieces) {
				before = list_entry(link->prev, struct piece, link);
				if (!before->taken)
					piece_join(heap, before);
			}
			break;
		}
	}
	pthread_mutex_unlock(&device_heaps.lock);
	return found;
}

/* The memory itself goes with the context's heap. */
void device_heap_ended(struct CUctx_st *context)
{
	struct device_heap *heap;

	pthread_mutex_lock(&device_heaps.lock);
	heap = heap_of(context);
	if (heap) {
		list_remove(&heap->link);
		list_for_each(link, &heap->pieces) free(list_entry(link, struct piece, link));
		free(heap);
	}
	pthread_mutex_unlock(&device_heaps.lock);
}
