/* SPDX-License-Identifier: Apache-2.0 */
/* A request by annotations while it is evaluated; of config/annotations.c and asking.c only. */
#pragma once

#include "plugin/config/annotations.h"
#include "plugin/config/portion.h"

/* The subject of an annotation: a field of a share, or one of these. */
enum word {
	WORD_FIRST = SHARE_FIELDS - 1,
#define WORD(name, accepted) WORD_##name,
#include "plugin/config/annotations.def"
#undef WORD
	WORDS_END,
};

struct asking {
	const struct annotations_input *input;
	struct fault *why;
	const struct annotation *said[WORDS_END]; /* by subject */
	bool own[WORDS_END];			  /* said for this container alone */
	struct share portion, most, share;
	struct config_share texts;
	const struct annotation *by[SHARE_FIELDS]; /* a field's source; NULL: the portion */
	struct annotations_share *made;
};

/* "KEY: ..."; -EINVAL. */
int asking_wrong(const struct asking *a, const struct annotation *entry, const char *format, ...)
	printf_like(3, 4);

/* Like share_set(), but a guarantee above the cap is not refused yet, because one of them may be
 * lowered. */
must_check int asking_set(struct share *share, uint32_t field, const char *text);

struct asking_limit {
	bool none;
	uint64_t rank;	  /* the limit of the field, in amount or laxness */
	const char *text; /* of the setting that it comes from */
	bool left;	  /* others have reserved the rest */
};

struct asking_limit asking_limit(const struct asking *a, enum portion_field field);

/* At most 1/n with n tenants, with its guarantee and cap. */
void asking_make_equal(struct asking *a);

/* Refuses, or lowers, requests beyond the limits. */
must_check int asking_check(struct asking *a);
