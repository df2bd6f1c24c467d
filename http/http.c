/* SPDX-License-Identifier: Apache-2.0 */
#include "http/http.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include <microhttpd.h>

#include "http/http_door.h"
#include "http/http_listen.h"
#include "http/http_pace.h"
#include "http/http_regulars.h"
#include "http/http_seats.h"
#include "http/http_stream.h"

/* A handshake takes a millisecond or more of the daemon's time. */
static const struct http_rate all_handshakes = {64, 1000000000 / 32},
			      a_hosts_handshakes = {32, 1000000000 / 8};

struct http {
	struct loop_watch watch; /* of the door, and through it of libmicrohttpd */
	struct loop_timer timer;
	struct MHD_Daemon *server;
	struct http_address address;
	struct stat own;
	unsigned port;
	int listener;
	struct http_door door;
	struct http_seats seats;
	struct http_paces handshakes;
	struct http_regulars regulars; /* whose handshakes do not depend on others' */
	struct http_stream *streams;   /* all that have not ended */
	struct http_service service;
	bool busy, closed;
};

static const char *word_of(unsigned status)
{
	switch (status) {
	case 200:
		return "ok\n";
	case 401:
		return "a token is required: Authorization: Bearer TOKEN\n";
	case 403:
		return "not allowed\n";
	case 404:
		return "not found\n";
	case 405:
		return "only GET and HEAD\n";
	case 413:
		return "no content is accepted\n";
	case 421:
		return "this server does not have that name\n";
	case 503:
		return "unavailable\n";
	default:
		return "failed\n";
	}
}

/* Takes the response over. */
static enum MHD_Result queue(struct MHD_Connection *connection, const struct http_answer *answer,
			     struct MHD_Response *response)
{
	enum MHD_Result r =
		MHD_add_response_header(response, "Content-Type",
					answer->type ? answer->type : "text/plain; charset=utf-8");

	if (r == MHD_YES && answer->status == 405)
		r = MHD_add_response_header(response, "Allow", "GET, HEAD");
	for (const char *const *at = answer->headers; r == MHD_YES && at && *at; at += 2)
		r = MHD_add_response_header(response, at[0], at[1]);
	if (r == MHD_YES)
		r = MHD_queue_response(connection, answer->status, response);
	MHD_destroy_response(response);
	return r;
}

static enum MHD_Result reply(struct MHD_Connection *connection, struct http_answer *answer)
{
	const char *word = word_of(answer->status);
	struct MHD_Response *response =
		answer->body ? MHD_create_response_from_buffer(answer->size, answer->body,
							       MHD_RESPMEM_MUST_FREE)
			     : MHD_create_response_from_buffer(strlen(word), (void *)word,
							       MHD_RESPMEM_PERSISTENT);

	if (response)
		return queue(connection, answer, response);
	free(answer->body);
	return MHD_NO; /* closes the connection */
}

static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned status)
{
	struct http_answer answer = {.status = status};

	return reply(connection, &answer);
}

/* A client of this server has no reason to send a body, and two parsers may disagree about a
 * request with two lengths. */
static bool has_content(struct MHD_Connection *connection)
{
	const char *length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
							 MHD_HTTP_HEADER_CONTENT_LENGTH);

	return MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
					   MHD_HTTP_HEADER_TRANSFER_ENCODING) ||
	       (length && strcmp(length, "0") != 0);
}

static int fd_of(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *about =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

	return about ? (int)about->connect_fd : -1;
}

static void note_answer(struct http *http, struct MHD_Connection *connection, bool begins)
{
	int fd = fd_of(connection);
	struct http_seat *seat = fd >= 0 ? http_seats_find(&http->seats, fd) : NULL;

	if (!seat)
		return;
	seat->answers = begins;
	seat->spoke = true;
	if (!begins)
		seat->later_ns = 0;
	seat->since_ns = loop_now_ns();
}

