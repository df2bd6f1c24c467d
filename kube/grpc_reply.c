/* SPDX-License-Identifier: Apache-2.0 */
/* The server's answers: turns the methods' messages and statuses into frames. */
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

void grpc_reply_drop(struct grpc_call *call, bool begun_too)
{
	list_for_each(link, &call->messages)
	{
		struct grpc_outgoing *message = list_entry(link, struct grpc_outgoing, link);

		if (begun_too || message->sent == 0)
			drop_message(call, message);
	}
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

void grpc_reply_reset(struct grpc_call *call, uint32_t error)
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
	grpc_call_drop_request(call);
	if (link->ended)
		return;
	if (call->begun)
		/* An error means that the stream does not wait for data: it will
		 * notice the end by itself. */
		(void)nghttp2_session_resume_data(link->session, call->stream);
	else
		r = answer_at_once(call);
	if (r != 0)
		grpc_reply_reset(call, NGHTTP2_INTERNAL_ERROR);
	grpc_link_wake(link);
}

void grpc_call_refuse(struct grpc_call *call)
{
	if (call->ended || call->begun)
		return;
	call->ended = true;
	grpc_clock_forget(&call->deadline);
	grpc_call_drop_request(call);
	grpc_reply_reset(call, NGHTTP2_REFUSED_STREAM);
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
		grpc_reply_drop(call, false);
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
