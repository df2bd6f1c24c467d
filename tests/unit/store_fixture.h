/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests of node/move/store.h: stores on a loop, with their processes. */
#pragma once

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
	struct store_part part;
	int ready, failed, cleared, error;
	uint64_t most;
} w;

static inline void on_cleared(struct stores *stores)
{
	(void)stores;
	w.cleared++;
}

static inline void on_ready(struct store_segment *segment, int error)
{
	(void)segment;
	w.error = error;
	w.ready += error == 0;
	w.failed += error != 0;
}

static inline void begin(uint64_t budget)
{
	memset(&w, 0, sizeof(w));
	w.part.budget_bytes = budget;
	expect_eq(loop_init(&w.loop), 0);
	expect_eq(stores_init(&w.stores, &w.loop, budget, UINT64_MAX / 2, on_cleared), 0);
}

/* All that is to be prepared, or cleared, is. */
static inline void settle(void)
{
	loop_run(&w.loop);
	expect(w.stores.used_bytes <= w.stores.budget_bytes);
	expect(w.part.used_bytes <= w.part.budget_bytes && !w.part.leaving_bytes &&
	       !w.part.lost_bytes);
}

static inline void end(void)
{
	settle();
	expect_eq(w.stores.used_bytes, 0);
	expect_eq(w.part.used_bytes, 0);
	stores_close(&w.stores);
	loop_done(&w.loop);
}

static inline struct store *a_store_of(uid_t user, uint64_t quota)
{
	const struct store_owner owner = {.tenant = 1, .user = user};
	struct store *store = NULL;

	expect_eq(store_open(&w.stores, quota, &owner, &store), 0);
	return store;
}

static inline struct store *a_store(uint64_t quota)
{
	return a_store_of(0, quota);
}

static inline struct store_segment *take_bytes(struct store *store, uint64_t bytes)
{
	struct store_segment *segment = NULL;

	expect_eq(store_take(store, &w.part, bytes, on_ready, &segment), 0);
	return segment;
}

static inline int refusal(struct store *store, uint64_t bytes)
{
	struct store_segment *segment;

	return store_take(store, &w.part, bytes, on_ready, &segment);
}

/* Bytes that have pages. */
static inline uint64_t pages_of(const struct store *store)
{
	struct stat info;

	expect_eq(fstat(store_fd(store), &info), 0);
	return (uint64_t)info.st_blocks * 512;
}

static inline uint8_t *map(const struct store *store, uint64_t offset, uint64_t bytes)
{
	uint8_t *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, store_fd(store),
			   (off_t)offset);

	expect(at != MAP_FAILED);
	return at;
}

static inline bool is_zero(const struct store *store, uint64_t offset, uint64_t bytes)
{
	uint8_t *at = map(store, offset, bytes);
	bool zero = true;

	for (uint64_t i = 0; i < bytes; i++)
		zero = zero && !at[i];
	munmap(at, bytes);
	return zero;
}

static inline void fill(const struct store *store, uint64_t offset, uint64_t bytes)
{
	uint8_t *at = map(store, offset, bytes);

	memset(at, 0x5a, bytes);
	munmap(at, bytes);
}
