/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/config/config.h"

#include <string.h>

#include "base/words.h"
#include "plugin/config/config_read.h"

enum {
	SLOTS_USUAL = 10,
	OVERCOMMIT_USUAL = 1000,
};

static const char *const mete_names[] = {
#define METE(name, kind, field, accepted) #name,
#include "plugin/config/config_keys.def"
};

int config_take_nodes(struct config_read *read, const struct document_node *value,
		      const char *accepted, unused uint32_t *field)
{
	int r = config_is_list(read, value, accepted);

	/* Read when the rest is known, because its entries override it. */
	if (r == 0)
		read->nodes = value;
	return r;
}

/* The node was found before its labels were read. */
static bool is_for_all_nodes(const char *name)
{
	return strcmp(name, "nodes") == 0 || strcmp(name, "kubeconfig") == 0 ||
	       strcmp(name, "node_name") == 0;
}

static int take_key(struct config_read *read, size_t index, const struct document_node *value,
		    unused void *owner)
{
	size_t i = 0;

	if (read->in_node && is_for_all_nodes(mete_names[index]))
		return config_wrong(read, value->line,
				    "this key is for all nodes; accepted: directly below mete");
	read->config->lines[index] = value->line;
#define METE(name, kind, field, accepted)                                                          \
	if (i++ == index)                                                                          \
		return config_take_##kind(read, value, accepted, &read->config->field);
#include "plugin/config/config_keys.def"
	return 0;
}

const struct config_section config_mete_section = {mete_names, ARRAY_SIZE(mete_names), take_key};

/* A map is expected; an empty value counts as one. */
static int check_root(struct config_read *read, const struct document_node *root)
{
	if (root->kind == DOCUMENT_MAP || document_is_null(root))
		return 0;
	return config_wrong(
		read, root->line,
		"this is a %s; accepted: a map with the keys version and mete, and those of "
		"NVIDIA's device plugin",
		root->kind == DOCUMENT_LIST ? "list" : "single value");
}

static int take_mete(struct config_read *read, const struct document_node *root)
{
	const struct document_node *mete = NULL;
	size_t before;
	int r;

	for (const struct document_node *value = root->first; value; value = value->next) {
		if (strcmp(value->key, "mete") != 0)
			continue;
		if (mete)
			return config_wrong(read, value->line,
					    "the key 'mete' appears twice; accepted: once");
		mete = value;
	}
	if (!mete)
		return 0;
	read->config->has_mete = true;
	read->config->mete_line = mete->line;
	before = config_enter(read, "mete");
	r = config_walk(read, mete, &config_mete_section, NULL);
	if (r == 0)
		config_leave(read, before);
	return r;
}

static int take_keys(struct config_read *read, const struct document_node *root)
{
	int r = check_root(read, root);

	if (r == 0)
		r = take_mete(read, root);
	for (const struct document_node *value = root->first; value && r == 0; value = value->next)
		if (strcmp(value->key, "mete") != 0)
			r = config_take_nvidia(read, value);
	return r == 0 ? config_take_init(read) : r;
}

static int take_all(struct config_read *read, const struct document_node *root)
{
	struct config *config = read->config;
	int r;

	read->root = root;
	r = root ? take_keys(read, root) : 0;
	if (r == 0 && !config->has_mete && config->has_nvidia)
		return config_take_without_mete(read);
	if (r < 0)
		return r;
	if (!config->slots)
		config->slots = SLOTS_USUAL;
	config->by_node = read->nodes && read->nodes->first;
	r = config_check_sums(config, read->why);
	if (r == 0 && read->nodes)
		r = config_lay_node(read);
	if (config->counted == CONFIG_COUNTED_AMOUNTS)
		config->ids = CONFIG_IDS_SLOT;
	return r;
}

static struct config *make_usual(void)
{
	struct config *config = calloc(1, sizeof(*config));

	if (!config)
		return NULL;
	config->resource = "mete.dev/gpu";
	config->domain = "mete.dev";
	config->overcommit_milli = OVERCOMMIT_USUAL;
	config->park_after_ns = config->park_delay_ns = UINT64_MAX;
	config->cdi_folder = "/var/run/cdi";
	config->kubelet_folder = "/var/lib/kubelet";
	config->driver_root = "/";
	config->host_prefix = "";
	config->native_limits = true;
	config->as_nvidia.machine_file = "/sys/class/dmi/id/product_name";
	return config;
}

int config_parse_at(const char *name, const char *text, size_t size,
		    const struct config_place *place, struct config **ret_config, struct fault *why)
{
	owned(config_free) struct config *config = make_usual();
	owned(document_done) struct document document = {0};
	struct config_read read = {
		.name = name,
		.why = why,
		.config = config,
		.labels = place->labels,
		.label_count = place->labels_count,
		.variable = place->variable,
	};
	int r;

	if (!config)
		return fault_set(why, -ENOMEM, "%s: out of memory", name);
	if (size > CONFIG_BYTES_MAX)
		return fault_set(why, -EINVAL, "%s:1: the file has %zu bytes; accepted: at most %d",
				 name, size, CONFIG_BYTES_MAX);
	r = document_parse(name, text, size, &document, why);
	if (r < 0)
		return r;
	r = config_keep(&read, name, &config->name);
	if (r == 0)
		r = take_all(&read, document.root);
	config->memory = read.texts;
	if (r < 0)
		return r;
	*ret_config = take(config);
	return 0;
}

int config_parse(const char *name, const char *text, size_t size, const struct config_label *labels,
		 size_t count, struct config **ret_config, struct fault *why)
{
	const struct config_place place = {.labels = labels, .labels_count = count};

	return config_parse_at(name, text, size, &place, ret_config, why);
}

int config_blame(const struct config *config, const char *key, struct fault *why,
		 const char *format, ...)
{
	uint32_t line = config->mete_line;
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(why->text, sizeof(why->text), format, arguments);
	va_end(arguments);
	for (size_t i = 0; i < CONFIG_KEYS; i++)
		if (words_same(key, mete_names[i]) && config->lines[i])
			line = config->lines[i];
	fault_within(why, "%s%s", line && strcmp(key, "mete") != 0 ? "mete." : "", key);
	if (line)
		fault_within(why, "%s:%u", config->name, line);
	else
		fault_within(why, "%s", config->name);
	return -EINVAL;
}

void config_free(struct config *config)
{
	if (!config)
		return;
	config_texts_free(config->memory);
	free(config);
}
