/* SPDX-License-Identifier: Apache-2.0 */
/* The fields of a share that were set, as they were written. Most tenants set one or two: a place
 * for each would mostly be empty. */
#pragma once

#include <stdint.h>

#include "base/macros.h"

struct share_text {
	struct share_text *next; /* of a later field of share.def; owned */
	uint32_t field;
	char text[];
};

/* NULL: the default. */
const char *share_text_of(const struct share_text *texts, uint32_t field);
/* Of a field that is not there yet. -ENOMEM. */
must_check int share_text_add(struct share_text **texts, uint32_t field, const char *text);
void share_texts_free(struct share_text *texts);
