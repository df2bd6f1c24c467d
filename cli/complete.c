/* SPDX-License-Identifier: Apache-2.0 */
/* Names for the shell's completion that only meted, the driver or kubectl knows. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/ps_fetch.h"
#include "cli/remote.h"

enum {
	SAID_MOST = 1 << 20, /* the names of some thousand nodes */
};

static int print_rows(bool tenants)
{
	owned(ps_rows_free) struct ps_rows rows = {0};
	struct fault why;

	if (ps_fetch(&rows, &why) < 0)
		return 1; /* nothing is said in the middle of somebody's typing */
	for (size_t i = 0; i < rows.count; i++) {
		const struct wire_message *row = &rows.row[i];

		if (tenants && row->code == WIRE_tenant_row)
			puts(row->tenant_row.name.text);
		if (!tenants && row->code == WIRE_device_row)
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

static int print_from_kubectl(bool nodes, char *const *words, int count)
{
	const char *space = typed(words, count, "--mete-namespace");
	struct remote remote = {.context = typed(words, count, "--context"),
				.space = space && *space ? space : REMOTE_SPACE,
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

	if (strcmp(what, "tenants") == 0 || strcmp(what, "devices") == 0)
		return print_rows(*what == 't');
	if (strcmp(what, "nodes") == 0 || strcmp(what, "contexts") == 0)
		return print_from_kubectl(*what == 'n', words + 1, count - 1);
	return CLI_USAGE;
}
