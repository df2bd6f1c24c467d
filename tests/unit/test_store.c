/* SPDX-License-Identifier: Apache-2.0 */
/* The store: memory that is given out is zero, never exceeds the budget, and comes back, whatever a
 * tenant does to its file. */
#include <sys/resource.h>

#include "tests/unit/store_fixture.h"

TEST(a_segment_has_its_pages_when_it_is_ready_and_none_after_it_was_given_back)
{
	struct store_segment *segment;
	struct store *store;

	begin(64 * GRAIN);
	store = a_store(64 * GRAIN);
	expect_eq(pages_of(store), 0);
	segment = take_bytes(store, 20 * GRAIN + 1);
	expect_eq(w.ready, 0);
	settle();
	expect_eq(w.ready, 1);
	expect_eq(segment->bytes, 21 * GRAIN);
	expect_eq(pages_of(store), 21 * GRAIN);
	expect_eq(store_used(store), 21 * GRAIN);
	store_give_back(segment);
	expect_eq(store_used(store), 21 * GRAIN); /* until it is cleared */
	settle();
	expect_eq(pages_of(store), 0);
	expect_eq(store_used(store), 0);
	expect_eq(w.cleared, 1);
	store_close(store);
	end();
}

/* The kernel does not count pages that are allocated and not cleared yet. */
static bool all_cleared(const struct store *store, uint64_t offset, uint64_t bytes)
{
	static unsigned char there[64 * GRAIN / 4096];
	uint8_t *at = map(store, offset, bytes);
	bool cleared = true;

	expect_eq(mincore(at, bytes, there), 0);
	for (uint64_t i = 0; i < bytes / 4096; i++)
		cleared = cleared && (there[i] & 1);
	munmap(at, bytes);
	return cleared;
}

TEST(all_pages_are_cleared_however_many_processes_share_a_piece)
{
	for (store_file_parts = 1; store_file_parts <= 5; store_file_parts++) {
		struct store_segment *segment;
		struct store *store;

		begin(64 * GRAIN);
		store = a_store(64 * GRAIN);
		segment = take_bytes(store, 21 * GRAIN);
		settle();
		expect_eq(w.ready, 1);
		expect(all_cleared(store, segment->offset, segment->bytes));
		store_close(store);
		end();
	}
	store_file_parts = 0;
}

TEST(memory_that_is_given_out_is_zero_whatever_was_written_there)
{
	struct store_segment *segment;
	struct store *store;

	begin(64 * GRAIN);
	store = a_store(64 * GRAIN);
	fill(store, 0, GRAIN); /* where nobody has a segment */
	segment = take_bytes(store, GRAIN);
	settle();
	expect(is_zero(store, segment->offset, GRAIN));
	fill(store, segment->offset, GRAIN);
	store_give_back(segment);
	segment = take_bytes(store, 2 * GRAIN);
	settle();
	fill(store, 4 * GRAIN, GRAIN);
	store_give_back(segment);
	settle();
	segment = take_bytes(store, 8 * GRAIN);
	settle();
	expect_eq(segment->offset, 0);
	expect(is_zero(store, 0, 8 * GRAIN));
	store_close(store);
	end();
}

TEST(hostile_sizes_are_refused_and_cost_nothing)
{
	const struct store_owner owner = {.tenant = 1};
	struct store *store;

	begin(64 * GRAIN);
	store = a_store(16 * GRAIN);
	expect_eq(refusal(store, 0), -EINVAL);
	expect_eq(refusal(store, UINT64_MAX), STORE_QUOTA);
	expect_eq(refusal(store, UINT64_MAX - GRAIN + 2), STORE_QUOTA);
	expect_eq(refusal(store, 1ull << 63), STORE_QUOTA);
	expect_eq(refusal(store, 16 * GRAIN + 1), STORE_QUOTA);
	expect_eq(w.stores.used_bytes, 0);
	store_close(store);
	store = a_store(UINT64_MAX);
	expect_eq(refusal(store, UINT64_MAX), STORE_QUOTA);
	expect_eq(refusal(store, 1ull << 62), STORE_BUDGET);
	store_close(store);
	expect_eq(store_open(&w.stores, GRAIN - 1, &owner, &store), -ENOSPC);
	end();
}

TEST(quota_and_budget_are_used_to_the_last_byte_and_never_exceeded)
{
	struct store *first, *second;

	begin(6 * GRAIN);
	first = a_store(4 * GRAIN);
	second = a_store(4 * GRAIN);
	take_bytes(first, 4 * GRAIN);
	expect_eq(refusal(first, 1), STORE_QUOTA);
	expect_eq(refusal(second, 2 * GRAIN + 1), STORE_BUDGET);
	take_bytes(second, 2 * GRAIN);
	expect_eq(refusal(second, 1), STORE_BUDGET);
	settle();
	expect_eq(w.ready, 2);
	store_close(first);
	/* Memory that is being cleared still counts. */
	expect_eq(refusal(second, 1), STORE_BUDGET);
	settle();
	take_bytes(second, 1);
	store_close(second);
	end();
}

TEST(the_first_place_that_is_large_enough_is_taken)
{
	struct store_segment *parts[5];
	struct store *store;

	begin(64 * GRAIN);
	store = a_store(16 * GRAIN);
	for (unsigned i = 0; i < 5; i++)
		parts[i] = take_bytes(store, (i + 1) * GRAIN);
	expect_eq(refusal(store, 2 * GRAIN), STORE_QUOTA);
	store_give_back(parts[1]);
	store_give_back(parts[3]);
	settle();
	expect_eq(take_bytes(store, 3 * GRAIN)->offset, 6 * GRAIN);
	expect_eq(take_bytes(store, 2 * GRAIN)->offset, GRAIN);
	/* Two bytes are free, in two places. */
	expect_eq(refusal(store, 2 * GRAIN), STORE_QUOTA);
	expect_eq(take_bytes(store, GRAIN)->offset, 9 * GRAIN);
	store_close(store);
	end();
}

