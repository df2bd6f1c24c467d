/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/grpc_link.h"

#include <string.h>
#include <sys/socket.h>

enum {
	READ_SIZE = 64 << 10,  /* bytes per call; then other connections have their turn */
	WRITE_SIZE = 64 << 10, /* bytes per system call */
	WRITE_ROUND = 1 << 20, /* bytes before other connections have their turn */
	/* nghttp2 returns one frame at a time: 9 bytes of header, up to 16 KiB, and a byte
	 * for the padding's length. */
	CHUNK_MAX = (16 << 10) + 16,
	WINDOW_STREAM = 1 << 20,
	WINDOW_CONNECTION = 4 << 20,
};

static void watch_for(struct grpc_link *link, int events)
{
	/* An error pauses the watch: the loop need not agree with us that nothing has changed. */
	link->events = events;
	loop_rewatch(&link->watch, events);
}

static void on_closed(struct loop_watch *watch)
{
	struct grpc_link *link = container_of(watch, struct grpc_link, watch);

	close(link->fd);
	nghttp2_session_del(link->session);
	link->session = NULL;
	free(link->rest);
	link->class->gone(link, link->reason);
}

void grpc_link_end(struct grpc_link *link, const char *reason)
{
	if (link->ended)
		return;
	link->ended = true;
	snprintf(link->reason, sizeof(link->reason), "%s", reason);
	/* The other end learns it at once. What it has sent meanwhile is read and discarded: if
	 * unread bytes remained, closing would hide our last frames behind an error
	 * (ECONNRESET). */
	shutdown(link->fd, SHUT_RDWR);
	while (recv(link->fd, (uint8_t[4096]){0}, 4096, MSG_DONTWAIT) > 0) {
	}
	loop_unwatch(&link->watch, on_closed);
}

static void end_with(struct grpc_link *link, int error)
{
	grpc_link_end(link, error == -EPIPE || error == -ECONNRESET ? "the other end has closed it"
								    : strerror(-error));
}

void grpc_link_wake(struct grpc_link *link)
{
	if (!link->ended)
		watch_for(link, link->events | LOOP_WRITE);
}

/* > 0: so many bytes were sent; 0: the socket accepts no more now. */
static ssize_t push(const struct grpc_link *link, const uint8_t *bytes, size_t size)
{
	ssize_t n = send(link->fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n >= 0)
		return n;
	return errno == EAGAIN || errno == EINTR ? 0 : -errno;
}

/* 0: all of the rest was sent; 1: the socket accepts no more now. */
static int push_rest(struct grpc_link *link)
{
	while (link->rest) {
		ssize_t n =
			push(link, link->rest + link->rest_sent, link->rest_size - link->rest_sent);

		if (n <= 0)
			return n < 0 ? (int)n : 1;
		link->rest_sent += (size_t)n;
		if (link->rest_sent < link->rest_size)
			continue;
		free(link->rest);
		link->rest = NULL;
	}
	return 0;
}

static int keep_rest(struct grpc_link *link, const uint8_t *bytes, size_t size)
{
	link->rest = malloc(size);
	if (!link->rest)
		return -ENOMEM;
	memcpy(link->rest, bytes, size);
	link->rest_size = size;
	link->rest_sent = 0;
	return 1;
}

/* Collects the next frames, as many as fit, so that a thousand answers take
 * only a few system calls. */
static int collect(struct grpc_link *link, uint8_t buffer[WRITE_SIZE], size_t *ret_size)
{
	size_t size = 0;

	while (size <= WRITE_SIZE - CHUNK_MAX) {
		const uint8_t *frame;
		ssize_t n = nghttp2_session_mem_send(link->session, &frame);

		if (n == NGHTTP2_ERR_NOMEM)
			return -ENOMEM;
		if (n < 0 || n > CHUNK_MAX)
			return -EPROTO;
		if (n == 0 || link->ended)
			break;
		memcpy(buffer + size, frame, (size_t)n);
		size += (size_t)n;
	}
	*ret_size = size;
	return 0;
}

/* 0: nothing is left to send; 1: there is more, but the socket is full or other
 * connections have their turn. */
static int transmit(struct grpc_link *link, size_t most)
{
	uint8_t buffer[WRITE_SIZE];
	size_t sent = 0;
	int r = push_rest(link);

	while (r == 0 && !link->ended) {
		size_t size = 0, out = 0;

		if (sent >= most)
			return 1;
		r = collect(link, buffer, &size);
		if (r < 0 || size == 0)
			return r;
		while (r == 0 && out < size) {
			ssize_t n = push(link, buffer + out, size - out);

			if (n < 0)
				return (int)n;
			out += (size_t)n;
			if (n == 0)
				r = keep_rest(link, buffer + out, size - out);
		}
		sent += out;
	}
	return r;
}

