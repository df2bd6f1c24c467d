/* SPDX-License-Identifier: Apache-2.0 */
#include "node/move/store_divide.h"

#include "base/least.h"

uint64_t store_divide(uint64_t budget_bytes, const struct store_use *uses, size_t count)
{
	uint64_t each = budget_bytes, before;

	/* A device that uses more than `each` leaves less to the others, so that more of them may
	 * use more. */
	do {
		uint64_t rest = budget_bytes, among = 0;

		before = each;
		for (size_t i = 0; i < count; i++) {
			if (uses[i].here && uses[i].bytes <= before)
				among++;
			else
				rest = beyond(rest, uses[i].bytes);
		}
		each = among ? rest / among : 0;
	} while (each != before);
	return each;
}
