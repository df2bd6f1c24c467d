/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `mete replay --time` prints: of a list of tenants, or of pods that share GPUs.
 */
#pragma once

#include "replay/time_world.h"

struct time_report {
	const struct time_setup *setup;
	const struct time_outcome *turns,
		*plain; /* with turns, and with only the hardware's slices */
	double real_s;	/* the real time that both runs took */
};

void time_report_print(FILE *out, const struct time_report *report);
void time_report_json(FILE *out, const struct time_report *report);
/* Plots each tenant's part of each second, stacked. */
void time_report_svg(FILE *out, const struct time_report *report);
