/* SPDX-License-Identifier: Apache-2.0 */
/* What the thread makes and removes on a driver that refuses: a part that cannot be made or removed
 * keeps no other, and what is half made is not forgotten. The driver is this file. */
#include "mig/nvml.h"
#include "plugin/nvidia/parts_work.h"
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ID "GPU-1:1g.10gb:"

enum { PLACES = 7, NOWHERE = 99 };

struct mig_nvml {
	struct mig_gpu gpu;
	uint32_t broken;  /* its compute instance cannot be made, nor its GPU instance destroyed */
	uint32_t lasting; /* cannot be destroyed */
	uint32_t used;	  /* a process is there */
};

static struct mig_nvml driver;

int mig_open(const char *folder, struct mig_nvml **ret_nvml, struct fault *why)
{
	(void)folder;
	(void)why;
	*ret_nvml = &driver;
	return 0;
}

void mig_close(struct mig_nvml *nvml)
{
	(void)nvml;
}

uint32_t mig_count(const struct mig_nvml *nvml)
{
	(void)nvml;
	return 1;
}

int mig_read(const struct mig_nvml *nvml, uint32_t index, struct mig_gpu *ret_gpu,
	     struct fault *why)
{
	(void)index;
	(void)why;
	*ret_gpu = nvml->gpu;
	return 0;
}

int mig_make(const struct mig_nvml *nvml, const struct mig_gpu *gpu, uint32_t profile,
	     uint32_t start, struct fault *why)
{
	struct mig_part *part = &driver.gpu.part[driver.gpu.parts++];

	(void)nvml;
	*part = (struct mig_part){.profile = profile, .id = start, .place = {start, 1}};
	if (start == driver.broken)
		return fault_set(why, -EIO, "GPU %u: no compute instance", gpu->index);
	part->computes = 1;
	part->compute_slices[0] = 1;
	return 0;
}

int mig_unmake(const struct mig_nvml *nvml, const struct mig_gpu *gpu, const struct mig_part *part,
	       struct fault *why)
{
	struct mig_gpu *now = &driver.gpu;

	(void)nvml;
	if (part->id == driver.lasting)
		return fault_set(why, -EIO, "GPU %u: it stays", gpu->index);
	for (uint32_t i = now->parts; i-- > 0;)
		if (now->part[i].id == part->id)
			now->part[i] = now->part[--now->parts];
	return 0;
}

unsigned mig_user(const struct mig_nvml *nvml, const struct mig_gpu *gpu,
		  const struct mig_part *part)
{
	(void)gpu;
	return part->id == nvml->used ? 4711 : 0;
}

static struct parts_job job;

/* A GPU without parts, and nothing on record. */
static void begin(void)
{
	struct mig_profile *profile = &driver.gpu.profile[0];

	driver = (struct mig_nvml){.broken = NOWHERE, .lasting = NOWHERE, .used = NOWHERE};
	driver.gpu = (struct mig_gpu){.uuid = "GPU-1", .on = true, .profiles = 1};
	*profile = (struct mig_profile){
		.name = "1g.10gb", .slices = 1, .most = PLACES, .places = PLACES};
	for (uint32_t k = 0; k < PLACES; k++)
		profile->place[k] = (struct mig_place){k, 1};
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

TEST(what_is_half_made_and_stays_is_removed_later)
{
	static const char *const wants[] = {ID "3"};

	begin();
	driver.broken = 3;
	work(false, wants, 1);
	expect(job.r == -EIO && strstr(job.why.text, "no compute instance"));
	expect(driver.gpu.parts == 1 && parts_row(&job.state, ID "3"));
	expect(!parts_row(&job.state, ID "3")->busy);
	work(true, NULL, 0);
	expect(job.r == 0 && driver.gpu.parts == 0 && job.state.rows == 0);
	end();
}

TEST(a_part_that_cannot_be_removed_keeps_no_other)
{
	static const char *const wants[] = {ID "0", ID "1", ID "2"};

	begin();
	work(false, wants, 3);
	expect(job.r == 0 && driver.gpu.parts == 3);
	take_all();
	driver.lasting = 2; /* the one that is tried first */
	work(true, NULL, 0);
	expect(job.r == -EIO && driver.gpu.parts == 1 && job.state.rows == 1);
	/* It is no room for others. */
	expect(!parts_goes(&job.state, &job.state.gpu[0], &job.state.gpu[0].part[0]));
	driver.lasting = NOWHERE;
	work(true, NULL, 0);
	expect(job.r == 0 && driver.gpu.parts == 0);
	end();
}

TEST(a_part_that_cannot_be_made_keeps_no_other_of_a_look)
{
	static const char *const wants[] = {ID "0", ID "1"};

	begin();
	driver.broken = 0;
	work(true, wants, 2);
	expect(job.r == -EIO && parts_row(&job.state, ID "1"));
	end();
}

TEST(a_part_with_a_process_is_given_to_nobody)
{
	static const char *const wants[] = {ID "0"};

	begin();
	work(false, wants, 1);
	driver.used = 0;
	/* The container that has it may start again. */
	work(false, wants, 1);
	expect(job.r == 0);
	take_all();
	work(true, NULL, 0);
	expect(job.r == 0 && job.stuck == 1 && driver.gpu.parts == 1);
	expect(!parts_goes(&job.state, &job.state.gpu[0], &job.state.gpu[0].part[0]));
	work(false, wants, 1);
	expect(job.r == -EBUSY && strstr(job.why.text, "process 4711 is on " ID "0"));
	expect(!job.state.row[0].busy);
	driver.used = NOWHERE;
	work(false, wants, 1);
	expect(job.r == 0 && job.state.row[0].busy);
	end();
}
