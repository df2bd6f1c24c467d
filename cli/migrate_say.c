/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/migrate_say.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A variable concerns every configuration. */
static bool is_said(const struct migrate_said *said, const char *sentence, size_t n)
{
	for (const char *line = said->text; line && *line; line += strcspn(line, "\n") + 1)
		if (strncmp(line, sentence, n) == 0 && line[n] == '\n')
			return true;
	return false;
}

void migrate_say(struct migrate_said *said, const char *format, ...)
{
	char sentence[1024];
	char *grown;
	size_t n;
	va_list list;

	va_start(list, format);
	vsnprintf(sentence, sizeof(sentence), format, list);
	va_end(list);
	n = strlen(sentence);
	if (is_said(said, sentence, n))
		return;
	grown = realloc(said->text, said->size + n + 2);
	if (!grown) {
		said->failed = true;
		return;
	}
	said->text = grown;
	/* Each remark becomes a comment of one line. */
	for (size_t i = 0; i < n; i++)
		grown[said->size + i] = sentence[i] == '\n' ? ' ' : sentence[i];
	said->size += n + 1;
	grown[said->size - 1] = '\n';
	grown[said->size] = '\0';
}

void migrate_said_done(struct migrate_said *said)
{
	free(said->text);
}

/* ---- YAML ------------------------------------------------------------------------------------ */

static void print_escaped(const char *text)
{
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			printf("\\%c", c);
		else if (c == '\n')
			fputs("\\n", stdout);
		else if (c < ' ')
			printf("\\x%02x", c);
		else
			putchar(c);
	}
}

/* One text of two parts, in quotes. */
static void print_quoted_parts(const char *first, const char *rest)
{
	putchar('"');
	print_escaped(first);
	print_escaped(rest);
	putchar('"');
}

static void print_quoted(const char *text)
{
	print_quoted_parts(text, "");
}

static bool is_word(const char *text)
{
	return *text &&
	       !text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				  "./_-")] &&
	       text[0] != '-';
}

/* JSON is YAML: a word that had no quotes gets none. */
static void print_value(const struct document_node *node)
{
	const char *between = "";

	if (node->kind == DOCUMENT_TEXT && node->plain && is_word(node->text)) {
		fputs(node->text, stdout);
		return;
	}
	if (node->kind == DOCUMENT_TEXT) {
		print_quoted(node->text);
		return;
	}
	putchar(node->kind == DOCUMENT_MAP ? '{' : '[');
	for (const struct document_node *one = node->first; one; one = one->next) {
		fputs(between, stdout);
		between = ", ";
		if (node->kind == DOCUMENT_MAP) {
			print_quoted(one->key);
			fputs(": ", stdout);
		}
		print_value(one);
	}
	putchar(node->kind == DOCUMENT_MAP ? '}' : ']');
}

/* A text as a block, with this indentation. */
static void print_block(const char *text, int in)
{
	while (*text) {
		size_t n = strcspn(text, "\n");

		if (n)
			printf("%*s%.*s", in, "", (int)n, text);
		putchar('\n');
		text += n + (text[n] == '\n');
	}
}

/* ---- the parts ------------------------------------------------------------------------------- */

static void print_heading(const struct migrate_objects *objects, const struct migrate_said *said)
{
	const struct document_node *meta = migrate_at(objects->plugin, "metadata", NULL);
	const char *space = migrate_text(migrate_at(meta, "namespace", NULL));
	const char *name = migrate_text(migrate_at(meta, "name", NULL));

	printf("# In the place of the DaemonSet %s%s%s, by mete migrate. A GPU has one owner: "
	       "delete that one, then apply this one.\n#\n"
	       "#\tkubectl delete daemonset %s%s%s\n#\tkubectl apply -k .\n#\n",
	       space, *space ? "/" : "", name, name, *space ? " -n " : "", space);
	puts("# Pods that run keep their GPUs. Nothing is enforced: the configuration has no key "
	     "`mete` (mete-config(5)).");
	if (!said->size) {
		puts("# Nothing of the configuration differs.");
		return;
	}
	puts("# What differs:");
	for (const char *line = said->text; *line; line += strcspn(line, "\n") + 1)
		printf("#  * %.*s\n", (int)strcspn(line, "\n"), line);
}

