/* SPDX-License-Identifier: Apache-2.0 */
/* Published curves from a foreign file: what is accepted is percentages. */
#include "replay/published.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	owned(fclose) FILE *file = size ? fmemopen((void *)data, size, "r") : NULL;
	static struct published curves[PUBLISHED_POLICIES];
	struct fault why;

	if (!file)
		return 0;
	if (published_read(file, "file", "default", curves, &why) < 0) {
		if (!why.text[0])
			abort();
		return 0;
	}
	for (int i = 0; i < PUBLISHED_POLICIES; i++)
		for (int k = 0; k < OPENB_PERCENT; k++)
			if (!(curves[i].percent[k] >= 0 && curves[i].percent[k] <= 100.001))
				abort();
	return 0;
}
