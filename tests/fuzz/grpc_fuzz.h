/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection whose other end sends the fuzzer's bytes: its first byte says in which pieces, the
 * rest is sent. What comes back must be whole frames of HTTP/2.
 */
#pragma once

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "kube/grpc_ask.h"
#include "kube/grpc_serve.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int condition)
{
	if (!condition)
		abort();
}

static void go_round(struct loop *loop, int times)
{
	for (int i = 0; i < times; i++)
		uv_run(&loop->uv, UV_RUN_NOWAIT);
}

struct fuzz_wire {
	struct loop *loop;
	int fd;
	size_t skip; /* of what comes: the preface */
	uint8_t header[9];
	size_t headed, payload; /* of the frame that is coming */
	int over;
};

/* The answer is frames of at most the size that we allowed (16 KiB by default). */
static void check_frames(struct fuzz_wire *wire, const uint8_t *at, size_t n)
{
	while (n > 0) {
		size_t part;

		if (wire->skip > 0) {
			part = n < wire->skip ? n : wire->skip;
			wire->skip -= part;
		} else if (wire->payload > 0) {
			part = n < wire->payload ? n : wire->payload;
			wire->payload -= part;
		} else {
			wire->header[wire->headed++] = *at;
			part = 1;
			if (wire->headed == 9) {
				wire->payload = (size_t)wire->header[0] << 16 |
						(size_t)wire->header[1] << 8 | wire->header[2];
				must(wire->payload <= 16384 && wire->header[3] <= 9);
				wire->headed = 0;
			}
		}
		at += part;
		n -= part;
	}
}

static void fuzz_look(struct fuzz_wire *wire)
{
	uint8_t buffer[16384];
	ssize_t n;

	while ((n = recv(wire->fd, buffer, sizeof(buffer), MSG_DONTWAIT)) > 0)
		check_frames(wire, buffer, (size_t)n);
	wire->over |= n == 0;
}

/* Sends it all, and hangs up. */
static void fuzz_say(struct fuzz_wire *wire, const uint8_t *data, size_t size)
{
	uint32_t pieces = size ? *data++ : 0;
	int quiet = 0;

	size -= size > 0;
	for (size_t piece; size > 0 && !wire->over && quiet < 4;) {
		ssize_t n;

		piece = pieces ? 1 + (pieces = pieces * 1103515245 + 12345) / 65536 % 64 : size;
		n = send(wire->fd, data, piece < size ? piece : size, MSG_DONTWAIT | MSG_NOSIGNAL);
		quiet = n > 0 ? 0 : quiet + 1;
		data += n > 0 ? n : 0;
		size -= n > 0 ? (size_t)n : 0;
		go_round(wire->loop, 1);
		fuzz_look(wire);
	}
	go_round(wire->loop, 2);
	fuzz_look(wire);
	close(wire->fd);
	go_round(wire->loop, 3);
}

static int fuzz_pair(struct fuzz_wire *wire, struct loop *loop, size_t skip)
{
	int pair[2];

	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
	*wire = (struct fuzz_wire){.loop = loop, .fd = pair[1], .skip = skip};
	return pair[0];
}
