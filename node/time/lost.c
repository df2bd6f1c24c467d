/* SPDX-License-Identifier: Apache-2.0 */
#include "node/time/lost.h"

#include <inttypes.h>

#include "base/least.h"
#include "base/log.h"
#include "node/daemon.h"
#include "node/move/move.h"
#include "node/time/schedule_now.h"
#include "node/upcalls.h"

/* A busy machine lets meted wait for less, and patience is longer. */
static const uint64_t late_ns = 1000000000;

static void on_round(struct loop_after *after)
{
	struct lost *lost = container_of(after, struct lost, after);

	lost->before_ns = lost->rested_ns;
	lost->rested_ns = loop_now_ns();
}

static uint64_t first_due(const struct daemon *d)
{
	uint64_t first = d->schedule.alarm.at_ns;

	if (d->move.check_ns)
		first = least(first, d->move.check_ns);
	if (d->book.due_ns)
		first = least(first, d->book.due_ns);
	return first;
}

static void tell(struct daemon *d, uint64_t lost_ns)
{
	uint64_t now_ns = schedule_now(d), ns = lost_ns / d->clock_dilation;

	log_warning("meted.stood_still",
		    "ms=%" PRIu64 " reason=\"meted did not run: nobody is blamed for that\"",
		    lost_ns / 1000000);
	for (uint32_t i = 0; i < d->devices; i++) {
		turns_lost(&d->device[i].turns, ns, now_ns);
		if (d->device[i].members)
			residency_lost(&d->device[i].residency, ns, now_ns);
	}
	move_lost(d, lost_ns);
	ledger_lost(d->book.ledger, lost_ns);
}

void lost_look(struct daemon *d)
{
	struct lost *lost = &d->schedule.lost;
	uint64_t now_ns = loop_now_ns(), due_ns = first_due(d), since_ns;

	if (beyond(now_ns, due_ns) < late_ns)
		return;
	/* What was due before the last round ended waited for that round, which took long. */
	since_ns = due_ns < lost->rested_ns ? lost->before_ns : lost->rested_ns;
	lost->rested_ns = lost->before_ns = now_ns;
	/* Less has passed since this was noticed by way of another timer. */
	if (beyond(now_ns, since_ns) >= late_ns)
		tell(d, now_ns - since_ns);
}

int lost_open(struct daemon *d)
{
	d->schedule.lost.rested_ns = d->schedule.lost.before_ns = loop_now_ns();
	return loop_after(&d->loop, &d->schedule.lost.after, on_round);
}

void lost_close(struct daemon *d)
{
	loop_after_close(&d->schedule.lost.after);
}
