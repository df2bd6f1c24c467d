/* SPDX-License-Identifier: Apache-2.0 */
#include "node/devices/cordon.h"

#include "node/daemon.h"
#include "node/events.h"
#include "node/state/recorder.h"
#include "node/upcalls.h"

void cordon_set(struct daemon *d, uint32_t device, bool cordoned)
{
	struct device *it = &d->device[device];

	if (it->cordoned == cordoned)
		return;
	it->cordoned = cordoned;
	recorder_cordon(d, device);
	log_info(cordoned ? "device.cordoned" : "device.uncordoned", "uuid=%s tenants=%u",
		 it->info->uuid_text, it->registered);
	events_device(d, device, cordoned ? HAPPENED_CORDONED : HAPPENED_UNCORDONED, "it takes %s",
		      cordoned ? "no new tenants" : "new tenants again");
	kubernetes_cordoned(d, device);
}

void cordon_return(struct daemon *d, uint32_t device)
{
	d->device[device].cordoned = true;
}

int cordon_check(const struct daemon *d, const uint32_t *device, uint32_t devices,
		 struct fault *why)
{
	for (uint32_t i = 0; i < devices; i++) {
		if (d->device[device[i]].info->gone)
			return fault_set(
				why, -ENODEV,
				"device %u (%s) is gone: MIG has divided its GPU in another "
				"way",
				device[i], d->device[device[i]].info->uuid_text);
		if (d->device[device[i]].cordoned)
			return fault_set(why, -EBUSY,
					 "device %u (%s) takes no new tenants: `mete uncordon %u` "
					 "ends that",
					 device[i], d->device[device[i]].info->uuid_text,
					 device[i]);
	}
	return 0;
}

bool cordon_any(const struct daemon *d)
{
	for (uint32_t i = 0; i < d->devices; i++)
		if (d->device[i].cordoned)
			return true;
	return false;
}
