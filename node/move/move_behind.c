/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tenant may wait for its memory while another one does not make room, or be parked for one of a
 * higher class, and ask for nothing: then no ask of it is refused with a sentence. So its guests
 * are told of the other tenant, for the program's standard error, and `mete ps` shows it. The
 * machine chooses tenants that fit beside the memory that stays, and they run.
 */
#include "node/move/move_behind.h"

#include "base/text.h"
#include "node/daemon.h"
#include "node/events.h"
#include "node/move/move_inside.h"
#include "node/peers/peer.h"
#include "node/tenants/guest_send.h"

static bool is_in_the_way(const struct residency_member *m)
{
	return m->stuck || m->kept_bytes;
}

/* A tenant that was stuck lately, and moves now, is named only if it was named before. */
static const struct residency_member *find_hindrance(const struct tenant_device *of)
{
	const struct residency_member *m = &of->member, *by;

	if (!of->joined || m->place == RESIDENCY_IN || !m->wants || m->suspended || m->stuck)
		return NULL;
	by = residency_hindrance(m);
	return by && (is_in_the_way(by) || of->behind) ? by : NULL;
}

/* The tenant for which others on the device are parked: of those of a higher class the one with
 * most of the device; NULL: there is none any more. */
static const struct tenant_device *yield_to(const struct device *device)
{
	const struct tenant_device *first = NULL;
	uint64_t most = 0;

	list_for_each(link, (struct list *)&device->tenants)
	{
		const struct tenant_device *at = list_entry(link, struct tenant_device, link);
		struct ledger_sums has;

		if (at->tenant->outer || at->tenant->share.class == SHARE_BATCH)
			continue;
		ledger_account_sums(at->account, &has);
		if (first && has.booked <= most)
			continue;
		first = at;
		most = has.booked;
	}
	return first;
}

static bool is_parked(const struct tenant_device *of)
{
	return of->joined && of->member.yields && of->member.place != RESIDENCY_IN;
}

static struct move_words why_parked(const struct tenant_device *by)
{
	struct move_words ret;

	snprintf(ret.text, sizeof(ret.text),
		 "it is parked: tenant %u (%.60s), of a class above batch, needs the room",
		 by->tenant->id, by->tenant->name);
	return ret;
}

static void tell(const struct tenant_device *of, const char *by)
{
	struct wire_message message;

	list_for_each(link, (struct list *)&of->tenant->guests)
	{
		struct guest *g = list_entry(link, struct guest, link);
		struct move_guest *m = &g->device[tenant_index(of)].move;

		if (!g->caller || m->behind == of->behind)
			continue;
		m->behind = of->behind;
		wire_begin(&message, WIRE_hindered, peer_new_id(&g->caller->peer));
		message.hindered.device = tenant_index(of);
		wire_set_text(&message.hindered.by, by);
		guest_send(g, &message);
	}
}

/* True: check it again, without an event. */
static bool check(struct tenant_device *of, const struct tenant_device *first)
{
	const struct tenant_device *above = is_parked(of) ? first : NULL;
	const struct residency_member *by = above ? NULL : find_hindrance(of);

	if (by)
		above = by->owner;
	of->behind = above ? above->tenant->id : 0;
	if (is_parked(of) && above && !of->told_parked)
		events_at(of, HAPPENED_PARKED,
			  "its memory leaves for a tenant of a class above batch");
	of->told_parked = is_parked(of) && above;
	tell(of, by ? move_hindrance(by).text : above ? why_parked(above).text : "");
	return of->behind || (of->joined && is_in_the_way(&of->member));
}

void move_check_behind(struct daemon *d)
{
	bool again = false;

	for (uint32_t i = 0; i < d->devices; i++) {
		struct device *device = &d->device[i];
		const struct tenant_device *first =
			device->residency.yielding ? yield_to(device) : NULL;

		list_for_each(link, &device->tenants) again |=
			check(list_entry(link, struct tenant_device, link), first);
	}
	if (again)
		move_check_later(d);
}

uint32_t move_behind(const struct tenant_device *of)
{
	const struct tenant_device *first = NULL;

	/* It may have been parked since the last check. */
	if (!of->behind && is_parked(of))
		first = yield_to(&of->tenant->daemon->device[of->index]);
	return first ? first->tenant->id : of->behind;
}
