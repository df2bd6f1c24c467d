/* SPDX-License-Identifier: Apache-2.0 */
/* A device's books, between processes, and its answers about itself. */
#include "sim/machine/device.h"

#include "sim/machine/clock.h"
#include "sim/machine/engine.h"
#include "tests/unit/sim_segment_fixture.h"

TEST(a_device_is_shared_and_the_dead_give_back)
{
	struct child child;
	uint64_t free_bytes, total_bytes;

	given();
	expect_eq(segment_join(), 0);
	child = start(takes_three);
	expect_eq(answer_of(&child), 0);
	expect_eq(device_take(0, 2 * GIB), DEVICE_FULL);
	expect_eq(device_take(0, GIB), 0);
	expect_eq(device_take(0, 1), DEVICE_FULL);
	end(&child);
	expect_eq(device_take(0, 3 * GIB), 0);
	device_give(0, 4 * GIB);
	device_memory(0, &free_bytes, &total_bytes);
	expect_eq(free_bytes, 4 * GIB);
	expect_eq(total_bytes, 4 * GIB);
	clean();
}

TEST(a_zombie_holds_nothing)
{
	struct child child;
	siginfo_t info;

	given();
	expect_eq(segment_join(), 0);
	child = start(takes_three);
	expect_eq(answer_of(&child), 0);
	kill(child.pid, SIGKILL);
	expect_eq(waitid(P_PID, (id_t)child.pid, &info, WEXITED | WNOWAIT), 0);
	expect_eq(device_take(0, 4 * GIB), 0);
	end(&child);
	clean();
}

TEST(nobody_gives_back_more_than_it_has)
{
	uint64_t free_bytes, total_bytes;
	struct child child;

	given();
	expect_eq(segment_join(), 0);
	child = start(takes_three);
	expect_eq(answer_of(&child), 0);
	device_give(0, GIB);
	device_memory(0, &free_bytes, &total_bytes);
	expect_eq(free_bytes, GIB);
	end(&child);
	clean();
}

static int touches_two_managed(void)
{
	uint64_t own;
	int r = device_take_managed(0, 2 * GIB, &own);

	device_touch_managed(0);
	return r;
}

static uint64_t held_by(pid_t pid)
{
	for (uint32_t i = 0; i < segment_slots(segment_get()); i++)
		if (segment_get()->processes[i].pid == pid)
			return device_used_by(0, i);
	return 0;
}

TEST(managed_memory_is_pushed_out_the_longest_unused_first)
{
	uint64_t own, free_bytes, total_bytes;
	struct child older, newer;

	given();
	expect_eq(segment_join(), 0);
	older = start(touches_two_managed);
	expect_eq(answer_of(&older), 0);
	newer = start(touches_two_managed);
	expect_eq(answer_of(&newer), 0);
	/* Full. The older loses one of its two. */
	expect_eq(device_take_managed(0, GIB, &own), 0);
	expect_eq(own, 0);
	expect_eq(device_used_by(0, segment_number(segment_self())), GIB);
	expect_eq(held_by(older.pid), GIB);
	expect_eq(held_by(newer.pid), 2 * GIB);
	/* For plain memory, too. */
	expect_eq(device_take(0, GIB / 2), 0);
	expect_eq(held_by(older.pid), GIB / 2);
	device_give(0, GIB / 2);
	/* Then all of the older, all of the newer, at last its own. */
	expect_eq(device_take_managed(0, 4 * GIB, &own), 0);
	expect_eq(own, GIB);
	expect_eq(device_used_by(0, segment_number(segment_self())), 4 * GIB);
	expect_eq(device_take_managed(0, 5 * GIB, &own), DEVICE_FULL);
	device_give_managed(0, 4 * GIB);
	device_memory(0, &free_bytes, &total_bytes);
	expect_eq(free_bytes, 4 * GIB);
	end(&older);
	end(&newer);
	clean();
}

static int pushes_one_out(void)
{
	uint64_t own;

	return device_take_managed(0, GIB, &own) || own;
}

TEST(a_process_that_was_pushed_out_is_told_once)
{
	struct child child;
	uint64_t own;

	given();
	expect_eq(segment_join(), 0);
	expect_eq(device_take_managed(0, 4 * GIB, &own), 0);
	expect_eq(device_pushed_out(0), 0);
	child = start(pushes_one_out);
	expect_eq(answer_of(&child), 0);
	expect_eq(device_pushed_out(0), GIB);
	expect_eq(device_pushed_out(0), 0);
	end(&child);
	child = start(pushes_one_out);
	expect_eq(answer_of(&child), 0);
	/* Given back without having been told: counted once. */
	device_give_managed(0, 3 * GIB);
	expect_eq(device_pushed_out(0), 0);
	end(&child);
	clean();
}

TEST(uuids_are_the_same_in_every_run_and_differ_by_device_and_seed)
{
	char first[41], again[41], second[41], seeded[41];
	uint8_t uuid[16];

	given();
	setenv("METE_SIM_DEVICES", "2xT4", 1);
	expect_eq(segment_join(), 0);
	device_uuid_text(0, first);
	device_uuid_text(1, second);
	device_uuid(1, uuid);
	expect_eq(device_by_uuid(uuid), 1);
	uuid[3] ^= 1;
	expect_eq(device_by_uuid(uuid), -1);
	segment_leave();
	expect_eq(segment_join(), 0);
	device_uuid_text(0, again);
	expect_str(again, first);
	expect(strcmp(first, second) != 0);
	segment_leave();
	setenv("METE_SIM_SEED", "7", 1);
	expect_eq(segment_join(), 0);
	device_uuid_text(0, seeded);
	expect(strcmp(first, seeded) != 0);
	expect_eq(strlen(first), 40);
	clean();
}

TEST(every_attribute_has_an_answer_and_unknown_ones_none)
{
	int value = 0;

	given();
	setenv("METE_SIM_DEVICES", "H200", 1);
	expect_eq(segment_join(), 0);
	for (int i = 1; i <= 147; i++)
		expect_eq(device_attribute(0, i, &value), 0);
	expect_eq(device_attribute(0, 0, &value), DEVICE_UNKNOWN);
	expect_eq(device_attribute(0, 148, &value), DEVICE_UNKNOWN);
	expect_eq(device_attribute(0, -1, &value), DEVICE_UNKNOWN);
	expect_eq(device_attribute(0, 16, &value), 0);
	expect_eq(value, 132);
	expect_eq(device_attribute(0, 75, &value), 0);
	expect_eq(value, 9);
	clean();
}

TEST(a_lost_device_refuses_and_wakes_all_that_wait)
{
	struct engine_ticket ticket;

	given();
	expect_eq(segment_join(), 0);
	device_lose(0);
	expect(device_is_lost(0));
	expect_eq(device_take(0, 1), DEVICE_LOST);
	engine_kernel_begin(0, 0, clock_now_ns(), 0, &ticket);
	expect_eq(engine_kernel_end(&ticket, ENGINE_FOR_EVER, NULL, NULL), ENGINE_LOST);
	expect_eq(segment_get()->devices[0].event_count, 1);
	expect_eq(segment_get()->devices[0].events[0].value, 79);
	clean();
}
