/* SPDX-License-Identifier: Apache-2.0 */
/* The lists: devices, profiles and nodes. */
#include <string.h>

#include "base/words.h"
#include "plugin/config/config_read.h"

static const char *const rule_names[] = {
#define RULE(name, kind, field, accepted) #name,
#include "plugin/config/config_keys.def"
};

static const char *const profile_names[] = {
#define PROFILE(name, kind, field, accepted) #name,
#include "plugin/config/config_keys.def"
};

/* In the order of the table: the keys of `mete` come first. */
static const char *const node_names[] = {
#define METE(name, kind, field, accepted) #name,
#define NODE(name, kind, field, accepted) #name,
#include "plugin/config/config_keys.def"
};

static int take_rule(struct config_read *read, size_t index, const struct document_node *value,
		     void *owner)
{
	struct config_rule *rule = owner;
	size_t i = 0;

#define RULE(name, kind, field, accepted)                                                          \
	if (i++ == index)                                                                          \
		return config_take_##kind(read, value, accepted, &rule->field);
#include "plugin/config/config_keys.def"
	return 0;
}

static int take_profile(struct config_read *read, size_t index, const struct document_node *value,
			void *owner)
{
	struct config_profile *profile = owner;
	size_t i = 0;

#define PROFILE(name, kind, field, accepted)                                                       \
	if (i++ == index)                                                                          \
		return config_take_##kind(read, value, accepted, &profile->field);
#include "plugin/config/config_keys.def"
	return 0;
}

static int missing(struct config_read *read, uint32_t line, const char *key)
{
	return config_wrong(read, line, "the key '%s' is missing", key);
}

static int take_one_rule(struct config_read *read, const struct document_node *value,
			 struct config_rule *rule)
{
	static const struct config_section section = {rule_names, ARRAY_SIZE(rule_names),
						      take_rule};
	int r;

	rule->line = value->line;
	r = config_walk(read, value, &section, rule);
	if (r < 0)
		return r;
	if (!rule->match)
		return missing(read, value->line, "match");
	if (rule->hidden && rule->slots)
		return config_wrong(read, value->line,
				    "'share: none' has slots; accepted: one of both");
	return 0;
}

int config_take_devices(struct config_read *read, const struct document_node *value,
			const char *accepted, uint32_t *field)
{
	struct config_rule fresh[CONFIG_RULES_MAX] = {0};
	uint32_t count = 0, before = *field;
	int r = config_is_list(read, value, accepted);

	for (const struct document_node *one = value->first; one && r == 0; one = one->next) {
		size_t path = config_enter(read, "[%u]", count);

		if (count + before == CONFIG_RULES_MAX)
			return config_wrong(read, one->line, "too many; accepted: at most %d",
					    CONFIG_RULES_MAX);
		r = take_one_rule(read, one, &fresh[count++]);
		if (r == 0)
			config_leave(read, path);
	}
	if (r < 0)
		return r;
	/* Rules in `nodes` go before those for all nodes, because the first match counts. */
	memmove(read->config->rule + count, read->config->rule, before * sizeof(*fresh));
	memcpy(read->config->rule, fresh, count * sizeof(*fresh));
	*field = before + count;
	return 0;
}

static bool is_named(const struct config_profile *profiles, uint32_t count, const char *name)
{
	for (uint32_t i = 0; i < count; i++)
		if (strcmp(profiles[i].name, name) == 0)
			return true;
	return false;
}

static int take_one_profile(struct config_read *read, const struct document_node *value,
			    struct config_profile *profiles, uint32_t count)
{
	enum { UNSAID = UINT16_MAX };
	static const struct config_section section = {profile_names, ARRAY_SIZE(profile_names),
						      take_profile};
	struct config_profile *profile = &profiles[count];
	int r;

	*profile = (struct config_profile){
		.days = 0x7f, .from_minute = UNSAID, .to_minute = UNSAID, .line = value->line};
	r = config_walk(read, value, &section, profile);
	if (r < 0)
		return r;
	if (!profile->name)
		return missing(read, value->line, "name");
	if (profile->from_minute == UNSAID)
		return missing(read, value->line, "from");
	if (profile->to_minute == UNSAID)
		return missing(read, value->line, "to");
	if (is_named(profiles, count, profile->name))
		return config_wrong(read, value->line, "there is already a profile '%s'",
				    profile->name);
	return 0;
}

