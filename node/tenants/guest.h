/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to a tenant's socket, the guests behind them, and their messages. */
#pragma once

#include "node/daemon.h"

/* The caller sent a valid HELLO: from now on its guest, new or known, is connected by `c`. 0;
 * -ESTALE: its process runs another program by now; -ENOSPC, -ENOMEM, ...: there is no room for
 * it. */
must_check int guest_join(struct caller *c, const struct wire_hello *hello,
			  struct guest **ret_guest);
/* A process from before this daemon: it must state what it holds, or end. `copy` belongs to the
 * program that it ran then. */
void guest_expect(struct tenant *t, const struct process_identity *was, uint64_t copy);
/* The grace period is over: guests that did not come back are charged what can be measured. */
void guest_miss(struct guest *g);
/* The guest has stated what it holds; later messages refer to that. */
void guest_stated(struct guest *g);
/* Its connection has ended. It still holds what it held, unless the process has also ended. */
void guest_away(struct guest *g, const char *reason);
/* The guest has left: everything that it held is returned. */
void guest_leave(struct guest *g, const char *reason);
/* "": not known. */
const char *guest_program(const struct guest *g);
