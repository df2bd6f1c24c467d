/* SPDX-License-Identifier: Apache-2.0 */
/* The store: what is given out, is zero, is never more than the budget, and comes back, whatever a
 * tenant does to its file. */
#include "node/move/store.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "tests/test.h"

enum { GRAIN = STORE_GRAIN, MOST = 64 };

static struct {
	struct loop loop;
	struct stores stores;
	int ready, failed, cleared, error;
	uint64_t most;
} w;

static void on_cleared(struct stores *stores)
{
	(void)stores;
	w.cleared++;
}

static void on_ready(struct store_segment *segment, int error)
{
	(void)segment;
	w.error = error;
	w.ready += error == 0;
	w.failed += error != 0;
}

static void begin(uint64_t budget)
{
	memset(&w, 0, sizeof(w));
	expect_eq(loop_init(&w.loop), 0);
	expect_eq(stores_init(&w.stores, &w.loop, budget, UINT64_MAX / 2, on_cleared), 0);
}

/* All that is to be prepared, or cleared, is. */
static void settle(void)
{
	loop_run(&w.loop);
	expect(w.stores.used_bytes <= w.stores.budget_bytes);
}

static void end(void)
{
	settle();
	expect_eq(w.stores.used_bytes, 0);
	stores_close(&w.stores);
	loop_done(&w.loop);
}

static struct store *a_store_of(uid_t user, uint64_t quota)
{
	const struct store_owner owner = {.tenant = 1, .user = user};
	struct store *store = NULL;

	expect_eq(store_open(&w.stores, quota, &owner, &store), 0);
	return store;
}

static struct store *a_store(uint64_t quota)
{
	return a_store_of(0, quota);
}

static struct store_segment *take_bytes(struct store *store, uint64_t bytes)
{
	struct store_segment *segment = NULL;

	expect_eq(store_take(store, bytes, on_ready, &segment), 0);
	return segment;
}

static int refusal(struct store *store, uint64_t bytes)
{
	struct store_segment *segment;

	return store_take(store, bytes, on_ready, &segment);
}

/* Bytes that have pages. */
static uint64_t pages_of(const struct store *store)
{
	struct stat info;

	expect_eq(fstat(store_fd(store), &info), 0);
	return (uint64_t)info.st_blocks * 512;
}

static uint8_t *map(const struct store *store, uint64_t offset, uint64_t bytes)
{
	uint8_t *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, store_fd(store),
			   (off_t)offset);

	expect(at != MAP_FAILED);
	return at;
}

static bool is_zero(const struct store *store, uint64_t offset, uint64_t bytes)
{
	uint8_t *at = map(store, offset, bytes);
	bool zero = true;

	for (uint64_t i = 0; i < bytes; i++)
		zero = zero && !at[i];
	munmap(at, bytes);
	return zero;
}

static void fill(const struct store *store, uint64_t offset, uint64_t bytes)
{
	uint8_t *at = map(store, offset, bytes);

	memset(at, 0x5a, bytes);
	munmap(at, bytes);
}

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

TEST(what_is_given_out_is_zero_whatever_was_written_there)
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
	/* What is being cleared still counts. */
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

TEST(nothing_of_one_tenants_is_anothers)
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

/* ---- a file whose lock is held --------------------------------------------------------------- */

/* Holds the lock of a file by writing a page to it that does not come. */
struct holder {
	pthread_t thread;
	void *page;
	int uffd, fd;
};

static void *hold(void *argument)
{
	const struct holder *holder = argument;

	best_effort(pwrite(holder->fd, holder->page, 4096, 0));
	return NULL;
}

/* False: it cannot be done here. */
static bool holds(struct holder *holder, int fd)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register range = {.range.len = 4096, .mode = UFFDIO_REGISTER_MODE_MISSING};
	struct uffd_msg asked;

	*holder = (struct holder){.fd = fd};
	holder->uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (holder->uffd < 0 || ioctl(holder->uffd, UFFDIO_API, &api) != 0)
		return false;
	holder->page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	expect(holder->page != MAP_FAILED);
	range.range.start = (uintptr_t)holder->page;
	expect_eq(ioctl(holder->uffd, UFFDIO_REGISTER, &range), 0);
	expect_eq(pthread_create(&holder->thread, NULL, hold, holder), 0);
	expect_eq(read(holder->uffd, &asked, sizeof(asked)), sizeof(asked));
	return true;
}

