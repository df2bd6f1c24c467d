/* SPDX-License-Identifier: Apache-2.0 */
#include "node/move/move_inside.h"

#include <string.h>

#include "base/least.h"
#include "base/text.h"
#include "node/daemon.h"
#include "node/move/store.h"

static const uint64_t ms = 1000000;

void move_check_later(struct daemon *d)
{
	if (d->move.check_ns)
		return;
	d->move.check_ns = loop_now_ns() + MOVE_CHECK_MS * ms;
	loop_arm(&d->move.timer, MOVE_CHECK_MS * ms);
}

uint64_t move_capacity(const struct daemon *d, uint32_t index)
{
	const struct device *device = &d->device[index];
	const struct residency *r = &device->residency;
	uint64_t here = r->resident_bytes + r->credit_bytes - device->passed_bytes;
	struct ledger_sums all;

	ledger_device_sums(d->book.ledger, index, &all);
	return beyond(all.limit + here, all.booked + all.outside + device->plain_bytes);
}

bool move_listens(const struct tenant_device *at)
{
	return at->joined && (at->seat.device->tenants > 1 || at->tenant->share.park_ns);
}

int move_host_error(const struct tenant_device *of)
{
	list_for_each(link, (struct list *)&of->tenant->guests)
	{
		const struct guest *g = list_entry(link, struct guest, link);
		int r = g->device[tenant_index(of)].move.host_error;

		if (r < 0)
			return r;
	}
	return 0;
}

void move_blame(struct tenant_device *of)
{
	list_for_each(link, &of->tenant->guests)
	{
		struct move_guest *m =
			&list_entry(link, struct guest, link)->device[tenant_index(of)].move;

		m->host_error = m->host_hinders ? m->host_error : 0;
	}
}

struct move_words move_hindrance(const struct residency_member *by)
{
	const struct tenant_device *of = by->owner;
	int no_host = move_host_error(of);
	struct move_words ret;

	if (no_host < 0 && !by->kept_bytes)
		snprintf(ret.text, sizeof(ret.text),
			 "the host has no memory for what tenant %u (%.60s), which has %s of the "
			 "device, is to move there: %s",
			 of->tenant->id, of->tenant->name,
			 text_size(by->resident_bytes + by->credit_bytes, TEXT_UP).text,
			 strerror(-no_host));
	else if (by->kept_bytes)
		snprintf(ret.text, sizeof(ret.text),
			 "tenant %u (%.60s) keeps %s of the store, which it was told to give back",
			 of->tenant->id, of->tenant->name, text_size(by->kept_bytes, TEXT_UP).text);
	else
		snprintf(ret.text, sizeof(ret.text),
			 "tenant %u (%.60s), which has %s of the device, is stuck: its memory does "
			 "not leave as it was told",
			 of->tenant->id, of->tenant->name,
			 text_size(by->resident_bytes + by->credit_bytes, TEXT_UP).text);
	return ret;
}

uint64_t move_budget(const struct daemon *d, uint32_t index)
{
	const struct store_part *part = &d->move.part[index].store;

	return beyond(part->budget_bytes, part->lost_bytes + d->device[index].kept_bytes);
}

uint64_t move_quota(const struct daemon *d, uint32_t index)
{
	return least(d->move.part[index].store.budget_bytes, d->move.quota_bytes);
}

uint64_t move_surplus(const struct move_guest *m)
{
	uint64_t needed = m->out + beyond(m->leave, m->left);

	return beyond(m->segment_bytes + m->foreign_bytes, needed);
}

uint64_t move_told_drop(const struct move_guest *m)
{
	return least(beyond(m->drop, m->dropped), m->given_bytes + move_surplus(m));
}
