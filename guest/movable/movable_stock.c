/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/movable/movable_stock.h"

#include <errno.h>

#include "guest/clock.h"
#include "guest/credit/credit.h"
#include "guest/credit/settle.h"
#include "guest/driver/nested.h"
#include "guest/driver/real.h"
#include "guest/frames.h"
#include "guest/movable/movable_object.h"
#include "guest/process/changes.h"
#include "guest/process/parts.h"
#include "guest/process/state.h"
#include "guest/time/capture.h"

enum {
	STOCK_MOST = 64,  /* areas */
	STOCK_MS = 5000,  /* an area that was not wanted for so long is released */
	ANSWER_MS = 5000, /* for which a recall waits for what other threads unmap */
};

static struct movable_stock *stock(void)
{
	return &movable_.stock;
}

/* With the lock held. */
static bool may_keep(const struct movable_area *area)
{
	if (area->own.is || area->why || stock()->count == STOCK_MOST ||
	    !credit_may_stock(movable_.device, area->bytes))
		return false;
	for (uint32_t i = 0; i < area->count; i++)
		if (area->block[i].where != MOVABLE_HERE || area->block[i].segment.memory)
			return false;
	return true;
}

bool movable_stock_keep(struct movable_area *area)
{
	bool keeps;

	futex_lock_take(&movable_.lock);
	keeps = may_keep(area);
	if (keeps) {
		movable_.resident -= area->bytes;
		movable_show();
		credit_stocked(movable_.device, area->bytes);
		area->owner = 0;
		area->freed_ns = now_ns();
		area->next = stock()->newest;
		stock()->newest = area;
		stock()->count++;
	}
	futex_lock_give(&movable_.lock);
	return keeps;
}

/* With the lock held. */
static struct movable_area *unlink_(struct movable_area **place)
{
	struct movable_area *area = *place;

	*place = area->next;
	area->next = NULL;
	stock()->count--;
	return area;
}

struct movable_area *movable_stock_take(uint64_t bytes, bool slab)
{
	struct movable_area **place, *area = NULL;

	if (!atomic_load(&stock()->count))
		return NULL;
	futex_lock_take(&movable_.lock);
	for (place = &stock()->newest; *place; place = &(*place)->next)
		if ((*place)->bytes == bytes && !(*place)->slab == !slab)
			break;
	if (*place) {
		area = unlink_(place);
		credit_unstocked(movable_.device, bytes, true);
	}
	futex_lock_give(&movable_.lock);
	return area;
}

/* With the lock held. */
static void link_released(struct movable_area *area, uintptr_t here)
{
	area->thread = frames_thread();
	area->frame = here;
	area->next = stock()->released;
	stock()->released = area;
}

static void unlink_released(const struct movable_area *area)
{
	struct movable_area **place = &stock()->released;

	futex_lock_take(&movable_.lock);
	while (*place && *place != area)
		place = &(*place)->next;
	if (*place)
		*place = area->next;
	futex_lock_give(&movable_.lock);
}

/* The oldest area, if it was freed before that time: for let_go(). */
static struct movable_area *oldest(uint64_t before_ns, uintptr_t here)
{
	struct movable_area **place = &stock()->newest, *area = NULL;

	futex_lock_take(&movable_.lock);
	while (*place && (*place)->next)
		place = &(*place)->next;
	if (*place && (*place)->freed_ns < before_ns) {
		area = unlink_(place);
		link_released(area, here);
		stock()->going++;
	}
	futex_lock_give(&movable_.lock);
	return area;
}

/* Goes on where a jump has ended it. What the driver was doing then is not tried again: if it was
 * not done, a measurement finds it. */
static void give_back(struct movable_area *area)
{
	uint64_t base;

	for (uint32_t i = 0; i < area->count; i++) {
		if (area->block[i].where != MOVABLE_HERE)
			continue;
		area->block[i].where = MOVABLE_OUT;
		best_effort(movable_unback(&area->block[i]));
	}
	base = area->base;
	area->base = 0;
	if (base)
		best_effort(driver_call(real(cuMemAddressFree)(base, area->bytes)));
}

/* It becomes credit, which others may get, only after the driver has it back. */
static void let_go(struct movable_area *area)
{
	uint64_t bytes = area->bytes;

	changes_begin();
	give_back(area);
	unlink_released(area);
	movable_area_free(area);
	credit_unstocked(movable_.device, bytes, false);
	changes_end();
	stock()->going--;
	if (movable_stock_pending())
		movable_kick();
}

