/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The places where parts of MIG can be made for claims, as devices. Each is published whether it
 * has a part of ours or not, so that slices change only when somebody else divides a GPU. Nothing
 * but their counters keeps two of them apart.
 */
#include <string.h>
#include <time.h>

#include "base/least.h"
#include "plugin/dra/publish.h"
#include "plugin/nvidia/parts.h"

/* More would be a pool of which kube-scheduler looks through sixteen slices for each claim. */
enum { PLACES_MOST = 1024 };

/* What the configuration gives to a part that is not there: no rule can name it by its number. */
static bool share_out(const struct plugin *p, const struct publish_device *to, uint32_t gpu,
		      uint32_t *ret_slots)
{
	const struct config_device at = {.index = gpu,
					 .is_part = true,
					 .part_index = UINT32_MAX,
					 .uuid = to->id,
					 .model = to->model};
	struct config_share share;
	time_t now = time(NULL);
	struct tm local;

	localtime_r(&now, &local);
	return config_portion(p->config, &at, &local, ret_slots, &share);
}

/* What the whole GPU has: its largest profile, or as many parts of one as it can have. */
static void find_all(const struct mig_gpu *gpu, struct slices_of_gpu *to)
{
	for (uint32_t i = 0; i < gpu->profiles; i++) {
		const struct mig_profile *one = &gpu->profile[i];

		to->gpu_compute = (uint32_t)most(to->gpu_compute, one->slices * one->most);
		for (uint32_t k = 0; k < one->places; k++)
			to->gpu_memory = (uint32_t)most(to->gpu_memory,
							one->place[k].start + one->place[k].size);
		for (uint32_t k = 0; k < MIG_ENGINES; k++)
			to->gpu_engines[k] =
				(uint32_t)most(to->gpu_engines[k], one->engines[k] * one->most);
	}
}

static struct slices_of_gpu slices_of(const struct parts_place *place)
{
	struct slices_of_gpu slices = {.memory_first = place->at.start,
				       .memory = place->at.size,
				       .compute = place->profile->slices};

	memcpy(slices.engines, place->profile->engines, sizeof(slices.engines));
	find_all(place->gpu, &slices);
	return slices;
}

static void copy_texts(const struct parts_place *place, struct publish_device *to)
{
	snprintf(to->id, sizeof(to->id), "%s", place->id);
	snprintf(to->parent, sizeof(to->parent), "%s", place->gpu->uuid);
	snprintf(to->profile, sizeof(to->profile), "%s", place->profile->name);
	snprintf(to->pci, sizeof(to->pci), "%s", place->gpu->pci);
	snprintf(to->model, sizeof(to->model), "%s MIG %s", place->gpu->name, to->profile);
}

/* A name that is cut off might be another place's, and what no set counts excludes nothing. */
static bool can_be_published(const struct slices_device *device)
{
	char name[SLICES_NAME];
	size_t wanted = strlen(device->uuid);

	for (const char *c = device->uuid; *c; c++)
		wanted += *c == '+' ? strlen("-plus-") - 1 : 0;
	slices_device_name(device->uuid, name);
	return strlen(name) == wanted && counters_can_count(device);
}

static void fill(void *owner, const struct parts_place *place)
{
	struct publish_places *places = owner;
	const struct plugin *p = places->publish->dra->plugin;
	uint64_t bytes = place->profile->memory_mib << 20;
	struct publish_device *to;
	uint32_t slots;

	if (places->count == places->most)
		return;
	to = &places->row[places->count];
	memset(to, 0, sizeof(*to));
	copy_texts(place, to);
	if (!share_out(p, to, place->gpu->index, &slots))
		return;
	pcie_root(p->config->driver_root, to->pci, to->root);
	to->device = (struct slices_device){
		.uuid = to->id,
		.model = to->model,
		.is_place = true,
		.profile = to->profile,
		.parent = to->parent,
		.pci = to->pci,
		.pcie_root = to->root,
		.driver = p->host->driver_version,
		.cuda = p->host->cuda_version,
		.is_part = true,
		.gpu = place->gpu->index,
		.slices = slices_of(place),
		.major = place->gpu->cc_major,
		.minor = place->gpu->cc_minor,
		.numa = offered_numa(p, to->pci),
		.total_bytes = bytes,
		.promised_bytes = config_promised(p->config, bytes),
		.slots = slots,
	};
	/* Its health is known while there is a part. */
	if (place->device >= 0)
		publish_taint(p, (uint32_t)place->device, to);
	places->count += can_be_published(&to->device);
}

static void count(void *owner, unused const struct parts_place *place)
{
	++*(uint32_t *)owner;
}

static uint32_t count_places(const struct publish *u)
{
	uint32_t places = 0;

	parts_each_place(u->dra->plugin->parts, count, &places);
	return places;
}

static bool are_counted(const struct publish *u)
{
	return !u->dra->server.drops && counters_are_right(u->dra->server.version);
}

static const char uncounted[] =
	"mig: dynamic: this cluster does not count which parts of a GPU exclude each other, so "
	"none is published that could be made; accepted: Kubernetes 1.37 or newer with the feature "
	"gate DRAPartitionableDevices";
static const char too_many[] =
	"mig: dynamic: parts could be made at more than 1024 places, and the first 1024 are "
	"published; accepted: MIG mode on fewer GPUs";

const char *publish_unplaced(const struct publish *u)
{
	if (!u->dra->server.answered || !count_places(u))
		return NULL;
	if (!are_counted(u))
		return uncounted;
	return count_places(u) > PLACES_MOST ? too_many : NULL;
}

void publish_find_places(const struct publish *u, struct publish_places *ret_places)
{
	const struct plugin *p = u->dra->plugin;

	*ret_places = (struct publish_places){.publish = u};
	if (!p->config->dra || p->enrol.rival || !are_counted(u))
		return;
	ret_places->most = (uint32_t)least(PLACES_MOST, count_places(u));
	ret_places->row = calloc(ret_places->most + 1, sizeof(*ret_places->row));
	ret_places->failed = !ret_places->row;
	if (ret_places->row)
		parts_each_place(p->parts, fill, ret_places);
}
