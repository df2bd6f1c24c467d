/* SPDX-License-Identifier: Apache-2.0 */
/* meted's orders to move memory, and the connection on which they come. */
#include <string.h>

#include "guest/movable/movable_object.h"
#include "guest/movable/movable_stock.h"
#include "guest/process/parts.h"
#include "guest/process/state.h"
#include "guest/time/presence.h"

enum {
	SOON_MS = 5,
	SETTLED_MS = 30000,
};

static void ordered(const struct wire_move *order)
{
	if (order->device != atomic_load(&state.device[movable_.device].wire_index))
		return;
	futex_lock_take(&movable_.lock);
	movable_.order = (struct movable_order){order->generation, order->leave, order->enter,
						order->drop, order->prepare};
	movable_.stuck = false;
	movable_.heard++;
	/* The share may have another `swap` since. */
	movable_.ask_again |= movable_.refused;
	futex_lock_give(&movable_.lock);
	movable_kick();
}

void movable_heard(const struct wire_message *message, int *fd)
{
	(void)fd;
	if (message->code == WIRE_move)
		ordered(&message->move);
}

static void nothing_ordered(void)
{
	memset(&movable_.order, 0, sizeof(movable_.order));
	memset(&movable_.done, 0, sizeof(movable_.done));
	movable_.generation = 0;
	movable_.report_due = false;
}

/* What the daemon has ordered since it got the inventory holds. */
void movable_up(void)
{
	futex_lock_take(&movable_.lock);
	movable_.up = true;
	movable_.ask_again |= atomic_load(&movable_.serving) != MOVABLE_UNASKED;
	movable_.stuck = false;
	futex_lock_give(&movable_.lock);
}

void movable_connected(void)
{
	if (atomic_load(&movable_.serving) == MOVABLE_UNASKED)
		return;
	futex_lock_take(&movable_.lock);
	movable_.ask_again = true;
	futex_lock_give(&movable_.lock);
	movable_kick();
}

/* Blocks that are under way arrive; no other block begins to move. */
void movable_down(void)
{
	futex_lock_take(&movable_.lock);
	nothing_ordered();
	movable_stock_down();
	movable_.up = movable_.stated = false;
	futex_lock_give(&movable_.lock);
}

bool movable_is_away(void)
{
	bool away;

	futex_lock_take(&movable_.lock);
	away = movable_.out || movable_.flying;
	futex_lock_give(&movable_.lock);
	return away;
}

/* The blocks that were under way have arrived. Bounded. */
void movable_state(int device, struct wire_inventory *inventory)
{
	if (atomic_load(&movable_.serving) == MOVABLE_UNASKED || device != movable_.device)
		return;
	futex_lock_take(&movable_.lock);
	for (int i = 0; i < SETTLED_MS / SOON_MS && movable_.flying; i++) {
		uint32_t seen = atomic_load(&movable_.arrivals);

		futex_lock_give(&movable_.lock);
		futex_wait(&movable_.arrivals, seen, SOON_MS, FUTEX_PRIVATE_FLAG);
		futex_lock_take(&movable_.lock);
	}
	/* It says what these blocks did. */
	nothing_ordered();
	inventory->movable = movable_.resident;
	inventory->out = movable_.stated_out = movable_.out;
	movable_.stated = true;
	futex_lock_give(&movable_.lock);
}

void movable_forget(void)
{
	ranges_forget(&movable_.areas);
	ranges_forget(&movable_.aliases);
	movable_late_clear();
	movable_store_close();
	memset(&movable_, 0, sizeof(movable_));
	guest_not_resident = 0;
}

void movable_new_page(void)
{
	movable_publish();
}
