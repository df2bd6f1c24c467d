/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells work that lasts long from work that waits for a thread of its own program: what waits for
 * a thread ends soon after that thread has submitted something and gone on. Work that ended long
 * after anybody had submitted anything, ended by itself. Pure: no clock.
 *
 * It can be misled on a busy machine, as a thread may have gone on late. So each wait in vain for
 * work that was believed to end by itself makes more proofs necessary.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
	LASTS_QUIET_MS = 50, /* since somebody submitted something */
	LASTS_DOUBTS_MOST = 64,
};

/* All zero: nothing is known. */
struct lasts {
	uint32_t proofs; /* since the last wait in vain */
	uint32_t needed; /* beside the first one */
};

/* The device reached a mark `apart_ns` after it had reached another one, which was left at
 * `left_ns`, so not before left_ns + apart_ns. Somebody last submitted something at `passed_ns`
 * (UINT64_MAX: that is not known). Did it end by itself? */
static inline bool lasts_ended(struct lasts *l, uint64_t left_ns, uint64_t apart_ns,
			       uint64_t passed_ns)
{
	const uint64_t quiet_ns = LASTS_QUIET_MS * UINT64_C(1000000);

	if (left_ns + apart_ns < quiet_ns || left_ns + apart_ns - quiet_ns < passed_ns)
		return false;
	l->proofs += l->proofs <= l->needed;
	return true;
}

static inline bool lasts_by_itself(const struct lasts *l)
{
	return l->proofs > l->needed;
}

/* Nothing speaks against it: its work was never waited for in vain. */
static inline bool lasts_presumably(const struct lasts *l)
{
	return l->needed == 0;
}

/* Its work was waited for, and did not end, although it was believed to end by itself, or
 * `presumed` to. */
static inline void lasts_in_vain(struct lasts *l, bool presumed)
{
	if (!presumed && !lasts_by_itself(l))
		return;
	l->proofs = 0;
	l->needed = l->needed * 4 + 1;
	if (l->needed > LASTS_DOUBTS_MOST)
		l->needed = LASTS_DOUBTS_MOST;
}
