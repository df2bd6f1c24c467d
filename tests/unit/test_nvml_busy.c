/* SPDX-License-Identifier: Apache-2.0 */
/* Which processes had a GPU, of a driver that wants more room than it then uses:
 * tests/drivers/divided/nvml.c. */
#include "node/devices/nvml.h"

#include <stdlib.h>

#include "tests/test.h"

enum { ROOM = 8 };

/* The answer of nvml_busy() with room for ROOM rows, of a driver as METE_TEST_SAMPLES describes it.
 */
static int asked(const char *samples, struct nvml_busy *rows, uint32_t *ret_count)
{
	struct nvml *nvml;
	struct fault why;
	int r;

	if (samples)
		setenv("METE_TEST_SAMPLES", samples, 1);
	else
		unsetenv("METE_TEST_SAMPLES");
	if (nvml_open(DIVIDED, &nvml, &why) < 0)
		test_fail(__FILE__, __LINE__, "%s", why.text);
	*ret_count = 99;
	r = nvml_busy(nvml, 0, 100, rows, ROOM, ret_count);
	nvml_close(nvml);
	return r;
}

TEST(a_driver_gets_the_room_that_it_wants_for_the_rows_that_there_are)
{
	struct nvml_busy rows[ROOM];
	uint32_t count;

	expect_eq(asked("72 5 0", rows, &count), 0);
	expect_eq(count, 5);
	expect_eq(asked("72 8 1", rows, &count), 0); /* it wants more each time */
	expect_eq(count, ROOM);
	expect_eq(asked("50000 1 0", rows, &count), 0);
	expect_eq(count, 1);
	expect_eq(rows[0].pid, 7);
	expect_eq(rows[0].at_us, 100);
}

TEST(nobody_busy_is_no_row)
{
	struct nvml_busy rows[ROOM];
	uint32_t count;

	expect_eq(asked("72 0 0", rows, &count), 0);
	expect_eq(count, 0);
}

TEST(a_driver_that_wants_ever_more_is_given_up)
{
	struct nvml_busy rows[ROOM];
	uint32_t count;

	expect_eq(asked("65537 1 0", rows, &count), -ENOSPC);
	expect_eq(asked("72 1 1000", rows, &count), -ENOSPC);
	expect_eq(asked(NULL, rows, &count), -EIO);
}

TEST(more_rows_than_there_is_room_for_are_none)
{
	struct nvml_busy rows[ROOM];
	uint32_t count;

	expect_eq(asked("72 9 0", rows, &count), -ENOSPC);
}

TEST(a_processs_rows_are_found_by_its_pid)
{
	struct nvml_busy rows[ROOM];
	const struct nvml_busy *found;
	uint32_t count, of_pid, percent = 0;

	expect_eq(asked("72 8 0", rows, &count), 0);
	found = nvml_busy_of(rows, count, 6, &of_pid);
	expect_eq(of_pid, 3);
	for (uint32_t i = 0; i < of_pid; i++) {
		expect_eq(found[i].pid, 6);
		percent += found[i].percent;
	}
	expect_eq(percent, 1 + 4 + 7);
	found = nvml_busy_of(rows, count, 7, &of_pid);
	expect_eq(of_pid, 3);
	expect_eq(found[0].pid, 7);
	nvml_busy_of(rows, count, 4, &of_pid);
	expect_eq(of_pid, 0);
	nvml_busy_of(rows, count, 8, &of_pid);
	expect_eq(of_pid, 0);
	nvml_busy_of(rows, 0, 6, &of_pid);
	expect_eq(of_pid, 0);
}
