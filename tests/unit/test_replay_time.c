/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "replay/time_measure.h"
#include "replay/time_pods.h"
#include "tests/test.h"

TEST(a_tenant_is_written_as_words)
{
	struct time_load load;
	struct fault why;
	uint32_t count;

	expect_eq(
		time_load_parse("4x name=a weight=200 cap=25% class=batch kernel=10ms processes=3 "
				"load=poisson:20/s:5ms join=1s leave=2.5s",
				&load, &count, &why),
		0);
	expect_eq(count, 4);
	expect_str(load.name, "a");
	expect_eq(load.share.weight, 200);
	expect_eq(load.share.cap_milli, 250);
	expect_eq(load.share.class, SHARE_BATCH);
	expect_eq(load.kernel_ns, 10000000);
	expect_eq(load.processes, 3);
	expect_eq(load.kind, TIME_POISSON);
	expect_eq(load.pause_ns, 50000000);
	expect_eq(load.work_ns, 5000000);
	expect_eq(load.leave_ns, 2500000000);
}

TEST(an_unknown_word_is_named)
{
	static const char *const bad[] = {
		"weight",      "weight=0",	   "kernel=0ms",	 "kernel=5",
		"processes=0", "load=often",	   "load=pulse:0ms:5ms", "load=poisson:20:5ms",
		"0x",	       "join=2s leave=1s", "colour=red"};
	struct time_load load;
	struct fault why;
	uint32_t count;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		why.text[0] = 0;
		expect_eq(time_load_parse(bad[i], &load, &count, &why), -EINVAL);
		expect(strlen(why.text) > 10);
	}
}

TEST(the_right_division_keeps_guarantees_and_caps)
{
	struct time_load loads[3];
	double shares[3];

	for (int i = 0; i < 3; i++)
		time_load_init(&loads[i]);
	loads[0].share.guarantee_milli = 500;
	loads[1].share.cap_milli = 100;
	time_measure_ideal(loads, 3, shares);
	expect_eq((int)(1000 * shares[0] + 0.5), 500);
	expect_eq((int)(1000 * shares[1] + 0.5), 100);
	expect_eq((int)(1000 * shares[2] + 0.5), 400);
}

TEST(the_same_seed_gives_the_same_run)
{
	struct time_load loads[2];
	struct time_setup setup;
	struct time_outcome one, two;
	struct fault why;

	time_load_init(&loads[0]);
	time_load_init(&loads[1]);
	loads[0].share.weight = 300;
	loads[1].kind = TIME_POISSON;
	loads[1].work_ns = 3000000;
	loads[1].pause_ns = 9000000;
	time_setup_init(&setup);
	setup.loads = loads;
	setup.tenants = 2;
	setup.length_ns = 5000000000;
	setup.seed = test_random();
	expect_eq(time_world_run(&setup, &one, &why), 0);
	expect_eq(time_world_run(&setup, &two, &why), 0);
	expect_eq(one.events, two.events);
	expect_eq(one.waits[1].size, two.waits[1].size);
	expect(one.waits[1].size > 100);
	expect(memcmp(one.charged, two.charged, 2 * one.samples * sizeof(uint64_t)) == 0);
	/* A device does not run for longer than there is time. */
	expect(one.served[2 * (one.samples - 1)] + one.served[2 * (one.samples - 1) + 1] <=
	       setup.length_ns);
	time_outcome_done(&one, 2);
	time_outcome_done(&two, 2);
}

static int run_pods(const char *text, struct time_pods_row **rows, size_t *size, struct fault *why)
{
	char path[] = "/tmp/mete-pods-XXXXXX";
	owned(close) int fd = mkstemp(path);
	struct time_pods_job job;
	int r;

	expect(fd >= 0);
	expect_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	time_pods_init(&job);
	job.path = path;
	job.gpus = 5;
	job.most = 4;
	job.length_ns = 4000000000;
	r = time_pods_run(&job, rows, size, why);
	unlink(path);
	return r;
}

TEST(pods_are_replayed_as_they_were_recorded)
{
	owned(free) struct time_pods_row *rows = NULL;
	struct fault why;
	size_t size;

	expect_eq(run_pods("t_s,pod,duty,memory_bytes\n0,7,20,60000000000\n60,7,20,1\n0,9,20.0,5\n",
			   &rows, &size, &why),
		  0);
	expect_eq(size, 4);
	expect_eq(rows[2].pods, 3);
	expect(rows[2].demand > 59.9 && rows[2].demand < 60.1);
	expect(rows[0].had > 80 && rows[0].fits > 99);
	expect(rows[0].alone_nine_ms >= 20);
}

TEST(a_bad_table_of_pods_is_refused_with_its_line_number)
{
	struct time_pods_row *rows;
	struct fault why;
	size_t size;

	expect_eq(run_pods("t_s,pod,duty,memory_bytes\n0,7,20,5\n0,7,120,5\n", &rows, &size, &why),
		  -EINVAL);
	expect(strstr(why.text, "line 3") != NULL);
	expect_eq(run_pods("a,b\n", &rows, &size, &why), -EINVAL);
	expect_eq(run_pods("t_s,pod,duty,memory_bytes\n", &rows, &size, &why), -EINVAL);
}
