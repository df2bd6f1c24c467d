/* SPDX-License-Identifier: Apache-2.0 */
#include "core/turns/turns_flight.h"

enum {
	FLIGHT_MS = 20,		 /* while no other tenant waits, */
	FLIGHT_CONTENDED_MS = 4, /* ... while one waits, */
	FLIGHT_BATCH_MS = 1,	 /* ... and while a tenant takes part that always comes first */
};

static const uint64_t ms = 1000000;

uint64_t turns_flight_ns(const struct turns_seat *seat, bool contended)
{
	if (seat->tenant->share.class != SHARE_INTERACTIVE &&
	    seat->device->classes[SHARE_INTERACTIVE])
		return FLIGHT_BATCH_MS * ms;
	return (contended ? FLIGHT_CONTENDED_MS : FLIGHT_MS) * ms;
}
