/* SPDX-License-Identifier: Apache-2.0 */
#include "core/doing.h"

static const uint64_t second_ns = 1000000000;

/* From the outside a kernel that ends late looks like one that never ends. Who has had kernels of
 * this length before is given twice the time. */
static bool is_too_long(const struct doing_facts *facts)
{
	static const uint64_t usual_ns = 30 * second_ns;
	uint64_t most_ns = usual_ns / 2 > facts->longest_ns ? usual_ns : 2 * facts->longest_ns;

	return facts->undrained_ns >= most_ns;
}

/* The work of who is coupled waits for its own thread, which waits at the gate: see `stands`. */
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

static enum doing of_memory(const struct doing_facts *facts)
{
	if (facts->busy || facts->stands)
		return DOING_MEMORY;
	return facts->parked ? DOING_PARKED : DOING_IDLE;
}

static enum doing of_turn(const struct doing_facts *facts)
{
	switch (facts->turn) {
	case TURNS_CAPPED:
		return DOING_CAPPED;
	case TURNS_LINED:
	case TURNS_READY:
		return DOING_TURN;
	case TURNS_RUNNING:
	case TURNS_ENDING:
		/* A gate stays open while nobody else wants the device. */
		return facts->says && !facts->busy ? DOING_IDLE : DOING_COMPUTES;
	case TURNS_AWAY:
		break;
	}
	/* A thread may have come to the gate without a word of it yet. */
	return facts->stands ? DOING_TURN : DOING_IDLE;
}

enum doing doing_of(const struct doing_facts *facts)
{
	if (facts->halted)
		return DOING_HALTED;
	if (!facts->present)
		return DOING_ABSENT;
	if (outlasts_its_turn(facts))
		return of_work(facts);
	if (facts->away)
		return DOING_AWAY;
	if (facts->asks)
		return DOING_ROOM;
	if (facts->barred)
		return of_memory(facts);
	if (facts->governed)
		return of_turn(facts);
	if (facts->stands)
		return DOING_TURN;
	return facts->says && !facts->busy ? DOING_IDLE : DOING_RUNNING;
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
