/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client: decides when to connect, which connection a call uses, and when a call is retried.
 * grpc_answer.c reads the answers.
 *
 * A call is retried only if it has certainly not reached the other program: it was never sent, or
 * it was refused explicitly (REFUSED_STREAM, or a stream above the last one of a GOAWAY).
 */
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "kube/grpc_ask.h"

/* connect() to a Unix socket with a full queue fails at once, and nothing reports
 * when there is room again. */
enum { DIAL_TRIES = 100 };
static const uint64_t dial_again_ns = 20000000;

static void release(struct grpc_client *client)
{
	if (--client->handles == 0)
		free(client);
}

static void detach(struct grpc_asked *asked)
{
	list_remove(&asked->link);
	grpc_clock_forget(&asked->deadline);
	if (asked->by && asked->stream && !asked->by->link.ended)
		nghttp2_session_set_stream_user_data(asked->by->link.session, asked->stream, NULL);
	asked->by = NULL;
}

static void free_asked(struct grpc_asked *asked)
{
	detach(asked);
	grpc_frame_done(&asked->answer);
	free(asked);
}

/* Tells the other end that the stream is no longer needed. */
static void cancel(const struct grpc_asked *asked)
{
	struct grpc_dialled *by = asked->by;

	if (!by || by->link.ended || !asked->stream)
		return;
	if (nghttp2_submit_rst_stream(by->link.session, NGHTTP2_FLAG_NONE, asked->stream,
				      NGHTTP2_CANCEL) != 0)
		grpc_link_end(&by->link, "out of memory");
	grpc_link_wake(&by->link);
}

void grpc_asked_finish(struct grpc_asked *asked, enum grpc_status status, const char *message)
{
	struct grpc_bytes nothing = {NULL, 0};

	if (!asked->over)
		cancel(asked);
	detach(asked);
	asked->answered(asked->owner, status, message,
			status == GRPC_OK ? grpc_frame_message(&asked->answer) : nothing);
	free_asked(asked);
}

/* Queues the call for the loop: answered() is never called inside grpc_ask(). */
static void wait_for_turn(struct grpc_asked *asked, uint64_t within_ns)
{
	struct grpc_client *client = asked->client;

	list_append(&client->waiting, &asked->link);
	loop_arm(&client->soon, within_ns);
}

bool grpc_asked_again(struct grpc_asked *asked)
{
	struct grpc_client *client = asked->client;
	struct grpc_deadline deadline = asked->deadline;
	uint64_t now = loop_now_ns();

	if (asked->again)
		return false;
	asked->again = true;
	detach(asked);
	grpc_frame_done(&asked->answer);
	asked->stream = 0;
	asked->sent = 0;
	asked->http_status = 0;
	asked->status = -1;
	asked->grpc = asked->left = asked->over = false;
	asked->outcome = 0;
	if (deadline.at_ns)
		grpc_clock_set(&client->clock, &asked->deadline,
			       deadline.at_ns > now ? deadline.at_ns - now : 0);
	wait_for_turn(asked, 0);
	return true;
}

/* Takes no new calls: the next one opens a new connection. */
static void retire(struct grpc_dialled *by)
{
	if (by->client->current == by)
		by->client->current = NULL;
}

static void end_if_done(struct grpc_dialled *by)
{
	if (by->client->current != by && list_empty(&by->calls))
		grpc_link_end(&by->link, "it is no longer needed");
}

static void on_settled(struct grpc_link *link)
{
	end_if_done(container_of(link, struct grpc_dialled, link));
}

static void on_gone(struct grpc_link *link, const char *reason)
{
	struct grpc_dialled *by = container_of(link, struct grpc_dialled, link);
	struct grpc_client *client = by->client;
	char text[160];

	retire(by);
	list_remove(&by->of_client);
	snprintf(text, sizeof(text), "the connection has ended: %s", reason);
	while (!list_empty(&by->calls)) {
		struct grpc_asked *asked = list_entry(by->calls.next, struct grpc_asked, link);

		if (asked->left || !grpc_asked_again(asked))
			grpc_asked_finish(asked, GRPC_UNAVAILABLE, text);
	}
	free(by);
	release(client);
}

static const struct grpc_link_class dialled_class = {
	.callbacks = grpc_asked_callbacks,
	.settled = on_settled,
	.gone = on_gone,
};

int grpc_client_take(struct grpc_client *client, int fd)
{
	struct grpc_dialled *by = calloc(1, sizeof(*by));
	int r;

	if (!by) {
		close(fd);
		return -ENOMEM;
	}
	by->client = client;
	list_init(&by->calls);
	r = grpc_link_init(&by->link, client->loop, fd, &dialled_class);
	if (r < 0) {
		free(by);
		return r;
	}
	client->handles++;
	client->current = by;
	list_append(&client->dialled, &by->of_client);
	return 0;
}

static int dial(struct grpc_client *client)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	owned(close) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	memcpy(address.sun_path, client->path, strlen(client->path));
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
		return -errno;
	return grpc_client_take(client, take_fd(&fd));
}

/* Whether the other end is still connected. It may have restarted, and a call
 * would be lost needlessly. */
static bool is_alive(const struct grpc_dialled *by)
{
	struct pollfd hangup = {.fd = by->link.fd, .events = POLLRDHUP};

	return !by->link.ended && !by->link.hopeless && poll(&hangup, 1, 0) == 0;
}

/* Returns the current connection, or a new one. */
static int find_connection(struct grpc_client *client, struct grpc_dialled **ret_by)
{
	int r;

	if (client->current && !is_alive(client->current))
		retire(client->current);
	r = client->current ? 0 : dial(client);
	*ret_by = client->current;
	return r;
}

