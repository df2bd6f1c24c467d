/* SPDX-License-Identifier: Apache-2.0 */
/* What `mete replay --memory` prints. */
#pragma once

#include "replay/memory_world.h"

struct memory_report {
	const struct memory_setup *setup;
	const struct memory_outcome *outcome;
	uint64_t sequential_ns; /* all jobs one after the other, each alone */
};

void memory_report_print(FILE *out, const struct memory_report *report);
void memory_report_json(FILE *out, const struct memory_report *report);
/* Plots the handovers over time: what was moved, and how long it took. */
void memory_report_svg(FILE *out, const struct memory_report *report);
/* Returns how long all jobs take one after the other: kernels and pauses. */
uint64_t memory_report_sequential(const struct memory_setup *setup);
