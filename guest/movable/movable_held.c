/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which parts of the store this process holds, by its own account. The daemon's may have more: an
 * answer that was not read before its connection ended, or whose asker had given up, and a return
 * that was lost with a connection. Whenever that may be, the mover returns all that it does not
 * hold. It alone asks for segments and returns them, so that nothing changes meanwhile.
 */
#include <errno.h>

#include "base/least.h"
#include "guest/credit/ranges.h"
#include "guest/movable/movable_mover.h"
#include "guest/movable/movable_object.h"
#include "guest/process/parts.h"

/* The mover's. `is_doubtful` is anybody's. */
static struct ranges held;
static uint64_t owed; /* bytes that were to be returned, and nobody knows whether they were */
static _Atomic bool is_doubtful;

void movable_doubt(void)
{
	atomic_store(&is_doubtful, true);
	movable_kick();
}

void movable_unread(void)
{
	movable_doubt();
}

int movable_held_add(uint64_t offset, uint64_t bytes)
{
	return ranges_add(&held, offset, bytes, 0);
}

void movable_held_take(uint64_t offset, uint64_t bytes)
{
	struct range range;

	best_effort(ranges_take(&held, offset, bytes, &range));
}

void movable_held_forget(void)
{
	ranges_forget(&held);
	owed = 0;
	atomic_store(&is_doubtful, false);
}

void movable_held_owe(uint64_t bytes)
{
	owed += bytes;
	movable_doubt();
}

void movable_held_again(void)
{
	owed = 0; /* the orders are new, too */
	movable_doubt();
}

/* All that begins at `from` or behind it, and before the next one that is held. */
static int return_gap(uint64_t from, size_t next, uint64_t *given)
{
	uint64_t to = next < held.count ? held.range[next].base : UINT64_MAX, some = 0;
	int r = from < to ? movable_store_return(from, to - from, &some) : 0;

	*given += some;
	return r;
}

bool movable_held_in_doubt(void)
{
	return atomic_load(&is_doubtful);
}

/* If it fails, the connection has ended, and the next one is asked. Or the daemon does not read, or
 * too many ask: then it is tried again, not at once. */
bool movable_held_step(void)
{
	uint64_t from = 0, given = 0;
	int r = 0;

	if (!atomic_exchange(&is_doubtful, false))
		return false;
	for (size_t i = 0; i <= held.count && r == 0; i++) {
		r = return_gap(from, i, &given);
		if (i < held.count)
			from = held.range[i].base + held.range[i].bytes;
	}
	/* The daemon has all that is owed, perhaps since a return whose answer was not read. */
	best_effort(movable_drop_given(r == 0 ? most(given, owed) : given));
	if (r < 0 && r != -ENOTCONN) {
		owed = beyond(owed, given);
		atomic_store(&is_doubtful, true);
	} else {
		owed = 0;
	}
	return given > 0;
}
