/* SPDX-License-Identifier: Apache-2.0 */
#include "core/health.h"

enum { FALLEN_OFF = 79 }; /* the Xid of a GPU that is gone */

static const uint64_t second_ns = 1000000000;

/* It must be quiet for a minute at first, and for an hour at most. After an hour of health it
 * starts again. */
#define QUIET_FIRST_NS (60 * second_ns)
#define FORGOTTEN_NS   (3600 * second_ns)

void health_init(struct health *health, uint64_t now_ns)
{
	*health = (struct health){.quiet_ns = QUIET_FIRST_NS, .well_since_ns = now_ns};
}

/* Another failure while it is down restarts the quiet time. */
static int fall(struct health *health, enum health_cause cause, uint64_t xid, uint64_t now_ns)
{
	bool was_well = health->cause == HEALTH_NONE;

	if (was_well && now_ns - health->well_since_ns >= FORGOTTEN_NS)
		health->quiet_ns = QUIET_FIRST_NS;
	health->cause = cause;
	health->xid = xid;
	health->quiet_since_ns = now_ns;
	return was_well ? HEALTH_FELL : 0;
}

int health_xid(struct health *health, uint64_t xid, uint64_t now_ns)
{
	switch (xid) {
	case 13:
	case 31:
	case 43:
	case 45:
	case 68:
	case 109:
		return 0;
	default:
		return fall(health, HEALTH_XID, xid, now_ns);
	}
}

bool health_is_gone(const struct health *health)
{
	return health->cause == HEALTH_LOST ||
	       (health->cause == HEALTH_XID && health->xid == FALLEN_OFF);
}

int health_ecc(struct health *health, uint64_t now_ns)
{
	return fall(health, HEALTH_ECC, 0, now_ns);
}

int health_answers(struct health *health, bool answers, uint64_t now_ns)
{
	if (!answers)
		return fall(health, HEALTH_LOST, 0, now_ns);
	if (health->cause == HEALTH_NONE || now_ns - health->quiet_since_ns < health->quiet_ns)
		return 0;
	health->cause = HEALTH_NONE;
	health->xid = 0;
	health->well_since_ns = now_ns;
	health->quiet_ns = health->quiet_ns < HEALTH_QUIET_MOST_NS / 2 ? 2 * health->quiet_ns
								       : HEALTH_QUIET_MOST_NS;
	return HEALTH_RECOVERED;
}
