/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that was lent and freed: the driver keeps it as long as a borrower has it open, so it
 * stays charged. A borrower keeps its end of the channel on which it got the memory until it closes
 * the memory, or ends; so the lender sees on its own end whether it is still open.
 */
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>

#include "guest/credit/credit.h"
#include "guest/futex.h"
#include "guest/movable/movable_lend.h"
#include "guest/movable/movable_object.h"
#include "guest/process/changes.h"
#include "guest/process/parts.h"

enum { CHANNELS = 512 };

struct channel {
	uint64_t area;
	int fd;
	uint64_t bytes; /* of a freed area: the amount that stays charged while channels of it are
			   left; kept in one of them */
};

static struct {
	struct futex_lock lock;
	_Atomic uint32_t count;
	struct channel channel[CHANNELS];
} debt;

bool debt_add(uint64_t area, int fd)
{
	bool added;

	futex_lock_take(&debt.lock);
	added = debt.count < CHANNELS;
	if (added)
		debt.channel[debt.count++] = (struct channel){.area = area, .fd = fd};
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

/* With the lock held: closes channel `i`. Its debt passes to another channel of the area, or is
 * over. Returns the bytes that are no longer owed. */
static uint64_t drop(uint32_t i)
{
	struct channel gone = debt.channel[i];

	close(gone.fd);
	debt.channel[i] = debt.channel[--debt.count];
	for (uint32_t j = 0; j < debt.count && gone.bytes; j++) {
		if (debt.channel[j].area != gone.area)
			continue;
		debt.channel[j].bytes += gone.bytes;
		gone.bytes = 0;
	}
	return gone.bytes;
}

/* With the lock held: closes the channels of an area, or (0) all, whose borrower has closed its
 * end. Returns the bytes that are no longer owed. */
static uint64_t close_ended(uint64_t area)
{
	uint64_t paid = 0;

	for (uint32_t i = debt.count; i > 0; i--)
		if ((!area || debt.channel[i - 1].area == area) &&
		    has_ended(debt.channel[i - 1].fd))
			paid += drop(i - 1);
	return paid;
}

bool debt_owes(uint64_t area, uint64_t bytes)
{
	bool owes = false;

	if (!atomic_load(&debt.count))
		return false;
	futex_lock_take(&debt.lock);
	/* The area has no debt yet, so there is nothing to pay. */
	close_ended(area);
	for (uint32_t i = 0; i < debt.count && !owes; i++) {
		owes = debt.channel[i].area == area;
		debt.channel[i].bytes = owes ? bytes : debt.channel[i].bytes;
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
	paid = close_ended(0);
	futex_lock_give(&debt.lock);
	if (!paid)
		return false;
	changes_begin();
	credit_adrift(movable_.device, -(int64_t)paid);
	credit_give(movable_.device, paid);
	changes_end();
	return true;
}

void debt_forget(void)
{
	for (uint32_t i = 0; i < debt.count; i++)
		close(debt.channel[i].fd);
	memset(&debt, 0, sizeof(debt));
}

void debt_spare(int device, uint64_t bytes)
{
	if (credit_unused(device) < bytes)
		debt_settle();
}
