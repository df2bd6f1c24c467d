/* SPDX-License-Identifier: Apache-2.0 */
#include "base/words.h"

#include <string.h>

#include "base/text.h"

enum { COMPARED_MAX = 40 }; /* no key is longer */

struct words_shown words_show(const char *text)
{
	struct words_shown shown;
	size_t length = strnlen(text, sizeof(shown.text)), most = sizeof(shown.text) - 4;

	if (length < sizeof(shown.text)) {
		memcpy(shown.text, text, length + 1);
	} else {
		length = text_fit(text, most);
		memcpy(shown.text, text, length);
		memcpy(shown.text + length, "...", 4);
	}
	text_make_plain(shown.text);
	return shown;
}

struct words_shown words_dashed(const char *key)
{
	struct words_shown shown = words_show(key);

	for (char *at = shown.text; *at; at++)
		if (*at == '_')
			*at = '-';
	return shown;
}

static char dashed(char c)
{
	return c == '_' ? '-' : c;
}

bool words_same(const char *a, const char *b)
{
	while (*a && dashed(*a) == dashed(*b)) {
		a++;
		b++;
	}
	return !*a && !*b;
}

static char folded(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : dashed(c);
}

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/* How many letters must be inserted, deleted, changed or swapped with their neighbour. Both
 * texts are shorter than COMPARED_MAX. */
static unsigned distance(const char *a, const char *b)
{
	unsigned rows[3][COMPARED_MAX + 1], *before = rows[0], *above = rows[1], *row = rows[2];
	size_t width = strlen(b);

	for (size_t j = 0; j <= width; j++)
		above[j] = (unsigned)j;
	memset(rows[0], 0, sizeof(rows[0]));
	for (size_t i = 0; a[i]; i++) {
		unsigned *oldest = before;

		row[0] = (unsigned)i + 1;
		for (size_t j = 0; j < width; j++) {
			unsigned same = folded(a[i]) == folded(b[j]) ? 0 : 1;

			row[j + 1] = least(above[j] + same, least(above[j + 1], row[j]) + 1);
			if (i && j && folded(a[i]) == folded(b[j - 1]) &&
			    folded(a[i - 1]) == folded(b[j]))
				row[j + 1] = least(row[j + 1], before[j - 1] + 1);
		}
		before = above;
		above = row;
		row = oldest;
	}
	return above[width];
}

/* "mem" is meant to be "memory". */
static bool begins(const char *word, const char *name)
{
	size_t length = strlen(word);

	for (size_t i = 0; i < length; i++)
		if (folded(word[i]) != folded(name[i]))
			return false;
	return length >= 3;
}

const char *words_nearest(const char *word, const char *const *names, size_t count)
{
	unsigned best = COMPARED_MAX;
	const char *nearest = NULL;

	if (strnlen(word, COMPARED_MAX) == COMPARED_MAX)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		size_t length = strnlen(names[i], COMPARED_MAX), shorter = strlen(word);
		unsigned apart;

		if (length == COMPARED_MAX)
			continue;
		if (length < shorter)
			shorter = length;
		apart = distance(word, names[i]);
		if (apart < best &&
		    (apart <= 1 + (shorter - (shorter > 0)) / 4 || begins(word, names[i]))) {
			best = apart;
			nearest = names[i];
		}
	}
	return nearest;
}

static bool is_lower(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* A label, of any length. */
static bool is_part(const char *text, size_t length)
{
	if (!length || !is_lower(text[0]) || !is_lower(text[length - 1]))
		return false;
	for (size_t i = 0; i < length; i++)
		if (!is_lower(text[i]) && text[i] != '-')
			return false;
	return true;
}

bool words_is_label(const char *text)
{
	size_t length = strnlen(text, WORDS_LABEL_MAX + 1);

	return length <= WORDS_LABEL_MAX && is_part(text, length);
}

/* Like Kubernetes, which bounds the whole and no label of it. */
static bool is_subdomain(const char *text, size_t length)
{
	const char *end = text + length;

	if (length > WORDS_SUBDOMAIN_MAX)
		return false;
	for (;;) {
		const char *dot = memchr(text, '.', (size_t)(end - text));

		if (!is_part(text, (size_t)((dot ? dot : end) - text)))
			return false;
		if (!dot)
			return true;
		text = dot + 1;
	}
}

bool words_is_subdomain(const char *text)
{
	return is_subdomain(text, strnlen(text, WORDS_SUBDOMAIN_MAX + 1));
}

static bool is_alphanumeric(char c)
{
	return is_lower(c) || (c >= 'A' && c <= 'Z');
}

/* The API server requires a domain other than its own, and "requests." + name for quotas. */
bool words_is_resource(const char *text)
{
	const char *slash = strchr(text, '/');
	size_t length;

	if (!slash || !is_subdomain(text, (size_t)(slash - text)))
		return false;
	if (strncmp(text, "requests.", 9) == 0)
		return false;
	length = (size_t)(slash - text);
	if (length >= 13 && strncmp(slash - 13, "kubernetes.io", 13) == 0 &&
	    (length == 13 || slash[-14] == '.'))
		return false;
	text = slash + 1;
	length = strnlen(text, WORDS_LABEL_MAX + 1);
	if (!length || length > WORDS_LABEL_MAX)
		return false;
	for (size_t i = 0; i < length; i++)
		if (!is_alphanumeric(text[i]) && !strchr("-_.", text[i]))
			return false;
	return is_alphanumeric(text[0]) && is_alphanumeric(text[length - 1]);
}

struct words_shown words_unit_advice(const char *amount, bool part)
{
	struct words_shown said = {""};
	unsigned long long number = 0;
	const char *at = amount;

	for (; *at >= '0' && *at <= '9' && number <= 100; at++)
		number = number * 10 + (unsigned long long)(*at - '0');
	if (!*at && number && number <= 100)
		snprintf(said.text, sizeof(said.text), ": write %llu%%%s", number,
			 part ? "" : ", or a unit of bytes");
	return said;
}
