/* SPDX-License-Identifier: Apache-2.0 */
#include "http/http_stream.h"

#include <poll.h>
#include <string.h>

#include <microhttpd.h>

#include "base/loop.h"
#include "http/http_seats.h"

/* The most that a reader takes at once. */
enum { PORTION = 8 << 10 };

static bool wake(struct http_stream *stream)
{
	if (!stream->waits)
		return false;
	stream->waits = stream->seat->waits = false;
	stream->seat->since_ns = loop_now_ns();
	MHD_resume_connection(stream->connection);
	return true;
}

/* The server resumes all streams that were woken by then. */
static void wake_soon(struct http_stream *stream)
{
	if (wake(stream))
		loop_arm(stream->go_on, 0);
}

void http_streams_end(struct http_stream *first)
{
	for (; first; first = first->next) {
		first->over = true;
		wake(first);
	}
}

bool http_stream_is_free(const struct http_stream *stream)
{
	return stream->at == stream->size && !stream->over;
}

void http_stream_give(struct http_stream *stream, const char *bytes, size_t size)
{
	stream->bytes = bytes;
	stream->size = size;
	stream->at = 0;
	wake_soon(stream);
}

void http_stream_end(struct http_stream *stream)
{
	stream->over = true;
	wake_soon(stream);
}

void http_streams_end_at(struct http_stream *first, struct http_seat *seat)
{
	for (; first; first = first->next)
		if (first->seat == seat)
			http_stream_end(first);
	seat->streams = false;
}

bool http_stream_is_alone(const struct http_stream *stream)
{
	/* With TLS, a closing message may come before the end. */
	struct pollfd end = {.fd = stream->seat->fd, .events = POLLRDHUP};

	return poll(&end, 1, 0) > 0;
}

/* The reader is ready for more. */
static ssize_t on_pull(void *context, uint64_t position, char *to, size_t room)
{
	struct http_stream *stream = context;
	size_t n;

	(void)position;
	stream->seat->since_ns = loop_now_ns();
	if (stream->size && stream->at == stream->size) {
		stream->size = stream->at = 0;
		stream->taken(stream);
	}
	n = stream->size - stream->at;
	if (n > room)
		n = room;
	if (!n && stream->over)
		return MHD_CONTENT_READER_END_OF_STREAM;
	if (!n) {
		stream->waits = stream->seat->waits = true;
		MHD_suspend_connection(stream->connection);
		return 0;
	}
	memcpy(to, stream->bytes + stream->at, n);
	stream->at += n;
	return (ssize_t)n;
}

static void on_ended(void *context)
{
	struct http_stream *stream = context, **at = stream->among;

	while (*at != stream)
		at = &(*at)->next;
	*at = stream->next;
	stream->seat->streams = stream->seat->waits = false;
	stream->seat->host = stream->seat->from;
	stream->ended(stream);
}

struct MHD_Response *http_stream_start(struct http_stream *stream, struct http_stream **among,
				       struct http_seat *seat, struct MHD_Connection *connection,
				       struct loop_timer *go_on)
{
	struct MHD_Response *response = MHD_create_response_from_callback(
		MHD_SIZE_UNKNOWN, PORTION, on_pull, stream, on_ended);

	if (!response)
		return NULL;
	stream->connection = connection;
	stream->seat = seat;
	stream->among = among;
	stream->go_on = go_on;
	stream->next = *among;
	*among = stream;
	seat->streams = true;
	seat->began_ns = loop_now_ns();
	return response;
}
