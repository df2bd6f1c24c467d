/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The door of an HTTP server: accepts connections, and lets one in when the whole head of its
 * request is there. Until then a connection costs a descriptor and nothing else. The head is only
 * looked at; it stays in the kernel until the connection is served.
 *
 * Any client may connect, at any rate. If a host has its maximum of waiting connections, or all
 * places are taken, the longest waiting one is turned away: of that host, or of the one with the
 * most. So a client that sends a whole head at once never waits for clients that do not.
 */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

#include "base/macros.h"

enum {
	HTTP_DOOR_MOST = 128, /* connections without a whole head */
	HTTP_DOOR_EACH = 32,  /* of them, one host's */
	HTTP_HEAD_S = 5,      /* from the accept to the head's end, however its bytes come */
	HTTP_HEAD_MAX = 16 << 10,
};

/* A client's address: IPv4, the first half of IPv6 (one machine may have all of the second), or
 * zero for a Unix socket. */
struct http_host {
	uint8_t byte[16];
};

/* A person who is known by a name, from any address; never the same as an address. */
struct http_host http_host_named(const char *name);

struct http_caller {
	int fd; /* -1: a free place */
	uint64_t since_ns;
	struct http_host host;
	struct sockaddr_storage name;
	socklen_t name_size;
};

struct http_door {
	bool tls;		/* a connection begins with a message of TLS, and not with a head */
	int listener;		/* borrowed */
	int epoll;		/* of the listener, of waiting connections, and of `inner` */
	uint64_t shut_until_ns; /* there were no descriptors: no connection is accepted before; 0:
				   it is open */
	/* Takes the connection over. */
	void (*enter)(void *owner, const struct http_caller *caller);
	void *owner;
	struct http_caller caller[HTTP_DOOR_MOST];
};

/* The answers to clients that are not served. */
extern const char http_door_full[], http_door_late[];

/* `inner` becomes readable with `door->epoll`, too. */
void http_door_init(struct http_door *door);
must_check int http_door_open(struct http_door *door, int listener, int inner);
void http_door_close(struct http_door *door);

/* When `door->epoll` is readable, or the time of http_door_due() has come. */
void http_door_serve(struct http_door *door, uint64_t now_ns);
uint64_t http_door_due(const struct http_door *door); /* UINT64_MAX: never */

struct http_host http_host_of(int fd, const struct sockaddr_storage *name);
/* The user at the other end of a Unix socket; -errno. */
must_check int http_user_of(int fd, uid_t *ret_uid);
bool http_host_same(const struct http_host *a, const struct http_host *b);

/* The host of entry `i` in a table of connections; NULL: the entry is free. */
typedef const struct http_host *http_host_at(const void *table, size_t i);
/* How many of the table's `n` places a host has; and the host that has the most: NULL if all are
 * free. That takes as long as n squared. */
uint32_t http_host_count(const void *table, size_t n, http_host_at *at,
			 const struct http_host *host);
const struct http_host *http_host_largest(const void *table, size_t n, http_host_at *at);

/* Pure: do these bytes have a whole head? Empty lines before it do not count. */
bool http_head_is_whole(const char *bytes, size_t size);

/* Sends one of the answers, as far as the peer takes it at once, and closes. */
void http_turn_away(int fd, const char *answer);
