/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to a tenant's socket, until HELLO, and their end. */
#pragma once

#include "node/daemon.h"

/* -EMFILE: see daemon_accept(). */
must_check int caller_accept(struct tenant *t);
/* Answers, and then ends the connection. */
void caller_dismiss(struct caller *c, uint32_t id, uint32_t code, const char *reason);
void caller_close(struct caller *c);
