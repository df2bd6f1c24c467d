/* SPDX-License-Identifier: Apache-2.0 */
#include "node/time/schedule_row.h"

#include "core/gate.h"
#include "node/daemon.h"
#include "node/tenants/share_text.h"
#include "node/time/drift.h"
#include "node/time/gate.h"
#include "node/time/schedule_now.h"

static enum wire_turn turn_of(const struct tenant_device *at, uint32_t reasons)
{
	static const struct {
		enum gate_reason reason;
		enum wire_turn turn;
	} turns[] = {
		{GATE_HUNG, WIRE_TURN_HANGS},	    {GATE_CAPPED, WIRE_TURN_CAPPED},
		{GATE_TURN, WIRE_TURN_WAITS},	    {GATE_ENDS, WIRE_TURN_ENDS},
		{GATE_SILENT, WIRE_TURN_SILENT},    {GATE_MEMORY, WIRE_TURN_SILENT},
		{GATE_SUSPENDED, WIRE_TURN_SILENT}, {GATE_PARKED, WIRE_TURN_SILENT},
	};

	if (gate_has(reasons, GATE_HALTED))
		return WIRE_TURN_SUSPENDED;
	if (!at->seated || !at->seat.device->governed)
		return WIRE_TURN_NONE;
	for (size_t i = 0; i < ARRAY_SIZE(turns); i++)
		if (gate_has(reasons, turns[i].reason))
			return turns[i].turn;
	return WIRE_TURN_RUNS;
}

/* The fields of the share that were set, as they were written. */
static void write_share(const struct tenant *t, wire_text *ret_text)
{
	size_t used = 0;

	for (const struct share_text *at = t->texts; at && used < sizeof(ret_text->text);
	     at = at->next)
		used += (size_t)snprintf(ret_text->text + used, sizeof(ret_text->text) - used,
					 "%s%s=%s", used ? " " : "", share_key(at->field),
					 at->text);
}

static uint64_t sum_flight(const struct tenant_device *at)
{
	uint32_t device = tenant_index(at);
	uint64_t sum = 0;

	list_for_each(link, (struct list *)&at->tenant->guests) sum += __atomic_load_n(
		&list_entry(link, struct guest, link)->own->flight_ns[device], __ATOMIC_RELAXED);
	return sum;
}

void schedule_row(struct tenant_device *at, struct wire_tenant_row *ret_row)
{
	struct turns_seat *seat = &at->seat;
	const struct turns_rates *rates = turns_rates_of(seat);
	uint64_t now = schedule_now(at->tenant->daemon);

	ret_row->reasons = tenant_gate_reasons(at);
	ret_row->turn = turn_of(at, ret_row->reasons);
	write_share(at->tenant, &ret_row->share);
	if (!at->seated)
		return;
	turns_settle(seat, now);
	ret_row->governed = seat->device->governed;
	ret_row->turns = seat->turns;
	ret_row->waits = seat->waits;
	ret_row->waited = seat->waited_ns;
	ret_row->longest_wait = seat->longest_ns;
	ret_row->charged = seat->charged_ns;
	ret_row->entitled = seat->entitled_ns;
	ret_row->charged_1s = turns_rate_1s(&rates->charged, now);
	ret_row->entitled_1s = turns_rate_1s(&rates->entitled, now);
	ret_row->charged_60s = turns_rate_60s(&rates->charged, now);
	ret_row->entitled_60s = turns_rate_60s(&rates->entitled, now);
	ret_row->flight = sum_flight(at);
	drift_row(at, ret_row);
}
