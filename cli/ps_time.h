/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants' time on governed devices, for `mete ps`. */
#pragma once

#include "cli/grid.h"
#include "view/ps_rows.h"

/* Prints a table, after an empty line; nothing if there is no such device. */
void ps_time_print(const struct ps_rows *rows, FILE *out, const struct screen *screen);
