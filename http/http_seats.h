/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connections that an HTTP server serves. When a seat is needed, a connection that was
 * answered, or that reads its answer slowly, gives its seat up: no host can keep others from being
 * served.
 */
#pragma once

#include "http/http_door.h"
#include "http/http_stream.h"

enum {
	HTTP_SEATS = 32,
	HTTP_SEATS_EACH = 16, /* one host's */
	HTTP_PATIENCE_S = 20, /* for the next request on a connection, and for reading an answer */
	HTTP_READING_S = 2,   /* how long an answer's reader keeps its seat in any case */
};

struct MHD_Connection;

struct http_seat {
	int fd;		       /* borrowed from a connection; -1: free */
	struct http_host host; /* for whom it counts */
	struct http_host from; /* ... where it came from: differs if the person is known by name */
	uint64_t since_ns;     /* when it came, or the answer began, or ended */
	bool spoke;	       /* a request has come */
	bool answers;	       /* an answer is under way */
	bool streams;	       /* ... that goes on */
	uint64_t began_ns;     /* ... and when it began */
	bool waits;	       /* ... and has nothing to send just now, or is answered later */
	uint64_t later_ns;     /* since when it is answered later; 0: it is not */
	struct MHD_Connection *later; /* ... and waits; NULL: it does not */
	bool left;		      /* cut, and not closed yet */
};

struct http_seats {
	struct http_seat seat[2 * HTTP_SEATS]; /* half of them for those that have left */
};

void http_seats_init(struct http_seats *seats);

/* Is there a seat for this host? Cuts another connection where that makes room. */
must_check bool http_seats_offer(struct http_seats *seats, const struct http_host *host,
				 uint64_t now_ns);

/* NULL: none is free, or the connection has none. */
struct http_seat *http_seats_take(struct http_seats *seats, int fd, const struct http_host *host,
				  uint64_t now_ns);
struct http_seat *http_seats_find(struct http_seats *seats, int fd);

/* May `whose` have one more stream? Some seats are kept for answers that end. *ret_instead: all
 * streams are taken, and `whose` has none: this one must end instead, the newest of the host that
 * has the most. NULL: none must. */
must_check bool http_seats_may_stream(struct http_seats *seats, const struct http_host *whose,
				      struct http_seat **ret_instead);

/* Has one of the connections had no request yet? */
bool http_seats_await(const struct http_seats *seats);

/* Cuts connections whose time is over. Returns when to check again: UINT64_MAX is never. */
uint64_t http_seats_cut(struct http_seats *seats, uint64_t now_ns);
