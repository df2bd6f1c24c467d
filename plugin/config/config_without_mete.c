/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a file without the key `mete` as NVIDIA's device plugin (v0.20) does: it refuses values of
 * the wrong type, and counts a repeated key once. Settings that mete cannot carry out in the same
 * way are refused, too: a node that hands out its GPUs differently from its file is worse than one
 * that hands out none. Each ignored key gets a warning (config_nvidia.c). The environment overrides
 * the file (config_setting.c).
 */
#include <string.h>
#include <strings.h>

#include "plugin/config/config_read.h"
#include "base/words.h"

int config_take_switch(struct config_read *read, const char *path, bool *ret_on)
{
	/* As YAML 1.1 writes booleans, and as Go reads them of a variable. */
	static const char *const of_file[] = {"false", "true", "no", "yes", "off", "on", "n", "y"};
	static const char *const of_variable[] = {"false", "true", "0", "1", "f", "t"};
	const struct document_node *value;
	uint32_t word = 0;
	int r = config_setting(read, path, &value);

	if (r == 0)
		r = config_take_word(read, path, read->from ? of_variable : of_file,
				     read->from ? ARRAY_SIZE(of_variable) : ARRAY_SIZE(of_file),
				     "true or false", &word);
	*ret_on = word % 2;
	return r;
}

int config_take_init(struct config_read *read)
{
	static const char path[] = "flags.failOnInitError";
	const struct document_node *value;
	bool fails = false;
	int r = config_setting(read, path, &value);

	if (r < 0 || !value || (value->kind == DOCUMENT_TEXT && !*value->text))
		return r;
	r = config_take_switch(read, path, &fails);
	read->config->waits = !fails;
	read->from = NULL;
	return r;
}

static int take_switches(struct config_read *read)
{
	struct config_as_nvidia *as_nvidia = &read->config->as_nvidia;
	const struct {
		const char *path;
		bool *field;
	} rows[] = {
		{"flags.gdrcopyEnabled", &as_nvidia->gdrcopy},
		{"flags.gdsEnabled", &as_nvidia->gds},
		{"flags.mofedEnabled", &as_nvidia->mofed},
		{"flags.plugin.passDeviceSpecs", &as_nvidia->specs},
		{"sharing.timeSlicing.renameByDefault", &as_nvidia->renamed},
		{"sharing.timeSlicing.failRequestsGreaterThanOne", &as_nvidia->one_only},
		{"imex.required", &as_nvidia->imex_required},
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(rows); i++)
		r = config_take_switch(read, rows[i].path, rows[i].field);
	return r;
}

static int take_words(struct config_read *read)
{
	static const char *const names[] = {"uuid", "index"};
	static const char *const orders[] = {"distributed", "packed"};
	static const char *const finders[] = {"auto", "nvml"};
	struct config_as_nvidia *as_nvidia = &read->config->as_nvidia;
	uint32_t word;
	int r = config_take_word(read, "flags.plugin.deviceIDStrategy", names, ARRAY_SIZE(names),
				 "uuid or index", &word);

	as_nvidia->by_index = word;
	if (r == 0)
		r = config_take_word(read, "flags.plugin.sharedDevicesAllocationPolicy", orders,
				     ARRAY_SIZE(orders), "distributed or packed", &word);
	as_nvidia->packed = word;
	return r == 0 ? config_take_word(read, "flags.deviceDiscoveryStrategy", finders,
					 ARRAY_SIZE(finders), "auto or nvml", &word)
		      : r;
}

static int take_strategy(struct config_read *read, const struct document_node *value)
{
	struct config_as_nvidia *as_nvidia = &read->config->as_nvidia;
	const struct {
		const char *word;
		bool *field;
	} rows[] = {
		{"envvar", &as_nvidia->envvar},
		{"volume-mounts", &as_nvidia->volumes},
		{"cdi-annotations", &as_nvidia->annotation},
		{"cdi-cri", &as_nvidia->cri},
	};

	for (size_t i = 0; value->kind == DOCUMENT_TEXT && i < ARRAY_SIZE(rows); i++)
		if (strcasecmp(value->text, rows[i].word) == 0) {
			*rows[i].field = true;
			return 0;
		}
	return config_refuse_setting(
		read, value, "flags.plugin.deviceListStrategy",
		"envvar, volume-mounts, cdi-annotations, cdi-cri or a list of them");
}

static int take_strategies(struct config_read *read)
{
	const struct document_node *value;
	struct config_as_nvidia *as_nvidia = &read->config->as_nvidia;
	int r = config_setting(read, "flags.plugin.deviceListStrategy", &value);

	if (r < 0)
		return r;
	if (!value || (value->kind == DOCUMENT_TEXT && !*value->text) ||
	    (value->kind == DOCUMENT_LIST && !value->first)) {
		as_nvidia->envvar = true;
		return 0;
	}
	if (value->kind != DOCUMENT_LIST)
		return take_strategy(read, value);
	for (const struct document_node *one = value->first; one && r == 0; one = one->next)
		r = take_strategy(read, one);
	return r;
}

