/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a tenant of a replay is written: words as FIELD=VALUE, of a share or of the replay's own, and
 * "8x" anywhere among them: eight of these.
 */
#pragma once

#include "base/fault.h"
#include "core/turns.h"

struct load_words {
	uint32_t copies_most;
	/* A field of the replay's own. 0; 1: it is none; -EINVAL. */
	int (*own)(void *load, const char *key, char *value);
	const char *accepted; /* by that: "kernel=100us, join=1s" */
};

/* -EINVAL with a sentence. `ret_count`: 1 where it is not said. */
must_check int load_words_parse(const char *text, const struct load_words *words, void *load,
				struct turns_share *ret_share, uint32_t *ret_count,
				struct fault *why);
/* A whole number from 1. */
must_check int load_words_count(const char *text, uint32_t highest, uint32_t *ret);
