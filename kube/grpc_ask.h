/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations shared by grpc_client.c (connections) and grpc_answer.c (answers). */
#pragma once

#include "kube/grpc_clock.h"
#include "kube/grpc_frame.h"
#include "kube/grpc_link.h"

struct grpc_client {
	struct loop *loop;
	struct grpc_clock clock;
	struct loop_timer soon;
	struct list waiting; /* calls that have no connection yet */
	struct list dialled;
	struct grpc_dialled *current; /* for new calls; NULL: open one */
	unsigned tries;		      /* to retry while the other end's queue is full */
	unsigned handles;	      /* handles that must be closed before this is freed */
	char path[];
};

/* A connection. One that is not the client's current one ends after its last call. */
struct grpc_dialled {
	struct grpc_link link;
	struct grpc_client *client;
	struct list of_client, calls;
};

struct grpc_asked {
	struct grpc_client *client;
	struct grpc_dialled *by; /* NULL: not yet, or no longer */
	struct list link;	 /* in `by`, or among the waiting calls */
	struct grpc_deadline deadline;
	void (*answered)(void *owner, enum grpc_status status, const char *message,
			 struct grpc_bytes answer);
	void *owner;
	uint64_t heard_before; /* what `by` had received when the call was sent, in bytes */
	int32_t stream;
	bool again; /* was tried once already */
	bool left;  /* its header was sent */
	bool over;  /* the stream is closed, or both sides have finished */

	struct grpc_frame answer;
	int http_status; /* 0: not received yet */
	int status;	 /* grpc-status; -1: not received yet; -EBADMSG: invalid */
	int outcome;	 /* of grpc_frame_take() */
	bool grpc;	 /* the content type is gRPC's */
	bool large;	 /* the header was too large */
	char message[GRPC_MESSAGE_MAX + 1];

	char *path;
	size_t size, sent;
	uint8_t request[]; /* the framed message, then the path */
};

void grpc_asked_callbacks(nghttp2_session_callbacks *callbacks);

/* Returns 0, or nghttp2's error. */
must_check int grpc_asked_submit(struct grpc_asked *asked, struct grpc_dialled *by);

/* Reports the result to the caller, and frees it. Only from the loop. */
void grpc_asked_finish(struct grpc_asked *asked, enum grpc_status status, const char *message);

/* Retries on another connection, from the loop. False: this was the second time. */
must_check bool grpc_asked_again(struct grpc_asked *asked);

/* For tests: uses `fd`, which it takes over, as the connection for the next calls. */
must_check int grpc_client_take(struct grpc_client *client, int fd);
