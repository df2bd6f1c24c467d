/* SPDX-License-Identifier: Apache-2.0 */
#include "core/doing.h"

#include "tests/test.h"

static const uint64_t second = 1000000000;

static uint32_t why(enum gate_reason reason)
{
	return 1u << reason;
}

/* On a device that is shared by turns, with a process that says what it wants. */
static struct doing_facts a_tenant(uint32_t reasons)
{
	return (struct doing_facts){
		.reasons = reasons, .present = true, .says = true, .governed = true, .busy = true};
}

static const char *of(const struct doing_facts *facts)
{
	return doing_name(doing_of(facts));
}

TEST(a_tenant_that_waits_for_a_turn_is_not_idle)
{
	struct doing_facts facts = a_tenant(why(GATE_TURN));

	expect_str(of(&facts), "waits-for-turn");
	facts.reasons = why(GATE_CAPPED);
	expect_str(of(&facts), "capped");
	/* Its word is on the way. */
	facts = a_tenant(why(GATE_SILENT));
	facts.busy = false;
	expect_str(of(&facts), "idle");
	facts.stands = true;
	expect_str(of(&facts), "waits-for-turn");
}

TEST(a_tenant_that_waits_for_memory_is_not_idle)
{
	struct doing_facts facts = a_tenant(why(GATE_MEMORY));

	/* Its memory is out, and it wants the device. */
	expect_str(of(&facts), "waits-for-memory");
	/* It submits nothing, but one of its threads waits to read what is out. */
	facts.busy = false;
	facts.stands = true;
	expect_str(of(&facts), "waits-for-memory");
	/* It submits nothing, as its thread waits for the answer to an allocation. */
	facts.stands = false;
	facts.asks = true;
	expect_str(of(&facts), "waits-for-room");
	facts.reasons = why(GATE_SILENT);
	expect_str(of(&facts), "waits-for-room");
	facts.reasons = 0;
	facts.governed = facts.says = false;
	expect_str(of(&facts), "waits-for-room");
}

TEST(a_tenant_that_wants_nothing_is_idle_wherever_its_memory_is)
{
	struct doing_facts facts = a_tenant(why(GATE_SILENT));

	facts.busy = false;
	expect_str(of(&facts), "idle");
	facts.reasons = why(GATE_MEMORY) | why(GATE_OUT);
	expect_str(of(&facts), "idle");
	facts.reasons = why(GATE_PARKED) | why(GATE_OUT);
	expect_str(of(&facts), "parked");
	facts.busy = true;
	expect_str(of(&facts), "waits-for-memory");
	/* Nobody else wants the device: its gate stays open. */
	facts = a_tenant(0);
	expect_str(of(&facts), "computes");
	facts.busy = false;
	expect_str(of(&facts), "idle");
	/* Without turns, too, if it says so. */
	facts.governed = false;
	expect_str(of(&facts), "idle");
	facts.says = false;
	expect_str(of(&facts), "running");
}

TEST(a_long_kernel_does_not_hang)
{
	struct doing_facts facts = a_tenant(why(GATE_ENDS));

	facts.undrained_ns = second - 1;
	expect_str(of(&facts), "computes");
	facts.undrained_ns = 3 * second;
	expect_str(of(&facts), "long-kernel");
	/* Others run by now. */
	facts.reasons = why(GATE_HUNG);
	facts.busy = false;
	expect_str(of(&facts), "long-kernel");
	facts.undrained_ns = 30 * second;
	expect_str(of(&facts), "hangs");
}

TEST(a_tenant_that_has_had_longer_kernels_is_given_longer)
{
	struct doing_facts facts = a_tenant(why(GATE_HUNG));

	facts.longest_ns = 50 * second;
	facts.undrained_ns = 100 * second - 1;
	expect_str(of(&facts), "long-kernel");
	facts.undrained_ns++;
	expect_str(of(&facts), "hangs");
	facts.longest_ns = UINT64_MAX;
	facts.undrained_ns = 29 * second;
	expect_str(of(&facts), "long-kernel");
}

TEST(a_reason_why_work_does_not_end_is_given_instead)
{
	struct doing_facts facts = a_tenant(why(GATE_HUNG));

	facts.undrained_ns = 100 * second;
	expect_str(of(&facts), "hangs");
	facts.paused = true;
	expect_str(of(&facts), "stopped");
	/* Its work waits for a thread that waits at the gate. */
	facts.paused = false;
	facts.coupled = facts.stands = true;
	expect_str(of(&facts), "waits-for-turn");
	facts.reasons |= why(GATE_HALTED);
	expect_str(of(&facts), "suspended-by-share");
}

TEST(a_suspended_or_absent_tenant_is_called_so_though_it_asks)
{
	struct doing_facts facts = a_tenant(why(GATE_SUSPENDED) | why(GATE_OUT));

	facts.asks = true;
	expect_str(of(&facts), "suspended");
	facts.present = false;
	expect_str(of(&facts), "absent");
}

TEST(a_word_of_a_newer_meted_is_unknown)
{
	expect_str(doing_name(DOING_STATES), "unknown");
	expect_str(doing_now(DOING_STATES), "-");
	expect_str(doing_name(UINT32_MAX), "unknown");
	expect_str(doing_now(DOING_MEMORY), "waits");
}
