/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PTX text as tokens. Any bytes are legal input; what is no token comes back as LEX_BAD.
 * Tokens point into the text.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum lex_kind {
	LEX_END,
	LEX_NAME, /* add, $L1, %r3 */
	LEX_DOT,  /* .u32, .shared::cta, .L2::128B: a word with its dot; a bare dot has length 1 */
	LEX_INTEGER, /* value */
	LEX_FLOAT,   /* bits, with width 32 or 64 */
	LEX_STRING,  /* without its quotes */
	LEX_SIGN,    /* one character, or << >> && || == != <= >= */
	LEX_BAD,
};

struct lex_token {
	enum lex_kind kind;
	const char *text;
	uint32_t length;
	uint32_t line;
	uint64_t value; /* of an integer, or the bits of a float */
	uint8_t width;	/* of a float; 0: decimal (bits are a double's) */
};

struct lex {
	const char *at, *end;
	uint32_t line;
	const char *word_end; /* of the last name or dotted word: .2d after it is one, too */
};

struct lex_token lex_next(struct lex *lex);
void lex_skip_line(struct lex *lex); /* for .loc and .file, which end with their line */

static inline bool lex_is(const struct lex_token *token, const char *text)
{
	uint32_t i = 0;

	for (; i < token->length; i++)
		if (text[i] != token->text[i] || !text[i])
			return false;
	return text[i] == '\0' && token->length > 0;
}
