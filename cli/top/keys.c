/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/keys.h"

#include <string.h>

#include "base/macros.h"

const struct keys_row keys[] = {
#define KEY(ACT, keys, meaning, more) {keys, meaning, more},
#include "cli/top/keys.def"
#undef KEY
};
const size_t keys_count = ARRAY_SIZE(keys);

enum keys_act keys_act(const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < keys_count; i++) {
		const char *at = keys[i].keys;

		for (; *at; at += strcspn(at, " "), at += strspn(at, " "))
			if (strcspn(at, " ") == n && strncmp(at, name, n) == 0)
				return (enum keys_act)i;
	}
	return KEYS_NOTHING;
}
