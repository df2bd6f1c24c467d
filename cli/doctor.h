/* SPDX-License-Identifier: Apache-2.0 */
/* What a check of `mete doctor` found, and what to do about it. */
#pragma once

#include "cli/driver.h"

enum finding_verdict {
	FINDING_FINE,
	FINDING_NOTE,
	FINDING_WRONG,
	FINDING_NONE, /* the check does not concern this machine: not shown */
};

struct finding {
	enum finding_verdict verdict;
	char found[600];  /* what the check found */
	char advice[400]; /* what to do; "" if nothing */
};

/* The results of earlier checks. */
struct patient {
	bool has_driver;
	struct driver driver;
};

void finding_set(struct finding *finding, enum finding_verdict verdict, const char *format, ...)
	printf_like(3, 4);
void finding_advise(struct finding *finding, const char *format, ...) printf_like(2, 3);

/* checks.def */
#define CHECK(name, title) void check_##name(struct patient *patient, struct finding *finding);
#include "cli/checks.def"
#undef CHECK
