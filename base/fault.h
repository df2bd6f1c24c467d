/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sentence for a person about what went wrong, kept on the caller's stack: recording a failure
 * cannot fail, and nothing has to be freed. Only code that talks to people takes a fault.
 */
#pragma once

#include <stdarg.h>

#include "base/macros.h"

struct fault {
	char text[512]; /* one sentence; cut with "..." when it does not fit */
};

/* Replaces the sentence and returns `error` (a negative errno), so that a failure is one line. */
int fault_set(struct fault *why, int error, const char *format, ...) printf_like(3, 4);

/* Puts "WHERE: " before the sentence. It returns nothing, since the caller already has the
 * error. */
void fault_within(struct fault *why, const char *format, ...) printf_like(2, 3);
