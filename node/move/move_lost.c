/* SPDX-License-Identifier: Apache-2.0 */
#include "base/least.h"
#include "node/daemon.h"
#include "node/move/ask_types.h"
#include "node/move/move.h"
#include "node/move/move_wait.h"

static void lose(struct guest_device *at, uint64_t ns)
{
	struct move_guest *m = &at->move;
	uint64_t dilation = at->guest->tenant->daemon->clock_dilation;

	list_for_each(link, &at->move.asks) list_entry(link, struct ask, own)->lost_ns +=
		ns / dilation;
	if (m->owes_since_ns)
		m->owes_since_ns = least(loop_now_ns(), m->owes_since_ns + ns);
}

void move_lost(struct daemon *d, uint64_t ns)
{
	move_waits_lost(d, ns);
	list_for_each(link, &d->tenants.all)
	{
		struct tenant *t = list_entry(link, struct tenant, link);

		list_for_each(one, &t->guests)
		{
			struct guest *g = list_entry(one, struct guest, link);

			for (uint32_t i = 0; i < t->devices; i++)
				lose(&g->device[i], ns);
		}
	}
}
