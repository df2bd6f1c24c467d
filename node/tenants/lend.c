/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that guests open of each other (guest/movable/movable_lend.h). A lender is called by a
 * name of 128 random bits, known only to the processes that have its handles. Both get an end of a
 * new socket, on which they go on alone: no descriptor of a guest ever reaches this process, and
 * there is nothing to restore after a restart but the name, which the lender states again.
 *
 * The lender may be a process of the same tenant; without Kubernetes also another tenant's of the
 * same user, as `mpirun -n 2 mete run ...` makes one of each process. Containers are kept apart.
 */
#include "node/tenants/lend.h"

#include <string.h>
#include <sys/socket.h>

#include "node/daemon.h"
#include "node/peers/peer.h"
#include "node/tenants/guest_send.h"

static bool may_meet(const struct tenant *a, const struct tenant *b)
{
	return a == b || (a->owner == b->owner && !a->daemon->kubernetes);
}

static bool is_named(const struct guest *g, const wire_uuid *name)
{
	static const wire_uuid none;

	return memcmp(&g->lends, name, sizeof(*name)) == 0 &&
	       memcmp(name, &none, sizeof(none)) != 0;
}

/* *ret_later: it may still come back. A guest that has not stated yet what it has may be the
 * lender, however late it is after a restart. */
static struct guest *find(const struct guest *asker, const wire_uuid *name, bool *ret_later)
{
	struct daemon *d = asker->tenant->daemon;

	*ret_later = false;
	list_for_each(link, &d->tenants.all)
	{
		struct tenant *t = list_entry(link, struct tenant, link);

		if (!may_meet(t, asker->tenant))
			continue;
		list_for_each(other, &t->guests)
		{
			struct guest *g = list_entry(other, struct guest, link);

			*ret_later |= !g->stated;
			if (is_named(g, name))
				return g;
		}
	}
	return NULL;
}

void lend_heard(struct guest *g, uint32_t id, const struct wire_lend *said)
{
	g->lends = said->name;
	guest_done(g, id, 0);
}

/* Guests get no descriptors that meted itself may need. */
static int make_channel(const struct daemon *d, int channel[2])
{
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel) < 0)
		return -errno;
	if (channel[0] <= d->door.guest_fds && channel[1] <= d->door.guest_fds)
		return 0;
	close(channel[0]);
	close(channel[1]);
	return -EMFILE;
}

void lend_borrow(struct guest *g, uint32_t id, const struct wire_borrow *said)
{
	struct wire_message message = {.code = WIRE_channel, .channel.area = said->area};
	bool later;
	struct guest *lender = find(g, &said->name, &later);
	int channel[2], r;

	if (lender && !lender->caller)
		later = true;
	if (!lender || !lender->caller) {
		guest_refuse(g, id, later ? WIRE_REFUSED_BAD : WIRE_REFUSED_UNKNOWN,
			     later ? "the process that lends this memory is not back yet"
				   : "no process lends this memory");
		return;
	}
	r = make_channel(g->tenant->daemon, channel);
	if (r < 0) {
		guest_refuse(g, id, WIRE_REFUSED_FULL, "no channel to the lender: %s",
			     strerror(-r));
		return;
	}
	message.id = peer_new_id(&lender->caller->peer);
	if (peer_try_with(&lender->caller->peer, &message, channel[0])) {
		message.id = id;
		peer_send_with(&g->caller->peer, &message, &channel[1], 1);
	} else {
		guest_refuse(g, id, WIRE_REFUSED_FULL, "the lender does not read");
	}
	close(channel[0]);
	close(channel[1]);
}
