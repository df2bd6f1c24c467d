/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An answer that goes on, such as server-sent events: a member of the object that writes it. A text
 * is sent as the reader takes it. Nothing is copied or queued: there is one text at a time. Without
 * a text the connection costs only a descriptor.
 */
#pragma once

#include <stdbool.h>

#include "base/macros.h"

struct http_seat;
struct loop_timer;
struct MHD_Connection;
struct MHD_Response;

enum {
	HTTP_STREAMS = 24,	/* of a server: the other seats are for answers that end */
	HTTP_STREAMS_EACH = 12, /* of a host */
};

struct http_stream {
	/* The text has been taken: http_stream_give() may follow, now or later. */
	void (*taken)(struct http_stream *stream);
	/* The connection is over, and the text no longer needed. It may free the stream. */
	void (*ended)(struct http_stream *stream);

	/* http's own. */
	struct MHD_Connection *connection;
	struct http_seat *seat;
	struct http_stream *next, **among;
	struct loop_timer *go_on;
	const char *bytes; /* lent */
	size_t size, at;
	bool waits, over;
};

/* Nothing is being taken: more can be given. */
bool http_stream_is_free(const struct http_stream *stream);
/* `bytes` stay until taken() or ended() is called. Only while it is free. */
void http_stream_give(struct http_stream *stream, const char *bytes, size_t size);
/* Ends it, at once if it is free: ended() follows, but not from here. */
void http_stream_end(struct http_stream *stream);
/* Has the reader gone? While nothing is sent, this is the only way to notice. */
bool http_stream_is_alone(const struct http_stream *stream);

/* For http.c. The response of a stream, which joins the list `among`; `go_on` is armed when it is
 * given something. NULL without memory. */
struct MHD_Response *http_stream_start(struct http_stream *stream, struct http_stream **among,
				       struct http_seat *seat, struct MHD_Connection *connection,
				       struct loop_timer *go_on);
/* The stream of that seat, which from now on does not count as a stream's. */
void http_streams_end_at(struct http_stream *first, struct http_seat *seat);
/* All of a list. */
void http_streams_end(struct http_stream *first);
