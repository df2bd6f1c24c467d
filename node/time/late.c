/* SPDX-License-Identifier: Apache-2.0 */
#include "node/time/late.h"

#include "base/least.h"
#include "node/daemon.h"
#include "node/process.h"

enum { THREADS = 64 }; /* of a tenant that are read */

static const uint64_t longest_ns = 10000000000; /* it is excused */

static struct process_load load_of(const struct tenant_device *at)
{
	struct process_load sum = {0}, one;
	unsigned threads = THREADS;

	list_for_each(link, (struct list *)&at->tenant->guests)
	{
		process_load(at->tenant->daemon->looks, list_entry(link, struct guest, link)->pid,
			     &threads, &one);
		sum.ran_ns += one.ran_ns;
		sum.queued_ns += one.queued_ns;
		sum.runnable |= one.runnable;
	}
	return sum;
}

/* Others' turns are short, and /proc is slow: only where memory is to leave. */
static bool is_watched(const struct tenant_device *at)
{
	return at->tenant->turns.barred && !at->seat.device->waiting;
}

void late_begins(struct tenant_device *at)
{
	struct process_load now;

	at->late = (struct late){0};
	if (!is_watched(at))
		return;
	now = load_of(at);
	at->late.ran_ns = now.ran_ns;
	at->late.queued_ns = now.queued_ns;
	at->late.since_ns = loop_now_ns();
}

/* The kernel counts a wait for a processor only as it ends. */
static bool gets_little(const struct tenant_device *at)
{
	uint64_t past_ns = loop_now_ns() - at->late.since_ns;
	struct process_load now;

	if (past_ns >= longest_ns)
		return false;
	now = load_of(at);
	return beyond(now.queued_ns, at->late.queued_ns) > past_ns / 2 ||
	       (now.runnable && beyond(now.ran_ns, at->late.ran_ns) < past_ns / 2);
}

bool late_is_excused(struct tenant_device *at, uint64_t now_ns)
{
	struct schedule *schedule = &at->tenant->daemon->schedule;

	if (!at->late.since_ns || !is_watched(at) || !gets_little(at))
		return false;
	at->late.again_ns = now_ns + schedule->turns.tuning.drain_ns;
	schedule->again_ns = least(schedule->again_ns, at->late.again_ns);
	return true;
}

void late_tick(struct daemon *d, uint64_t now_ns,
	       void (*judge)(struct tenant_device *at, uint64_t now_ns))
{
	uint64_t next_ns = UINT64_MAX;

	if (now_ns < d->schedule.again_ns)
		return;
	d->schedule.again_ns = UINT64_MAX;
	for (uint32_t i = 0; i < d->devices; i++) {
		list_for_each(link, &d->device[i].tenants)
		{
			struct tenant_device *at = list_entry(link, struct tenant_device, link);

			if (!at->late.again_ns)
				continue;
			if (at->late.again_ns > now_ns) {
				next_ns = least(next_ns, at->late.again_ns);
				continue;
			}
			at->late.again_ns = 0;
			if (at->seated)
				judge(at, now_ns);
		}
	}
	d->schedule.again_ns = least(d->schedule.again_ns, next_ns);
}
