/* SPDX-License-Identifier: Apache-2.0 */
#include "node/time/schedule_now.h"

#include "node/daemon.h"

uint64_t schedule_now(const struct daemon *d)
{
	return loop_now_ns() / d->clock_dilation;
}

bool schedule_is_busy(const struct tenant_device *at)
{
	uint32_t device = tenant_index(at);

	list_for_each(link, (struct list *)&at->tenant->guests)
	{
		if (!list_entry(link, struct guest, link)->device[device].idle)
			return true;
	}
	return false;
}
