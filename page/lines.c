/* SPDX-License-Identifier: Apache-2.0 */
#include "page/lines.h"

#include <stddef.h>
#include <string.h>

/* A line `"key":value,`, or several, where the value is an object: its end is a line of its own. */
struct entry {
	const char *key, *value; /* the key with its quotes and colon */
	size_t key_size, value_size;
};

struct reader {
	const char *start, *at;
	int depth; /* of objects within */
};

static struct reader reader_of(const char *object)
{
	const char *first = strchr(object, '\n');

	first = first ? first + 1 : "}";
	return (struct reader){.start = first, .at = first};
}

static size_t line_size(const char *line)
{
	return strcspn(line, "\n");
}

static const char *line_after(const char *line)
{
	size_t size = line_size(line);

	return line + size + (line[size] == '\n');
}

static bool opens(const char *line)
{
	size_t size = line_size(line);

	return size && line[size - 1] == '{';
}

static size_t without_comma(const char *text, size_t size)
{
	return size && text[size - 1] == ',' ? size - 1 : size;
}

/* An object begins at the end of this line: where it is over. */
static const char *end_of_object(const char *line)
{
	int depth = 0;

	do {
		if (opens(line))
			depth++;
		else if (*line == '}')
			depth--;
		if (depth > 0)
			line = line_after(line);
	} while (depth > 0 && *line);
	return line + line_size(line);
}

static bool next(struct reader *reader, struct entry *ret_entry)
{
	const char *line = reader->at, *end, *colon;

	if (*line != '"')
		return false;
	end = opens(line) ? end_of_object(line) : line + line_size(line);
	colon = strstr(line, "\":");
	if (!colon || colon > end)
		return false;
	*ret_entry = (struct entry){
		.key = line, .key_size = (size_t)(colon + 2 - line), .value = colon + 2};
	ret_entry->value_size = without_comma(colon + 2, (size_t)(end - colon - 2));
	reader->at = *end ? end + 1 : end;
	return true;
}

static bool same(const char *a, size_t a_size, const char *b, size_t b_size)
{
	return a_size == b_size && memcmp(a, b, a_size) == 0;
}

/* Usually it is the next one. */
static bool find(struct reader *reader, const struct entry *like, struct entry *ret_entry)
{
	const char *from = reader->at;

	for (int round = 0; round < 2; round++) {
		while (next(reader, ret_entry))
			if (same(ret_entry->key, ret_entry->key_size, like->key, like->key_size))
				return true;
		reader->at = reader->start;
	}
	reader->at = from;
	return false;
}

static void put(FILE *out, const char *text, size_t size)
{
	while (size) {
		const char *end = memchr(text, '\n', size);
		size_t n = end ? (size_t)(end - text) : size;

		fwrite_unlocked(text, 1, n, out);
		n += end != NULL;
		text += n;
		size -= n;
	}
}

void lines_join(FILE *out, const char *text)
{
	put(out, text, strlen(text));
}

static bool change(FILE *out, struct reader *before, struct reader *now, const char *between);

static const char *put_entry(FILE *out, const struct entry *old, const struct entry *new,
			     const char *between)
{
	fputs(between, out);
	put(out, new->key, new->key_size);
	if (!old || !opens(old->value) || !opens(new->value)) {
		put(out, new->value, new->value_size);
		return ",";
	}
	fputc('{', out);
	change(out, &(struct reader){.start = line_after(old->value), .at = line_after(old->value)},
	       &(struct reader){.start = line_after(new->value), .at = line_after(new->value)}, "");
	fputc('}', out);
	return ",";
}

static bool put_gone(FILE *out, struct reader *before, struct reader *now, const char *between)
{
	struct entry old, new;
	bool any = false;

	before->at = before->start;
	now->at = now->start;
	while (next(before, &old)) {
		if (find(now, &old, &new))
			continue;
		fputs(between, out);
		put(out, old.key, old.key_size);
		fputs("null", out);
		between = ",";
		any = true;
	}
	return any;
}

static bool change(FILE *out, struct reader *before, struct reader *now, const char *between)
{
	struct entry old, new;
	bool any = false;

	while (next(now, &new)) {
		bool had = find(before, &new, &old);

		if (had && same(old.value, old.value_size, new.value, new.value_size))
			continue;
		between = put_entry(out, had ? &old : NULL, &new, between);
		any = true;
	}
	return put_gone(out, before, now, between) || any;
}

bool lines_change(FILE *out, const char *before, const char *now)
{
	struct reader old = reader_of(before), new = reader_of(now);

	return change(out, &old, &new, ",");
}
