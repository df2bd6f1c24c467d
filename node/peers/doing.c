/* SPDX-License-Identifier: Apache-2.0 */
#include "node/peers/doing.h"

#include "core/doing.h"
#include "node/daemon.h"
#include "node/process.h"
#include "node/time/schedule_now.h"

/* A false page harms at most what is shown of its own tenant. */
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

		if (g->device[tenant_index(at)].owes_drain &&
		    process_is_stopped(g->tenant->daemon->looks, g->pid))
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
		.says = at->seated && at->tenant->shown->turns[tenant_index(at)].reports,
		.busy = schedule_is_busy(at),
		.stands = stands(at),
		.governed = at->seated && at->seat.device->governed,
		.coupled = row->coupled || (at->seat.gate == TURNS_OWING && at->seat.held),
		.undrained_ns = undrained_ns(at),
		.longest_ns = at->longest_drain_ns,
	};

	facts.paused = facts.undrained_ns && is_paused(at);
	return facts;
}

/* `began_ns` is of the turns' clock; the answer is in real time. */
static uint64_t since(const struct tenant_device *at, uint64_t began_ns)
{
	const struct daemon *d = at->tenant->daemon;
	uint64_t now = schedule_now(d);

	return began_ns < now ? (now - began_ns) * d->clock_dilation : 0;
}

static bool is_of(enum doing doing, const enum doing *kinds, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (kinds[i] == doing)
			return true;
	return false;
}

/* How long it has done that already; 0: nobody wants to know. */
static uint64_t lasting_ns(const struct tenant_device *at, enum doing doing,
			   const struct doing_facts *facts, const struct wire_tenant_row *row)
{
	static const enum doing undrained[] = {DOING_KERNEL, DOING_STOPPED, DOING_HANGS};
	static const enum doing waiting[] = {DOING_TURN, DOING_CAPPED};

	if (is_of(doing, undrained, ARRAY_SIZE(undrained)))
		return facts->undrained_ns;
	if (doing == DOING_ROOM)
		return row->wanting;
	if (doing == DOING_SUSPENDED && at->tenant->suspended_ns)
		return since(at, at->tenant->suspended_ns);
	if ((doing == DOING_MEMORY || doing == DOING_YIELDS) && at->member.wants)
		return since(at, at->member.wanted_ns);
	if (is_of(doing, waiting, ARRAY_SIZE(waiting)) && at->tenant->turns.state != TURNS_IDLE)
		return since(at, at->seat.wanted_ns);
	return 0;
}

void doing_row(const struct tenant_device *at, struct wire_tenant_row *row)
{
	const struct doing_facts facts = gather(at, row);

	row->doing = doing_of(&facts);
	row->lasting = lasting_ns(at, (enum doing)row->doing, &facts, row);
}
