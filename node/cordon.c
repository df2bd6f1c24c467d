/* SPDX-License-Identifier: Apache-2.0 */
#include "node/cordon.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "node/keeper.h"
#include "node/kubernetes.h"

void cordon_set(struct daemon *d, uint32_t device, bool cordoned)
{
	struct device *it = &d->device[device];

	if (it->cordoned == cordoned)
		return;
	it->cordoned = cordoned;
	restore_cordon(d, device);
	log_info(cordoned ? "device.cordoned" : "device.uncordoned", "uuid=%s tenants=%u",
		 it->info->uuid_text, it->registered);
	kubernetes_cordoned(d->kubernetes, device);
}

void cordon_return(struct daemon *d, uint32_t device)
{
	d->device[device].cordoned = true;
}

int cordon_check(const struct daemon *d, const uint32_t *device, uint32_t devices,
		 struct fault *why)
{
	for (uint32_t i = 0; i < devices; i++)
		if (d->device[device[i]].cordoned)
			return fault_set(why, -EBUSY,
					 "device %u (%s) takes no new tenants: `mete uncordon %u` "
					 "ends that",
					 device[i], d->device[device[i]].info->uuid_text,
					 device[i]);
	return 0;
}

bool cordon_any(const struct daemon *d)
{
	for (uint32_t i = 0; i < d->devices; i++)
		if (d->device[i].cordoned)
			return true;
	return false;
}

uint32_t cordon_end(struct tenant *t, bool at_once)
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
	return count;
}
