/* SPDX-License-Identifier: Apache-2.0 */
#include "node/peers/admin_list.h"

#include "node/daemon.h"
#include "node/memory/measure.h"
#include "node/memory/outside.h"
#include "node/peers/admin_named.h"
#include "node/peers/admin_types.h"
#include "node/peers/listing.h"
#include "node/peers/peer.h"
#include "node/users/user.h"

struct answer {
	struct admin *admin;
	uint32_t id;
	uint64_t rows;
};

static void send_row(void *owner, const struct wire_message *row)
{
	struct answer *to = owner;
	struct wire_message message = *row;

	message.id = to->id;
	to->rows++;
	peer_send(&to->admin->peer, &message);
}

void admin_stop_listing(struct admin *a)
{
	if (a->listing && a->user)
		a->user->lists--;
	a->listing = false;
}

static void answer_list(struct admin *a)
{
	struct answer to = {.admin = a, .id = a->list_id};
	const struct listing listing = {.row = send_row, .owner = &to};
	struct wire_message end = {.code = WIRE_end, .id = a->list_id};
	struct tenant *only = NULL;

	admin_stop_listing(a);
	if (a->list_tenant) {
		only = admin_named(a, to.id, a->list_tenant, "");
		if (!only)
			return;
	}
	if (only)
		listing_one(only, &listing);
	else if (a->minor >= 1)
		listing_all(a->daemon, &listing);
	else
		listing_tenants(a->daemon, &listing);
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
