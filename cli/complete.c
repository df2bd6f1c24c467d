/* SPDX-License-Identifier: Apache-2.0 */
/* What the shell's completion asks: names that only meted, or the driver, knows. */
#include <string.h>

#include "cli/cli.h"
#include "cli/ps_fetch.h"

int cli_complete(const char *what)
{
	owned(ps_rows_free) struct ps_rows rows = {0};
	bool tenants = strcmp(what, "tenants") == 0;
	struct fault why;

	if (!tenants && strcmp(what, "devices") != 0)
		return CLI_USAGE;
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
