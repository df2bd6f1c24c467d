/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks against a driver that hands out the lowest address that fits, in blocks of 2 MiB that it
 * takes and returns as the simulated one does.
 */
#include "guest/credit/blocks.h"

#include <stdlib.h>

#include "tests/test.h"

enum { MODEL_BLOCKS = 64, UNITS = BLOCKS_BYTES / BLOCKS_UNIT, LIVE = 400 };

static struct {
	uint8_t taken[MODEL_BLOCKS][UNITS];
	uint32_t used[MODEL_BLOCKS];
	uint32_t held; /* blocks with something in them */
} model;

struct live {
	uint64_t address, bytes;
};

static uint32_t units_of(uint64_t bytes)
{
	return (uint32_t)((bytes + BLOCKS_UNIT - 1) / BLOCKS_UNIT);
}

static uint64_t address_of(uint32_t block, uint32_t unit)
{
	return 0x7000000000 + block * BLOCKS_BYTES + unit * BLOCKS_UNIT;
}

/* In a block that has something in it, or else in an empty one if `open_new`. */
static uint64_t model_take(uint64_t bytes, int open_new)
{
	uint32_t units = units_of(bytes);

	for (uint32_t b = 0; b < MODEL_BLOCKS; b++) {
		uint32_t run = 0;

		if ((model.used[b] == 0) != open_new)
			continue;
		for (uint32_t u = 0; u < UNITS; u++) {
			run = model.taken[b][u] ? 0 : run + 1;
			if (run < units)
				continue;
			memset(&model.taken[b][u + 1 - units], 1, units);
			model.held += model.used[b] == 0;
			model.used[b] += units;
			return address_of(b, u + 1 - units);
		}
	}
	return 0;
}

static void model_give(uint64_t address, uint64_t bytes)
{
	uint64_t at = address - 0x7000000000;
	uint32_t block = (uint32_t)(at / BLOCKS_BYTES);

	memset(&model.taken[block][at % BLOCKS_BYTES / BLOCKS_UNIT], 0, units_of(bytes));
	model.used[block] -= units_of(bytes);
	model.held -= model.used[block] == 0;
}

static void begin(void)
{
	blocks_forget();
	memset(&model, 0, sizeof(model));
}

static int drop_at(uint64_t address)
{
	unsigned units;
	struct block *block = blocks_detach(address, &units);

	expect(block != NULL);
	return blocks_freed(block, address, units);
}

static uint64_t some_bytes(void)
{
	return test_random_below(4) ? 1 + test_random_below(20000)
				    : 1 + test_random_below(BLOCKS_SMALL);
}

TEST(the_charge_equals_the_drivers_memory_and_a_fit_is_foretold)
{
	static struct live live[LIVE];
	uint32_t charged = 0;

	begin();
	memset(live, 0, sizeof(live));
	for (unsigned step = 0; step < test_rounds(20000); step++) {
		struct live *l = &live[test_random_below(LIVE)];
		struct block *block;
		bool fits;
		int r;

		if (l->address) {
			model_give(l->address, l->bytes);
			charged -= drop_at(l->address) == BLOCKS_EMPTY;
			l->address = 0;
		} else {
			l->bytes = some_bytes();
			fits = blocks_fit(0, 1, l->bytes);
			l->address = model_take(l->bytes, 0);
			expect_eq(fits, l->address != 0);
			if (!l->address)
				l->address = model_take(l->bytes, 1);
			if (!l->address)
				continue;
			r = blocks_put(0, 1, l->address, l->bytes, &block);
			expect_eq(r, fits ? 0 : BLOCKS_UNPAID);
			if (r == BLOCKS_UNPAID) {
				charged++;
				expect(!blocks_paid(block));
			}
		}
		expect_eq(charged, model.held);
	}
}

