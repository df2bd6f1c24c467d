/* SPDX-License-Identifier: Apache-2.0 */
/* What the kubelet is told of places for parts, and which of them it had better take. */
#include <string.h>

#include "mig/place.h"
#include "mig/room.h"
#include "plugin/nvidia/mig_name.h"
#include "plugin/nvidia/parts_inside.h"

/* The part with that UUID, as the GPUs were last read; NULL: there is none. */
static const struct mig_part *part_of(const struct parts *parts, const char *uuid,
				      const struct mig_gpu **ret_gpu)
{
	for (uint32_t g = 0; g < parts->now.gpus; g++) {
		const struct mig_gpu *gpu = &parts->now.gpu[g];

		for (uint32_t i = 0; i < gpu->parts; i++)
			for (uint32_t k = 0; k < gpu->part[i].computes; k++)
				if (strcmp(gpu->part[i].uuid[k], uuid) == 0) {
					*ret_gpu = gpu;
					return &gpu->part[i];
				}
	}
	return NULL;
}

/* A part that we have just removed is meted's device for a moment more. */
bool parts_hides(const struct parts *parts, uint32_t device)
{
	const struct host_device *info = parts ? &parts->plugin->host->device[device] : NULL;
	const struct mig_gpu *gpu;
	const struct mig_part *part;

	if (!info || info->gpu_instance < 0 || !parts->begun ||
	    (!parts_is_on(parts) && !parts->now.rows))
		return false;
	part = part_of(parts, info->uuid, &gpu);
	return !part || parts_row_of(&parts->now, gpu, part);
}

const char *parts_place_of(const struct parts *parts, uint32_t device)
{
	const struct mig_gpu *gpu;
	const struct mig_part *part =
		parts ? part_of(parts, parts->plugin->host->device[device].uuid, &gpu) : NULL;
	const struct parts_row *row = part ? parts_row_of(&parts->now, gpu, part) : NULL;

	return row ? row->id : NULL;
}

/* The part of ours that is there; NULL: there is none. */
static const struct mig_part *part_at(const struct parts *parts, const char *id)
{
	const struct parts_state *now = &parts->now;
	struct mig_place_at at;
	int part;

	if (!parts_row((struct parts_state *)now, id) ||
	    mig_place_find(now->gpu, now->gpus, id, &at) < 0)
		return NULL;
	part = mig_room_part(&now->gpu[at.gpu], at.profile, at.place);
	return part < 0 ? NULL : &now->gpu[at.gpu].part[part];
}

int parts_device(const struct parts *parts, const char *id)
{
	const struct mig_part *part = parts && mig_place_is_name(id) ? part_at(parts, id) : NULL;

	return part ? parts_known(parts, part) : -1;
}

void parts_each_profile(const struct parts *parts, void (*each)(void *owner, const char *profile),
			void *owner)
{
	for (uint32_t g = 0; parts_is_on(parts) && g < parts->now.gpus; g++) {
		const struct mig_gpu *gpu = &parts->now.gpu[g];

		for (uint32_t i = 0; gpu->on && i < gpu->profiles; i++)
			if (gpu->profile[i].places)
				each(owner, gpu->profile[i].name);
	}
}

/* "nvidia.com/mig-1g.10gb" */
static bool is_of(const struct mig_profile *profile, const char *resource)
{
	char model[MIG_NAME_MAX + 8], name[MIG_NAME];

	snprintf(model, sizeof(model), "x MIG %s", profile->name);
	return mig_name_resource(model, name) && strncmp(resource, "nvidia.com/", 11) == 0 &&
	       strcmp(resource + 11, name) == 0;
}

/* An Xid of the part, or `mete cordon`. */
static bool is_well(const struct parts *parts, const char *id)
{
	int device = parts_device(parts, id);

	return device < 0 || offer_is_open(&parts->plugin->offer[device]);
}

