/* SPDX-License-Identifier: Apache-2.0 */
/* What `mete ps` shows of tenants' time on devices that are shared out by turns. */
#pragma once

#include "cli/grid.h"
#include "view/ps_rows.h"

/* A table of them, after an empty line; nothing where there is none. */
void ps_time_print(const struct ps_rows *rows, FILE *out, const struct screen *screen);