TEST(a_block_that_nobody_paid_asks_the_next_one_and_gives_nothing_back)
{
	struct block *first, *second;

	begin();
	expect_eq(blocks_put(0, 1, address_of(0, 0), 512, &first), BLOCKS_UNPAID);
	expect_eq(blocks_put(0, 1, address_of(0, 1), 512, &second), BLOCKS_UNPAID);
	expect(first == second);
	/* The first cannot pay and frees; the second does. */
	expect_eq(drop_at(address_of(0, 0)), 0);
	expect(!blocks_paid(second));
	expect(blocks_paid(second));
	expect_eq(drop_at(address_of(0, 1)), BLOCKS_EMPTY);
	expect_eq(blocks_put(0, 1, address_of(0, 0), 512, &first), BLOCKS_UNPAID);
	expect_eq(drop_at(address_of(0, 0)), 0);
}

TEST(blocks_of_other_contexts_and_devices_do_not_fit)
{
	struct block *block;

	begin();
	expect_eq(blocks_put(1, 7, address_of(3, 0), 512, &block), BLOCKS_UNPAID);
	expect(!blocks_paid(block));
	expect_eq(blocks_device(block), 1);
	expect(blocks_fit(1, 7, 512));
	expect(blocks_fit_likely(1, 7, 512));
	expect(!blocks_fit(1, 8, 512));
	expect(!blocks_fit(0, 7, 512));
	expect(!blocks_fit_likely(0, 7, 512));
	expect(!blocks_fit_likely(1, 8, 512));
	expect(!blocks_fit(1, 7, BLOCKS_BYTES));
}

TEST(only_where_an_allocation_begins_is_something_to_free)
{
	struct block *block;
	unsigned units;

	begin();
	expect(blocks_detach(address_of(0, 0), &units) == NULL);
	expect_eq(blocks_put(0, 1, address_of(0, 4), 5000, &block), BLOCKS_UNPAID);
	expect(!blocks_paid(block));
	expect(blocks_detach(address_of(0, 3), &units) == NULL);
	expect(blocks_detach(address_of(0, 4) + 1, &units) == NULL);
	expect(blocks_detach(address_of(0, 5), &units) == NULL);
	expect(blocks_detach(address_of(9, 4), &units) == NULL);
	expect_eq(drop_at(address_of(0, 4)), BLOCKS_EMPTY);
	expect(blocks_detach(address_of(0, 4), &units) == NULL);
}

TEST(an_address_that_comes_back_before_the_free_has_returned_is_another_allocation)
{
	struct block *first, *second;
	unsigned units;

	begin();
	expect_eq(blocks_put(0, 1, address_of(0, 0), 512, &first), BLOCKS_UNPAID);
	expect(!blocks_paid(first));
	expect(blocks_detach(address_of(0, 0), &units) == first);
	/* The driver freed it and gave it to another thread, whose put comes first. */
	expect_eq(blocks_put(0, 1, address_of(0, 0), 512, &second), 0);
	expect_eq(blocks_freed(first, address_of(0, 0), units), 0);
	expect_eq(drop_at(address_of(0, 0)), BLOCKS_EMPTY);
}

TEST(memory_that_a_thread_is_about_to_free_is_no_gap_yet)
{
	const uint64_t half = 512 << 10;
	struct block *block;
	unsigned units;

	begin();
	/* Of four parts of a block the first and the third are taken. */
	expect_eq(blocks_put(0, 1, address_of(0, 0), half, &block), BLOCKS_UNPAID);
	expect(!blocks_paid(block));
	expect_eq(blocks_put(0, 1, address_of(0, 0) + 2 * half, half, &block), 0);
	expect(blocks_fit(0, 1, half) && !blocks_fit(0, 1, half + 512));
	expect(blocks_detach(address_of(0, 0) + 2 * half, &units) == block);
	expect(!blocks_fit(0, 1, half + 512));
	expect_eq(blocks_freed(block, address_of(0, 0) + 2 * half, units), 0);
	expect(blocks_fit(0, 1, 3 * half) && !blocks_fit(0, 1, 3 * half + 512));
}

