/* SPDX-License-Identifier: Apache-2.0 */
#include "mig/spec.h"

#include <string.h>

#include "base/document.h"
#include "base/words.h"

struct reader {
	const char *file;
	struct fault *why;
};

static int refuse(const struct reader *r, const struct document_node *at, const char *what,
		  const char *accepted)
{
	char shown[80] = "";

	if (at->kind == DOCUMENT_TEXT)
		snprintf(shown, sizeof(shown), " '%s'", words_show(at->text).text);
	return fault_set(r->why, -EINVAL, "%s:%u: %s%s; accepted: %s", r->file, at->line, what,
			 shown, accepted);
}

/* ---- numbers and words ---------------------------------------------------------------------- */

/* A whole number, as C writes it in base 10, 8 or 16. */
static bool read_number(const char *text, const char *until, uint64_t most, uint64_t *ret_value)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*ret_value = strtoull(text, &end, 0);
	return errno == 0 && end == until && *ret_value <= most;
}

static bool is_word(const struct document_node *node, const char *word)
{
	return node->kind == DOCUMENT_TEXT && strcmp(node->text, word) == 0;
}

static int read_switch(const struct reader *r, const struct document_node *node, bool *ret_on)
{
	/* As YAML 1.1 writes booleans. */
	static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "n", "y"};

	for (size_t i = 0; node->plain && i < 3 * ARRAY_SIZE(words); i++) {
		char word[8];

		snprintf(word, sizeof(word), "%s", words[i % ARRAY_SIZE(words)]);
		for (char *c = word; *c && i >= ARRAY_SIZE(words); c++)
			if (c == word || i >= 2 * ARRAY_SIZE(words))
				*c = (char)(*c - 'a' + 'A');
		if (is_word(node, word)) {
			*ret_on = i % 2;
			return 0;
		}
	}
	return refuse(r, node, "mig-enabled", "true or false");
}

/* ---- one row -------------------------------------------------------------------------------- */

static int read_devices(const struct reader *r, const struct document_node *node,
			struct mig_row *row)
{
	static const char accepted[] = "all, or a list of indices of GPUs, such as [0, 1]";
	uint64_t index;

	row->all = is_word(node, "all");
	if (!row->all && node->kind != DOCUMENT_LIST)
		return refuse(r, node, "devices", accepted);
	for (const struct document_node *one = node->first; one; one = one->next) {
		if (one->kind != DOCUMENT_TEXT || !one->plain ||
		    !read_number(one->text, one->text + strlen(one->text), MIG_GPUS_MAX - 1,
				 &index))
			return refuse(r, one, "devices", accepted);
		row->device |= 1ull << index;
	}
	return 0;
}

static bool read_filter(const char *text, struct mig_filter *filter)
{
	const char *colon = strchr(text, ':');
	uint64_t id, board = 0;

	if (!read_number(text, colon ? colon : text + strlen(text), UINT32_MAX, &id))
		return false;
	if (colon && !read_number(colon + 1, text + strlen(text), UINT32_MAX, &board))
		return false;
	*filter = (struct mig_filter){{(uint32_t)id, (uint32_t)board}, colon != NULL};
	return true;
}

static int add_filter(const struct reader *r, const struct document_node *node, struct mig_row *row)
{
	if (row->filters == MIG_FILTERS_MAX)
		return refuse(r, node, "device-filter is too long", "64 models");
	if (node->kind != DOCUMENT_TEXT || !read_filter(node->text, &row->filter[row->filters]))
		return refuse(r, node, "device-filter",
			      "a model as the PCI bus numbers it (0x233010DE), or a list of them, "
			      "each perhaps with its board (0x233010DE:0x16C110DE)");
	row->filters++;
	return 0;
}

static int read_filters(const struct reader *r, const struct document_node *node,
			struct mig_row *row)
{
	int ret = 0;

	/* An empty text filters nothing. */
	if (is_word(node, "") || document_is_null(node))
		return 0;
	if (node->kind != DOCUMENT_LIST)
		return add_filter(r, node, row);
	for (node = node->first; node && ret == 0; node = node->next)
		ret = add_filter(r, node, row);
	return ret;
}

static const char *skip_digits(const char *at)
{
	while (*at >= '0' && *at <= '9')
		at++;
	return at;
}

