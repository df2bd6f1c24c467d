/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/http.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include <microhttpd.h>

#include "kube/http_listen.h"

static const uint64_t second_ns = 1000000000;

struct seat {
	int fd;		   /* borrowed from a connection; -1: free */
	uint64_t since_ns; /* when it was accepted, or its last answer ended */
};

struct http {
	struct loop_watch watch; /* of libmicrohttpd's epoll descriptor */
	struct loop_timer timer;
	struct MHD_Daemon *server;
	struct http_address address;
	struct stat own;
	unsigned port;
	struct seat seats[HTTP_CONNECTIONS_MAX];
	void (*answer)(void *owner, const char *path, struct http_answer *ret_answer);
	void *owner;
	bool busy, closed;
	bool has_room; /* a connection has ended, and libmicrohttpd may not have run since */
};

static const char *word_of(unsigned status)
{
	switch (status) {
	case 200:
		return "ok\n";
	case 404:
		return "not found\n";
	case 405:
		return "only GET and HEAD\n";
	case 413:
		return "no content is accepted\n";
	case 503:
		return "unavailable\n";
	default:
		return "failed\n";
	}
}

static enum MHD_Result reply(struct MHD_Connection *connection, struct http_answer *answer)
{
	const char *word = word_of(answer->status);
	struct MHD_Response *response =
		answer->body ? MHD_create_response_from_buffer(answer->size, answer->body,
							       MHD_RESPMEM_MUST_FREE)
			     : MHD_create_response_from_buffer(strlen(word), (void *)word,
							       MHD_RESPMEM_PERSISTENT);
	enum MHD_Result r;

	if (!response) {
		free(answer->body);
		return MHD_NO; /* closes the connection */
	}
	r = MHD_add_response_header(response, "Content-Type",
				    answer->type ? answer->type : "text/plain; charset=utf-8");
	if (r == MHD_YES && answer->status == 405)
		r = MHD_add_response_header(response, "Allow", "GET, HEAD");
	if (r == MHD_YES)
		r = MHD_queue_response(connection, answer->status, response);
	MHD_destroy_response(response);
	return r;
}

static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned status)
{
	struct http_answer answer = {.status = status};

	return reply(connection, &answer);
}

/* A client that reads metrics sends no body. Besides, two parsers may disagree about a
 * request with two lengths. */
static bool has_content(struct MHD_Connection *connection)
{
	const char *length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
							 MHD_HTTP_HEADER_CONTENT_LENGTH);

	return MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
					   MHD_HTTP_HEADER_TRANSFER_ENCODING) ||
	       (length && strcmp(length, "0") != 0);
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection,
				  const char *path, const char *method, const char *version,
				  const char *content, size_t *size, void **kept)
{
	struct http *http = context;
	struct http_answer answer = {.status = 404};

	(void)version;
	(void)content;
	(void)size;
	if (has_content(connection))
		return refuse(connection, 413);
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
		return refuse(connection, 405);
	/* If it were answered in the first call, the connection would not be kept alive. */
	if (!*kept) {
		*kept = http;
		return MHD_YES;
	}
	if (http->closed)
		return MHD_NO;
	http->answer(http->owner, path, &answer);
	return reply(connection, &answer);
}

static struct seat *find_seat(struct http *http, int fd)
{
	for (size_t i = 0; i < HTTP_CONNECTIONS_MAX; i++)
		if (http->seats[i].fd == fd)
			return &http->seats[i];
	return NULL;
}

static int fd_of(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *about =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

	return about ? (int)about->connect_fd : -1;
}

static void on_connection(void *context, struct MHD_Connection *connection, void **kept,
			  enum MHD_ConnectionNotificationCode what)
{
	struct http *http = context;
	struct seat *seat;

	http->has_room = what == MHD_CONNECTION_NOTIFY_CLOSED;
	if (what == MHD_CONNECTION_NOTIFY_STARTED) {
		seat = find_seat(http, -1);
		if (seat)
			*seat = (struct seat){fd_of(connection), loop_now_ns()};
		*kept = seat;
	} else if (*kept) {
		seat = *kept;
		seat->fd = -1;
		*kept = NULL;
	}
}

static void on_answered(void *context, struct MHD_Connection *connection, void **kept,
			enum MHD_RequestTerminationCode how)
{
	struct seat *seat = find_seat(context, fd_of(connection));

	(void)kept;
	(void)how;
	if (seat && seat->fd >= 0)
		seat->since_ns = loop_now_ns();
}

/* libmicrohttpd's time-out only detects silence: a byte from time to time keeps a connection
 * open. Connections that are too slow overall are therefore cut here; libmicrohttpd notices and
 * closes the descriptor. Returns when to check again. */
static uint64_t cut_the_slow(struct http *http)
{
	uint64_t now = loop_now_ns(), patience_ns = HTTP_PATIENCE_S * second_ns, next = UINT64_MAX;

	for (size_t i = 0; i < HTTP_CONNECTIONS_MAX; i++) {
		struct seat *seat = &http->seats[i];

		if (seat->fd < 0)
			continue;
		if (now - seat->since_ns >= patience_ns) {
			shutdown(seat->fd, SHUT_RDWR);
			seat->since_ns = now;
		}
		if (seat->since_ns + patience_ns - now < next)
			next = seat->since_ns + patience_ns - now;
	}
	return next;
}

