/* SPDX-License-Identifier: Apache-2.0 */
/*
 * While a drain lasts for longer than anything is learnt by it, those who stand in line are let in
 * for a moment now and then: it may be a kernel that never ends. See decisions/0215.
 */
#include "core/turns/turns_machine.h"

enum {
	BREATH_PART = 2,   /* of a turn's length that a breath lasts */
	DRAINED_STEPS = 4, /* from one look to the next, while it drains */
	FIRST_FIFTHS = 2   /* of `hang_ns`, before the first one */
};

static struct turns_seat *longest_shut(const struct turns_seat *leader, uint64_t now_ns)
{
	struct turns_seat *best = NULL;

	list_for_each(link, &leader->device->seats)
	{
		struct turns_seat *s = SEAT_OF_DEVICE(link);

		if (s == leader || !turns_company_may_come(s) ||
		    now_ns - s->opened_ns < leader->tenant->turns->tuning.beside_ns)
			continue;
		if (!best || s->opened_ns < best->opened_ns)
			best = s;
	}
	return best;
}

bool turns_breath_begin(struct turns_seat *leader, uint64_t now_ns)
{
	struct turns_tenant *t = leader->tenant;
	struct turns_seat *s;

	if (leader->stray || leader->leader || turns_tenant_governed(t) != 1 ||
	    turns_last_may_wait(t))
		return false;
	if (now_ns - t->ending_ns < t->turns->tuning.hang_ns * FIRST_FIFTHS / 5)
		return false; /* whoever is to be found by it, or given up, is until then */
	s = longest_shut(leader, now_ns);
	if (!s)
		return false;
	t->breathes = true;
	turns_company_take(leader, s, now_ns);
	turns_timer_set(&t->turns->drains, &leader->timer,
			now_ns + leader->device->turn_ns / BREATH_PART);
	return true;
}

bool turns_breath_goes_on(struct turns_seat *leader, bool stands, uint64_t now_ns)
{
	struct turns_tenant *t = leader->tenant;
	const struct turns_tuning *tuning = &t->turns->tuning;
	bool was_open = t->breathes && turns_company_any(leader, TURNS_OPENED);

	if (was_open)
		turns_company_close(leader, now_ns);
	t->breathes &= was_open || (!stands && turns_company_any(leader, TURNS_CLOSING) &&
				    now_ns - t->ending_ns < tuning->hang_ns);
	if (t->breathes)
		turns_timer_set(&t->turns->drains, &leader->timer,
				now_ns + DRAINED_STEPS * tuning->step_ns);
	return t->breathes;
}
