/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who waits for its memory while another tenant does not make room, and asks for nothing: no ask of
 * it is refused with a sentence. So its guests are told who that is, for the program's standard
 * error, and `mete ps` shows it. Whoever fits beside what stays is chosen by the machine, and runs.
 */
#include "node/move/move_behind.h"

#include "base/text.h"
#include "node/daemon.h"
#include "node/move/move_inside.h"
#include "node/peers/peer.h"
#include "node/tenants/guest_send.h"

static bool is_in_the_way(const struct residency_member *m)
{
	return m->stuck || m->kept_bytes;
}

/* Who was stuck lately, and moves now, is not named for the first time. */
static const struct residency_member *look_for(const struct tenant_device *of)
{
	const struct residency_member *m = &of->member, *by;

	if (!of->joined || m->place == RESIDENCY_IN || !m->wants || m->suspended || m->stuck)
		return NULL;
	by = residency_hindrance(m);
	return by && (is_in_the_way(by) || of->behind) ? by : NULL;
}

static void tell(const struct tenant_device *of, const struct residency_member *by)
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
		wire_set_text(&message.hindered.by, by ? move_hindrance(by).text : "");
		guest_send(g, &message);
	}
}

/* Whether it is to be looked at again without an event. */
static bool look_at(struct tenant_device *of)
{
	const struct residency_member *by = look_for(of);

	of->behind = by ? ((const struct tenant_device *)by->owner)->tenant->id : 0;
	tell(of, by);
	return of->behind || (of->joined && is_in_the_way(&of->member));
}

void move_look_behind(struct daemon *d)
{
	bool again = false;

	for (uint32_t i = 0; i < d->devices; i++)
		list_for_each(link, &d->device[i].tenants) again |=
			look_at(list_entry(link, struct tenant_device, link));
	if (again)
		move_look_later(d);
}