/* "1c.2g.10gb+me": whether it can be a profile; whether a GPU has it, only its driver says. */
static bool is_profile(const char *text)
{
	const char *at = skip_digits(text);

	if (at > text && strncmp(at, "c.", 2) == 0) {
		text = at + 2;
		at = skip_digits(text);
	}
	if (at == text || strncmp(at, "g.", 2) != 0)
		return false;
	text = at + 2;
	at = skip_digits(text);
	if (at == text || strncmp(at, "gb", 2) != 0)
		return false;
	at += 2;
	if (*at == '+' || *at == '-')
		at += 1 + strspn(at + 1, "abcdefghijklmnopqrstuvwxyz0123456789.,");
	return !*at && at[-1] != '+' && at[-1] != '-';
}

static int read_count(const struct reader *r, const struct document_node *node,
		      struct mig_wish *wish)
{
	struct mig_count *kind = &wish->kind[wish->kinds];
	uint64_t count;

	if (!is_profile(node->key) || strlen(node->key) >= MIG_NAME_MAX)
		return fault_set(r->why, -EINVAL,
				 "%s:%u: mig-devices: '%s' is no profile; accepted: names such as "
				 "1g.10gb or 1g.10gb+me",
				 r->file, node->line, words_show(node->key).text);
	if (node->kind != DOCUMENT_TEXT || !node->plain ||
	    !read_number(node->text, node->text + strlen(node->text), UINT32_MAX, &count))
		return refuse(r, node, "the number of parts", "a whole number");
	for (uint32_t i = 0; i < wish->kinds; i++)
		if (strcmp(wish->kind[i].name, node->key) == 0)
			return refuse(r, node, "the profile is there twice", "one number for each");
	if (wish->kinds == MIG_KINDS_MAX)
		return refuse(r, node, "there are too many profiles", "32 for a row");
	if (count) {
		snprintf(kind->name, sizeof(kind->name), "%s", node->key);
		kind->count = (uint32_t)count;
		wish->kinds++;
	}
	return 0;
}

static int read_counts(const struct reader *r, const struct document_node *node,
		       struct mig_wish *wish)
{
	int ret = 0;

	if (document_is_null(node))
		return 0;
	if (node->kind != DOCUMENT_MAP)
		return refuse(r, node, "mig-devices", "a map of profiles and numbers");
	for (const struct document_node *one = node->first; one && ret == 0; one = one->next)
		ret = read_count(r, one, wish);
	if (ret == 0 && node->first && !wish->kinds)
		return refuse(r, node, "mig-devices: all numbers are 0",
			      "at least one part, or mig-devices: {}");
	return ret;
}

struct found {
	const struct document_node *filter, *devices, *enabled, *parts;
};

static int find_keys(const struct reader *r, const struct document_node *node, struct found *found)
{
	const struct {
		const char *key;
		const struct document_node **at;
	} keys[] = {
		{"device-filter", &found->filter},
		{"devices", &found->devices},
		{"mig-enabled", &found->enabled},
		{"mig-devices", &found->parts},
	};

	for (const struct document_node *one = node->first; one; one = one->next) {
		size_t i = 0;

		while (i < ARRAY_SIZE(keys) && strcmp(keys[i].key, one->key) != 0)
			i++;
		if (i == ARRAY_SIZE(keys))
			return fault_set(r->why, -EINVAL,
					 "%s:%u: unknown key '%s'; accepted: device-filter, "
					 "devices, mig-enabled, mig-devices",
					 r->file, one->line, words_show(one->key).text);
		if (*keys[i].at)
			return fault_set(r->why, -EINVAL, "%s:%u: '%s' is there twice", r->file,
					 one->line, one->key);
		*keys[i].at = one;
	}
	return 0;
}

/* Are its profiles there if and only if MIG is to be on? */
static int check_row(const struct reader *r, const struct document_node *node,
		     const struct found *found, const struct mig_row *row)
{
	if (row->wish.enabled && (!found->parts || document_is_null(found->parts)))
		return refuse(r, node, "mig-enabled without mig-devices",
			      "mig-devices with profiles, or {} for none");
	if (!row->wish.enabled && row->wish.kinds)
		return refuse(r, found->parts, "mig-devices beside mig-enabled: false",
			      "no mig-devices there");
	return 0;
}

static int read_row(const struct reader *r, const struct document_node *node, struct mig_row *row)
{
	struct found found = {0};
	int ret;

	if (node->kind != DOCUMENT_MAP)
		return refuse(r, node, "a row of a configuration",
			      "a map with devices and mig-enabled");
	ret = find_keys(r, node, &found);
	if (ret < 0)
		return ret;
	if (!found.devices || !found.enabled)
		return refuse(r, node, "a row lacks a key",
			      "rows with at least devices and mig-enabled");
	ret = read_devices(r, found.devices, row);
	if (ret == 0)
		ret = read_switch(r, found.enabled, &row->wish.enabled);
	if (ret == 0 && found.filter)
		ret = read_filters(r, found.filter, row);
	if (ret == 0 && found.parts)
		ret = read_counts(r, found.parts, &row->wish);
	return ret == 0 ? check_row(r, node, &found, row) : ret;
}