int config_take_profiles(struct config_read *read, const struct document_node *value,
			 const char *accepted, uint32_t *field)
{
	struct config_profile fresh[CONFIG_PROFILES_MAX];
	struct config *config = read->config;
	uint32_t count = 0, all;
	int r = config_is_list(read, value, accepted);

	for (const struct document_node *one = value->first; one && r == 0; one = one->next) {
		size_t path = config_enter(read, "[%u]", count);

		if (count == CONFIG_PROFILES_MAX)
			return config_wrong(read, one->line, "too many; accepted: at most %d",
					    CONFIG_PROFILES_MAX);
		r = take_one_profile(read, one, fresh, count++);
		if (r == 0)
			config_leave(read, path);
	}
	if (r < 0)
		return r;
	/* Profiles in `nodes` go before those for all nodes, and replace those with the same
	 * name. */
	all = count;
	for (uint32_t i = 0; i < config->profiles; i++) {
		if (is_named(fresh, count, config->profile[i].name))
			continue;
		if (all == CONFIG_PROFILES_MAX)
			return config_wrong(
				read, value->line,
				"too many with those for all nodes; accepted: at most %d",
				CONFIG_PROFILES_MAX);
		fresh[all++] = config->profile[i];
	}
	memcpy(config->profile, fresh, all * sizeof(*fresh));
	*field = all;
	return 0;
}

static const char *label_of(const struct config_read *read, const char *key)
{
	for (size_t i = 0; i < read->label_count; i++)
		if (strcmp(read->labels[i].key, key) == 0)
			return read->labels[i].value;
	return NULL;
}

static int take_labels(struct config_read *read, const struct document_node *value,
		       const char *accepted)
{
	uint32_t count = 0;

	if (value->kind != DOCUMENT_MAP || !value->first)
		return config_wrong(read, value->line, "no label is given; accepted: %s", accepted);
	read->labels_said = read->labels_met = true;
	for (const struct document_node *label = value->first; label; label = label->next) {
		const char *has = label_of(read, label->key);

		if (++count > CONFIG_LABELS_MAX)
			return config_wrong(read, label->line, "too many labels; accepted: %s",
					    accepted);
		for (const struct document_node *same = value->first; same != label;
		     same = same->next)
			if (strcmp(same->key, label->key) == 0)
				return config_wrong(read, label->line,
						    "the label '%s' appears twice; accepted: once",
						    words_show(label->key).text);
		/* A label's value may be empty (""). A missing value is a mistake of the
		 * author or of a template. */
		if (label->kind != DOCUMENT_TEXT || document_is_null(label))
			return config_wrong(read, label->line,
					    "the label '%s' has no value; accepted: %s",
					    words_show(label->key).text, accepted);
		if (!has || strcmp(has, label->text) != 0)
			read->labels_met = false;
	}
	return 0;
}

static int take_node(struct config_read *read, size_t index, const struct document_node *value,
		     void *owner)
{
	static const char *const accepted[] = {
#define NODE(name, kind, field, accepted) accepted,
#include "plugin/config/config_keys.def"
	};

	if (index < config_mete_section.count)
		return config_mete_section.value(read, index, value, owner);
	return take_labels(read, value, accepted[index - config_mete_section.count]);
}

static int lay_one(struct config_read *read, const struct document_node *value)
{
	static const struct config_section section = {node_names, ARRAY_SIZE(node_names),
						      take_node};
	int r;

	read->labels_said = false;
	r = config_walk(read, value, &section, NULL);
	if (r == 0 && !read->labels_said)
		return missing(read, value->line, "labels");
	return r < 0 ? r : config_check_sums(read->config, read->why);
}

int config_lay_node(struct config_read *read)
{
	const struct document_node *nodes = read->nodes;
	owned(free) struct config *base = malloc(sizeof(*base));
	owned(free) struct config *chosen = NULL;
	uint32_t count = 0;
	int r;

	if (!base)
		return fault_set(read->why, -ENOMEM, "%s: out of memory", read->name);
	*base = *read->config;
	read->in_node = true;
	best_effort(config_enter(read, "mete.nodes"));
	for (const struct document_node *one = nodes->first; one; one = one->next) {
		size_t path = config_enter(read, "[%u]", count);

		if (count++ == CONFIG_NODES_MAX)
			return config_wrong(read, one->line, "too many; accepted: at most %d",
					    CONFIG_NODES_MAX);
		*read->config = *base;
		r = lay_one(read, one);
		if (r < 0)
			return r;
		config_leave(read, path);
		if (!read->labels_met || chosen)
			continue;
		chosen = malloc(sizeof(*chosen));
		if (!chosen)
			return fault_set(read->why, -ENOMEM, "%s: out of memory", read->name);
		*chosen = *read->config;
	}
	*read->config = chosen ? *chosen : *base;
	return 0;
}
