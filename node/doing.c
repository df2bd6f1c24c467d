/* SPDX-License-Identifier: Apache-2.0 */
#include "node/doing.h"

#include "core/doing.h"
#include "node/process.h"
#include "node/time/schedule.h"

/* What a guest's page says harms at most what is said of its own tenant. */
static bool stands(const struct tenant_device *at)
{
	list_for_each(link, (struct list *)&at->tenant->guests)
	{
		const struct guest *g = list_entry(link, struct guest, link);

		if (__atomic_load_n(&g->own->waiting_on[tenant_index(at)], __ATOMIC_RELAXED))
			return true;
	}
	return false;
}

/* One of the processes that have not drained is stopped. */
static bool is_paused(const struct tenant_device *at)
{
	list_for_each(link, (struct list *)&at->tenant->guests)
	{
		const struct guest *g = list_entry(link, struct guest, link);

		if (g->device[tenant_index(at)].owes_drain && process_is_stopped(g->pid))
			return true;
	}
	return false;
}

static uint64_t undrained_ns(const struct tenant_device *at)
{
	if (at->tenant->shown->device[tenant_index(at)].gate != WIRE_GATE_CLOSING)
		return 0;
	return loop_now_ns() - at->closing_ns;
}

static struct doing_facts gather(const struct tenant_device *at, const struct wire_tenant_row *row)
{
	struct doing_facts facts = {
		.reasons = row->reasons,
		.present = row->guests,
		.asks = row->waiting,
		.says = at->seated && at->tenant->shown->turns[tenant_index(at)].say,
		.busy = schedule_is_busy(at),
		.stands = stands(at),
		.governed = at->seated && at->seat.device->governed,
		.coupled = row->coupled,
		.undrained_ns = undrained_ns(at),
		.longest_ns = at->longest_drain_ns,
	};

	facts.paused = facts.undrained_ns && is_paused(at);
	return facts;
}

/* Of the turns' clock; the answer is in the time of people. */
static uint64_t since(const struct tenant_device *at, uint64_t began_ns)
{
	const struct daemon *d = at->tenant->daemon;
	uint64_t now = schedule_now(d);

	return began_ns < now ? (now - began_ns) * d->clock_dilation : 0;
}

void doing_row(const struct tenant_device *at, struct wire_tenant_row *row)
{
	const struct doing_facts facts = gather(at, row);

	row->doing = doing_of(&facts);
	switch ((enum doing)row->doing) {
	case DOING_KERNEL:
	case DOING_STOPPED:
	case DOING_HANGS:
		row->lasting = facts.undrained_ns;
		break;
	case DOING_ROOM:
		row->lasting = row->wanting;
		break;
	case DOING_MEMORY:
	case DOING_YIELDS:
		row->lasting = at->member.wants ? since(at, at->member.wanted_ns) : 0;
		break;
	case DOING_TURN:
	case DOING_CAPPED:
		row->lasting =
			at->tenant->turns.state == TURNS_AWAY ? 0 : since(at, at->seat.wanted_ns);
		break;
	case DOING_UNKNOWN:
	case DOING_ABSENT:
	case DOING_RUNNING:
	case DOING_IDLE:
	case DOING_PARKED:
	case DOING_COMPUTES:
	case DOING_HALTED:
	case DOING_AWAY:
	case DOING_STATES:
		break;
	}
}
