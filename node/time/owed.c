/* SPDX-License-Identifier: Apache-2.0 */
#include "node/time/owed.h"

#include <stdlib.h>

#include "node/time/schedule_now.h"
#include "node/upcalls.h"

/* Of a device's time. If meted is killed, no more than that is forgotten of each tenant's cap. */
static const uint64_t step_ns = 50000000;

static const struct turns_kept nothing;

static const struct turns_kept *known(const struct tenant_device *at)
{
	return at->time_owed ? at->time_owed : &nothing;
}

/* What the journal is to say. `ends`: from now on no gate is closed. Otherwise, if meted is killed,
 * nobody knows since when. */
static bool keep(struct tenant_device *at, bool ends)
{
	if (!at->time_owed)
		at->time_owed = malloc(sizeof(*at->time_owed));
	if (!at->time_owed)
		return false; /* as if meted were killed */
	turns_keep(&at->seat, at->time_owed, schedule_now(at->tenant->daemon));
	at->time_owed->ran &= ends;
	return true;
}

static void record(struct tenant_device *at, bool ends)
{
	if (keep(at, ends))
		recorder_owed(at);
}

static bool differs(struct tenant_device *at)
{
	uint64_t owed = turns_cap_owed(&at->seat, schedule_now(at->tenant->daemon)) / 1000;
	uint64_t was = known(at)->cap_owed / 1000;

	return owed > was + step_ns || owed + step_ns < was ||
	       (known(at)->owing_ns && at->seat.gate != TURNS_OWING);
}

void owed_note(struct tenant_device *at)
{
	const struct tenant *t = at->tenant;

	/* As we end, what it owes was written for the last time. */
	if (t->leaving || t->daemon->stopping || turns_cap_milli(&at->seat) >= 1000)
		return;
	if (differs(at))
		record(at, false);
}

void owed_end(struct daemon *d)
{
	list_for_each(link, &d->tenants.all)
	{
		struct tenant *t = list_entry(link, struct tenant, link);

		for (uint32_t i = 0; i < t->devices; i++)
			if (t->device[i].seat.left_ns || t->device[i].seated)
				record(&t->device[i], true);
	}
}

void owed_return(struct tenant_device *at)
{
	turns_kept(&at->seat, &at->tenant->turns, known(at), schedule_now(at->tenant->daemon));
}

/* The time without a meted is paid for once. */
void owed_return_all(struct tenant_device *at)
{
	if (!at->time_owed)
		return;
	turns_kept_all(&at->seat, at->time_owed, schedule_now(at->tenant->daemon));
	(void)keep(at, false);
	schedule_pump(at->tenant->daemon);
}

void owed_pass_on(struct tenant_device *from, struct tenant_device *to, uint32_t parts)
{
	struct daemon *d = from->tenant->daemon;

	/* Each tells the journal what it owes, and our successor passes it on. */
	if (d->stopping)
		return;
	turns_pass_cap(&from->seat, &to->seat, parts, schedule_now(d));
	owed_note(from);
	owed_note(to);
	schedule_pump(d);
}
