/* SPDX-License-Identifier: Apache-2.0 */
#include "device.h"

#define TILE 16

static SHARED float tile_a[TILE][TILE], tile_b[TILE][TILE];

/* c = a . b for square matrices whose size is a multiple of 16: blocks of 16 x 16 threads. */
KERNEL matmul(const float *a, const float *b, float *c, unsigned n)
{
	unsigned x = thread_index(), y = thread_row();
	unsigned column = block_index() * TILE + x, row = block_row() * TILE + y;
	float sum = 0;

	for (unsigned tile = 0; tile < n / TILE; tile++) {
		tile_a[y][x] = a[row * n + tile * TILE + x];
		tile_b[y][x] = b[(tile * TILE + y) * n + column];
		barrier();
		for (unsigned k = 0; k < TILE; k++)
			sum = __nvvm_fma_rn_f(tile_a[y][k], tile_b[k][x], sum);
		barrier();
	}
	c[row * n + column] = sum;
}
