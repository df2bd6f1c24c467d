/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes gRPC's message frames: a flag, a length of four bytes, the message. Bytes in, one message
 * out: each call that we read has exactly one message. It never touches a socket, and never
 * allocates by a length before the bytes have arrived.
 */
#pragma once

#include <stdbool.h>

#include "kube/grpc.h"

enum { GRPC_FRAME_HEADER = 5 };

/* Outcomes. */
enum {
	GRPC_FRAME_LARGE = 1,  /* longer than is allowed */
	GRPC_FRAME_COMPRESSED, /* we never announced that we can decompress */
	GRPC_FRAME_SECOND,     /* there is more than one message */
	GRPC_FRAME_BAD,	       /* the flag is unknown to gRPC */
};

/* All zero: nothing has arrived yet. */
struct grpc_frame {
	uint8_t header[GRPC_FRAME_HEADER];
	uint8_t headed; /* how many bytes of it have arrived */
	uint8_t *bytes;
	size_t have, room;
};

/* Adds the next bytes. 0: fine so far. -ENOMEM. After an outcome or an error, nothing more may
 * be added. */
must_check int grpc_frame_take(struct grpc_frame *frame, struct grpc_bytes in, size_t most);

/* Whether nothing has arrived, or the whole message. If neither is true, the message is
 * incomplete. */
bool grpc_frame_is_empty(const struct grpc_frame *frame);
bool grpc_frame_is_whole(const struct grpc_frame *frame);

struct grpc_bytes grpc_frame_message(const struct grpc_frame *frame);
void grpc_frame_done(struct grpc_frame *frame);

void grpc_frame_write(uint8_t header[GRPC_FRAME_HEADER], uint32_t size);