TEST(memory_that_is_had_again_before_its_free_is_reported_is_counted_once)
{
	const uint64_t half = BLOCKS_BYTES / 2;
	struct block *block;
	unsigned units;

	begin();
	expect_eq(blocks_put(0, 1, address_of(0, 0), half, &block), BLOCKS_UNPAID);
	expect(!blocks_paid(block));
	expect_eq(blocks_put(0, 1, address_of(0, 0) + half, half, &block), 0);
	expect(blocks_detach(address_of(0, 0), &units) == block);
	/* The driver freed it, and another thread has a part of it, across what was its beginning.
	 */
	expect_eq(blocks_put(0, 1, address_of(0, 0) + 512, half - 512, &block), 0);
	expect(!blocks_fit(0, 1, 1) && !blocks_fit_likely(0, 1, 1));
	expect_eq(blocks_freed(block, address_of(0, 0), units), 0);
	expect(blocks_fit(0, 1, 512) && blocks_fit_likely(0, 1, 512));
	expect(!blocks_fit(0, 1, 513) && !blocks_fit_likely(0, 1, 513));
}

TEST(memory_that_the_driver_did_not_free_is_known_again)
{
	struct block *block;
	unsigned units;

	begin();
	expect_eq(blocks_put(0, 1, address_of(0, 0), 512, &block), BLOCKS_UNPAID);
	expect(!blocks_paid(block));
	expect(blocks_detach(address_of(0, 0), &units) == block);
	blocks_attach(block, address_of(0, 0), units);
	expect_eq(drop_at(address_of(0, 0)), BLOCKS_EMPTY);
}

static unsigned blocks_gone;

static void count_gone(int device)
{
	blocks_gone += device == 0;
}

TEST(a_context_takes_its_blocks_along)
{
	struct block *block;
	unsigned units;

	begin();
	blocks_gone = 0;
	for (uint32_t i = 0; i < 40; i++) {
		expect_eq(blocks_put(0, 1 + i % 2, address_of(i, 3), 700, &block), BLOCKS_UNPAID);
		if (i >= 4)
			expect(!blocks_paid(block));
	}
	blocks_context_gone(1, count_gone);
	expect_eq(blocks_gone, 18);
	for (uint32_t i = 0; i < 40; i++)
		expect_eq(blocks_detach(address_of(i, 3), &units) != NULL, i % 2);
	expect_eq(blocks_put(0, 5, address_of(0, 3), 700, &block), BLOCKS_UNPAID);
}

static unsigned gone_blocks;

static void one_gone(int device)
{
	expect_eq(device, 0);
	gone_blocks++;
}

static void put_in(uint64_t context, uint64_t address, int wanted)
{
	struct block *block;

	expect_eq(blocks_put(0, context, address, 4096, &block), wanted);
	if (wanted == BLOCKS_UNPAID)
		expect(!blocks_paid(block));
}

/* The driver was quicker than the thread that destroyed the first context. */
TEST(memory_that_went_with_a_context_is_not_the_next_ones_at_its_addresses)
{
	const uint64_t leaving = BLOCKS_LEAVING | 7, handle = 0x1000;
	unsigned units;

	begin();
	gone_blocks = 0;
	put_in(handle, address_of(0, 0), BLOCKS_UNPAID);
	blocks_rename(handle, leaving);
	expect(blocks_detach(address_of(0, 0), &units) == NULL);
	/* A context at the same handle, with memory at the same address. */
	put_in(handle, address_of(0, 0), BLOCKS_UNPAID);
	put_in(handle, address_of(0, 1024), 0);
	blocks_context_gone(leaving, one_gone);
	expect_eq(gone_blocks, 1);
	expect_eq(drop_at(address_of(0, 1024)), 0);
	expect_eq(drop_at(address_of(0, 0)), BLOCKS_EMPTY);
	blocks_context_gone(handle, one_gone);
	expect_eq(gone_blocks, 1);
}

