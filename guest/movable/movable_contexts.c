/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that moves ends with its context, like the driver's own. */
#include "guest/movable/movable.h"
#include "guest/movable/movable_lend.h"
#include "guest/movable/movable_object.h"
#include "guest/movable/movable_stock.h"

bool movable_lends(void)
{
	return movable_.about.requestedHandleTypes != 0;
}

bool movable_suits_rdma(void)
{
	return movable_.about.allocFlags.gpuDirectRDMACapable != 0;
}

void movable_rename(uint64_t owner, uint64_t now)
{
	movable_late_rename(owner, now);
	borrow_rename(owner, now);
	futex_lock_take(&movable_.lock);
	for (size_t i = 0; i < movable_.areas.count; i++)
		if (movable_area_at(i)->owner == owner && !movable_area_at(i)->own.is)
			movable_area_at(i)->owner = now;
	futex_lock_give(&movable_.lock);
}

static struct movable_area *take_owned(uint64_t owner)
{
	struct movable_area *area = NULL;

	futex_lock_take(&movable_.lock);
	for (size_t i = 0; i < movable_.areas.count && !area; i++)
		if (movable_area_at(i)->owner == owner && !movable_area_at(i)->own.is)
			area = movable_area_at(i);
	if (area)
		movable_leave_table(area);
	futex_lock_give(&movable_.lock);
	return area;
}

void movable_context_gone(uint64_t owner)
{
	struct movable_area *area;

	movable_late_gone(owner);
	borrow_context_gone(owner);
	while (atomic_load(&movable_.open) && (area = take_owned(owner)))
		movable_dissolve(area);
	/* A program that ends a context expects its memory to be free for others. */
	movable_stock_release(movable_.device, UINT64_MAX);
}

/* The mover may be working in it. */
void movable_context_leaves(CUcontext context)
{
	atomic_fetch_add(&movable_.leaving, 1);
	if (!context || atomic_load(&movable_.serving) == MOVABLE_UNASKED)
		return;
	futex_lock_take(&movable_.lock);
	while (movable_.context == context) {
		uint32_t seen = atomic_load(&movable_.arrivals);

		movable_.give_up = true;
		futex_lock_give(&movable_.lock);
		movable_kick();
		futex_wait(&movable_.arrivals, seen, MOVABLE_CHECK_MS, FUTEX_PRIVATE_FLAG);
		futex_lock_take(&movable_.lock);
	}
	futex_lock_give(&movable_.lock);
}

void movable_context_over(void)
{
	atomic_fetch_sub(&movable_.leaving, 1);
	movable_kick();
}
