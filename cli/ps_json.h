/* SPDX-License-Identifier: Apache-2.0 */
/* What `mete ps` found, for programs: view/ps_keys.def on standard output; and `mete run` of one
 * tenant. */
#pragma once

#include <cjson/cJSON.h>

#include "view/ps_write.h"

void ps_json_print(const struct ps_rows *rows);
/* One of them: the caller's; NULL without memory. */
cJSON *ps_json_tenant(const struct ps_rows *rows, const struct wire_tenant_row *tenant);
cJSON *ps_json_device(const struct ps_rows *rows, const struct wire_device_row *device);

/* What `mete run --report-json` writes. */
void ps_json_report(FILE *out, const struct ps_rows *rows, const struct ps_report *report);
