/* SPDX-License-Identifier: Apache-2.0 */
/* A cluster from which pods leave. */
#include "replay/departures.h"
#include "tests/test.h"

static const char eight_nodes[] = "sn,cpu_milli,memory_mib,gpu,model\n"
				  "a,96000,65536,8,A\nb,96000,65536,8,A\n"
				  "c,96000,65536,8,A\nd,96000,65536,8,A\n"
				  "e,96000,65536,8,A\nf,96000,65536,8,A\n"
				  "g,96000,65536,8,A\nh,96000,65536,8,A\n";
static const char ones_and_eights[] =
	"cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time\n"
	"1000,64,1,1000,0,100\n1000,64,1,1000,0,100\n1000,64,1,1000,0,100\n"
	"1000,64,1,1000,0,100\n1000,64,1,1000,0,100\n1000,64,1,1000,0,100\n"
	"1000,64,1,500,0,100\n1000,64,1,500,0,100\n4000,64,8,1000,0,300\n";

static struct replay_trace trace_of(const char *pods)
{
	owned(fclose) FILE *a = fmemopen((void *)eight_nodes, strlen(eight_nodes), "r");
	owned(fclose) FILE *b = fmemopen((void *)pods, strlen(pods), "r");
	struct replay_trace trace;
	struct fault why;

	expect(a && b);
	expect_eq(replay_trace_read(a, "nodes.csv", b, "pods.csv", &trace, &why), 0);
	return trace;
}

static struct departures_run run_of(const char *policy, uint32_t load_milli)
{
	struct departures_run run = {.how = {.seed = 3, .overcommit_milli = 1000},
				     .load_milli = load_milli,
				     .lifetimes = 60,
				     .warm_up = 10,
				     .windows = 12};

	expect_eq(cluster_policy_parse(policy, &run.how.policy), 0);
	return run;
}

static struct departures_outcome outcome_of(const struct replay_trace *trace,
					    const struct departures_run *run)
{
	struct departures_outcome outcome;
	struct fault why;

	expect_eq(departures_replay(trace, run, &outcome, &why), 0);
	return outcome;
}

TEST(a_life_is_a_function_of_its_seed)
{
	struct replay_trace trace = trace_of(ones_and_eights);

	for (int policy = 0; policy <= CLUSTER_RANDOM; policy++) {
		struct departures_run run = run_of(cluster_policy_name(policy), 1200);
		struct departures_outcome a = outcome_of(&trace, &run);
		struct departures_outcome b = outcome_of(&trace, &run);

		expect_eq(memcmp(&a, &b, sizeof(a)), 0);
		expect(a.refused > 0);
		run.how.seed++;
		b = outcome_of(&trace, &run);
		expect(memcmp(&a, &b, sizeof(a)) != 0);
	}
	replay_trace_done(&trace);
}

TEST(a_pod_that_leaves_makes_room_for_the_next)
{
	static const char ones[] = "cpu_milli,memory_mib,num_gpu,gpu_milli\n1000,64,1,1000\n";
	struct replay_trace trace = trace_of(ones);
	struct departures_run run = run_of("best-fit", 500);
	struct departures_outcome half = outcome_of(&trace, &run), twice;

	/* 64 GPUs, 32 pods at a time in the mean: never full, and half in use. */
	expect_eq(half.size[2].refused, 0);
	expect(half.size[2].pods > 64 * 10);
	expect(half.allocated > 40 && half.allocated < 60);
	/* At twice what there is half is refused (Erlang's formula says 50.5 %), and it is full. */
	run.load_milli = 2000;
	twice = outcome_of(&trace, &run);
	expect(twice.refused > 45 && twice.refused < 56);
	expect(twice.allocated > 95 && twice.allocated <= 100);
	replay_trace_done(&trace);
}

