/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of allocations, as cuMemGetInfo shows it. Nobody else may allocate on the device
 * meanwhile. */
#include <string.h>

#include "tests/gpu/lab.h"

enum { BLOCK = 2 << 20, PIECES = 20000 };

static CUdeviceptr piece[PIECES];

static CUdeviceptr allocate(size_t bytes)
{
	CUdeviceptr at;

	must(cuMemAlloc_v2(&at, bytes));
	return at;
}

static long long mib_of(long long bytes)
{
	return bytes / (1 << 20);
}

/* How many single bytes are allocated until free memory changes, and by how much it did. */
static unsigned until_it_shows(unsigned from, long long *ret_cost)
{
	size_t before = lab_free_bytes();

	for (unsigned n = from; n < PIECES; n++) {
		piece[n] = allocate(1);
		*ret_cost = (long long)before - (long long)lab_free_bytes();
		if (*ret_cost)
			return n + 1;
	}
	claim_no("%d allocations of a byte do not show in cuMemGetInfo", PIECES);
}

CLAIM(small_allocations_share_blocks_of_2_mib)
{
	struct lab lab = lab_begin();
	size_t before = lab_free_bytes();
	long long cost;
	unsigned first = until_it_shows(0, &cost), second;

	(void)lab;
	holds(cost == BLOCK, "a block of single bytes is %lld bytes", cost);
	second = until_it_shows(first, &cost);
	holds(cost == BLOCK, "the next block of single bytes is %lld bytes", cost);
	holds(second - first > 1, "each byte has a block of its own");
	for (unsigned i = 0; i < second; i++)
		must(cuMemFree_v2(piece[i]));
	holds(lab_free_bytes() >= before, "an empty block stays: %lld bytes",
	      (long long)before - (long long)lab_free_bytes());
	claim_say("%u allocations of a byte in 2 MiB", second - first);
}

CLAIM(allocations_of_1_mib_share_a_block)
{
	struct lab lab = lab_begin();
	size_t before = lab_free_bytes();
	CUdeviceptr a[8];

	(void)lab;
	for (int i = 0; i < 8; i++)
		a[i] = allocate(MiB);
	holds(before - lab_free_bytes() <= 8 * MiB, "8 times 1 MiB cost %lld MiB",
	      mib_of((long long)(before - lab_free_bytes())));
	for (int i = 0; i < 8; i++)
		must(cuMemFree_v2(a[i]));
	holds(lab_free_bytes() >= before, "their blocks stay after they were freed");
}

CLAIM(larger_allocations_round_up_to_2_mib)
{
	static const size_t sizes[] = {MiB + 1, 2 * MiB, 2 * MiB + 1, 7 * MiB, 33 * MiB + 5};
	struct lab lab = lab_begin();

	(void)lab;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		size_t before = lab_free_bytes(), wanted = (sizes[i] + BLOCK - 1) / BLOCK * BLOCK;
		CUdeviceptr at = allocate(sizes[i]);
		size_t cost = before - lab_free_bytes();

		holds(cost == wanted, "%zu bytes cost %zu, not %zu", sizes[i], cost, wanted);
		must(cuMemFree_v2(at));
		holds(lab_free_bytes() == before, "%zu bytes are not returned when freed",
		      sizes[i]);
	}
}

CLAIM(addresses_are_multiples_of_256)
{
	struct lab lab = lab_begin();
	size_t bytes = 1;

	(void)lab;
	for (unsigned i = 0; i < 600; i++) {
		CUdeviceptr at = allocate(bytes);

		holds(at % 256 == 0, "%zu bytes are at 0x%llx", bytes, (unsigned long long)at);
		bytes = (bytes * 7 + 13) % (3 << 20) + 1;
	}
}

/* Every second one of 512 pieces of 64 KiB is freed, in blocks that stay; their places suffice. */
CLAIM(small_pieces_fill_gaps_first)
{
	enum { N = 512, BYTES = 64 << 10 };
	struct lab lab = lab_begin();
	size_t full;

	(void)lab;
	for (unsigned i = 0; i < N; i++)
		piece[i] = allocate(BYTES);
	full = lab_free_bytes();
	for (unsigned i = 0; i < N; i += 2)
		must(cuMemFree_v2(piece[i]));
	for (unsigned i = 0; i < N; i += 2)
		piece[i] = allocate(BYTES - i % 7 * 256);
	holds(lab_free_bytes() == full, "%lld MiB more than before, in gaps of the same size",
	      mib_of((long long)full - (long long)lab_free_bytes()));
}

static uint64_t reserved(CUmemoryPool pool)
{
	uint64_t bytes;

	must(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes));
	return bytes;
}

CLAIM(pools_grow_in_equal_steps_and_say_so_at_once)
{
	static const size_t sizes[] = {100 * MiB, 5 * MiB, 33 * MiB};
	struct lab lab = lab_begin();
	CUmemPoolProps properties;
	CUmemoryPool pool;
	CUdeviceptr at;
	uint64_t step, now;

	memset(&properties, 0, sizeof(properties));
	properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	properties.location.id = lab.device;
	must(cuMemPoolCreate(&pool, &properties));
	must(cuMemAllocFromPoolAsync(&at, 1, pool, NULL));
	step = reserved(pool);
	holds(step > 0, "a pool with an allocation has reserved nothing");
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		uint64_t before = reserved(pool);

		must(cuMemAllocFromPoolAsync(&at, sizes[i], pool, NULL));
		now = reserved(pool);
		holds((now - before) % step == 0, "the first step was %llu bytes, then came %llu",
		      (unsigned long long)step, (unsigned long long)(now - before));
		holds(i > 0 || now - before >= sizes[0] - step, "%zu bytes raised it by %llu",
		      sizes[0], (unsigned long long)(now - before));
	}
	claim_say("a step is %llu MiB", (unsigned long long)(step >> 20));
}

CLAIM(free_memory_shows_an_arrays_size)
{
	static const CUDA_ARRAY_DESCRIPTOR_v2 shapes[] = {
		{1024, 1024, CU_AD_FORMAT_UNSIGNED_INT32, 1},
		{4096, 1, CU_AD_FORMAT_FLOAT, 4},
		{8192, 0, CU_AD_FORMAT_FLOAT, 4},
		{3000, 2000, CU_AD_FORMAT_UNSIGNED_INT8, 4},
		{16384, 300, CU_AD_FORMAT_HALF, 2},
	};
	static const unsigned widths[] = {4, 16, 16, 4, 4};
	struct lab lab = lab_begin();

	(void)lab;
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
		size_t rows = shapes[i].Height ? shapes[i].Height : 1, before = lab_free_bytes(),
		       cost;
		size_t bytes = shapes[i].Width * rows * widths[i];
		CUarray array;

		must(cuArrayCreate_v2(&array, &shapes[i]));
		cost = before - lab_free_bytes();
		holds(bytes < BLOCK || cost >= bytes, "an array of %zu bytes costs %zu", bytes,
		      cost);
		holds(cost <= 2 * bytes + 2 * BLOCK, "an array of %zu bytes costs %zu", bytes,
		      cost);
		must(cuArrayDestroy(array));
		holds(lab_free_bytes() == before, "an array of %zu bytes leaves %lld", bytes,
		      (long long)before - (long long)lab_free_bytes());
	}
}
