/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any frame: decoding never reads past the end (the input is exactly as large as it says, and a
 * sanitizer watches), and an accepted frame survives encoding and decoding unchanged.
 */
#include <stdlib.h>
#include <string.h>

#include "wire/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int condition)
{
	if (!condition)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct wire_message first, second;
	static uint8_t frame[WIRE_FRAME_MAX];
	owned(free) uint8_t *exact = malloc(size + (size == 0));
	size_t length;
	int r;

	if (!exact)
		return 0;
	memcpy(exact, data, size);
	/* Decoding leaves the rest of the union as it is. */
	memset(&first, 0, sizeof(first));
	memset(&second, 0, sizeof(second));
	r = wire_decode(exact, size, &first);
	must(r >= 0 && r <= WIRE_UNKNOWN);
	if (r == WIRE_UNKNOWN)
		must(strcmp(wire_name(first.code), "unknown") == 0 && wire_from(first.code) == 0);
	if (r != 0)
		return 0;
	length = wire_encode(&first, frame);
	must(length >= WIRE_HEADER && length <= WIRE_FRAME_MAX);
	must(wire_decode(frame, length, &second) == 0);
	must(memcmp(&first, &second, sizeof(first)) == 0);
	/* A frame that is one byte shorter is never taken for whole. */
	must(wire_decode(frame, length - 1, &second) == WIRE_SHORT);
	return 0;
}
