/* SPDX-License-Identifier: Apache-2.0 */
/*                                                                          mig/room.h
 * Where a GPU still has room for which parts, and which of these places costs the others least.
 * A place is one of a profile's, by both numbers. Pure.
 */
#pragma once

#include "mig/gpu.h"

struct mig_room {
	/* Nothing that stays lies there, and its profile has not as many parts as it may have. */
	bool open[MIG_KINDS_MAX][MIG_PLACES_MAX];
};

/* `goes`: the part makes room if somebody wants its place. */
void mig_room_find(const struct mig_gpu *gpu, const bool goes[MIG_PARTS_MAX],
		   struct mig_room *ret_room);

/* Slices of memory of the open places, this one included, that are open no more with a part there:
 * large places count more. */
uint32_t mig_room_cost(const struct mig_gpu *gpu, const struct mig_room *room, uint32_t profile,
		       uint32_t place);

/* Leaves so many of the profile's open places as there could be parts at a time, those that cost
 * least: what is left of one profile has room beside each other. */
void mig_room_offer(const struct mig_gpu *gpu, const bool goes[MIG_PARTS_MAX], uint32_t profile,
		    struct mig_room *room);

/* A part was made there: what is open no more. */
void mig_room_take(const struct mig_gpu *gpu, uint32_t profile, uint32_t place,
		   struct mig_room *room);

bool mig_place_overlaps(struct mig_place a, struct mig_place b);

/* The part of that profile at that place; -1: there is none. */
int mig_room_part(const struct mig_gpu *gpu, uint32_t profile, uint32_t place);
