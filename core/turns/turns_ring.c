/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants in a ring: the work of each waits for a thread of another one, which stands at its gate
 * once the turn is over. Hardly a drain of theirs ends, however they are let in. So they have long
 * turns together and short drains, and what has not drained comes along all the same. See
 * decisions/0116.
 */
#include "core/turns/turns_machine.h"

enum {
	VAIN = 2,	 /* a drain in vain counts as two that end: */
	VAIN_MOST = 8,	 /* ... after as many that do, the tenants are in no ring any more */
	RING_TURNS = 12, /* how long their turn is, in turns' lengths */
	MATES_MOST = 2	 /* others in a ring */
};

/* What the leader waits for waits for the leader, or for one that has come along. */
static bool is_mate(const struct turns_seat *leader, const struct turns_seat *s)
{
	if (s == leader || turns_await_is_disproved(s->tenant) || !turns_company_awaits(leader, s))
		return false;
	if (turns_awaits(s->tenant, leader->tenant))
		return true;
	list_for_each(link, (struct list *)&leader->along)
	{
		if (turns_awaits(s->tenant, SEAT_ALONG(link)->tenant))
			return true;
	}
	return false;
}

bool turns_ring_may_come_again(const struct turns_seat *leader, struct turns_seat *s,
			       uint64_t now_ns)
{
	return leader->tenant->vain > 0 && !s->tenant->barred && !s->tenant->suspended &&
	       is_mate(leader, s) && turns_seat_exhausted(s, now_ns) > now_ns;
}

/* In a larger group neighbours would wait for a second: its members have their long turns one after
 * the other. */
bool turns_ring_is_known(const struct turns_tenant *t)
{
	const struct turns_seat *leader = turns_tenant_seat(t);
	unsigned mates = 0;

	if (!leader || !t->vain || t->alone || !turns_tenant_awaits(t))
		return false;
	list_for_each(link, (struct list *)&leader->device->seats) mates +=
		is_mate(leader, SEAT_OF_DEVICE(link));
	return mates > 0 && mates <= MATES_MOST;
}

bool turns_ring_is_open(const struct turns_tenant *t)
{
	if (!turns_ring_is_known(t))
		return false;
	list_for_each(link, (struct list *)&turns_tenant_seat(t)->along)
	{
		if (is_mate(turns_tenant_seat(t), SEAT_ALONG(link)))
			return true;
	}
	return false;
}

bool turns_ring_may_reopen(const struct turns_seat *leader)
{
	const struct turns_tenant *t = leader->tenant;

	return turns_ring_is_open(t) && !leader->device->strays && !t->barred && !t->suspended;
}

uint64_t turns_ring_turn_ns(const struct turns_tenant *t)
{
	return turns_ring_is_open(t) ? RING_TURNS * t->turns->tuning.turn_ns : 0;
}

bool turns_ring_may_come(const struct turns_seat *leader, struct turns_seat *s, uint64_t now_ns)
{
	if (s->gate != TURNS_OWING || s->held || !s->lined || s->device->strays ||
	    turns_tenant_governed(s->tenant) != 1 || !is_mate(leader, s))
		return false;
	turns_seat_pay_before(s, now_ns);
	return turns_tenant_released(s->tenant, now_ns) <= now_ns;
}

static void was_in_vain(struct turns_tenant *t)
{
	t->vain = (uint32_t)least(t->vain + VAIN, VAIN_MOST);
}

void turns_ring_given_up(struct turns_tenant *t)
{
	const struct turns_seat *leader = turns_tenant_seat(t);
	bool any = false;

	/* Its work goes on in its next turn with them. */
	if (!turns_ring_is_open(t))
		t->stuck += t->stuck < UINT32_MAX;
	if (!leader)
		return;
	list_for_each(link, (struct list *)&leader->along)
	{
		const struct turns_seat *s = SEAT_ALONG(link);

		if (s->gate != TURNS_CLOSING || !is_mate(leader, s))
			continue;
		was_in_vain(s->tenant);
		any = true;
	}
	if (any)
		was_in_vain(t);
}

void turns_ring_drained(struct turns_tenant *t)
{
	t->vain -= t->vain > 0;
}
