/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that moves, found by address: its description, and keeping it in place. */
#include "guest/credit/credit.h"
#include "guest/movable/movable.h"
#include "guest/movable/movable_object.h"
#include "guest/process/notice.h"
#include "guest/time/gate.h"
#include "wire/page.h"

struct movable_area *movable_around(uint64_t address)
{
	const struct range *range = ranges_find(&movable_.areas, address);

	return range && !movable_area_of(range)->own.is ? movable_area_of(range) : NULL;
}

/* With the lock held. The same, also for the program's own mappings. */
static struct movable_area *behind(uint64_t address)
{
	const struct range *range = ranges_find(&movable_.aliases, address);

	return range ? movable_area_of(range) : movable_around(address);
}

bool movable_find(uint64_t address, struct movable_seen *ret_seen)
{
	struct movable_area *area;
	bool found;

	if (likely(atomic_load_explicit(&movable_.open, memory_order_relaxed) == 0))
		return false;
	futex_lock_take(&movable_.lock);
	area = behind(address);
	if (area && area->own.is)
		found = movable_alias_find(area, address, ret_seen);
	else
		found = area && movable_area_find(area, address, ret_seen);
	futex_lock_give(&movable_.lock);
	return found;
}

bool movable_is_here(const struct movable_area *area)
{
	for (uint32_t i = 0; i < area->count; i++)
		if (area->block[i].where != MOVABLE_HERE)
			return false;
	return true;
}

void movable_fix(struct movable_area *area, uint32_t why)
{
	if (!area->why) {
		movable_.resident -= area->bytes;
		/* The report makes the daemon read the own page again. */
		movable_.done.failed++;
		movable_.report_due = true;
		movable_kick();
	}
	if (why & ~area->why & WIRE_UNMOVABLE_SHARED)
		credit_outgoing(movable_.device, (int64_t)area->bytes);
	area->why |= why;
	atomic_fetch_or(&movable_.why, why);
	movable_show();
}

void movable_await(void)
{
	uint32_t seen = atomic_load(&movable_.arrivals);

	if (!gate_await_residency())
		futex_wait(&movable_.arrivals, seen, 1, FUTEX_PRIVATE_FLAG);
}

/* With the lock held; released while waiting. */
static struct movable_area *await_at(uint64_t address)
{
	struct movable_area *area;
	uint64_t began = 0;

	while ((area = behind(address)) && !movable_is_here(area)) {
		futex_lock_give(&movable_.lock);
		notice_wait(&began, NOTICE_MEMORY);
		movable_await();
		futex_lock_take(&movable_.lock);
	}
	return area;
}

bool movable_await_at(uint64_t address)
{
	struct movable_area *area;

	if (atomic_load(&movable_.open) == 0)
		return false;
	futex_lock_take(&movable_.lock);
	area = await_at(address);
	futex_lock_give(&movable_.lock);
	return area != NULL;
}

bool movable_pin(uint64_t address, uint32_t why)
{
	struct movable_area *area;

	if (atomic_load(&movable_.open) == 0)
		return false;
	futex_lock_take(&movable_.lock);
	area = await_at(address);
	if (area)
		movable_fix(area, why);
	futex_lock_give(&movable_.lock);
	return area != NULL;
}

bool movable_pin_range(uint64_t address, uint64_t bytes, uint32_t why)
{
	uint64_t at = address;
	struct movable_seen seen;
	bool any = false;

	while (at - address < bytes && movable_find(at, &seen)) {
		any |= movable_pin(at, why);
		at = seen.base + seen.bytes;
	}
	return any;
}

bool movable_maps(uint64_t address)
{
	struct movable_seen seen;

	return movable_find(address, &seen) && seen.mapped;
}
