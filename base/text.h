/* SPDX-License-Identifier: Apache-2.0 */
/* Formats numbers and names so that people, terminals and parsers can read them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "512MiB", "3.9GiB", "17B": the largest unit that leaves a number of at least 1. */
struct text_bytes {
	char text[32];
};
struct text_bytes text_bytes(uint64_t bytes);

/* For a sentence that compares it with `other`: as many digits as show the difference. */
struct text_bytes text_bytes_beside(uint64_t bytes, uint64_t other);

/*
 * Makes a text that a program or a person chose (a program's or tenant's name, a value in a
 * refusal) safe to display: afterwards it is valid UTF-8 without control characters, line ends or
 * bidirectional marks. '?' replaces each such character and each invalid byte. Works in place; the
 * text never grows, and a safe text stays as it is. Used wherever a text comes in from outside or
 * is shown to people.
 */
void text_make_plain(char *text);

/* The value of a hexadecimal digit in either case; -1: it is not one. */
static inline int text_hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* For figures that one sentence compares: "300KiB", "512MiB", "1.73GiB"; whole below a GiB. With
 * rounding up, "in use" and "requested" never add up to less than they are. With rounding down,
 * a limit is never shown as more than it is. */
enum text_rounding { TEXT_DOWN, TEXT_UP };
struct text_bytes text_size(uint64_t bytes, enum text_rounding rounding);

/* Whether `name` is a device's UUID ("GPU-...", "MIG-...") or a prefix of it with at least one
 * digit, in either case. "GPU-" may be omitted if at least four digits are given. */
bool text_uuid_begins(const char *uuid, const char *name);

/* The bytes of a mark of the byte order at the beginning of a text in UTF-8: some editors write
 * one. libyaml takes it for a column, so that the first key of a map is indented. */
size_t text_mark(const char *text, size_t size);

bool text_begins(const char *text, const char *with);

/* Both are the same text, or both are NULL. */
bool text_same(const char *a, const char *b);

/* How many of its bytes, at most `most`, can be shown without cutting a character in two. */
size_t text_fit(const char *text, size_t most);
