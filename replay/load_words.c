/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/load_words.h"

#include <stdlib.h>
#include <string.h>

#include "base/words.h"

enum { WORDS_MOST = 1024 };

int load_words_count(const char *text, uint32_t highest, uint32_t *ret)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (end == text || *end || !value || value > highest)
		return -EINVAL;
	*ret = (uint32_t)value;
	return 0;
}

static int no_field(const char *whole, const char *word, const struct load_words *words,
		    struct fault *why)
{
	const char *name[SHARE_FIELDS], *nearest;
	uint32_t n = 0;

	for (; n < ARRAY_SIZE(name) && share_key(n); n++)
		name[n] = share_key(n);
	nearest = words_nearest(word, name, n);
	if (nearest)
		return fault_set(why, -EINVAL, "'%s' is not a field of a share; did you mean '%s'?",
				 whole, nearest);
	return fault_set(why, -EINVAL, "'%s' is not a field of a share; accepted besides are %s",
			 whole, words->accepted);
}

static int parse_field(char *word, const struct load_words *words, void *load, struct share *share,
		       struct fault *why)
{
	char whole[128], *value = strchr(word, '=');
	int r;

	snprintf(whole, sizeof(whole), "%s", word);
	if (!value)
		return fault_set(why, -EINVAL, "'%s': FIELD=VALUE is accepted", whole);
	*value++ = 0;
	r = words->own(load, word, value);
	if (r < 0)
		return fault_set(why, -EINVAL, "'%s': accepted are %s", whole, words->accepted);
	if (r == 0)
		return 0;
	r = share_set(share, word, value);
	if (r == SHARE_KEY)
		return no_field(whole, word, words, why);
	if (r != 0)
		return fault_set(why, -EINVAL, "'%s' %s%s%s", whole, share_problem(r),
				 share_accepts(word) ? "; accepted: " : "",
				 share_accepts(word) ? share_accepts(word) : "");
	return 0;
}

static bool is_copies(const char *word)
{
	size_t n = strlen(word);

	return word[n - 1] == 'x' && strspn(word, "0123456789") == n - 1;
}

static int parse_copies(char *word, const struct load_words *words, uint32_t *ret_count,
			struct fault *why)
{
	word[strlen(word) - 1] = 0;
	if (load_words_count(word, words->copies_most, ret_count) < 0)
		return fault_set(why, -EINVAL,
				 "'%sx': accepted are 1x to %ux, for so many such tenants", word,
				 words->copies_most);
	return 0;
}

int load_words_parse(const char *text, const struct load_words *words, void *load,
		     struct turns_share *ret_share, uint32_t *ret_count, struct fault *why)
{
	char copy[WORDS_MOST], *state = NULL;
	struct share share;
	int r = 0;

	if (strlen(text) >= sizeof(copy))
		return fault_set(why, -EINVAL, "a tenant's words have more than %d characters",
				 WORDS_MOST);
	snprintf(copy, sizeof(copy), "%s", text);
	share_init(&share);
	*ret_count = 1;
	for (char *word = strtok_r(copy, " \t\n", &state); word && r == 0;
	     word = strtok_r(NULL, " \t\n", &state))
		r = is_copies(word) ? parse_copies(word, words, ret_count, why)
				    : parse_field(word, words, load, &share, why);
	if (r == 0)
		turns_share_of(&share, ret_share);
	return r;
}
