/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's calls: turns nghttp2's events about streams into called() and gone(), and the
 * methods' answers into frames. nghttp2 does not check the headers here (grpc_link.c gives the
 * reason): the fields that matter are checked below, and the others are ignored.
 */
#include <string.h>

#include "kube/grpc_serve.h"
#include "kube/grpc_text.h"

/* A framed message of an answer. */
struct grpc_outgoing {
	struct list link;
	size_t size, sent;
	uint8_t bytes[];
};

static void drop_message(struct grpc_call *call, struct grpc_outgoing *message)
{
	call->unsent -= sizeof(*message) + message->size - message->sent;
	list_remove(&message->link);
	free(message);
}

static void drop_messages(struct grpc_call *call, bool begun_too)
{
	list_for_each(link, &call->messages)
	{
		struct grpc_outgoing *message = list_entry(link, struct grpc_outgoing, link);

		if (begun_too || message->sent == 0)
			drop_message(call, message);
	}
}

static void hold(struct grpc_call *call, size_t before)
{
	size_t now = call->request.room;

	call->peer->held += now - before;
	call->peer->server->held += now - before;
}

static void drop_request(struct grpc_call *call)
{
	size_t before = call->request.room;

	grpc_frame_done(&call->request);
	hold(call, before);
}

void grpc_call_free(struct grpc_call *call)
{
	grpc_clock_forget(&call->deadline);
	list_remove(&call->of_peer);
	drop_messages(call, true);
	drop_request(call);
	free(call->message);
	free(call);
}

void grpc_call_tell(struct grpc_call *call)
{
	const struct grpc_server *server = call->peer->server;

	if (!call->lent)
		return;
	call->lent = false;
	/* An owner that closed the server without waiting may itself be gone. */
	if (server->closing && !server->closed)
		return;
	if (call->method->gone)
		call->method->gone(call, server->owner);
}

/* Writes the fields of the trailers, or of the header of an answer without a message. */
static size_t write_status(const struct grpc_call *call, char number[4], nghttp2_nv fields[2])
{
	snprintf(number, 4, "%u", (unsigned)call->status % 100);
	fields[0] = (nghttp2_nv)GRPC_FIELD("grpc-status", number);
	if (!call->message || !*call->message)
		return 1;
	fields[1] = (nghttp2_nv)GRPC_FIELD("grpc-message", call->message);
	return 2;
}

static ssize_t on_fetch(nghttp2_session *session, int32_t stream, uint8_t *buffer, size_t size,
			uint32_t *flags, nghttp2_data_source *source, void *user)
{
	struct grpc_call *call = nghttp2_session_get_stream_user_data(session, stream);
	nghttp2_nv fields[2];
	char number[4];
	size_t used = 0;

	(void)source;
	if (!call || ((struct grpc_link *)user)->ended)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	while (used < size && !list_empty(&call->messages)) {
		struct grpc_outgoing *message =
			list_entry(call->messages.next, struct grpc_outgoing, link);
		size_t left = message->size - message->sent;
		size_t part = left < size - used ? left : size - used;

		memcpy(buffer + used, message->bytes + message->sent, part);
		used += part;
		message->sent += part;
		call->unsent -= part;
		if (part == left)
			drop_message(call, message);
	}
	if (!list_empty(&call->messages) || !call->ended)
		return used ? (ssize_t)used : NGHTTP2_ERR_DEFERRED;
	*flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
	if (nghttp2_submit_trailer(session, stream, fields, write_status(call, number, fields)) !=
	    0)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	return (ssize_t)used;
}

static void reset(struct grpc_call *call, uint32_t error)
{
	if (nghttp2_submit_rst_stream(call->peer->link.session, NGHTTP2_FLAG_NONE, call->stream,
				      error) != 0)
		grpc_link_end(&call->peer->link, "out of memory");
	grpc_link_wake(&call->peer->link);
}

/* Sends an answer without a message, as a single header. */
static int answer_at_once(struct grpc_call *call)
{
	nghttp2_session *session = call->peer->link.session;
	char number[4], http[4];
	nghttp2_nv fields[5] = {GRPC_FIELD(":status", "200"),
				GRPC_FIELD("content-type", "application/grpc"),
				GRPC_FIELD("grpc-accept-encoding", "identity")};
	size_t count = 3;

	if (call->http_status) {
		snprintf(http, sizeof(http), "%u", (unsigned)call->http_status % 1000);
		fields[0] = (nghttp2_nv)GRPC_FIELD(":status", http);
		fields[1] = (nghttp2_nv)GRPC_FIELD("content-length", "0");
		fields[2] = (nghttp2_nv)GRPC_FIELD("allow", "POST");
	} else {
		count += write_status(call, number, fields + count);
	}
	return nghttp2_submit_response(session, call->stream, fields, count, NULL);
}

