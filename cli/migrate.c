/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mete migrate: the kustomization that replaces NVIDIA's device plugin, and what will differ. The
 * differences come from the parser of the configuration itself (plugin/config/), run with the
 * environment and the options of the existing DaemonSet.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/words.h"
#include "cli/cli.h"
#include "cli/migrate_discovery.h"
#include "cli/migrate_map.h"
#include "cli/migrate_read.h"
#include "cli/migrate_say.h"
#include "plugin/config/choice.h"
#include "plugin/config/config.h"
#include "plugin/config/config_flags.h"

static struct migrate_settings arg_settings; /* of the DaemonSet: parsers take no owner */
static char arg_mps_root[CONFIG_PATH_MAX];   /* of the first configuration with sharing.mps */

static char *variable(const char *name)
{
	for (uint32_t i = 0; i < arg_settings.count; i++)
		if (strcmp(arg_settings.row[i].name, name) == 0)
			return arg_settings.row[i].value;
	return NULL;
}

static int set(const char *name, const char *value, int overwrite)
{
	struct migrate_setting *row = &arg_settings.row[arg_settings.count];
	char *there = variable(name);

	if (there && !overwrite)
		return 0;
	for (uint32_t i = 0; there && i < arg_settings.count; i++)
		if (arg_settings.row[i].value == there)
			row = &arg_settings.row[i];
	if (!there && arg_settings.count == MIGRATE_SETTINGS)
		return -1;
	snprintf(row->name, sizeof(row->name), "%s", name);
	snprintf(row->value, sizeof(row->value), "%s", value);
	arg_settings.count += !there;
	return 0;
}

/* What the configuration is read with: the kustomization decides where its files are. */
static char *variable_of_others(const char *name)
{
	return migrate_is_of_files(name) ? NULL : variable(name);
}

static const char *text_of(const char *name)
{
	const char *value = variable(name);

	return value ? value : "";
}

/* Of that plugin's own pod: NVIDIA's runtime gives it the GPUs and the driver by them, and the
 * container beside it tells it by a signal that its configuration has changed. meted needs neither.
 * `usual`: the only value that changes nothing; NULL: any. */