/* ---- the file ------------------------------------------------------------------------------- */

static int read_rows(const struct reader *r, const struct document_node *node,
		     struct mig_spec *spec)
{
	uint32_t rows = 0;
	int ret = 0;

	for (const struct document_node *one = node->first; one; one = one->next)
		rows++;
	if (node->kind != DOCUMENT_LIST || !rows)
		return fault_set(r->why, -EINVAL,
				 "%s:%u: mig-configs: '%s' has no rows; accepted: a list of them",
				 r->file, node->line, words_show(node->key).text);
	spec->row = calloc(rows, sizeof(*spec->row));
	if (!spec->row)
		return fault_set(r->why, -ENOMEM, "out of memory");
	for (const struct document_node *one = node->first; one && ret == 0; one = one->next)
		ret = read_row(r, one, &spec->row[spec->rows++]);
	return ret;
}

static int read_configs(const struct reader *r, const struct document_node *node, const char *name,
			struct mig_spec *ret_spec)
{
	bool only = node->first && !node->first->next;
	int ret = 0;

	if (node->kind != DOCUMENT_MAP || !node->first)
		return refuse(r, node, "mig-configs", "a map with at least one configuration");
	/* All are read: a file with a mistake is refused whichever is asked for. */
	for (const struct document_node *one = node->first; one && ret == 0; one = one->next) {
		owned(mig_spec_done) struct mig_spec spec = {0};

		ret = read_rows(r, one, &spec);
		if (ret < 0 || (*name ? strcmp(name, one->key) != 0 : !only))
			continue;
		snprintf(spec.name, sizeof(spec.name), "%s", one->key);
		mig_spec_done(ret_spec);
		*ret_spec = spec;
		spec.row = NULL;
	}
	if (ret == 0 && !ret_spec->row && !*name)
		return fault_set(r->why, -ENOENT,
				 "%s: it has several configurations, and none is selected",
				 r->file);
	if (ret == 0 && !ret_spec->row)
		return fault_set(r->why, -ENOENT, "%s: it has no configuration '%s'", r->file,
				 words_show(name).text);
	return ret;
}

static int read_file(const struct reader *r, const struct document_node *root, const char *name,
		     struct mig_spec *ret_spec)
{
	const struct document_node *version = NULL, *configs = NULL;

	if (root && root->kind != DOCUMENT_MAP)
		return refuse(r, root, "the file", "a map with version and mig-configs");
	for (const struct document_node *one = root ? root->first : NULL; one; one = one->next) {
		bool is_version = strcmp(one->key, "version") == 0;

		if (!is_version && strcmp(one->key, "mig-configs") != 0)
			return fault_set(r->why, -EINVAL,
					 "%s:%u: unknown key '%s'; accepted: version, mig-configs",
					 r->file, one->line, words_show(one->key).text);
		*(is_version ? &version : &configs) = one;
	}
	if (!version)
		return fault_set(r->why, -EINVAL, "%s: it has no version; accepted: v1", r->file);
	if (!is_word(version, "v1"))
		return refuse(r, version, "version", "v1");
	if (!configs)
		return fault_set(r->why, -EINVAL, "%s: it has no mig-configs", r->file);
	return read_configs(r, configs, name ? name : "", ret_spec);
}

int mig_spec_parse(const char *file, const char *text, size_t size, const char *name,
		   struct mig_spec *ret_spec, struct fault *why)
{
	owned(document_done) struct document document = {0};
	owned(mig_spec_done) struct mig_spec spec = {0};
	const struct reader r = {file, why};
	int ret = document_parse(file, text, size, &document, why);

	if (ret == 0)
		ret = read_file(&r, document.root, name, &spec);
	if (ret < 0)
		return ret;
	*ret_spec = spec;
	spec.row = NULL;
	return 0;
}

void mig_spec_done(struct mig_spec *spec)
{
	free(spec->row);
	*spec = (struct mig_spec){0};
}

bool mig_row_matches(const struct mig_row *row, uint32_t gpu, struct mig_model model)
{
	bool fits = !row->filters;

	for (uint32_t i = 0; i < row->filters && !fits; i++)
		fits = row->filter[i].model.id == model.id &&
		       (!row->filter[i].of_board || row->filter[i].model.board == model.board);
	return fits && (row->all || (gpu < MIG_GPUS_MAX && row->device >> gpu & 1));
}
