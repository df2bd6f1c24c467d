/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small HTTP server for metrics: GET and HEAD, with answers that are built at once, in memory. It
 * uses libmicrohttpd on the daemon's loop, without threads or TLS, and never logs. A connection is
 * served once the head of its request has come (http/http_door.h) and there is a seat for it
 * (http/http_seats.h); otherwise it is told 503.
 */
#pragma once

#include "base/fault.h"
#include "base/loop.h"

struct http_answer {
	unsigned status;  /* 200; 404 if it is not set */
	const char *type; /* of the content; a constant. NULL: plain text */
	char *body;	  /* malloc'ed, taken over; NULL: a short text for the status */
	size_t size;
};

struct http;

/* `address`: "127.0.0.1:9400", "[::1]:9400", ":9400" (all addresses), or the path of a Unix
 * socket. An existing socket is replaced unless a process still listens on it (-EADDRINUSE); any
 * other file is not (-EEXIST). `answer` is called for each GET and HEAD; `path` is decoded,
 * without a query. http_close() may be called from it. */
must_check int http_open(struct loop *loop, const char *address,
			 void (*answer)(void *owner, const char *path,
					struct http_answer *ret_answer),
			 void *owner, struct http **ret_http, struct fault *why);

/* The port, if the system chose it ("127.0.0.1:0"); 0 for a Unix socket. */
unsigned http_port(const struct http *http);

/* Ends all connections, and removes the Unix socket if it is still its own. NULL: does nothing. */
void http_close(struct http *http);
