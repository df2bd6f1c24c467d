/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/ptx/lex.h"

#include <stdlib.h>
#include <string.h>

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_word(char c)
{
	return is_letter(c) || is_digit(c) || c == '_' || c == '$';
}

static int hex_value(char c)
{
	if (is_digit(c))
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return 99;
}

static char peek(const struct lex *lex, size_t ahead)
{
	return (size_t)(lex->end - lex->at) > ahead ? lex->at[ahead] : '\0';
}

void lex_skip_line(struct lex *lex)
{
	while (lex->at < lex->end && *lex->at != '\n')
		lex->at++;
}

static void skip_block_comment(struct lex *lex)
{
	lex->at += 2;
	while (lex->at < lex->end) {
		if (*lex->at == '*' && peek(lex, 1) == '/') {
			lex->at += 2;
			return;
		}
		if (*lex->at++ == '\n')
			lex->line++;
	}
}

static void skip_blank(struct lex *lex)
{
	while (lex->at < lex->end) {
		char c = *lex->at;

		if (c == '\n') {
			lex->line++;
			lex->at++;
		} else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
			lex->at++;
		} else if (c == '/' && peek(lex, 1) == '/') {
			lex_skip_line(lex);
		} else if (c == '/' && peek(lex, 1) == '*') {
			skip_block_comment(lex);
		} else if (c == '@' && peek(lex, 1) == '@') {
			lex_skip_line(lex); /* @@DWARF lines of old compilers */
		} else {
			return;
		}
	}
}

/* 0f3F800000 and 0d3FF0000000000000: the bits, in hexadecimal. */
static bool hex_float(struct lex *lex, struct lex_token *t)
{
	unsigned digits = (peek(lex, 1) | 32) == 'f' ? 8 : 16;
	uint64_t bits = 0;

	for (unsigned i = 0; i < digits; i++) {
		int v = hex_value(peek(lex, 2 + i));

		if (v > 15)
			return false;
		bits = bits << 4 | (uint64_t)v;
	}
	if (is_word(peek(lex, 2 + digits)))
		return false;
	lex->at += 2 + digits;
	t->kind = LEX_FLOAT;
	t->value = bits;
	t->width = digits == 8 ? 32 : 64;
	return true;
}

static bool decimal_float(struct lex *lex, struct lex_token *t)
{
	char text[64];
	size_t n = 0;
	double value;
	bool dot = false, exponent = false;

	for (; n < sizeof(text) - 1; n++) {
		char c = peek(lex, n);

		if (c == '.' && !dot && !exponent)
			dot = true;
		else if ((c | 32) == 'e' && !exponent && n)
			exponent = true;
		else if ((c == '-' || c == '+') && n && (text[n - 1] | 32) == 'e')
			;
		else if (!is_digit(c))
			break;
		text[n] = c;
	}
	if (!dot && !exponent)
		return false;
	text[n] = '\0';
	value = strtod(text, NULL);
	memcpy(&t->value, &value, sizeof(value));
	t->kind = LEX_FLOAT;
	t->width = 0;
	lex->at += n;
	return !is_word(peek(lex, 0));
}

static bool integer(struct lex *lex, struct lex_token *t)
{
	int base = 10;
	char second = (char)(peek(lex, 1) | 32);
	const char *first;

	if (peek(lex, 0) == '0' && (second == 'x' || second == 'b')) {
		base = second == 'x' ? 16 : 2;
		lex->at += 2;
	} else if (peek(lex, 0) == '0') {
		base = 8;
	}
	first = lex->at;
	while (hex_value(peek(lex, 0)) < base) {
		if (__builtin_mul_overflow(t->value, (uint64_t)base, &t->value) ||
		    __builtin_add_overflow(t->value, (uint64_t)hex_value(*lex->at), &t->value))
			return false;
		lex->at++;
	}
	if (lex->at == first)
		return false;
	if (peek(lex, 0) == 'U')
		lex->at++;
	t->kind = LEX_INTEGER;
	return !is_word(peek(lex, 0));
}

static bool number(struct lex *lex, struct lex_token *t)
{
	char second = (char)(peek(lex, 1) | 32);
	size_t digits = 0;

	if (peek(lex, 0) == '0' && (second == 'f' || second == 'd'))
		return hex_float(lex, t);
	while (is_digit(peek(lex, digits)))
		digits++;
	if (peek(lex, digits) == '.' || (peek(lex, digits) | 32) == 'e')
		return decimal_float(lex, t);
	return integer(lex, t);
}

/* Words after a dot may be joined by "::" (.shared::cta). */
static void dot_word(struct lex *lex)
{
	lex->at++;
	while (is_word(peek(lex, 0)) ||
	       (peek(lex, 0) == ':' && peek(lex, 1) == ':' && is_word(peek(lex, 2))))
		lex->at += *lex->at == ':' ? 2 : 1;
}

static bool string(struct lex *lex, struct lex_token *t)
{
	const char *first = ++lex->at;

	while (lex->at < lex->end && *lex->at != '"') {
		if (*lex->at == '\n')
			return false;
		lex->at++;
	}
	if (lex->at == lex->end)
		return false;
	t->kind = LEX_STRING;
	t->text = first;
	t->length = (uint32_t)(lex->at - first);
	lex->at++;
	return true;
}

static void sign(struct lex *lex)
{
	static const char pairs[][3] = {"<<", ">>", "&&", "||", "==", "!=", "<=", ">="};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		if (peek(lex, 0) == pairs[i][0] && peek(lex, 1) == pairs[i][1]) {
			lex->at += 2;
			return;
		}
	}
	lex->at++;
}

static bool begins_number(const struct lex *lex, char c)
{
	return is_digit(c) || (c == '.' && is_digit(peek(lex, 1)) && lex->at != lex->word_end);
}

/* Moves on behind the token that begins with c. */
static bool scan(struct lex *lex, struct lex_token *t, char c)
{
	if (begins_number(lex, c))
		return number(lex, t);
	if (is_word(c) || (c == '%' && is_word(peek(lex, 1)))) {
		t->kind = LEX_NAME;
		lex->at++;
		while (is_word(peek(lex, 0)))
			lex->at++;
	} else if (c == '.') {
		t->kind = LEX_DOT;
		dot_word(lex);
	} else if (c && strchr("+-*/%<>&|^~!?:;,()[]{}=@", c)) {
		t->kind = LEX_SIGN;
		sign(lex);
	} else {
		lex->at++;
		return false;
	}
	return true;
}

struct lex_token lex_next(struct lex *lex)
{
	struct lex_token t = {0};
	char c;
	bool good;

	skip_blank(lex);
	t.line = lex->line;
	t.text = lex->at;
	if (lex->at == lex->end) {
		t.kind = LEX_END;
		return t;
	}
	c = *lex->at;
	good = c == '"' ? string(lex, &t) : scan(lex, &t, c);
	if (good && c == '"')
		return t; /* its text and length are without the quotes */
	if (!good)
		t.kind = LEX_BAD;
	t.length = (uint32_t)(lex->at - t.text);
	if (t.kind == LEX_NAME || t.kind == LEX_DOT)
		lex->word_end = lex->at;
	return t;
}