const char *http_header(const struct http_request *request, const char *name)
{
	return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

static enum MHD_Result remember(void *owner, enum MHD_ValueKind kind, const char *name,
				const char *value)
{
	const char **wanted = owner; /* a name, and the last value that it has */

	(void)kind;
	if (strcasecmp(name, wanted[0]) == 0)
		wanted[1] = value;
	return MHD_YES;
}

const char *http_header_last(const struct http_request *request, const char *name)
{
	const char *wanted[2] = {name, NULL};

	MHD_get_connection_values(request->connection, MHD_HEADER_KIND, remember, wanted);
	return wanted[1];
}

static enum MHD_Result answer_later(struct http *http, struct MHD_Connection *connection)
{
	struct http_seat *seat = http_seats_find(&http->seats, fd_of(connection));

	if (!seat)
		return refuse(connection, 503);
	if (!seat->later_ns)
		seat->later_ns = loop_now_ns();
	seat->waits = true;
	seat->later = connection;
	MHD_suspend_connection(connection);
	return MHD_YES;
}

static bool resume_all(struct http *http)
{
	bool any = false;

	for (size_t i = 0; i < ARRAY_SIZE(http->seats.seat); i++) {
		struct http_seat *seat = &http->seats.seat[i];

		if (!seat->later)
			continue;
		seat->waits = false;
		seat->since_ns = loop_now_ns();
		MHD_resume_connection(take(seat->later));
		any = true;
	}
	return any;
}

void http_go_on(struct http *http)
{
	if (http && !http->closed && resume_all(http))
		loop_arm(&http->timer, 0);
}

/* NULL: there is no seat for it, or no memory. */
static struct MHD_Response *begin_stream(struct http *http, struct MHD_Connection *connection,
					 struct http_seat *seat, const struct http_answer *said)
{
	const struct http_host *whose = said->whose ? said->whose : &seat->from;
	struct http_seat *instead;
	struct MHD_Response *response;

	if (!http_seats_may_stream(&http->seats, whose, &instead))
		return NULL;
	if (instead)
		http_streams_end_at(http->streams, instead);
	response = http_stream_start(said->stream, &http->streams, seat, connection, &http->timer);
	if (response)
		seat->host = *whose;
	return response;
}

static enum MHD_Result answer(struct http *http, struct MHD_Connection *connection,
			      const char *path)
{
	struct http_request request = {.path = path, .connection = connection};
	struct http_seat *seat = http_seats_find(&http->seats, fd_of(connection));
	struct http_answer said = {.status = 404};
	struct MHD_Response *response;

	if (http->address.name.ss_family == AF_UNIX) {
		if (http_user_of(fd_of(connection), &request.uid) < 0)
			return MHD_NO;
		request.local = true;
	}
	if (seat)
		request.host = seat->from;
	if (seat && seat->later_ns)
		request.waited_ns = loop_now_ns() - seat->later_ns;
	note_answer(http, connection, true);
	http->service.answer(http->service.owner, &request, &said);
	if (seat && said.entitled && said.status == 200)
		http_regulars_note(&http->regulars, &seat->from, loop_now_ns());
	if (said.later)
		return answer_later(http, connection);
	if (!said.stream)
		return reply(connection, &said);
	response = seat ? begin_stream(http, connection, seat, &said) : NULL;
	if (response)
		return queue(connection, &said, response);
	said.stream->ended(said.stream);
	return refuse(connection, 503);
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection,
				  const char *path, const char *method, const char *version,
				  const char *content, size_t *size, void **kept)
{
	struct http *http = context;

	(void)version;
	(void)content;
	(void)size;
	if (has_content(connection))
		return refuse(connection, 413);
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
		return refuse(connection, 405);
	/* An answer in the first call would end the connection. */
	if (!*kept) {
		*kept = http;
		return MHD_YES;
	}
	if (http->closed)
		return MHD_NO;
	return answer(http, connection, path);
}

static void on_connection(void *context, struct MHD_Connection *connection, void **kept,
			  enum MHD_ConnectionNotificationCode what)
{
	const union MHD_ConnectionInfo *about =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	struct http *http = context;
	struct http_seat *seat = *kept;

	if (what == MHD_CONNECTION_NOTIFY_STARTED) {
		struct http_host host =
			http_host_of(fd_of(connection), (const void *)about->client_addr);

		*kept = http_seats_take(&http->seats, fd_of(connection), &host, loop_now_ns());
	} else if (seat) {
		seat->fd = -1;
		*kept = NULL;
	}
}

static void on_answered(void *context, struct MHD_Connection *connection, void **kept,
			enum MHD_RequestTerminationCode how)
{
	(void)kept;
	(void)how;
	note_answer(context, connection, false);
}

static bool may_shake_hands(struct http *http, const struct http_host *host)
{
	const struct http_asker asker = {.host = *host};
	uint64_t now = loop_now_ns();

	return http_paces_take(&http->handshakes, &asker, now) ||
	       http_regulars_take(&http->regulars, host, now);
}

static void on_entering(void *owner, const struct http_caller *caller)
{
	struct http *http = owner;

	if ((http->door.tls && !may_shake_hands(http, &caller->host)) ||
	    !http_seats_offer(&http->seats, &caller->host, loop_now_ns())) {
		http_turn_away(caller->fd, http->door.tls ? "" : http_door_full);
		return;
	}
	/* It closes the descriptor if it fails. */
	MHD_add_connection(http->server, caller->fd, (const struct sockaddr *)&caller->name,
			   caller->name_size);
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
	/* libmicrohttpd requires that none of them waits when it stops. */
	http_streams_end(http->streams);
	resume_all(http);
	if (http->server)
		MHD_stop_daemon(http->server);
	http_door_close(&http->door);
	close(http->listener);
	http_unlisten(&http->address, &http->own);
}

enum { HANDSHAKE_MS = 10 };

/* When libmicrohttpd must run again even if nothing comes. While a handshake waits for its client
 * its answer is always "at once": a client that never ends one would keep a core busy. */
static uint64_t server_due(const struct http *http, uint64_t now)
{
	MHD_UNSIGNED_LONG_LONG wait_ms;

	if (MHD_get_timeout(http->server, &wait_ms) != MHD_YES)
		return UINT64_MAX;
	if (wait_ms < HANDSHAKE_MS && http->service.tls && http_seats_await(&http->seats))
		wait_ms = HANDSHAKE_MS;
	return now + wait_ms * 1000000;
}

static void go_on(struct http *http)
{
	uint64_t now = loop_now_ns(), next, due;

	http->busy = true;
	http_tls_speak(http->service.tls);
	http_door_serve(&http->door, now);
	MHD_run(http->server);
	http->busy = false;
	if (http->closed) {
		dismantle(http);
		return;
	}
	next = http_seats_cut(&http->seats, now);
	due = http_door_due(&http->door);
	if (due < next)
		next = due;
	due = server_due(http, now);
	if (due < next)
		next = due;
	if (next == UINT64_MAX)
		loop_disarm(&http->timer);
	else
		loop_arm(&http->timer, next > now ? next - now : 0);
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

static int start(struct http *http, struct loop *loop)
{
	static const struct MHD_OptionItem no_options[] = {{MHD_OPTION_END, 0, NULL}};
	const union MHD_DaemonInfo *about;
	int r;

	/* Not MHD_USE_ERROR_LOG, which would print a line for each peer that leaves. */
	http->server = MHD_start_daemon(
		MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME |
			(http->door.tls ? MHD_USE_TLS : 0),
		0, NULL, NULL, on_request, http, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned)ARRAY_SIZE(http->seats.seat), MHD_OPTION_CONNECTION_TIMEOUT,
		(unsigned)HTTP_PATIENCE_S / 2, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		(size_t)HTTP_HEAD_MAX, MHD_OPTION_STRICT_FOR_CLIENT, 1,
		MHD_OPTION_NOTIFY_CONNECTION, on_connection, http, MHD_OPTION_NOTIFY_COMPLETED,
		on_answered, http, MHD_OPTION_ARRAY,
		http->door.tls ? http_tls_options() : no_options, MHD_OPTION_END);
	if (!http->server)
		return -ENOMEM;
	about = MHD_get_daemon_info(http->server, MHD_DAEMON_INFO_EPOLL_FD);
	r = about ? http_door_open(&http->door, http->listener, about->epoll_fd) : -ENOTSUP;
	if (r == 0)
		r = loop_watch(loop, &http->watch, http->door.epoll, LOOP_READ, on_ready);
	return r;
}

int http_open(struct loop *loop, const char *address, const struct http_service *service,
	      struct http **ret_http, struct fault *why)
{
	struct http_address at;
	struct http *http;
	struct stat own;
	int fd, r = http_address_read(address, &at, why);

	if (r < 0)
		return r;
	fd = http_listen(&at, address, service->everybody ? 0666 : 0600, &own, why);
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
	http->service = *service;
	http->port = port_of(fd);
	http->listener = fd;
	http_door_init(&http->door);
	http->door.enter = on_entering;
	http->door.tls = service->tls && at.name.ss_family != AF_UNIX;
	http->handshakes = (struct http_paces){.all = all_handshakes, .host = a_hosts_handshakes};
	http->door.owner = http;
	http_seats_init(&http->seats);
	r = start(http, loop);
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
	if (!http->busy) /* otherwise this is done when libmicrohttpd returns */
		dismantle(http);
}
