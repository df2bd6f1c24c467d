/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends a call and evaluates what comes back: combines HTTP's status, gRPC's status, resets and
 * silence into one status. nghttp2 checks the headers strictly here; everything else is checked
 * below. Only a clean end with "grpc-status: 0" and one complete message is GRPC_OK.
 */
#include <string.h>

#include "kube/grpc_ask.h"
#include "kube/grpc_text.h"

static const uint64_t clock_grain_ns = 2000000;

static struct grpc_asked *asked_of(nghttp2_session *session, int32_t stream)
{
	return nghttp2_session_get_stream_user_data(session, stream);
}

static ssize_t on_fetch(nghttp2_session *session, int32_t stream, uint8_t *buffer, size_t size,
			uint32_t *flags, nghttp2_data_source *source, void *user)
{
	struct grpc_asked *asked = asked_of(session, stream);
	size_t part;

	(void)source;
	if (!asked || ((struct grpc_link *)user)->ended)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	part = asked->size - asked->sent < size ? asked->size - asked->sent : size;
	memcpy(buffer, asked->request + asked->sent, part);
	asked->sent += part;
	if (asked->sent == asked->size)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)part;
}

int grpc_asked_submit(struct grpc_asked *asked, struct grpc_dialled *by)
{
	char timeout[GRPC_TEXT_TIMEOUT_MAX];
	uint64_t now = loop_now_ns();
	nghttp2_nv fields[8] = {
		GRPC_FIELD(":method", "POST"),
		GRPC_FIELD(":scheme", "http"),
		GRPC_FIELD(":path", asked->path),
		GRPC_FIELD(":authority", "localhost"),
		GRPC_FIELD("te", "trailers"),
		GRPC_FIELD("content-type", "application/grpc"),
		GRPC_FIELD("user-agent", "grpc-c-mete"),
	};
	nghttp2_data_provider fetch = {.read_callback = on_fetch};
	size_t count = 7;
	int32_t stream;

	if (list_linked(&asked->deadline.link)) {
		grpc_text_timeout(asked->deadline.at_ns > now ? asked->deadline.at_ns - now : 1,
				  timeout);
		fields[count++] = (nghttp2_nv)GRPC_FIELD("grpc-timeout", timeout);
	}
	stream = nghttp2_submit_request(by->link.session, NULL, fields, count, &fetch, asked);
	if (stream < 0)
		return stream;
	asked->stream = stream;
	asked->by = by;
	asked->heard_before = by->link.heard;
	list_append(&by->calls, &asked->link);
	grpc_link_wake(&by->link);
	return 0;
}

static void judge_message(struct grpc_asked *asked)
{
	switch (asked->outcome) {
	case 0:
		if (grpc_frame_is_whole(&asked->answer))
			grpc_asked_finish(asked, GRPC_OK, "");
		else
			grpc_asked_finish(asked, GRPC_INTERNAL,
					  grpc_frame_is_empty(&asked->answer)
						  ? "there was no answer"
						  : "the answer is cut short");
		break;
	case GRPC_FRAME_LARGE:
	case -ENOMEM:
		grpc_asked_finish(asked, GRPC_RESOURCE_EXHAUSTED, "the answer is too large");
		break;
	case GRPC_FRAME_COMPRESSED:
		grpc_asked_finish(asked, GRPC_INTERNAL, "the answer is compressed");
		break;
	case GRPC_FRAME_SECOND:
		grpc_asked_finish(asked, GRPC_INTERNAL, "there was more than one answer");
		break;
	default:
		grpc_asked_finish(asked, GRPC_INTERNAL, "the answer is not a gRPC message");
		break;
	}
}

