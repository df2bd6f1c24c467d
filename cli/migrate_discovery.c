/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPU feature discovery, which gives nodes the labels that pods select them by. It is another
 * DaemonSet with variables (GFD_...) and options of its own. Those that meted follows as well are
 * written into the line that turns its labels on; of each other one it is said that it goes.
 */
#include "cli/migrate_discovery.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { KEYS_BYTES = 300, WORD_BYTES = 64 };

/* key: below flags.gfd, where meted follows it; NULL: nowhere. usual: the value that changes
 * nothing. */
static const struct row {
	const char *variable, *option, *key, *usual;
	bool turned; /* an option without a value turns it on */
} rows[] = {
	{"GFD_NO_TIMESTAMP", "no-timestamp", "noTimestamp", "false", true},
	{"GFD_MACHINE_TYPE_FILE", "machine-type-file", "machineTypeFile",
	 "/sys/class/dmi/id/product_name", false},
	{"GFD_ONESHOT", "oneshot", NULL, "false", true},
	{"GFD_SLEEP_INTERVAL", "sleep-interval", NULL, "60s", false},
	{"GFD_OUTPUT_FILE", "output-file", NULL,
	 "/etc/kubernetes/node-feature-discovery/features.d/gfd", false},
	{"GFD_USE_NODE_FEATURE_API", "use-node-feature-api", NULL, "true", true},
	{"USE_NODE_FEATURE_API", "", NULL, "true", true},
	{"GFD_FAIL_ON_INIT_ERROR", "fail-on-init-error", NULL, "true", true},
	{"FAIL_ON_INIT_ERROR", "", NULL, "true", true},
	{"DEVICE_DISCOVERY_STRATEGY", "device-discovery-strategy", NULL, "auto", false},
	/* Said of the plugin, or of the pod: not of the labels. */
	{"DRIVER_ROOT_CTR_PATH", "driver-root-ctr-path", NULL, "", false},
	{"CONTAINER_DRIVER_ROOT", "container-driver-root", NULL, "", false},
	{"GFD_CONFIG_FILE", "config-file", NULL, "", false},
	{"CONFIG_FILE", "", NULL, "", false},
	{"NODE_NAME", "node-name", NULL, "", false},
	{"POD_NAME", "pod-name", NULL, "", false},
	{"NAMESPACE", "namespace", NULL, "", false},
	{"NVIDIA_MIG_MONITOR_DEVICES", "", NULL, "", false},
};

struct reading {
	struct migrate_said *said;
	const char *name, *strategy;
	char keys[KEYS_BYTES]; /* "noTimestamp: true, machineTypeFile: \"/x\"" */
	bool given[ARRAY_SIZE(rows)];
};

static void take_row(struct reading *r, const struct row *row, const char *as, const char *value)
{
	size_t n = strlen(r->keys);

	bool given = r->given[row - rows];

	/* Options come first, and go before variables. */
	r->given[row - rows] = true;
	if (given || !*row->usual || strcasecmp(value, row->usual) == 0)
		return;
	if (!row->key) {
		migrate_say(r->said,
			    "not carried over from the DaemonSet %s: %s, which has no meaning for "
			    "mete: it writes labels to the node when something changes",
			    r->name, as);
		return;
	}
	snprintf(r->keys + n, sizeof(r->keys) - n, "%s%s: %s%s%s", n ? ", " : "", row->key,
		 row->turned ? "" : "\"", value, row->turned ? "" : "\"");
}

/* Labels of parts follow the plugin's strategy. */
static void take_strategy(struct reading *r, const char *as, const char *value)
{
	if (strcmp(value, r->strategy) != 0)
		migrate_say(r->said,
			    "the DaemonSet %s has %s '%s': meted's labels follow the plugin's, "
			    "which is %s%s%s",
			    r->name, as, value, *r->strategy ? "'" : "",
			    *r->strategy ? r->strategy : "that of the configuration",
			    *r->strategy ? "'" : "");
}

static void say_unknown(struct reading *r, const char *as)
{
	migrate_say(r->said, "not carried over from the DaemonSet %s: %s, which mete does not know",
		    r->name, as);
}

/* By the variable's name, or the option's. */
static void take_named(struct reading *r, const char *name, bool is_option, const char *value)
{
	char as[WORD_BYTES];

	snprintf(as, sizeof(as), "%s%.50s", is_option ? "--" : "", name);
	if (strcmp(name, is_option ? "mig-strategy" : "MIG_STRATEGY") == 0 ||
	    strcmp(name, "GFD_MIG_STRATEGY") == 0) {
		take_strategy(r, as, value);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (strcmp(name, is_option ? rows[i].option : rows[i].variable) == 0) {
			take_row(r, &rows[i], as, value);
			return;
		}
	say_unknown(r, as);
}

static void take_environment(struct reading *r, const struct document_node *container)
{
	const struct document_node *row = migrate_at(container, "env", NULL);

	for (row = row ? row->first : NULL; row; row = row->next)
		if (!migrate_at(row, "valueFrom", NULL))
			take_named(r, migrate_text(migrate_at(row, "name", NULL)), false,
				   migrate_text(migrate_at(row, "value", NULL)));
}

static bool is_turned(const char *option)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (strcmp(option, rows[i].option) == 0)
			return rows[i].turned;
	return false;
}

static void take_options(struct reading *r, const struct document_node *words)
{
	for (words = words ? words->first : NULL; words; words = words->next) {
		const char *word = migrate_text(words), *value = strchr(word, '=');
		char name[WORD_BYTES];

		if (*word != '-')
			continue;
		word += strspn(word, "-");
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="), word);
		if (value)
			value++;
		else if (is_turned(name))
			value = "true";
		else if (words->next) {
			words = words->next;
			value = migrate_text(words);
		}
		take_named(r, name, true, value ? value : "");
	}
}

void migrate_discovery(const struct document_node *set, const char *strategy,
		       struct migrate_said *said)
{
	struct reading r = {.said = said,
			    .name = migrate_text(migrate_at(set, "metadata", "name", NULL)),
			    .strategy = strategy ? strategy : ""};
	const struct document_node *one =
		migrate_at(set, "spec", "template", "spec", "containers", NULL);

	for (one = one ? one->first : NULL; one; one = one->next) {
		if (!migrate_runs(one, "gpu-feature-discovery") ||
		    migrate_runs(one, "config-manager"))
			continue;
		take_options(&r, migrate_at(one, "command", NULL));
		take_options(&r, migrate_at(one, "args", NULL));
		take_environment(&r, one);
	}
	migrate_say(said,
		    "the DaemonSet %s runs GPU feature discovery, and may go on: its labels go "
		    "with it. Before it goes, write 'gfd: {%s}' below the flags of each "
		    "configuration, and meted gives the nodes these labels",
		    r.name, r.keys);
}