/* One that this thread was releasing when it jumped out of the driver. */
static struct movable_area *abandoned(uintptr_t here)
{
	struct movable_area *area;

	futex_lock_take(&movable_.lock);
	for (area = stock()->released; area; area = area->next)
		if (area->thread == frames_thread() && frames_left(area->frame, here))
			break;
	if (area)
		area->frame = here;
	futex_lock_give(&movable_.lock);
	return area;
}

static noinline_ void release_abandoned(uintptr_t here)
{
	struct movable_area *area;

	while ((area = abandoned(here))) {
		let_go(area);
		settle_device(movable_.device);
	}
}

void movable_stock_release(int device, uint64_t bytes)
{
	uintptr_t here = frames_here();
	struct movable_area *area;

	if (device != movable_.device)
		return;
	if (unlikely(stock()->going))
		release_abandoned(here);
	while (atomic_load(&stock()->count) && credit_unused(device) < bytes &&
	       (area = oldest(UINT64_MAX, here)))
		let_go(area);
}

/* ---- recalls --------------------------------------------------------------------------------- */

/* Other threads have taken it from the stock, and it is not credit yet. */
static bool some_is_going(void)
{
	return stock()->going != 0;
}

/* The agent passes the recall to the mover: it must not call the driver, as it has gates to close.
 * A recall that comes while another one is being answered replaces it, as with the agent. */
bool movable_stock_recalled(uint32_t wire_device, uint32_t id, uint64_t bytes)
{
	int device = movable_.device;
	bool takes;

	if ((!atomic_load(&stock()->count) && !some_is_going()) ||
	    wire_device != atomic_load(&state.device[device].wire_index) ||
	    credit_unused(device) >= bytes)
		return false;
	futex_lock_take(&movable_.lock);
	takes = stock()->newest || some_is_going();
	if (takes) {
		stock()->recall_id = id;
		stock()->recall_bytes = bytes;
		stock()->recall_ns = now_ns();
	}
	futex_lock_give(&movable_.lock);
	if (takes)
		movable_kick();
	return takes;
}

bool movable_stock_pending(void)
{
	return atomic_load(&stock()->recall_id) != 0;
}

/* With the lock held. */
void movable_stock_down(void)
{
	stock()->recall_id = 0;
}

/* With the lock held. It is not if another one has come meanwhile, or the connection was lost. */
static bool is_asked(uint32_t id, uint64_t since_ns)
{
	return stock()->recall_id == id && stock()->recall_ns == since_ns;
}

static bool answer(void)
{
	uint32_t id, wire = atomic_load(&state.device[movable_.device].wire_index);
	uint64_t bytes, since;
	bool asked;
	int r;

	futex_lock_take(&movable_.lock);
	id = stock()->recall_id;
	bytes = stock()->recall_bytes;
	since = stock()->recall_ns;
	futex_lock_give(&movable_.lock);
	if (!id)
		return false;
	movable_stock_release(movable_.device, bytes);
	/* That may have lasted: another daemon would take this for its own recall's answer. */
	futex_lock_take(&movable_.lock);
	asked = is_asked(id, since);
	futex_lock_give(&movable_.lock);
	if (!asked)
		return true;
	/* meted takes an answer for all that there is, and refuses others what is about to be
	 * credit. A thread that left by longjmp() is not waited for. */
	if (credit_unused(movable_.device) < bytes && some_is_going() &&
	    now_ns() - since < ANSWER_MS * 1000000ull)
		return false;
	r = credit_recall(wire, bytes, id);
	/* meted may recall credit before it has answered the whole inventory. */
	if (r == -EAGAIN || r == -ENOTCONN)
		return false;
	futex_lock_take(&movable_.lock);
	if (is_asked(id, since))
		stock()->recall_id = 0;
	futex_lock_give(&movable_.lock);
	return true;
}

bool movable_stock_step(void)
{
	struct movable_area *area;
	bool any = movable_stock_pending() && answer();

	if (!atomic_load(&stock()->count))
		return any;
	area = oldest(now_ns() - STOCK_MS * 1000000ull, frames_here());
	if (area)
		let_go(area);
	return any || area;
}

/* Nothing is unmapped here while a capture is open; the daemon's recall does it. */
void stock_spare(int device, uint64_t bytes)
{
	if (!capture_open())
		movable_stock_release(device, bytes);
}
