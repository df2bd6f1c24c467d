/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices that `mete pick` gave out: each to one caller at a time. A reservation keeps other
 * pickers away and nobody else: it is no share, and tenants come and go as before.
 */
#include "node/daemon.h"

static bool holds(const struct reservation *it)
{
	return it->owner || it->until_ns > loop_now_ns();
}

static void on_due(struct loop_timer *timer)
{
	struct daemon *d = container_of(timer, struct daemon, reserve_timer);

	reserve_arm(d);
	daemon_maybe_end(d);
}

int reserve_open(struct daemon *d)
{
	return loop_timer_init(&d->loop, &d->reserve_timer, on_due);
}

/* A user's daemon must not end, and forget, while somebody relies on it. */
bool reserve_any(const struct daemon *d)
{
	for (uint32_t i = 0; i < d->devices; i++)
		if (holds(&d->reserved[i]))
			return true;
	return false;
}

void reserve_arm(struct daemon *d)
{
	uint64_t now = loop_now_ns(), next = UINT64_MAX;

	for (uint32_t i = 0; i < d->devices; i++)
		if (!d->reserved[i].owner && d->reserved[i].until_ns > now &&
		    d->reserved[i].until_ns < next)
			next = d->reserved[i].until_ns;
	if (next != UINT64_MAX)
		loop_arm(&d->reserve_timer, next - now + 1000000);
}

int reserve_take(struct daemon *d, uint32_t device, const void *owner, pid_t pid, uint64_t hold_ns,
		 struct fault *why)
{
	struct reservation *it = &d->reserved[device];

	if (holds(it) && it->owner)
		return fault_set(why, -EBUSY, "%s is given to process %d",
				 d->device[device].info->uuid_text, (int)it->pid);
	if (holds(it))
		return fault_set(why, -EBUSY, "%s was given out and is held for another %.1f s",
				 d->device[device].info->uuid_text,
				 (double)(it->until_ns - loop_now_ns()) / 1e9);
	if (hold_ns > RESERVE_MOST_NS)
		return fault_set(why, -EINVAL, "a device is held for a day at most");
	it->owner = hold_ns ? NULL : owner;
	it->pid = pid;
	it->until_ns = hold_ns ? loop_now_ns() + hold_ns : 0;
	reserve_arm(d);
	return 0;
}

void reserve_drop(struct daemon *d, const void *owner)
{
	for (uint32_t i = 0; i < d->devices; i++)
		if (d->reserved[i].owner == owner)
			d->reserved[i].owner = NULL;
}
