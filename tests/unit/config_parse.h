/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of the configuration: a text as config_parse() takes it, or refuses it with a sentence.
 */
#pragma once

#include "plugin/config/config.h"
#include "tests/test.h"

static inline struct config *parse_for(const char *text, const struct config_label *labels,
				       size_t count)
{
	struct config *config = NULL;
	struct fault why;

	if (config_parse("f", text, strlen(text), labels, count, &config, &why) < 0)
		test_fail(__FILE__, __LINE__, "refused: %s", why.text);
	return config;
}

static inline struct config *parse(const char *text)
{
	return parse_for(text, NULL, 0);
}

/* The whole sentence, as a person reads it. */
static inline void expect_refused_at(const char *file, int line, const char *text, size_t size,
				     const char *sentence)
{
	struct config *config = NULL;
	struct fault why;
	int r = config_parse("f", text, size, NULL, 0, &config, &why);

	if (r != -EINVAL || config)
		test_fail(file, line, "%s: gives %d", text, r);
	if (strcmp(why.text, sentence) != 0)
		test_fail(file, line, "%s: says\n %s\nwanted\n %s", text, why.text, sentence);
}

#define expect_refused(text, sentence)                                                             \
	expect_refused_at(__FILE__, __LINE__, text, strlen(text), sentence)
