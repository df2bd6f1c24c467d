/* SPDX-License-Identifier: Apache-2.0 */
#include "hook/json.h"

#include <stdbool.h>
#include <string.h>

#include "base/text.h"

struct reader {
	const char *at, *end;
};

static void skip_blank(struct reader *r)
{
	while (r->at < r->end &&
	       (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r'))
		r->at++;
}

/* The next character that is not blank, '\0' at the end. */
static char peek(struct reader *r)
{
	skip_blank(r);
	return r->at < r->end ? *r->at : '\0';
}

static bool eat(struct reader *r, char wanted)
{
	if (peek(r) != wanted)
		return false;
	r->at++;
	return true;
}

/* The four digits behind a \u. */
static int read_unit(struct reader *r, unsigned *ret_unit)
{
	unsigned unit = 0;

	if (r->end - r->at < 4)
		return -EINVAL;
	for (int i = 0; i < 4; i++) {
		int digit = text_hex(*r->at++);

		if (digit < 0)
			return -EINVAL;
		unit = unit << 4 | (unsigned)digit;
	}
	*ret_unit = unit;
	return 0;
}

/* One character by its \u escape, or by two for those beyond 16 bits. */
static int read_escaped(struct reader *r, char out[4], size_t *ret_size)
{
	unsigned point, low;

	if (read_unit(r, &point) < 0 || point == 0 || (point & 0xfc00) == 0xdc00)
		return -EINVAL;
	if ((point & 0xfc00) == 0xd800) {
		if (r->end - r->at < 2 || r->at[0] != '\\' || r->at[1] != 'u')
			return -EINVAL;
		r->at += 2;
		if (read_unit(r, &low) < 0 || (low & 0xfc00) != 0xdc00)
			return -EINVAL;
		point = 0x10000 + ((point & 0x3ff) << 10 | (low & 0x3ff));
	}
	if (point < 0x80) {
		out[0] = (char)point;
		*ret_size = 1;
		return 0;
	}
	*ret_size = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
	for (size_t i = *ret_size - 1; i > 0; i--, point >>= 6)
		out[i] = (char)(0x80 | (point & 0x3f));
	out[0] = (char)((0xf00u >> *ret_size & 0xff) | point);
	return 0;
}

static int read_escape(struct reader *r, char out[4], size_t *ret_size)
{
	static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
	const char *name;

	if (r->at == r->end)
		return -EINVAL;
	if (*r->at == 'u') {
		r->at++;
		return read_escaped(r, out, ret_size);
	}
	name = *r->at ? strchr(names, *r->at) : NULL;
	if (!name)
		return -EINVAL;
	r->at++;
	out[0] = values[name - names];
	*ret_size = 1;
	return 0;
}

/* A string's content up to its end. A string that does not fit into `room` is read all the same: 1
 * then. */
static int read_rest(struct reader *r, char *out, size_t room)
{
	size_t used = 0;

	while (r->at < r->end && *r->at != '"') {
		char part[4] = {*r->at};
		size_t size = 1;

		if ((unsigned char)*r->at++ < ' ')
			return -EINVAL;
		if (part[0] == '\\' && read_escape(r, part, &size) < 0)
			return -EINVAL;
		if (used + size < room)
			memcpy(out + used, part, size);
		used += size;
	}
	if (r->at == r->end)
		return -EINVAL;
	r->at++;
	if (room)
		out[used < room ? used : 0] = '\0';
	return used < room ? 0 : 1;
}

static int read_string(struct reader *r, char *out, size_t room)
{
	return eat(r, '"') ? read_rest(r, out, room) : -EINVAL;
}

/* Numbers and names are not checked closely: the runtime that wrote them reads them, too. */
static int skip_plain(struct reader *r)
{
	const char *begin = r->at;

	while (r->at < r->end && *r->at && !strchr(",:]} \t\n\r\"[{", *r->at))
		r->at++;
	return r->at > begin ? 0 : -EINVAL;
}

/* Skips a value of any kind, without recursion: `open` has the brackets that must be closed, the
 * innermost last. */
static int skip_value(struct reader *r)
{
	char open[JSON_DEPTH_MAX];
	size_t depth = 0;

	do {
		char c = peek(r);
		int error = 0;

		if (c == '{' || c == '[') {
			if (depth == JSON_DEPTH_MAX)
				return -EINVAL;
			open[depth++] = c == '{' ? '}' : ']';
			r->at++;
		} else if (depth && c == open[depth - 1]) {
			depth--;
			r->at++;
		} else if (depth && (c == ',' || c == ':')) {
			r->at++;
		} else {
			error = c == '"' ? read_string(r, NULL, 0) : skip_plain(r);
		}
		if (error < 0)
			return error;
	} while (depth);
	return 0;
}

/* To the value of an object's member. */
static int enter(struct reader *r, const char *name)
{
	char found[64];

	if (!eat(r, '{'))
		return -EINVAL;
	if (eat(r, '}'))
		return -ENOENT;
	do {
		int other = read_string(r, found, sizeof(found));

		if (other < 0 || !eat(r, ':'))
			return -EINVAL;
		if (other == 0 && strcmp(found, name) == 0)
			return 0;
		if (skip_value(r) < 0)
			return -EINVAL;
	} while (eat(r, ','));
	return eat(r, '}') ? -ENOENT : -EINVAL;
}

static int enter_path(struct reader *r, const char *const path[])
{
	for (; *path; path++) {
		int error = enter(r, *path);

		if (error < 0)
			return error;
	}
	return 0;
}

int json_string(const char *text, size_t size, const char *const path[], char *ret, size_t room)
{
	struct reader r = {text, text + size};
	int error = enter_path(&r, path);

	if (error < 0)
		return error;
	error = read_string(&r, ret, room);
	return error > 0 ? -ENAMETOOLONG : error;
}

int json_element(const char *text, size_t size, const char *const path[], const char *prefix,
		 char *ret, size_t room)
{
	struct reader r = {text, text + size};
	size_t length = strlen(prefix);
	int error = enter_path(&r, path);

	if (error < 0)
		return error;
	if (!eat(&r, '['))
		return -EINVAL;
	if (eat(&r, ']'))
		return -ENOENT;
	do {
		const char *begin;

		if (peek(&r) != '"')
			return -EINVAL;
		/* No prefix of ours holds what JSON escapes. */
		begin = r.at + 1;
		if ((size_t)(r.end - begin) > length && memcmp(begin, prefix, length) == 0) {
			/* As a string that begins behind the prefix. */
			struct reader rest = {begin + length, r.end};

			error = read_rest(&rest, ret, room);
			return error > 0 ? -ENAMETOOLONG : error;
		}
		error = read_string(&r, NULL, 0);
		if (error < 0)
			return error;
	} while (eat(&r, ','));
	return eat(&r, ']') ? -ENOENT : -EINVAL;
}
