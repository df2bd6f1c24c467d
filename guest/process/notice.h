/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells the program's user why it stands still: a line on standard error once a thread has waited
 * for NOTICE_AFTER_MS for memory or for a turn, unless the tenant's share has notices=off. The next
 * line comes a minute later at the earliest, then two, four, up to an hour.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	NOTICE_AFTER_MS = 2000,
	NOTICE_GAP_S = 60,
	NOTICE_GAPS = 6, /* how often the gap doubles */
};

enum notice {
	NOTICE_TURN,   /* its gate is closed, as others have their turn, or its cap is used up */
	NOTICE_MEMORY, /* its memory is in the host's */
	NOTICE_ROOM,   /* an allocation waits until others have freed memory, or it has moved */
	/* Whatever it waits for besides, a person has to let it go on: */
	NOTICE_SUSPENDED,
	NOTICE_HALTED,
};

/* Each time that a waiting thread checks. *began_ns: 0 the first time, and then the caller's to
 * keep. */
void notice_wait(uint64_t *began_ns, enum notice why);

struct notice_rate {
	_Atomic uint64_t next_ns;
	_Atomic uint32_t said;
};

/* Whether a line is due. If so, the next one is due later. */
bool notice_due(struct notice_rate *rate, uint64_t began_ns, uint64_t now_ns);
