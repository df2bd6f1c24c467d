/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A setting of NVIDIA's plugin: its environment goes before its file. A variable that is empty says
 * nothing; that plugin refuses some such, and takes others for an empty value.
 */
#include <string.h>
#include <strings.h>

#include "base/words.h"
#include "plugin/config/config_read.h"

enum { PATH_BYTES = 96 };

static const struct {
	const char *name, *path;
	bool several;
} variables[] = {
#define ONE						 false
#define TURNED						 false
#define SEVERAL						 true
#define KEY(path, variable, form, normally, use_without) {variable, path, form},
#define ALSO(variable, path)				 {variable, path, ONE},
#include "plugin/config/config_nvidia.def"
#undef ONE
#undef TURNED
#undef SEVERAL
};

/* `path` is like "flags.plugin.passDeviceSpecs". NULL: the file has no value for it. */
static const struct document_node *find_path(const struct document_node *root, const char *path)
{
	char parts[PATH_BYTES], *at = parts, *part;

	snprintf(parts, sizeof(parts), "%s", path);
	while (root && (part = strsep(&at, ".")))
		root = config_find(root, part);
	return root && !document_is_null(root) ? root : NULL;
}

/* NULL: it says nothing. With `mete` nothing of that plugin's environment counts. */
static const char *said_by(const struct config_read *read, const char *name)
{
	const char *value = NULL;

	if (*name && read->variable && !read->config->has_mete)
		value = read->variable(name);
	return value && *value ? value : NULL;
}

static int add_word(struct config_read *read, const char *text, size_t length,
		    struct document_node **ret_node)
{
	struct document_node *node = &read->said[read->said_count];
	owned(free) char *word = strndup(text, length);

	*ret_node = node;
	if (!word)
		return fault_set(read->why, -ENOMEM, "%s: out of memory", read->name);
	if (read->said_count == CONFIG_SAID_MAX)
		return config_wrong(read, 0, "too many values; accepted: at most %d",
				    CONFIG_SAID_MAX / 2);
	read->said_count++;
	*node = (struct document_node){.kind = DOCUMENT_TEXT};
	return config_keep(read, word, &node->text);
}

/* Blanks around a word do not count, as with that plugin. */
static int read_words(struct config_read *read, const char *text, struct document_node *list)
{
	static const char blanks[] = " \t\r\n";
	const struct document_node **last = &list->first;
	int r = 0;

	list->kind = DOCUMENT_LIST;
	while (r == 0 && *text) {
		const char *word = text + strspn(text, blanks);
		size_t length = strcspn(text, ","), used = (size_t)(text + length - word);
		struct document_node *node;

		while (used && strchr(blanks, word[used - 1]))
			used--;
		r = add_word(read, word, used, &node);
		if (r < 0)
			break;
		*last = node;
		last = &node->next;
		text += length + (text[length] != '\0');
	}
	return r;
}

static int read_variable(struct config_read *read, const char *text, bool several,
			 const struct document_node **ret_value)
{
	struct document_node *node;
	int r = add_word(read, text, strlen(text), &node);

	if (r < 0)
		return r;
	*ret_value = node;
	return several ? read_words(read, text, node) : 0;
}

int config_setting(struct config_read *read, const char *path,
		   const struct document_node **ret_value)
{
	read->from = NULL;
	*ret_value = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
		const char *text = NULL;

		if (strcmp(variables[i].path, path) == 0)
			text = said_by(read, variables[i].name);
		if (!text)
			continue;
		read->from = variables[i].name;
		return read_variable(read, text, variables[i].several, ret_value);
	}
	*ret_value = read->root ? find_path(read->root, path) : NULL;
	return 0;
}

int config_refuse_setting(struct config_read *read, const struct document_node *value,
			  const char *path, const char *accepted)
{
	best_effort(config_enter(read, "%s", path));
	if (value->kind != DOCUMENT_TEXT)
		return config_wrong(read, value->line, "this is not a single value; accepted: %s",
				    accepted);
	return config_refuse(read, value, "is not supported by mete", accepted);
}

int config_take_word(struct config_read *read, const char *path, const char *const *words,
		     size_t count, const char *accepted, uint32_t *ret_word)
{
	const struct document_node *value;
	int r = config_setting(read, path, &value);

	*ret_word = 0;
	if (r < 0 || !value || (value->kind == DOCUMENT_TEXT && !*value->text))
		return r;
	for (uint32_t i = 0; value->kind == DOCUMENT_TEXT && i < count; i++)
		if (strcasecmp(value->text, words[i]) == 0) {
			*ret_word = i;
			return 0;
		}
	return config_refuse_setting(read, value, path, accepted);
}

/* Warns about variables of keys that have no effect, or that are for another program. */
int config_warn_of_variables(struct config_read *read)
{
	static const struct {
		const char *name, *normally;
		enum config_use use;
	} rows[] = {
#define TAKEN						 CONFIG_TAKEN
#define IGNORED						 CONFIG_IGNORED
#define THEIRS						 CONFIG_THEIRS
#define REFUSED						 CONFIG_REFUSED
#define KEY(path, variable, form, normally, use_without) {variable, normally, use_without},
#define VARIABLE(name, form, use_without)		 {name, NULL, use_without},
#include "plugin/config/config_nvidia.def"
#undef TAKEN
#undef IGNORED
#undef THEIRS
#undef REFUSED
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(rows); i++) {
		const char *text = rows[i].use == CONFIG_TAKEN ? NULL : said_by(read, rows[i].name);

		if (!text || (rows[i].normally && strcasecmp(text, rows[i].normally) == 0))
			continue;
		read->from = rows[i].name;
		r = config_warn(read, 0, "this has no meaning for mete and is ignored");
	}
	read->from = NULL;
	return r;
}
