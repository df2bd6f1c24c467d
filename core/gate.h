/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a tenant's gate on a device is not open. meted opens and closes the gate by this, and `mete
 * ps`, its JSON and core/doing.h take their words from it: each reason is a fact of one machine,
 * and is kept nowhere else.
 *
 * Pure: it reads what core/turns/turns.h and core/residency/residency.h decided, and two facts that
 * are only its caller's.
 *
 * Laws, tested by tests/unit/test_gate_always.c:
 *  1. a gate is open if and only if there is no reason; and it is closed, not closing, once all of
 *     its tenant's processes have drained;
 *  2. each reason ends with the event that gate.def names: where nobody is suspended, shut, halted
 *     or unheard, and nobody yields, a tenant that wants to run has its gate opened within the
 *     bounds of core/turns/turns.h and core/residency/residency.h, whatever happened before;
 *  3. after the end of `mete suspend` a tenant computes again, whether any of its memory moved or
 *     not;
 *  4. no gate is open while some of its tenant's memory is out;
 *  5. a suspended tenant has no turn, and none of its memory that can move stays on the device for
 *     which the store has room.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/residency/residency.h"
#include "core/turns/turns.h"

enum gate_reason {
#define GATE(NAME, name, words, end) GATE_##NAME,
#include "core/gate.def"
#undef GATE
	GATE_REASONS
};

enum gate_state {
	GATE_OPEN,
	GATE_CLOSING, /* somebody has not drained yet */
	GATE_SHUT_OFF,
};

struct gate_facts {
	const struct turns_seat *seat;	       /* NULL: it has no process, and no part in turns */
	const struct residency_member *member; /* NULL: its memory does not move */
	bool shut;			       /* by the test verb */
	bool unheard; /* a process that a former meted had let in is here, and has not stated yet
			 what memory it has out */
};

/* A set of reasons, 1 << enum gate_reason; 0: the gate is to be open. */
uint32_t gate_reasons(const struct gate_facts *facts);

static inline bool gate_has(uint32_t reasons, enum gate_reason reason)
{
	return reasons & 1u << reason;
}

/* Some of its memory is not on the device, or is not to be. */
static inline bool gate_has_memory(uint32_t reasons)
{
	return gate_has(reasons, GATE_PARKED) || gate_has(reasons, GATE_MEMORY) ||
	       gate_has(reasons, GATE_OUT) || gate_has(reasons, GATE_YIELDS);
}

/* `owes`: a process has not acknowledged the close. */
enum gate_state gate_state(uint32_t reasons, bool owes);

/* "turn", for scripts; and what people read. "unknown" and "" for a value of a newer meted. */
const char *gate_name(uint32_t reason);
const char *gate_words(uint32_t reason);
