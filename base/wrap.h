/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sentences for a person's terminal.
 */
#pragma once

#include <stdio.h>

enum { WRAP_COLUMNS = 79 /* fits on a terminal of 80 columns, however that wraps at its edge */ };

/* Prints a text and a line feed. `column` is where the line that it begins on is already; its
 * further lines begin behind `indent` blanks. A line feed within the text ends a paragraph. A word
 * that is longer than a line stays whole. */
void wrap_print(FILE *out, const char *text, int column, int indent);
/* The same where the terminal has so many columns; 0: lines have no end, as in a file. */
void wrap_print_within(FILE *out, const char *text, int column, int indent, unsigned columns);
