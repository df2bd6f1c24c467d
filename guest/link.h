/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connection to meted: connects, asks and gets answers, hands what the daemon says unasked to
 * the agent. Only the agent reads (link_pump), once it runs; any thread may send.
 *
 * Where: /run/mete/guest.sock if it is there, otherwise METE_SOCKET (absolute).
 *
 * Refuses to trust: what is malformed, has an unknown id or comes out of turn is ignored; pages
 * whose seals or sizes are not as agreed are not mapped.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"
#include "wire/wire.h"

enum {
	LINK_PENDING = 64, /* requests under way at once */
	LINK_ANSWER_MS = 10000,
};

/* Connects, says HELLO, takes the pages and maps them. 0; <0 -errno, after having said why.
 * Before the agent runs, or in it. `wait_ms`: how long to wait for a daemon that does not listen.
 */
must_check int link_connect(int wait_ms);

/* The agent's: reads what is there, waiting at most `wait_us` (-1: until something comes). 0; <0
 * the connection is lost. What the daemon said unasked goes to agent_heard(). */
must_check int link_pump(int wait_us);

/* Sends without expecting an answer. 0; -ENOTCONN, ... */
must_check int link_send(struct wire_message *message);

/* Sends and waits for the answer: WELCOME, DONE, CREDIT_GRANT, REFUSED, ... in *ret_answer. Without
 * `patient` it gives up after LINK_ANSWER_MS. -ENOTCONN: lost, and not by the caller's fault: ask
 * again once state.lost is 0. Not for the agent. */
must_check int link_ask(struct wire_message *message, int patient, struct wire_message *ret_answer);

/* The same for the agent, before it pumps. */
must_check int link_ask_directly(struct wire_message *message, struct wire_message *ret_answer);

/* Rows of PROCESSES_ASK. 0; <0 as link_ask. At most `max` rows are stored, *ret_rows counts all. */
must_check int link_processes(int device, struct wire_process_row *rows, size_t max,
			      size_t *ret_rows);

/* Closes the descriptor and fails what waits for an answer (-ENOTCONN). */
void link_drop(void);

/* Which connection this is; another one after each reconnect. */
uint32_t link_number(void);

/* After a request failed on connection `number`: waits for a later one, at most `wait_ms`. Returns
 * whether there is one. (The agent may not have noticed the loss yet when the asker has.) */
int link_wait_back(uint32_t number, int wait_ms);

/* In a child of fork(): forgets everything. */
void link_forget(void);
