/* SPDX-License-Identifier: Apache-2.0 */
#include "base/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add(struct record *r, const char *piece, size_t size)
{
	if (r->failed)
		return;
	if (r->size + size + 1 > r->room) {
		size_t room = 2 * (r->size + size + 1);
		char *grown = realloc(r->text, room);

		if (!grown) {
			r->failed = true;
			return;
		}
		r->text = grown;
		r->room = room;
	}
	memcpy(r->text + r->size, piece, size);
	r->size += size;
	r->text[r->size] = 0;
}

void record_text(struct record *r, const char *piece)
{
	add(r, piece, strlen(piece));
}

void record_number(struct record *r, const char *key, uint64_t value)
{
	char piece[64];

	snprintf(piece, sizeof(piece), " %s=%llu", key, (unsigned long long)value);
	record_text(r, piece);
}

void record_value(struct record *r, const char *key, const char *value)
{
	record_text(r, " ");
	record_text(r, key);
	record_text(r, "=");
	for (; *value; value++) {
		unsigned char c = (unsigned char)*value;
		char piece[4];

		if (c > ' ' && c != '%' && c != '=' && c < 0x7f) {
			add(r, value, 1);
			continue;
		}
		snprintf(piece, sizeof(piece), "%%%02x", c);
		add(r, piece, 3);
	}
}

bool record_get(const char *record, const char *key, char *out, size_t size)
{
	size_t length = strlen(key), n = 0;
	const char *at = record;

	while ((at = strchr(at, ' '))) {
		at++;
		if (strncmp(at, key, length) == 0 && at[length] == '=')
			break;
	}
	if (!at)
		return false;
	for (at += length + 1; *at && *at != ' '; at++) {
		unsigned value = (unsigned char)*at;

		if (*at == '%') {
			if (sscanf(at + 1, "%2x", &value) != 1 || !at[1] || !at[2])
				return false;
			at += 2;
		}
		if (n + 1 >= size)
			return false;
		out[n++] = (char)value;
	}
	out[n] = 0;
	return true;
}

uint64_t record_get_number(const char *record, const char *key)
{
	char value[32];

	return record_get(record, key, value, sizeof(value)) ? strtoull(value, NULL, 10) : 0;
}

bool record_is(const char *record, const char *word)
{
	size_t length = strlen(word);

	return strncmp(record, word, length) == 0 && (record[length] == ' ' || !record[length]);
}
