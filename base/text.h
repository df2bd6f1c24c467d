/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as people read them. */
#pragma once

#include <stdint.h>

/* "512MiB", "3.9GiB", "17B": the largest unit that leaves a number of at least 1. */
struct text_bytes {
	char text[24];
};
struct text_bytes text_bytes(uint64_t bytes);
