/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's calls: turns nghttp2's events about streams into called() and gone(). nghttp2 does
 * not check the headers here (grpc_link.c gives the reason): the fields that matter are checked
 * below, and the others are ignored. grpc_reply.c has the other direction.
 */
#include <string.h>

#include "kube/grpc_serve.h"
#include "kube/grpc_text.h"

static void hold(struct grpc_call *call, size_t before)
{
	size_t now = call->request.room;

	call->peer->held += now - before;
	call->peer->server->held += now - before;
}

void grpc_call_drop_request(struct grpc_call *call)
{
	size_t before = call->request.room;

	grpc_frame_done(&call->request);
	hold(call, before);
}

void grpc_call_free(struct grpc_call *call)
{
	grpc_clock_forget(&call->deadline);
	list_remove(&call->of_peer);
	grpc_reply_drop(call, true);
	grpc_call_drop_request(call);
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

void grpc_call_late(struct grpc_deadline *deadline)
{
	struct grpc_call *call = container_of(deadline, struct grpc_call, deadline);

	/* The answer is not sent, because nobody waits for it any more. */
	grpc_reply_drop(call, false);
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

/* The peer has heard that we leave: all calls that it has begun here are known. nghttp2 ends the
 * session when these are answered. */
static void on_heard(struct grpc_peer *peer)
{
	nghttp2_session *session = peer->link.session;

	peer->leaving = false;
	if (nghttp2_submit_goaway(session, NGHTTP2_FLAG_NONE,
				  nghttp2_session_get_last_proc_stream_id(session),
				  NGHTTP2_NO_ERROR, NULL, 0) != 0)
		grpc_link_end(&peer->link, "out of memory");
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct grpc_link *link = user;
	struct grpc_peer *peer = container_of(link, struct grpc_peer, link);
	struct grpc_call *call;

	if (link->ended)
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK) && peer->leaving)
		on_heard(peer);
	if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
		return 0;
	call = call_of(session, frame->hd.stream_id);
	if (!call)
		return 0;
	call->complete |= (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
	if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
		judge_header(call);
	else if (frame->hd.type == NGHTTP2_HEADERS && !call->complete)
		grpc_reply_reset(call,
				 NGHTTP2_PROTOCOL_ERROR); /* a second header within the request */
	if (call->complete)
		take_whole(call);
	return 0;
}

/* Only now: nghttp2 would send it before frames that have waited longer. */
static int ask_whether_heard(struct grpc_peer *peer)
{
	return nghttp2_submit_ping(peer->link.session, NGHTTP2_FLAG_NONE, NULL) == 0
		       ? 0
		       : NGHTTP2_ERR_CALLBACK_FAILURE;
}

/* The caller has its answer and need not send more. The reset must not come earlier, because
 * nghttp2 sends nothing more on a stream with a pending reset. */
static int on_frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct grpc_peer *peer = container_of((struct grpc_link *)user, struct grpc_peer, link);
	struct grpc_call *call;

	if (frame->hd.type == NGHTTP2_GOAWAY && peer->leaving)
		return ask_whether_heard(peer);
	if (frame->hd.type != NGHTTP2_HEADERS || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
		return 0;
	call = call_of(session, frame->hd.stream_id);
	if (call && !call->complete)
		grpc_reply_reset(call, NGHTTP2_NO_ERROR);
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

void grpc_call_keep(struct grpc_call *call, void *mine)
{
	call->kept = mine;
}

void *grpc_call_kept(const struct grpc_call *call)
{
	return call->kept;
}
