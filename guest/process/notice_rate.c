/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/process/notice.h"

static const uint64_t ms = 1000000, second = 1000000000;

bool notice_due(struct notice_rate *rate, uint64_t began_ns, uint64_t now_ns)
{
	uint64_t next_ns = atomic_load(&rate->next_ns), gap_ns;
	uint32_t said = atomic_load(&rate->said);

	if (now_ns - began_ns < NOTICE_AFTER_MS * ms || now_ns < next_ns)
		return false;
	gap_ns = (NOTICE_GAP_S * second) << (said < NOTICE_GAPS ? said : NOTICE_GAPS);
	if (gap_ns > 3600 * second)
		gap_ns = 3600 * second;
	/* Another thread may be faster: it writes the same line. */
	if (!atomic_compare_exchange_strong(&rate->next_ns, &next_ns, now_ns + gap_ns))
		return false;
	atomic_fetch_add(&rate->said, 1);
	return true;
}
