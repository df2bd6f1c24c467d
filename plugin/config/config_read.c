/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/config/config_read.h"

#include <string.h>

#include "base/words.h"

/* Texts live as long as the configuration. Each is allocated separately; together
 * they form a linked list. */
struct config_text {
	struct config_text *before;
	char text[];
};

/* Puts before the sentence where it is about. */
static void locate(const struct config_read *read, uint32_t line, struct fault *said)
{
	if (read->from)
		fault_within(said, "$%s", read->from);
	else
		fault_within(said, "%s:%u%s%s", read->name, line, *read->path ? ": " : "",
			     read->path);
}

int config_wrong(struct config_read *read, uint32_t line, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(read->why->text, sizeof(read->why->text), format, arguments);
	va_end(arguments);
	locate(read, line, read->why);
	return -EINVAL;
}

int config_refuse(struct config_read *read, const struct document_node *value, const char *problem,
		  const char *accepted)
{
	return config_wrong(read, value->line, "'%s' %s; accepted: %s",
			    words_show(value->text).text, problem, accepted);
}

int config_warn(struct config_read *read, uint32_t line, const char *format, ...)
{
	struct config *config = read->config;
	struct fault said;
	va_list arguments;

	if (config->warnings == CONFIG_WARNINGS_MAX)
		return 0;
	va_start(arguments, format);
	vsnprintf(said.text, sizeof(said.text), format, arguments);
	va_end(arguments);
	locate(read, line, &said);
	if (config->warnings == CONFIG_WARNINGS_MAX - 1)
		fault_set(&said, 0, "%s:%u: there are more warnings from here on", read->name,
			  line);
	return config_keep(read, said.text, &config->warning[config->warnings++]);
}

size_t config_enter(struct config_read *read, const char *format, ...)
{
	size_t before = read->path_length, room = sizeof(read->path) - before;
	va_list arguments;
	int n;

	va_start(arguments, format);
	n = vsnprintf(read->path + before, room, format, arguments);
	va_end(arguments);
	read->path_length += (size_t)n < room ? (size_t)n : room - 1;
	return before;
}

void config_leave(struct config_read *read, size_t before)
{
	read->path_length = before;
	read->path[before] = '\0';
}

int config_keep(struct config_read *read, const char *text, const char **ret_text)
{
	size_t size = strlen(text) + 1;
	struct config_text *kept = malloc(sizeof(*kept) + size);

	if (!kept)
		return fault_set(read->why, -ENOMEM, "%s: out of memory", read->name);
	memcpy(kept->text, text, size);
	kept->before = read->texts;
	read->texts = kept;
	*ret_text = kept->text;
	return 0;
}

void config_texts_free(struct config_text *texts)
{
	while (texts) {
		struct config_text *before = texts->before;

		free(texts);
		texts = before;
	}
}

int config_text(struct config_read *read, const struct document_node *value, const char *accepted,
		const char **ret_text)
{
	if (value->kind != DOCUMENT_TEXT)
		return config_wrong(read, value->line, "this is a %s; accepted: %s",
				    value->kind == DOCUMENT_LIST ? "list" : "map", accepted);
	if (!*value->text || document_is_null(value))
		return config_wrong(read, value->line, "no value is given; accepted: %s", accepted);
	*ret_text = value->text;
	return 0;
}

static int unknown_key(struct config_read *read, const struct document_node *value,
		       const struct config_section *section)
{
	const char *nearest = words_nearest(value->key, section->names, section->count);
	struct words_shown key = words_show(value->key);
	char all[384];
	size_t length = 0;

	if (nearest)
		return config_wrong(read, value->line, "there is no key '%s'; the nearest is '%s'",
				    key.text, words_dashed(nearest).text);
	for (size_t i = 0; i < section->count && length < sizeof(all); i++)
		length += (size_t)snprintf(all + length, sizeof(all) - length, "%s%s",
					   i ? ", " : "", words_dashed(section->names[i]).text);
	return config_wrong(read, value->line, "there is no key '%s'; accepted: %s", key.text, all);
}

int config_walk(struct config_read *read, const struct document_node *map,
		const struct config_section *section, void *owner)
{
	uint64_t seen = 0;

	if (document_is_null(map))
		return 0;
	if (map->kind != DOCUMENT_MAP)
		return config_wrong(read, map->line, "this is a %s; accepted: a map (KEY: VALUE)",
				    map->kind == DOCUMENT_LIST ? "list" : "single value");
	for (const struct document_node *value = map->first; value; value = value->next) {
		size_t index = 0, before;
		int r;

		while (index < section->count && !words_same(value->key, section->names[index]))
			index++;
		if (index == section->count)
			return unknown_key(read, value, section);
		before = config_enter(read, "%s%s", read->path_length ? "." : "",
				      words_dashed(section->names[index]).text);
		if (seen & 1ull << index)
			return config_wrong(read, value->line,
					    "this key appears twice; accepted: once");
		seen |= 1ull << index;
		r = section->value(read, index, value, owner);
		if (r < 0)
			return r;
		config_leave(read, before);
	}
	return 0;
}

int config_is_list(struct config_read *read, const struct document_node *value,
		   const char *accepted)
{
	if (value->kind == DOCUMENT_LIST || document_is_null(value))
		return 0;
	return config_wrong(read, value->line, "this is a %s; accepted: %s",
			    value->kind == DOCUMENT_MAP ? "map" : "single value", accepted);
}
