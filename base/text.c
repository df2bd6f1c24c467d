/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/macros.h"

bool text_begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

bool text_same(const char *a, const char *b)
{
	return (!a && !b) || (a && b && strcmp(a, b) == 0);
}

/* Truncated, not rounded: "4GiB" means at least that. */
static struct text_bytes with_digits(uint64_t bytes, int digits)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	struct text_bytes said;
	uint64_t whole = bytes, rest = 0, tens = 1;
	size_t unit = 0;

	for (; whole >= 1024 && unit + 1 < ARRAY_SIZE(units); unit++) {
		rest = whole % 1024;
		whole /= 1024;
	}
	for (int i = 0; i < digits; i++)
		tens *= 10;
	if (rest * tens / 1024)
		snprintf(said.text, sizeof(said.text), "%u.%0*u%s", (unsigned)whole, digits,
			 (unsigned)(rest * tens / 1024), units[unit]);
	else
		snprintf(said.text, sizeof(said.text), "%u%s", (unsigned)whole, units[unit]);
	return said;
}

struct text_bytes text_bytes(uint64_t bytes)
{
	return with_digits(bytes, 1);
}

struct text_bytes text_bytes_beside(uint64_t bytes, uint64_t other)
{
	struct text_bytes said;

	for (int digits = 1; digits <= 3; digits++) {
		said = with_digits(bytes, digits);
		if (bytes == other || strcmp(said.text, with_digits(other, digits).text) != 0)
			return said;
	}
	snprintf(said.text, sizeof(said.text), "%lluB", (unsigned long long)bytes);
	return said;
}

static uint64_t rounded(uint64_t bytes, unsigned shift, enum text_rounding rounding)
{
	return (bytes >> shift) + (rounding == TEXT_UP && bytes & ((1ull << shift) - 1));
}

/* In hundredths of a GiB: an amount that a device may have fits many times. */
static struct text_bytes in_gib(uint64_t bytes, enum text_rounding rounding)
{
	uint64_t rest = rounded((bytes & ((1ull << 30) - 1)) * 100, 30, rounding);
	uint64_t whole = (bytes >> 30) + rest / 100;
	struct text_bytes said;
	int n = snprintf(said.text, sizeof(said.text), "%llu", (unsigned long long)whole);

	rest %= 100;
	if (rest)
		n += snprintf(said.text + n, sizeof(said.text) - (size_t)n,
			      rest % 10 ? ".%02llu" : ".%llu",
			      (unsigned long long)(rest % 10 ? rest : rest / 10));
	snprintf(said.text + n, sizeof(said.text) - (size_t)n, "GiB");
	return said;
}

struct text_bytes text_size(uint64_t bytes, enum text_rounding rounding)
{
	uint64_t kib = rounded(bytes, 10, rounding), mib = rounded(bytes, 20, rounding);
	bool small = bytes && bytes < 1 << 20 && kib < 1024;
	struct text_bytes said;

	if (mib >= 1024)
		return in_gib(rounding == TEXT_UP && bytes < 1 << 30 ? 1 << 30 : bytes, rounding);
	snprintf(said.text, sizeof(said.text), "%llu%s", (unsigned long long)(small ? kib : mib),
		 small ? "KiB" : "MiB");
	return said;
}

bool text_uuid_begins(const char *uuid, const char *name)
{
	size_t mark = strcspn(uuid, "-") + 1, size = strlen(name);

	if (strlen(uuid) <= mark)
		return false;
	if (size > mark && strncasecmp(uuid, name, size) == 0)
		return true;
	return size >= 4 && strncasecmp(uuid + mark, name, size) == 0;
}

/* The character that starts here and its length; 0: none (RFC 3629: no overlong forms, no
 * surrogates). A NUL ends every sequence, so that nothing after the text is read. */
static size_t decode(const char *text, uint32_t *ret_point)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	const unsigned char *at = (const unsigned char *)text;
	size_t length = *at < 0x80 ? 1 : *at < 0xc0 ? 0 : *at < 0xe0 ? 2 : *at < 0xf0 ? 3 : 4;
	uint32_t point = length == 1 ? *at : *at & (0x7fu >> length);

	if (*at >= 0xf8)
		return 0;
	for (size_t i = 1; i < length; i++) {
		if ((at[i] & 0xc0) != 0x80)
			return 0;
		point = point << 6 | (at[i] & 0x3fu);
	}
	if (point < least[length] || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff))
		return 0;
	*ret_point = point;
	return length;
}

/* Unicode's Cc, Zl, Zp, and the characters of Cf that move, hide or reverse the text around
 * them. */
static bool is_control(uint32_t point)
{
	static const struct {
		uint32_t first, last;
	} ranges[] = {
		{0x00, 0x1f},	  {0x7f, 0x9f},	    {0xad, 0xad},	{0x61c, 0x61c},
		{0x180e, 0x180e}, {0x200b, 0x200f}, {0x2028, 0x202e},	{0x2060, 0x206f},
		{0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe007f},
	};

	for (size_t i = 0; i < ARRAY_SIZE(ranges); i++)
		if (point >= ranges[i].first && point <= ranges[i].last)
			return true;
	return false;
}

void text_make_plain(char *text)
{
	char *to = text;

	while (*text) {
		uint32_t point = 0;
		size_t length = decode(text, &point);

		if (length == 0 || is_control(point)) {
			*to++ = '?';
			text += length ? length : 1;
			continue;
		}
		memmove(to, text, length);
		to += length;
		text += length;
	}
	*to = '\0';
}

size_t text_fit(const char *text, size_t most)
{
	size_t fits = strnlen(text, most);

	if (!text[fits])
		return fits;
	/* Goes back to the start of the character. */
	while (fits > 0 && ((unsigned char)text[fits] & 0xc0) == 0x80)
		fits--;
	return fits;
}

size_t text_mark(const char *text, size_t size)
{
	static const char mark[] = {'\xef', '\xbb', '\xbf'};

	return size >= sizeof(mark) && memcmp(text, mark, sizeof(mark)) == 0 ? sizeof(mark) : 0;
}
