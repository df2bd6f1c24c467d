/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of what `mete events` tells, and their words. Pure. */
#pragma once

#include <stdint.h>

enum happened {
#define HAPPENED(NAME, word, meaning) HAPPENED_##NAME,
#include "core/happened.def"
#undef HAPPENED
	HAPPENED_KINDS
};

/* "refused"; "other" for a kind of a newer meted. */
const char *happened_word(uint32_t kind);
