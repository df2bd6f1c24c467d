/* SPDX-License-Identifier: Apache-2.0 */
/* `mete suspend` and `mete resume`: a tenant's memory leaves by a person's order, who may wait
 * until it has. */
#pragma once

#include "base/fault.h"
#include "node/daemon.h"

struct peer;

/* What of a tenant's memory is where, of all devices. */
struct move_sent {
	uint64_t moves_bytes;	/* in the store, or ordered to leave for it */
	uint64_t leaving_bytes; /* of these: not there yet */
	uint64_t stays_bytes;	/* cannot move */
};

/* Orders it, or calls it back. *ret_sent is what is true now, and of one that is called back what
 * is to come. `was` says whether it was suspended before. -EINVAL, -ENOSPC with a sentence: it
 * stays. */
must_check int move_suspend(struct tenant *t, bool suspends, struct move_sent *ret_sent,
			    bool *ret_was, struct fault *why);

/* Answers the peer by DONE when all that can move has left, or after so many ns; at once where both
 * hold already. An earlier wait of this tenant is answered now. */
void move_suspend_wait(struct tenant *t, struct peer *peer, uint32_t id, uint64_t wait_ns);
/* To be called when something may have left. True: somebody was answered, for which guests' pages
 * were read. */
must_check bool move_suspend_look(struct daemon *d);
/* Who waits hears why nothing will come of it. */
void move_suspend_void(struct tenant *t, const char *why);
/* The peer is gone. */
void move_suspend_forget(struct daemon *d, const struct peer *peer);
