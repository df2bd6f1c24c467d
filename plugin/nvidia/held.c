/* SPDX-License-Identifier: Apache-2.0 */
/* Devices that a container has had a share of since before the file lost its key `mete`. */
#include "plugin/plugin.h"

/* A container that had a share of a device when the file had `mete` keeps it until it ends.
 * Until then no other container is given the whole device. */
static void on_tenant(void *owner, const struct wire_tenant_row *row)
{
	struct plugin *p = owner;

	if (row->device < p->host->devices && row->guests)
		p->offer[row->device].held = true;
}

void as_nvidia_mark(struct plugin *p)
{
	const struct host_reader reader = {.owner = p, .tenant = on_tenant};
	bool held[HOST_DEVICES] = {false};

	for (uint32_t i = 0; i < p->host->devices; i++) {
		held[i] = p->offer[i].held;
		p->offer[i].held = false;
	}
	p->host->rows(p->host->daemon, &reader);
	list_for_each(link, &p->bindings.all)
	{
		const struct binding *b = list_entry(link, struct binding, link);

		for (uint32_t i = 0; i < b->devices; i++)
			p->offer[b->device[i]].held = true;
	}
	for (uint32_t i = 0; i < p->host->devices; i++)
		if (p->offer[i].held != held[i])
			log_info(held[i] ? "device.free" : "device.held", "uuid=%s",
				 p->host->device[i].uuid);
}

void as_nvidia_look(struct plugin *p)
{
	as_nvidia_mark(p);
	serve_changed(p);
}
