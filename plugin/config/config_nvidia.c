/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's part of the file. Its plugin ignores keys that it does not know and takes the last of
 * those that come twice; upper and lower case are alike to it. A file that it accepts is accepted
 * here.
 */
#include <string.h>
#include <strings.h>

#include "base/macros.h"
#include "base/words.h"
#include "plugin/config/config_read.h"

static const struct {
	const char *path, *normally;
	enum config_use use; /* without `mete` */
} keys[] = {
#define TAKEN						 CONFIG_TAKEN
#define IGNORED						 CONFIG_IGNORED
#define THEIRS						 CONFIG_THEIRS
#define REFUSED						 CONFIG_REFUSED
#define KEY(path, variable, form, normally, use_without) {path, normally, use_without},
#include "plugin/config/config_nvidia.def"
#undef TAKEN
#undef IGNORED
#undef THEIRS
#undef REFUSED
};

const struct document_node *config_find(const struct document_node *map, const char *key)
{
	const struct document_node *last = NULL;

	if (map->kind != DOCUMENT_MAP)
		return NULL;
	for (const struct document_node *value = map->first; value; value = value->next)
		if (strcasecmp(value->key, key) == 0)
			last = value;
	return last;
}

bool config_is_usual(const struct document_node *value, const char *normally)
{
	if (!normally || document_is_null(value))
		return true;
	/* A strategy may be a list of one. */
	if (value->kind == DOCUMENT_LIST && value->first && !value->first->next)
		value = value->first;
	return value->kind == DOCUMENT_TEXT && strcasecmp(value->text, normally) == 0;
}

static int warn_key(struct config_read *read, const struct document_node *value,
		    const char *const *names, size_t count)
{
	const char *nearest = words_nearest(value->key, names, count);

	return config_warn(read, value->line, "the key '%s' is not known%s%s%s, and is ignored",
			   words_show(value->key).text, nearest ? " (the nearest is '" : "",
			   nearest ? nearest : "", nearest ? "')" : "");
}

static int warn_unknown(struct config_read *read, const struct document_node *value,
			const char *folder)
{
	const char *names[ARRAY_SIZE(keys)];
	size_t count = 0, length = strlen(folder);

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (strncmp(keys[i].path, folder, length) == 0 && keys[i].path[length] == '.' &&
		    !strchr(keys[i].path + length + 1, '.'))
			names[count++] = keys[i].path + length + 1;
	return warn_key(read, value, names, count);
}

/* True if no warning is due: the value is the usual one, or it has an effect. */
static bool is_said_of(const struct config_read *read, size_t key,
		       const struct document_node *value)
{
	bool counts = !read->config->has_mete &&
		      (keys[key].use == CONFIG_TAKEN || keys[key].use == CONFIG_REFUSED);

	/* A key without a usual value gets a warning only in a file without `mete`. */
	if (!keys[key].normally)
		return counts || read->config->has_mete || document_is_null(value) ||
		       (value->kind != DOCUMENT_TEXT && !value->first);
	return counts || config_is_usual(value, keys[key].normally);
}

static int check_key(struct config_read *read, size_t key, const struct document_node *value,
		     const char *folder)
{
	bool theirs = !read->config->has_mete && keys[key].use == CONFIG_THEIRS;
	size_t before;
	int r;

	if (is_said_of(read, key, value))
		return 0;
	before = config_enter(read, ".%s", keys[key].path + strlen(folder) + 1);
	r = config_warn(read, value->line, "%s",
			theirs ? "this is ignored, as by NVIDIA's plugin"
			       : "this has no meaning for mete and is ignored");
	config_leave(read, before);
	return r;
}

