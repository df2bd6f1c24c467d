/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the shell's completion offers for a value that is a list: `--query name,us`, `--filter
 * user=alice,gp`. Each line has the whole value, with what has been typed before the last comma.
 */
#include "cli/complete_lists.h"

#include <string.h>

#include "base/text.h"
#include "cli/ps_filter.h"
#include "cli/ps_query.h"

/* Behind "--query=", which a shell may hand over with it. */
static const char *value_of(const char *typed)
{
	const char *equals = strncmp(typed, "--", 2) == 0 ? strchr(typed, '=') : NULL;

	return equals ? equals + 1 : typed;
}

/* What stands before the word that is completed. */
static int before_last(const char *value)
{
	const char *comma = strrchr(value, ',');

	return comma ? (int)(comma + 1 - value) : 0;
}

struct keys {
	const char *value, *last; /* which begins behind the last comma */
	char group[PS_QUERY_KEY]; /* that was offered last: "device." */
};

/* Of "device.", "time." and "fields." the keys are offered once one of these is chosen. */
static void put_key(void *owner, const char *key)
{
	struct keys *keys = owner;
	const char *dot = strchr(key, '.');
	size_t size = dot ? (size_t)(dot + 1 - key) : 0;
	bool whole = !size || strncmp(keys->last, key, size) == 0;

	if (!whole && strncmp(keys->group, key, size) == 0)
		return;
	if (!whole)
		snprintf(keys->group, sizeof(keys->group), "%.*s", (int)size, key);
	printf("%.*s%s\n", (int)(keys->last - keys->value), keys->value, whole ? key : keys->group);
}

void complete_keys(const char *typed)
{
	struct keys keys = {.value = value_of(typed)};

	keys.last = keys.value + before_last(keys.value);
	ps_query_each(put_key, &keys);
}

/* Once each. A list has no place for a blank or a comma in a name. */
static void put(const char *value, const char *key, const char *name, const char **given,
		size_t *count)
{
	if (!*name || name[strcspn(name, " ,\n")])
		return;
	for (size_t i = 0; i < *count; i++)
		if (strcmp(given[i], name) == 0)
			return;
	given[(*count)++] = name;
	printf("%.*s%s=%s\n", before_last(value), value, key, name);
}

static void put_values(const struct ps_rows *rows, const char *value, enum ps_filter_key key,
		       const char *word)
{
	owned(free) struct ps_text *name = calloc(rows->count + 1, sizeof(*name));
	owned(free) const char **given = calloc(rows->count + 1, sizeof(*given));
	size_t count = 0;

	for (size_t i = 0; name && given && i < rows->count; i++) {
		const struct wire_message *row = &rows->row[i];

		if (row->code == WIRE_device_row && key == PS_FILTER_GPU)
			snprintf(name[i].text, sizeof(name[i].text), "%u", row->device_row.index);
		else if (row->code == WIRE_tenant_row && key == PS_FILTER_USER)
			name[i] = ps_user_of(rows, row->tenant_row.owner);
		else if (row->code == WIRE_tenant_row && key == PS_FILTER_TENANT)
			snprintf(name[i].text, sizeof(name[i].text), "%s",
				 row->tenant_row.name.text);
		put(value, word, name[i].text, given, &count);
	}
}

void complete_filters(const char *typed, const struct ps_rows *rows)
{
	const char *value = value_of(typed), *last = value + before_last(value);
	enum ps_filter_key key;
	const char *word;

	for (size_t i = 0; (word = ps_filter_word(i, &key)) != NULL; i++) {
		if (text_begins(last, word) && last[strlen(word)] == '=')
			put_values(rows, value, key, word);
		else if (!strchr(last, '='))
			printf("%.*s%s=\n", before_last(value), value, word);
	}
}
