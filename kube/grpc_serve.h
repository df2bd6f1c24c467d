/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations shared by grpc_server.c (sockets), grpc_call.c (calls) and grpc_reply.c (answers).
 */
#pragma once

#include <sys/types.h>

#include "kube/grpc_clock.h"
#include "kube/grpc_frame.h"
#include "kube/grpc_link.h"

enum {
	/* How many calls a peer may abandon, beyond the number that it has completed. */
	GRPC_RESETS_MAX = 1000,
	/* Bytes of incomplete requests: of one connection, and of all. */
	GRPC_HELD_PEER_MAX = 16 << 20,
	GRPC_HELD_MAX = 64 << 20,
	/* Bytes of one call's answers that the reader has not fetched. */
	GRPC_UNSENT_MAX = 64 << 20,
};

struct grpc_server {
	struct loop *loop;
	struct loop_watch listening;
	struct loop_timer soon; /* to listen again, or to close */
	const struct grpc_method *methods;
	size_t count;
	void *owner;
	void (*closed)(void *owner);
	void (*left)(void *owner); /* see grpc_server_leave(); NULL: nobody waits */
	struct list peers;	   /* sorted: the one that has been silent the longest is first */
	size_t held;
	unsigned handles; /* handles that must be closed before this is freed */
	bool closing;
	bool given; /* the socket is another process's */
	int fd;
	dev_t device; /* identifies the socket's file */
	ino_t inode;
	char path[];
};

/* A connection. */
struct grpc_peer {
	struct grpc_link link;
	struct grpc_server *server;
	struct list of_server, calls;
	struct grpc_clock clock;
	size_t held;
	unsigned resets; /* resets that are still allowed */
	bool leaving;	 /* we have asked whether it has heard that we leave */
};

struct grpc_call {
	struct grpc_peer *peer;
	struct list of_peer;
	struct grpc_deadline deadline;
	const struct grpc_method *method;
	void *kept;
	struct grpc_frame request;
	struct list messages; /* answers that have not been sent */
	size_t unsent;
	char *message; /* the status' message, encoded */
	enum grpc_status status;
	int32_t stream;
	int http_status;		       /* the HTTP status, if it is not a gRPC call */
	uint64_t timeout_ns;		       /* UINT64_MAX: none */
	bool posted, grpc, bad_timeout, large; /* what its header says */
	bool complete;			       /* the caller has sent everything */
	bool lent;  /* the method owns it, and is told when the caller leaves */
	bool begun; /* the answer has begun */
	bool ended;
};

void grpc_call_callbacks(nghttp2_session_callbacks *callbacks);

/* Ends the answer. What the method does with the call afterwards has no effect. */
void grpc_call_finish(struct grpc_call *call, enum grpc_status status, const char *message);

/* Its caller makes it again, by another connection, unless the answer has begun. */
void grpc_call_refuse(struct grpc_call *call);

/* Tells the method, if it owns the call, that the call is gone. */
void grpc_call_tell(struct grpc_call *call);

/* Frees the call. Its stream must be closed. */
void grpc_call_free(struct grpc_call *call);

void grpc_call_late(struct grpc_deadline *deadline);

/* Forgets what has arrived of its request. */
void grpc_call_drop_request(struct grpc_call *call);

/* grpc_reply.c */
/* Forgets the messages that have not been sent; those of which a part was only with begun_too. */
void grpc_reply_drop(struct grpc_call *call, bool begun_too);
/* Ends its stream without an answer, or without waiting for the rest of the request. */
void grpc_reply_reset(struct grpc_call *call, uint32_t error);

/* For tests: adds a connection that did not come through the server's own socket. Takes over
 * `fd`. */
must_check int grpc_server_take(struct grpc_server *server, int fd);
