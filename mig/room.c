/* SPDX-License-Identifier: Apache-2.0 */
#include "mig/room.h"

#include <string.h>

bool mig_place_overlaps(struct mig_place a, struct mig_place b)
{
	return a.start < (uint64_t)b.start + b.size && b.start < (uint64_t)a.start + a.size;
}

int mig_room_part(const struct mig_gpu *gpu, uint32_t profile, uint32_t place)
{
	for (uint32_t i = 0; i < gpu->parts; i++)
		if (gpu->part[i].profile == profile &&
		    gpu->part[i].place.start == gpu->profile[profile].place[place].start)
			return (int)i;
	return -1;
}

/* Parts of the profile that stay. */
static uint32_t count_staying(const struct mig_gpu *gpu, const bool goes[MIG_PARTS_MAX],
			      uint32_t profile)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < gpu->parts; i++)
		n += gpu->part[i].profile == profile && !goes[i];
	return n;
}

static bool is_free(const struct mig_gpu *gpu, const bool goes[MIG_PARTS_MAX],
		    struct mig_place place)
{
	for (uint32_t i = 0; i < gpu->parts; i++)
		if (!goes[i] && mig_place_overlaps(gpu->part[i].place, place))
			return false;
	return true;
}

void mig_room_find(const struct mig_gpu *gpu, const bool goes[MIG_PARTS_MAX],
		   struct mig_room *ret_room)
{
	memset(ret_room, 0, sizeof(*ret_room));
	for (uint32_t i = 0; gpu->on && i < gpu->profiles; i++) {
		const struct mig_profile *profile = &gpu->profile[i];

		if (count_staying(gpu, goes, i) >= profile->most)
			continue;
		for (uint32_t k = 0; k < profile->places; k++)
			ret_room->open[i][k] = is_free(gpu, goes, profile->place[k]);
	}
}

uint32_t mig_room_cost(const struct mig_gpu *gpu, const struct mig_room *room, uint32_t profile,
		       uint32_t place)
{
	const struct mig_place there = gpu->profile[profile].place[place];
	uint32_t cost = 0;

	for (uint32_t i = 0; i < gpu->profiles; i++)
		for (uint32_t k = 0; k < gpu->profile[i].places; k++)
			if (room->open[i][k] && mig_place_overlaps(gpu->profile[i].place[k], there))
				cost += gpu->profile[i].place[k].size;
	return cost;
}

void mig_room_take(const struct mig_gpu *gpu, uint32_t profile, uint32_t place,
		   struct mig_room *room)
{
	const struct mig_place there = gpu->profile[profile].place[place];

	for (uint32_t i = 0; i < gpu->profiles; i++)
		for (uint32_t k = 0; k < gpu->profile[i].places; k++)
			room->open[i][k] &= !mig_place_overlaps(gpu->profile[i].place[k], there);
}

/* The profile's open place that costs least and lies beside those that were kept; -1: none. */
static int cheapest(const struct mig_gpu *gpu, const struct mig_room *room, uint32_t profile,
		    const bool open[MIG_PLACES_MAX])
{
	int best = -1;
	uint32_t least = 0;

	for (uint32_t k = 0; k < gpu->profile[profile].places; k++) {
		uint32_t cost;

		if (!open[k])
			continue;
		cost = mig_room_cost(gpu, room, profile, k);
		if (best < 0 || cost < least) {
			best = (int)k;
			least = cost;
		}
	}
	return best;
}

void mig_room_offer(const struct mig_gpu *gpu, const bool goes[MIG_PARTS_MAX], uint32_t profile,
		    struct mig_room *room)
{
	const struct mig_profile *row = &gpu->profile[profile];
	uint32_t staying = count_staying(gpu, goes, profile);
	uint32_t left = row->most > staying ? row->most - staying : 0;
	bool open[MIG_PLACES_MAX], kept[MIG_PLACES_MAX] = {false};
	int best;

	memcpy(open, room->open[profile], sizeof(open));
	while (left && (best = cheapest(gpu, room, profile, open)) >= 0) {
		kept[best] = true;
		left--;
		for (uint32_t k = 0; k < row->places; k++)
			open[k] &= !mig_place_overlaps(row->place[k], row->place[best]);
	}
	memcpy(room->open[profile], kept, sizeof(kept));
}
