/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Portions as texts: merges them, and resolves them into the resulting share. Pure; makes no
 * sentences.
 */
#pragma once

#include "plugin/config/config.h"

/* Fields by name: PORTION_memory, ... in the order of share.def. */
enum portion_field {
#define SHARE(key, kind, normally, accepted) PORTION_##key,
#include "core/share/share.def"
#undef SHARE
};

/* The field of that name, with dashes or underscores; -1: there is none. */
int portion_field(const char *name);

/* Fields of `over` replace those of `share`; a mode replaces the fields that it stands for. */
void portion_lay(struct config_share *share, const struct config_share *over);

/* An outcome of share_set(): *ret_field is not accepted together with the others. 0: *ret_share is
 * complete.
 */
must_check int portion_resolve(const struct config_share *portion, struct share *ret_share,
			       uint32_t *ret_field);

/* The same for texts whose owner frees them. */
must_check int portion_resolve_texts(char *const texts[SHARE_FIELDS], struct share *ret_share);

/* Texts of a portion that the caller owns, and frees. -ENOMEM: there are none. */
must_check int portion_texts_copy(const char *const texts[SHARE_FIELDS],
				  char *ret_texts[SHARE_FIELDS]);
/* They are NULL afterwards. */
void portion_texts_free(char *texts[SHARE_FIELDS]);

/* Its limit on such a device; all of it, where that has less. */
uint64_t portion_bytes(const struct share *share, uint64_t device_bytes);

/* The field that decides: `field` itself, or the mode if the mode sets it; -1: neither is given. */
int portion_said(const struct config_share *portion, enum portion_field field);

/* YAML tools turn a word such as "off" into "false": returns the word as share.h has it. Any other
 * text is returned as it is. */
const char *portion_word(enum portion_field field, const char *text);
