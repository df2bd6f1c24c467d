/* SPDX-License-Identifier: Apache-2.0 */
/* Devices that `mete pick` gave out: see the top of reserve.c. */
#pragma once

#include "node/daemon.h"

#define RESERVE_MOST_NS (86400ull * 1000000000)
must_check int reserve_open(struct daemon *d);
/* -EBUSY: it is taken by another. `hold_ns` 0: until reserve_drop(). */
struct reserve_asker {
	const void *owner;
	pid_t pid;
	uid_t uid;
};
must_check int reserve_take(struct daemon *d, uint32_t device, const struct reserve_asker *asker,
			    uint64_t hold_ns, struct fault *why);
/* Reserved for this owner already, who may have it for another time. */
bool reserve_is_of(const struct daemon *d, uint32_t device, const void *owner);
void reserve_drop(struct daemon *d, const void *owner);
/* Processes that have ended hold nothing, even if the keeper of their reservations (the process
 * that `mete pick` leaves behind) has not noticed yet. */
void reserve_release_ended(struct daemon *d);
/* A reservation from the journal: it is valid if the process lives, or the time is not over. */
void reserve_return(struct daemon *d, uint32_t device, const struct reservation *was);
bool reserve_any(const struct daemon *d);
void reserve_close(struct daemon *d);
