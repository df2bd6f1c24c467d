/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of `mete ps` as JSON on standard output (view/ps_keys.def); and of one tenant for `mete
 * run`. */
#pragma once

#include <cjson/cJSON.h>

#include "view/ps_write.h"

void ps_json_print(const struct ps_rows *rows);
/* One tenant as a text, which the caller frees; NULL without memory. */
cJSON *ps_json_tenant(const struct ps_rows *rows, const struct wire_tenant_row *tenant);
cJSON *ps_json_device(const struct ps_rows *rows, const struct wire_device_row *device);

/* What `mete run --report-json` writes. */
void ps_json_report(FILE *out, const struct ps_rows *rows, const struct ps_report *report);
