/* SPDX-License-Identifier: Apache-2.0 */
/* What `mete run` reports at the end of its program: --report, --report-json, and that no process
 * joined. */
#pragma once

#include <stdio.h>

#include "cli/admin.h"
#include "cli/cli.h"

struct run_report {
	FILE *json; /* owned; NULL: not wanted */
	uint32_t tenant;
	const char *name; /* borrowed */
	bool whole;	  /* one meted has seen all of it */
	int status;	  /* of waitpid() */
};

/* Opens the file that --report-json names, before the program runs. */
must_check int run_report_open(const struct cli_call *call, struct run_report *ret_report,
			       struct fault *why);
/* To be called while the admin connection keeps the tenant. */
void run_report_say(const struct cli_call *call, struct admin *admin,
		    const struct run_report *report);
void run_report_close(struct run_report *report);
static inline void run_report_close_owned(struct run_report *report)
{
	run_report_close(report);
}