static void on_timer_closed(struct loop_timer *timer)
{
	free(container_of(timer, struct http, timer));
}

static void on_watch_closed(struct loop_watch *watch)
{
	loop_timer_close(&container_of(watch, struct http, watch)->timer, on_timer_closed);
}

/* Closes one handle after the other, because libuv does not define which of two it closes first. */
static void dismantle(struct http *http)
{
	loop_disarm(&http->timer);
	if (http->watch.open)
		loop_unwatch(&http->watch, on_watch_closed);
	else
		on_watch_closed(&http->watch);
	if (http->server)
		MHD_stop_daemon(http->server); /* also closes the listening descriptor */
	http_unlisten(&http->address, &http->own);
}

static void go_on(struct http *http)
{
	MHD_UNSIGNED_LONG_LONG wait_ms;
	uint64_t next_ns;

	http->busy = true;
	http->has_room = false;
	MHD_run(http->server);
	http->busy = false;
	if (http->closed) {
		dismantle(http);
		return;
	}
	next_ns = cut_the_slow(http);
	if (MHD_get_timeout(http->server, &wait_ms) == MHD_YES && wait_ms * 1000000 < next_ns)
		next_ns = wait_ms * 1000000;
	/* While its limit is reached, libmicrohttpd does not watch for new connections. It
	 * resumes when it runs next. */
	if (http->has_room)
		next_ns = 0;
	if (next_ns == UINT64_MAX)
		loop_disarm(&http->timer);
	else
		loop_arm(&http->timer, next_ns);
}

static void on_ready(struct loop_watch *watch, int events)
{
	(void)events;
	go_on(container_of(watch, struct http, watch));
}

static void on_timer(struct loop_timer *timer)
{
	go_on(container_of(timer, struct http, timer));
}

static unsigned port_of(int fd)
{
	struct sockaddr_storage name = {0};
	socklen_t size = sizeof(name);

	if (getsockname(fd, (struct sockaddr *)&name, &size) != 0)
		return 0;
	if (name.ss_family == AF_INET6)
		return ntohs(((struct sockaddr_in6 *)&name)->sin6_port);
	return name.ss_family == AF_INET ? ntohs(((struct sockaddr_in *)&name)->sin_port) : 0;
}

static int start(struct http *http, struct loop *loop, int fd)
{
	const union MHD_DaemonInfo *about;
	int r;

	/* Not MHD_USE_ERROR_LOG, which would print a line for each peer that leaves. */
	http->server = MHD_start_daemon(
		MHD_USE_EPOLL, 0, NULL, NULL, on_request, http, MHD_OPTION_LISTEN_SOCKET, fd,
		MHD_OPTION_CONNECTION_LIMIT, (unsigned)HTTP_CONNECTIONS_MAX,
		MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)HTTP_PATIENCE_S / 2,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HTTP_HEAD_MAX,
		MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_NOTIFY_CONNECTION, on_connection, http,
		MHD_OPTION_NOTIFY_COMPLETED, on_answered, http, MHD_OPTION_END);
	if (!http->server)
		return -ENOMEM; /* it does not say whether it closed the descriptor */
	about = MHD_get_daemon_info(http->server, MHD_DAEMON_INFO_EPOLL_FD);
	r = about ? loop_watch(loop, &http->watch, about->epoll_fd, LOOP_READ, on_ready) : -ENOTSUP;
	if (r == 0)
		loop_arm(&http->timer, 0);
	return r;
}

int http_open(struct loop *loop, const char *address,
	      void (*answer)(void *owner, const char *path, struct http_answer *ret_answer),
	      void *owner, struct http **ret_http, struct fault *why)
{
	struct http_address at;
	struct http *http;
	struct stat own;
	int fd, r = http_address_read(address, &at, why);

	if (r < 0)
		return r;
	fd = http_listen(&at, address, &own, why);
	if (fd < 0)
		return fd;
	http = calloc(1, sizeof(*http));
	r = http ? loop_timer_init(loop, &http->timer, on_timer) : -ENOMEM;
	if (r < 0) {
		http_unlisten(&at, &own);
		close(fd);
		free(http);
		return fault_set(why, r, "out of memory");
	}
	http->address = at;
	http->own = own;
	http->answer = answer;
	http->owner = owner;
	http->port = port_of(fd);
	for (size_t i = 0; i < HTTP_CONNECTIONS_MAX; i++)
		http->seats[i].fd = -1;
	r = start(http, loop, fd);
	if (r < 0) {
		dismantle(http);
		return fault_set(why, r, "'%.120s': the server cannot be started", address);
	}
	*ret_http = http;
	return 0;
}

unsigned http_port(const struct http *http)
{
	return http->port;
}

void http_close(struct http *http)
{
	if (!http || http->closed)
		return;
	http->closed = true;
	if (!http->busy) /* otherwise it is done when libmicrohttpd returns */
		dismantle(http);
}
