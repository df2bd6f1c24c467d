/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/draw.h"

/* splitmix64: its first numbers after a seed are as good as its later ones. */
uint64_t draw(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

size_t draw_below(uint64_t *state, size_t bound)
{
	return (size_t)((unsigned __int128)draw(state) * bound >> 64);
}

double draw_part(uint64_t *state)
{
	return (double)(draw(state) >> 11) * 0x1p-53;
}

void draw_shuffle(size_t *items, size_t size, uint64_t *state)
{
	for (size_t i = 0; i < size; i++)
		items[i] = i;
	for (size_t i = size; i > 1; i--) {
		size_t j = draw_below(state, i), item = items[i - 1];

		items[i - 1] = items[j];
		items[j] = item;
	}
}
