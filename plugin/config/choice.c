/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/config/choice.h"

#include <string.h>

#include "base/words.h"

enum { ALL_BYTES = 300 };

static const char *find(const struct config_choice *choice, const char *name)
{
	for (size_t i = 0; i < choice->count; i++)
		if (strcmp(choice->names[i], name) == 0)
			return choice->names[i];
	return NULL;
}

static void list_all(const struct config_choice *choice, char ret_text[ALL_BYTES])
{
	size_t length = 0;

	snprintf(ret_text, ALL_BYTES, "no configuration");
	for (size_t i = 0; i < choice->count && length < ALL_BYTES; i++)
		length += (size_t)snprintf(ret_text + length, ALL_BYTES - length, "%s%s",
					   i ? ", " : "", words_show(choice->names[i]).text);
}

/* It is said which one is wanted. */
static int take_named(const struct config_choice *choice, const char *name, const char *by,
		      const char **ret_name, struct fault *why)
{
	char all[ALL_BYTES];

	*ret_name = find(choice, name);
	if (*ret_name)
		return 0;
	list_all(choice, all);
	return fault_set(why, -ENOENT,
			 "%s: there is no configuration '%s', which %s names; there "
			 "is %s",
			 choice->folder, words_show(name).text, by, all);
}

/* 1: this strategy finds none. */
static int fall_back(const struct config_choice *choice, const char *strategy, size_t length,
		     const char **ret_name, struct fault *why)
{
	struct words_shown word = {.text = ""};

	*ret_name = NULL;
	snprintf(word.text, sizeof(word.text), "%.*s", (int)(length < 60 ? length : 60), strategy);
	if (strcmp(word.text, "named") == 0) {
		*ret_name = find(choice, "default");
		if (!*ret_name)
			*ret_name = find(choice, "any");
		return *ret_name ? 0 : 1;
	}
	if (strcmp(word.text, "single") == 0) {
		*ret_name = choice->count == 1 ? choice->names[0] : NULL;
		return *ret_name ? 0 : 1;
	}
	if (strcmp(word.text, "empty") == 0)
		return 0;
	return fault_set(why, -EINVAL,
			 "$FALLBACK_STRATEGIES: '%s' is not known; accepted: named, single, empty",
			 words_show(word.text).text);
}

int config_choose(const struct config_choice *choice, const char **ret_name, struct fault *why)
{
	const char *at =
		choice->fallbacks && *choice->fallbacks ? choice->fallbacks : CHOICE_FALLBACKS;
	char all[ALL_BYTES];

	if (choice->value && *choice->value)
		return take_named(choice, choice->value, "the node's label", ret_name, why);
	if (choice->usual && *choice->usual)
		return take_named(choice, choice->usual, "$DEFAULT_CONFIG", ret_name, why);
	while (*at) {
		size_t length = strcspn(at, ", ");
		int r = length ? fall_back(choice, at, length, ret_name, why) : 1;

		if (r <= 0)
			return r;
		at += length + (at[length] != '\0');
	}
	list_all(choice, all);
	return fault_set(why, -ENOENT,
			 "%s: neither a label of the node nor $DEFAULT_CONFIG names a "
			 "configuration; there is %s",
			 choice->folder, all);
}
