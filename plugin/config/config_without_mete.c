/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a file without the key `mete` as NVIDIA's device plugin (v0.20) does: it refuses values of
 * the wrong type, and counts a repeated key once. What mete cannot do in the same way it refuses,
 * too: a node that hands out its GPUs differently from its file is worse than one that hands out
 * none. What is ignored is said, key by key (config_nvidia.c), but for flags.gfd, which is for
 * another program.
 */
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "plugin/config/config_read.h"
#include "base/words.h"

enum { PATH_PARTS = 48 };

/* `path` is like "flags.plugin.passDeviceSpecs". NULL: the file has no value for it. */
static const struct document_node *find_path(const struct document_node *root, const char *path)
{
	char parts[2 * PATH_PARTS], *at = parts, *part;

	snprintf(parts, sizeof(parts), "%s", path);
	while (root && (part = strsep(&at, ".")))
		root = config_find(root, part);
	return root && !document_is_null(root) ? root : NULL;
}

static int refuse(struct config_read *read, const struct document_node *value, const char *path,
		  const char *accepted)
{
	best_effort(config_enter(read, "%s", path));
	if (value->kind != DOCUMENT_TEXT)
		return config_wrong(read, value->line, "this is not a single value; accepted: %s",
				    accepted);
	return config_refuse(read, value, "is not supported by mete", accepted);
}

/* Returns the index of the word that the value is, in upper or lower case; -1: it is none of them.
 * A missing or empty value is the first word. */
static int find_word(const struct document_node *value, const char *const *words, size_t count)
{
	if (!value || (value->kind == DOCUMENT_TEXT && !*value->text))
		return 0;
	for (size_t i = 0; value->kind == DOCUMENT_TEXT && i < count; i++)
		if (strcasecmp(value->text, words[i]) == 0)
			return (int)i;
	return -1;
}

/* The spellings of booleans in YAML 1.1. */
static const char *const switches[] = {"false", "true", "no", "yes", "off", "on"};

int config_take_init(struct config_read *read, const struct document_node *root)
{
	static const char path[] = "flags.failOnInitError";
	const struct document_node *value = find_path(root, path);
	int word = find_word(value, switches, ARRAY_SIZE(switches));

	if (!value || (value->kind == DOCUMENT_TEXT && !*value->text))
		return 0;
	if (word < 0)
		return refuse(read, value, path, "true or false");
	read->config->waits = word % 2 == 0;
	return 0;
}

static int take_switches(struct config_read *read, const struct document_node *root)
{
	static const struct {
		const char *path;
		size_t offset;
	} rows[] = {
		{"flags.gdrcopyEnabled", offsetof(struct config_as_nvidia, gdrcopy)},
		{"flags.gdsEnabled", offsetof(struct config_as_nvidia, gds)},
		{"flags.mofedEnabled", offsetof(struct config_as_nvidia, mofed)},
		{"flags.plugin.passDeviceSpecs", offsetof(struct config_as_nvidia, specs)},
		{"sharing.timeSlicing.renameByDefault", offsetof(struct config_as_nvidia, renamed)},
		{"sharing.timeSlicing.failRequestsGreaterThanOne",
		 offsetof(struct config_as_nvidia, one_only)},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct document_node *value = find_path(root, rows[i].path);
		int word = find_word(value, switches, ARRAY_SIZE(switches));

		if (value && word < 0)
			return refuse(read, value, rows[i].path, "true or false");
		*((bool *)((char *)&read->config->as_nvidia + rows[i].offset)) = word % 2;
	}
	return 0;
}

/* Takes one of two words, of which the first is the default. */
static int take_word(struct config_read *read, const struct document_node *root, const char *path,
		     const char *const words[2], const char *accepted, bool *ret_second)
{
	const struct document_node *value = find_path(root, path);
	int word = find_word(value, words, 2);

	if (value && word < 0)
		return refuse(read, value, path, accepted);
	*ret_second = word;
	return 0;
}

static int take_words(struct config_read *read, const struct document_node *root)
{
	static const char *const names[] = {"uuid", "index"};
	static const char *const orders[] = {"distributed", "packed"};
	static const char *const finders[] = {"auto", "nvml"};
	struct config_as_nvidia *as_nvidia = &read->config->as_nvidia;
	bool nvml;
	int r = take_word(read, root, "flags.plugin.deviceIDStrategy", names, "uuid or index",
			  &as_nvidia->by_index);

	if (r == 0)
		r = take_word(read, root, "flags.plugin.sharedDevicesAllocationPolicy", orders,
			      "distributed or packed", &as_nvidia->packed);
	return r == 0 ? take_word(read, root, "flags.deviceDiscoveryStrategy", finders,
				  "auto or nvml", &nvml)
		      : r;
}

static int take_strategy(struct config_read *read, const struct document_node *value)
{
	static const char *const words[] = {"envvar", "volume-mounts"};
	int word = find_word(value, words, ARRAY_SIZE(words));

	if (value && word < 0)
		return refuse(read, value, "flags.plugin.deviceListStrategy",
			      "envvar, volume-mounts or both: CDI files of the driver are made "
			      "with the key mete only");
	read->config->as_nvidia.volumes |= word == 1;
	return 0;
}

