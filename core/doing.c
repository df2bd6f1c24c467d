/* SPDX-License-Identifier: Apache-2.0 */
#include "core/doing.h"

static const uint64_t second_ns = 1000000000;

/* From the outside a kernel that ends late looks like one that never ends. A tenant that has had
 * kernels of this length before is given twice the time. */
static bool is_too_long(const struct doing_facts *facts)
{
	static const uint64_t usual_ns = 30 * second_ns;
	uint64_t most_ns = usual_ns / 2 > facts->longest_ns ? usual_ns : 2 * facts->longest_ns;

	return facts->undrained_ns >= most_ns;
}

/* A coupled tenant's work waits for its own thread, which waits at the gate: see `stands`. */
static bool outlasts_its_turn(const struct doing_facts *facts)
{
	return facts->undrained_ns >= second_ns && !facts->coupled;
}

static enum doing of_work(const struct doing_facts *facts)
{
	if (facts->paused)
		return DOING_STOPPED;
	return is_too_long(facts) ? DOING_HANGS : DOING_KERNEL;
}

static bool is_told(const struct doing_facts *facts, enum gate_reason reason)
{
	return gate_has(facts->reasons, reason);
}

/* Its gate is open, or closing while its work ends. It stays open while nobody else wants the
 * device. */
static enum doing of_turn(const struct doing_facts *facts)
{
	if (facts->says && !facts->busy)
		return DOING_IDLE;
	return facts->governed ? DOING_COMPUTES : DOING_RUNNING;
}

static enum doing of_gate(const struct doing_facts *facts)
{
	bool wants = facts->busy || facts->stands;

	if (is_told(facts, GATE_YIELDS) && wants)
		return DOING_YIELDS;
	if (is_told(facts, GATE_PARKED) || is_told(facts, GATE_MEMORY) || is_told(facts, GATE_OUT))
		return wants			     ? DOING_MEMORY
		       : is_told(facts, GATE_PARKED) ? DOING_PARKED
						     : DOING_IDLE;
	if (is_told(facts, GATE_CAPPED))
		return DOING_CAPPED;
	if (is_told(facts, GATE_TURN))
		return DOING_TURN;
	if (!facts->reasons || is_told(facts, GATE_ENDS))
		return of_turn(facts);
	/* A thread may have come to the gate without a word of it yet. */
	return facts->stands ? DOING_TURN : DOING_IDLE;
}

enum doing doing_of(const struct doing_facts *facts)
{
	if (is_told(facts, GATE_HALTED))
		return DOING_HALTED;
	if (!facts->present)
		return DOING_ABSENT;
	if (outlasts_its_turn(facts))
		return of_work(facts);
	if (is_told(facts, GATE_SUSPENDED))
		return DOING_SUSPENDED;
	return facts->asks ? DOING_ROOM : of_gate(facts);
}

static const struct {
	const char *name, *now;
} words[DOING_STATES] = {
#define DOING(NAME, name, now, meaning) {name, now},
#include "core/doing.def"
#undef DOING
};

const char *doing_name(uint32_t doing)
{
	return words[doing < DOING_STATES ? doing : DOING_UNKNOWN].name;
}

const char *doing_now(uint32_t doing)
{
	return words[doing < DOING_STATES ? doing : DOING_UNKNOWN].now;
}
