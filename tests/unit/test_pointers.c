/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/credit/pointers.h"

#include <pthread.h>

#include "tests/test.h"

static struct pointers table;

static struct pointer entry_of(uint64_t address)
{
	return (struct pointer){.address = address,
				.bytes = address ^ 0x5555,
				.owner = address % 3,
				.detail = (uint32_t)address,
				.kind = (uint16_t)(address % 7),
				.device = (int16_t)(address % 5)};
}

static int put(uint64_t address)
{
	struct pointer entry = entry_of(address), old;

	return pointers_put(&table, &entry, &old);
}

static int same(const struct pointer *a, const struct pointer *b)
{
	return a->address == b->address && a->bytes == b->bytes && a->owner == b->owner &&
	       a->detail == b->detail && a->kind == b->kind && a->device == b->device;
}

TEST(a_value_that_is_put_is_found_and_taken_once)
{
	struct pointer wanted = entry_of(0x700000200), got;

	pointers_forget(&table);
	expect_eq(pointers_find(&table, wanted.address, &got), POINTERS_UNKNOWN);
	expect_eq(put(wanted.address), 0);
	expect_eq(pointers_find(&table, wanted.address, &got), 0);
	expect(same(&wanted, &got));
	expect_eq(pointers_take(&table, wanted.address, &got), 0);
	expect(same(&wanted, &got));
	expect_eq(pointers_take(&table, wanted.address, &got), POINTERS_UNKNOWN);
	expect_eq(pointers_count(&table), 0);
}

TEST(putting_an_address_again_returns_the_former_value)
{
	struct pointer first = entry_of(0x1000), second = first, old;

	pointers_forget(&table);
	second.bytes = 7;
	expect_eq(pointers_put(&table, &first, &old), 0);
	expect_eq(pointers_put(&table, &second, &old), POINTERS_REPLACED);
	expect(same(&first, &old));
	expect_eq(pointers_find(&table, 0x1000, &old), 0);
	expect_eq(old.bytes, 7);
	expect_eq(pointers_count(&table), 1);
}

TEST(zero_is_no_address)
{
	struct pointer got;

	pointers_forget(&table);
	expect_eq(put(0), -EINVAL);
	expect_eq(put(0x200), 0);
	expect_eq(pointers_find(&table, 0, &got), POINTERS_UNKNOWN);
	expect_eq(pointers_take(&table, 0, &got), POINTERS_UNKNOWN);
}

TEST(errno_is_kept_while_a_table_grows)
{
	pointers_forget(&table);
	errno = EDOM;
	for (uint64_t i = 1; i < 50000; i++)
		expect_eq(put(i * 512), 0);
	expect_eq(errno, EDOM);
	expect_eq(pointers_count(&table), 49999);
}

static int third(const struct pointer *entry, void *context)
{
	if (entry->owner != *(uint64_t *)context)
		return 0;
	return 1;
}

TEST(a_sweep_takes_all_of_an_owner_and_nothing_else)
{
	uint64_t owner = 1;
	struct pointer got;

	pointers_forget(&table);
	for (uint64_t i = 1; i <= 10000; i++)
		expect_eq(put(i * 512), 0);
	pointers_sweep(&table, third, &owner);
	for (uint64_t i = 1; i <= 10000; i++)
		expect_eq(pointers_find(&table, i * 512, &got),
			  i * 512 % 3 == 1 ? POINTERS_UNKNOWN : 0);
}

/* The table against an array that says for each address whether it is in. The addresses are few
 * enough to collide, and of the shapes that drivers hand out. */
static void history(uint64_t stride, unsigned addresses, unsigned steps)
{
	static uint8_t in[20000];
	size_t count = 0;

	memset(in, 0, sizeof(in));
	pointers_forget(&table);
	for (unsigned step = 0; step < steps; step++) {
		unsigned n = (unsigned)test_random_below(addresses);
		uint64_t address = 0x7f0000000000 + n * stride;
		struct pointer wanted = entry_of(address), got;

		switch (test_random_below(3)) {
		case 0:
			expect_eq(put(address), in[n] ? POINTERS_REPLACED : 0);
			count += !in[n];
			in[n] = 1;
			break;
		case 1:
			expect_eq(pointers_take(&table, address, &got),
				  in[n] ? 0 : POINTERS_UNKNOWN);
			expect(!in[n] || same(&wanted, &got));
			count -= in[n];
			in[n] = 0;
			break;
		default:
			expect_eq(pointers_find(&table, address, &got),
				  in[n] ? 0 : POINTERS_UNKNOWN);
			expect(!in[n] || same(&wanted, &got));
		}
		if (step % 1000 == 0)
			expect_eq(pointers_count(&table), count);
	}
	for (unsigned n = 0; n < addresses; n++) {
		struct pointer got;

		expect_eq(pointers_find(&table, 0x7f0000000000 + n * stride, &got),
			  in[n] ? 0 : POINTERS_UNKNOWN);
	}
}

TEST(after_any_history_the_table_holds_all_that_was_put_and_not_taken)
{
	static const uint64_t strides[] = {1, 256, 512, 2 << 20, 0x9e3779b1};

	for (size_t i = 0; i < ARRAY_SIZE(strides); i++) {
		history(strides[i], 20000, test_rounds(60000));
		history(strides[i], 300, test_rounds(20000));
	}
}

enum { THREADS = 8, EACH = 2000, SHARED = 64 };

static unsigned taken_shared;

static void *work(void *argument)
{
	uint64_t base = 0x100000000ull * ((uintptr_t)argument + 1);
	struct pointer got;

	for (int round = 0; round < 5; round++) {
		for (uint64_t i = 0; i < EACH; i++)
			if (put(base + i * 512) != 0)
				return NULL;
		for (uint64_t i = 0; i < EACH; i++)
			if (pointers_take(&table, base + i * 512, &got) != 0 ||
			    got.address != base + i * 512)
				return NULL;
	}
	for (uint64_t i = 1; i <= SHARED; i++)
		if (pointers_take(&table, i * 512, &got) == 0)
			__atomic_fetch_add(&taken_shared, 1, __ATOMIC_RELAXED);
	return argument;
}

TEST(threads_do_not_disturb_each_other_and_one_gets_the_value_that_all_want)
{
	pthread_t thread[THREADS];

	pointers_forget(&table);
	taken_shared = 0;
	for (uint64_t i = 1; i <= SHARED; i++)
		expect_eq(put(i * 512), 0);
	for (uintptr_t i = 0; i < THREADS; i++)
		expect_eq(pthread_create(&thread[i], NULL, work, (void *)(i + 1)), 0);
	for (uintptr_t i = 0; i < THREADS; i++) {
		void *result;

		expect_eq(pthread_join(thread[i], &result), 0);
		expect_eq((uintptr_t)result, i + 1);
	}
	expect_eq(taken_shared, SHARED);
	expect_eq(pointers_count(&table), 0);
}