/* The keys of a map of the table: "flags" or "flags.plugin". */
static int check_flags(struct config_read *read, const struct document_node *map,
		       const char *folder)
{
	if (map->kind != DOCUMENT_MAP && !document_is_null(map))
		return config_wrong(read, map->line,
				    "this is not a map; accepted: a map (KEY: VALUE)");
	for (const struct document_node *value = map->first; value; value = value->next) {
		char path[96];
		size_t i = 0;
		int r;

		snprintf(path, sizeof(path), "%s.%s", folder, value->key);
		if (config_is_default_rename(read, map, value))
			continue;
		while (i < ARRAY_SIZE(keys) && strcasecmp(keys[i].path, path) != 0)
			i++;
		r = i == ARRAY_SIZE(keys) ? warn_unknown(read, value, folder)
					  : check_key(read, i, value, folder);
		if (r < 0)
			return r;
	}
	return 0;
}

/* A map below `value`, if it is there. */
static int check_below(struct config_read *read, const struct document_node *value,
		       const char *folder)
{
	const char *key = strrchr(folder, '.') + 1;
	const struct document_node *map = config_find(value, key);
	size_t before = config_enter(read, ".%s", key);
	int r = map ? check_flags(read, map, folder) : 0;

	if (r == 0)
		config_leave(read, before);
	return r;
}

static int take_flags(struct config_read *read, const struct document_node *value)
{
	int r = check_flags(read, value, "flags");

	if (r == 0)
		r = check_below(read, value, "flags.plugin");
	/* It is another program's. */
	return r == 0 && !read->config->has_mete ? check_below(read, value, "flags.gfd") : r;
}

bool config_is_gpu(const struct document_node *resource)
{
	const struct document_node *name = config_find(resource, "name");

	return name && name->kind == DOCUMENT_TEXT &&
	       (strcmp(name->text, "nvidia.com/gpu") == 0 || strcmp(name->text, "gpu") == 0);
}

int config_take_replicas(struct config_read *read, const struct document_node *value,
			 uint32_t *ret_replicas)
{
	static const char accepted[] = "a whole number from 2 to 1000";
	int r = config_take_slots(read, value, accepted, ret_replicas);

	if (r == 0 && *ret_replicas < 2)
		r = config_refuse(read, value, "is not such a number", accepted);
	return r;
}

int config_each_row(struct config_read *read, const struct document_node *list, config_row *each,
		    void *owner)
{
	int r = config_is_list(read, list, "a list of maps with name and replicas");
	uint32_t index = 0;

	for (const struct document_node *row = list->first; row && r == 0; row = row->next) {
		size_t before = config_enter(read, "[%u]", index++);

		r = each(read, row, owner);
		if (r == 0)
			config_leave(read, before);
	}
	return r;
}

static int take_count(struct config_read *read, const struct document_node *replicas)
{
	uint32_t slots;
	int r = config_take_replicas(read, replicas, &slots);

	if (r < 0)
		return r;
	if (!read->config->slots) {
		read->config->slots = slots;
		return config_warn(read, replicas->line,
				   "used for the key mete.slots, which is not given: %u", slots);
	}
	if (slots == read->config->slots)
		return 0;
	return config_warn(read, replicas->line, "mete.slots applies, which is %u, and not this %u",
			   read->config->slots, slots);
}

int config_check_row(struct config_read *read, const struct document_node *resource,
		     const char *folder, uint32_t *ret_replicas)
{
	int r = check_flags(read, resource, folder);

	return r == 0 ? config_check_values(read, resource, ret_replicas) : r;
}

static int take_row(struct config_read *read, const struct document_node *resource,
		    unused void *owner)
{
	const struct document_node *replicas = config_find(resource, "replicas");
	size_t before;
	int r;

	if (!config_is_gpu(resource))
		return config_warn(read, resource->line,
				   "only the resource nvidia.com/gpu has a meaning for mete");
	if (!replicas)
		return config_wrong(read, resource->line, "the key 'replicas' is missing");
	before = config_enter(read, ".replicas");
	r = take_count(read, replicas);
	if (r == 0)
		config_leave(read, before);
	return r;
}

