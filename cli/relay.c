/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/relay.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "base/place.h"
#include "cli/admin.h"
#include "cli/cli.h"
#include "cli/relay_boards.h"

struct relay {
	struct admin admin;
	uint8_t in[WIRE_FRAME_MAX]; /* the beginning of the next frame */
	size_t size;
	struct relay_boards boards;
};

/* 1: the other side has closed. */
static int put(const uint8_t *frame, size_t size)
{
	return file_write(STDOUT_FILENO, frame, size) < 0;
}

int relay_put(const struct wire_message *message)
{
	uint8_t frame[WIRE_FRAME_MAX];

	return put(frame, wire_encode(message, frame));
}

static int pass_in(struct relay *relay, size_t size)
{
	struct wire_message message;

	if (wire_decode(relay->in, size, &message) == 0 && message.code == WIRE_board_ask)
		return relay_boards_answer(&relay->boards, &message);
	return send(relay->admin.fd, relay->in, size, MSG_NOSIGNAL) < 0;
}

/* Passes whole frames on to meted, from the bytes that have arrived. */
static int take_in(struct relay *relay)
{
	ssize_t n = read(STDIN_FILENO, relay->in + relay->size, sizeof(relay->in) - relay->size);

	if (n <= 0)
		return n == 0 || errno != EINTR;
	relay->size += (size_t)n;
	while (relay->size >= WIRE_HEADER) {
		size_t size = wire_length(relay->in);

		if (!size) {
			fputs("mete --relay: the bytes on standard input are not mete's protocol\n",
			      stderr);
			return 1;
		}
		if (size > relay->size)
			break;
		if (pass_in(relay, size))
			return 1;
		relay->size -= size;
		memmove(relay->in, relay->in + size, relay->size);
	}
	return 0;
}

static int take_out(struct relay *relay)
{
	uint8_t frame[WIRE_FRAME_MAX];
	ssize_t n = recv(relay->admin.fd, frame, sizeof(frame), MSG_DONTWAIT);

	if (n < 0)
		return errno != EINTR && errno != EAGAIN;
	if (n == 0) {
		fputs("mete --relay: meted has ended\n", stderr);
		return 1;
	}
	return put(frame, (size_t)n);
}

static void pass(struct relay *relay)
{
	struct pollfd from[] = {{.fd = STDIN_FILENO, .events = POLLIN},
				{.fd = relay->admin.fd, .events = POLLIN}};
	int over = 0;

	while (!over) {
		if (poll(from, ARRAY_SIZE(from), -1) < 0) {
			over = errno != EINTR;
			continue;
		}
		if (from[0].revents)
			over = take_in(relay);
		if (!over && from[1].revents)
			over = take_out(relay);
	}
}

int cli_relay(void)
{
	struct relay relay = {.admin = {.fd = -1}};
	char place[PLACE_MAX];
	struct fault why;
	int r = admin_connect_any(&relay.admin, place, &why);

	if (r == ADMIN_ABSENT)
		r = fault_set(&why, -ESRCH, "no meted is running");
	if (r < 0) {
		fprintf(stderr, "mete --relay: %s\n", why.text);
		return 1;
	}
	pass(&relay);
	admin_close(&relay.admin);
	relay_boards_done(&relay.boards);
	return 0;
}
