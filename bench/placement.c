/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast core/placement decides: openb's nodes repeated, its pods arriving in random order until
 * they ask for all GPUs, each decided by fgd and booked. Time is this thread's CPU time; the best
 * of five. Then, on the full cluster, requests that fit nowhere; and how long it takes to add
 * nodes.
 *
 * Usage: placement NODES.csv PODS.csv
 */
#include <string.h>
#include <time.h>

#include "replay/openb.h"

enum { TRIES = 5, NEGATIVES = 2000, DIFFERENT = 200 };

static double now_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct result {
	double decisions_per_second, negative_us, p99_negative_us, first_negative_us;
	double different_us, different_half_us; /* the cluster is full, and half full */
	size_t bytes;
	uint32_t decisions, placed;
	bool negatives; /* there were */
};

static uint64_t random_state;

static uint64_t next_random(void)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return random_state >> 33;
}

struct booking {
	struct placement_request request;
	struct placement_decision decision;
	uint64_t name;
};

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Eight GPUs at once fit nowhere any more; > 0: they do, under a policy that spreads. Each answer
 * after a change: the last pod leaves and comes back, as a scheduler with a queue of pending pods
 * would see it. */
static int negatives(struct placement *p, struct booking *last, struct result *result)
{
	struct placement_request none = {.node = PLACEMENT_ANYWHERE, .containers = 1};
	static double all[NEGATIVES];
	double sum = 0;

	none.container[0].devices = 8;
	none.container[0].compute_milli = PLACEMENT_WHOLE;
	/* Not `exclusive`: that would be answered by a count of free GPUs, without a search. */
	for (int i = -1; i < NEGATIVES; i++) {
		struct placement_decision decision;
		double start = now_seconds(), us;

		if (placement_decide(p, &none, &decision) != PLACEMENT_NOWHERE)
			return 1;
		us = 1e6 * (now_seconds() - start);
		/* The first one makes the shape: it tests every node. */
		if (i < 0)
			result->first_negative_us = us;
		else
			sum += all[i] = us;
		if (placement_release(p, last->name) < 0 ||
		    placement_commit(p, &last->request, last->decision.node,
				     &last->decision.assignment, 0, &last->name) != 0)
			return -EINVAL;
	}
	qsort(all, NEGATIVES, sizeof(all[0]), by_size);
	result->p99_negative_us = all[NEGATIVES * 99 / 100];
	result->negative_us = sum / NEGATIVES;
	return 0;
}

/* No request is like another one. */
static double differents(struct placement *p, const struct replay_trace *trace,
			 const struct cluster_run *run)
{
	double seconds = 0;

	for (int i = 0; i < DIFFERENT; i++) {
		const struct replay_pod *pod = &trace->pods[next_random() % trace->pods_size];
		struct placement_request request;
		struct placement_decision decision;
		double start;

		cluster_request(pod, run, &request);
		request.container[0].cpu_milli += 1 + i;
		start = now_seconds();
		if (placement_decide(p, &request, &decision) < 0)
			return -1;
		seconds += now_seconds() - start;
	}
	return 1e6 * seconds / DIFFERENT;
}

static int once(const struct replay_trace *trace, const struct cluster_run *run, uint32_t nodes,
		struct result *result, struct fault *why)
{
	uint32_t room = nodes * 16;
	struct booking last = {0};
	owned(free) struct placement *p = NULL;
	struct placement_totals totals;
	uint64_t asked = 0; /* milli */
	double seconds, half_us = 0;
	int r = cluster_make(trace, run, nodes, room, NULL, &p, &result->bytes, why);

	if (r < 0)
		return r;
	placement_totals(p, &totals);
	random_state = 42;
	result->decisions = result->placed = 0;
	seconds = now_seconds();
	while (asked < totals.compute_milli) {
		const struct replay_pod *pod = &trace->pods[next_random() % trace->pods_size];
		struct booking now;

		if (half_us == 0 && asked >= totals.compute_milli / 2)
			half_us = differents(p, trace, run);
		asked += (uint64_t)pod->gpus * pod->gpu_milli;
		cluster_request(pod, run, &now.request);
		result->decisions++;
		r = placement_decide(p, &now.request, &now.decision);
		if (r == PLACEMENT_NOWHERE)
			continue;
		if (r == 0)
			r = placement_commit(p, &now.request, now.decision.node,
					     &now.decision.assignment, 0, &now.name);
		if (r != 0)
			return fault_set(why, -EINVAL, "not booked: %d", r);
		result->placed++;
		last = now;
	}
	seconds = now_seconds() - seconds - half_us * DIFFERENT / 1e6;
	result->decisions_per_second = result->decisions / seconds;
	result->different_half_us = half_us;
	result->different_us = differents(p, trace, run);
	if (half_us < 0 || result->different_us < 0)
		return fault_set(why, -EINVAL, "a request was refused as nonsense");
	r = negatives(p, &last, result);
	if (r < 0)
		return fault_set(why, r, "the last pod could not be booked again");
	result->negatives = r == 0;
	return 0;
}