static int take_time_slicing(struct config_read *read, const struct document_node *value)
{
	const struct document_node *resources = config_find(value, "resources");
	int r = check_flags(read, value, "sharing.timeSlicing");
	size_t before;

	if (r < 0 || !resources || document_is_null(resources))
		return r;
	before = config_enter(read, ".resources");
	r = config_each_row(read, resources, take_row, NULL);
	if (r == 0)
		config_leave(read, before);
	return r;
}

static int take_sharing(struct config_read *read, const struct document_node *value)
{
	const struct document_node *slicing = config_find(value, "timeSlicing"),
				   *mps = config_find(value, "mps");
	int r = check_flags(read, value, "sharing");
	size_t before;

	if (r < 0)
		return r;
	if (mps && !document_is_null(mps)) {
		best_effort(config_enter(read, ".mps"));
		return config_wrong(
			read, mps->line,
			"with the key mete there is no sharing by MPS; accepted: timeSlicing, "
			"or no sharing");
	}
	if (!slicing || document_is_null(slicing))
		return 0;
	before = config_enter(read, ".timeSlicing");
	r = take_time_slicing(read, slicing);
	if (r == 0)
		config_leave(read, before);
	return r;
}

static int take_version(struct config_read *read, const struct document_node *value)
{
	if (value->kind != DOCUMENT_TEXT)
		return config_wrong(read, value->line, "this is not a version; accepted: v1");
	if (*value->text && !document_is_null(value) && strcmp(value->text, "v1") != 0)
		return config_refuse(read, value, "is not known", "v1");
	return 0;
}

/* Warns about misspelt keys. The values are taken later. */
static int check_sharing(struct config_read *read, const struct document_node *value)
{
	int r = check_flags(read, value, "sharing");

	if (r == 0)
		r = check_below(read, value, "sharing.timeSlicing");
	return r == 0 ? check_below(read, value, "sharing.mps") : r;
}

/* The values of a file without `mete` are taken in config_without_mete.c. Keys that are ignored get
 * their warnings here. */
static int take_key(struct config_read *read, const struct document_node *value)
{
	bool ours = read->config->has_mete;

	if (strcasecmp(value->key, "version") == 0)
		return take_version(read, value);
	if (strcasecmp(value->key, "flags") == 0)
		return take_flags(read, value);
	if (strcasecmp(value->key, "sharing") == 0)
		return ours ? take_sharing(read, value) : check_sharing(read, value);
	if (!ours && strcasecmp(value->key, "imex") == 0)
		return check_flags(read, value, "imex");
	if (document_is_null(value) || (ours && !value->first))
		return 0;
	if (!ours) {
		int r = config_check_resources(read, value);

		if (r < 0 || !value->first)
			return r;
	}
	return config_warn(read, value->line, "%s",
			   ours ? "this has no meaning for mete and is ignored"
				: "this is ignored, as by NVIDIA's plugin");
}

int config_take_nvidia(struct config_read *read, const struct document_node *value)
{
	static const char *const names[] = {"mete",	 "version", "flags",
					    "resources", "sharing", "imex"};
	const char *nearest;
	size_t before;
	int r;

	for (size_t i = 1; i < ARRAY_SIZE(names); i++) {
		if (strcasecmp(value->key, names[i]) != 0)
			continue;
		read->config->has_nvidia = true;
		before = config_enter(read, "%s", names[i]);
		r = take_key(read, value);
		if (r == 0)
			config_leave(read, before);
		return r;
	}
	nearest = words_nearest(value->key, names, ARRAY_SIZE(names));
	/* A misspelt `mete` would give the whole node another meaning. */
	if (nearest == names[0] && !read->config->has_mete)
		return config_wrong(read, value->line, "there is no key '%s'; the nearest is '%s'",
				    words_show(value->key).text, nearest);
	return warn_key(read, value, names, ARRAY_SIZE(names));
}
