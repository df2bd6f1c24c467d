/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets in the file system. */
#pragma once

#include "base/macros.h"

/* 0: a process listens there (SOCK_STREAM), even if its queue is full. -ECONNREFUSED: the
 * process that bound the socket has ended. -ENOENT, -ENAMETOOLONG or another reason why no
 * process can be reached. Does not block. */
must_check int socket_answers(const char *path);

/* The first name in that folder that begins with `prefix` and on which a process listens. -ENOENT:
 * none.
 */
must_check int socket_find(const char *folder, const char *prefix, char *ret_name, size_t size);

/* Removes what processes that have ended left in that folder: our user's sockets whose names are
 * PREFIX...SUFFIX and at which nobody listens. How many. Another process that has bound one and
 * not begun to listen may lose it. */
size_t socket_clear(const char *folder, const char *prefix, const char *suffix);
