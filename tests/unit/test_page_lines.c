/* SPDX-License-Identifier: Apache-2.0 */
#include "page/lines.h"

#include <string.h>

#include "tests/test.h"

static char text[1024];

static const char *change(const char *before, const char *now, bool any)
{
	FILE *out = fmemopen(text, sizeof(text), "w");

	text[0] = '\0'; /* where nothing is written, it stays */
	expect_eq(lines_change(out, before, now), any);
	fclose(out);
	return text;
}

TEST(only_values_that_differ_are_written)
{
	expect_str(change("{\n\"a\":1,\n\"b\":\"x\",\n\"c\":3\n}",
			  "{\n\"a\":1,\n\"b\":\"y\",\n\"c\":4\n}", true),
		   ",\"b\":\"y\",\"c\":4");
	expect_str(change("{\n\"a\":1,\n\"b\":2\n}", "{\n\"a\":1,\n\"b\":2\n}", false), "");
}

TEST(of_an_object_within_only_changed_members_are_written)
{
	const char *before =
		"{\n\"a\":1,\n\"time\":{\n\"x\":1,\n\"y\":2\n},\n\"l\":[{\"p\":1},{\"p\":2}]\n}";

	expect_str(change(before,
			  "{\n\"a\":1,\n\"time\":{\n\"x\":1,\n\"y\":3\n},\n\"l\":[{\"p\":1},{\"p\":"
			  "2}]\n}",
			  true),
		   ",\"time\":{\"y\":3}");
	expect_str(
		change(before, "{\n\"a\":1,\n\"time\":{\n\"x\":1,\n\"y\":2\n},\n\"l\":[]\n}", true),
		",\"l\":[]");
}

TEST(a_key_that_came_is_written_and_one_that_is_gone_is_null)
{
	expect_str(change("{\n\"a\":1,\n\"t\":{\n\"x\":1,\n\"busy\":0.5\n},\n\"b\":1\n}",
			  "{\n\"a\":1,\n\"t\":{\n\"x\":1\n},\n\"b\":1\n}", true),
		   ",\"t\":{\"busy\":null}");
	expect_str(change("{\n\"a\":1\n}", "{\n\"a\":1,\n\"n\":{\n\"x\":1\n}\n}", true),
		   ",\"n\":{\"x\":1}");
	expect_str(change("{\n\"n\":3,\n\"a\":1\n}", "{\n\"a\":1\n}", true), ",\"n\":null");
	/* Though nothing else is different. */
	expect_str(change("{\n\"a\":1,\n\"b\":2,\n\"c\":3\n}", "{\n\"a\":1\n}", true),
		   ",\"b\":null,\"c\":null");
}

TEST(a_text_with_the_form_of_a_row_is_a_text)
{
	expect_str(change("{\n\"name\":\"a\\\":{\",\n\"b\":1\n}",
			  "{\n\"name\":\"a\\\":{\",\n\"b\":2\n}", true),
		   ",\"b\":2");
	expect_str(change("{\n\"name\":\"x\",\n\"b\":1\n}", "{\n\"name\":\"{\",\n\"b\":1\n}", true),
		   ",\"name\":\"{\"");
}