static uint32_t offer_profile(const struct parts *parts, const struct mig_gpu *gpu,
			      uint32_t profile, struct parts_offered *ret, uint32_t room)
{
	bool goes[MIG_PARTS_MAX];
	struct mig_room open;
	uint32_t n = 0;

	parts_find_going(&parts->now, gpu, goes);
	mig_room_find(gpu, goes, &open);
	mig_room_offer(gpu, goes, profile, &open);
	for (uint32_t k = 0; k < gpu->profile[profile].places && n < room; k++) {
		const struct parts_row *row;

		if (mig_place_name(gpu, profile, k, ret[n].id, IDS_BYTES) < 0)
			continue;
		row = parts_row((struct parts_state *)&parts->now, ret[n].id);
		ret[n].healthy = ((row && row->busy) || open.open[profile][k]) &&
				 is_well(parts, ret[n].id) && !parts->plugin->enrol.rival;
		n++;
	}
	return n;
}

uint32_t parts_offer(const struct parts *parts, const char *resource, struct parts_offered *ret,
		     uint32_t room)
{
	uint32_t n = 0;

	for (uint32_t g = 0; parts_is_on(parts) && g < parts->now.gpus; g++) {
		const struct mig_gpu *gpu = &parts->now.gpu[g];

		for (uint32_t i = 0; gpu->on && i < gpu->profiles; i++)
			if (is_of(&gpu->profile[i], resource))
				n += offer_profile(parts, gpu, i, ret + n, room - n);
	}
	return n;
}

/* ---- GetPreferredAllocation ----------------------------------------------------------------- */

struct preference {
	const struct parts *parts;
	struct mig_room *room; /* of each GPU */
};

/* What is there and nobody's costs nothing, whether it is ours or not: then comes the place that
 * leaves most for others. UINT32_MAX: none. */
static uint32_t cost_of(const struct preference *by, const char *id)
{
	const struct parts_state *now = &by->parts->now;
	struct mig_place_at at;

	if (!mig_place_is_name(id))
		return 0;
	if (mig_place_find(now->gpu, now->gpus, id, &at) < 0 ||
	    !by->room[at.gpu].open[at.profile][at.place])
		return UINT32_MAX;
	if (mig_room_part(&now->gpu[at.gpu], at.profile, at.place) >= 0)
		return 0;
	return mig_room_cost(&now->gpu[at.gpu], &by->room[at.gpu], at.profile, at.place);
}

static void take_place(struct preference *by, const char *id)
{
	const struct parts_state *now = &by->parts->now;
	struct mig_place_at at;

	if (mig_place_find(now->gpu, now->gpus, id, &at) == 0)
		mig_room_take(&now->gpu[at.gpu], at.profile, at.place, &by->room[at.gpu]);
}

static void choose(struct preference *by, const char **ids, size_t count, size_t from, size_t size)
{
	for (size_t n = from; n < size && n < count; n++) {
		uint32_t least = UINT32_MAX;
		size_t best = n;
		const char *id;

		for (size_t i = n; i < count; i++) {
			uint32_t cost = cost_of(by, ids[i]);

			if (cost < least) {
				least = cost;
				best = i;
			}
		}
		id = ids[best];
		ids[best] = ids[n];
		ids[n] = id;
		take_place(by, id);
	}
}

bool parts_prefer(const struct parts *parts, const char **ids, size_t count, size_t must,
		  size_t size)
{
	struct preference by = {.parts = parts};
	bool any = false;

	for (size_t i = 0; parts_is_on(parts) && i < count; i++)
		any |= mig_place_is_name(ids[i]);
	if (!any)
		return false;
	by.room = calloc(parts->now.gpus + 1, sizeof(*by.room));
	if (!by.room)
		return true; /* any will do */
	for (uint32_t g = 0; g < parts->now.gpus; g++) {
		bool goes[MIG_PARTS_MAX];

		parts_find_going(&parts->now, &parts->now.gpu[g], goes);
		mig_room_find(&parts->now.gpu[g], goes, &by.room[g]);
	}
	for (size_t i = 0; i < must && i < count; i++)
		take_place(&by, ids[i]);
	choose(&by, ids, count, must, size);
	free(by.room);
	return true;
}
