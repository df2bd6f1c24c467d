/* SPDX-License-Identifier: Apache-2.0 */
/* mete why: what a tenant waits for, in sentences. */
#include <string.h>

#include "base/wrap.h"
#include "cli/cli.h"
#include "cli/grid.h"
#include "cli/ps_fetch.h"
#include "view/why.h"

static const struct wire_tenant_row *tenant_at(const struct ps_rows *rows, size_t i)
{
	return rows->row[i].code == WIRE_tenant_row ? &rows->row[i].tenant_row : NULL;
}

static void print_head(void *owner, const char *sentence)
{
	(void)owner;
	wrap_print_within(stdout, sentence, 0, 2, screen_now().width);
}

static void print_sentence(void *owner, const char *sentence)
{
	(void)owner;
	fputs("  ", stdout);
	wrap_print_within(stdout, sentence, 2, 2, screen_now().width);
}

static void print_tenant(const struct ps_rows *rows, const struct wire_tenant_row *t)
{
	why_head(rows, t, print_head, NULL);
	why_say(rows, t, print_sentence, NULL);
}

static bool is_meant(const struct wire_tenant_row *t, const char *who)
{
	char number[16];

	if (!who)
		return why_waits(t);
	snprintf(number, sizeof(number), "%u", t->tenant);
	return strcmp(t->name.text, who) == 0 || strcmp(number, who) == 0;
}

static int say_unknown(const struct cli_call *call, const char *who, const char *node)
{
	const char *option = node ? " --node " : "";

	if (!node)
		node = "";
	return cli_complain(
		call, 1,
		"there is no tenant '%s'; `mete ps%s%s` lists them, and of one that has "
		"ended `mete events%s%s --tenant %s` tells",
		who, option, node, option, node, who);
}

int why_main(const struct cli_call *call)
{
	const char *who = call->argc ? call->argv[0] : NULL;
	owned(remote_close) struct remote remote = {.admin = {.fd = -1}};
	owned(ps_rows_free) struct ps_rows rows = {0};
	struct fault why;
	unsigned found = 0;

	if (call->argc > 1 || (who && !*who))
		return cli_complain(call, CLI_USAGE, "'%s': why takes one tenant, or none",
				    call->argv[call->argc - 1]);
	if (remote_read(&remote, call, &why) < 0)
		return cli_fail(call, CLI_USAGE, &why);
	if (ps_fetch_at(&remote, &rows, &why) < 0)
		return cli_fail(call, 1, &why);
	if (rows.absent && who)
		return cli_complain(call, 1,
				    "no meted is running, so there is no tenant '%s'; of one that "
				    "has ended `mete events --tenant %s` tells",
				    who, who);
	for (size_t i = 0; i < rows.count; i++) {
		const struct wire_tenant_row *t = tenant_at(&rows, i);

		if (!t || !is_meant(t, who))
			continue;
		print_tenant(&rows, t);
		found++;
	}
	if (found)
		return 0;
	if (who)
		return say_unknown(call, who, remote.node);
	puts(rows.absent ? "no meted is running: nobody waits" : "nobody waits");
	return 0;
}