static int take_mig(struct config_read *read)
{
	static const char *const words[] = {"none", "single", "mixed", "dynamic"};
	uint32_t word;
	int r = config_take_word(read, "flags.migStrategy", words, ARRAY_SIZE(words),
				 "none, single, mixed or dynamic", &word);

	if (r == 0)
		read->config->as_nvidia.mig = (enum config_mig)word;
	return r;
}

/* Takes a path. If it is missing or empty, the field keeps its value. */
int config_take_folder(struct config_read *read, const char *path, const char **field)
{
	const struct document_node *value;
	size_t before;
	int r = config_setting(read, path, &value);

	if (r < 0 || !value || config_is_usual(value, ""))
		return r;
	before = config_enter(read, "%s", path);
	r = config_take_path(read, value, "an absolute path of at most 255 bytes", field);
	if (r == 0)
		config_leave(read, before);
	return r;
}

/* An annotation's name begins with it: a domain and a slash. */
static int take_prefix(struct config_read *read)
{
	static const char path[] = "flags.plugin.cdiAnnotationPrefix";
	static const char accepted[] = "a domain and a slash, as cdi.k8s.io/";
	const struct document_node *value;
	struct words_shown domain = {.text = ""};
	size_t length;
	int r = config_setting(read, path, &value);

	if (r < 0 || !value || config_is_usual(value, ""))
		return r;
	length = value->kind == DOCUMENT_TEXT ? strlen(value->text) : 0;
	if (length > 1 && length < sizeof(domain.text) && value->text[length - 1] == '/')
		snprintf(domain.text, sizeof(domain.text), "%.*s", (int)length - 1, value->text);
	if (!words_is_subdomain(domain.text))
		return config_refuse_setting(read, value, path, accepted);
	return config_keep(read, value->text, &read->config->as_nvidia.prefix);
}

static int take_paths(struct config_read *read)
{
	struct config_as_nvidia *as_nvidia = &read->config->as_nvidia;
	int r;

	as_nvidia->driver_root = "/";
	as_nvidia->inner_root = "/driver-root";
	as_nvidia->ctk = "/usr/bin/nvidia-ctk";
	as_nvidia->prefix = "cdi.k8s.io/";
	r = config_take_folder(read, "flags.nvidiaDriverRoot", &as_nvidia->driver_root);
	as_nvidia->dev_root = as_nvidia->driver_root;
	if (r == 0)
		r = config_take_folder(read, "flags.nvidiaDevRoot", &as_nvidia->dev_root);
	if (r == 0)
		r = config_take_folder(read, "flags.plugin.containerDriverRoot",
				       &as_nvidia->inner_root);
	if (r == 0)
		r = config_take_folder(read, "flags.plugin.nvidiaCTKPath", &as_nvidia->ctk);
	if (r == 0)
		r = config_take_folder(read, "flags.gfd.machineTypeFile", &as_nvidia->machine_file);
	return r == 0 ? take_prefix(read) : r;
}

static int take_imex(struct config_read *read)
{
	static const char path[] = "imex.channelIDs";
	static const char accepted[] = "[] or [0]";
	const struct document_node *value;
	int r = config_setting(read, path, &value);

	if (r < 0 || !value)
		return r;
	if (value->kind != DOCUMENT_LIST) {
		best_effort(config_enter(read, "%s", path));
		return config_wrong(read, value->line, "this is not a list; accepted: %s",
				    accepted);
	}
	for (const struct document_node *id = value->first; id; id = id->next)
		if (id != value->first || id->kind != DOCUMENT_TEXT || strcmp(id->text, "0") != 0)
			return config_refuse_setting(read, id, path, accepted);
	read->config->as_nvidia.imex = value->first;
	return 0;
}

static int take_xids(struct config_read *read)
{
	static const struct {
		const char *name;
		bool counts;
	} rows[] = {{"DP_DISABLE_HEALTHCHECKS", false}, {"DP_ENABLE_HEALTHCHECKS", true}};
	int r = 0;

	for (size_t i = 0; r == 0 && read->variable && i < ARRAY_SIZE(rows); i++) {
		const char *list = read->variable(rows[i].name);

		if (!list || health_xids_add(&read->config->as_nvidia.xids, list, rows[i].counts))
			continue;
		read->from = rows[i].name;
		r = config_warn(
			read, 0,
			"any word that is not a number below %d in it is ignored, as by NVIDIA's "
			"plugin",
			HEALTH_XIDS);
		read->from = NULL;
	}
	return r;
}

static bool is_this(const char *word, size_t length, const char *wanted)
{
	return strlen(wanted) == length && memcmp(word, wanted, length) == 0;
}

/* Of the hooks only one is used: that which updates the linker's cache. */
static int take_hooks(struct config_read *read)
{
	static const char name[] = "CDI_DISABLE_HOOKS";
	const char *list = read->variable ? read->variable(name) : NULL;

	while (list && *list) {
		size_t length = strcspn(list, ", ");

		read->config->as_nvidia.hookless |=
			is_this(list, length, "update-ldcache") || is_this(list, length, "all");
		list += length + (list[length] != '\0');
	}
	return 0;
}

