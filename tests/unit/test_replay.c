/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "replay/job.h"
#include "tests/test.h"

static const char nodes_csv[] = "sn,cpu_milli,memory_mib,gpu,model\n"
				"a,32000,65536,2,T4\n"
				"b,16000,65536,4,A10\n"
				"c,64000,65536,1,T4\n";
static const char pods_csv[] = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos\n"
			       "1,1000,1024,1,500,,LS\n"
			       "2,2000,1024,1,1000,T4|A10,LS\n"
			       "3,4000,1024,0,0,,LS\n"
			       "4,1000,1024,1,300,,BE\n"
			       "5,3000,1024,2,1000,V100,LS\n";

static int loaded(const char *nodes, const char *pods, struct replay_trace *trace,
		  struct fault *why)
{
	owned(fclose) FILE *a = fmemopen((void *)nodes, strlen(nodes), "r");
	owned(fclose) FILE *b = fmemopen((void *)pods, strlen(pods), "r");

	expect(a && b);
	return replay_trace_read(a, "nodes.csv", b, "pods.csv", trace, why);
}

TEST(a_trace_is_read_by_its_column_names)
{
	struct replay_trace trace;
	struct fault why;

	expect_eq(loaded(nodes_csv, pods_csv, &trace, &why), 0);
	expect_eq(trace.nodes_size, 3);
	expect_eq(trace.pods_size, 5);
	expect_eq(trace.nodes[1].gpus, 4);
	expect_eq(trace.nodes[0].model, trace.nodes[2].model);
	expect(trace.nodes[0].model != trace.nodes[1].model);
	expect_eq(trace.pods[0].gpu_milli, 500);
	expect_eq(trace.pods[1].models,
		  1ull << trace.nodes[0].model | 1ull << trace.nodes[1].model);
	expect(trace.pods[3].best_effort && !trace.pods[0].best_effort);
	replay_trace_done(&trace);
}

TEST(columns_that_some_lists_lack_are_optional)
{
	struct replay_trace trace;
	struct fault why;

	expect_eq(loaded(nodes_csv, "num_gpu,gpu_milli,memory_mib,cpu_milli\n1,250,64,1000\n",
			 &trace, &why),
		  0);
	expect_eq(trace.pods[0].cpu_milli, 1000);
	expect_eq(trace.pods[0].gpu_milli, 250);
	expect_eq(trace.pods[0].models, 0);
	replay_trace_done(&trace);
}

TEST(a_bad_row_is_named)
{
	struct replay_trace trace;
	struct fault why;

	expect_eq(loaded(nodes_csv, "cpu_milli,memory_mib,num_gpu\n", &trace, &why), -EINVAL);
	expect_str(why.text, "pods.csv has no column 'gpu_milli'");
	expect_eq(loaded("cpu_milli,memory_mib,gpu,model\n1,1,x,T4\n", pods_csv, &trace, &why),
		  -EINVAL);
	expect_str(why.text, "nodes.csv line 2: gpu is 'x': a number up to 16 is needed");
	expect_eq(loaded("cpu_milli,memory_mib,gpu,model\n1,1,17,T4\n", pods_csv, &trace, &why),
		  -EINVAL);
	expect_eq(loaded("cpu_milli,memory_mib,gpu,model\n", pods_csv, &trace, &why), -EINVAL);
	expect_str(why.text, "nodes.csv has no rows");
}

static struct openb_curve replayed(const struct replay_trace *trace, const char *policy,
				   uint64_t seed, uint32_t overcommit)
{
	struct cluster_run run = {.seed = seed, .overcommit_milli = overcommit};
	struct openb_curve curve;
	struct fault why;

	expect_eq(cluster_policy_parse(policy, &run.policy), 0);
	expect_eq(openb_replay(trace, &run, &curve, &why), 0);
	return curve;
}

TEST(a_run_is_a_function_of_its_seed)
{
	static const char *const policies[] = {"random",   "binpack",	  "spread",
					       "best-fit", "dot-product", "packing",
					       "fgd",	   "foresight",	  "clustering"};
	struct replay_trace trace;
	struct fault why;

	expect_eq(loaded(nodes_csv, pods_csv, &trace, &why), 0);
	for (size_t i = 0; i < ARRAY_SIZE(policies); i++) {
		struct openb_curve a = replayed(&trace, policies[i], 7, 1000);
		struct openb_curve b = replayed(&trace, policies[i], 7, 1000);

		expect_eq(memcmp(a.allocated, b.allocated, sizeof(a.allocated)), 0);
		expect_eq(memcmp(a.stranded, b.stranded, sizeof(a.stranded)), 0);
		expect_eq(a.placed, b.placed);
		expect(a.placed > 0 && a.refused > 0);
		for (int x = 1; x < OPENB_PERCENT; x++) {
			expect(a.allocated[x] >= a.allocated[x - 1] - 1e-9);
			expect(a.allocated[x] + a.stranded[x] <= 100 + 50.0);
			expect(a.allocated[x] <= 100);
		}
	}
	replay_trace_done(&trace);
}

