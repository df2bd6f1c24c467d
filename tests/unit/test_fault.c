/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fault.h"
#include "tests/test.h"

TEST(a_fault_returns_the_error_it_was_given)
{
	struct fault why;

	expect_eq(fault_set(&why, -ENOENT, "no such file"), -ENOENT);
	expect_str(why.text, "no such file");
}

TEST(a_fault_tells_where_it_happened)
{
	struct fault why;

	best_effort(fault_set(&why, -ENOENT, "no such file"));
	fault_within(&why, "%s", "config.toml");
	expect_str(why.text, "config.toml: no such file");
}

TEST(a_long_sentence_is_cut_and_says_so)
{
	char long_text[2 * sizeof(((struct fault *)0)->text)];
	struct fault why;

	memset(long_text, 'x', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = '\0';
	best_effort(fault_set(&why, -EINVAL, "%s", long_text));
	expect_eq(strlen(why.text), sizeof(why.text) - 1);
	expect_str(why.text + strlen(why.text) - 3, "...");
	fault_within(&why, "here");
	expect(strncmp(why.text, "here: xxx", 9) == 0);
	expect_str(why.text + strlen(why.text) - 3, "...");
}