static void lets_go(struct holder *holder)
{
	struct uffdio_zeropage zero = {.range = {(uintptr_t)holder->page, 4096}};

	expect_eq(ioctl(holder->uffd, UFFDIO_ZEROPAGE, &zero), 0);
	pthread_join(holder->thread, NULL);
	munmap(holder->page, 4096);
	close(holder->uffd);
}

/* Whoever is at work is late. */
static void let_time_pass(void)
{
	w.stores.workers.late_ns = 0;
	loop_arm(&w.stores.workers.timer, 0);
	while (list_empty(&w.stores.held))
		expect(loop_once(&w.loop));
	w.stores.workers.late_ns = UINT64_MAX / 2;
}

TEST(who_holds_its_files_lock_holds_up_nobody_else_and_is_refused_until_it_lets_go)
{
	struct store *first, *second;
	struct store_segment *its;
	struct holder holder;

	begin(64 * GRAIN);
	first = a_store(32 * GRAIN);
	second = a_store(32 * GRAIN);
	if (!holds(&holder, store_fd(first)))
		test_skip("the kernel lets nobody handle page faults; run it as root");
	take_bytes(first, GRAIN);
	take_bytes(first, GRAIN);
	its = take_bytes(second, 8 * GRAIN);
	while (!w.ready)
		expect(loop_once(&w.loop));
	expect(its->prepared);
	let_time_pass();
	/* Both are refused, and all further ones at once. */
	expect_eq(w.failed, 2);
	expect_eq(w.error, -EBUSY);
	expect(store_is_held(first) && !store_is_held(second));
	expect_eq(refusal(first, GRAIN), -EBUSY);
	store_give_back(its);
	while (store_used(second))
		expect(loop_once(&w.loop));
	/* What it has counts, and is not waited for. */
	expect_eq(w.stores.used_bytes, store_used(first));
	expect_eq(stores_lost(&w.stores), w.stores.leaving_bytes);
	lets_go(&holder);
	settle();
	expect(!store_is_held(first));
	expect_eq(store_used(first), 0);
	take_bytes(first, GRAIN);
	settle();
	expect_eq(w.ready, 2);
	store_close(first);
	store_close(second);
	end();
}

TEST(a_daemon_ends_although_a_files_lock_is_held)
{
	struct store *store;
	struct holder holder;
	int file;

	begin(64 * GRAIN);
	store = a_store(32 * GRAIN);
	file = dup(store_fd(store));
	if (!holds(&holder, file))
		test_skip("the kernel lets nobody handle page faults; run it as root");
	take_bytes(store, GRAIN);
	store_close(store); /* its tenant has left, and is waited for */
	let_time_pass();
	expect(stores_lost(&w.stores));
	stores_close(&w.stores);
	loop_done(&w.loop);
	lets_go(&holder);
	close(file);
}

TEST(a_users_slow_stores_are_bounded_and_another_users_go_on)
{
	enum { HELD = STORE_SLOW_OF_USER + STORE_AT_WORK };
	static struct store *held[HELD];
	static struct holder holders[HELD];
	struct store *other;

	begin((HELD + 1) * GRAIN);
	for (int i = 0; i < HELD; i++) {
		held[i] = a_store_of(1, GRAIN);
		if (!holds(&holders[i], store_fd(held[i])))
			test_skip("the kernel lets nobody handle page faults; run it as root");
		take_bytes(held[i], GRAIN);
	}
	while (w.stores.workers.at_work || list_empty(&w.stores.due))
		expect(loop_once(&w.loop));
	/* One waits at least, for which there would be a worker. */
	other = a_store_of(2, GRAIN);
	take_bytes(other, GRAIN);
	while (!w.ready)
		expect(loop_once(&w.loop));
	expect(!list_empty(&w.stores.due));
	for (int i = 0; i < HELD; i++)
		lets_go(&holders[i]);
	settle();
	expect_eq(w.ready, HELD + 1);
	for (int i = 0; i < HELD; i++)
		store_close(held[i]);
	store_close(other);
	end();
}

TEST(more_stores_than_workers_are_served)
{
	struct store *stores[3 * STORE_AT_WORK];

	begin(64 * GRAIN);
	for (size_t i = 0; i < ARRAY_SIZE(stores); i++) {
		stores[i] = a_store(2 * GRAIN);
		take_bytes(stores[i], GRAIN);
		expect(w.stores.workers.at_work <= STORE_AT_WORK);
	}
	settle();
	expect_eq(w.ready, ARRAY_SIZE(stores));
	for (size_t i = 0; i < ARRAY_SIZE(stores); i++)
		store_close(stores[i]);
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
		} else if (store_take(stores[whose], 1 + test_random_below(6 * GRAIN), on_ready,
				      &segment) == 0) {
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