TEST(overcommit_allocates_more_and_never_more_than_there_is)
{
	struct replay_trace trace;
	struct fault why;
	double hard = 0, soft = 0;

	expect_eq(loaded(nodes_csv, pods_csv, &trace, &why), 0);
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct openb_curve a = replayed(&trace, "foresight", seed, 1000);
		struct openb_curve b = replayed(&trace, "foresight", seed, 1250);

		hard += a.placed;
		soft += b.placed;
		expect(b.allocated[OPENB_PERCENT - 1] <= 100);
	}
	expect(soft >= hard);
	replay_trace_done(&trace);
}

TEST(jobs_are_read_from_words)
{
	struct replay_job job = {.folder = "/nonexistent"};
	struct fault why;

	expect_eq(replay_job_seeds(&job, "42-51", &why), 0);
	expect_eq(job.first_seed, 42);
	expect_eq(job.seeds, 10);
	expect_eq(replay_job_seeds(&job, "5", &why), 0);
	expect_eq(job.seeds, 1);
	expect_eq(replay_job_seeds(&job, "5-4", &why), -EINVAL);
	expect_eq(replay_job_seeds(&job, "1-100000", &why), -EINVAL);
	expect_eq(replay_job_seeds(&job, "-3", &why), -EINVAL);
	expect_eq(replay_job_policies(&job, "fgd,random", &why), 0);
	expect_eq(job.policies_size, 2);
	expect_eq(job.policies[1], CLUSTER_RANDOM);
	expect_eq(replay_job_policies(&job, "best", &why), -EINVAL);
	expect_eq(replay_job_lists(&job, "a,b", &why), 0);
	expect_str(job.lists[1], "b");
	expect_eq(replay_job_lists(&job, "../a", &why), -EINVAL);
	expect_eq(replay_job_lists(&job, "all", &why), -ENOENT);
}

static int published_of(const char *rows, struct published *curves, struct fault *why)
{
	char *text = NULL;
	size_t size = 0;
	owned(fclose) FILE *table = NULL;
	FILE *out = open_memstream(&text, &size);
	int r;

	expect(out);
	fputs("workload,sc_policy,tune,seed", out);
	for (int i = 0; i < OPENB_PERCENT; i++)
		fprintf(out, ",%d", i);
	fputs("\n", out);
	for (; *rows; rows += strcspn(rows, "\n") + 1) {
		int head = (int)strcspn(rows, " \n");

		fprintf(out, "%.*s", head, rows);
		for (int i = 0; i < OPENB_PERCENT && rows[head] == ' '; i++)
			fprintf(out, ",%.*s", (int)strcspn(rows + head + 1, "\n"), rows + head + 1);
		fputs("\n", out);
	}
	fclose(out);
	table = fmemopen(text, size, "r");
	expect(table);
	r = published_read(table, "table", "default", curves, why);
	free(text);
	return r;
}

TEST(the_published_figures_are_the_means_of_their_seeds)
{
	struct published curves[PUBLISHED_POLICIES];
	struct fault why;

	expect_eq(published_of("openb_pod_list_default,06-FGD,1.3,42 90\n"
			       "openb_pod_list_default,06-FGD,1.3,43 91\n"
			       "openb_pod_list_default,06-FGD,1.0,43 10\n"
			       "openb_pod_list_other,06-FGD,1.3,43 10\n"
			       "openb_pod_list_default,99-Other,1.3,43 10\n"
			       "openb_pod_list_default,01-Random,1.3,43 80\n",
			       curves, &why),
		  0);
	expect_eq(curves[PLACEMENT_FGD].seeds, 2);
	expect_eq(curves[PLACEMENT_FGD].percent[130] * 10, 905);
	expect_eq(curves[CLUSTER_RANDOM].seeds, 1);
	expect_eq(curves[PLACEMENT_FORESIGHT].seeds, 0);
}

TEST(a_table_that_is_not_of_percentages_is_refused)
{
	struct published curves[PUBLISHED_POLICIES];
	struct fault why;

	expect_eq(published_of("openb_pod_list_default,06-FGD,1.3,42 x\n", curves, &why), -EINVAL);
	expect_str(why.text, "table: 'x' is no percentage");
	expect_eq(published_of("openb_pod_list_default,06-FGD,1.3,42 101\n", curves, &why),
		  -EINVAL);
	expect_eq(published_of("openb_pod_list_default,06-FGD,1.3,42\n", curves, &why), -EINVAL);
	expect_eq(published_of("openb_pod_list_default\n", curves, &why), -EINVAL);
	expect_eq(published_load("/nonexistent", "allo", "default", curves, &why), 0);
	expect_eq(curves[PLACEMENT_FGD].seeds, 0);
}