static int take_strategies(struct config_read *read, const struct document_node *root)
{
	const struct document_node *value = find_path(root, "flags.plugin.deviceListStrategy");
	int r = 0;

	if (!value || value->kind != DOCUMENT_LIST)
		return take_strategy(read, value);
	for (const struct document_node *one = value->first; one && r == 0; one = one->next)
		r = take_strategy(read, one);
	return r;
}

/* Here nobody offers parts of a GPU. A GPU without parts behaves as without this flag. */
static int take_mig(struct config_read *read, const struct document_node *root)
{
	static const char *const words[] = {"none", "single", "mixed"};
	const struct document_node *value = find_path(root, "flags.migStrategy");
	int word = find_word(value, words, ARRAY_SIZE(words));

	if (value && word < 0)
		return refuse(read, value, "flags.migStrategy", "none, single or mixed");
	if (!value || word == 0)
		return 0;
	return config_warn(read, value->line,
			   "flags.migStrategy: mete offers whole GPUs; what a GPU is divided into "
			   "is not offered");
}

static int take_root(struct config_read *read, const struct document_node *root)
{
	static const char *const paths[] = {"flags.nvidiaDevRoot", "flags.nvidiaDriverRoot"};
	static const char accepted[] = "an absolute path of at most 255 bytes";

	read->config->as_nvidia.dev_root = "/";
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		const struct document_node *value = find_path(root, paths[i]);
		size_t before;
		int r;

		if (!value || config_is_usual(value, ""))
			continue;
		before = config_enter(read, "%s", paths[i]);
		r = config_take_path(read, value, accepted, &read->config->as_nvidia.dev_root);
		if (r == 0)
			config_leave(read, before);
		return r;
	}
	return 0;
}

/* `before`: an earlier row for it, or NULL. The last one counts. */
static int take_row(struct config_read *read, const struct document_node *resource, void *owner)
{
	const struct document_node **before = owner;
	const struct document_node *replicas = config_find(resource, "replicas");
	const struct document_node *devices = config_find(resource, "devices");
	int r = config_check_row(read, resource);

	if (r < 0)
		return r;
	if (!config_is_gpu(resource))
		return config_warn(read, resource->line, "this node offers only nvidia.com/gpu");
	if (!replicas)
		return config_wrong(read, resource->line, "the key 'replicas' is missing");
	if (*before)
		r = config_warn(read, resource->line,
				"nvidia.com/gpu has a row already, in line %u, which is ignored",
				(*before)->line);
	*before = resource;
	if (r == 0)
		r = config_take_replicas(read, replicas, &read->config->as_nvidia.replicas);
	if (r == 0 && devices && !config_is_usual(devices, "all"))
		r = config_warn(read, devices->line, "all devices are shared, and not these only");
	return r;
}

static int take_time_slicing(struct config_read *read, const struct document_node *root)
{
	static const char path[] = "sharing.timeSlicing.resources";
	const struct document_node *list = find_path(root, path), *row = NULL;
	size_t before = config_enter(read, "%s", path);
	int r = list ? config_each_row(read, list, take_row, &row) : 0;

	if (r == 0)
		config_leave(read, before);
	return r;
}

/* Refuses what needs another of NVIDIA's programs beside the plugin. */
static int refuse_others(struct config_read *read, const struct document_node *root)
{
	const struct document_node *mps = find_path(root, "sharing.mps.resources");
	const struct document_node *imex = find_path(root, "imex.channelIDs");

	if (mps && mps->first) {
		best_effort(config_enter(read, "sharing.mps"));
		return config_wrong(
			read, mps->line,
			"mete starts no MPS; accepted: timeSlicing, no sharing, or the key mete, "
			"whose slots have their own memory and time (slots: 4, share: {memory: "
			"25%%, "
			"cap: 25%%})");
	}
	if (imex && (imex->kind != DOCUMENT_LIST || imex->first)) {
		best_effort(config_enter(read, "imex.channelIDs"));
		return config_wrong(read, imex->line,
				    "mete provides no IMEX channels; accepted: [], or no such key");
	}
	return 0;
}

int config_take_without_mete(struct config_read *read, const struct document_node *root)
{
	struct config *config = read->config;
	int r = refuse_others(read, root);

	if (r == 0)
		r = take_switches(read, root);
	if (r == 0)
		r = take_words(read, root);
	if (r == 0)
		r = take_strategies(read, root);
	if (r == 0)
		r = take_mig(read, root);
	if (r == 0)
		r = take_root(read, root);
	if (r == 0)
		r = take_time_slicing(read, root);
	config->slots = config->as_nvidia.replicas ? config->as_nvidia.replicas : 1;
	/* As in NVIDIA's plugin: only shared resources are renamed, and only for them can a
	 * container be limited to one. */
	config->as_nvidia.renamed &= config->as_nvidia.replicas != 0;
	config->as_nvidia.one_only &= config->as_nvidia.replicas != 0;
	config->resource = config->as_nvidia.renamed ? "nvidia.com/gpu.shared" : "nvidia.com/gpu";
	return r;
}
