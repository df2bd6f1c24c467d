/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small HTTP server for figures: GET and HEAD, with answers that are built at once, in memory, or
 * go on (http/http_stream.h). It uses libmicrohttpd on the daemon's loop, without threads, and
 * never logs. A connection is served once the head of its request has come (http/http_door.h)
 * and there is a seat for it (http/http_seats.h); otherwise it is told 503.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/fault.h"
#include "base/loop.h"
#include "http/http_door.h"
#include "http/http_tls.h"

struct http_request {
	const char *path; /* decoded, without a query */
	bool local;	  /* it came through a Unix socket, from a process of `uid` */
	uid_t uid;
	struct http_host host; /* where it came from */
	uint64_t waited_ns;    /* since it was first to be answered later; 0: it was not */
	struct MHD_Connection *connection; /* http's own */
};

/* A header of the request by its name, in any case; NULL: there is none. Lent. The first of several
 * that have this name. */
const char *http_header(const struct http_request *request, const char *name);
/* The last of several, which the nearest server has added. */
const char *http_header_last(const struct http_request *request, const char *name);

struct http_stream;

struct http_answer {
	unsigned status;  /* 200; 404 if it is not set */
	const char *type; /* of the content; a constant. NULL: plain text */
	char *body;	  /* malloc'ed, taken over; NULL: a short text for the status */
	size_t size;
	const char *const *headers; /* constants: a name, its value, a name...; NULL ends them */
	/* A stream instead of a body; 503 if there are too many: ended() is called then, too. */
	struct http_stream *stream;
	/* The person whose stream it is, if known, as many may come from one host
	 * (http_host_named()). NULL: it counts for its host. Lent until answer() returns. */
	const struct http_host *whose;
	bool entitled; /* who asked is shown more than anybody: its host is a regular
			  (http/http_regulars.h), where the status is 200 */
	/* Nothing is known yet: answer() is called again for this request after http_go_on(), which
	 * must follow, and within seconds, as the connection keeps its seat. */
	bool later;
};

struct http;

struct http_service {
	/* Called for each GET and HEAD. http_close() may be called from it. */
	void (*answer)(void *owner, const struct http_request *request,
		       struct http_answer *ret_answer);
	void *owner;
	struct http_tls *tls; /* borrowed; TCP addresses then speak TLS. NULL: they do not */
	bool everybody; /* of a Unix socket: every user may connect, and is known by their uid */
};

/* `address`: "127.0.0.1:9400", "[::1]:9400", ":9400" (all addresses), or the path of a Unix
 * socket. An existing socket is replaced unless a process still listens on it (-EADDRINUSE); any
 * other file is not (-EEXIST). */
must_check int http_open(struct loop *loop, const char *address, const struct http_service *service,
			 struct http **ret_http, struct fault *why);

/* The port, if the system chose it ("127.0.0.1:0"); 0 for a Unix socket. */
unsigned http_port(const struct http *http);

/* Asks again about all requests that were to be answered later; not before the loop's next turn. */
void http_go_on(struct http *http);

/* Ends all connections, and removes the Unix socket's file if it is still ours. NULL: does nothing.
 */
void http_close(struct http *http);
