/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The descriptor of the connection to meted, and frames on it. The program may close it and reuse
 * its number for its own file. Each use first checks whether it is still ours (-ESTALE otherwise);
 * a foreign descriptor is never closed, read or written. Another thread of the program may still
 * interfere between the check and the use; this window cannot be closed.
 *
 * Only socket_wait() waits.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"
#include "wire/wire.h"

/* All zero: none. */
struct socket {
	int fd; /* + 1 */
	uint64_t device, inode;
};

/* Where the daemon listens: /run/mete/guest.sock if it is there, otherwise METE_SOCKET (absolute).
 * NULL: nowhere, which is reported if `aloud`. */
const char *socket_path(bool aloud);

/* 0; -ENOENT, -ECONNREFUSED, -EAGAIN (it does not accept for now), ... */
must_check int socket_connect(const char *path, struct socket *ret_socket);

/* For a sentence: why socket_connect() failed. */
const char *socket_reason(int error);

/* Whether a call of this file was refused as such since the last time, so that the next attempt
 * would end alike. It is said which, once. */
bool socket_say_lack(void);

bool socket_is_ours(const struct socket *socket);

/* 0; -EAGAIN: the daemon does not read; <0: the connection is lost. */
must_check int socket_send(const struct socket *socket, const struct wire_message *message);

/* One packet. wire_decode()'s outcome; -EAGAIN: there is none; <0: the connection is lost. The
 * first two attached descriptors go to fds[2] if that is not NULL; all others are closed. */
must_check int socket_receive(const struct socket *socket, struct wire_message *ret_message,
			      int *fds);

/* Waits for one of poll()'s events, at most `wait_us` (-1: for POLLIN, for ever; otherwise for a
 * while). >0: an event, or the connection has ended; 0: none; <0 -errno. An unlimited wait uses
 * the file that the descriptor refers to now, whatever the program does with the number. */
must_check int socket_wait(const struct socket *socket, short events, int wait_us);

void socket_close(struct socket *socket);
