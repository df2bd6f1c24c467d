/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices that `mete pick` gave out, each to one caller at a time. A reservation keeps only other
 * pickers away: it is not a share, and tenants come and go as before.
 */

/* Wakes when the next timed reservation is over: the daemon may end then, if nothing else keeps
 * it. */
#include "node/devices/reserve.h"

#include "node/daemon.h"
#include "node/process.h"
#include "node/state/recorder.h"
#include "node/upcalls.h"

static void arm(struct daemon *d)
{
	uint64_t now = loop_now_ns(), next = UINT64_MAX;

	for (uint32_t i = 0; i < d->devices; i++)
		if (!d->reserve.device[i].owner && d->reserve.device[i].until_ns > now &&
		    d->reserve.device[i].until_ns < next)
			next = d->reserve.device[i].until_ns;
	if (next != UINT64_MAX)
		loop_arm(&d->reserve.timer, next - now + 1000000);
}

static void on_due(struct loop_timer *timer)
{
	struct daemon *d = container_of(timer, struct daemon, reserve.timer);

	arm(d);
	daemon_maybe_end(d);
}

int reserve_open(struct daemon *d)
{
	return loop_timer_init(&d->loop, &d->reserve.timer, on_due);
}

/* A user's daemon must not end, and forget its reservations, while anybody relies on them. */
bool reserve_any(const struct daemon *d)
{
	for (uint32_t i = 0; i < d->devices; i++)
		if (reserve_holds(&d->reserve.device[i]))
			return true;
	return false;
}

/* Returns true for root if an ordinary user holds the device: that never prevents root. */
static bool is_overruled(const struct daemon *d, const struct reservation *it, uid_t uid)
{
	return d->options.system && (uid == 0 || uid == geteuid()) && it->uid != 0 &&
	       it->uid != geteuid();
}

static void on_watch_closed(struct loop_watch *watch)
{
	close(container_of(watch, struct reservation, death)->pidfd);
}

bool reserve_is_of(const struct daemon *d, uint32_t device, const void *owner)
{
	const struct reservation *it = &d->reserve.device[device];

	return it->owner && it->owner == owner;
}

int reserve_take(struct daemon *d, uint32_t device, const struct reserve_asker *asker,
		 uint64_t hold_ns, struct fault *why)
{
	struct reservation *it = &d->reserve.device[device];
	bool held = reserve_holds(it) && !reserve_is_of(d, device, asker->owner) &&
		    !is_overruled(d, it, asker->uid);

	if (held && it->owner)
		return fault_set(why, -EBUSY, "%s is given to process %d",
				 d->device[device].info->uuid_text, (int)it->pid);
	if (held)
		return fault_set(why, -EBUSY, "%s was given out and is held for another %.1f s",
				 d->device[device].info->uuid_text,
				 (double)(it->until_ns - loop_now_ns()) / 1e9);
	if (hold_ns > RESERVE_MOST_NS)
		return fault_set(why, -EINVAL, "a device is held for at most a day");
	/* A process that got the device from a former daemon is no longer watched. */
	loop_unwatch(&it->death, on_watch_closed);
	it->owner = hold_ns ? NULL : asker->owner;
	it->pid = asker->pid;
	it->uid = asker->uid;
	it->started = process_started(d->looks, asker->pid);
	it->until_ns = hold_ns ? loop_now_ns() + hold_ns : 0;
	arm(d);
	recorder_reserved(d, device);
	return 0;
}

void reserve_drop(struct daemon *d, const void *owner)
{
	for (uint32_t i = 0; i < d->devices; i++) {
		if (d->reserve.device[i].owner != owner)
			continue;
		d->reserve.device[i].owner = NULL;
		recorder_reserved(d, i);
	}
}

void reserve_release_ended(struct daemon *d)
{
	for (uint32_t i = 0; i < d->devices; i++) {
		struct reservation *it = &d->reserve.device[i];

		/* Pid 0: a process that is not visible to us. */
		if (!it->owner || it->pid <= 0)
			continue;
		if (!process_is_gone(d->looks, it->pid, it->started) && !process_is_over(it->pid))
			continue;
		it->owner = NULL;
		recorder_reserved(d, i);
	}
}

static void on_death(struct loop_watch *watch, int events)
{
	struct reservation *it = container_of(watch, struct reservation, death);

	(void)events;
	if (it->owner != it)
		return;
	loop_unwatch(&it->death, on_watch_closed);
	reserve_drop(it->daemon, it);
	daemon_maybe_end(it->daemon);
}

static bool watch_process(struct reservation *it)
{
	if (process_open(it->daemon->looks, it->pid, it->started, &it->pidfd) < 0)
		return false;
	if (loop_watch(&it->daemon->loop, &it->death, it->pidfd, LOOP_READ, on_death) == 0)
		return true;
	close(it->pidfd);
	return false;
}

void reserve_return(struct daemon *d, uint32_t device, const struct reservation *was)
{
	struct reservation *it = &d->reserve.device[device];

	if (reserve_holds(it) || was->until_ns > loop_now_ns() + RESERVE_MOST_NS)
		return;
	*it = (struct reservation){.pid = was->pid,
				   .uid = was->uid,
				   .started = was->started,
				   .until_ns = was->until_ns,
				   .daemon = d};
	if (!was->until_ns && watch_process(it))
		it->owner = it;
	arm(d);
}

void reserve_close(struct daemon *d)
{
	for (uint32_t i = 0; i < d->devices; i++)
		loop_unwatch(&d->reserve.device[i].death, on_watch_closed);
	loop_timer_close(&d->reserve.timer, NULL);
}
