/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/api_stream.h"

#include "tests/test.h"

static struct api_stream stream;

static void given(size_t most, size_t ahead)
{
	free(stream.data);
	stream = (struct api_stream){.most = most, .ahead = ahead};
}

static void add(const char *text)
{
	expect_eq(api_stream_add(&stream, text, strlen(text)), 0);
}

static void expect_line(const char *wanted)
{
	const char *line;
	size_t size;

	expect_eq(api_stream_line(&stream, &line, &size), API_STREAM_LINE);
	expect_eq(size, strlen(wanted));
	expect_str(line, wanted);
}

static void expect_none(void)
{
	const char *line;
	size_t size;

	expect_eq(api_stream_line(&stream, &line, &size), 0);
}

TEST(texts_come_out_as_they_went_in_however_they_were_split)
{
	static const char text[] = "one\ntwo\r\n\n\r\nthree\n";

	for (size_t piece = 1; piece <= sizeof(text); piece++) {
		given(100, 100);
		for (size_t at = 0; at < sizeof(text) - 1; at += piece) {
			size_t rest = sizeof(text) - 1 - at;

			expect_eq(api_stream_add(&stream, text + at, piece < rest ? piece : rest),
				  0);
		}
		expect_line("one");
		expect_line("two");
		expect_line("three");
		expect_none();
	}
	given(0, 0);
}

TEST(an_incomplete_text_line_waits)
{
	given(100, 100);
	expect_none();
	add("on");
	expect_none();
	add("e\ntw");
	expect_line("one");
	expect_none();
	add("o\n");
	expect_line("two");
	expect_none();
	given(0, 0);
}

TEST(a_text_line_that_is_too_long_is_refused_complete_or_not)
{
	const char *line;
	size_t size;

	given(4, 100);
	add("four\nfives\n");
	expect_line("four");
	expect_eq(api_stream_line(&stream, &line, &size), -EFBIG);
	given(4, 100);
	add("four");
	expect_none();
	add("s");
	expect_eq(api_stream_line(&stream, &line, &size), -EFBIG);
	given(0, 0);
}

TEST(nothing_is_kept_beyond_the_bound)
{
	const char *all;
	size_t size;

	given(4, 2);
	add("12345");
	expect_eq(api_stream_add(&stream, "67", 2), -EFBIG);
	expect_eq(api_stream_add(&stream, "67", SIZE_MAX), -EFBIG);
	add("6");
	all = api_stream_all(&stream, &size);
	expect_eq(size, 6);
	expect_str(all, "123456");
	given(0, 0);
}

TEST(a_cleared_stream_is_empty_and_gives_back_a_large_buffer)
{
	static char much[1 << 20];
	size_t size;

	given(2 << 20, 0);
	expect_eq(api_stream_add(&stream, much, sizeof(much)), 0);
	api_stream_clear(&stream);
	expect(!stream.data);
	expect(!api_stream_all(&stream, &size));
	expect_eq(size, 0);
	add("x");
	api_stream_clear(&stream);
	expect(stream.data != NULL);
	api_stream_all(&stream, &size);
	expect_eq(size, 0);
	given(0, 0);
}

/* Each byte is read once: a large event comes in thousands of pieces. */
TEST(a_long_text_line_is_not_searched_from_its_start_each_time)
{
	given(1 << 20, 0);
	for (size_t i = 0; i < 1000; i++) {
		add("0123456789");
		expect_none();
		expect_eq(stream.looked, (i + 1) * 10);
	}
	given(0, 0);
}
