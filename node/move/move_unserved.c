/* SPDX-License-Identifier: Apache-2.0 */
#include "node/move/move_unserved.h"

#include "base/least.h"
#include "node/daemon.h"
#include "node/move/move_inside.h"
#include "node/process.h"

static const uint64_t seldom_ns = 100000000; /* /proc is read no more often */

enum { THREADS = 256 }; /* of a tenant that are read: some 2 ms */

/* Since the last reading; of its threads together, but no more than the time that has passed. */
static uint64_t unserved(struct guest_device *at, unsigned *threads, uint64_t now_ns)
{
	struct move_guest *m = &at->move;
	uint64_t before_ns = m->queued_ns, since_ns = m->queued_at_ns;

	if (since_ns && now_ns - since_ns < seldom_ns)
		return 0;
	m->queued_ns = process_queued_ns(at->guest->pid, threads);
	m->queued_at_ns = now_ns;
	return since_ns ? least(beyond(m->queued_ns, before_ns), now_ns - since_ns) : 0;
}

/* Of several guests one keeps the others waiting, and which is not known here. */
static void count(struct tenant_device *of, bool acts, uint64_t now_ns)
{
	unsigned i = tenant_index(of), threads = THREADS;
	uint64_t longest_ns = 0;

	list_for_each(link, &of->tenant->guests)
	{
		struct guest_device *at = &list_entry(link, struct guest, link)->device[i];

		if (acts)
			longest_ns = most(longest_ns, unserved(at, &threads, now_ns));
		else
			at->move.queued_at_ns = 0;
	}
	if (longest_ns)
		residency_unserved(&of->member, longest_ns, now_ns);
}

void move_count_unserved(struct daemon *d, uint64_t now_ns)
{
	bool any = false;

	for (uint32_t i = 0; i < d->devices; i++) {
		list_for_each(link, &d->device[i].tenants)
		{
			struct tenant_device *of = list_entry(link, struct tenant_device, link);
			bool acts = of->joined && residency_is_to_act(&of->member);

			if (of->joined)
				count(of, acts, now_ns);
			any |= acts;
		}
	}
	if (any)
		move_check_later(d);
}
