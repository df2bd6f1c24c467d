/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/memory/pools_book.h"

#include <stdatomic.h>
#include <string.h>

#include "guest/credit/amounts.h"
#include "guest/credit/blocks.h"
#include "guest/credit/credit.h"
#include "guest/credit/pointers.h"
#include "guest/driver/nested.h"
#include "guest/driver/real.h"
#include "guest/movable/movable.h"
#include "guest/process/changes.h"
#include "guest/process/parts.h"
#include "guest/process/state.h"
#include "guest/time/capture.h"

enum {
	POOLS = 1024, /* known; further ones are refused */
};

static struct {
	struct futex_lock lock; /* of adding */
	struct futex_lock loose_lock;
	_Atomic uint32_t made;
	struct pool pool[POOLS];
} pools;

_Atomic uint32_t
	pools_due; /* counts frees in stream order, and lowered thresholds; 0: nothing is loose */

static bool used(void)
{
	return atomic_load_explicit(&pools.made, memory_order_relaxed) != 0;
}

struct pool *pools_find(CUmemoryPool handle)
{
	uint32_t made = atomic_load(&pools.made);

	for (uint32_t i = 0; i < made; i++)
		if (atomic_load_explicit(&pools.pool[i].handle, memory_order_relaxed) == handle)
			return &pools.pool[i];
	return NULL;
}

struct pool *pools_add(CUmemoryPool handle, int device)
{
	struct pool *pool;
	uint32_t i = 0;

	futex_lock_take(&pools.lock);
	pool = pools_find(handle);
	while (!pool && i < POOLS && atomic_load(&pools.pool[i].handle))
		i++;
	if (!pool && i < POOLS) {
		pool = &pools.pool[i];
		pool->device = device;
		pool->ended = false;
		atomic_store(&pool->charged, 0);
		atomic_store(&pool->kept, 0);
		atomic_store(&pool->live, 0);
		pools_firm_forget(pool);
		pool->held = 0;
		pool->step = BLOCKS_BYTES;
		atomic_store(&pool->alive, 0);
		atomic_store(&pool->handle, handle);
		if (i >= atomic_load(&pools.made))
			atomic_store(&pools.made, i + 1);
	}
	futex_lock_give(&pools.lock);
	return pool;
}

uint64_t pools_attribute(CUmemoryPool handle, CUmemPool_attribute which, uint64_t otherwise)
{
	cuuint64_t value = 0;

	if (driver_call(real(cuMemPoolGetAttribute)(handle, which, &value)) != CUDA_SUCCESS)
		return otherwise;
	return value;
}

/* The unused memory of a pool, which the driver may release whenever something is waited for,
 * before we hear of it. The driver does so by blocks; so the figure changes by blocks, too. */
static uint64_t loose(const struct pool *pool)
{
	uint64_t charged = pool->charged, live = pool->live & ~(BLOCKS_BYTES - 1);
	uint64_t kept = pool->kept, firm = live > kept ? live : kept;

	return charged > firm ? charged - firm : 0;
}

void pools_show_loose(int device)
{
	uint64_t sum = 0;

	futex_lock_take(&pools.loose_lock);
	for (uint32_t i = 0; i < atomic_load(&pools.made); i++) {
		const struct pool *pool = &pools.pool[i];

		if (atomic_load(&pool->handle) && pool->device == device)
			sum += loose(pool);
	}
	credit_loose(device, sum);
	futex_lock_give(&pools.loose_lock);
}

/* With the lock held. */
static void charge(struct pool *pool, uint64_t holds)
{
	changes_begin();
	if (holds < pool->charged)
		credit_give(pool->device, pool->charged - holds);
	else if (holds > pool->charged &&
		 credit_take(pool->device, holds - pool->charged, CREDIT_OWED) != 0)
		holds = pool->charged;
	pool->charged = holds;
	if (holds)
		movable_why(WIRE_UNMOVABLE_POOL);
	pools_show_loose(pool->device);
	changes_end();
}

bool pools_grew(struct pool *pool, uint64_t holds, uint64_t held)
{
	struct state_device *d = &state.device[pool->device];
	uint64_t grown = holds > pool->charged ? holds - pool->charged : 0;
	uint64_t paid = grown < held ? grown : held;

	amounts_allocate(d, (int64_t)paid);
	amounts_release(d, held - paid);
	pool->charged += paid;
	if (holds != pool->charged)
		charge(pool, holds);
	else
		pools_show_loose(pool->device);
	return holds <= pool->charged;
}

