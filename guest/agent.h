/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent: the guest's one thread, with every signal blocked. It reads what the daemon says,
 * gives back credit, and closes: it sees that no thread is inside a call that submits, that no
 * capture is open, that what was submitted is complete, and says so (DRAINED). After that nothing
 * is submitted until the gate opens again. When the daemon is gone it reconnects.
 *
 * It never waits inside the driver for work of the application that may not end: work in flight may
 * depend on a thread that stands at the gate (a host function, a stream that waits for a word).
 * Such a close is not acknowledged; the daemon sees the waiting threads in the own page and
 * reopens.
 */
#pragma once

#include "base/macros.h"
#include "wire/wire.h"

/* 0; -errno. */
must_check int agent_start(void);

/* From link_step(): what the daemon said unasked. */
void agent_heard(const struct wire_message *message);

/* From link_step(): the connection is about to come up; gates may be closed. */
void agent_up(void);

/* It is lost: what the daemon asked for on it is not to be answered on the next one. */
void agent_down(void);

/* In a child of fork(): there is no agent any more. */
void agent_forget(void);
