/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which of the things that are kept for several users in one bounded place goes when
 * another one comes and the place is full. The user who has the most loses one; of his tenants, the
 * one that has the most; and of its things, the oldest. A user who makes many things therefore
 * pushes out his own. The thing that comes is counted, so that no user loses anything to another
 * one who then has more. Among equals, the one with the oldest thing loses it.
 *
 * Pure: the caller keeps the things, and says whose they are. A user has no limit of his own: if he
 * is alone, he has all the room.
 */
#pragma once

#include <stdint.h>

enum { FAIR_MOST = 1024 }; /* things */

struct fair_part {
	uint64_t user, tenant; /* tenants of different users may have one number */
};

/* The index of the thing that goes for the one that comes. `part`: whose each thing is, the oldest
 * first; `count`: 1 to FAIR_MOST. */
uint32_t fair_goes(const struct fair_part *part, uint32_t count, const struct fair_part *comes);