TEST(a_segment_may_go_back_at_any_moment)
{
	struct store_segment *one, *other;
	struct store *store;

	begin(64 * GRAIN);
	store = a_store(64 * GRAIN);
	one = take_bytes(store, 16 * GRAIN); /* the worker has its first piece */
	other = take_bytes(store, 16 * GRAIN);
	store_give_back(one);
	store_give_back(other);
	settle();
	expect_eq(w.ready, 0);
	expect_eq(pages_of(store), 0);
	take_bytes(store, 16 * GRAIN);
	store_close(store);
	end();
	expect_eq(w.ready, 0);
}

static ino_t inode_of(const struct store *store)
{
	struct stat file;

	expect_eq(fstat(store_fd(store), &file), 0);
	return file.st_ino;
}

TEST(no_memory_of_one_tenant_is_anothers)
{
	struct store *first, *second;

	begin(64 * GRAIN);
	first = a_store(8 * GRAIN);
	second = a_store(8 * GRAIN);
	expect(inode_of(first) != inode_of(second));
	take_bytes(first, GRAIN);
	take_bytes(second, GRAIN);
	settle();
	fill(first, 0, GRAIN);
	expect(is_zero(second, 0, GRAIN));
	store_close(first);
	store_close(second);
	end();
}

TEST(no_device_takes_of_anothers_part_whichever_tenants_file_it_is)
{
	struct store_part other = {.budget_bytes = 4 * GRAIN};
	struct store_segment *its, *last;
	struct store *store;

	begin(10 * GRAIN);
	w.part.budget_bytes = 6 * GRAIN;
	store = a_store(10 * GRAIN);
	its = take_bytes(store, 6 * GRAIN);
	expect_eq(refusal(store, 1), STORE_BUDGET);
	expect_eq(store_take(store, &other, 4 * GRAIN, on_ready, &last), 0);
	store_give_back(its);
	expect_eq(w.part.leaving_bytes, 6 * GRAIN);
	expect_eq(other.leaving_bytes, 0);
	settle();
	/* Memory that one has cleared is not the other's. */
	expect_eq(store_take(store, &other, 1, on_ready, &its), STORE_BUDGET);
	expect_eq(w.part.used_bytes, 0);
	store_close(store);
	end();
	expect_eq(other.used_bytes, 0);
}

/* Without descriptors no worker is made. */
static void allow_descriptors(bool any)
{
	static struct rlimit usual;
	struct rlimit none;

	if (any) {
		expect_eq(setrlimit(RLIMIT_NOFILE, &usual), 0);
		return;
	}
	expect_eq(getrlimit(RLIMIT_NOFILE, &usual), 0);
	none = (struct rlimit){.rlim_cur = 0, .rlim_max = usual.rlim_max};
	expect_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
}

TEST(a_segment_is_had_before_the_news_that_no_worker_can_be_made)
{
	struct store *first, *second;

	begin(8 * GRAIN);
	first = a_store(4 * GRAIN);
	second = a_store(4 * GRAIN);
	allow_descriptors(false);
	take_bytes(first, GRAIN);
	expect_eq(w.failed, 0);
	/* The next try is for the first one, and is in vain, too. */
	take_bytes(second, GRAIN);
	expect_eq(w.failed, 1);
	expect_eq(w.error, -EMFILE);
	allow_descriptors(true);
	take_bytes(second, GRAIN);
	settle();
	expect_eq(w.ready, 2);
	expect_eq(w.failed, 1);
	store_close(first);
	store_close(second);
	end();
}

TEST(the_file_can_neither_shrink_nor_grow_nor_be_unsealed)
{
	struct store *store;

	begin(64 * GRAIN);
	store = a_store(8 * GRAIN);
	expect(ftruncate(store_fd(store), GRAIN) != 0);
	expect(ftruncate(store_fd(store), 80l * GRAIN) != 0);
	expect(fallocate(store_fd(store), 0, 8l * GRAIN, GRAIN) != 0);
	expect(fcntl(store_fd(store), F_ADD_SEALS, F_SEAL_WRITE) != 0);
	store_close(store);
	end();
}

TEST(random_histories_leave_nothing)
{
	struct store_segment *held[MOST] = {NULL};
	struct store *stores[2];
	uint64_t sums[2] = {0};

	begin(40 * GRAIN);
	stores[0] = a_store(30 * GRAIN);
	stores[1] = a_store(30 * GRAIN);
	for (int i = 0; i < 400; i++) {
		unsigned at = (unsigned)test_random_below(MOST);
		struct store_segment *segment = NULL;
		unsigned whose = at % 2;

		if (held[at]) {
			store_give_back(take(held[at]));
		} else if (store_take(stores[whose], &w.part, 1 + test_random_below(6 * GRAIN),
				      on_ready, &segment) == 0) {
			held[at] = segment;
		}
		if (test_random_below(4) == 0)
			settle();
		expect(w.stores.used_bytes <= 40 * GRAIN);
		for (unsigned n = 0; n < 2; n++)
			expect(store_used(stores[n]) <= 30 * GRAIN);
	}
	settle();
	for (unsigned i = 0; i < MOST; i++)
		sums[i % 2] += held[i] ? held[i]->bytes : 0;
	for (unsigned n = 0; n < 2; n++) {
		expect_eq(store_used(stores[n]), sums[n]);
		expect_eq(pages_of(stores[n]), sums[n]);
		store_close(stores[n]);
	}
	end();
}