/* Where a resource's replicas are kept: of GPUs, or of a kind of parts. NULL: no room for more. */
static struct config_kind *find_kind(struct config_as_nvidia *alone, const char *name)
{
	uint32_t i = 0;

	while (i < alone->kinds && strcmp(alone->kind[i].name, name) != 0)
		i++;
	if (i == alone->kinds && i < CONFIG_KINDS_MAX)
		alone->kind[alone->kinds++] = (struct config_kind){.name = name};
	return i < CONFIG_KINDS_MAX ? &alone->kind[i] : NULL;
}

/* "mig-1g.10gb" of a row for a kind of parts, with its prefix or without; NULL: it is no such. */
static const char *kind_of(const struct document_node *resource)
{
	const struct document_node *name = config_find(resource, "name");
	const char *text = name && name->kind == DOCUMENT_TEXT ? name->text : "";

	if (strncmp(text, "nvidia.com/", 11) == 0)
		text += 11;
	return strncmp(text, "mig-", 4) == 0 && text[4] ? text : NULL;
}

static int take_replicas(struct config_read *read, const struct document_node *resource,
			 const char *name, uint32_t replicas, struct config_kind *kind)
{
	int r = 0;

	/* The last row counts. */
	if (kind->line)
		r = config_warn(read, resource->line,
				"nvidia.com/%s has a row already, in line %u, which is ignored",
				name, kind->line);
	kind->line = resource->line;
	kind->replicas = replicas;
	return r;
}

static int take_kind(struct config_read *read, const struct document_node *resource,
		     const char *name, uint32_t replicas)
{
	struct config_kind *kind;
	const char *kept = NULL;
	int r;

	if (read->config->as_nvidia.mig == CONFIG_MIG_DYNAMIC)
		return config_wrong(read, resource->line,
				    "nvidia.com/%.40s has no replicas with migStrategy: dynamic; "
				    "accepted: nvidia.com/gpu, or migStrategy: mixed",
				    name);
	if (read->config->as_nvidia.mig != CONFIG_MIG_MIXED)
		return config_warn(read, resource->line,
				   "nvidia.com/%.40s is offered with migStrategy: mixed alone",
				   name);
	r = config_keep(read, name, &kept);
	if (r < 0)
		return r;
	kind = find_kind(&read->config->as_nvidia, kept);
	return kind ? take_replicas(read, resource, kept, replicas, kind)
		    : config_wrong(read, resource->line, "these are more than %d kinds of parts",
				   CONFIG_KINDS_MAX);
}

/* `gpus`: the values of an earlier row for them. */
static int take_row(struct config_read *read, const struct document_node *resource, void *gpus)
{
	const char *name = kind_of(resource);
	uint32_t replicas;
	int r = config_check_row(read, resource, "sharing.timeSlicing.resources[]", &replicas);

	if (r < 0)
		return r;
	if (name)
		return take_kind(read, resource, name, replicas);
	if (!config_is_gpu(resource))
		return config_warn(read, resource->line, "this node offers only nvidia.com/gpu%s",
				   read->config->as_nvidia.mig == CONFIG_MIG_MIXED
					   ? " and nvidia.com/mig-..."
					   : "");
	return take_replicas(read, resource, "gpu", replicas, gpus);
}

static int take_time_slicing(struct config_read *read)
{
	struct config_kind gpus = {.name = "gpu"};
	const struct document_node *list;
	int r = config_find_rows(read, "sharing.timeSlicing", &list);
	size_t before;

	if (r < 0)
		return r;
	before = config_enter(read, "sharing.timeSlicing.resources");
	if (list)
		r = config_each_row(read, list, take_row, &gpus);
	read->config->as_nvidia.replicas = gpus.replicas;
	if (r == 0)
		config_leave(read, before);
	return r;
}

int config_take_without_mete(struct config_read *read)
{
	static int (*const steps[])(struct config_read * read) = {
		take_switches, take_words, take_strategies,   take_mig,
		take_paths,    take_imex,  take_time_slicing, config_take_mps,
		take_xids,     take_hooks, config_take_gfd,
	};
	struct config *config = read->config;
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(steps); i++) {
		read->from = NULL;
		r = steps[i](read);
	}
	if (r == 0)
		r = config_warn_of_variables(read);
	config->slots = config->as_nvidia.replicas ? config->as_nvidia.replicas : 1;
	/* As in NVIDIA's plugin: only shared resources are renamed, and only for them can a
	 * container be limited to one. */
	config->as_nvidia.renamed &= config->as_nvidia.replicas || config->as_nvidia.kinds;
	config->as_nvidia.one_only &= config->as_nvidia.replicas || config->as_nvidia.kinds;
	config->resource = config->as_nvidia.renamed && config->as_nvidia.replicas
				   ? "nvidia.com/gpu.shared"
				   : "nvidia.com/gpu";
	return r;
}
