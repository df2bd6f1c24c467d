/* SPDX-License-Identifier: Apache-2.0 */
/* What somebody sees at one time, with the text of each row; and what is different from the time
 * before. Only rows that have changed are written anew. */
#pragma once

#include "page/looks.h"

struct crowd_look {
	struct ps_rows rows;
	char **text; /* of rows[i]; NULL: it has none of its own */
	char *meted, *outside;
	uint64_t happened; /* looks.happened of it */
};

void crowd_look_free(struct crowd_look *look);

/* Takes the texts of rows that are as they were from `before`, which is then only good to be
 * freed. Writes an object of what has changed to `change`; *ret_any: whether anything has. Ages
 * are no change. -ENOMEM. */
must_check int crowd_look_at(struct crowd_look *ret_look, struct crowd_look *before,
			     const struct sight *sight, const struct looks *looks, FILE *change,
			     bool *ret_any);
