/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers of all replays. Their state is the caller's: the same seed gives the same ones. */
#pragma once

#include <stddef.h>
#include <stdint.h>

uint64_t draw(uint64_t *state);
/* Uniform in [0, bound). */
size_t draw_below(uint64_t *state, size_t bound);
/* In [0, 1). */
double draw_part(uint64_t *state);
/* Shuffles 0 .. size - 1. */
void draw_shuffle(size_t *items, size_t size, uint64_t *state);
