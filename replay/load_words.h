/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses a tenant of a replay: words of the form FIELD=VALUE, of a share or of the replay itself. A
 * word like "8x" anywhere among them means eight such tenants.
 */
#pragma once

#include "base/fault.h"
#include "core/turns/turns.h"

struct load_words {
	uint32_t copies_most;
	/* Sets a field of the replay's own. 1: there is no such field; -EINVAL. */
	int (*own)(void *load, const char *key, char *value);
	const char *accepted; /* what `own` accepts: "kernel=100us, join=1s" */
};

/* -EINVAL with a sentence. *ret_count is 1 if the text does not say how many. */
must_check int load_words_parse(const char *text, const struct load_words *words, void *load,
				struct turns_share *ret_share, uint32_t *ret_count,
				struct fault *why);
/* Reads a whole number from 1 to `highest`. */
must_check int load_words_count(const char *text, uint32_t highest, uint32_t *ret);
