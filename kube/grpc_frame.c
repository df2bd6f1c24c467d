/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/grpc_frame.h"

#include <string.h>

enum { FIRST_ROOM = 256 };

static size_t wanted(const struct grpc_frame *frame)
{
	const uint8_t *at = frame->header + 1;

	return (size_t)at[0] << 24 | (size_t)at[1] << 16 | (size_t)at[2] << 8 | at[3];
}

static int judge_header(const struct grpc_frame *frame, size_t most)
{
	if (frame->header[0] == 1)
		return GRPC_FRAME_COMPRESSED;
	if (frame->header[0] != 0)
		return GRPC_FRAME_BAD;
	return wanted(frame) > most ? GRPC_FRAME_LARGE : 0;
}

/* Grows with the received data, not with the announced length, because a thousand calls
 * may announce 4 MiB each. */
static int make_room(struct grpc_frame *frame, size_t more)
{
	size_t needed = frame->have + more, room = frame->room ? frame->room : FIRST_ROOM;
	uint8_t *bytes;

	if (needed <= frame->room)
		return 0;
	while (room < needed)
		room *= 2;
	if (room > wanted(frame))
		room = wanted(frame);
	bytes = realloc(frame->bytes, room);
	if (!bytes)
		return -ENOMEM;
	frame->bytes = bytes;
	frame->room = room;
	return 0;
}

int grpc_frame_take(struct grpc_frame *frame, struct grpc_bytes in, size_t most)
{
	while (in.size && frame->headed < GRPC_FRAME_HEADER) {
		int r;

		frame->header[frame->headed++] = *in.data++;
		in.size--;
		r = frame->headed == GRPC_FRAME_HEADER ? judge_header(frame, most) : 0;
		if (r != 0)
			return r;
	}
	if (!in.size)
		return 0;
	if (in.size > wanted(frame) - frame->have)
		return GRPC_FRAME_SECOND;
	if (make_room(frame, in.size) < 0)
		return -ENOMEM;
	memcpy(frame->bytes + frame->have, in.data, in.size);
	frame->have += in.size;
	return 0;
}

bool grpc_frame_is_empty(const struct grpc_frame *frame)
{
	return frame->headed == 0;
}

bool grpc_frame_is_whole(const struct grpc_frame *frame)
{
	return frame->headed == GRPC_FRAME_HEADER && frame->have == wanted(frame);
}

struct grpc_bytes grpc_frame_message(const struct grpc_frame *frame)
{
	return (struct grpc_bytes){frame->bytes, frame->have};
}

void grpc_frame_done(struct grpc_frame *frame)
{
	free(frame->bytes);
	*frame = (struct grpc_frame){.headed = 0};
}

void grpc_frame_write(uint8_t header[GRPC_FRAME_HEADER], uint32_t size)
{
	header[0] = 0;
	for (int i = 0; i < 4; i++)
		header[1 + i] = (uint8_t)(size >> (24 - 8 * i));
}
