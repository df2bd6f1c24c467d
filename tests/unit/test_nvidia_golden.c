/* SPDX-License-Identifier: Apache-2.0 */
/* The effects of NVIDIA's configuration, row by row (nvidia_golden.def), and that docs/nvidia.md
 * has every key. */
#include <stdio.h>

#include "base/file.h"
#include "plugin/config/choice.h"
#include "plugin/config/config.h"
#include "plugin/config/config_flags.h"
#include "tests/test.h"

enum { ANSWER = 2048 };

static const char *environment; /* of the row: "NAME=VALUE\n..." */

static char *variable(const char *name)
{
	static char value[256];
	size_t length = strlen(name);

	for (const char *at = environment; *at; at += strcspn(at, "\n") + 1)
		if (strncmp(at, name, length) == 0 && at[length] == '=') {
			at += length + 1;
			snprintf(value, sizeof(value), "%.*s", (int)strcspn(at, "\n"), at);
			return value;
		}
	return NULL;
}

/* A word for each thing that is not as usual. */
struct words {
	char text[ANSWER];
	size_t length;
	bool in_list;
};

static void add(struct words *w, bool said, const char *word, const char *value)
{
	if (said)
		w->length += (size_t)snprintf(w->text + w->length, ANSWER - w->length, "%s%s%s",
					      w->length ? " " : "", word, value);
}

static void add_path(struct words *w, const char *path, const char *usual, const char *word)
{
	add(w, strcmp(path, usual) != 0, word, path);
}

/* Joined by commas, as "list=envvar,cdi-cri". */
static void add_each(struct words *w, const char *name, const bool *said, const char *const *names,
		     size_t count)
{
	bool any = false;

	for (size_t i = 0; i < count; i++) {
		if (!said[i])
			continue;
		if (!any)
			add(w, true, name, names[i]);
		else
			w->length += (size_t)snprintf(w->text + w->length, ANSWER - w->length,
						      ",%s", names[i]);
		any = true;
	}
}

static void add_lists(struct words *w, const struct config_as_nvidia *n)
{
	static const char *const ways[] = {"envvar", "volume-mounts", "cdi-annotations", "cdi-cri"};
	static const char *const xids[] = {"13", "-48", "-79", "none", "all"};
	const bool by[] = {n->envvar, n->volumes, n->annotation, n->cri};
	const bool counts[] = {health_counts(&n->xids, 13), !health_counts(&n->xids, 48),
			       !health_counts(&n->xids, 79), n->xids.none, n->xids.all};

	if (!by[0] || by[1] || by[2] || by[3])
		add_each(w, "list=", by, ways, ARRAY_SIZE(ways));
	add_each(w, "xids=", counts, xids, ARRAY_SIZE(xids));
}

static void add_kinds(struct words *w, const struct config_as_nvidia *n)
{
	for (uint32_t i = 0; i < n->kinds; i++) {
		char text[64];

		snprintf(text, sizeof(text), "%s=%u", n->kind[i].name, n->kind[i].replicas);
		add(w, true, text, "");
	}
	add(w, n->kinds && n->renamed, "renamed", "");
}

static void tell(const struct config *config, struct words *w)
{
	const struct config_as_nvidia *n = &config->as_nvidia;
	char replicas[16];

	add(w, config->waits, "waits", "");
	if (config->has_mete) {
		add(w, true, "mete", "");
		return;
	}
	if (n->mps)
		add(w, true, "mps=", n->mps_root);
	if (n->mps_apart)
		add(w, true, "apart", "");
	if (n->mps_protocol)
		add(w, true, "protocol=", n->mps_protocol == CONFIG_MPS_OLDER ? "2" : "3");
	add(w, n->mig, "mig=",
	    n->mig == CONFIG_MIG_SINGLE ? "single"
					: (n->mig == CONFIG_MIG_MIXED ? "mixed" : "dynamic"));
	add_path(w, config->resource, "nvidia.com/gpu", "resource=");
	snprintf(replicas, sizeof(replicas), "%u", n->replicas);
	add(w, n->replicas, "replicas=", replicas);
	add_kinds(w, n);
	add(w, n->one_only, "one", "");
	add(w, n->packed, "packed", "");
	add(w, n->by_index, "id=index", "");
	add(w, n->specs, "specs", "");
	add(w, n->gdrcopy, "gdrcopy", "");
	add(w, n->gds, "gds", "");
	add(w, n->mofed, "mofed", "");
	add(w, n->imex, "imex", n->imex_required ? "=required" : "");
	add(w, n->hookless, "hookless", "");
	add(w, config->features, "features", "");
	add(w, n->timeless, "timeless", "");
	add_path(w, n->machine_file, "/sys/class/dmi/id/product_name", "machine=");
	add_path(w, n->driver_root, "/", "driver=");
	add_path(w, n->dev_root, "/", "dev=");
	add_path(w, n->inner_root, "/driver-root", "inner=");
	add_path(w, n->prefix, "cdi.k8s.io/", "prefix=");
	add_path(w, n->ctk, "/usr/bin/nvidia-ctk", "ctk=");
	add_lists(w, n);
}

