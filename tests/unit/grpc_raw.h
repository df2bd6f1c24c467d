/* SPDX-License-Identifier: Apache-2.0 */
/* The other end of a connection, frame by frame and without a library: it sends frames that no
 * decent peer sends. */
#pragma once

#include "tests/unit/grpc_fixture.h"

enum {
	DATA,
	HEADERS,
	PRIORITY,
	RST_STREAM,
	SETTINGS,
	PUSH_PROMISE,
	PING,
	GOAWAY,
	WINDOW_UPDATE,
	CONTINUATION
};
enum { END_STREAM = 1, ACK = 1, END_HEADERS = 4 };

/* The bytes to be sent, and those that came. */
static struct {
	int fd;
	uint8_t out[1 << 20], in[1 << 20];
	size_t out_size, in_size;
	bool over;
} raw;

static void put(const void *bytes, size_t size)
{
	expect(size <= sizeof(raw.out) - raw.out_size);
	if (size)
		memcpy(raw.out + raw.out_size, bytes, size);
	raw.out_size += size;
}

static void put_frame(unsigned type, unsigned flags, uint32_t stream, const void *payload,
		      size_t size)
{
	uint8_t header[9] = {
		(uint8_t)(size >> 16),	 (uint8_t)(size >> 8),	 (uint8_t)size,
		(uint8_t)type,		 (uint8_t)flags,	 (uint8_t)(stream >> 24),
		(uint8_t)(stream >> 16), (uint8_t)(stream >> 8), (uint8_t)stream};

	put(header, sizeof(header));
	put(payload, size);
}

/* A field as it is, with its name: HPACK without indexing or Huffman. */
static size_t field(uint8_t *at, const char *name, const char *value)
{
	size_t name_size = strlen(name), value_size = strlen(value);

	expect(name_size < 127 && value_size < 127);
	at[0] = 0;
	at[1] = (uint8_t)name_size;
	memcpy(at + 2, name, name_size);
	at[2 + name_size] = (uint8_t)value_size;
	memcpy(at + 3 + name_size, value, value_size);
	return 3 + name_size + value_size;
}

static unused void put_request_header(uint32_t stream, const char *path, const char *name,
				      const char *value, unsigned flags)
{
	uint8_t block[1024];
	size_t size = 0;

	size += field(block + size, ":method", "POST");
	size += field(block + size, ":path", path);
	size += field(block + size, "content-type", "application/grpc");
	if (name)
		size += field(block + size, name, value);
	put_frame(HEADERS, flags, stream, block, size);
}

static unused void put_message(uint32_t stream, const char *text, unsigned flags)
{
	uint8_t message[256] = {0, 0, 0, 0, (uint8_t)strlen(text)};

	expect(strlen(text) < 250);
	memcpy(message + 5, text, strlen(text));
	put_frame(DATA, flags, stream, message, 5 + strlen(text));
}

static unused void put_request(uint32_t stream, const char *path, const char *text)
{
	put_request_header(stream, path, NULL, NULL, END_HEADERS);
	put_message(stream, text, END_STREAM);
}

static void look(void)
{
	ssize_t n;

	while (raw.in_size < sizeof(raw.in) &&
	       (n = recv(raw.fd, raw.in + raw.in_size, sizeof(raw.in) - raw.in_size,
			 MSG_DONTWAIT)) != 0) {
		if (n < 0) {
			raw.over |= errno != EAGAIN;
			return;
		}
		raw.in_size += (size_t)n;
	}
	raw.over |= raw.in_size < sizeof(raw.in);
}

/* Sends the frames that were put, and reads those that come back, until both are at rest. */
static unused void say(void)
{
	size_t sent = 0, before;

	do {
		ssize_t n = send(raw.fd, raw.out + sent, raw.out_size - sent,
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		before = sent + raw.in_size;
		sent += n > 0 ? (size_t)n : 0;
		settle();
		look();
	} while (before != sent + raw.in_size && !raw.over);
	raw.out_size = 0;
}

/* The frames that came, one by one. NULL: no more. */
static unused const uint8_t *next_frame(size_t *at)
{
	const uint8_t *frame;
	size_t size;

	if (*at == 0 && raw.in_size >= 24 && memcmp(raw.in, "PRI * HTTP", 10) == 0)
		*at = 24;
	frame = raw.in + *at;
	if (raw.in_size - *at < 9)
		return NULL;
	size = (size_t)frame[0] << 16 | (size_t)frame[1] << 8 | frame[2];
	expect(size <= 16384 && raw.in_size - *at >= 9 + size);
	*at += 9 + size;
	return frame;
}

static unused unsigned count_frames(unsigned type, uint32_t stream)
{
	const uint8_t *frame;
	unsigned count = 0;
	size_t at = 0;

	while ((frame = next_frame(&at)))
		count += frame[3] == type && (frame[7] << 8 | frame[8]) == (int)stream;
	return count;
}

/* Of the last frame of the type: the four bytes at `offset` of its payload. -1: none came. */
static unused int64_t last_number(unsigned type, size_t offset)
{
	const uint8_t *frame;
	int64_t number = -1;
	size_t at = 0;

	while ((frame = next_frame(&at)))
		if (frame[3] == type)
			number = (int64_t)frame[9 + offset] << 24 | frame[10 + offset] << 16 |
				 frame[11 + offset] << 8 | frame[12 + offset];
	return number;
}

/* Whether the text is among what came; our own server's fields are short enough to come plain or
 * Huffman coded, so that only DATA can be searched for. */
static unused bool came(const char *text)
{
	return memmem(raw.in, raw.in_size, text, strlen(text)) != NULL;
}

static unused int make_pair(void)
{
	int pair[2];

	memset(&raw, 0, sizeof(raw));
	expect_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
	raw.fd = pair[1];
	return pair[0];
}

static unused void given_a_raw_client(void)
{
	given_a_server();
	expect_eq(grpc_server_take(t.server, make_pair()), 0);
	put("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
	put_frame(SETTINGS, 0, 0, NULL, 0);
}

static unused void given_a_raw_server(void)
{
	given_nothing();
	given_a_client();
	expect_eq(grpc_client_take(t.client, make_pair()), 0);
	put_frame(SETTINGS, 0, 0, NULL, 0);
}

static unused void then_raw_ends(void)
{
	close(raw.fd);
	then_all_ends();
}
