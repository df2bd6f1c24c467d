/* SPDX-License-Identifier: Apache-2.0 */
/* What the node's devices are now, as slices. */
#include <inttypes.h>
#include <string.h>

#include "plugin/dra/counters.h"
#include "plugin/dra/publish.h"
#include "plugin/nvidia/parts.h"

/* Each reason has a key of its own, as NVIDIA's driver for claims has it, so that a claim can
 * tolerate any Xid and no lost GPU. Who runs goes on, unless nobody can use the device. */
static uint32_t add_health(const struct health *h, char *xid, size_t size,
			   struct slices_taint to[SLICES_TAINTS])
{
	uint32_t n = 0;

	if (h->cause == HEALTH_XID) {
		snprintf(xid, size, "%" PRIu64, h->xid);
		to[n++] = (struct slices_taint){"xid", xid, "NoSchedule"};
	} else if (h->cause != HEALTH_LOST) {
		to[n++] = (struct slices_taint){"ecc", NULL, "NoSchedule"};
	}
	if (health_is_gone(h))
		to[n++] = (struct slices_taint){"gpu-lost", NULL, "NoExecute"};
	return n;
}

void publish_taint(const struct plugin *p, uint32_t device, struct publish_device *to)
{
	uint32_t n = 0;

	if (!p->offer[device].healthy)
		n = add_health(&p->health[device], to->xid, sizeof(to->xid), to->device.taint);
	if (p->offer[device].cordoned)
		to->device.taint[n++] = (struct slices_taint){"cordoned", NULL, "NoSchedule"};
	if (p->offer[device].dividing)
		to->device.taint[n++] = (struct slices_taint){"dividing", NULL, "NoSchedule"};
}

/* A part of the processors of a GPU instance is no owner of the instance's memory. */
static struct slices_of_gpu slices_of(const struct publish *u, const struct host_device *info)
{
	const struct gpu_part *part = info->part;

	if (info->gpu_instance < 0 || !part || u->dra->server.drops ||
	    !counters_are_right(u->dra->server.version))
		return (struct slices_of_gpu){0};
	return (struct slices_of_gpu){
		.memory_first = part->memory_first,
		.memory = part->compute_slices < part->gpu_slices ? 0 : part->memory_slices,
		.compute = part->compute_slices,
		.gpu_memory = part->gpu_memory_slices,
		.gpu_compute = part->gpu_compute_slices,
	};
}

/* "NVIDIA H100 80GB HBM3 MIG 1g.10gb": what a part is called ends with its profile. */
static const char *profile_of(const struct host_device *info)
{
	const char *name = info->gpu_instance >= 0 ? strstr(info->model, " MIG ") : NULL;

	return name ? name + strlen(" MIG ") : NULL;
}

static bool fill(const struct publish *u, uint32_t i, struct publish_device *to)
{
	const struct plugin *p = u->dra->plugin;
	const struct host_device *info = &p->host->device[i];
	struct config_share share;
	uint32_t slots;

	/* A part that we have made is published as its place. */
	if (parts_hides(p->parts, i) || dra_withheld(u->dra, i) ||
	    !entitled_portion(p, i, &slots, &share))
		return false;
	pcie_root(p->config->driver_root, info->pci, to->root);
	to->device = (struct slices_device){
		.uuid = info->uuid,
		.model = info->model,
		.pci = info->pci,
		.pcie_root = to->root,
		.driver = p->host->driver_version,
		.cuda = p->host->cuda_version,
		.is_part = info->gpu_instance >= 0,
		.profile = profile_of(info),
		.parent = info->gpu_uuid,
		.gpu = info->gpu_index,
		.slices = slices_of(u, info),
		.major = info->cc_major,
		.minor = info->cc_minor,
		.numa = p->offer[i].numa,
		.total_bytes = info->total_bytes,
		.promised_bytes = config_promised(p->config, info->total_bytes),
		.slots = slots,
	};
	publish_taint(p, i, to);
	return true;
}

cJSON *publish_wanted(const struct publish *u, int64_t generation)
{
	const struct plugin *p = u->dra->plugin;
	const struct slices_pool pool = {.driver = u->dra->driver,
					 .node = p->node,
					 .node_uid = u->node_uid,
					 .generation = generation};
	struct publish_device rows[HOST_DEVICES];
	owned(free) struct slices_device *devices = NULL;
	struct publish_places places;
	cJSON *list = NULL;
	size_t n = 0;

	if (u->dra->withdrawn)
		return cJSON_CreateArray();
	for (uint32_t i = 0; i < p->host->devices; i++)
		n += fill(u, i, &rows[n]);
	publish_find_places(u, &places);
	if (!places.failed)
		devices = malloc((n + places.count + 1) * sizeof(*devices));
	for (size_t i = 0; devices && i < n; i++)
		devices[i] = rows[i].device;
	for (size_t i = 0; devices && i < places.count; i++)
		devices[n + i] = places.row[i].device;
	if (devices)
		list = slices_describe(&pool, devices, n + places.count);
	free(places.row);
	return list;
}
