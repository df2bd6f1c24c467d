/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows as JSON objects with the keys of view/ps_keys.def, for all output to programs. Each key is a
 * line of its own, so that two texts of one object can be compared line by line; "fields" and
 * "processes" are one line each.
 */
#pragma once

#include <stdio.h>

#include "view/ps_rows.h"

/* The figures of `mete run --report-json` beyond a tenant's rows. */
struct ps_report {
	uint32_t tenant;
	const char *name, *trouble;
	int status, signal;
	bool joined;
};

void ps_write_meted(FILE *out, const struct ps_rows *rows, const struct wire_admin_welcome *meted);
void ps_write_device(FILE *out, const struct ps_rows *rows, const struct wire_device_row *device);
/* `tenant` is one of the rows. */
void ps_write_tenant(FILE *out, const struct ps_rows *rows, const struct wire_tenant_row *tenant);
void ps_write_outside(FILE *out, const struct ps_rows *rows,
		      const struct wire_outside_row *outside);
void ps_write_report(FILE *out, const struct ps_rows *rows, const struct ps_report *report);

/* "text", with what JSON wants escaped. */
void ps_write_text(FILE *out, const char *text);
