/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that outlives the process that made it: it was exported, and another process holds a
 * descriptor or has imported it. The driver lists it for no process (an H100's does not), so it is
 * in nobody's residual. Its maker's tenant stays charged with it (decision 106).
 *
 * How much it is: at most what the maker's page said may outlive it, and at most what the device
 * has in use beyond what the driver lists for processes. The second figure swings while others
 * allocate; so it takes two measurements to lower the charge, the larger of which counts. It is
 * never raised by a measurement, and a driver that tells no such figure leaves none of it. Until
 * both are there, the tenant's asks are not refused. Later they are repeated before an ask is
 * refused for lack of room.
 */
#include <inttypes.h>

#include "base/least.h"
#include "node/guest.h"
#include "node/measure.h"
#include "node/outside.h"
#include "node/remains.h"

enum { LOOKS = 2 };

/* What an idle device has in use that is listed for no process: 11 MiB on an H100. */
static const uint64_t slack_bytes = 32 << 20;

uint64_t remains_of(const struct guest_device *at)
{
	size_t i = (size_t)(at - at->guest->device);
	const struct wire_own_page *own = at->guest->own;
	uint64_t adrift = __atomic_load_n(&own->adrift_bytes[i], __ATOMIC_RELAXED);
	uint64_t outgoing = __atomic_load_n(&own->outgoing_bytes[i], __ATOMIC_RELAXED);
	struct ledger_sums has;

	ledger_holder_sums(at->holder, &has);
	return least(adrift > UINT64_MAX - outgoing ? UINT64_MAX : adrift + outgoing,
		     has.allocated - has.evicted);
}

/* Without a place in the ledger it is not charged. */
static void charge(struct tenant_device *of, uint64_t bytes)
{
	struct daemon *d = of->tenant->daemon;
	struct ledger *l = d->ledger;
	struct remains *it = &of->remains;
	bool changes = it->bytes != bytes;

	it->bytes = bytes;
	if (bytes && !list_linked(&it->link))
		list_append(&d->device[of->index].remains, &it->link);
	if (!bytes)
		list_remove(&it->link);
	if (bytes && !it->holder)
		it->holder = ledger_join(l, of->account, NULL);
	if (it->holder)
		ledger_residual(l, it->holder, bytes, bytes);
	if (!bytes && it->holder)
		ledger_leave(l, take(it->holder));
	if (changes)
		restore_behind(of->tenant, tenant_index(of));
}

static void look_again(struct tenant_device *of)
{
	struct daemon *d = of->tenant->daemon;

	of->remains.looks = 0;
	of->remains.after = d->measurements + 1;
	measure_unsettled(of, &of->remains.in_flux, true);
	outside_want(d);
}

void remains_left(struct tenant_device *of, uint64_t bytes)
{
	struct ledger_sums has;

	if (!bytes)
		return;
	ledger_account_sums(of->account, &has);
	charge(of, least(of->remains.bytes + bytes, most(of->remains.bytes, has.highest_limit)));
	look_again(of);
}

void remains_asker(struct guest_device *at, uint64_t bytes)
{
	struct tenant *t = at->guest->tenant;
	struct daemon *d = t->daemon;
	uint32_t index = t->device[at - at->guest->device].index;
	bool any = false;

	if (d->measure_late || ledger_fits(d->ledger, at->holder, bytes))
		return;
	list_for_each(link, &d->device[index].remains)
	{
		struct tenant_device *of = list_entry(link, struct tenant_device, remains.link);

		if (of->remains.in_flux)
			continue;
		look_again(of);
		any = true;
	}
	if (any)
		measure_start(d);
}

static void look(struct tenant_device *of, uint64_t nobody)
{
	struct remains *it = &of->remains;
	uint64_t most_bytes = most(nobody, it->looks ? it->nobody : 0);

	it->nobody = nobody;
	it->looks++;
	if (it->looks < LOOKS) {
		outside_want(of->tenant->daemon);
		return;
	}
	if (most_bytes < slack_bytes)
		most_bytes = 0;
	if (most_bytes < it->bytes)
		charge(of, most_bytes);
	if (it->bytes != it->said)
		log_info("memory.left_behind", "tenant=%u device=%u bytes=%" PRIu64, of->tenant->id,
			 of->index, it->bytes);
	it->said = it->bytes;
	measure_unsettled(of, &it->in_flux, false);
}

void remains_seen(struct daemon *d, uint32_t device)
{
	list_for_each(link, &d->device[device].remains)
	{
		struct tenant_device *of = list_entry(link, struct tenant_device, remains.link);

		if (of->remains.in_flux && d->measured_last >= of->remains.after)
			look(of, d->measured[device] ? d->nobody[device] : 0);
	}
}

/* The same device of the tenant that encloses it; NULL: none does, or it leaves as well. */
static struct tenant_device *above(const struct tenant_device *of)
{
	struct tenant *outer = of->tenant->outer;

	for (uint32_t i = 0; outer && i < outer->devices; i++)
		if (outer->device[i].index == of->index && outer->device[i].account)
			return &outer->device[i];
	return NULL;
}

void remains_end(struct tenant_device *of)
{
	struct daemon *d = of->tenant->daemon;
	struct tenant_device *heir = d->stopping ? NULL : above(of);
	uint64_t bytes = of->remains.bytes;

	measure_unsettled(of, &of->remains.in_flux, false);
	charge(of, 0);
	if (!heir || !bytes)
		return;
	remains_left(heir, bytes);
	measure_start(d);
}
