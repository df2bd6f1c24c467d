/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/api_stream.h"

#include <string.h>

enum { KEPT_ROOM = 256 << 10 }; /* that an empty stream may keep */

static void move_to_front(struct api_stream *stream)
{
	if (!stream->begin)
		return;
	memmove(stream->data, stream->data + stream->begin, stream->end - stream->begin);
	stream->end -= stream->begin;
	stream->begin = 0;
}

static int grow(struct api_stream *stream, size_t wanted)
{
	size_t room = stream->room ? stream->room : 4096;
	char *grown;

	while (room < wanted)
		room *= 2;
	grown = realloc(stream->data, room);
	if (!grown)
		return -ENOMEM;
	stream->data = grown;
	stream->room = room;
	return 0;
}

int api_stream_add(struct api_stream *stream, const void *bytes, size_t size)
{
	size_t held = stream->end - stream->begin, bound = stream->most + stream->ahead;
	int r = 0;

	/* Compared on the side that cannot overflow; one byte is for the NUL. */
	if (size > bound || held > bound - size)
		return -EFBIG;
	if (!size)
		return 0;
	if (stream->room - stream->end <= size || !stream->room)
		move_to_front(stream);
	if (stream->room - stream->end <= size || !stream->room)
		r = grow(stream, stream->end + size + 1);
	if (r < 0)
		return r;
	memcpy(stream->data + stream->end, bytes, size);
	stream->end += size;
	stream->data[stream->end] = 0;
	return 0;
}

const char *api_stream_all(const struct api_stream *stream, size_t *ret_size)
{
	*ret_size = stream->end - stream->begin;
	return stream->data ? stream->data + stream->begin : NULL;
}

int api_stream_line(struct api_stream *stream, const char **ret_line, size_t *ret_size)
{
	while (stream->begin < stream->end) {
		char *line = stream->data + stream->begin;
		size_t held = stream->end - stream->begin;
		/* Data is scanned only once: a large event arrives in thousands of pieces. */
		char *ends = memchr(line + stream->looked, '\n', held - stream->looked);
		size_t size = ends ? (size_t)(ends - line) : held;

		if (size > stream->most)
			return -EFBIG;
		if (!ends) {
			stream->looked = held;
			return 0;
		}
		stream->looked = 0;
		stream->begin += size + 1;
		if (size && line[size - 1] == '\r')
			size--;
		if (!size)
			continue;
		line[size] = 0;
		*ret_line = line;
		*ret_size = size;
		return API_STREAM_LINE;
	}
	if (stream->data)
		api_stream_clear(stream);
	return 0;
}

void api_stream_clear(struct api_stream *stream)
{
	if (stream->room > KEPT_ROOM) {
		free(stream->data);
		stream->data = NULL;
		stream->room = 0;
	}
	stream->begin = stream->end = stream->looked = 0;
}
