/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets at which others call, handed over by a process that ends to the one that goes on with
 * them. Over a connection of theirs (SOCK_SEQPACKET) goes one message with the descriptors, and
 * then the other one's word that it goes on with them. Without that word, they stay with who has
 * opened them, and end with it.
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

/* NULL: there are none, and that is said. -errno. */
must_check int handover_send(int fd, const struct handover_sockets *sockets);
/* 0: the caller owns the descriptors. 1: there are none. -errno: nothing was said, or it makes no
 * sense. */
must_check int handover_receive(int fd, struct handover_sockets *ret_sockets);
/* That they were taken over. */
void handover_confirm(int fd);
/* Were they? Reads what the other one has said; that it has hung up says no. */
must_check bool handover_confirmed(int fd);
void handover_close(struct handover_sockets *sockets);
