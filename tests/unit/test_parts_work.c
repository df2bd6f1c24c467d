/* SPDX-License-Identifier: Apache-2.0 */
/* Parts that the thread makes and removes on a driver that refuses: a part that cannot be made or
 * removed keeps no other, and a half-made one is not forgotten. */
#include "plugin/nvidia/parts_work.h"
#include "tests/test.h"
#include "tests/unit/mig_driver.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ID MIG_DRIVER_ID

static struct parts_job job;

/* Nothing is on record. */
static void begin(void)
{
	mig_driver_begin();
	job = (struct parts_job){0};
	snprintf(job.record, sizeof(job.record), "/tmp/mete-parts-%d", (int)getpid());
}

static void end(void)
{
	free(job.state.gpu);
	unlink(job.record);
}

static void work(bool sweeps, const char *const *wants, uint32_t count)
{
	job.sweeps = sweeps;
	job.wants = count;
	job.stuck = 0;
	job.read = false;
	for (uint32_t i = 0; i < count; i++)
		snprintf(job.want[i], IDS_BYTES, "%s", wants[i]);
	parts_work(&job);
}

/* They become nobody's. */
static void take_all(void)
{
	for (uint32_t i = 0; i < job.state.rows; i++)
		job.state.row[i].busy = false;
}

TEST(a_half_made_part_that_stays_is_removed_later)
{
	static const char *const wants[] = {ID "3"};

	begin();
	mig_driver.broken = 3;
	work(false, wants, 1);
	expect(job.r == -EIO && strstr(job.why.text, "no compute instance"));
	expect(mig_driver.gpu.parts == 1 && parts_row(&job.state, ID "3"));
	expect(!parts_row(&job.state, ID "3")->busy);
	work(true, NULL, 0);
	expect(job.r == 0 && mig_driver.gpu.parts == 0 && job.state.rows == 0);
	end();
}

TEST(a_part_that_cannot_be_removed_keeps_no_other)
{
	static const char *const wants[] = {ID "0", ID "1", ID "2"};

	begin();
	work(false, wants, 3);
	expect(job.r == 0 && mig_driver.gpu.parts == 3);
	take_all();
	mig_driver.lasting = 2; /* the one that is tried first */
	work(true, NULL, 0);
	expect(job.r == -EIO && mig_driver.gpu.parts == 1 && job.state.rows == 1);
	/* It is no room for others. */
	expect(!parts_goes(&job.state, &job.state.gpu[0], &job.state.gpu[0].part[0]));
	mig_driver.lasting = MIG_DRIVER_NOWHERE;
	work(true, NULL, 0);
	expect(job.r == 0 && mig_driver.gpu.parts == 0);
	end();
}

TEST(a_part_that_cannot_be_made_keeps_no_other_of_a_check)
{
	static const char *const wants[] = {ID "0", ID "1"};

	begin();
	mig_driver.broken = 0;
	work(true, wants, 2);
	expect(job.r == -EIO && parts_row(&job.state, ID "1"));
	end();
}

TEST(a_part_with_a_process_is_given_to_nobody)
{
	static const char *const wants[] = {ID "0"};

	begin();
	work(false, wants, 1);
	mig_driver.used = 0;
	/* The container that has it may start again. */
	work(false, wants, 1);
	expect(job.r == 0);
	take_all();
	work(true, NULL, 0);
	expect(job.r == 0 && job.stuck == 1 && mig_driver.gpu.parts == 1);
	expect(!parts_goes(&job.state, &job.state.gpu[0], &job.state.gpu[0].part[0]));
	work(false, wants, 1);
	expect(job.r == -EBUSY && strstr(job.why.text, "process 4711 is on " ID "0"));
	expect(!job.state.row[0].busy);
	mig_driver.used = MIG_DRIVER_NOWHERE;
	work(false, wants, 1);
	expect(job.r == 0 && job.state.row[0].busy);
	end();
}

/* A part that is destroyed may have a user whom the driver did not name. */
TEST(a_part_whose_users_the_driver_does_not_tell_stays_and_is_given_to_nobody)
{
	static const char *const wants[] = {ID "0"};

	begin();
	work(false, wants, 1);
	take_all();
	mig_driver.unsaid = true;
	work(true, NULL, 0);
	expect(job.r == 0 && job.stuck == 1 && mig_driver.gpu.parts == 1);
	work(false, wants, 1);
	expect(job.r == -EBUSY &&
	       strstr(job.why.text, "does not say whether a process is on " ID "0"));
	expect(!job.state.row[0].busy);
	mig_driver.unsaid = false;
	work(true, NULL, 0);
	expect(job.r == 0 && job.stuck == 0 && mig_driver.gpu.parts == 0);
	end();
}
