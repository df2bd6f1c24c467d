/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects the bytes that the API server sends, as a whole (an answer) or split into lines (a
 * watch: each line is an event). Bounded. Independent of sockets and JSON. All zero except `most`:
 * empty.
 */
#pragma once

#include <stddef.h>

#include "base/macros.h"

struct api_stream {
	char *data;
	size_t begin, end; /* what has not been taken yet */
	size_t looked;	   /* from `begin`: known to contain no line end */
	size_t room;
	size_t most;  /* of a line, or of a whole answer */
	size_t ahead; /* lines: this much may wait besides the incomplete one */
};

enum {
	API_STREAM_LINE = 1,
};

/* -EFBIG, -ENOMEM: nothing was added. */
must_check int api_stream_add(struct api_stream *stream, const void *bytes, size_t size);

/* Everything so far, followed by a NUL. NULL if there was never anything. */
const char *api_stream_all(const struct api_stream *stream, size_t *ret_size);

/* API_STREAM_LINE: the next line without its end, valid until the next call; empty lines are left
 * out. 0: none is complete. -EFBIG: it is longer than `most`. */
must_check int api_stream_line(struct api_stream *stream, const char **ret_line, size_t *ret_size);

/* Discards the content; large memory is returned. */
void api_stream_clear(struct api_stream *stream);