/* 0: something was read, or there is nothing to read now. */
static int receive(struct grpc_link *link)
{
	uint8_t buffer[READ_SIZE];
	ssize_t n = recv(link->fd, buffer, sizeof(buffer), MSG_DONTWAIT), taken;

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (n == 0)
		return -EPIPE;
	link->heard += (uint64_t)n;
	taken = nghttp2_session_mem_recv(link->session, buffer, (size_t)n);
	if (taken == NGHTTP2_ERR_NOMEM)
		return -ENOMEM;
	return taken < 0 ? -EPROTO : 0;
}

/* Returns why nothing more can be expected but our last frames; NULL: the connection continues. */
static const char *is_over(const struct grpc_link *link, int left)
{
	if (link->hopeless)
		return "the other end violated HTTP/2";
	if (nghttp2_session_want_read(link->session) ||
	    (left == 0 && nghttp2_session_want_write(link->session)))
		return NULL;
	return "the other end has sent GOAWAY";
}

static void on_ready(struct loop_watch *watch, int events)
{
	struct grpc_link *link = container_of(watch, struct grpc_link, watch);
	int r = 0;

	if ((events & LOOP_READ) && !link->deaf)
		r = receive(link);
	if (r == 0 && !link->ended)
		r = transmit(link, WRITE_ROUND);
	if (r < 0)
		end_with(link, r);
	else if (!link->ended && is_over(link, r))
		grpc_link_end(link, is_over(link, r));
	/* The peer sends requests but never reads the answers. */
	else if (!link->ended &&
		 nghttp2_session_get_outbound_queue_size(link->session) > GRPC_QUEUED_MAX)
		grpc_link_end(link, "the other end does not read");
	if (!link->ended)
		watch_for(link, (link->deaf ? 0 : LOOP_READ) | (r == 1 ? LOOP_WRITE : 0));
	if (link->class->settled)
		link->class->settled(link);
}

void grpc_link_finish(struct grpc_link *link, const char *reason)
{
	if (!link->ended)
		best_effort(transmit(link, SIZE_MAX));
	grpc_link_end(link, reason);
}

int grpc_link_count_header(struct grpc_link *link, size_t name, size_t value)
{
	link->header_bytes += name + value + 32;
	if (link->header_bytes > GRPC_HEADERS_END)
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	return link->header_bytes > GRPC_HEADERS_MAX;
}

/* nghttp2 has ended the connection because of a fault of the other end. This includes a flood of
 * resets, after which nghttp2 itself would go on reading. */
static int on_frame_leaves(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct grpc_link *link = user;

	(void)session;
	if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.error_code != NGHTTP2_NO_ERROR)
		link->hopeless = true;
	return 0;
}

static int open_session(struct grpc_link *link, const nghttp2_session_callbacks *callbacks,
			const nghttp2_option *option)
{
	if (link->class->server)
		return nghttp2_session_server_new2(&link->session, callbacks, link, option);
	return nghttp2_session_client_new2(&link->session, callbacks, link, option);
}

/* NO_RFC7540_PRIORITIES is not set: in that mode nghttp2 1.52 frees an item twice when a stream's
 * first DATA frame finds no memory (tests/unit/test_grpc_memory.c). nghttp2 limits what peers may
 * add to its tree of priorities. */
static int submit_settings(nghttp2_session *session, bool server)
{
	nghttp2_settings_entry settings[] = {
		{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, GRPC_HEADERS_MAX},
		{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW_STREAM},
		{server ? NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS : NGHTTP2_SETTINGS_ENABLE_PUSH,
		 server ? GRPC_CALLS_MAX : 0},
	};
	int r = nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings, ARRAY_SIZE(settings));

	if (r == 0)
		r = nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, 0,
							  WINDOW_CONNECTION);
	return r;
}

/* Only a lack of memory can fail here; everything else would be our mistake. */
static int make_session(struct grpc_link *link)
{
	nghttp2_session_callbacks *callbacks = NULL;
	nghttp2_option *option = NULL;
	int r = -1;

	if (nghttp2_session_callbacks_new(&callbacks) == 0 && nghttp2_option_new(&option) == 0) {
		/* The strict mode refuses an :authority that is missing or contains a '/',
		 * and grpc-go before 1.57 sends the socket's path unescaped. The server
		 * checks the fields that matter. */
		nghttp2_option_set_no_http_messaging(option, link->class->server);
		nghttp2_option_set_no_closed_streams(option, 1);
		nghttp2_session_callbacks_set_before_frame_send_callback(callbacks,
									 on_frame_leaves);
		link->class->callbacks(callbacks);
		r = open_session(link, callbacks, option);
	}
	nghttp2_session_callbacks_del(callbacks);
	nghttp2_option_del(option);
	if (r == 0)
		r = submit_settings(link->session, link->class->server);
	return r == 0 ? 0 : -ENOMEM;
}

int grpc_link_init(struct grpc_link *link, struct loop *loop, int fd,
		   const struct grpc_link_class *class)
{
	int r;

	*link = (struct grpc_link){.class = class, .fd = fd, .events = LOOP_READ | LOOP_WRITE};
	r = make_session(link);
	if (r == 0)
		r = loop_watch(loop, &link->watch, fd, link->events, on_ready);
	if (r < 0) {
		nghttp2_session_del(link->session);
		close(fd);
	}
	return r;
}
