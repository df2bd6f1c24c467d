/* SPDX-License-Identifier: Apache-2.0 */
/* What `mete ps` shows of tenants' time on devices that are shared out by turns. */
#pragma once

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "wire/wire.h"

/* Whether there is something to be shown of it. */
bool ps_time_matters(const struct wire_tenant_row *tenant);
void ps_time_heading(void);
void ps_time_line(const struct wire_tenant_row *tenant);
void ps_time_json(cJSON *object, const struct wire_tenant_row *tenant);
