/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/config/portion.h"

#include <string.h>

#include "base/words.h"

int portion_field(const char *name)
{
	for (uint32_t i = 0; share_key(i); i++)
		if (words_same(name, share_key(i)))
			return (int)i;
	return -1;
}

/* Returns true if a guarantee and a cap replace all of "fixed:1/4", which must then be dropped: it
 * would be set first, and a new guarantee of 30% refused because of its cap of 25%. */
static bool is_covered(const struct config_share *share)
{
	const char *mode = share->texts[PORTION_mode];

	return mode && strncmp(mode, "fixed:", 6) == 0 && share->texts[PORTION_guarantee] &&
	       share->texts[PORTION_cap];
}

void portion_lay(struct config_share *share, const struct config_share *over)
{
	for (uint32_t i = 0; i < SHARE_FIELDS; i++) {
		if (!over->texts[i])
			continue;
		for (uint32_t j = 0; j < SHARE_FIELDS; j++)
			if (share_includes(share_key(i), share_key(j)))
				share->texts[j] = NULL;
		share->texts[i] = over->texts[i];
		share->lines[i] = over->lines[i];
	}
	if (is_covered(share))
		share->texts[PORTION_mode] = NULL;
}

int portion_resolve(const struct config_share *portion, struct share *ret_share,
		    uint32_t *ret_field)
{
	struct share share;

	share_init(&share);
	for (uint32_t i = 0; i < SHARE_FIELDS; i++) {
		int r = portion->texts[i] ? share_set(&share, share_key(i), portion->texts[i]) : 0;

		if (r != 0) {
			*ret_field = i;
			return r;
		}
	}
	*ret_share = share;
	return 0;
}

int portion_resolve_texts(char *const texts[SHARE_FIELDS], struct share *ret_share)
{
	struct config_share portion = {0};
	uint32_t field;

	for (uint32_t i = 0; i < SHARE_FIELDS; i++)
		portion.texts[i] = texts[i];
	return portion_resolve(&portion, ret_share, &field);
}

int portion_texts_copy(const char *const texts[SHARE_FIELDS], char *ret_texts[SHARE_FIELDS])
{
	bool lacks = false;

	for (uint32_t i = 0; i < SHARE_FIELDS; i++) {
		ret_texts[i] = texts[i] ? strdup(texts[i]) : NULL;
		lacks |= texts[i] && !ret_texts[i];
	}
	if (lacks)
		portion_texts_free(ret_texts);
	return lacks ? -ENOMEM : 0;
}

void portion_texts_free(char *texts[SHARE_FIELDS])
{
	for (uint32_t i = 0; i < SHARE_FIELDS; i++)
		free(take(texts[i]));
}

int portion_said(const struct config_share *portion, enum portion_field field)
{
	if (portion->texts[field])
		return (int)field;
	if (portion->texts[PORTION_mode] && share_includes("mode", share_key(field)))
		return PORTION_mode;
	return -1;
}

const char *portion_word(enum portion_field field, const char *text)
{
	static const struct {
		enum portion_field field;
		const char *said, *meant;
	} rows[] = {
		{PORTION_swap, "false", "off"},
		{PORTION_strict, "false", "no"},
		{PORTION_strict, "true", "yes"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (field == rows[i].field && strcmp(text, rows[i].said) == 0)
			return rows[i].meant;
	return text;
}

uint64_t portion_bytes(const struct share *share, uint64_t device_bytes)
{
	uint64_t bytes;

	return share_bytes(&share->memory, device_bytes, &bytes) == 0 ? bytes : device_bytes;
}
