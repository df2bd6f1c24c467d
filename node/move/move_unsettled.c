/* SPDX-License-Identifier: Apache-2.0 */
#include "node/move/move_unsettled.h"

#include "node/daemon.h"
#include "node/move/move_inside.h"
#include "node/move/move_sync.h"

static uint64_t load(const uint64_t *place)
{
	return __atomic_load_n(place, __ATOMIC_SEQ_CST);
}

/* The guest's bytes that count as movable, but are credit that it does not use. */
static uint64_t idle_credit(const struct guest_device *at)
{
	const struct wire_own_page *own = at->guest->own;

	return beyond(at->move.here, load(&own->movable[index_of(at)].resident_bytes));
}

/* The guest's bytes that count as unmovable, but may turn out to be movable or not there at all. */
static uint64_t unsettled(const struct guest_device *at, uint64_t *ret_spare)
{
	const struct wire_own_page *own = at->guest->own;
	size_t i = index_of(at);
	uint64_t ended = load(&own->changes_ended), begun = load(&own->changes_begun), used, fixed;
	struct ledger_sums has;

	ledger_holder_sums(at->holder, &has);
	fixed = has.granted - has.evicted;
	fixed -= at->move.here < fixed ? at->move.here : fixed;
	used = load(&own->device[i].allocated_bytes) - load(&own->movable[i].resident_bytes);
	*ret_spare = used < fixed ? fixed - used : 0;
	/* Memory that is being allocated does not count as movable yet. */
	return (at->in_flux ? residual_charge(&at->residual) : residual_guessed(&at->residual)) +
	       (begun != ended ? fixed : *ret_spare);
}

bool move_is_expecting(const struct daemon *d, uint32_t index)
{
	if (!d->restore.waiting)
		return false;
	list_for_each(link, (struct list *)&d->device[index].tenants)
	{
		if (list_entry(link, struct tenant_device, link)->tenant->expected_count)
			return true;
	}
	return false;
}

uint64_t move_idle_credit_of(const struct tenant_device *of)
{
	uint64_t all = 0;

	list_for_each(link, (struct list *)&of->tenant->guests) all +=
		idle_credit(&list_entry(link, struct guest, link)->device[tenant_index(of)]);
	return all;
}

/* Memory that leaves is out by the page before that is reported, so both count. The page's two
 * figures are not written at once: where they may be changing, none counts. */
static uint64_t unused_credit(const struct guest_device *at)
{
	const struct wire_own_page *own = at->guest->own;
	const struct move_guest *m = &at->move;
	uint64_t ended = load(&own->changes_ended);
	uint64_t here = load(&own->movable[index_of(at)].resident_bytes);
	uint64_t out = load(&own->movable[index_of(at)].out_bytes);

	if (load(&own->changes_begun) != ended || move_open_credit(m))
		return 0;
	return least(beyond(m->here, here), beyond(m->here + m->out, here + out));
}

uint64_t move_unused_credit_of(const struct tenant_device *of)
{
	uint64_t all = 0;

	list_for_each(link, (struct list *)&of->tenant->guests) all +=
		unused_credit(&list_entry(link, struct guest, link)->device[tenant_index(of)]);
	return all;
}

uint64_t move_idle_credit_on(const struct device *device)
{
	uint64_t all = 0;

	list_for_each(link, (struct list *)&device->tenants) all +=
		move_idle_credit_of(list_entry(link, struct tenant_device, link));
	return all;
}

uint64_t move_unsettled(const struct device *device)
{
	uint64_t all = 0, spare;

	list_for_each(seats, (struct list *)&device->tenants)
	{
		struct tenant_device *of = list_entry(seats, struct tenant_device, link);
		uint32_t i = tenant_index(of);

		list_for_each(link, &of->tenant->guests)
		{
			struct guest_device *at = &list_entry(link, struct guest, link)->device[i];

			move_sync(at, false);
			all += unsettled(at, &spare);
			spare += idle_credit(at);
			/* A guest that does not answer, or is stopped, is not told again and
			 * again. */
			if (spare > at->move.recalled_bytes)
				move_recall(at, spare);
		}
	}
	return all;
}

void move_recall_if_short(struct daemon *d, uint32_t index)
{
	struct device *device = &d->device[index];
	const struct residency *r = &device->residency;

	if (!device->members || residency_bears(r, r->capacity_bytes, r->above_bytes))
		return;
	move_unsettled(device);
	/* A guest may have credit to spare later, and does not report that. */
	move_check_later(d);
}
