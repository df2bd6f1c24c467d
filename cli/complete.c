/* SPDX-License-Identifier: Apache-2.0 */
/* Names for the shell's completion that only meted, the driver or kubectl knows. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/complete_lists.h"
#include "cli/ps_fetch.h"
#include "cli/remote.h"

enum {
	SAID_MOST = 1 << 20, /* the names of some thousand nodes */
};

static int print_devices(void)
{
	owned(ps_rows_free) struct ps_rows rows = {0};
	struct fault why;

	if (ps_fetch(&rows, &why) < 0)
		return 1; /* nothing is said in the middle of somebody's typing */
	for (size_t i = 0; i < rows.count; i++) {
		const struct wire_message *row = &rows.row[i];

		if (row->code == WIRE_device_row)
			printf("%u\n%s\n", row->device_row.index, ps_uuid(&row->device_row).text);
	}
	return 0;
}

/* The value of an option in the line: "--context prod" or "--context=prod"; NULL: none. */
static const char *typed(char *const *words, int count, const char *option)
{
	size_t size = strlen(option);

	for (int i = 0; i < count && strcmp(words[i], "--") != 0; i++) {
		if (strncmp(words[i], option, size) != 0)
			continue;
		if (words[i][size] == '=')
			return words[i] + size + 1;
		if (!words[i][size])
			return i + 1 < count ? words[i + 1] : NULL;
	}
	return NULL;
}

/* An option of the verb whose value is the next word. */
static bool takes_next(const char *verb, const char *word)
{
	const struct cli_option *option = NULL;
	char letter = strlen(word) == 2 ? word[1] : '\0';

	while ((option = cli_next_option(verb, option)) != NULL) {
		if (!option->argument[0])
			continue;
		if (letter ? letter == option->letter
			   : strcmp(word + 2, cli_dashed(option->name).text) == 0)
			return true;
	}
	return false;
}

/* The tenant of a verb is the first word behind it that is neither an option nor an option's value.
 */
static bool has_tenant(char *const *words, int count)
{
	for (int i = 2; i < count; i++) {
		if (strcmp(words[i], "--") == 0)
			return i + 1 < count;
		if (words[i][0] != '-')
			return true;
		if (words[i][1] && takes_next(words[1], words[i]))
			i++;
	}
	return false;
}

/* What the meted says of which the line is: of a node's, if it has --node. */
static int fetch_of(char *const *words, int count, struct ps_rows *rows)
{
	owned(remote_close) struct remote remote = {.admin = {.fd = -1}};
	struct fault why;
	int r = remote_name(&remote, typed(words, count, "--node"),
			    typed(words, count, "--context"),
			    typed(words, count, "--mete-namespace"), &why);

	remote.hurried = true;
	return r == 0 ? ps_fetch_at(&remote, rows, &why) : r;
}

static int print_tenants(char *const *words, int count)
{
	owned(ps_rows_free) struct ps_rows rows = {0};

	if (has_tenant(words, count))
		return 0;
	if (fetch_of(words, count, &rows) < 0)
		return 1;
	for (size_t i = 0; i < rows.count; i++)
		if (rows.row[i].code == WIRE_tenant_row)
			puts(rows.row[i].tenant_row.name.text);
	return 0;
}

/* Without a meted its words are offered all the same, and no values. */
static int print_filters(char *const *words, int count)
{
	owned(ps_rows_free) struct ps_rows rows = {0};

	if (strchr(words[0], '=') && fetch_of(words + 1, count - 1, &rows) < 0)
		return 1;
	complete_filters(words[0], &rows);
	return 0;
}

static int print_from_kubectl(bool nodes, char *const *words, int count)
{
	const char *space = typed(words, count, "--mete-namespace");
	struct remote remote = {.context = typed(words, count, "--context"),
				.space = space && *space ? space : REMOTE_SPACE,
				.hurried = true,
				.admin = {.fd = -1}};
	owned(free) char *said = malloc(SAID_MOST);
	struct fault why;

	if (remote.context && !*remote.context)
		remote.context = NULL;
	if (!said)
		return 1;
	if ((nodes ? remote_list_nodes(&remote, said, SAID_MOST, &why)
		   : remote_list_contexts(said, SAID_MOST, &why)) < 0)
		return 1;
	fputs(said, stdout);
	return 0;
}

int cli_complete(char *const *words, int count)
{
	const char *what = words[0];

	if (strcmp(what, "tenants") == 0)
		return print_tenants(words + 1, count - 1);
	if (strcmp(what, "devices") == 0)
		return print_devices();
	if (strcmp(what, "keys") == 0) {
		complete_keys(count > 1 ? words[1] : "");
		return 0;
	}
	if (strcmp(what, "filters") == 0)
		return count > 1 ? print_filters(words + 1, count - 1) : CLI_USAGE;
	if (strcmp(what, "nodes") == 0 || strcmp(what, "contexts") == 0)
		return print_from_kubectl(*what == 'n', words + 1, count - 1);
	return CLI_USAGE;
}
