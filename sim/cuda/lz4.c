/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/lz4.h"

#include <stdint.h>
#include <string.h>

struct lz4 {
	const uint8_t *in, *in_end;
	uint8_t *out, *out_start, *out_end;
};

/* A length whose nibble was full goes on in bytes. False at the end of the input. */
static bool lz4_length(struct lz4 *lz4, size_t *length)
{
	uint8_t byte;

	if (*length != 15)
		return true;
	do {
		if (lz4->in == lz4->in_end)
			return false;
		byte = *lz4->in++;
		*length += byte;
	} while (byte == 255);
	return true;
}

static bool lz4_literals(struct lz4 *lz4, size_t n)
{
	if (n > (size_t)(lz4->in_end - lz4->in) || n > (size_t)(lz4->out_end - lz4->out))
		return false;
	memcpy(lz4->out, lz4->in, n);
	lz4->in += n;
	lz4->out += n;
	return true;
}

static bool lz4_match(struct lz4 *lz4, size_t n)
{
	size_t distance;

	if (lz4->in_end - lz4->in < 2)
		return false;
	distance = lz4->in[0] | (size_t)lz4->in[1] << 8;
	lz4->in += 2;
	if (!lz4_length(lz4, &n))
		return false;
	n += 4;
	if (!distance || distance > (size_t)(lz4->out - lz4->out_start) ||
	    n > (size_t)(lz4->out_end - lz4->out))
		return false;
	for (; n; n--, lz4->out++)
		*lz4->out = *(lz4->out - distance);
	return true;
}

bool lz4_unpack(const void *in, size_t in_bytes, void *out, size_t out_bytes)
{
	struct lz4 lz4 = {in, (const uint8_t *)in + in_bytes, out, out, (uint8_t *)out + out_bytes};

	while (lz4.in < lz4.in_end) {
		uint8_t token = *lz4.in++;
		size_t literals = token >> 4;

		if (!lz4_length(&lz4, &literals) || !lz4_literals(&lz4, literals))
			return false;
		if (lz4.in == lz4.in_end)
			break;
		if (!lz4_match(&lz4, token & 15))
			return false;
	}
	return lz4.out == lz4.out_end;
}
