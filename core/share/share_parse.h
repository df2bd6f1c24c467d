/* SPDX-License-Identifier: Apache-2.0 */
/* Reads amounts, times and parts of a whole; for core/share/share*.c only. */
#pragma once

#include <stdint.h>

#define SHARE_FRACTION_ONE 1000000000ull

/* An exact decimal number: whole + fraction / SHARE_FRACTION_ONE. */
struct share_number {
	uint64_t whole, fraction;
};

/* Sets *at behind the number. SHARE_EMPTY, SHARE_NEGATIVE, SHARE_NONSENSE, SHARE_LARGE. */
int share_read_number(const char **at, struct share_number *ret);
