/* SPDX-License-Identifier: Apache-2.0 */
#include "core/gate.h"

static uint32_t bit(enum gate_reason reason)
{
	return 1u << reason;
}

/* It is barred, on this device or on another one of its own. */
static enum gate_reason of_memory(const struct gate_facts *facts)
{
	const struct residency_member *m = facts->member;

	if (m && m->suspended)
		return GATE_SUSPENDED;
	if (m && m->parked)
		return GATE_PARKED;
	return m && m->yields ? GATE_YIELDS : GATE_MEMORY;
}

static enum gate_reason of_turn(const struct turns_tenant *t)
{
	switch (t->state) {
	case TURNS_CAPPED:
		return GATE_CAPPED;
	case TURNS_ENDING:
	case TURNS_ALONG:
		return GATE_ENDS;
	case TURNS_LINED:
	case TURNS_READY:
	case TURNS_RUNNING: /* on other devices, or what is to be done is not done yet */
		return GATE_TURN;
	case TURNS_IDLE:
		break;
	}
	return t->wants ? GATE_TURN : GATE_SILENT;
}

/* core/turns keeps it closed: a tenant that is let in to be able to drain has no reason, whatever
 * else is true. */
static uint32_t why_no_turn(const struct gate_facts *facts)
{
	const struct turns_tenant *t = facts->seat->tenant;

	if (t->suspended)
		return bit(GATE_HALTED);
	if (t->barred)
		return bit(of_memory(facts));
	if (t->bond == TURNS_HUNG)
		return bit(GATE_HUNG);
	return bit(of_turn(t));
}

uint32_t gate_reasons(const struct gate_facts *facts)
{
	uint32_t reasons = 0;

	if (facts->seat && facts->seat->tenant->suspended)
		reasons |= bit(GATE_HALTED);
	if (facts->shut)
		reasons |= bit(GATE_SHUT);
	if (facts->unheard)
		reasons |= bit(GATE_UNHEARD);
	if (facts->member && facts->member->out_bytes)
		reasons |= bit(GATE_OUT);
	if (facts->seat && !facts->seat->told_open)
		reasons |= why_no_turn(facts);
	return reasons;
}

enum gate_state gate_state(uint32_t reasons, bool owes)
{
	if (!reasons)
		return GATE_OPEN;
	return owes ? GATE_CLOSING : GATE_SHUT_OFF;
}

static const struct {
	const char *name, *words;
} texts[GATE_REASONS] = {
#define GATE(NAME, name, words, end) {name, words},
#include "core/gate.def"
#undef GATE
};

const char *gate_name(uint32_t reason)
{
	return reason < GATE_REASONS ? texts[reason].name : "unknown";
}

const char *gate_words(uint32_t reason)
{
	return reason < GATE_REASONS ? texts[reason].words : "";
}
