/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that outlives the process that made it: it was exported, and another process holds a
 * descriptor or has imported it. The driver lists it for no process (an H100's does not), so it is
 * in nobody's residual. Its maker's tenant stays charged with it (decision 106).
 *
 * Its amount has two bounds: the bytes that may outlive the maker, by the maker's page, and the
 * device's bytes in use that the driver lists for no process. The second figure swings while others
 * allocate, so it takes two looks to lower the charge, and the larger figure counts. A look never
 * raises the charge, and a driver without such a figure leaves none of it. Until both looks are
 * made, the tenant's asks are not refused. Later the looks are repeated before an ask is refused
 * for lack of room.
 */
#include "node/memory/remains.h"

#include <inttypes.h>

#include "base/least.h"
#include "node/daemon.h"
#include "node/memory/measure.h"
#include "node/memory/outside.h"
#include "node/state/recorder.h"

enum { LOOKS = 2 };

/* An idle device has some bytes in use that are listed for no process: 11 MiB on an H100. */
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
static void charge(struct remains *it, uint64_t bytes)
{
	struct ledger *l = it->daemon->book.ledger;
	bool changes = it->bytes != bytes;

	it->bytes = bytes;
	if (bytes && !list_linked(&it->link))
		list_append(&it->daemon->device[it->index].remains, &it->link);
	if (!bytes)
		list_remove(&it->link);
	if (bytes && !it->holder)
		it->holder = ledger_join(l, it->account, NULL);
	if (it->holder)
		ledger_residual(l, it->holder, bytes, bytes);
	if (!bytes && it->holder)
		ledger_leave(l, take(it->holder));
	if (changes && it->of)
		recorder_behind(it->of->tenant, tenant_index(it->of));
}

/* A user's asks are its tenants'. */
static void show_flux(const struct remains *it)
{
	ledger_unsettled(it->daemon->book.ledger, it->account,
			 it->in_flux && !it->daemon->measure.late ? LEDGER_IN_FLUX
								  : LEDGER_SETTLED);
}

static void set_in_flux(struct remains *it, bool in_flux)
{
	if (it->of) {
		measure_unsettled(it->of, &it->in_flux, in_flux);
		return;
	}
	it->in_flux = in_flux;
	show_flux(it);
}

void remains_late(struct daemon *d)
{
	for (uint32_t i = 0; i < d->devices; i++)
		list_for_each(link, &d->device[i].remains)
		{
			const struct remains *it = list_entry(link, struct remains, link);

			if (!it->of)
				show_flux(it);
		}
}

static void look_again(struct remains *it)
{
	it->looks = 0;
	it->after = it->daemon->measure.begun + 1;
	set_in_flux(it, true);
	outside_want(it->daemon);
}

void remains_begin(struct remains *it, struct daemon *d, uint32_t index,
		   struct ledger_account *account, uid_t user)
{
	*it = (struct remains){.daemon = d, .index = index, .account = account, .user = user};
}

static void add(struct remains *it, uint64_t bytes)
{
	struct ledger_sums has;

	ledger_account_sums(it->account, &has);
	charge(it, least(it->bytes + bytes, most(it->bytes, has.highest_limit)));
	look_again(it);
}

/* Without memory for the record it is not charged. */
void remains_left(struct tenant_device *at, uint64_t bytes)
{
	if (!bytes)
		return;
	if (!at->remains) {
		at->remains = calloc(1, sizeof(*at->remains));
		if (!at->remains)
			return;
		*at->remains = (struct remains){.daemon = at->tenant->daemon,
						.index = at->index,
						.account = at->account,
						.of = at};
	}
	add(at->remains, bytes);
}

bool remains_look(struct daemon *d, uint32_t index)
{
	bool any = false;

	list_for_each(link, &d->device[index].remains)
	{
		struct remains *it = list_entry(link, struct remains, link);

		if (it->in_flux)
			continue;
		look_again(it);
		any = true;
	}
	return any;
}

void remains_asker(struct guest_device *at, uint64_t bytes)
{
	struct tenant *t = at->guest->tenant;
	struct daemon *d = t->daemon;
	uint32_t index = t->device[at - at->guest->device].index;

	if (d->measure.late || ledger_fits(d->book.ledger, at->holder, bytes))
		return;
	if (remains_look(d, index))
		measure_start(d);
}

static void log_of(const struct remains *it)
{
	if (it->of)
		log_info("memory.left_behind", "tenant=%u device=%u bytes=%" PRIu64,
			 it->of->tenant->id, it->index, it->bytes);
	else
		log_info("memory.left_behind", "user=%u device=%u bytes=%" PRIu64,
			 (unsigned)it->user, it->index, it->bytes);
}

static void look(struct remains *it, uint64_t nobody)
{
	/* Of two looks: the first one only notes its figure. */
	uint64_t most_bytes = most(nobody, it->nobody);

	it->nobody = nobody;
	it->looks++;
	if (it->looks < LOOKS) {
		outside_want(it->daemon);
		return;
	}
	if (most_bytes < slack_bytes)
		most_bytes = 0;
	if (most_bytes < it->bytes)
		charge(it, most_bytes);
	if (it->bytes != it->logged)
		log_of(it);
	it->logged = it->bytes;
	set_in_flux(it, false);
}

/* A driver that fails once says nothing new. One that never answers leaves none of it, since
 * nothing could lower the charge. */
static uint64_t seen_on(const struct daemon *d, uint32_t device, const struct remains *it)
{
	if (d->measure.measured[device])
		return d->measure.nobody[device];
	return d->measure.answered[device] ? it->bytes : 0;
}

void remains_seen(struct daemon *d, uint32_t device)
{
	list_for_each(link, &d->device[device].remains)
	{
		struct remains *it = list_entry(link, struct remains, link);

		if (it->in_flux && d->measure.ended >= it->after)
			look(it, seen_on(d, device, it));
	}
}

void remains_end(struct remains *it)
{
	set_in_flux(it, false);
	charge(it, 0);
}

static void leave_to_heir(const struct tenant_device *at, const struct user *user, uint64_t bytes)
{
	struct tenant *outer = at->tenant->outer;

	for (uint32_t i = 0; outer && i < outer->devices; i++)
		if (outer->device[i].index == at->index && outer->device[i].account) {
			remains_left(&outer->device[i], bytes);
			return;
		}
	if (user)
		add(&user->remains[at->index], bytes);
}

void remains_end_of(struct tenant_device *at, const struct user *user)
{
	owned(free) struct remains *it = take(at->remains);
	struct daemon *d = at->tenant->daemon;
	uint64_t bytes = it ? it->bytes : 0;

	if (it)
		remains_end(it);
	if (!bytes || d->stopping)
		return;
	leave_to_heir(at, user, bytes);
	measure_start(d);
}