TEST(a_context_that_was_not_destroyed_after_all_is_as_it_was)
{
	const uint64_t leaving = BLOCKS_LEAVING | 8, handle = 0x1000;

	begin();
	gone_blocks = 0;
	put_in(handle, address_of(0, 0), BLOCKS_UNPAID);
	blocks_rename(handle, leaving);
	blocks_rename(leaving, handle);
	blocks_context_gone(leaving, one_gone);
	expect_eq(gone_blocks, 0);
	expect_eq(drop_at(address_of(0, 0)), BLOCKS_EMPTY);
}

/* The last one is freed, but its thread was not heard yet, when another context has the block. */
TEST(a_block_belongs_to_the_context_that_the_driver_gave_it_to)
{
	struct block *block;
	unsigned units;

	begin();
	gone_blocks = 0;
	put_in(0x1000, address_of(0, 0), BLOCKS_UNPAID);
	block = blocks_detach(address_of(0, 0), &units);
	put_in(0x2000, address_of(0, 0), 0);
	expect_eq(blocks_freed(block, address_of(0, 0), units), 0);
	blocks_context_gone(0x1000, one_gone);
	expect_eq(gone_blocks, 0);
	blocks_context_gone(0x2000, one_gone);
	expect_eq(gone_blocks, 1);
}

/* A thread is about to report that it freed the last one when another has its block already. */
TEST(a_block_that_another_device_has_now_is_charged_to_that)
{
	struct block *old, *new;
	unsigned units;

	begin();
	expect_eq(blocks_put(0, 1, address_of(0, 0), 512, &old), BLOCKS_UNPAID);
	expect(!blocks_paid(old));
	expect(blocks_detach(address_of(0, 0), &units) == old);
	expect_eq(blocks_put(1, 2, address_of(0, 0), 512, &new), BLOCKS_UNPAID);
	expect(!blocks_paid(new));
	expect_eq(blocks_device(new), 1);
	expect_eq(blocks_device(old), 0);
	expect_eq(blocks_freed(old, address_of(0, 0), units), BLOCKS_EMPTY);
	expect(blocks_detach(address_of(0, 0), &units) == new);
	expect_eq(blocks_freed(new, address_of(0, 0), units), BLOCKS_EMPTY);
}

/* A thread is about to report that it freed the last one when another context has had its block,
 * and is gone, too. */
TEST(a_block_that_went_with_a_context_is_not_given_back_again_by_an_earlier_free)
{
	struct block *old, *new;
	unsigned units, more;

	begin();
	gone_blocks = 0;
	expect_eq(blocks_put(0, 1, address_of(0, 0), 512, &old), BLOCKS_UNPAID);
	expect(!blocks_paid(old));
	expect(blocks_detach(address_of(0, 0), &units) == old);
	expect_eq(blocks_put(0, 2, address_of(0, 0), 512, &new), 0);
	expect(new == old);
	blocks_context_gone(2, one_gone);
	expect_eq(gone_blocks, 1);
	/* The address is another device's, and then another block's. */
	expect_eq(blocks_put(1, 3, address_of(0, 0), 512, &new), BLOCKS_UNPAID);
	expect(!blocks_paid(new));
	expect_eq(blocks_freed(old, address_of(0, 0), units), 0);
	expect(blocks_detach(address_of(0, 0), &more) == new);
	expect_eq(blocks_device(new), 1);
	expect_eq(blocks_freed(new, address_of(0, 0), more), BLOCKS_EMPTY);
	blocks_context_gone(2, one_gone);
	expect_eq(gone_blocks, 1);
}

TEST(memory_that_the_driver_did_not_free_went_with_its_context)
{
	struct block *block, *next;
	unsigned units;

	begin();
	gone_blocks = 0;
	put_in(1, address_of(0, 0), BLOCKS_UNPAID);
	block = blocks_detach(address_of(0, 0), &units);
	blocks_context_gone(1, one_gone);
	expect_eq(gone_blocks, 1);
	blocks_attach(block, address_of(0, 0), units);
	expect(blocks_detach(address_of(0, 0), &units) == NULL);
	/* Its record serves again. */
	expect_eq(blocks_put(0, 2, address_of(1, 0), 512, &next), BLOCKS_UNPAID);
	expect(next == block);
}
