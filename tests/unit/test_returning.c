/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/returning.h"
#include "tests/test.h"

TEST(a_unit_that_runs_or_waits_for_its_restart_is_waited_for)
{
	expect(returning_in("ActiveState=activating\n"));
	expect(returning_in("Job=\nActiveState=active\n"));
	expect(returning_in("ActiveState=reloading"));
	expect(returning_in("ActiveState=deactivating\nJob=812\n"));
}

TEST(a_unit_between_its_stop_and_its_start_has_a_job)
{
	expect(returning_in("ActiveState=inactive\nJob=77\n"));
	expect(returning_in("Job=77\nActiveState=failed\n"));
}

TEST(a_unit_that_ended_or_is_not_there_is_not)
{
	expect(!returning_in(""));
	expect(!returning_in("ActiveState=inactive\n"));
	expect(!returning_in("ActiveState=failed\nJob=\n"));
	expect(!returning_in("ActiveState=inactive\nJob=0\n"));
	expect(!returning_in("ActiveState=inactive\nOtherJob=7\n"));
	expect(!returning_in("WasActiveState=active\nActiveState=inactive"));
}
