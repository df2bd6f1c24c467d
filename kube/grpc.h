/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gRPC on Unix sockets: a server and a client on the daemon's loop, over HTTP/2 with nghttp2.
 * Messages are bytes here; the caller packs and unpacks them (protobuf-c). It never blocks and
 * never logs.
 *
 * Only the loop makes callbacks (called, gone, closed, answered): no function below ever calls one.
 * Inside a callback every function may be called for any call, server and client, including the
 * callback's own; closing is also allowed there.
 *
 * Peers are limited: requests of at most GRPC_REQUEST_MAX bytes, GRPC_CALLS_MAX calls at once on a
 * connection, GRPC_CONNECTIONS_MAX connections (a new one takes the place of one that has been idle
 * for the longest time); a flood of resets ends its connection. The comments of grpc_link.c,
 * grpc_server.c and grpc_client.c record what we learned from other peers.
 */
#pragma once

#include <stdbool.h>

#include "base/fault.h"
#include "base/loop.h"

/* gRPC's numbers; answers of other servers may have other numbers. */
enum grpc_status {
	GRPC_OK = 0,
	GRPC_CANCELLED = 1,
	GRPC_UNKNOWN = 2,
	GRPC_INVALID_ARGUMENT = 3,
	GRPC_DEADLINE_EXCEEDED = 4,
	GRPC_NOT_FOUND = 5,
	GRPC_ALREADY_EXISTS = 6,
	GRPC_PERMISSION_DENIED = 7,
	GRPC_RESOURCE_EXHAUSTED = 8,
	GRPC_FAILED_PRECONDITION = 9,
	GRPC_ABORTED = 10,
	GRPC_OUT_OF_RANGE = 11,
	GRPC_UNIMPLEMENTED = 12,
	GRPC_INTERNAL = 13,
	GRPC_UNAVAILABLE = 14,
};

enum {
	GRPC_REQUEST_MAX = 4 << 20,
	GRPC_ANSWER_MAX = 32 << 20, /* the most that a client accepts */
	GRPC_CALLS_MAX = 1000,
	GRPC_CONNECTIONS_MAX = 256,
	GRPC_MESSAGE_MAX = 1024, /* of a status' message; longer ones are cut */
};

struct grpc_bytes {
	const uint8_t *data;
	size_t size;
};

/* The server's side of a call. It exists until grpc_end(), or until gone() returns. */
struct grpc_call;

struct grpc_method {
	const char *path; /* "/v1beta1.DevicePlugin/Allocate" */
	/* The complete request has arrived; `request` is lent for this call. Answer now or
	 * later, with one grpc_send() per message and then grpc_end(). */
	void (*called)(struct grpc_call *call, struct grpc_bytes request, void *owner);
	/* The caller has left (or its deadline has passed, or the server is closing) before
	 * grpc_end(): the call must not be used after this. Until then, and inside it,
	 * grpc_send() and grpc_end() may still be called without effect. NULL: called() always
	 * ends the call. */
	void (*gone)(struct grpc_call *call, void *owner);
};

struct grpc_server;

/* Listens on the path. An existing socket there is replaced, any other file is not (-EEXIST).
 * `methods` and `owner` are borrowed. */
must_check int grpc_server_open(struct loop *loop, const char *path, unsigned mode,
				const struct grpc_method *methods, size_t count, void *owner,
				struct grpc_server **ret_server, struct fault *why);

/* The same with a socket that another process has bound and listens on, and the descriptor of which
 * it has passed on; lent. `within`: what its path begins with. It is held (see below). -EBADF with
 * a sentence: it is no such socket, or its path leads elsewhere by now. */
must_check int grpc_server_inherit(struct loop *loop, int socket, const char *within,
				   const struct grpc_method *methods, size_t count, void *owner,
				   struct grpc_server **ret_server, struct fault *why);
/* The descriptor that another process can inherit. Lent. */
int grpc_server_socket(const struct grpc_server *server);
/* Lent. */
const char *grpc_server_path(const struct grpc_server *server);

/* Whether the path still leads to this server's socket. It may not, because the
 * kubelet clears its folder. */
bool grpc_server_is_reachable(const struct grpc_server *server);

/* Accepts no connections from now on: a client that dials waits, as if the server were slow. */
void grpc_server_hold(struct grpc_server *server);
/* Accepts them again, for that owner. */
void grpc_server_go_on(struct grpc_server *server, void *owner);

/* Takes leave of all callers: no connection is accepted any more, callers make new calls by a new
 * one, and a connection ends when its calls are answered. True: left() is called when the last one
 * has ended; false: there is none. `given`: another process goes on with the socket. Then its file
 * stays when the server is closed, and calls without an answer are refused as calls that were not
 * begun, so that callers make them again. */
must_check bool grpc_server_leave(struct grpc_server *server, bool given,
				  void (*left)(void *owner));

/* Ends all calls (UNAVAILABLE) and connections, and removes the socket if it is still this
 * server's. called() is not called any more; gone() is, from the loop, for each call that is not
 * ended, and then closed(). Until then `owner` must live, and calls may be ended. If closed is
 * NULL, gone() is not called either, and `methods` and `owner` may be freed at once. The server
 * must not be used after this. NULL server: does nothing. */
void grpc_server_close(struct grpc_server *server, void (*closed)(void *owner));

/* One message of the answer. `latest`: drops earlier messages that have not begun to leave, so
 * that a slow reader sees the latest state and the queue is bounded. Copied. -ENOMEM: there is
 * no memory, or 64 MiB of this call are already queued: end the call. */
must_check int grpc_send(struct grpc_call *call, struct grpc_bytes message, bool latest);

/* Ends the call, which must not be used any more. `message` may be NULL; it is UTF-8 and
 * may contain any character. */
void grpc_end(struct grpc_call *call, enum grpc_status status, const char *message);

/* Stores the method's own data for the call; NULL at first. */
void grpc_call_keep(struct grpc_call *call, void *mine);
void *grpc_call_kept(const struct grpc_call *call);

/* A connection to a server. It is opened when it is first needed, and again after it has ended. */
struct grpc_client;

must_check int grpc_client_open(struct loop *loop, const char *path,
				struct grpc_client **ret_client, struct fault *why);
/* Forgets all pending calls without callbacks. The client must not be used after this. NULL:
 * does nothing. */
void grpc_client_close(struct grpc_client *client);

/* A call that is being made. */
struct grpc_asked;

/* One request, one answer. The loop calls answered() once, unless grpc_forget() was called
 * before; `answer` (empty unless the status is GRPC_OK) and `message` are lent. Without a
 * connection: UNAVAILABLE with the reason. The deadline is sent to the server and also enforced
 * here; 0: none. `message` is safe to display (base/text.h). *ret_asked is valid until
 * answered() begins. -ENOMEM, -EMSGSIZE (request over GRPC_REQUEST_MAX). */
must_check int grpc_ask(struct grpc_client *client, const char *path, struct grpc_bytes request,
			uint64_t within_ns,
			void (*answered)(void *owner, enum grpc_status status, const char *message,
					 struct grpc_bytes answer),
			void *owner, struct grpc_asked **ret_asked);
/* Must not be called after answered() has begun. Tells the server that the call is cancelled. */
void grpc_forget(struct grpc_asked *asked);
