/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any content of the journal's file: nothing is read past the end, the part that is taken for whole
 * is a prefix of it that ends with a record, and reading that prefix again gives the same.
 */
#include <stdlib.h>
#include <string.h>

#include "base/journal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int condition)
{
	if (!condition)
		abort();
}

static void count(void *context, const char *line)
{
	must(strlen(line) <= JOURNAL_RECORD_MAX && !strchr(line, '\n'));
	++*(size_t *)context;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	owned(free) char *exact = malloc(size + (size == 0));
	size_t lines = 0, again = 0, whole;

	if (!exact)
		return 0;
	memcpy(exact, data, size);
	whole = journal_scan(exact, size, count, &lines);
	must(whole <= size && (whole == 0) == (lines == 0));
	must(whole == 0 || exact[whole - 1] == '\n');
	must(journal_scan(exact, whole, count, &again) == whole && again == lines);
	return 0;
}