/* -EAGAIN: try later. */
static int send_off(struct grpc_asked *asked)
{
	struct grpc_dialled *by = NULL;
	int r = find_connection(asked->client, &by);

	if (r == 0)
		r = grpc_asked_submit(asked, by);
	/* After 2^30 calls there are no more stream ids. */
	if (r == NGHTTP2_ERR_STREAM_ID_NOT_AVAILABLE) {
		retire(by);
		r = find_connection(asked->client, &by);
		if (r == 0)
			r = grpc_asked_submit(asked, by);
	}
	return r <= NGHTTP2_ERR_INVALID_ARGUMENT ? -ENOMEM : r;
}

static void fail_to_dial(struct grpc_asked *asked, int error)
{
	char text[192];

	snprintf(text, sizeof(text), "cannot connect to %s: %s", asked->client->path,
		 strerror(-error));
	grpc_asked_finish(asked, GRPC_UNAVAILABLE, text);
}

/* Sends the calls that wait now, each once: a caller that is answered may make another call. */
static void on_soon(struct loop_timer *timer)
{
	struct grpc_client *client = container_of(timer, struct grpc_client, soon);
	size_t count = 0;

	client->tries++;
	list_for_each(link, &client->waiting) count++;
	while (count-- > 0 && !list_empty(&client->waiting)) {
		struct grpc_asked *asked =
			list_entry(client->waiting.next, struct grpc_asked, link);
		int r;

		list_remove(&asked->link);
		r = send_off(asked);
		if (r == -EAGAIN && client->tries < DIAL_TRIES)
			wait_for_turn(asked, dial_again_ns);
		else if (r < 0)
			fail_to_dial(asked, r);
	}
	if (list_empty(&client->waiting))
		client->tries = 0;
}

static void on_late(struct grpc_deadline *deadline)
{
	struct grpc_asked *asked = container_of(deadline, struct grpc_asked, deadline);
	struct grpc_dialled *by = asked->by;

	/* Nothing has arrived since this call was sent. This peer does not respond, but by now the
	 * path may belong to another process. */
	if (by && by->link.heard == asked->heard_before)
		retire(by);
	grpc_asked_finish(asked, GRPC_DEADLINE_EXCEEDED, "the deadline has passed");
	if (by)
		end_if_done(by);
}

int grpc_client_open(struct loop *loop, const char *path, struct grpc_client **ret_client,
		     struct fault *why)
{
	struct grpc_client *client;

	if (strlen(path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path))
		return fault_set(why, -ENAMETOOLONG, "%s: a socket's path has at most %zu bytes",
				 path, sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1);
	client = calloc(1, sizeof(*client) + strlen(path) + 1);
	if (!client || grpc_clock_init(loop, &client->clock, on_late) < 0) {
		free(client);
		return fault_set(why, -ENOMEM, "%s: out of memory", path);
	}
	/* Like the clock's timer, which has just been created, this one does not fail. */
	best_effort(loop_timer_init(loop, &client->soon, on_soon));
	memcpy(client->path, path, strlen(path));
	client->loop = loop;
	client->handles = 2;
	list_init(&client->waiting);
	list_init(&client->dialled);
	*ret_client = client;
	return 0;
}

static void on_soon_closed(struct loop_timer *timer)
{
	release(container_of(timer, struct grpc_client, soon));
}

static void on_clock_closed(struct loop_timer *timer)
{
	release(container_of(timer, struct grpc_client, clock.timer));
}

static void forget_all(struct list *calls)
{
	while (!list_empty(calls))
		free_asked(list_entry(calls->next, struct grpc_asked, link));
}

void grpc_client_close(struct grpc_client *client)
{
	if (!client)
		return;
	forget_all(&client->waiting);
	list_for_each(link, &client->dialled)
	{
		struct grpc_dialled *by = list_entry(link, struct grpc_dialled, of_client);

		grpc_link_end(&by->link, "it is no longer needed");
		forget_all(&by->calls);
	}
	loop_timer_close(&client->soon, on_soon_closed);
	grpc_clock_close(&client->clock, on_clock_closed);
}

static struct grpc_asked *make_asked(struct grpc_client *client, const char *path,
				     struct grpc_bytes request)
{
	size_t path_size = strlen(path) + 1, size = GRPC_FRAME_HEADER + request.size;
	struct grpc_asked *asked = calloc(1, sizeof(*asked) + size + path_size);

	if (!asked)
		return NULL;
	asked->client = client;
	asked->status = -1;
	asked->size = size;
	asked->path = (char *)asked->request + size;
	grpc_frame_write(asked->request, (uint32_t)request.size);
	if (request.size)
		memcpy(asked->request + GRPC_FRAME_HEADER, request.data, request.size);
	memcpy(asked->path, path, path_size);
	return asked;
}

int grpc_ask(struct grpc_client *client, const char *path, struct grpc_bytes request,
	     uint64_t within_ns,
	     void (*answered)(void *owner, enum grpc_status status, const char *message,
			      struct grpc_bytes answer),
	     void *owner, struct grpc_asked **ret_asked)
{
	struct grpc_asked *asked;

	if (request.size > GRPC_REQUEST_MAX)
		return -EMSGSIZE;
	asked = make_asked(client, path, request);
	if (!asked)
		return -ENOMEM;
	asked->answered = answered;
	asked->owner = owner;
	if (within_ns)
		grpc_clock_set(&client->clock, &asked->deadline, within_ns);
	/* Failures from here on are reported by the loop. */
	if (!list_empty(&client->waiting) || send_off(asked) < 0)
		wait_for_turn(asked, 0);
	*ret_asked = asked;
	return 0;
}

void grpc_forget(struct grpc_asked *asked)
{
	struct grpc_dialled *by = asked->by;

	cancel(asked);
	free_asked(asked);
	if (by)
		end_if_done(by);
}
