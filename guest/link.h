/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connection to meted, one object that the agent owns:
 *
 *	down     there is none; the agent tries again, less and less often, sooner while somebody
 *waits hello    connected, HELLO was said stating  the daemon's pages are mapped; what this process
 *holds is stated, as one transaction up       everybody may speak
 *
 * The agent alone connects, reads, changes the phase and closes; it never waits but in link_step().
 * Other threads speak in *up* only, with the lock held: what they say is worked out for the
 * connection that there is (device numbers, amounts), and worked out again for the next one if it
 * could not be said on this one. It is never resent. Every wait is bounded.
 *
 * Answers lie in the object until the asker fetches them: who leaves by longjmp() from a signal
 * handler has nothing written into its stack.
 *
 * Refuses to trust: what is malformed, has an unknown id or comes out of turn is ignored; pages
 * whose seals or sizes are not as agreed are not mapped; a descriptor that is not ours any more is
 * not touched (guest/socket.h), and another connection is made.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"
#include "wire/wire.h"

enum {
	LINK_ASKS = 64,		/* asks under way at once */
	LINK_ANSWER_MS = 10000, /* the daemon answers within this, what it lets wait aside */
	LINK_AWAY_MS = 10000,	/* a daemon that is being replaced is waited for so long */
};

/* What is to be said. `write` is called with the lock held, once for each connection on which it is
 * tried: it fills *message, whose id is set later, and returns 0, or something else: nothing is to
 * be said any more. `unsent` (or NULL) takes back what `write` did, before the lock is given. */
struct link_word {
	int (*write)(struct link_word *word, struct wire_message *message);
	void (*unsent)(struct link_word *word, const struct wire_message *message);
};

/* Outcomes. */
enum {
	LINK_MOOT = 1, /* `write` had nothing to say */
};

/* Says it, if the connection is up. 0; LINK_MOOT; -EAGAIN: the daemon does not read for now;
 * -ENOTCONN: nothing was said, the next inventory tells. Does not wait. */
must_check int link_try(struct link_word *word);

/* The same; waits, bounded, where the daemon does not read. */
must_check int link_tell(struct link_word *word);

/* Asks, and asks again on the next connection where this one is lost. 0, and *ret_answer: DONE,
 * CREDIT_GRANT, REFUSED, ...; LINK_MOOT; -ENOTCONN: the daemon was away for LINK_AWAY_MS, or does
 * not want this process (then at once); -ETIMEDOUT: it did not answer within LINK_ANSWER_MS, or,
 * with `patient`, within that beside what the share lets wait for room; -EBUSY: too many ask. */
must_check int link_ask(struct link_word *word, bool patient, struct wire_message *ret_answer);

/* Rows of PROCESSES_ASK. 0; <0 as link_ask. At most `max` rows are stored, *ret_rows counts all. */
must_check int link_processes(int device, struct wire_process_row *rows, size_t max,
			      size_t *ret_rows);

/* ---- joining --------------------------------------------------------------------------------- */

/* Starts anew, before the agent is started. */
void link_open(void);

/* Waits until the agent has joined, or has said why it cannot. 0; -errno. Bounded. */
must_check int link_joined(void);

/* ---- the agent's ----------------------------------------------------------------------------- */

/* Goes on with the connection: connects where that is due, reads and delivers what has come, waits
 * for it at most `wait_us` (-1: until something comes); with `writes`, also until something can be
 * said again. What the daemon says unasked goes to agent_heard(). 0; <0: this process cannot join:
 * the agent ends. */
must_check int link_step(int wait_us, bool writes);

/* Answers that nobody will fetch: what they brought is common credit. */
void link_drop_unclaimed(void);

/* In a child of fork(): forgets everything. */
void link_forget(void);