static void check_row(const char *row, const char *file, const char *variables, const char *answer)
{
	const struct config_place place = {.variable = variable};
	owned(config_free) struct config *config = NULL;
	struct words w = {.length = 0};
	struct fault why;

	environment = variables;
	if (config_parse_at("f", file, strlen(file), &place, &config, &why) < 0) {
		add(&w, true, "refused: ", why.text);
	} else {
		tell(config, &w);
		for (uint32_t i = 0; i < config->warnings; i++)
			w.length += (size_t)snprintf(w.text + w.length, ANSWER - w.length, "\n%s",
						     config->warning[i]);
	}
	if (strcmp(w.text, answer) != 0)
		test_fail(__FILE__, __LINE__, "%s: %s [%s]\n gives\n%s\n wanted\n%s", row, file,
			  variables, w.text, answer);
}

TEST(a_configuration_of_nvidias_plugin_means_the_same)
{
	static const struct {
		const char *row, *file, *environment, *answer;
	} rows[] = {
#define GOLDEN(row, file, environment, answer) {row, file, environment, answer},
#include "tests/unit/nvidia_golden.def"
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		check_row(rows[i].row, rows[i].file, rows[i].environment, rows[i].answer);
}

TEST(each_difference_has_a_reason)
{
	static const struct {
		const char *row, *file, *environment, *answer, *reason;
	} rows[] = {
#define DIFFERENT(row, file, environment, answer, reason) {row, file, environment, answer, reason},
#include "tests/unit/nvidia_golden.def"
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		check_row(rows[i].row, rows[i].file, rows[i].environment, rows[i].answer);
		expect(*rows[i].reason);
	}
}

/* "a,b" in place. */
static size_t split(char *text, const char *ret_names[8])
{
	char *rest, *name = strtok_r(text, ",", &rest);
	size_t n = 0;

	for (; name && n < 8; name = strtok_r(NULL, ",", &rest))
		ret_names[n++] = name;
	return n;
}

TEST(a_nodes_named_configuration_is_chosen_as_there)
{
	static const struct {
		const char *row, *names, *label, *usual, *fallbacks, *answer;
	} rows[] = {
#define CHOICE(row, names, label, usual, fallbacks, answer)                                        \
	{row, names, label, usual, fallbacks, answer},
#include "tests/unit/nvidia_golden.def"
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char text[64], said[ANSWER];
		const char *names[8], *name = NULL;
		struct config_choice choice = {.folder = "d",
					       .value = rows[i].label,
					       .usual = rows[i].usual,
					       .fallbacks = rows[i].fallbacks,
					       .names = names};
		struct fault why;

		snprintf(text, sizeof(text), "%s", rows[i].names);
		choice.count = split(text, names);
		if (config_choose(&choice, &name, &why) < 0)
			snprintf(said, sizeof(said), "refused: %s", why.text);
		else
			snprintf(said, sizeof(said), "%s", name ? name : "+");
		if (strcmp(said, rows[i].answer) != 0)
			test_fail(__FILE__, __LINE__, "%s of '%s' gives\n%s\n wanted\n%s",
				  rows[i].row, rows[i].names, said, rows[i].answer);
	}
}

static struct words told; /* set by a command line */

static int tell_set(const char *name, const char *value, unused int overwrite)
{
	char both[ANSWER];

	snprintf(both, sizeof(both), "%s=%s", name, value);
	add(&told, true, both, "");
	return 0;
}

/* The value that was set last, or was there before. */
static char *variable_now(const char *name)
{
	static char value[256];
	char *found = NULL;
	size_t length = strlen(name);

	for (char *at = told.text; (at = strstr(at, name)); at += length)
		found = at[length] == '=' ? at + length + 1 : found;
	if (!found)
		return variable(name);
	snprintf(value, sizeof(value), "%.*s", (int)strcspn(found, " "), found);
	return value;
}

TEST(a_command_line_goes_before_the_environment)
{
	static const struct {
		const char *row, *words, *environment, *answer;
	} rows[] = {
#define COMMAND(row, words, environment, answer) {row, words, environment, answer},
#include "tests/unit/nvidia_golden.def"
	};
	const struct config_flags flags = {tell_set, variable_now};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char text[128], *words[16], *rest;
		int count = 0, from;
		struct fault why;

		snprintf(text, sizeof(text), "%s", rows[i].words);
		for (char *word = strtok_r(text, " ", &rest); word && count < 16;
		     word = strtok_r(NULL, " ", &rest))
			words[count++] = word;
		environment = rows[i].environment;
		told = (struct words){.length = 0};
		if (config_take_flags(&flags, words, count, &from, &why) < 0)
			add(&told, true, "refused: ", why.text);
		else if (from < count)
			add(&told, true, "|", "");
		for (; !strstr(told.text, "refused") && from < count; from++)
			add(&told, true, words[from], "");
		if (strcmp(told.text, rows[i].answer) != 0)
			test_fail(__FILE__, __LINE__, "%s: %s gives\n%s\n wanted\n%s", rows[i].row,
				  rows[i].words, told.text, rows[i].answer);
	}
}