/* The CPU time of adding so many nodes to an empty cluster; negative: they cannot be. */
static double add_nodes(const struct replay_trace *trace, const struct cluster_run *run,
			uint32_t nodes, struct fault *why)
{
	owned(free) struct placement *p = NULL;
	double seconds = now_seconds();
	size_t bytes;

	if (cluster_make(trace, run, nodes, nodes, NULL, &p, &bytes, why) < 0)
		return -1;
	return now_seconds() - seconds;
}

/* The CPU time of refusing a pod that fits nowhere, and whose containers could be tried in more
 * ways than there is time for: nine, of two GPUs each, on nodes of eight of which no two are alike.
 */
static double refuse_hard(uint32_t nodes)
{
	const struct placement_limits limits = {.nodes = nodes,
						.pods = nodes * 8,
						.charges = nodes * 8,
						.shapes = 8,
						.typicals = 1};
	size_t size = placement_size(&limits);
	owned(free) void *memory = malloc(size);
	struct placement_request hard = {.node = PLACEMENT_ANYWHERE, .containers = 9};
	struct placement_decision decision;
	struct placement *p;
	double seconds;

	if (!memory || placement_init(memory, size, &limits, &p) < 0)
		return -1;
	for (uint32_t i = 0; i < nodes * 8; i++) {
		struct placement_node node = {
			.cpu_milli = 64000, .host_memory_bytes = 1ull << 38, .devices = 8};
		struct placement_request one = {.node = (int32_t)(i / 8), .containers = 1};
		uint32_t number;
		uint64_t name;

		for (int g = 0; g < 8; g++)
			node.device[g] = (struct placement_device){
				.memory_bytes = 80ull << 30, .compute_milli = PLACEMENT_WHOLE};
		one.named_devices = 1u << i % 8;
		one.container[0].devices = 1;
		one.container[0].compute_milli = 10 + i % 8 * 7;
		if ((i % 8 == 0 && placement_add_node(p, &node, &number) < 0) ||
		    placement_decide(p, &one, &decision) != 0 ||
		    placement_commit(p, &one, decision.node, &decision.assignment, 0, &name) != 0)
			return -1;
	}
	for (int i = 0; i < hard.containers; i++)
		hard.container[i] = (struct placement_container){
			.devices = 2, .compute_milli = 380 + (uint32_t)i * 3};
	seconds = now_seconds();
	if (placement_decide(p, &hard, &decision) != PLACEMENT_NOWHERE)
		return -1;
	return now_seconds() - seconds;
}

int main(int argc, char **argv)
{
	static const uint32_t sizes[] = {1213, 5000, 10000};
	static const char *const names[] = {"1213", "5k", "10k"};
	struct cluster_run run = {.policy = PLACEMENT_FGD, .overcommit_milli = 1000};
	struct replay_trace trace;
	struct fault why;
	double seconds;

	if (argc < 3 || (argc > 3 && cluster_policy_parse(argv[3], &run.policy) < 0)) {
		fprintf(stderr, "usage: %s NODES.csv PODS.csv [POLICY]\n", argv[0]);
		return 2;
	}
	if (replay_trace_load(argv[1], argv[2], &trace, &why) < 0) {
		fprintf(stderr, "%s\n", why.text);
		return 1;
	}
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct result best = {0};

		for (int n = 0; n < TRIES; n++) {
			struct result result = {0};

			if (once(&trace, &run, sizes[i], &result, &why) < 0) {
				fprintf(stderr, "%s\n", why.text);
				return 1;
			}
			if (result.decisions_per_second > best.decisions_per_second)
				best = result;
		}
		printf("%s nodes: %u decisions, %u placed, %.1f MiB\n", names[i], best.decisions,
		       best.placed, (double)best.bytes / (1 << 20));
		printf("figure: decisions_per_second_%s %.0f 1/s\n", names[i],
		       best.decisions_per_second);
		printf("figure: placement_memory_%s %.1f MiB\n", names[i],
		       (double)best.bytes / (1 << 20));
		printf("figure: different_us_%s %.1f us\n", names[i], best.different_us);
		printf("figure: different_half_us_%s %.1f us\n", names[i], best.different_half_us);
		if (!best.negatives)
			continue;
		printf("figure: negative_answer_%s %.2f us\n", names[i], best.negative_us);
		printf("figure: negative_answer_p99_%s %.2f us\n", names[i], best.p99_negative_us);
		printf("figure: negative_answer_first_%s %.2f us\n", names[i],
		       best.first_negative_us);
	}
	for (uint32_t nodes = 10000; nodes <= 100000; nodes *= 10) {
		seconds = add_nodes(&trace, &run, nodes, &why);
		if (seconds < 0) {
			fprintf(stderr, "%s\n", why.text);
			return 1;
		}
		printf("figure: nodes_added_%uk_s %.3f s\n", nodes / 1000, seconds);
	}
	seconds = refuse_hard(1000);
	if (seconds < 0) {
		fprintf(stderr, "placement: the pod that fits nowhere was not refused\n");
		return 1;
	}
	printf("figure: hard_request_1000_nodes_ms %.1f ms\n", 1e3 * seconds);
	replay_trace_done(&trace);
	return 0;
}
