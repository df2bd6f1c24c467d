/* SPDX-License-Identifier: Apache-2.0 */
/* The first two bytes say how much should come out; the rest is a block. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/lz4.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t out_bytes;
	uint8_t *out, *again;
	bool good;

	if (size < 2)
		return 0;
	out_bytes = data[0] | (size_t)data[1] << 8;
	out = calloc(1, out_bytes + 1);
	again = calloc(1, out_bytes + 1);
	if (!out || !again)
		abort();
	out[out_bytes] = again[out_bytes] = 0x5a;
	good = lz4_unpack(data + 2, size - 2, out, out_bytes);
	if (lz4_unpack(data + 2, size - 2, again, out_bytes) != good)
		abort();
	/* The same bytes every time, and none behind the end; no byte more would have fitted. */
	if (out[out_bytes] != 0x5a || (good && memcmp(out, again, out_bytes) != 0))
		abort();
	if (good && lz4_unpack(data + 2, size - 2, again, out_bytes + 1))
		abort();
	free(out);
	free(again);
	return 0;
}
