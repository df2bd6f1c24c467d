/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One HTTP/2 connection on a socket, for either side: it sends what nghttp2 wants sent and passes
 * incoming bytes to it. Everything happens in the loop. grpc_link_wake() and grpc_link_end() only
 * record what to do, so that they may be called anywhere, even in nghttp2's callbacks (where
 * nghttp2 may be neither entered nor freed).
 */
#pragma once

#include <stdbool.h>

#include <nghttp2/nghttp2.h>

#include "base/list.h"
#include "base/loop.h"
#include "kube/grpc.h"

enum {
	GRPC_HEADERS_MAX = 16 << 10, /* of one header block, as HTTP/2 counts it */
	GRPC_HEADERS_END = 1 << 20,  /* a peer that sends more is not making a real call */
	GRPC_QUEUED_MAX = 4096, /* queued frames that the peer does not read: answers to floods */
};

struct grpc_link;

struct grpc_link_class {
	/* Streams are the owner's; the user data of nghttp2's callbacks is the link. */
	void (*callbacks)(nghttp2_session_callbacks *callbacks);
	/* Bytes were read or written; called by the loop. The link may have ended. NULL: no call.
	 */
	void (*settled)(struct grpc_link *link);
	/* The link has ended: nghttp2 makes no more callbacks, and the memory belongs to
	 * the owner. Called once by the loop; `reason` is part of a sentence ("it was
	 * closed by the other end"). */
	void (*gone)(struct grpc_link *link, const char *reason);
	bool server;
};

struct grpc_link {
	struct loop_watch watch;
	nghttp2_session *session;
	const struct grpc_link_class *class;
	int fd;
	int events;	     /* the events that are watched for */
	bool ended;	     /* nothing is read or sent any more */
	bool deaf;	     /* nothing is read any more */
	bool hopeless;	     /* nghttp2 has queued its last frame; the link ends once it is sent */
	size_t header_bytes; /* of the header block that is being received */
	uint64_t heard;	     /* bytes received in total */
	uint8_t *rest;	     /* what the socket has not accepted yet */
	size_t rest_size, rest_sent;
	char reason[96];
};

/* Takes over `fd`, even on failure; then gone() is not called. */
must_check int grpc_link_init(struct grpc_link *link, struct loop *loop, int fd,
			      const struct grpc_link_class *class);

/* Call it when nghttp2 has something to send. */
void grpc_link_wake(struct grpc_link *link);

/* Stops reading, sends what can be sent now, and ends. Call it from the loop, not from nghttp2. */
void grpc_link_finish(struct grpc_link *link, const char *reason);

/* Sends nothing more; gone() will be called. Does nothing if the link has ended. */
void grpc_link_end(struct grpc_link *link, const char *reason);

/* For the owner's on_header. 0: the header block fits into GRPC_HEADERS_MAX so far; 1: it does not;
 * < 0: it does not even fit into GRPC_HEADERS_END, and this error of nghttp2's, returned to it,
 * ends the connection. on_begin_headers must set header_bytes to 0. */
must_check int grpc_link_count_header(struct grpc_link *link, size_t name, size_t value);

#define GRPC_FIELD(field, text)                                                                    \
	{                                                                                          \
		.name = (uint8_t *)(field), .value = (uint8_t *)(text),                            \
		.namelen = sizeof(field) - 1, .valuelen = strlen(text),                            \
		.flags = NGHTTP2_NV_FLAG_NO_COPY_NAME                                              \
	}