static const struct {
	const char *path, *variable, *use;
} keys[] = {
#define KEY(path, variable, form, normally, without) {path, variable, #without},
#define ALSO(variable, path)			     {path, variable, ""},
#define VARIABLE(name, form, without)		     {"", name, #without},
#include "plugin/config/config_nvidia.def"
};

/* Where meted is: these are in tests/plugin. */
static bool is_of_place(const char *word)
{
	return strcmp(word, "KUBELET_SOCKET") == 0 || strcmp(word, "NODE_NAME") == 0 ||
	       strcmp(word, "KUBECONFIG") == 0;
}

/* Each key and each variable is in a golden row, or in one of those that differ. */
TEST(every_key_has_a_golden_row)
{
	static const char *const rows[] = {
#define GOLDEN(row, file, environment, answer)		    row, file, environment,
#define DIFFERENT(row, file, environment, answer, reason)   row, file, environment,
#define CHOICE(row, names, label, usual, fallbacks, answer) row,
#include "tests/unit/nvidia_golden.def"
	};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		const char *dot = strrchr(keys[i].path, '.');
		const char *word = *keys[i].variable ? keys[i].variable
				   : dot	     ? dot + 1
						     : keys[i].path;
		bool found = is_of_place(word);

		for (size_t j = 0; !found && j < ARRAY_SIZE(rows); j++)
			found = strstr(rows[j], word);
		if (!found)
			test_fail(__FILE__, __LINE__, "%s has no row in nvidia_golden.def", word);
	}
}

/* A row of the page's table: "| `KEY` | `VARIABLE` | ...", with "–" where there is none. */
static bool is_row(const char *text, const char *path, const char *name, const char *use)
{
	char row[256], key[128] = "–", value[128] = "–";

	if (*path)
		snprintf(key, sizeof(key), "`%s`", path);
	if (*name)
		snprintf(value, sizeof(value), "`%s`", name);
	snprintf(row, sizeof(row), "\n| %s | %s | %s |", key, value, use);
	return strstr(text, row);
}

static const char *shown(const char *use)
{
	static const char *const words[][2] = {{"TAKEN", "works"},
					       {"IGNORED", "a warning"},
					       {"THEIRS", "a warning, as there"},
					       {"REFUSED", "refused"},
					       {"", "works"}};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strcmp(use, words[i][0]) == 0)
			return words[i][1];
	return "?";
}

TEST(the_page_has_every_key)
{
	owned(free) char *text = NULL;
	size_t size, rows = 0;

	expect_eq(file_slurp(SOURCE_ROOT "/docs/nvidia.md", 1 << 20, &text, &size), 0);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (!is_row(text, keys[i].path, keys[i].variable, shown(keys[i].use)))
			test_fail(__FILE__, __LINE__, "docs/nvidia.md has no row for '%s' '%s' %s",
				  keys[i].path, keys[i].variable, shown(keys[i].use));
	/* And no other: its rows begin with a key or with "–". */
	for (const char *at = text; (at = strstr(at, "\n| ")); at++)
		rows += at[3] == '`' || strncmp(at + 3, "–", strlen("–")) == 0;
	expect_eq(rows, ARRAY_SIZE(keys));
}

/* Those of the page for pods of GKE and AWS. */
TEST(the_pages_examples_are_true)
{
	static const struct config_label gke[] = {
		{"cloud.google.com/gke-gpu-sharing-strategy", "time-sharing"},
		{"cloud.google.com/gke-max-shared-clients-per-gpu", "4"}};
	static const struct {
		const char *resource;
		uint32_t slots, labelled;
	} wanted[] = {{"k8s.amazonaws.com/vgpu", 10, 10}, {"nvidia.com/gpu", 1, 4}};
	static const char begin[] = "```yaml\n", end[] = "```";
	owned(free) char *text = NULL;
	size_t size, n = 0;

	expect_eq(file_slurp(SOURCE_ROOT "/docs/nvidia.md", 1 << 20, &text, &size), 0);
	for (const char *at = text; (at = strstr(at, begin)); n++) {
		const char *from = at + strlen(begin);
		size_t length = (size_t)(strstr(from, end) - from);

		expect(n < ARRAY_SIZE(wanted));
		for (size_t labels = 0; labels <= ARRAY_SIZE(gke); labels += ARRAY_SIZE(gke)) {
			owned(config_free) struct config *config = NULL;
			struct fault why = {.text = ""};

			if (config_parse("page", from, length, gke, labels, &config, &why) < 0)
				test_fail(__FILE__, __LINE__, "%s", why.text);
			expect_str(config->resource, wanted[n].resource);
			expect_eq(config->slots, labels ? wanted[n].labelled : wanted[n].slots);
		}
		at = from + length + strlen(end);
	}
	expect_eq(n, ARRAY_SIZE(wanted));
}