/* Evaluates the answer once the server has sent all of it. */
static void judge(struct grpc_asked *asked)
{
	char text[64];

	if (asked->http_status != 200) {
		snprintf(text, sizeof(text), "the server answered with HTTP status %d",
			 asked->http_status);
		grpc_asked_finish(asked, grpc_text_from_http(asked->http_status), text);
	} else if (asked->large) {
		grpc_asked_finish(asked, GRPC_RESOURCE_EXHAUSTED,
				  "the answer's header is too large");
	} else if (!asked->grpc) {
		grpc_asked_finish(asked, GRPC_UNKNOWN, "the server does not speak gRPC");
	} else if (asked->status == -1) {
		grpc_asked_finish(asked, GRPC_INTERNAL,
				  "the server ended the call without a status");
	} else if (asked->status < 0) {
		grpc_asked_finish(asked, GRPC_UNKNOWN, "the server's status is not a number");
	} else if (asked->status != GRPC_OK) {
		/* The server's own message, even if it sent an answer before. */
		grpc_asked_finish(asked, (enum grpc_status)asked->status, asked->message);
	} else {
		judge_message(asked);
	}
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct grpc_link *link = user;

	(void)session;
	(void)frame;
	link->header_bytes = 0;
	return link->ended ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static void take_field(struct grpc_asked *asked, struct grpc_bytes name, struct grpc_bytes value)
{
	if (grpc_text_equals(name, ":status")) {
		asked->http_status = grpc_text_http_status(value);
	} else if (grpc_text_equals(name, "content-type")) {
		asked->grpc = grpc_text_is_grpc(value);
	} else if (grpc_text_equals(name, "grpc-message")) {
		grpc_text_decode(value, asked->message);
	} else if (grpc_text_equals(name, "grpc-status")) {
		/* Two different statuses are invalid, too. */
		int status = grpc_text_status(value);

		asked->status = asked->status == -1 || asked->status == status ? status : -EBADMSG;
	}
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
		     size_t name_size, const uint8_t *value, size_t value_size, uint8_t flags,
		     void *user)
{
	struct grpc_link *link = user;
	struct grpc_asked *asked;
	int r;

	(void)flags;
	if (link->ended)
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	r = grpc_link_count_header(link, name_size, value_size);
	if (r < 0 || frame->hd.type != NGHTTP2_HEADERS)
		return r < 0 ? r : 0;
	asked = asked_of(session, frame->hd.stream_id);
	if (asked && r > 0)
		asked->large = true;
	else if (asked)
		take_field(asked, (struct grpc_bytes){name, name_size},
			   (struct grpc_bytes){value, value_size});
	return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data,
		   size_t size, void *user)
{
	struct grpc_link *link = user;
	struct grpc_asked *asked = asked_of(session, stream);

	(void)flags;
	if (link->ended)
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	/* A proxy's page (its body) is ignored. */
	if (!asked || asked->outcome != 0 || asked->http_status != 200 || !asked->grpc)
		return 0;
	asked->outcome =
		grpc_frame_take(&asked->answer, (struct grpc_bytes){data, size}, GRPC_ANSWER_MAX);
	if (asked->outcome != 0)
		judge_message(asked);
	return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct grpc_link *link = user;
	struct grpc_dialled *by = container_of(link, struct grpc_dialled, link);
	struct grpc_asked *asked;

	if (link->ended)
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	if (frame->hd.type == NGHTTP2_GOAWAY && by->client->current == by)
		by->client->current = NULL;
	if (!(frame->hd.flags & NGHTTP2_FLAG_END_STREAM) ||
	    (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA))
		return 0;
	asked = asked_of(session, frame->hd.stream_id);
	if (!asked)
		return 0;
	asked->over = asked->sent == asked->size;
	judge(asked);
	return 0;
}

/* Our deadline is due within the clock's grain. The server may give up the call first, because its
 * clock is faster or counts in milliseconds. */
static bool is_late(const struct grpc_asked *asked)
{
	return list_linked(&asked->deadline.link) &&
	       asked->deadline.at_ns <= loop_now_ns() + clock_grain_ns;
}

static int on_stream_close(nghttp2_session *session, int32_t stream, uint32_t error, void *user)
{
	struct grpc_asked *asked = asked_of(session, stream);
	char text[64];

	if (((struct grpc_link *)user)->ended)
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	if (!asked)
		return 0;
	asked->over = true;
	if (error == NGHTTP2_REFUSED_STREAM && grpc_asked_again(asked))
		return 0;
	if (error == NGHTTP2_CANCEL && is_late(asked)) {
		grpc_asked_finish(asked, GRPC_DEADLINE_EXCEEDED, "the deadline has passed");
		return 0;
	}
	snprintf(text, sizeof(text), "the call was reset: %s", nghttp2_http2_strerror(error));
	grpc_asked_finish(asked, grpc_text_from_reset(error), text);
	return 0;
}

static struct grpc_asked *find(struct grpc_dialled *by, int32_t stream)
{
	list_for_each(link, &by->calls)
	{
		struct grpc_asked *asked = list_entry(link, struct grpc_asked, link);

		if (asked->stream == stream)
			return asked;
	}
	return NULL;
}

/* nghttp2 has a request that it may not send any more, because the connection is closing. */
static int on_not_sent(nghttp2_session *session, const nghttp2_frame *frame, int error, void *user)
{
	struct grpc_link *link = user;
	struct grpc_dialled *by = container_of(link, struct grpc_dialled, link);
	struct grpc_asked *asked;

	(void)session;
	if (link->ended)
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	asked = find(by, frame->hd.stream_id);
	if (!asked)
		return 0;
	asked->over = true;
	if (!grpc_asked_again(asked))
		grpc_asked_finish(asked, GRPC_UNAVAILABLE, nghttp2_strerror(error));
	return 0;
}

static int on_sent(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct grpc_asked *asked;

	(void)user;
	if (frame->hd.type != NGHTTP2_HEADERS)
		return 0;
	asked = asked_of(session, frame->hd.stream_id);
	if (asked)
		asked->left = true;
	return 0;
}

void grpc_asked_callbacks(nghttp2_session_callbacks *callbacks)
{
	nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
	nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, on_not_sent);
	nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_sent);
}