void grpc_call_finish(struct grpc_call *call, enum grpc_status status, const char *message)
{
	struct grpc_link *link = &call->peer->link;
	char encoded[GRPC_TEXT_ENCODED_MAX];
	int r = 0;

	if (call->ended)
		return;
	call->ended = true;
	call->status = status;
	/* Without memory, the status is sent without its message. */
	if (grpc_text_encode(message, encoded))
		call->message = strdup(encoded);
	grpc_clock_forget(&call->deadline);
	drop_request(call);
	if (link->ended)
		return;
	if (call->begun)
		/* An error means that the stream does not wait for data: it will
		 * notice the end by itself. */
		(void)nghttp2_session_resume_data(link->session, call->stream);
	else
		r = answer_at_once(call);
	if (r != 0)
		reset(call, NGHTTP2_INTERNAL_ERROR);
	grpc_link_wake(link);
}

void grpc_call_late(struct grpc_deadline *deadline)
{
	struct grpc_call *call = container_of(deadline, struct grpc_call, deadline);

	/* The answer is not sent, because nobody waits for it any more. */
	drop_messages(call, false);
	grpc_call_finish(call, GRPC_DEADLINE_EXCEEDED, "the deadline has passed");
	grpc_call_tell(call);
}

/* The header is complete: refuses now what can be refused before the request arrives. */
static void judge_header(struct grpc_call *call)
{
	if (!call->posted)
		call->http_status = 405;
	else if (!call->grpc)
		call->http_status = 415;
	if (call->http_status)
		grpc_call_finish(call, GRPC_UNKNOWN, NULL);
	else if (call->peer->server->closing)
		grpc_call_finish(call, GRPC_UNAVAILABLE, "the server is closing");
	else if (call->large)
		grpc_call_finish(call, GRPC_RESOURCE_EXHAUSTED, "the call's header is too large");
	else if (!call->method)
		grpc_call_finish(call, GRPC_UNIMPLEMENTED, "there is no such method");
	else if (call->bad_timeout)
		grpc_call_finish(call, GRPC_INTERNAL, "grpc-timeout is not in gRPC's format");
	else if (call->timeout_ns == 0)
		grpc_call_finish(call, GRPC_DEADLINE_EXCEEDED, "the deadline has passed");
	else if (call->timeout_ns != UINT64_MAX)
		grpc_clock_set(&call->peer->clock, &call->deadline, call->timeout_ns);
}

/* The caller has sent everything. */
static void take_whole(struct grpc_call *call)
{
	const struct grpc_server *server = call->peer->server;
	struct grpc_frame request = call->request;

	if (call->ended)
		return;
	if (grpc_frame_is_empty(&call->request)) {
		grpc_call_finish(call, GRPC_UNIMPLEMENTED,
				 "a request is one message, and none came");
		return;
	}
	if (!grpc_frame_is_whole(&call->request)) {
		grpc_call_finish(call, GRPC_INTERNAL, "the request's message is cut short");
		return;
	}
	/* The request outlives grpc_end(), but not called(). */
	call->request = (struct grpc_frame){.headed = 0};
	hold(call, request.room);
	call->lent = true;
	call->method->called(call, grpc_frame_message(&request), server->owner);
	grpc_frame_done(&request);
}