static bool is_of_pod(const char *name, const char *value)
{
	static const struct {
		const char *name, *usual;
	} rows[] = {
		{"NVIDIA_VISIBLE_DEVICES", "all"},
		{"NVIDIA_DRIVER_CAPABILITIES", NULL},
		{"NVIDIA_MIG_MONITOR_DEVICES", NULL},
		{"LD_LIBRARY_PATH", NULL},
		{"KUBECONFIG", ""},
		{"ONESHOT", "false"},
		{"SEND_SIGNAL", NULL},
		{"SIGNAL", NULL},
		{"PROCESS_TO_SIGNAL", NULL},
		{"NODE_NAME", NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (strcmp(rows[i].name, name) == 0)
			return !rows[i].usual || strcmp(rows[i].usual, value) == 0;
	return false;
}

static bool is_known(const char *name)
{
	static const char *const names[] = {
#define KEY(path, variable, form, normally, without) variable,
#define ALSO(variable, path)			     variable,
#define VARIABLE(name, form, without)		     name,
#include "plugin/config/config_nvidia.def"
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (*names[i] && strcmp(names[i], name) == 0)
			return true;
	return false;
}

static int take_environment(const struct document_node *container, struct migrate_said *said,
			    struct fault *why)
{
	const struct document_node *row = migrate_at(container, "env", NULL);

	for (row = row ? row->first : NULL; row; row = row->next) {
		const struct document_node *from = migrate_at(row, "valueFrom", NULL);
		const char *name = migrate_text(migrate_at(row, "name", NULL));
		const char *value = migrate_text(migrate_at(row, "value", NULL));
		bool seen = strcmp(name, "NVIDIA_VISIBLE_DEVICES") == 0;

		if (is_of_pod(name, value))
			continue;
		if (seen && !from)
			migrate_say(said,
				    "not carried over: NVIDIA_VISIBLE_DEVICES, by which that "
				    "plugin sees only the GPUs '%s': meted offers all of its node",
				    value);
		else if (!seen && !is_known(name))
			migrate_say(said,
				    "not carried over: the variable %s, which mete does not "
				    "know",
				    name);
		else if (from)
			migrate_say(said,
				    "not carried over: the variable %s, whose value is not in "
				    "the DaemonSet (valueFrom)",
				    name);
		else if (set(name, value, 0) != 0)
			return fault_set(why, -E2BIG, "more than %d variables", MIGRATE_SETTINGS);
	}
	return 0;
}

/* Options are words that begin with a dash, and the values after them. */
static int take_options(const struct document_node *container, const char *key, struct fault *why)
{
	const struct config_flags flags = {set, variable};
	const struct document_node *word = migrate_at(container, key, NULL);
	char *words[MIGRATE_SETTINGS];
	int n = 0, rest;

	word = word ? word->first : NULL;
	while (word && migrate_text(word)[0] != '-')
		word = word->next;
	for (; word && n < MIGRATE_SETTINGS; word = word->next)
		words[n++] = (char *)migrate_text(word);
	return n ? config_take_flags(&flags, words, n, &rest, why) : 0;
}

static int take_command(const struct document_node *container, struct migrate_said *said,
			struct fault *why)
{
	const struct document_node *command = migrate_at(container, "command", NULL);
	const char *first = command && command->first ? migrate_text(command->first) : "";
	const char *slash = strrchr(first, '/'), *name = slash ? slash + 1 : first;
	int r;

	if (strcmp(name, "sh") == 0 || strcmp(name, "bash") == 0) {
		migrate_say(said, "not carried over: options, as a script starts that plugin (%s)",
			    name);
		return 0;
	}
	r = take_options(container, "command", why);
	return r == 0 ? take_options(container, "args", why) : r;
}

/* The Operator would create the DaemonSet again. */
static void say_owner(const struct migrate_objects *objects, struct migrate_said *said)
{
	const struct document_node *owners =
		migrate_at(objects->plugin, "metadata", "ownerReferences", NULL);

	if (owners && owners->first &&
	    strcmp(migrate_text(migrate_at(owners->first, "kind", NULL)), "ClusterPolicy") == 0)
		migrate_say(said,
			    "the DaemonSet is the GPU Operator's, which makes it again: "
			    "instead of deleting it, set spec.devicePlugin.enabled: false in "
			    "the ClusterPolicy; and select nodes by nvidia.com/gpu.present: "
			    "\"true\" if it takes the label below away. If it also "
			    "installs the driver (driver.enabled), say below "
			    "NVIDIA_DRIVER_ROOT: /run/nvidia/driver and CONTAINER_DRIVER_ROOT: "
			    "/host/run/nvidia/driver");
}

static void say_nodes(const struct document_node *pod, struct migrate_said *said)
{
	if (!migrate_selects_nodes(pod))
		migrate_say(said, "that plugin runs on every node, and meted on those with the "
				  "label mete.dev/shared=true: kubectl label nodes NODE "
				  "mete.dev/shared=true");
}

/* What a container takes from elsewhere is not in the DaemonSet. */
static void say_sources(const struct document_node *container, struct migrate_said *said)
{
	const struct document_node *from = migrate_at(container, "envFrom", NULL);

	for (from = from ? from->first : NULL; from; from = from->next) {
		const char *map = migrate_text(migrate_at(from, "configMapRef", "name", NULL)),
			   *secret = migrate_text(migrate_at(from, "secretRef", "name", NULL));

		migrate_say(said,
			    "not carried over: the variables of envFrom, which are in the %s %s",
			    *map ? "ConfigMap" : "Secret", *map ? map : secret);
	}
}

/* The container beside the plugin that chooses a configuration has options of its own. Those that
 * are none of meted's are about the plugin's process. */
static void take_choosers(const struct document_node *container, const char *key,
			  struct migrate_said *said)
{
	const struct config_flags flags = {set, variable};
	const struct document_node *word = migrate_at(container, key, NULL);

	for (word = word ? word->first : NULL; word; word = word->next) {
		char *words[] = {(char *)migrate_text(word), NULL};
		int count = 1, rest;
		struct fault why;

		if (*words[0] != '-')
			continue;
		if (!strchr(words[0], '=') && word->next && migrate_text(word->next)[0] != '-') {
			word = word->next;
			words[count++] = (char *)migrate_text(word);
		}
		if (config_take_flags(&flags, words, count, &rest, &why) < 0)
			migrate_say(said,
				    "not carried over: the option %.*s of config-manager, which "
				    "mete does not know",
				    (int)strcspn(words[0], "="), words[0]);
	}
}

static int take_settings(const struct migrate_objects *objects, struct migrate_said *said,
			 struct fault *why)
{
	const struct document_node *spec =
		migrate_at(objects->plugin, "spec", "template", "spec", NULL);
	const struct document_node *one = migrate_at(spec, "containers", NULL);
	int r = take_command(objects->container, said, why);

	say_owner(objects, said);
	say_nodes(spec, said);
	if (r == 0)
		r = take_environment(objects->container, said, why);
	say_sources(objects->container, said);
	for (one = one ? one->first : NULL; one && r == 0; one = one->next) {
		if (!migrate_runs(one, "config-manager"))
			continue;
		take_choosers(one, "command", said);
		take_choosers(one, "args", said);
		r = take_environment(one, said, why);
		say_sources(one, said);
	}
	if (objects->discovery)
		migrate_discovery(objects->discovery, variable("MIG_STRATEGY"), said);
	return r;
}

/* ---- configurations -------------------------------------------------------------------------- */

/* The kustomization mounts one folder. */
static void take_mps(const char *name, const char *root, struct migrate_said *said)
{
	migrate_say(said,
		    "%s: meted runs MPS's control daemons itself, and limits hold per pod: remove "
		    "the DaemonSet of the control daemon",
		    name);
	if (!*arg_mps_root)
		snprintf(arg_mps_root, sizeof(arg_mps_root), "%s", root);
	else if (strcmp(arg_mps_root, root) != 0)
		migrate_say(said, "%s: mount %s into meted's pod under the same path, too", name,
			    root);
}

/* Whether meted would start with this configuration; prints meted's remarks about it. */
static bool check(const char *name, const char *text, struct migrate_said *said)
{
	const struct config_place place = {.variable = variable_of_others};
	owned(config_free) struct config *config = NULL;
	struct fault why;

	if (config_parse_at(name, text, strlen(text), &place, &config, &why) < 0) {
		migrate_say(said, "refused: %s", why.text);
		return false;
	}
	for (uint32_t i = 0; i < config->warnings; i++)
		migrate_say(said, "%s", config->warning[i]);
	if (config->as_nvidia.mps)
		take_mps(name, config->as_nvidia.mps_root, said);
	return true;
}

/* That names a node's configuration. */
static const char *label_of_nodes(void)
{
	const char *given = variable("NODE_LABEL");

	return given && *given ? given : CHOICE_LABEL;
}

/* Nodes whose label names none of the configurations. */
static void check_nodes(const struct migrate_objects *objects, const struct document_node *data,
			struct migrate_said *said)
{
	const char *key = label_of_nodes();

	for (uint32_t i = 0; i < objects->nodes; i++) {
		const struct document_node *meta = migrate_at(objects->node[i], "metadata", NULL);
		const char *label = migrate_text(migrate_at(meta, "labels", key, NULL));

		if (*label && !migrate_at(data, label, NULL))
			migrate_say(said,
				    "node %s: its label %s names '%s', which is none of the "
				    "configurations: meted waits there",
				    migrate_text(migrate_at(meta, "name", NULL)), key, label);
	}
}

/* The configurations that count; NULL: there is none. */
struct chosen {
	const struct document_node *data;
	const char *key; /* only this one; "": all, among which labels choose */
};

static bool check_all(const struct migrate_objects *objects, const struct chosen *chosen,
		      struct migrate_said *said)
{
	bool good = true;

	if (!chosen->data)
		return check("config.yaml", MIGRATE_NOTHING, said);
	for (const struct document_node *one = chosen->data->first; one; one = one->next)
		if (!*chosen->key || strcmp(one->key, chosen->key) == 0)
			good &= check(one->key, migrate_text(one), said);
	if (!*chosen->key)
		check_nodes(objects, chosen->data, said);
	return good;
}

static int read_all(const struct cli_call *call, struct migrate_objects *objects, struct fault *why)
{
	int r = call->argc ? 0 : migrate_read_cluster(objects, why);

	for (int i = 0; i < call->argc && r == 0; i++)
		r = migrate_read_file(objects, call->argv[i], why);
	if (r < 0 || objects->plugin)
		return r;
	if (objects->stranger)
		return fault_set(
			why, -ENOENT,
			"the DaemonSet %s is AWS's or GKE's own plugin, and none of "
			"NVIDIA's is there: docs/nvidia.md has configurations for its pods",
			migrate_text(migrate_at(objects->stranger, "metadata", "name", NULL)));
	return fault_set(why, -ENOENT,
			 "there is no DaemonSet of NVIDIA's device plugin (an image called "
			 "k8s-device-plugin) %s",
			 call->argc ? "in these files (of a chart and its values: what `helm "
				      "template` prints)"
				    : "in the cluster");
}

static bool has_chooser(const struct migrate_objects *objects)
{
	const struct document_node *one =
		migrate_at(objects->plugin, "spec", "template", "spec", "containers", NULL);

	for (one = one ? one->first : NULL; one; one = one->next)
		if (migrate_runs(one, "config-manager"))
			return true;
	return false;
}

/* Without the container that chooses by the nodes' labels, that plugin has the one file that it is
 * told. */
static int find_data(struct migrate_objects *objects, bool from_cluster, struct chosen *ret,
		     struct fault *why)
{
	const char *folder = text_of("CONFIG_FILE_SRCDIR"), *file = text_of("CONFIG_FILE");
	bool chosen = *folder || has_chooser(objects);
	const char *path = chosen ? folder : file;
	struct migrate_source source;
	int r = 0;

	migrate_find_map(objects, path, chosen, &source);
	if (from_cluster && *source.name) {
		r = migrate_read_map(objects, source.name, why);
		migrate_find_map(objects, path, chosen, &source);
	}
	if (r < 0)
		return r;
	if (*path && !*source.name)
		return fault_set(why, -EINVAL,
				 "that plugin has its configuration from %s, which is in no "
				 "ConfigMap: accepted: one that its DaemonSet mounts there",
				 path);
	if (*source.name && !source.map)
		return fault_set(why, -EINVAL,
				 "the DaemonSet mounts the ConfigMap %s, which is in none of the "
				 "files: give it, too",
				 source.name);
	ret->data = migrate_at(source.map, "data", NULL);
	if (source.map && (!ret->data || ret->data->kind != DOCUMENT_MAP || !ret->data->first))
		return fault_set(why, -EINVAL,
				 "the ConfigMap %s has no configurations: accepted: a map 'data'",
				 source.name);
	ret->key = source.key;
	if (!*source.key || migrate_at(ret->data, source.key, NULL))
		return 0;
	ret->key = "";
	return source.mounted ? fault_set(why, -EINVAL,
					  "that plugin has its configuration from %s, which the "
					  "ConfigMap %s does not have",
					  path, source.name)
			      : 0;
}

static int complain_of(const struct cli_call *call, const char *from)
{
	if (!from)
		return cli_complain(call, CLI_USAGE,
				    "--from is missing; accepted: nvidia, as in: mete migrate "
				    "--from nvidia >kustomization.yaml");
	return cli_complain(call, CLI_USAGE, "--from '%s': accepted: nvidia%s", from,
			    strcasecmp(from, "hami") == 0
				    ? " (from HAMi, by hand: docs/howto-from-hami.md)"
				    : "");
}

int migrate_main(const struct cli_call *call)
{
	owned(migrate_objects_free) struct migrate_objects *objects = calloc(1, sizeof(*objects));
	owned(migrate_said_done) struct migrate_said said = {0};
	const char *from = cli_value(call, "from"), *base = cli_value(call, "base");
	struct chosen chosen = {.key = ""};
	struct fault why;
	bool good;
	int r;

	if (!objects)
		return cli_complain(call, 1, "out of memory");
	if (!from || strcmp(from, "nvidia") != 0)
		return complain_of(call, from);
	r = read_all(call, objects, &why);
	if (r == 0)
		r = take_settings(objects, &said, &why);
	if (r == 0)
		r = find_data(objects, !call->argc, &chosen, &why);
	if (r == 0 && !call->argc)
		r = migrate_read_nodes(objects, label_of_nodes(), &why);
	if (r < 0)
		return cli_fail(call, 1, &why);
	good = check_all(objects, &chosen, &said);
	if (said.failed)
		return cli_complain(call, 1, "out of memory");
	migrate_print(objects,
		      &(struct migrate_kustomization){.data = chosen.data,
						      .key = chosen.key,
						      .mps_root = arg_mps_root,
						      .base = base ? base : "deploy/base"},
		      &arg_settings, &said);
	return good ? 0
		    : cli_complain(call, 1, "meted would not start with this: see `refused` above");
}
