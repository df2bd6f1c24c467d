/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "replay/memory_faults.h"
#include "replay/memory_link.h"
#include "replay/memory_pods.h"
#include "replay/memory_report.h"
#include "tests/test.h"

#define MS 1000000ull
#define GB 1000000000ull

static struct memory_load loads[4];
static struct memory_setup setup;

static void given(uint32_t tenants, const char *text)
{
	struct fault why;
	uint32_t count;

	memory_setup_init(&setup);
	setup.device_bytes = 16ull << 30;
	for (uint32_t i = 0; i < tenants; i++)
		expect_eq(memory_load_parse(text, &loads[i], &count, &why), 0);
	setup.loads = loads;
	setup.tenants = tenants;
	setup.length_ns = 3600 * 1000 * MS;
}

static struct memory_outcome run(void)
{
	struct memory_outcome o;
	struct fault why;

	expect_eq(memory_world_run(&setup, &o, &why), 0);
	return o;
}

TEST(a_tenant_with_memory_is_written_as_words)
{
	struct memory_load load;
	struct fault why;
	uint32_t count;

	expect_eq(memory_load_parse("4x name=a set=15.3G load=job:300s:10s:2500ms clean=80% "
				    "kernel=2ms join=1s weight=200",
				    &load, &count, &why),
		  0);
	expect_eq(count, 4);
	expect_str(load.name, "a");
	expect_eq(load.set_bytes, (153ull << 30) / 10);
	expect_eq(load.work_ns, 300 * GB);
	expect_eq(load.burst_ns, 10 * GB);
	expect_eq(load.pause_ns, 2500 * MS);
	expect_eq(load.clean_milli, 800);
	expect_eq(load.kernel_ns, 2 * MS);
	expect_eq(load.share.weight, 200);
}

TEST(an_unknown_word_for_a_tenant_with_memory_is_named)
{
	static const char *const bad[] = {"set",
					  "set=3",
					  "set=-1G",
					  "load=busy",
					  "load=job:1s",
					  "load=job:0s:1s:1s",
					  "load=job:1s:1s:1s:1s",
					  "clean=101%",
					  "clean=5",
					  "kernel=0ms",
					  "0x",
					  "9999x",
					  "weight=0",
					  "colour=red"};
	struct memory_load load;
	struct fault why;
	uint32_t count;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		why.text[0] = 0;
		expect_eq(memory_load_parse(bad[i], &load, &count, &why), -EINVAL);
		expect(strlen(why.text) > 10);
	}
}

TEST(two_ways_at_once_are_slower_where_the_link_says_so)
{
	struct memory_copy out, in;
	struct memory_link link;

	memory_link_init(&link, 2, 1);
	memory_link_add(&link, MEMORY_OUT, &out, 1000);
	expect_eq(memory_link_next(&link), 500);
	memory_link_advance(&link, 250);
	memory_link_add(&link, MEMORY_IN, &in, 1000);
	expect_eq(memory_link_next(&link), 750);
	memory_link_advance(&link, 750);
	expect(memory_link_done(&link, MEMORY_OUT) == &out);
	expect(!memory_link_done(&link, MEMORY_IN));
	/* Half of it is left, and the link is its own. */
	expect_eq(memory_link_next(&link), 1000);
}

TEST(tenants_that_fit_run_as_by_the_hardwares_slices_and_nothing_moves)
{
	struct memory_outcome ours, plain;

	given(3, "set=5GB load=job:5s:300ms:200ms");
	ours = run();
	setup.plain = true;
	plain = run();
	expect_eq(ours.left_bytes + ours.came_bytes, 0);
	/* But for the word that opens the first gate. */
	expect_eq(ours.ended_ns, plain.ended_ns + setup.delay_ns);
	memory_outcome_done(&ours, 3);
	memory_outcome_done(&plain, 3);
}

TEST(jobs_that_fill_the_device_all_end_and_move_at_line_rate)
{
	struct memory_outcome o;

	given(2, "set=14.4GB load=job:60s:20s:2s");
	o = run();
	for (int i = 0; i < 2; i++) {
		expect(o.tenants[i].ended_ns > 0);
		expect_eq(o.tenants[i].served_ns, 60 * GB);
		expect_eq(o.tenants[i].refused, 0);
	}
	expect(o.sets >= 2 && o.left_bytes > 0);
	expect(o.resident_most <= setup.device_bytes);
	expect(o.store_most <= setup.store_bytes);
	expect(memory_outcome_efficiency(&o, &setup) >= 950);
	memory_outcome_done(&o, 2);
}

TEST(memory_that_does_not_change_is_copied_out_once)
{
	struct memory_outcome o;

	given(2, "set=14.4GB load=job:60s:20s:2s clean=100%");
	o = run();
	expect(o.left_bytes > 2 * o.copied_bytes);
	/* Each byte of both sets, and no more. */
	expect(o.copied_bytes <= 2 * (144ull << 30) / 10);
	memory_outcome_done(&o, 2);
}

TEST(a_tenant_that_is_larger_than_the_device_is_refused)
{
	struct memory_outcome o;

	given(1, "set=17GB load=job:1s:1s:0s");
	o = run();
	expect_eq(o.tenants[0].refused, 1);
	memory_outcome_done(&o, 1);
}

TEST(sets_of_four_that_fit_in_pairs_move_less_than_one_after_the_other)
{
	struct memory_outcome o;

	given(4, "set=8GB load=job:30s:1s:1s");
	o = run();
	/* In pairs each fills the other's pauses. */
	expect(o.ended_ns < memory_report_sequential(&setup) * 7 / 10);
	for (int i = 0; i < 4; i++)
		expect(o.tenants[i].longest_ns <= 31 * GB);
	memory_outcome_done(&o, 4);
}

