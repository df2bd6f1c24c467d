/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the program has freed, and the daemon's orders for it, which nobody can carry out any more:
 * the daemon hears that they are over.
 */
#include "base/least.h"
#include "guest/movable/movable_mover.h"
#include "guest/movable/movable_object.h"

/* With the lock held: may something be reported as done by the current orders? */
static bool is_counting(void)
{
	return movable_.up && movable_.order.generation == movable_.generation;
}

void movable_store_is_new(void)
{
	futex_lock_take(&movable_.lock);
	movable_.former = 0;
	movable_.foreign = movable_.stated_out;
	futex_lock_give(&movable_.lock);
}

uint64_t movable_former_ends(uint64_t bytes)
{
	bytes = least(bytes, movable_.foreign);
	movable_.foreign -= bytes;
	return bytes;
}

bool movable_drop_given(uint64_t given)
{
	uint64_t open, own, former;

	futex_lock_take(&movable_.lock);
	open = is_counting() ? beyond(movable_.order.drop, movable_.done.dropped) : 0;
	own = least(given, open);
	former = least(movable_.former, open - own);
	movable_.former -= former;
	movable_.done.dropped += own + former;
	futex_lock_give(&movable_.lock);
	if (own + former)
		movable_report();
	return own + former > 0;
}

bool movable_drop_freed(void)
{
	return movable_drop_given(0);
}

/* Gives the segments back. Returns the bytes that the daemon has got; *ret_former: those of
 * segments of a former one. */
static uint64_t end_segments(struct movable_area *area, uint64_t *ret_former)
{
	uint64_t given = 0;

	*ret_former = 0;
	for (uint32_t b = 0; b < area->count; b++) {
		struct movable_block *block = &area->block[b];

		if (movable_segment_is_former(&block->segment))
			*ret_former += block->segment.bytes;
		given += movable_segment_end(&block->segment, movable_mover.era);
	}
	return given;
}

/* With the lock held: is it not known yet whose the segments are? */
static bool awaits_store(void)
{
	return movable_.stated && (!movable_.up || movable_.ask_again);
}

bool movable_over_step(void)
{
	uint64_t given, former;
	struct movable_area *area;

	futex_lock_take(&movable_.lock);
	area = awaits_store() ? NULL : movable_.over;
	if (area)
		movable_.over = area->next;
	for (uint32_t b = 0; area && b < area->count; b++)
		movable_.prepared -= area->block[b].segment.bytes;
	futex_lock_give(&movable_.lock);
	if (!area)
		return false;
	given = end_segments(area, &former);
	movable_area_free(area);
	futex_lock_take(&movable_.lock);
	movable_.former += movable_former_ends(former);
	futex_lock_give(&movable_.lock);
	best_effort(movable_drop_given(given));
	return true;
}

/* Nothing is out, and the daemon waits until something has come. */
bool movable_return_freed(void)
{
	const struct movable_order *order = &movable_.order;
	struct movable_done *done = &movable_.done;
	uint64_t rest = 0;

	futex_lock_take(&movable_.lock);
	if (is_counting() && !movable_.out && !movable_.leaves && done->left >= order->leave)
		rest = beyond(order->enter, done->entered + done->returned);
	done->returned += rest;
	futex_lock_give(&movable_.lock);
	if (rest)
		movable_report();
	return rest > 0;
}
