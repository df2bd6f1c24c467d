/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends connections of local sockets (SOCK_SEQPACKET) whose other end may have sent anything.
 *
 * Descriptors that lie in a message are closed by whoever reads it without room for them, or closes
 * the socket, and within that system call. This takes as long as the sender likes: a TCP socket
 * with SO_LINGER waits for its own other end, for days, a large file of memory is freed page by
 * page, and a file of FUSE with a page to be written back is waited for even by a process that is
 * killed. So a message is looked at before it is read, and a connection in which there are
 * descriptors is closed by a process that does nothing else. A signal, each millisecond, ends its
 * waits.
 */
#pragma once

#include <stdbool.h>

#include "base/discard_process.h"
#include "base/macros.h"

struct discarder {
	struct discard_closer closers[DISCARD_CLOSERS];
	int ends[2]; /* what none of these takes comes through this pipe */
	bool runs;   /* the threads that close it */
};

must_check int discarder_open(struct discarder *d);
/* What was handed over is closed all the same. */
void discarder_close(struct discarder *d);

enum {
	DISCARD_BURDENED = 1, /* it has descriptors, and must not be read */
	DISCARD_OVER,	      /* the connection has ended, or the message is empty */
};

/* The next message: 0 if it has no descriptors; or an outcome; -EAGAIN: there is none; <0 -errno:
 * nothing is known of it, and nothing may be read. */
must_check int discard_look(int fd);

/* Nothing further comes or goes. Reads what is there: if some of it remained, closing would hide
 * from the other end what it was sent last. False: descriptors are left. */
must_check bool discard_rest(int fd);

/* Closes a connection with what is left. */
void discard_close(struct discarder *d, int fd);

/* All of this. */
void discard_connection(struct discarder *d, int fd);
/* Likewise of each connection that nobody has accepted. */
void discard_listener(struct discarder *d, int fd);