static struct memory_outcome run_by_faults(void)
{
	struct memory_faults faults;
	struct memory_outcome o;
	struct fault why;

	memory_faults_init(&faults);
	expect_eq(memory_faults_run(&setup, &faults, &o, &why), 0);
	return o;
}

TEST(managed_memory_that_fits_faults_once_for_each_page)
{
	struct memory_outcome o;

	given(2, "set=7G load=job:20s:2s:0s");
	o = run_by_faults();
	expect_eq(o.came_bytes, 2 * 7ull << 30);
	expect_eq(o.left_bytes, 0);
	/* 40 s of kernels on one device, and the two sets' faults. */
	expect(o.ended_ns > 40 * GB && o.ended_ns < 40 * GB + 5 * GB);
	memory_outcome_done(&o, 2);
}

TEST(managed_memory_that_does_not_fit_faults_on_each_touch)
{
	struct memory_outcome o;
	double slower = 1 + 28.9 / 3.7;

	given(2, "set=15G load=job:20s:20s:0s");
	o = run_by_faults();
	/* Each sweep finds the other's pages. The last job's last sweep may be alone. */
	expect((double)o.ended_ns < 1.001 * slower * 40e9);
	expect((double)o.ended_ns > 0.98 * slower * 40e9);
	expect(o.came_bytes > 1000ull << 30 && o.left_bytes > 1000ull << 30);
	memory_outcome_done(&o, 2);
}

TEST(a_job_whose_neighbour_pauses_has_the_device_for_itself)
{
	struct memory_outcome o;

	/* The second one's only burst is long over when the first one goes on alone. */
	given(2, "set=15G load=job:60s:60s:0s");
	loads[1].work_ns = loads[1].burst_ns = 1 * GB;
	o = run_by_faults();
	expect(o.tenants[1].ended_ns < 25 * GB);
	expect(o.tenants[0].ended_ns < o.tenants[1].ended_ns + 65 * GB);
	memory_outcome_done(&o, 2);
}

TEST(faults_are_modelled_for_jobs_alone)
{
	static const struct memory_step steps[1];
	struct memory_faults faults;
	struct memory_outcome o;
	struct fault why;

	given(1, "set=1G name=recorded");
	loads[0].steps = steps;
	memory_faults_init(&faults);
	expect_eq(memory_faults_run(&setup, &faults, &o, &why), -EINVAL);
	expect_str(why.text, "recorded: faults are modelled for jobs with a set");
	loads[0].steps = NULL;
	setup.device_bytes = 1 << 20;
	expect_eq(memory_faults_run(&setup, &faults, &o, &why), -EINVAL);
}

/* Two pods of which one holds what the other needs, in a table of its own. */
TEST(recorded_pods_that_do_not_fit_together_are_served)
{
	char path[] = "/tmp/mete-pods-XXXXXX";
	struct memory_pods_sums sums;
	struct memory_pods_job job;
	int fd = mkstemp(path);
	owned(fclose) FILE *file = fdopen(fd, "w");
	struct fault why;

	expect(file != NULL);
	fputs("t_s,pod,duty,memory_bytes\n", file);
	for (int t = 0; t < 20; t++) {
		for (int pod = 0; pod < 2; pod++)
			fprintf(file, "%d,%d,%d,60000000000\n", 60 * t, pod, t % 2 == pod ? 30 : 0);
	}
	fflush(file);
	memory_pods_init(&job);
	memory_setup_init(&job.setup);
	memory_pods_setup(&job.setup);
	job.path = path;
	expect_eq(memory_pods_run(&job, &sums, &why), 0);
	expect_eq(sums.pods, 2);
	expect_eq(sums.gpus, 1);
	expect_eq(sums.refused, 0);
	expect(sums.handovers > 5 && sums.moved_bytes > 0);
	expect(sums.deferred_percent < 4 && sums.longest_wait_s < 30);
	unlink(path);
}

TEST(a_table_that_is_none_is_named)
{
	char path[] = "/tmp/mete-pods-XXXXXX";
	struct memory_pods_sums sums;
	struct memory_pods_job job;
	int fd = mkstemp(path);
	owned(fclose) FILE *file = fdopen(fd, "w");
	struct fault why;

	expect(file != NULL);
	fputs("t_s,pod,duty,memory_bytes\n1,2,three,4\n", file);
	fflush(file);
	memory_pods_init(&job);
	memory_setup_init(&job.setup);
	job.path = path;
	expect_eq(memory_pods_run(&job, &sums, &why), -EINVAL);
	expect(strstr(why.text, "line 2"));
	unlink(path);
}

TEST(the_report_is_written_in_each_form)
{
	owned(free) char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	struct memory_outcome o;
	struct memory_report report = {.setup = &setup, .outcome = &o};

	given(2, "name=a set=14.4GB load=job:5s:1s:1s");
	o = run();
	report.sequential_ns = memory_report_sequential(&setup);
	expect_eq(report.sequential_ns, 2 * (5 + 4) * GB);
	memory_report_print(out, &report);
	memory_report_json(out, &report);
	memory_report_svg(out, &report);
	fclose(out);
	expect(strstr(text, "all ended after"));
	expect(strstr(text, "\"spans\":["));
	expect(strstr(text, "</svg>"));
	memory_outcome_done(&o, 2);
}
