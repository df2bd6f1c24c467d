/* SPDX-License-Identifier: Apache-2.0 */
/* The places that are published for claims: kube-scheduler counts which exclude each other, and
 * takes the first that fits. */
#include "mig/place.h"
#include "mig/room.h"
#include "plugin/nvidia/parts_inside.h"

struct walk {
	const struct parts *parts;
	const struct mig_gpu *gpu;
	struct mig_room room; /* without parts of ours */
	void (*each)(void *owner, const struct parts_place *place);
	void *owner;
};

static void tell(const struct walk *w, uint32_t profile, uint32_t place)
{
	char id[IDS_BYTES];
	struct parts_place told = {.id = id,
				   .gpu = w->gpu,
				   .profile = &w->gpu->profile[profile],
				   .at = w->gpu->profile[profile].place[place]};

	if (mig_place_name(w->gpu, profile, place, id, sizeof(id)) < 0)
		return;
	told.device = parts_device(w->parts, id);
	w->each(w->owner, &told);
}

/* -1: none is open in `left` and not told. */
static int cheapest(const struct walk *w, uint32_t profile, const struct mig_room *left,
		    const bool told[MIG_PLACES_MAX])
{
	uint32_t least = UINT32_MAX;
	int best = -1;

	for (uint32_t k = 0; k < w->gpu->profile[profile].places; k++) {
		uint32_t cost;

		if (told[k] || !left->open[profile][k])
			continue;
		cost = mig_room_cost(w->gpu, left, profile, k);
		if (cost < least) {
			least = cost;
			best = (int)k;
		}
	}
	return best;
}

/* As if one part were made after the other, until there is no room; then those that are left. */
static void tell_profile(const struct walk *w, uint32_t profile)
{
	bool told[MIG_PLACES_MAX] = {false};
	struct mig_room left = w->room;

	for (uint32_t n = 0; n < 2 * MIG_PLACES_MAX; n++) {
		int best = cheapest(w, profile, &left, told);

		if (best < 0) {
			left = w->room;
			continue;
		}
		told[best] = true;
		tell(w, profile, (uint32_t)best);
		mig_room_take(w->gpu, profile, (uint32_t)best, &left);
	}
}

void parts_each_place(const struct parts *parts,
		      void (*each)(void *owner, const struct parts_place *place), void *owner)
{
	struct walk w = {.parts = parts, .each = each, .owner = owner};

	for (uint32_t g = 0; parts_is_on(parts) && parts->begun && g < parts->now.gpus; g++) {
		bool goes[MIG_PARTS_MAX] = {false};

		w.gpu = &parts->now.gpu[g];
		for (uint32_t i = 0; i < w.gpu->parts; i++) {
			const struct parts_row *row =
				parts_row_of(&parts->now, w.gpu, &w.gpu->part[i]);

			goes[i] = row && !row->stays;
		}
		mig_room_find(w.gpu, goes, &w.room);
		for (uint32_t i = 0; w.gpu->on && i < w.gpu->profiles; i++)
			tell_profile(&w, i);
	}
}
