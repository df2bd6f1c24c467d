/* SPDX-License-Identifier: Apache-2.0 */
#include "base/wrap.h"

#include <stdbool.h>
#include <string.h>

void wrap_print(FILE *out, const char *text, int column, int indent)
{
	bool begins = true;

	while (*text) {
		int n = (int)strcspn(text, " \n");

		if (*text == '\n' || (!begins && column + 1 + n > WRAP_COLUMNS)) {
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
