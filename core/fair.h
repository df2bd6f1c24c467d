/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is kept in its order, for several users in one bounded place: which of it goes when
 * something comes and there is no more room. The oldest goes of the user who has the most, and of
 * his tenants of the one that has the most; so who makes much pushes out his own. What comes is
 * counted, too: nobody loses anything to one who then has more than he. Of several that have the
 * most, the one whose thing is the oldest.
 *
 * Pure: who keeps the things says whose they are. It says nothing of how many a user may have: one
 * who is alone has all the room.
 */
#pragma once

#include <stdint.h>

enum { FAIR_MOST = 1024 }; /* things */

struct fair_part {
	uint64_t user, tenant; /* tenants of different users may have one number */
};

/* `part` of each thing, the oldest first; their `count` is 1 to FAIR_MOST. The index of the one
 * that goes for the one that comes. */
uint32_t fair_goes(const struct fair_part *part, uint32_t count, const struct fair_part *comes);
