/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocator torture: several threads take and give memory by every way there is (linear, pitched,
 * stream-ordered, virtual memory), in random sizes and order. Each piece is filled with a value of
 * its own and must still hold it when it is given back: memory that two share shows here.
 * Out-of-memory is an answer like any other; anything else is a failure.
 */
#include <pthread.h>
#include <string.h>

#include "examples/workload.h"
#include "examples/kernels/vector.ptx.h"

enum { SLOTS = 24, GRANULE = 2 << 20 };

enum kind { LINEAR, PITCHED, ORDERED, VIRTUAL, KINDS };

struct piece {
	enum kind kind;
	CUdeviceptr pointer;
	size_t bytes; /* filled and checked */
	uint8_t value;
	CUmemGenericAllocationHandle handle; /* VIRTUAL */
};

struct thread {
	struct workload *w;
	pthread_t id;
	uint64_t random;
	size_t operations, largest_bytes, refusals, taken;
	struct piece piece[SLOTS];
};

static uint64_t next_random(struct thread *t)
{
	struct workload stream = {.random = t->random};
	uint64_t value = workload_random(&stream);

	t->random = stream.random;
	return value;
}

static CUresult take_virtual(struct workload *w, struct piece *piece)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = w->device},
	};
	CUmemAccessDesc access = {.location = prop.location,
				  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUresult result;

	piece->bytes = (piece->bytes + GRANULE - 1) / GRANULE * GRANULE;
	result = w->cuMemCreate(&piece->handle, piece->bytes, &prop, 0);
	if (result != CUDA_SUCCESS)
		return result;
	workload_try(w, w->cuMemAddressReserve(&piece->pointer, piece->bytes, 0, 0, 0));
	workload_try(w, w->cuMemMap(piece->pointer, piece->bytes, 0, piece->handle, 0));
	workload_try(w, w->cuMemSetAccess(piece->pointer, piece->bytes, &access, 1));
	return CUDA_SUCCESS;
}

static CUresult take_piece(struct thread *t, struct piece *piece)
{
	struct workload *w = t->w;
	size_t pitch;

	switch (piece->kind) {
	case LINEAR:
		return w->cuMemAlloc_v2(&piece->pointer, piece->bytes);
	case PITCHED:
		/* One row: the pitch is padding that we leave alone. */
		return w->cuMemAllocPitch_v2(&piece->pointer, &pitch, piece->bytes, 1, 4);
	case ORDERED:
		return w->cuMemAllocAsync(&piece->pointer, piece->bytes, NULL);
	case VIRTUAL:
		return take_virtual(w, piece);
	case KINDS:
		break;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

static void give_piece(struct thread *t, struct piece *piece)
{
	struct workload *w = t->w;
	/* Both may be freed either way; the driver allows it and programs do it. */
	bool crossed = next_random(t) % 4 == 0;

	if (piece->kind == VIRTUAL) {
		workload_try(w, w->cuMemUnmap(piece->pointer, piece->bytes));
		workload_try(w, w->cuMemAddressFree(piece->pointer, piece->bytes));
		workload_try(w, w->cuMemRelease(piece->handle));
	} else if ((piece->kind == ORDERED) != crossed)
		workload_try(w, w->cuMemFreeAsync(piece->pointer, NULL));
	else
		workload_try(w, w->cuMemFree_v2(piece->pointer));
	piece->pointer = 0;
}

/* Both ends of the piece; a whole one would only take longer. */
static void check_piece(struct thread *t, const struct piece *piece)
{
	uint8_t seen[64];
	size_t n = piece->bytes < sizeof(seen) ? piece->bytes : sizeof(seen);
	CUdeviceptr ends[] = {piece->pointer, piece->pointer + piece->bytes - n};

	for (size_t end = 0; end < 2; end++) {
		workload_try(t->w, t->w->cuMemcpyDtoH_v2(seen, ends[end], n));
		for (size_t i = 0; i < n; i++)
			if (seen[i] != piece->value)
				workload_fail(t->w, "byte %zu of a piece of %zu is %u, wanted %u",
					      i, piece->bytes, seen[i], piece->value);
	}
}

static void step(struct thread *t)
{
	struct piece *piece = &t->piece[next_random(t) % SLOTS];
	CUresult result;

	if (piece->pointer) {
		check_piece(t, piece);
		give_piece(t, piece);
		return;
	}
	piece->kind = (enum kind)(next_random(t) % KINDS);
	/* Sizes of all magnitudes: mostly small ones, now and then a large one. */
	piece->bytes = 4 * (1 + next_random(t) % ((t->largest_bytes / 4) >> next_random(t) % 12));
	piece->value = (uint8_t)next_random(t);
	result = take_piece(t, piece);
	if (result == CUDA_ERROR_OUT_OF_MEMORY) {
		piece->pointer = 0;
		t->refusals++;
		return;
	}
	workload_tried(t->w, result, "allocating");
	workload_try(t->w, t->w->cuMemsetD8_v2(piece->pointer, piece->value, piece->bytes));
	t->taken++;
}

static void *run(void *argument)
{
	struct thread *t = argument;

	workload_try(t->w, t->w->cuCtxSetCurrent(t->w->context));
	for (size_t i = 0; i < t->operations; i++)
		step(t);
	for (size_t i = 0; i < SLOTS; i++) {
		if (!t->piece[i].pointer)
			continue;
		check_piece(t, &t->piece[i]);
		give_piece(t, &t->piece[i]);
	}
	return NULL;
}

/* What was refused differs from run to run, but when all is given back memory still computes. */
static void sum_after(struct workload *w)
{
	unsigned n = 4096, factor = 2654435761u, offset = 1;
	uint32_t seen[4096];
	CUdeviceptr piece = workload_alloc(w, sizeof(seen));

	workload_launch(w, NULL, workload_kernel(w, "fill_pattern"), n,
			(void *[]){&piece, &n, &factor, &offset});
	workload_try(w, w->cuMemcpyDtoH_v2(seen, piece, sizeof(seen)));
	workload_sum(w, seen, sizeof(seen));
	workload_free(w, piece, sizeof(seen));
}

int main(int argc, char **argv)
{
	static const char *const settings[] = {"threads", "operations", "largest", NULL};
	size_t threads = workload_setting(argc, argv, "threads", 4);
	size_t operations = workload_setting(argc, argv, "operations", 150);
	size_t largest_bytes = workload_setting(argc, argv, "largest", 64 << 20);
	struct thread *thread = calloc(threads + 1, sizeof(*thread));
	struct workload w;
	size_t taken = 0, refusals = 0;

	workload_begin(&w, "torture", vector_ptx, argc, argv, settings);
	if (!thread || largest_bytes < 64 << 10)
		workload_fail(&w, "largest: 64K at least");
	for (size_t i = 0; i < threads; i++) {
		thread[i].w = &w;
		thread[i].random = workload_random(&w);
		thread[i].operations = operations;
		thread[i].largest_bytes = largest_bytes;
		if (pthread_create(&thread[i].id, NULL, run, &thread[i]) != 0)
			workload_fail(&w, "no thread");
	}
	for (size_t i = 0; i < threads; i++) {
		pthread_join(thread[i].id, NULL);
		taken += thread[i].taken;
		refusals += thread[i].refusals;
	}
	free(thread);
	sum_after(&w);
	return workload_end(&w, "threads=%zu taken=%zu refused=%zu", threads, taken, refusals);
}
