/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether a device may be given to new containers, from the driver's reports and from how
 * long the device has been quiet. A failed device recovers once it has answered and been quiet for
 * a while. That time doubles each time that the device soon fails again, so that an intermittently
 * failing device is not offered intermittently. Pure: events and time in, outcomes out.
 *
 * Xids that programs cause themselves say nothing about the device (NVIDIA's "Xid Errors" and the
 * list of its device plugin, v0.20.0): 13, 31, 43, 45, 68, 109. The node's operator may name more.
 */
#pragma once

#include <stdbool.h>

#include "base/macros.h"

enum health_cause { HEALTH_NONE, HEALTH_XID, HEALTH_ECC, HEALTH_LOST };

/* The longest time that a device has to be quiet. */
#define HEALTH_QUIET_MOST_NS (UINT64_C(3600) * 1000000000)

/* Outcomes. */
enum {
	HEALTH_FELL = 1,  /* no new containers from now on */
	HEALTH_GONE,	  /* it was not well, and from now on nobody can use it */
	HEALTH_ANOTHER,	  /* it was not well, and now is not for another reason */
	HEALTH_RECOVERED, /* it may be given again */
};

/* Which Xids count, beyond the usual. All zero: the usual. One that is both counts. */
enum { HEALTH_XIDS = 1024 }; /* higher ones do not exist, and are as usual */
struct health_xids {
	bool none; /* but those of `counts`; and no memory errors, and no device is lost */
	bool all;
	uint64_t ignored[HEALTH_XIDS / 64], counts[HEALTH_XIDS / 64]; /* a bit each */
};

/* Does the Xid say something about the device? */
bool health_counts(const struct health_xids *xids, uint64_t xid);
/* Adds a list as NVIDIA's plugin reads it ("79, 48"; "all", "xids" or "0": every one) to those that
 * count, or to those that are ignored. False: a word of it is not understood, and is skipped. */
bool health_xids_add(struct health_xids *xids, const char *list, bool counts);

struct health {
	enum health_cause cause; /* HEALTH_NONE: it is well */
	uint64_t xid;		 /* of HEALTH_XID */
	uint64_t quiet_ns;	 /* how long it must be quiet, the next time */
	uint64_t quiet_since_ns; /* while it is not well */
	uint64_t well_since_ns;	 /* while it is */
};

void health_init(struct health *health, uint64_t now_ns);

/* An Xid that counts. Xid 48 after an uncorrected memory error says the same again. */
must_check int health_xid(struct health *health, uint64_t xid, uint64_t now_ns);
/* An uncorrected memory error. */
must_check int health_ecc(struct health *health, uint64_t now_ns);
/* Nobody can use it: it did not answer, or the driver said so (Xid 79: "fallen off the bus"). What
 * else is reported changes nothing until it recovers. */
bool health_is_gone(const struct health *health);
/* The device answered a query, or is gone from the bus. Call it from time to time. */
must_check int health_answers(struct health *health, bool answers, uint64_t now_ns);
