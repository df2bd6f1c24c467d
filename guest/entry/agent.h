/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent is the guest's only thread; it blocks every signal. It reads the daemon's messages,
 * returns credit, and closes gates: it checks that no thread is inside a call that submits, that no
 * capture is open and that all submitted work is complete, and then sends DRAINED. After that
 * nothing is submitted until the gate opens again. If the daemon is gone, the agent reconnects.
 *
 * It never waits inside the driver for application work that may not end: work in flight may depend
 * on a thread that waits at the gate (a host function, a stream that waits for a word). Such a
 * close is not acknowledged; the daemon sees the waiting threads in the own page and reopens the
 * gate.
 */
#pragma once

#include "base/macros.h"
#include "wire/wire.h"

/* 0; -errno. */
must_check int agent_start(void);

/* Called by link_step() with an unsolicited message of the daemon. */
void agent_heard(const struct wire_message *message);

/* Called by link_step(): the connection is about to come up; gates may be closed. */
void agent_up(void);

/* The connection is lost: requests of the daemon on it must not be answered on the next one. */
void agent_down(void);

/* The stack that a thread of the guest needs: the driver runs on it. */
size_t agent_stack_bytes(void);

/* In a child of fork(): the agent no longer exists. */
void agent_forget(void);
