/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses as people write them, and sockets that listen on them. */
#pragma once

#include <sys/socket.h>
#include <sys/stat.h>

#include "base/fault.h"

struct http_address {
	struct sockaddr_storage name;
	socklen_t size;
	int any; /* no host was given: all addresses, of both families if both exist */
};

/* Pure. -EINVAL with a sentence. */
must_check int http_address_read(const char *text, struct http_address *ret_address,
				 struct fault *why);

/* Returns a descriptor. `text` is for the sentence. `mode`: of a Unix socket's file. *ret_own
 * identifies the file of a Unix socket. */
must_check int http_listen(const struct http_address *address, const char *text, mode_t mode,
			   struct stat *ret_own, struct fault *why);

/* Removes the file of a Unix socket if it is the one that `own` identifies. */
void http_unlisten(const struct http_address *address, const struct stat *own);
