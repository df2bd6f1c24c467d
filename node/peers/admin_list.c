/* SPDX-License-Identifier: Apache-2.0 */
#include "node/peers/admin_list.h"

#include "node/daemon.h"
#include "node/memory/book.h"
#include "node/memory/measure.h"
#include "node/memory/outside.h"
#include "node/peers/admin_named.h"
#include "node/peers/admin_types.h"
#include "node/peers/peer.h"
#include "node/peers/rows.h"
#include "node/tenants/guest.h"
#include "node/users/user.h"

struct listing {
	struct admin *admin;
	uint32_t id;
	uint64_t rows;
};

static void send_row(struct listing *to, struct wire_message *row)
{
	row->id = to->id;
	to->rows++;
	peer_send(&to->admin->peer, row);
}

static void list_devices(struct listing *to)
{
	struct daemon *d = to->admin->daemon;

	for (uint32_t i = 0; i < d->devices; i++) {
		struct wire_message message = {.code = WIRE_device_row};

		rows_device(d, i, &message.device_row);
		send_row(to, &message);
	}
}

static void list_guests(struct listing *to, const struct tenant *t, uint32_t device)
{
	list_for_each(link, (struct list *)&t->guests)
	{
		struct guest *g = list_entry(link, struct guest, link);
		struct wire_message message = {.code = WIRE_guest_row};

		rows_guest(g, device, &message.guest_row);
		send_row(to, &message);
	}
}

static void list_tenant(struct listing *to, struct tenant *t)
{
	for (uint32_t i = 0; i < t->devices; i++) {
		struct wire_message message = {.code = WIRE_tenant_row};

		rows_tenant(t, i, &message.tenant_row);
		send_row(to, &message);
		list_guests(to, t, i);
	}
}

static void list_outside(struct listing *to)
{
	struct daemon *d = to->admin->daemon;

	for (uint32_t i = 0; i < d->devices; i++) {
		for (uint32_t n = 0;; n++) {
			struct wire_message message = {.code = WIRE_outside_row};

			if (!outside_row(d, i, n, &message.outside_row))
				break;
			send_row(to, &message);
		}
	}
}

void admin_stop_listing(struct admin *a)
{
	if (a->listing && a->user)
		a->user->lists--;
	a->listing = false;
}

static void answer_list(struct admin *a)
{
	struct listing to = {.admin = a, .id = a->list_id};
	struct wire_message end = {.code = WIRE_end, .id = a->list_id};
	struct tenant *only = NULL;

	admin_stop_listing(a);
	if (a->list_tenant) {
		only = admin_named(a, to.id, a->list_tenant, "");
		if (!only)
			return;
	}
	book_refresh_all(a->daemon);
	if (!only)
		list_devices(&to);
	list_for_each(link, &a->daemon->tenants.all)
	{
		struct tenant *t = list_entry(link, struct tenant, link);

		if (!only || t == only)
			list_tenant(&to, t);
	}
	if (!only && a->minor >= 1)
		list_outside(&to);
	end.end.rows = to.rows;
	peer_send(&a->peer, &end);
}

void admin_list(struct admin *a, uint32_t id, const struct wire_list *said)
{
	if (a->listing) {
		peer_refuse(&a->peer, id, WIRE_REFUSED_BAD, "a list is already in progress");
		return;
	}
	if (a->user && a->user->lists == USER_LISTS) {
		peer_refuse(&a->peer, id, WIRE_REFUSED_FULL,
			    "%d lists of user %u are in progress: no more are allowed at a time",
			    USER_LISTS, (unsigned)a->uid);
		return;
	}
	if (a->user)
		a->user->lists++;
	a->listing = true;
	a->list_id = id;
	a->list_tenant = said->tenant;
	a->list_rounds = RESIDUAL_ROUNDS;
	outside_want(a->daemon);
	measure_all(a->daemon);
	if (!measure_under_way(a->daemon))
		answer_list(a);
}

static struct admin *find_listing(struct daemon *d, bool all)
{
	list_for_each(link, &d->admins.all)
	{
		struct admin *a = list_entry(link, struct admin, link);

		if (a->listing && (all || a->list_rounds == 0))
			return a;
	}
	return NULL;
}

void admin_list_measured(struct daemon *d)
{
	struct admin *a;

	list_for_each(link, &d->admins.all)
	{
		a = list_entry(link, struct admin, link);
		a->list_rounds -= a->list_rounds > 0;
	}
	while ((a = find_listing(d, !measure_under_way(d))) != NULL)
		answer_list(a);
}
