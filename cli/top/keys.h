/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys of `mete top`: cli/top/keys.def.
 */
#pragma once

#include <stddef.h>

enum keys_act {
#define KEY(ACT, keys, meaning, more) KEYS_##ACT,
#include "cli/top/keys.def"
#undef KEY
	KEYS_NOTHING
};

struct keys_row {
	const char *keys; /* with blanks between them */
	const char *meaning;
	const char *more; /* goes on where the meaning ends, if there is room; "": nothing */
};
extern const struct keys_row keys[];
extern const size_t keys_count;

/* What a key does, by its name as keys.def has it ("q", "PageUp"). */
enum keys_act keys_act(const char *name);
