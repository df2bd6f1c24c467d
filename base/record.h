/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A record of the journal: a word that says what it is, and fields.
 *
 *	end id=3
 *
 * Values are percent-encoded, so that a blank separates fields.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A record that is being written, or several, each with a newline. All zero: empty. The owner frees
 * `text`. failed: there was no memory for part of it. */
struct record {
	char *text;
	size_t size, room;
	bool failed;
};

void record_text(struct record *r, const char *piece); /* as it is */
void record_number(struct record *r, const char *key, uint64_t value);
void record_value(struct record *r, const char *key, const char *value);

/* Is `word` the record's first word? */
bool record_is(const char *record, const char *word);

/* The value of a field, decoded, in out[size]; false: it is not there or too long. */
bool record_get(const char *record, const char *key, char *out, size_t size);

/* 0: it is missing, or not a number. */
uint64_t record_get_number(const char *record, const char *key);
