/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device's amounts, in struct state_device: credit and allocated. Credit is one atomic word,
 * because the agent must be able to return it wherever the program's threads are stopped. The
 * allocated amount and its copy in the own page have a lock, so that the page is never behind. The
 * lock is held for a few instructions, without calls. Reading one amount needs no lock.
 *
 * guest/credit/credit.h communicates with the daemon.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"
#include "guest/futex.h"
#include "guest/process/state.h"

static inline uint64_t amounts_read(_Atomic uint64_t *amount)
{
	return atomic_load_explicit(amount, memory_order_relaxed);
}

/* Where the own page shows them. */
static inline_ struct wire_own_device *amounts_page(struct state_device *d)
{
	return &guest_own_page.device[atomic_load_explicit(&d->wire_index, memory_order_relaxed)];
}

/* With the lock held. */
static inline_ void amounts_set_allocated(struct state_device *d, struct wire_own_device *page,
					  uint64_t allocated)
{
	atomic_store_explicit(&d->allocated, allocated, memory_order_relaxed);
	__atomic_store_n(&page->allocated_bytes, allocated, __ATOMIC_RELEASE);
	__atomic_store_n(&page->credit_bytes, amounts_read(&d->credit), __ATOMIC_RELAXED);
}

/* Takes credit, if there is enough, for the next allocation; or sets it aside for what a call
 * may take, which the page need not show. */
static inline_ bool amounts_hold(struct state_device *d, uint64_t bytes)
{
	uint64_t credit = amounts_read(&d->credit);

	do {
		if (unlikely(credit < bytes))
			return false;
	} while (unlikely(!atomic_compare_exchange_weak(&d->credit, &credit, credit - bytes)));
	return true;
}

/* Returns unused credit. The result is the credit now. */
static inline_ uint64_t amounts_release(struct state_device *d, uint64_t bytes)
{
	return atomic_fetch_add(&d->credit, bytes) + bytes;
}

/* Changes the allocated amount by this much. */
static inline_ void amounts_allocate(struct state_device *d, int64_t bytes)
{
	struct wire_own_device *page;
	uint64_t allocated;

	futex_lock_take(&d->lock);
	page = amounts_page(d);
	allocated = amounts_read(&d->allocated) + (uint64_t)bytes;
	amounts_set_allocated(d, page, allocated);
	if (unlikely(allocated > __atomic_load_n(&page->peak_bytes, __ATOMIC_RELAXED)))
		__atomic_store_n(&page->peak_bytes, allocated, __ATOMIC_RELAXED);
	futex_lock_give(&d->lock);
}

/* Moves bytes from credit to allocated, if there are so many. */
static inline_ bool amounts_take(struct state_device *d, uint64_t bytes)
{
	whole_address(d);
	if (unlikely(!amounts_hold(d, bytes)))
		return false;
	amounts_allocate(d, (int64_t)bytes);
	return true;
}

/* Moves bytes from allocated to credit, but no more than there are. Returns what is credit now. */
static inline_ uint64_t amounts_give(struct state_device *d, uint64_t bytes)
{
	uint64_t allocated, credit;

	whole_address(d);
	futex_lock_take(&d->lock);
	allocated = amounts_read(&d->allocated);
	if (unlikely(bytes > allocated))
		bytes = allocated;
	credit = amounts_release(d, bytes);
	amounts_set_allocated(d, amounts_page(d), allocated - bytes);
	futex_lock_give(&d->lock);
	return credit;
}
