/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/grpc_clock.h"

/* Thirty years: nobody waits longer, and no sum overflows. */
static const uint64_t never_ns = 1000000000ull * 1000000000;

static struct grpc_deadline *first(const struct grpc_clock *clock)
{
	return list_entry(clock->deadlines.next, struct grpc_deadline, link);
}

static void arm(struct grpc_clock *clock)
{
	uint64_t now = loop_now_ns();

	if (!list_empty(&clock->deadlines))
		loop_arm(&clock->timer, first(clock)->at_ns > now ? first(clock)->at_ns - now : 0);
}

static void on_due(struct loop_timer *timer)
{
	struct grpc_clock *clock = container_of(timer, struct grpc_clock, timer);
	uint64_t now = loop_now_ns();

	/* The callback may remove other deadlines, set new ones, or close the clock. */
	while (clock->timer.open && !list_empty(&clock->deadlines) && first(clock)->at_ns <= now) {
		struct grpc_deadline *deadline = first(clock);

		list_remove(&deadline->link);
		clock->late(deadline);
	}
	arm(clock);
}

int grpc_clock_init(struct loop *loop, struct grpc_clock *clock,
		    void (*late)(struct grpc_deadline *deadline))
{
	list_init(&clock->deadlines);
	clock->late = late;
	return loop_timer_init(loop, &clock->timer, on_due);
}

void grpc_clock_set(struct grpc_clock *clock, struct grpc_deadline *deadline, uint64_t within_ns)
{
	struct list *before = clock->deadlines.prev;

	if (within_ns > never_ns)
		return;
	deadline->at_ns = loop_now_ns() + within_ns;
	while (before != &clock->deadlines &&
	       list_entry(before, struct grpc_deadline, link)->at_ns > deadline->at_ns)
		before = before->prev;
	list_prepend(before, &deadline->link);
	if (first(clock) == deadline)
		arm(clock);
}

void grpc_clock_forget(struct grpc_deadline *deadline)
{
	/* The timer is not changed: at worst it fires once for nothing. */
	list_remove(&deadline->link);
}

void grpc_clock_close(struct grpc_clock *clock, void (*closed)(struct loop_timer *timer))
{
	loop_timer_close(&clock->timer, closed);
}
