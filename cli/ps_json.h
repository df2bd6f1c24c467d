/* SPDX-License-Identifier: Apache-2.0 */
/* What `mete ps` found, for programs: cli/ps_keys.def on standard output; and `mete run` of one
 * tenant. */
#pragma once

#include <cjson/cJSON.h>

#include "cli/ps_rows.h"

void ps_json_print(const struct ps_rows *rows);
/* One of them: the caller's; NULL without memory. */
cJSON *ps_json_tenant(const struct ps_rows *rows, const struct wire_tenant_row *tenant);
cJSON *ps_json_device(const struct ps_rows *rows, const struct wire_device_row *device);

/* What `mete run --report-json` writes of a tenant, beside its rows. */
struct ps_report {
	uint32_t tenant;
	const char *name, *trouble;
	int status, signal;
	bool joined;
};
void ps_json_report(FILE *out, const struct ps_rows *rows, const struct ps_report *report);
