/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <iconv.h>

#include "tests/test.h"

/* The C library's own reader is the judge: it takes no overlong forms, surrogates or halves. */
static size_t points_of(const char *text, uint32_t *ret_points, size_t room)
{
	iconv_t reader = iconv_open("UCS-4LE", "UTF-8");
	size_t in = strlen(text), left = room * sizeof(*ret_points);
	char *from = (char *)(uintptr_t)text, *to = (char *)ret_points;
	size_t r;

	expect(reader != (iconv_t)-1);
	r = iconv(reader, &from, &in, &to, &left);
	iconv_close(reader);
	return r == (size_t)-1 || in ? SIZE_MAX : room - left / sizeof(*ret_points);
}

static const char *plain(const char *text)
{
	static char said[300];

	snprintf(said, sizeof(said), "%s", text);
	text_make_plain(said);
	return said;
}

TEST(characters_fit_to_be_shown_stay_as_they_were)
{
	expect_str(plain(""), "");
	expect_str(plain("./train --lr 1e-3 ~"), "./train --lr 1e-3 ~");
	expect_str(plain("gr\xc3\xb6\xc3\x9f"
			 "e \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x98\x80"),
		   "gr\xc3\xb6\xc3\x9f"
		   "e \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x98\x80");
}

TEST(control_characters_become_one_question_mark_each)
{
	expect_str(plain("two\nlines\r\x1b[2J\x7f"), "two?lines??[2J?");
	expect_str(plain("\xc2\x9b"
			 "2J"),
		   "?2J"); /* C1's CSI */
	expect_str(plain("a\xe2\x80\xae"
			 "b\xe2\x80\xa8"
			 "c\xef\xbb\xbf"),
		   "a?b?c?"); /* right-to-left override, line separator, byte order mark */
}

TEST(bytes_that_are_no_character_become_one_question_mark_each)
{
	expect_str(plain("\xff\xfe"), "??");
	expect_str(plain("a\x80z"), "a?z");
	expect_str(plain("\xc0\xaf"), "??");	       /* an overlong slash */
	expect_str(plain("\xed\xa0\x80"), "???");      /* a surrogate */
	expect_str(plain("\xf4\x90\x80\x80"), "????"); /* beyond the last one */
	expect_str(plain("\xe6\x97"), "??");	       /* half of one */
	expect_str(plain("\xe6\x97\xe6\x97\xa5"), "??\xe6\x97\xa5");
}

TEST(nothing_is_cut_within_a_character)
{
	expect_eq(text_fit("abc", 5), 3);
	expect_eq(text_fit("abc", 2), 2);
	expect_eq(text_fit("a\xe6\x97\xa5z", 1), 1);
	expect_eq(text_fit("a\xe6\x97\xa5z", 2), 1);
	expect_eq(text_fit("a\xe6\x97\xa5z", 3), 1);
	expect_eq(text_fit("a\xe6\x97\xa5z", 4), 4);
	expect_eq(text_fit("\xe6\x97\xa5", 0), 0);
}

/* Bytes that are often the beginnings, middles and ends of something. */
static char any_byte(void)
{
	static const unsigned char often[] = {'a',  0x1b, 0x80, 0x9b, 0xbf, 0xc2, 0xc3, 0xe0, 0xe2,
					      0xed, 0xef, 0xf0, 0xf4, 0xf5, 0xff, 0xa8, 0xae, '\n'};
	uint64_t r = test_random();

	if (r & 1)
		return (char)often[(r >> 1) % sizeof(often)];
	return (char)(1 + (r >> 8) % 255);
}

TEST(any_text_becomes_valid_plain_and_no_longer_and_stays_so)
{
	for (unsigned round = test_histories(200000); round > 0; round--) {
		char was[64], is[64], again[64];
		size_t size = test_random_below(sizeof(was));
		uint32_t point[64];
		size_t points;

		for (size_t i = 0; i < size; i++)
			was[i] = any_byte();
		was[size] = '\0';
		memcpy(is, was, size + 1);
		text_make_plain(is);
		expect(strlen(is) <= size);
		points = points_of(is, point, ARRAY_SIZE(point));
		expect(points != SIZE_MAX);
		for (size_t i = 0; i < points; i++) {
			expect(point[i] >= 0x20 && (point[i] < 0x7f || point[i] > 0x9f));
			expect(point[i] < 0x202a || point[i] > 0x202e);
		}
		memcpy(again, is, strlen(is) + 1);
		text_make_plain(again);
		expect_str(again, is);
		/* Cut anywhere it is still whole. */
		is[text_fit(is, test_random_below(sizeof(is)))] = '\0';
		expect(points_of(is, point, ARRAY_SIZE(point)) != SIZE_MAX);
	}
}

TEST(figures_that_are_compared_show_their_difference)
{
	const uint64_t gib = 1ull << 30;

	expect_str(text_bytes_beside(2 * gib, gib).text, "2GiB");
	expect_str(text_bytes_beside(gib, 2 * gib).text, "1GiB");
	expect_str(text_bytes_beside(gib * 26 / 25, gib).text, "1.03GiB");
	expect_str(text_bytes_beside(gib, gib * 26 / 25).text, "1GiB");
	expect_str(text_bytes_beside(gib + (3 << 20), gib).text, "1.002GiB");
	expect_str(text_bytes_beside(gib + 1, gib).text, "1073741825B");
	expect_str(text_bytes_beside(gib, gib + 1).text, "1073741824B");
	expect_str(text_bytes_beside(gib, gib).text, "1GiB");
	expect_str(text_bytes_beside(1023, 1024).text, "1023B");
}
