/* SPDX-License-Identifier: Apache-2.0 */
#include "node/peers/admin_cordon.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "node/daemon.h"
#include "node/devices/cordon.h"
#include "node/events.h"
#include "node/peers/admin_named.h"
#include "node/peers/admin_types.h"
#include "node/peers/peer.h"
#include "node/tenants/keeper.h"
#include "node/tenants/tenant_find.h"

void admin_cordon(struct admin *a, uint32_t id, const struct wire_device_cordon *said)
{
	struct daemon *d = a->daemon;
	uint32_t device;
	int r;

	if (!admin_is_master(a, id, "cordon a device of the system's meted"))
		return;
	r = daemon_find_device(d, said->device.text, &device);
	if (r == -ENOTUNIQ) {
		peer_refuse(&a->peer, id, WIRE_REFUSED_UNKNOWN,
			    "several UUIDs begin with '%.60s'; accepted: more of it, or an index",
			    said->device.text);
		return;
	}
	if (r < 0) {
		peer_refuse(&a->peer, id, WIRE_REFUSED_UNKNOWN,
			    "there is no device '%.60s'; accepted: a UUID, its beginning, or an "
			    "index below %u (`mete ps` lists them)",
			    said->device.text, d->devices);
		return;
	}
	cordon_set(d, device, said->on != 0);
	peer_done(&a->peer, id, device);
}

/* Sends SIGTERM, or SIGKILL, to each process of the tenant that is known. Returns to how many. */
static uint32_t end_processes(struct tenant *t, bool at_once)
{
	int signal = at_once ? SIGKILL : SIGTERM;
	uint32_t count = keeper_signal(t, signal);

	list_for_each(link, &t->guests)
	{
		const struct guest *g = list_entry(link, struct guest, link);

		/* By its pidfd, so that no other process can be hit. */
		if (!keeper_has(t, g->pid) &&
		    syscall(SYS_pidfd_send_signal, g->pidfd, signal, NULL, 0) == 0)
			count++;
	}
	log_info("tenant.ends", "tenant=%u name=%s processes=%u signal=%s", t->id,
		 log_text(t->name).text, count, at_once ? "KILL" : "TERM");
	if (at_once)
		events_tenant(t, HAPPENED_KILLED, "%u of its processes were killed", count);
	else
		events_tenant(t, HAPPENED_ENDS, "%u of its processes were told to end", count);
	return count;
}

void admin_end(struct admin *a, uint32_t id, const struct wire_tenant_end *said)
{
	struct tenant *t = admin_own(a, id, said->tenant, said->name.text, false);

	if (!t)
		return;
	if (t->pods)
		peer_refuse(&a->peer, id, WIRE_REFUSED_VALUE,
			    "it is a container's, which would be started again: delete its pod");
	else
		peer_done(&a->peer, id, end_processes(t, said->at_once != 0));
}
