/* SPDX-License-Identifier: Apache-2.0 */
/* What has changed between two texts of an object, as view/ps_write.h writes it. Pure. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

/* Writes each key of `now` whose value is another one than in `before`, with its new value and a
 * comma before it; of an object within, only what has changed in it. A key that is gone is null.
 * Returns whether there was any. */
bool lines_change(FILE *out, const char *before, const char *now);

/* The text without its line ends. */
void lines_join(FILE *out, const char *text);
