/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that was lent and freed: the driver has it for as long as a borrower has it open, so that
 * it stays charged. A borrower keeps its end of the line on which it got the memory until it closes
 * the memory, or ends; so the lender sees on its own end who still has it.
 */
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>

#include "guest/credit/credit.h"
#include "guest/futex.h"
#include "guest/movable/movable_lend.h"
#include "guest/movable/movable_object.h"
#include "guest/process/moves.h"
#include "guest/process/parts.h"

enum { LINES = 512 };

struct line {
	uint64_t area;
	int fd;
	uint64_t bytes; /* of one line of an area that was freed: charged until none is left */
};

static struct {
	struct futex_lock lock;
	_Atomic uint32_t count;
	struct line line[LINES];
} debt;

bool debt_add(uint64_t area, int fd)
{
	bool added;

	futex_lock_take(&debt.lock);
	added = debt.count < LINES;
	if (added)
		debt.line[debt.count++] = (struct line){.area = area, .fd = fd};
	futex_lock_give(&debt.lock);
	return added;
}

static bool has_ended(int fd)
{
	struct pollfd about = {.fd = fd};
	struct timespec now = {0, 0};
	int saved = errno, n = ppoll(&about, 1, &now, NULL);

	errno = saved;
	return n > 0 && (about.revents & (POLLHUP | POLLERR | POLLNVAL));
}

/* With the lock held: closes line `i`. What it owes another line of the area owes, or nobody any
 * more. Returns the bytes that are no longer owed. */
static uint64_t drop(uint32_t i)
{
	struct line gone = debt.line[i];

	close(gone.fd);
	debt.line[i] = debt.line[--debt.count];
	for (uint32_t j = 0; j < debt.count && gone.bytes; j++) {
		if (debt.line[j].area != gone.area)
			continue;
		debt.line[j].bytes += gone.bytes;
		gone.bytes = 0;
	}
	return gone.bytes;
}

/* With the lock held: looks at the lines of an area, or (0) at all. */
static uint64_t look(uint64_t area)
{
	uint64_t paid = 0;

	for (uint32_t i = debt.count; i > 0; i--)
		if ((!area || debt.line[i - 1].area == area) && has_ended(debt.line[i - 1].fd))
			paid += drop(i - 1);
	return paid;
}

bool debt_owes(uint64_t area, uint64_t bytes)
{
	bool owes = false;

	if (!atomic_load(&debt.count))
		return false;
	futex_lock_take(&debt.lock);
	/* It owes nothing yet: nothing is paid. */
	look(area);
	for (uint32_t i = 0; i < debt.count && !owes; i++) {
		owes = debt.line[i].area == area;
		debt.line[i].bytes = owes ? bytes : debt.line[i].bytes;
	}
	futex_lock_give(&debt.lock);
	return owes;
}

bool debt_settle(void)
{
	uint64_t paid;

	if (!atomic_load(&debt.count))
		return false;
	futex_lock_take(&debt.lock);
	paid = look(0);
	futex_lock_give(&debt.lock);
	if (!paid)
		return false;
	moves_begin();
	credit_adrift(movable_.device, -(int64_t)paid);
	credit_give(movable_.device, paid);
	moves_end();
	return true;
}

void debt_forget(void)
{
	for (uint32_t i = 0; i < debt.count; i++)
		close(debt.line[i].fd);
	memset(&debt, 0, sizeof(debt));
}

void debt_spare(int device, uint64_t bytes)
{
	if (credit_unused(device) < bytes)
		debt_settle();
}
