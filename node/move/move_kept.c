/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of the store that guests keep although they were told to drop them. Others were admitted
 * against that room, so the machine reckons without it until it comes back: an ask is then refused,
 * and does not wait in vain. Patience is as in core/residency/residency_patience.c.
 */
#include "node/move/move_kept.h"

#include <inttypes.h>

#include "base/log.h"
#include "node/daemon.h"
#include "node/move/move_inside.h"
#include "node/time/hang.h"

static uint64_t open_drop(const struct move_guest *m)
{
	return beyond(m->drop, m->dropped);
}

void move_owes(struct guest_device *at)
{
	if (!at->move.owes_since_ns)
		at->move.owes_since_ns = loop_now_ns();
	move_check_later(at->guest->tenant->daemon);
}

static bool owes(const struct move_guest *m)
{
	return open_drop(m) > m->given_bytes && move_surplus(m);
}

/* Of one guest. */
static uint64_t kept_by(struct guest_device *at, uint64_t now_ns)
{
	struct move_guest *m = &at->move;
	bool kept = m->keeps;

	if (!owes(m))
		m->owes_since_ns = 0;
	m->keeps = m->owes_since_ns && now_ns - m->owes_since_ns >= residency_usual.patience_ns;
	if (m->keeps && !kept) {
		log_warning("store.kept", "tenant=%u guest=%u bytes=%" PRIu64,
			    at->guest->tenant->id, at->guest->id, move_surplus(m));
		hang_stuck(of_tenant(at));
	}
	return m->keeps ? move_surplus(m) : 0;
}

/* Of a tenant, beyond the bytes that the machine counts there. */
static uint64_t kept_of(struct tenant_device *of, uint64_t now_ns, bool *ret_owes)
{
	uint32_t i = tenant_index(of);
	uint64_t kept = 0, has = 0;

	list_for_each(link, &of->tenant->guests)
	{
		struct guest_device *at = &list_entry(link, struct guest, link)->device[i];

		kept += kept_by(at, now_ns);
		has += at->move.segment_bytes + at->move.foreign_bytes;
		*ret_owes |= at->move.owes_since_ns != 0;
	}
	return least(kept, beyond(has, of->member.store_bytes));
}

void move_count_kept(struct daemon *d, uint64_t now_ns)
{
	bool any = false;

	for (uint32_t i = 0; i < d->devices; i++) {
		uint64_t kept = 0;

		list_for_each(link, &d->device[i].tenants)
		{
			struct tenant_device *of = list_entry(link, struct tenant_device, link);

			if (!of->joined)
				continue;
			residency_keeps(&of->member, kept_of(of, now_ns, &any));
			kept += of->member.kept_bytes;
		}
		d->device[i].kept_bytes = kept;
	}
	if (any)
		move_check_later(d);
}

const struct tenant_device *move_keeper(const struct device *device)
{
	const struct tenant_device *most_of = NULL;

	list_for_each(link, (struct list *)&device->tenants)
	{
		const struct tenant_device *of = list_entry(link, struct tenant_device, link);
		uint64_t kept = of->joined ? of->member.kept_bytes : 0;

		if (kept > (most_of ? most_of->member.kept_bytes : 0))
			most_of = of;
	}
	return most_of;
}

void move_gave(struct guest_device *at, uint64_t bytes)
{
	struct move_guest *m = &at->move;
	uint64_t took_ns = residency_slowest_ns(&residency_usual, bytes);
	uint64_t now = loop_now_ns();

	if (!m->owes_since_ns)
		return;
	m->owes_since_ns = owes(m) ? least(now, m->owes_since_ns + took_ns) : 0;
	if (m->keeps)
		move_count_kept(at->guest->tenant->daemon, now);
}
