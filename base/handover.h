/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets at which others call, handed over by a process that ends to the one that goes on with
 * them. Over a connection between the two (SOCK_SEQPACKET) goes one message with the descriptors,
 * and back the heir's confirmation that it goes on with them. Without that confirmation, the
 * sockets stay with the process that has opened them, and end with it.
 */
#pragma once

#include <stdbool.h>

#include "base/macros.h"

enum {
	HANDOVER_SOCKETS = 2,
	HANDOVER_OF = 128,
};

struct handover_sockets {
	char of[HANDOVER_OF]; /* what they are, in their owner's words */
	int fd[HANDOVER_SOCKETS];
};

/* Sends the sockets' descriptors, which stay the caller's, too. NULL: there are none, and the
 * message says so. -errno: nothing was sent. */
must_check int handover_send(int fd, const struct handover_sockets *sockets);
/* 0: the caller owns the descriptors. 1: there are none. -errno: no message came, or it makes no
 * sense. */
must_check int handover_receive(int fd, struct handover_sockets *ret_sockets);
/* Confirms that they were taken over. An answer that cannot be sent is as one that was not. */
void handover_confirm(int fd);
/* Were they taken over? Reads the heir's confirmation; an heir that has hung up has not taken them.
 */
must_check bool handover_confirmed(int fd);
/* Closes the descriptors. */
void handover_close(struct handover_sockets *sockets);
