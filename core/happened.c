/* SPDX-License-Identifier: Apache-2.0 */
#include "core/happened.h"

const char *happened_word(uint32_t kind)
{
	static const char *const words[] = {
#define HAPPENED(NAME, word, meaning) [HAPPENED_##NAME] = word,
#include "core/happened.def"
#undef HAPPENED
	};

	return words[kind < HAPPENED_KINDS ? kind : HAPPENED_OTHER];
}