TEST(windows_and_sizes_add_up_to_the_whole)
{
	struct replay_trace trace = trace_of(ones_and_eights);
	struct departures_run run = run_of("fgd", 1500);
	struct departures_outcome all;
	uint64_t asked = 0, refused = 0;
	double allocated = 0;

	run.warm_up = 0;
	all = outcome_of(&trace, &run);
	for (uint32_t i = 0; i < run.windows; i++)
		allocated += all.window[i].allocated / run.windows;
	expect(allocated > all.allocated - 0.01 && allocated < all.allocated + 0.01);
	for (int i = 0; i < DEPARTURES_SIZES; i++) {
		expect(all.size[i].refused <= all.size[i].pods);
		asked += all.size[i].milli;
		refused += all.size[i].refused_milli;
	}
	expect_eq(asked,
		  all.size[1].pods * 500 + all.size[2].pods * 1000 + all.size[5].pods * 8000);
	expect_eq((long)(all.refused * 1e6), (long)(100e6 * (double)refused / (double)asked));
	replay_trace_done(&trace);
}

TEST(each_window_is_closed_whatever_the_length)
{
	struct replay_trace trace = trace_of(ones_and_eights);
	struct departures_run run = run_of("fgd", 900);

	/* 1.08 x 60 / 60 is more than 1.08 in binary. */
	run.lifetimes = 1.08;
	run.warm_up = 0;
	run.windows = 60;
	expect(outcome_of(&trace, &run).window[59].allocated > 20);
	replay_trace_done(&trace);
}

TEST(recorded_lifetimes_are_those_of_the_list)
{
	static const char none[] = "cpu_milli,memory_mib,num_gpu,gpu_milli\n1000,64,1,1000\n";
	struct replay_trace trace = trace_of(ones_and_eights);
	struct departures_run run = run_of("best-fit", 300);
	struct departures_outcome outcome;
	struct fault why;

	/* The 8-GPU pod stays three times as long: most of what is allocated is its, and the load
	 * is met all the same. */
	expect_eq((long)trace.pods[8].lifetime_s, 300);
	run.recorded = true;
	run.lifetimes = 400;
	outcome = outcome_of(&trace, &run);
	expect(outcome.refused < 15);
	expect(outcome.allocated > 22 && outcome.allocated < 38);
	replay_trace_done(&trace);
	trace = trace_of(none);
	expect_eq(departures_replay(&trace, &run, &outcome, &why), -EINVAL);
	expect_str(why.text,
		   "the list has no lifetimes: columns creation_time and deletion_time are "
		   "needed");
	replay_trace_done(&trace);
}

TEST(only_foresight_reads_when_pods_say_that_they_leave)
{
	struct replay_trace trace = trace_of(ones_and_eights);
	struct departures_run fgd = run_of("fgd", 900), foresight = run_of("foresight", 900);
	struct departures_outcome before, after;

	fgd.lifetimes = foresight.lifetimes = 12;
	before = outcome_of(&trace, &fgd);
	fgd.stated = true;
	after = outcome_of(&trace, &fgd);
	expect_eq(memcmp(before.size, after.size, sizeof(before.size)), 0);
	before = outcome_of(&trace, &foresight);
	foresight.stated = true;
	after = outcome_of(&trace, &foresight);
	expect(memcmp(before.window, after.window, sizeof(before.window)) != 0 ||
	       after.refused <= before.refused);
	expect(after.refused < before.refused + 1);
	replay_trace_done(&trace);
}

TEST(foresight_has_room_for_large_pods_where_others_have_none)
{
	struct replay_trace trace = trace_of(ones_and_eights);
	double mine = 0, best = 0;

	for (uint64_t seed = 1; seed <= 5; seed++) {
		double least = 100;

		for (int i = 0; i < 3; i++) {
			static const char *const policies[] = {"best-fit", "fgd", "packing"};
			struct departures_run run = run_of(policies[i], 900);
			double refused;

			run.how.seed = seed;
			refused = outcome_of(&trace, &run).refused;
			least = refused < least ? refused : least;
		}
		struct departures_run run = run_of("foresight", 900);
		run.how.seed = seed;
		mine += outcome_of(&trace, &run).refused;
		best += least;
	}
	expect(mine < best * 1.02);
	replay_trace_done(&trace);
}
