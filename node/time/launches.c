/* SPDX-License-Identifier: Apache-2.0 */
#include "node/time/launches.h"

#include "base/least.h"
#include "node/time/pace.h"
#include "node/time/schedule_now.h"

static const uint64_t every_ns = 5000000000;

enum sight { SIGHT_SAME, SIGHT_LAUNCHED, SIGHT_UNKNOWN };

/* A guest that has not answered, because it is stopped, is not asked again: its messages would pile
 * up. */
static enum sight check(struct guest *g)
{
	uint64_t counts = __atomic_load_n(&g->own->counts, __ATOMIC_ACQUIRE);
	uint64_t submitted = __atomic_load_n(&g->own->submissions, __ATOMIC_RELAXED);
	enum sight sight = submitted != g->submitted ? SIGHT_LAUNCHED : SIGHT_SAME;

	if (g->asked && counts == g->counts)
		return counts ? SIGHT_SAME : SIGHT_UNKNOWN;
	g->submitted = submitted;
	g->counts = counts;
	g->asked = g->caller != NULL;
	pace_tell(g, 0);
	return sight;
}

static bool is_busy(const struct tenant *t)
{
	for (uint32_t i = 0; i < t->devices; i++)
		if (t->shown->turns[i].reports && schedule_is_busy(&t->device[i]))
			return true;
	return false;
}

static void check_tenant(struct tenant *t)
{
	uint64_t now = loop_now_ns();
	bool launched = t->guest_count && is_busy(t), unknown = false;

	list_for_each(link, &t->guests)
	{
		enum sight sight = check(list_entry(link, struct guest, link));

		launched |= sight == SIGHT_LAUNCHED;
		unknown |= sight == SIGHT_UNKNOWN;
	}
	if (unknown)
		t->launched_ns = 0;
	else if (launched || !t->launched_ns)
		t->launched_ns = now;
}

static void on_due(struct loop_timer *timer)
{
	struct launches *l = container_of(timer, struct launches, timer);

	list_for_each(link, &l->daemon->tenants.all)
		check_tenant(list_entry(link, struct tenant, link));
	loop_arm(&l->timer, every_ns);
}

int launches_open(struct launches *l, struct daemon *d)
{
	int r = loop_timer_init(&d->loop, &l->timer, on_due);

	if (r < 0)
		return r;
	l->daemon = d;
	loop_arm(&l->timer, every_ns);
	return 0;
}

void launches_close(struct launches *l)
{
	if (l->daemon)
		loop_timer_close(&l->timer, NULL);
	l->daemon = NULL;
}

uint64_t launches_ago(const struct tenant *t)
{
	return t->launched_ns ? most(loop_now_ns() - t->launched_ns, 1) : 0;
}