static void refuse_message(struct grpc_call *call, int outcome)
{
	char text[96];

	switch (outcome) {
	case GRPC_FRAME_LARGE:
		snprintf(text, sizeof(text), "a request may have at most %d bytes",
			 GRPC_REQUEST_MAX);
		grpc_call_finish(call, GRPC_RESOURCE_EXHAUSTED, text);
		break;
	case GRPC_FRAME_COMPRESSED:
		grpc_call_finish(call, GRPC_UNIMPLEMENTED, "messages may not be compressed");
		break;
	case GRPC_FRAME_SECOND:
		grpc_call_finish(call, GRPC_UNIMPLEMENTED,
				 "a request is one message, and more came");
		break;
	case -ENOMEM:
		grpc_call_finish(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
		break;
	default:
		grpc_call_finish(call, GRPC_INTERNAL, "that is not a gRPC message");
		break;
	}
}

static struct grpc_call *call_of(nghttp2_session *session, int32_t stream)
{
	return nghttp2_session_get_stream_user_data(session, stream);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct grpc_peer *peer = container_of((struct grpc_link *)user, struct grpc_peer, link);
	struct grpc_call *call;

	if (peer->link.ended)
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	peer->link.header_bytes = 0;
	if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	call = calloc(1, sizeof(*call));
	if (!call)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	call->peer = peer;
	call->stream = frame->hd.stream_id;
	call->timeout_ns = UINT64_MAX;
	list_init(&call->messages);
	list_append(&peer->calls, &call->of_peer);
	return nghttp2_session_set_stream_user_data(session, call->stream, call);
}

static void find_method(struct grpc_call *call, struct grpc_bytes path)
{
	const struct grpc_server *server = call->peer->server;

	for (size_t i = 0; i < server->count; i++)
		if (grpc_text_equals(path, server->methods[i].path))
			call->method = &server->methods[i];
}

static void take_field(struct grpc_call *call, struct grpc_bytes name, struct grpc_bytes value)
{
	if (grpc_text_equals(name, ":method"))
		call->posted = grpc_text_equals(value, "POST");
	else if (grpc_text_equals(name, ":path"))
		find_method(call, value);
	else if (grpc_text_equals(name, "content-type"))
		call->grpc = grpc_text_is_grpc(value);
	else if (grpc_text_equals(name, "grpc-timeout"))
		call->bad_timeout = grpc_text_parse_timeout(value, &call->timeout_ns) != 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
		     size_t name_size, const uint8_t *value, size_t value_size, uint8_t flags,
		     void *user)
{
	struct grpc_link *link = user;
	struct grpc_call *call;
	int r;

	(void)flags;
	if (link->ended)
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	r = grpc_link_count_header(link, name_size, value_size);
	if (r < 0 || frame->hd.type != NGHTTP2_HEADERS ||
	    frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return r < 0 ? r : 0;
	call = call_of(session, frame->hd.stream_id);
	if (call && r > 0)
		call->large = true;
	else if (call)
		take_field(call, (struct grpc_bytes){name, name_size},
			   (struct grpc_bytes){value, value_size});
	return 0;
}

static struct grpc_call *largest_of(struct grpc_peer *peer)
{
	struct grpc_call *largest = NULL;

	list_for_each(link, &peer->calls)
	{
		struct grpc_call *call = list_entry(link, struct grpc_call, of_peer);

		if (!largest || call->request.room > largest->request.room)
			largest = call;
	}
	return largest;
}

static struct grpc_peer *greediest_of(struct grpc_server *server)
{
	struct grpc_peer *greediest = NULL;

	list_for_each(link, &server->peers)
	{
		struct grpc_peer *peer = list_entry(link, struct grpc_peer, of_server);

		if (!greediest || peer->held > greediest->held)
			greediest = peer;
	}
	return greediest;
}

/* Drops the largest requests, so that small ones are served whatever other callers send. */
static void bound_requests(struct grpc_peer *peer)
{
	static const char why[] = "too many large requests are coming in at once";

	while (peer->held > GRPC_HELD_PEER_MAX)
		grpc_call_finish(largest_of(peer), GRPC_RESOURCE_EXHAUSTED, why);
	while (peer->server->held > GRPC_HELD_MAX)
		grpc_call_finish(largest_of(greediest_of(peer->server)), GRPC_RESOURCE_EXHAUSTED,
				 why);
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data,
		   size_t size, void *user)
{
	struct grpc_link *link = user;
	struct grpc_peer *peer = container_of(link, struct grpc_peer, link);
	struct grpc_call *call = call_of(session, stream);
	size_t before;
	int r;

	(void)flags;
	if (link->ended)
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	if (!call || call->ended || call->complete)
		return 0;
	before = call->request.room;
	r = grpc_frame_take(&call->request, (struct grpc_bytes){data, size}, GRPC_REQUEST_MAX);
	hold(call, before);
	if (r != 0)
		refuse_message(call, r);
	else
		bound_requests(peer);
	return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct grpc_link *link = user;
	struct grpc_call *call;

	if (link->ended)
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
		return 0;
	call = call_of(session, frame->hd.stream_id);
	if (!call)
		return 0;
	call->complete |= (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
	if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
		judge_header(call);
	else if (frame->hd.type == NGHTTP2_HEADERS && !call->complete)
		reset(call, NGHTTP2_PROTOCOL_ERROR); /* a second header within the request */
	if (call->complete)
		take_whole(call);
	return 0;
}

/* The caller has its answer and need not send more. The reset must not come earlier, because
 * nghttp2 sends nothing more on a stream with a pending reset. */
static int on_frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct grpc_call *call;

	(void)user;
	if (frame->hd.type != NGHTTP2_HEADERS || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
		return 0;
	call = call_of(session, frame->hd.stream_id);
	if (call && !call->complete)
		reset(call, NGHTTP2_NO_ERROR);
	return 0;
}

/* Each completed call allows one reset. A peer that only begins and abandons calls
 * (CVE-2023-44487), or makes us abandon them (CVE-2025-8671), is disconnected. */
static void count_reset(struct grpc_peer *peer, uint32_t error)
{
	if (error == NGHTTP2_NO_ERROR) {
		peer->resets += peer->resets < GRPC_RESETS_MAX;
		return;
	}
	if (peer->resets > 0) {
		peer->resets--;
		return;
	}
	if (peer->link.hopeless)
		return;
	peer->link.hopeless = true;
	best_effort(
		nghttp2_session_terminate_session(peer->link.session, NGHTTP2_ENHANCE_YOUR_CALM));
}

static int on_stream_close(nghttp2_session *session, int32_t stream, uint32_t error, void *user)
{
	struct grpc_link *link = user;
	struct grpc_call *call = call_of(session, stream);

	if (link->ended)
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	if (!call)
		return 0;
	count_reset(call->peer, error);
	nghttp2_session_set_stream_user_data(session, stream, NULL);
	/* What the method does with the call now has no effect, but the call still exists for
	 * it. */
	call->ended = true;
	grpc_call_tell(call);
	grpc_call_free(call);
	return 0;
}

void grpc_call_callbacks(nghttp2_session_callbacks *callbacks)
{
	nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
	nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_sent);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
}

static int begin_answer(struct grpc_call *call)
{
	nghttp2_nv fields[] = {GRPC_FIELD(":status", "200"),
			       GRPC_FIELD("content-type", "application/grpc")};
	nghttp2_data_provider fetch = {.read_callback = on_fetch};

	if (call->begun)
		/* An error means that the stream does not wait for data: it will
		 * find the message by itself. */
		(void)nghttp2_session_resume_data(call->peer->link.session, call->stream);
	else if (nghttp2_submit_response(call->peer->link.session, call->stream, fields,
					 ARRAY_SIZE(fields), &fetch) != 0)
		return -ENOMEM;
	call->begun = true;
	return 0;
}

int grpc_send(struct grpc_call *call, struct grpc_bytes message, bool latest)
{
	struct grpc_outgoing *outgoing;

	if (call->ended || call->peer->link.ended)
		return 0; /* gone() will be called */
	if (latest)
		drop_messages(call, false);
	if (message.size > GRPC_UNSENT_MAX || call->unsent > GRPC_UNSENT_MAX - message.size)
		return -ENOMEM;
	outgoing = malloc(sizeof(*outgoing) + GRPC_FRAME_HEADER + message.size);
	if (!outgoing)
		return -ENOMEM;
	*outgoing = (struct grpc_outgoing){.size = GRPC_FRAME_HEADER + message.size};
	grpc_frame_write(outgoing->bytes, (uint32_t)message.size);
	if (message.size)
		memcpy(outgoing->bytes + GRPC_FRAME_HEADER, message.data, message.size);
	list_append(&call->messages, &outgoing->link);
	call->unsent += sizeof(*outgoing) + outgoing->size;
	if (begin_answer(call) < 0) {
		drop_message(call, outgoing);
		return -ENOMEM;
	}
	grpc_link_wake(&call->peer->link);
	return 0;
}

void grpc_end(struct grpc_call *call, enum grpc_status status, const char *message)
{
	call->lent = false;
	grpc_call_finish(call, status, message);
}

void grpc_call_keep(struct grpc_call *call, void *mine)
{
	call->kept = mine;
}

void *grpc_call_kept(const struct grpc_call *call)
{
	return call->kept;
}