static void print_configurations(const struct document_node *data, const char *key)
{
	puts("configMapGenerator:\n- name: mete\n  behavior: replace\n  literals:");
	if (!data) {
		puts("  - |-\n    config.yaml=" MIGRATE_NOTHING "generatorOptions:\n  "
		     "disableNameSuffixHash: true");
		return;
	}
	for (const struct document_node *one = data->first; one; one = one->next) {
		const char *text = migrate_text(one);
		size_t n = strcspn(text, "\n");

		if (*key && strcmp(one->key, key) != 0)
			continue;
		printf("  - |-\n    %s=%.*s\n", one->key, (int)n, text);
		print_block(text + n + (text[n] == '\n'), 4);
	}
	puts("generatorOptions:\n  disableNameSuffixHash: true");
}

bool migrate_selects_nodes(const struct document_node *pod)
{
	const struct document_node *selector = migrate_at(pod, "nodeSelector", NULL);
	const struct document_node *affinity = migrate_at(pod, "affinity", NULL);

	return (selector && selector->kind == DOCUMENT_MAP && selector->first) ||
	       (affinity && affinity->first);
}

/* mete runs on the nodes on which NVIDIA's plugin ran. If its DaemonSet selects no nodes, nodes
 * have to be labelled for mete. */
static void print_nodes(const struct document_node *spec)
{
	const struct document_node *selector = migrate_at(spec, "nodeSelector", NULL);
	const struct document_node *affinity = migrate_at(spec, "affinity", NULL);

	if (selector && selector->kind != DOCUMENT_MAP)
		selector = NULL;
	if (migrate_selects_nodes(spec)) {
		fputs("          nodeSelector: {\"mete.dev/shared\": null", stdout);
		for (const struct document_node *one = selector ? selector->first : NULL; one;
		     one = one->next) {
			fputs(", ", stdout);
			print_quoted(one->key);
			fputs(": ", stdout);
			print_value(one);
		}
		puts("}");
	} else {
		puts("          # NVIDIA's plugin runs on every node; mete runs only on nodes with "
		     "the label "
		     "mete.dev/shared=true.");
	}
	if (affinity && affinity->first) {
		fputs("          affinity: ", stdout);
		print_value(affinity);
		putchar('\n');
	}
}

/* The host sees what meted mounts there. */
static void print_mps(const char *root)
{
	fputs("            volumeMounts:\n            - {name: mps, mountPath: ", stdout);
	print_quoted(root);
	fputs(", mountPropagation: Bidirectional}\n          volumes:\n          - {name: mps, "
	      "hostPath: {path: ",
	      stdout);
	print_quoted(root);
	puts(", type: DirectoryOrCreate}}");
}

static void print_container(const struct migrate_settings *settings,
			    const struct migrate_kustomization *made)
{
	bool rooted = false;

	puts("          containers:\n          - name: meted");
	if (made->data) {
		fputs("            command: [on-node, meted, --system, --kubernetes, ", stdout);
		if (*made->key)
			print_quoted_parts("/etc/mete/", made->key);
		else
			fputs("/etc/mete", stdout);
		puts("]");
	}
	puts("            env:");
	for (uint32_t i = 0; i < settings->count; i++) {
		const struct migrate_setting *row = &settings->row[i];

		/* In our pod the driver is at another path, and so is the file. */
		if (migrate_is_of_files(row->name) ||
		    strcmp(row->name, "CONTAINER_DRIVER_ROOT") == 0 ||
		    strcmp(row->name, "DRIVER_ROOT_CTR_PATH") == 0)
			continue;
		if (strcmp(row->name, "NVIDIA_DRIVER_ROOT") == 0 && strcmp(row->value, "/") != 0) {
			fputs("            - {name: CONTAINER_DRIVER_ROOT, value: ", stdout);
			print_quoted_parts("/host", row->value);
			puts("}");
			rooted = true;
		}
		printf("            - {name: %s, value: ", row->name);
		print_quoted(row->value);
		puts("}");
	}
	if (!rooted)
		puts("            - {name: CONTAINER_DRIVER_ROOT, value: /host}");
	puts("            startupProbe: null\n            livenessProbe: null");
	if (*made->mps_root)
		print_mps(made->mps_root);
}

void migrate_print(const struct migrate_objects *objects, const struct migrate_kustomization *made,
		   const struct migrate_settings *settings, const struct migrate_said *said)
{
	print_heading(objects, said);
	printf("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
	       "namespace: mete-system\nresources: [%s]\n",
	       made->base);
	print_configurations(made->data, made->key);
	puts("patches:\n- patch: |-\n    apiVersion: apps/v1\n    kind: DaemonSet\n    metadata: "
	     "{name: "
	     "mete, namespace: mete-system}\n    spec:\n      template:\n        metadata:\n       "
	     "   "
	     "annotations: {prometheus.io/scrape: \"false\"}\n        spec:");
	print_nodes(migrate_at(objects->plugin, "spec", "template", "spec", NULL));
	print_container(settings, made);
}
