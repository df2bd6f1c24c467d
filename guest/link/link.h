/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connection to meted, one object that the agent owns:
 *
 *	down     no connection; the agent retries, less and less often, but sooner while a
 *		 thread waits
 *	hello    connected, HELLO was sent
 *	stating  the daemon's pages are mapped; this process states what it holds, as one
 *		 transaction
 *	up       every thread may send
 *
 * Only the agent connects, reads, changes the phase and closes; it waits only in link_step(). Other
 * threads send only in *up*, with the lock held. A message is built for the current connection
 * (device numbers, amounts). If it could not be sent, it is rebuilt for the next connection, never
 * resent. Every wait is bounded.
 *
 * Answers stay in the object until the asking thread fetches them: nothing is written to the stack
 * of a thread that left by longjmp() from a signal handler.
 *
 * It trusts nothing: messages that are malformed, have an unknown id or come out of turn are
 * ignored; pages with the wrong seals or size are not mapped; a descriptor that is no longer ours
 * is not touched (guest/socket.h), and a new connection is made.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"
#include "wire/wire.h"

enum {
	LINK_ASKS = 64, /* asks under way at once */
	LINK_ANSWER_MS =
		10000, /* the daemon answers within this, apart from requests that it lets wait */
	LINK_ROOM_MS = 25000,  /* longer if it may have to move others' memory first, ... */
	LINK_TURN_MS = 600000, /* ... and if it waits for a turn of this program's own memory */
	LINK_AWAY_MS = 10000,  /* how long to wait for a daemon that is being replaced */
};

/* How long to wait for an answer, besides LINK_ANSWER_MS. */
enum link_patience {
	LINK_HERE, /* not at all if the daemon is away, or goes away: -ENOTCONN */
	LINK_AT_ONCE,
	LINK_FOR_ROOM,	 /* as long as the share may wait for room, and LINK_ROOM_MS */
	LINK_FOR_A_TURN, /* LINK_TURN_MS: for memory that can move, for which others leave */
};

/* A message to send. `write` is called with the lock held, once for each connection on which
 * sending is tried. It fills *message, whose id is set later, and returns 0; another result
 * means that there is nothing left to send. `unsent` (or NULL) undoes what `write` did, before
 * the lock is released. */
struct link_word {
	int (*write)(struct link_word *word, struct wire_message *message);
	void (*unsent)(struct link_word *word, const struct wire_message *message);
};

/* The number of this connection, among those that came up. For `write`: facts about one daemon must
 * not be sent to the next one. */
uint32_t link_connection(void);

/* Outcomes. */
enum {
	LINK_MOOT = 1, /* `write` had nothing to send */
};

/* Sends the message, if the connection is up. 0; LINK_MOOT; -EAGAIN: the daemon does not read at
 * the moment; -ENOTCONN: nothing was sent, and the next inventory will tell it. Does not wait. */
must_check int link_try(struct link_word *word);

/* The same, with a bounded wait if the daemon does not read. */
must_check int link_tell(struct link_word *word);

/* Sends a request, again on the next connection if this one is lost. 0, and *ret_answer: DONE,
 * CREDIT_GRANT, REFUSED, ...; LINK_MOOT; -ENOTCONN: the daemon was away for LINK_AWAY_MS, or
 * does not want this process (then at once); -ETIMEDOUT: it did not answer in time; -EBUSY: too
 * many requests. *ret_fd (or NULL: none is expected): the descriptor that came with the answer
 * (STORE, CHANNEL), which is the caller's from here on, or -1. */
must_check int link_ask(struct link_word *word, enum link_patience patience, int *ret_fd,
			struct wire_answer *ret_answer);

/* Rows of PROCESSES_ASK. 0; <0 as link_ask. At most `max` rows are stored, *ret_rows counts all. */
must_check int link_processes(int device, struct wire_process_row *rows, size_t max,
			      size_t *ret_rows);

/* ---- the agent's ----------------------------------------------------------------------------- */

/* One step of the connection: connects if that is due, reads and delivers messages, and waits
 * for them at most `wait_us` (-1: until one comes); with `writes`, also until sending is
 * possible again. Messages that answer nothing go to the parts (guest/process/parts.h). 0; <0: this
 * process cannot join, and the agent ends. */
must_check int link_step(int wait_us, bool writes);

/* Answers that no thread will fetch: their grants become common credit. */
void link_drop_unclaimed(void);
