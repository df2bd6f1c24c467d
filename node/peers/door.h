/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets to which others connect: they listen, and accept connections while there are
 * descriptors. */
#pragma once

#include "node/daemon.h"

must_check int door_listen(const char *path, unsigned mode, uid_t owner, int *ret_fd,
			   struct fault *why);
/* The limit on descriptors, and the spare one. */
void door_open_files(struct daemon *d);
/* Accepts a connection whose descriptor is at most `most`; -EAGAIN; or another error. -EMFILE:
 * the caller was told, if possible; the listener should pause for a while. */
must_check int door_accept(struct daemon *d, int listen_fd, int most);
