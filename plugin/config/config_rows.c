/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of sharing.timeSlicing and sharing.mps in a file without `mete`. What NVIDIA's plugin
 * (v0.20) refuses is refused, also in rows and keys that it then ignores: it would not start with
 * such a file.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/words.h"
#include "plugin/config/config_read.h"

#define DOMAIN "nvidia.com/"

enum { NAME_MOST = 63, UUID_LENGTH = 36 };

int config_find_rows(struct config_read *read, const char *folder,
		     const struct document_node **ret_list)
{
	const struct document_node *map, *list;
	int r = config_setting(read, folder, &map);

	*ret_list = NULL;
	if (r < 0 || !map)
		return r;
	list = config_find(map, "resources");
	if (list && !document_is_null(list) && (list->kind != DOCUMENT_LIST || list->first)) {
		*ret_list = list;
		return 0;
	}
	best_effort(config_enter(read, "%s", folder));
	return config_wrong(read, map->line,
			    "no resources are given; accepted: resources, a list of maps with name "
			    "and replicas");
}

static const char *without_domain(const char *name)
{
	return strncmp(name, DOMAIN, strlen(DOMAIN)) == 0 ? name + strlen(DOMAIN) : name;
}

bool config_is_default_rename(const struct config_read *read, const struct document_node *row,
			      const struct document_node *value)
{
	const struct document_node *name = config_find(row, "name");
	char wanted[NAME_MOST + sizeof(".shared")];

	if (!read->config->as_nvidia.renamed || strcasecmp(value->key, "rename") != 0 ||
	    value->kind != DOCUMENT_TEXT || !name || name->kind != DOCUMENT_TEXT)
		return false;
	snprintf(wanted, sizeof(wanted), "%s.shared", without_domain(name->text));
	return strcmp(without_domain(value->text), wanted) == 0;
}

static int check_name(struct config_read *read, const struct document_node *name)
{
	static const char accepted[] = "a name as " DOMAIN "gpu or " DOMAIN "mig-1g.10gb";
	const char *text;

	if (name->kind != DOCUMENT_TEXT)
		return config_wrong(read, name->line,
				    "the name is not a single value; accepted: %s", accepted);
	text = without_domain(name->text);
	if (strlen(text) + strlen(DOMAIN) > NAME_MOST || !words_is_subdomain(text))
		return config_refuse(read, name, "is no resource's name", accepted);
	return 0;
}

static int check_names(struct config_read *read, const struct document_node *row)
{
	const struct document_node *name = config_find(row, "name"),
				   *other = config_find(row, "rename");
	int r;

	if (!name || document_is_null(name))
		return config_wrong(read, row->line, "the key 'name' is missing");
	r = check_name(read, name);
	return r == 0 && other && !config_is_usual(other, "") ? check_name(read, other) : r;
}

static int check_naming(struct config_read *read, const struct document_node *row)
{
	static const char *const keys[] = {"pattern", "name"};

	if (row->kind != DOCUMENT_MAP)
		return config_wrong(read, row->line,
				    "this is not a map; accepted: a map with pattern and name");
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		const struct document_node *value = config_find(row, keys[i]);

		if (!value || document_is_null(value))
			return config_wrong(read, row->line, "the key '%s' is missing", keys[i]);
	}
	return check_name(read, config_find(row, "name"));
}

static int check_namings(struct config_read *read, const struct document_node *list)
{
	uint32_t index = 0;
	int r = 0;

	if (list->kind != DOCUMENT_LIST)
		return config_wrong(read, list->line,
				    "this is not a list; accepted: a list of maps with pattern and "
				    "name");
	for (const struct document_node *row = list->first; row && r == 0; row = row->next) {
		size_t before = config_enter(read, "[%u]", index++);

		r = check_naming(read, row);
		if (r == 0)
			config_leave(read, before);
	}
	return r;
}

int config_check_resources(struct config_read *read, const struct document_node *value)
{
	static const char *const keys[] = {"gpus", "mig"};
	int r = 0;

	if (value->kind != DOCUMENT_MAP)
		return config_wrong(read, value->line,
				    "this is not a map; accepted: a map with gpus and mig");
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(keys); i++) {
		const struct document_node *list = config_find(value, keys[i]);
		size_t before;

		if (!list || document_is_null(list))
			continue;
		before = config_enter(read, ".%s", keys[i]);
		r = check_namings(read, list);
		if (r == 0)
			config_leave(read, before);
	}
	return r;
}

/* Digits alone, up to `end`. */
static bool is_number(const char *text, const char *end)
{
	const char *at = text;

	while (at < end && isdigit((unsigned char)*at))
		at++;
	return at == end && at > text;
}

static bool is_uuid(const char *text)
{
	for (int i = 0; i < UUID_LENGTH; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (dash ? text[i] != '-' : !isxdigit((unsigned char)text[i]))
			return false;
	}
	return true;
}

/* "GPU-UUID", "MIG-UUID", or "MIG-GPU-UUID/7/0" as older drivers had it. */
static bool is_named(const char *text)
{
	bool part = strncmp(text, "MIG-", 4) == 0,
	     older = part && strncmp(text, "MIG-GPU-", 8) == 0;
	const char *rest, *middle;

	if (!part && strncmp(text, "GPU-", 4) != 0)
		return false;
	text += older ? 8 : 4;
	if (!is_uuid(text))
		return false;
	rest = text + UUID_LENGTH;
	if (!older)
		return !*rest;
	middle = *rest == '/' ? strchr(rest + 1, '/') : NULL;
	return middle && is_number(rest + 1, middle) &&
	       is_number(middle + 1, middle + strlen(middle));
}

/* An index "1", a part's "1:0", or a UUID. */
static bool is_device(const struct document_node *value)
{
	const char *text = value->text, *colon;

	if (value->kind != DOCUMENT_TEXT)
		return false;
	colon = strchr(text, ':');
	if (colon && is_number(text, colon) && is_number(colon + 1, colon + strlen(colon)))
		return true;
	return is_number(text, text + strlen(text)) || is_named(text);
}

static bool is_count(const struct document_node *value)
{
	const char *text = value->text;

	return is_number(text, text + strlen(text)) && text[strspn(text, "0")];
}

static int check_devices(struct config_read *read, const struct document_node *row)
{
	static const char accepted[] = "all, a count, or a list of indices and UUIDs";
	const struct document_node *value = config_find(row, "devices");
	size_t before;

	if (!value || config_is_usual(value, "all"))
		return 0;
	before = config_enter(read, ".devices");
	if (value->kind == DOCUMENT_MAP)
		return config_wrong(read, value->line, "this is a map; accepted: %s", accepted);
	if (value->kind == DOCUMENT_TEXT && !is_count(value))
		return config_refuse(read, value, "names no devices", accepted);
	for (const struct document_node *one = value->first; one; one = one->next)
		if (!is_device(one))
			return one->kind == DOCUMENT_TEXT
				       ? config_refuse(read, one, "names no device", accepted)
				       : config_wrong(read, one->line,
						      "this is not a single value; accepted: %s",
						      accepted);
	config_leave(read, before);
	return 0;
}

int config_check_values(struct config_read *read, const struct document_node *row,
			uint32_t *ret_replicas)
{
	const struct document_node *replicas = config_find(row, "replicas");
	int r = check_names(read, row);

	if (r == 0)
		r = check_devices(read, row);
	if (r == 0 && !replicas)
		r = config_wrong(read, row->line, "the key 'replicas' is missing");
	return r == 0 ? config_take_replicas(read, replicas, ret_replicas) : r;
}
