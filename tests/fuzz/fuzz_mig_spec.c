/* SPDX-License-Identifier: Apache-2.0 */
/* Any file of mig-parted: a configuration within its bounds, or one sentence. */
#include <stdlib.h>
#include <string.h>

#include "mig/spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct mig_row *row)
{
	if (row->filters > MIG_FILTERS_MAX || row->wish.kinds > MIG_KINDS_MAX ||
	    (!row->wish.enabled && row->wish.kinds))
		abort();
	for (uint32_t i = 0; i < row->wish.kinds; i++)
		if (!row->wish.kind[i].count ||
		    !memchr(row->wish.kind[i].name, '\0', MIG_NAME_MAX) ||
		    !row->wish.kind[i].name[0])
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	owned(mig_spec_done) struct mig_spec spec = {0};
	struct fault why = {""};
	int r = mig_spec_parse("f", (const char *)data, size, NULL, &spec, &why);

	if (r < 0 ? !*why.text || spec.row : !spec.rows)
		abort();
	for (uint32_t i = 0; i < spec.rows; i++)
		check(&spec.row[i]);
	return 0;
}
