/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program is told about its memory: a device of the size of its limit, of which it and its
 * siblings use a part.
 *
 *	total = min(limit, the device's memory)
 *	free  = min(limit - what the tenant has been granted, the device's room) + unused credit
 *
 * Both are the daemon's figures, in the tenant's page. An allocation from this process's credit
 * shows at once, as the credit shrinks; no figure can fall below zero. Unused credit of siblings
 * and of neighbours is free as well: it is recalled when it is needed. Only they know it, so the
 * daemon is asked to look. A process that is alone does not wait for that.
 */
#include "guest/credit/view.h"

#include <stdbool.h>

#include "base/least.h"
#include "guest/credit/credit.h"
#include "guest/link/link.h"
#include "guest/process/state.h"

enum {
	LOOKS = 8, /* who is asked for credit again and again is told what was so a moment ago */
};

/* The tenant's unused credit: ours, and its other processes', if the daemon has looked just now. */
static uint64_t idle_bytes(int device, uint64_t granted, bool looked)
{
	uint64_t own = credit_idle(device), used = state_page(device, used_bytes);
	uint64_t all = granted > used ? granted - used : 0;

	return looked && all > own && state_page(device, guests) > 1 ? all : own;
}

/* What was used when it was looked at last with a daemon. The next daemon's page shows none of it
 * until it has heard what we hold. */
static _Atomic uint64_t used_before[STATE_DEVICES];

static uint64_t with_former(int device, uint64_t used)
{
	uint64_t before = atomic_load_explicit(&used_before[device], memory_order_relaxed);

	if (atomic_load(&state.lost))
		return used > before ? used : before;
	atomic_store_explicit(&used_before[device], used, memory_order_relaxed);
	return used;
}

static uint64_t free_bytes(int device, uint64_t total, bool looked)
{
	uint64_t lent = (uint64_t)state_page(device, lent_mib) << 20;
	uint64_t room = state_page(device, room_bytes) + lent;
	uint64_t granted = state_page(device, granted_bytes);
	uint64_t idle = idle_bytes(device, granted, looked);
	uint64_t used = granted > idle ? granted - idle : 0;

	/* An older daemon, without that field. */
	if (granted == 0)
		used = state_page(device, used_bytes);
	if (used < credit_allocated(device))
		used = credit_allocated(device);
	used = with_former(device, used);
	return least(used < total ? total - used : 0, room + idle);
}

uint64_t view_total(int device, uint64_t physical_bytes)
{
	uint64_t limit = state_page(device, limit_bytes);

	return limit ? least(limit, physical_bytes) : physical_bytes;
}

uint64_t view_left(int device)
{
	uint64_t total = view_total(device, state_page(device, total_bytes));
	uint64_t granted = state_page(device, granted_bytes), own = credit_idle(device);
	uint64_t used = granted > own ? granted - own : 0;

	return used < total ? total - used : 0;
}

uint64_t view_free_seen(int device)
{
	return free_bytes(device, view_total(device, state_page(device, total_bytes)), false);
}

/* Waits for the daemon to look, if its figures may be of before that. */
static bool look(int device)
{
	size_t rows;

	/* Credit that was returned a moment ago must be seen as free. */
	if (!credit_returned(device) && state_page(device, guests) <= 1 &&
	    (!state_page(device, guests) || !state_page(device, rivals)))
		return false;
	return link_processes(device, NULL, 0, &rows) == 0;
}

void view_memory(int device, uint64_t physical_bytes, struct view_memory *ret_memory)
{
	uint32_t recalls;
	int looks = 0;

	/* What a recall takes off is no credit of ours any more, and granted until the daemon has
	 * heard of it: such figures do not belong together. */
	do {
		bool looked;

		recalls = credit_recalls();
		looked = look(device);
		ret_memory->total = view_total(device, physical_bytes);
		ret_memory->free = free_bytes(device, ret_memory->total, looked);
	} while ((recalls % 2 || recalls != credit_recalls()) && ++looks < LOOKS);
}
