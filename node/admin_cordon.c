/* SPDX-License-Identifier: Apache-2.0 */
/* What `mete cordon` and `mete drain` ask for. */
#include "node/admin.h"
#include "node/cordon.h"

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

void admin_end(struct admin *a, uint32_t id, const struct wire_tenant_end *said)
{
	struct tenant *t = admin_own(a, id, said->tenant, said->name.text, false);

	if (!t)
		return;
	if (t->pods)
		peer_refuse(&a->peer, id, WIRE_REFUSED_VALUE,
			    "it is a container's, which would be started again: delete its pod");
	else
		peer_done(&a->peer, id, cordon_end(t, said->at_once != 0));
}
