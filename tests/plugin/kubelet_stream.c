/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/plugin/kubelet_stream.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "kube/grpc_frame.h"
#include "kube/grpc_link.h"
#include "tests/check.h"

struct kubelet_stream {
	struct grpc_link link;
	void (*heard)(void *owner, struct grpc_bytes message);
	void (*ended)(void *owner, struct kubelet_stream *stream);
	void *owner;
	uint8_t *bytes; /* messages that are not whole */
	size_t have;
	bool asked;
};

static struct kubelet_stream *stream_of(void *user)
{
	return container_of((struct grpc_link *)user, struct kubelet_stream, link);
}

static size_t size_of(const uint8_t *header)
{
	return (size_t)header[1] << 24 | (size_t)header[2] << 16 | (size_t)header[3] << 8 |
	       header[4];
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data,
		   size_t size, void *user)
{
	struct kubelet_stream *s = stream_of(user);

	(void)session;
	(void)flags;
	(void)id;
	s->bytes = realloc(s->bytes, s->have + size + 1);
	check(s->bytes);
	memcpy(s->bytes + s->have, data, size);
	s->have += size;
	while (s->have >= GRPC_FRAME_HEADER) {
		size_t whole = GRPC_FRAME_HEADER + size_of(s->bytes);

		if (s->have < whole)
			break;
		s->heard(s->owner, (struct grpc_bytes){s->bytes + GRPC_FRAME_HEADER,
						       whole - GRPC_FRAME_HEADER});
		memmove(s->bytes, s->bytes + whole, s->have - whole);
		s->have -= whole;
	}
	return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t error, void *user)
{
	(void)session;
	(void)id;
	(void)error;
	grpc_link_end(user, "the stream has ended");
	return 0;
}

static void set_callbacks(nghttp2_session_callbacks *callbacks)
{
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
}

static void on_gone(struct grpc_link *link, const char *reason)
{
	struct kubelet_stream *s = stream_of(link);

	(void)reason;
	s->ended(s->owner, s);
	free(s->bytes);
	free(s);
}

static const struct grpc_link_class class = {.callbacks = set_callbacks, .gone = on_gone};

/* One empty message. */
static ssize_t on_fetch(nghttp2_session *session, int32_t id, uint8_t *buffer, size_t size,
			uint32_t *flags, nghttp2_data_source *source, void *user)
{
	(void)session;
	(void)id;
	(void)source;
	(void)user;
	check(size >= GRPC_FRAME_HEADER);
	memset(buffer, 0, GRPC_FRAME_HEADER);
	*flags |= NGHTTP2_DATA_FLAG_EOF;
	return GRPC_FRAME_HEADER;
}

int kubelet_stream_open(struct loop *loop, const char *socket_path, const char *path,
			void (*heard)(void *owner, struct grpc_bytes message),
			void (*ended)(void *owner, struct kubelet_stream *stream), void *owner,
			struct kubelet_stream **ret_stream)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	nghttp2_nv fields[] = {GRPC_FIELD(":method", "POST"),
			       GRPC_FIELD(":scheme", "http"),
			       GRPC_FIELD(":path", path),
			       GRPC_FIELD(":authority", "localhost"),
			       GRPC_FIELD("content-type", "application/grpc"),
			       GRPC_FIELD("te", "trailers")};
	nghttp2_data_provider body = {.read_callback = on_fetch};
	struct kubelet_stream *s = calloc(1, sizeof(*s));
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), r;

	check(s && fd >= 0 && strlen(socket_path) < sizeof(address.sun_path));
	memcpy(address.sun_path, socket_path, strlen(socket_path));
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
		r = -errno;
		close(fd);
		free(s);
		return r;
	}
	s->heard = heard;
	s->ended = ended;
	s->owner = owner;
	r = grpc_link_init(&s->link, loop, fd, &class);
	if (r < 0) {
		free(s);
		return r;
	}
	check(nghttp2_submit_request(s->link.session, NULL, fields, ARRAY_SIZE(fields), &body,
				     NULL) > 0);
	grpc_link_wake(&s->link);
	*ret_stream = s;
	return 0;
}

void kubelet_stream_end(struct kubelet_stream *stream)
{
	if (stream)
		grpc_link_end(&stream->link, "it is no longer needed");
}