void pools_recharge(struct pool *pool)
{
	uint64_t holds, kept;
	bool other;

	if (pool->device < 0)
		return;
	if (pool->ended && !capture_open())
		best_effort(driver_call(real(cuMemPoolTrimTo)(pool->handle, 0)));
	holds = pools_attribute(pool->handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, pool->charged);
	kept = pools_attribute(pool->handle, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 0);
	other = atomic_exchange(&pool->kept, kept) != kept;
	/* The driver releases memory that it no longer keeps while something is waited for. */
	if (other)
		atomic_fetch_add(&pools_due, 1);
	if (holds != pool->charged) {
		pools_firm_forget(pool);
		charge(pool, holds);
	} else if (other) {
		pools_show_loose(pool->device);
	}
	if (!pool->ended || holds != 0 || atomic_load(&pool->alive))
		return;
	best_effort(driver_call(real(cuMemPoolDestroy)(pool->handle)));
	atomic_store(&pool->handle, NULL);
}

/* If a thread does not get the lock, it notes that there is something to settle, and the thread
 * that gives the lock back settles it. */
static bool lock_if_free(struct pool *pool)
{
	atomic_store(&pool->owing, 1);
	return driver_lock_try(&pool->lock);
}

void pools_do_owed(struct pool *pool)
{
	while (unlikely(atomic_load(&pool->owing)) && lock_if_free(pool)) {
		atomic_store(&pool->owing, 0);
		if (atomic_load(&pool->handle))
			pools_recharge(pool);
		driver_lock_give(&pool->lock, true);
	}
}

static void each(int device, bool trim)
{
	uint32_t made = atomic_load(&pools.made);

	for (uint32_t i = 0; i < made; i++) {
		struct pool *pool = &pools.pool[i];

		if (!atomic_load(&pool->handle) || pool->device < 0 ||
		    (device >= 0 && pool->device != device) || !lock_if_free(pool))
			continue;
		if (trim && pool->charged)
			best_effort(driver_call(real(cuMemPoolTrimTo)(pool->handle, 0)));
		pools_unlock(pool, true);
	}
}

void pools_settle(int device)
{
	each(device, false);
}

void pools_trim(int device, uint64_t bytes)
{
	if (credit_unused(device) < bytes && !capture_open())
		each(device, true);
}

static bool any_loose(void)
{
	for (uint32_t i = 0; i < atomic_load(&pools.made); i++)
		if (pools.pool[i].device >= 0 && loose(&pools.pool[i]))
			return true;
	return false;
}

/* While anything is loose, each wait rereads the pools: the driver may have released it during that
 * wait. */
void pools_waited(void)
{
	uint32_t due = atomic_load_explicit(&pools_due, memory_order_relaxed);

	if (likely(due == 0))
		return;
	pools_settle(-1);
	if (!any_loose())
		atomic_compare_exchange_strong(&pools_due, &due, 0);
}

void pools_leaves(struct pool *pool)
{
	pools_firm_forget(pool);
}

void pools_freed(struct pool *pool, uint64_t bytes)
{
	uint64_t before = atomic_fetch_sub(&pool->live, bytes);

	atomic_fetch_sub(&pool->alive, 1);
	pools_show_change(pool, before, before - bytes);
	atomic_fetch_add(&pools_due, 1);
	/* The driver releases it when something is waited for, and pools_waited() rereads then. */
	if (unlikely(pool->ended) && lock_if_free(pool))
		pools_unlock(pool, true);
}

void pools_entry_leaves(const struct pointer *entry)
{
	pools_leaves(memory_pool_of(entry));
}

void pools_entry_freed(const struct pointer *entry)
{
	pools_freed(memory_pool_of(entry), entry->bytes);
}

bool pools_recount(int device)
{
	if (!used())
		return false;
	pools_settle(device);
	return true;
}

void pools_forget(void)
{
	uint32_t made = atomic_load(&pools.made);

	memset(pools.pool, 0, made * sizeof(pools.pool[0]));
	atomic_store(&pools.made, 0);
	atomic_store(&pools_due, 0);
	pools_changed();
	memset(&pools.lock, 0, sizeof(pools.lock));
	memset(&pools.loose_lock, 0, sizeof(pools.loose_lock));
}
