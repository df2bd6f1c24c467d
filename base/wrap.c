/* SPDX-License-Identifier: Apache-2.0 */
#include "base/wrap.h"

#include <limits.h>
#include <stdbool.h>
#include <string.h>

static void print(FILE *out, const char *text, int column, int indent, int most)
{
	bool begins = true;

	while (*text) {
		int n = (int)strcspn(text, " \n");

		if (*text == '\n' || (!begins && column + 1 + n > most)) {
			fprintf(out, "%s\n%*s", *text == '\n' ? "\n" : "", indent, "");
			column = indent;
			begins = true;
		}
		if (*text == '\n') {
			text++;
			continue;
		}
		fprintf(out, "%s%.*s", begins ? "" : " ", n, text);
		column += n + !begins;
		begins = false;
		text += n + (text[n] == ' ');
	}
	fputc('\n', out);
}

void wrap_print(FILE *out, const char *text, int column, int indent)
{
	print(out, text, column, indent, WRAP_COLUMNS);
}

void wrap_print_within(FILE *out, const char *text, int column, int indent, unsigned columns)
{
	print(out, text, column, indent, columns ? (int)columns - 1 : INT_MAX);
}
