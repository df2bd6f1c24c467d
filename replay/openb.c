/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "replay/openb.h"

enum { STANDARD = 1, BATCH = 2 };

/* splitmix64: a seed's first numbers are as good as its later ones. */
static uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static size_t below(uint64_t *state, size_t bound)
{
	return (size_t)((unsigned __int128)next_random(state) * bound >> 64);
}

const char *openb_policy_name(int policy)
{
	return policy == OPENB_RANDOM ? "random"
				      : placement_policy_name((enum placement_policy)policy);
}

int openb_policy_parse(const char *spelling, int *ret_policy)
{
	enum placement_policy policy;

	if (strcmp(spelling, "random") == 0) {
		*ret_policy = OPENB_RANDOM;
		return 0;
	}
	if (placement_policy_parse(spelling, &policy) < 0)
		return -EINVAL;
	*ret_policy = (int)policy;
	return 0;
}

void openb_request(const struct replay_pod *pod, const struct openb_run *run,
		   struct placement_request *ret_request)
{
	bool part = pod->gpus == 1 && pod->gpu_milli < PLACEMENT_WHOLE;

	memset(ret_request, 0, sizeof(*ret_request));
	ret_request->node = PLACEMENT_ANYWHERE;
	ret_request->models = pod->models;
	ret_request->class =
		run->overcommit_milli > 1000 && part && pod->best_effort ? BATCH : STANDARD;
	ret_request->containers = 1;
	ret_request->container[0].cpu_milli = pod->cpu_milli;
	if (!run->no_memory)
		ret_request->container[0].host_memory_bytes = (uint64_t)pod->memory_mib << 20;
	ret_request->container[0].devices = (uint8_t)pod->gpus;
	ret_request->container[0].compute_milli = pod->gpus ? pod->gpu_milli : 0;
	ret_request->container[0].exclusive = pod->gpus && pod->gpu_milli == PLACEMENT_WHOLE;
}

struct usual {
	struct placement_request request;
	uint32_t count;
};

static int compare_requests(const struct placement_request *a, const struct placement_request *b)
{
	const struct placement_container *x = &a->container[0], *y = &b->container[0];

	if (x->cpu_milli != y->cpu_milli)
		return x->cpu_milli < y->cpu_milli ? -1 : 1;
	if (x->compute_milli != y->compute_milli)
		return x->compute_milli < y->compute_milli ? -1 : 1;
	if (x->devices != y->devices)
		return x->devices < y->devices ? -1 : 1;
	if (a->models != b->models)
		return a->models < b->models ? -1 : 1;
	return (int)a->class - (int)b->class;
}

static int by_request(const void *a, const void *b)
{
	return compare_requests(&((const struct usual *)a)->request,
				&((const struct usual *)b)->request);
}

/* The most frequent first; of equals the larger request, as in the published simulator. */
static int by_count(const void *a, const void *b)
{
	const struct usual *x = a, *y = b;

	if (x->count != y->count)
		return x->count > y->count ? -1 : 1;
	return compare_requests(&y->request, &x->request);
}

/* The most frequent requests that cover 95 % of the list (host memory does not tell them apart). */
static int learn(struct placement *p, const struct replay_trace *trace, const struct openb_run *run,
		 struct fault *why)
{
	owned(free) struct usual *all = calloc(trace->pods_size, sizeof(*all));
	owned(free) struct placement_request *requests =
		calloc(trace->pods_size, sizeof(*requests));
	owned(free) uint32_t *counts = calloc(trace->pods_size, sizeof(*counts));
	size_t different = 0, used = 0, covered = 0;
	int r;

	if (!all || !requests || !counts)
		return fault_set(why, -ENOMEM, "out of memory");
	for (size_t i = 0; i < trace->pods_size; i++) {
		openb_request(&trace->pods[i], run, &all[i].request);
		all[i].request.container[0].host_memory_bytes = 0;
		all[i].count = 1;
	}
	qsort(all, trace->pods_size, sizeof(*all), by_request);
	for (size_t i = 0; i < trace->pods_size; i++) {
		if (different && by_request(&all[different - 1], &all[i]) == 0)
			all[different - 1].count++;
		else
			all[different++] = all[i];
	}
	qsort(all, different, sizeof(*all), by_count);
	while (used < different && covered * 100 < trace->pods_size * 95) {
		requests[used] = all[used].request;
		counts[used] = all[used].count;
		covered += all[used++].count;
	}
	r = placement_learn(p, requests, counts, used);
	if (r < 0)
		return fault_set(why, r, "the list's usual pods are more than %zu different ones",
				 used);
	return 0;
}

static int add_nodes(struct placement *p, const struct replay_trace *trace,
		     const struct openb_run *run, size_t nodes, const size_t *order,
		     struct fault *why)
{
	for (size_t i = 0; i < nodes; i++) {
		size_t at = i % trace->nodes_size;
		const struct replay_node *it = &trace->nodes[order ? order[at] : at];
		struct placement_node node = {
			.cpu_milli = it->cpu_milli,
			.host_memory_bytes = run->no_memory ? 0 : (uint64_t)it->memory_mib << 20,
			.devices = it->gpus,
			.model = it->model,
		};
		uint32_t number;
		int r;

		for (int k = 0; k < it->gpus; k++)
			node.device[k].compute_milli = PLACEMENT_WHOLE;
		r = placement_add_node(p, &node, &number);
		if (r < 0)
			return fault_set(why, r, "node %zu cannot be described", i);
	}
	return 0;
}

static int make(const struct replay_trace *trace, const struct openb_run *run, uint32_t nodes,
		uint32_t pods, const size_t *order, struct placement **ret_placement,
		size_t *ret_size, struct fault *why)
{
	struct placement_config config = {.policy = (enum placement_policy)run->policy};
	struct placement_limits limits = {
		.nodes = nodes, .pods = pods, .charges = pods, .shapes = 512, .typicals = 160};
	owned(free) void *memory = NULL;
	struct placement *p;
	size_t size;
	int r;

	for (size_t i = 0; i < nodes; i++)
		limits.charges += trace->nodes[i % trace->nodes_size].gpus;
	size = placement_size(&limits);
	memory = aligned_alloc(64, (size + 63) & ~(size_t)63);
	if (!memory || placement_init(memory, size, &limits, &p) < 0)
		return fault_set(why, -ENOMEM, "out of memory");
	if (run->policy == OPENB_RANDOM)
		config.policy = PLACEMENT_BINPACK;
	config.compute_factor_milli[BATCH] = run->overcommit_milli;
	r = placement_configure(p, &config);
	if (r < 0)
		return fault_set(why, r, "%s, overcommit %u: not a configuration",
				 openb_policy_name(run->policy), run->overcommit_milli);
	r = add_nodes(p, trace, run, nodes, order, why);
	if (r == 0)
		r = learn(p, trace, run, why);
	if (r < 0)
		return r;
	*ret_size = size;
	*ret_placement = take(memory);
	return 0;
}

int openb_cluster(const struct replay_trace *trace, const struct openb_run *run, uint32_t nodes,
		  uint32_t pods, struct placement **ret_placement, size_t *ret_size,
		  struct fault *why)
{
	return make(trace, run, nodes, pods, NULL, ret_placement, ret_size, why);
}

static void shuffle(size_t *items, size_t size, uint64_t *random)
{
	for (size_t i = 0; i < size; i++)
		items[i] = i;
	for (size_t i = size; i > 1; i--) {
		size_t j = below(random, i), item = items[i - 1];

		items[i - 1] = items[j];
		items[j] = item;
	}
}

static uint64_t asks(const struct replay_pod *pod)
{
	return (uint64_t)pod->gpus * pod->gpu_milli;
}

/* The whole list, shuffled; then draws from it, or removals, until it asks for 130 %. The bound is
 * compared with what one GPU of the next pod asks, as in the published simulator. */
static int arrivals(const struct replay_trace *trace, uint64_t capacity_milli, uint64_t *random,
		    size_t **ret_order, size_t *ret_size)
{
	size_t size = trace->pods_size, room = size * 4 + 1024;
	owned(free) size_t *order = malloc(room * sizeof(*order));
	uint64_t total = 0, most = capacity_milli / 100 * 130;

	if (!order)
		return -ENOMEM;
	shuffle(order, size, random);
	for (size_t i = 0; i < size; i++)
		total += asks(&trace->pods[i]);
	if (!total)
		return -EINVAL;
	while (total > most) {
		size_t i = below(random, size);

		total -= asks(&trace->pods[order[i]]);
		memmove(&order[i], &order[i + 1], (size - i - 1) * sizeof(*order));
		size--;
	}
	for (;;) {
		size_t i = below(random, trace->pods_size);

		if (total + trace->pods[i].gpu_milli > most)
			break;
		if (size == room) {
			size_t *more = realloc(order, 2 * room * sizeof(*order));

			if (!more)
				return -ENOMEM;
			order = more;
			room *= 2;
		}
		total += asks(&trace->pods[i]);
		order[size++] = i;
	}
	*ret_size = size;
	*ret_order = take(order);
	return 0;
}

/* Any node that fits, and any of its GPUs that do. */
static int decide_randomly(struct placement *p, struct placement_request *request, uint64_t *random,
			   struct placement_decision *ret_decision)
{
	const int32_t *scores;
	uint32_t size, seen = 0, chosen = 0;
	struct placement_decision one;
	int r = placement_scores(p, request, &scores, &size);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < size; i++)
		if (scores[i] != INT32_MIN && below(random, ++seen) == 0)
			chosen = i;
	if (!seen)
		return PLACEMENT_NOWHERE;
	if (request->container[0].devices != 1)
		return placement_try(p, request, chosen, ret_decision);
	seen = 0;
	request->node = (int32_t)chosen;
	for (int i = 0; i < PLACEMENT_DEVICES; i++) {
		request->named_devices = 1u << i;
		if (placement_try(p, request, chosen, &one) == 0 && below(random, ++seen) == 0)
			*ret_decision = one;
	}
	request->node = PLACEMENT_ANYWHERE;
	request->named_devices = 0;
	return 0;
}

struct meter {
	uint64_t capacity_milli, arrived_milli;
	double sum[OPENB_PERCENT + 1];
	uint32_t samples[OPENB_PERCENT + 1];
	int stranded_at; /* the next percent at which fragmentation is measured */
};

/* Allocation is averaged over the arrivals that round to a percent, as it was published;
 * fragmentation is taken when the percent is reached. */
static void measure(struct meter *meter, struct placement *p, struct openb_curve *curve)
{
	double percent = 100.0 * (double)meter->arrived_milli / (double)meter->capacity_milli;
	int bin = (int)rint(percent);
	struct placement_totals totals;

	placement_totals(p, &totals);
	if (bin <= OPENB_PERCENT) {
		meter->sum[bin] +=
			100.0 * (double)totals.used_milli / (double)meter->capacity_milli;
		meter->samples[bin]++;
	}
	if (percent < meter->stranded_at)
		return;
	for (double value = placement_fragmentation(p);
	     meter->stranded_at < OPENB_PERCENT && percent >= meter->stranded_at;)
		curve->stranded[meter->stranded_at++] =
			100.0 * value / (double)meter->capacity_milli;
}

static void finish(struct meter *meter, struct placement *p, struct openb_curve *curve)
{
	for (int i = 0; i < OPENB_PERCENT; i++) {
		int from = i, to = i;
		double sum = 0;
		uint32_t samples = 0;

		if (!meter->samples[i]) {
			from = i ? i - 1 : 0;
			to = i + 1;
		}
		for (int k = from; k <= to; k++) {
			sum += meter->sum[k];
			samples += meter->samples[k];
		}
		curve->allocated[i] = samples ? sum / samples : i ? curve->allocated[i - 1] : 0;
	}
	for (; meter->stranded_at < OPENB_PERCENT; meter->stranded_at++)
		curve->stranded[meter->stranded_at] =
			100.0 * placement_fragmentation(p) / (double)meter->capacity_milli;
}

static int place(struct placement *p, const struct replay_pod *pod, const struct openb_run *run,
		 uint64_t *random, struct openb_curve *curve, struct fault *why)
{
	struct placement_request request;
	struct placement_decision decision;
	uint64_t name;
	int r;

	openb_request(pod, run, &request);
	r = run->policy == OPENB_RANDOM ? decide_randomly(p, &request, random, &decision)
					: placement_decide(p, &request, &decision);
	if (r == PLACEMENT_NOWHERE) {
		curve->refused++;
		return 0;
	}
	if (r == 0)
		r = placement_commit(p, &request, decision.node, &decision.assignment, 0, &name);
	if (r != 0)
		return fault_set(why, -EINVAL, "a pod could not be booked as decided: %d", r);
	curve->placed++;
	return 0;
}

int openb_replay(const struct replay_trace *trace, const struct openb_run *run,
		 struct openb_curve *ret_curve, struct fault *why)
{
	uint64_t random = run->seed * 0x2545f4914f6cdd1d + 1;
	owned(free) size_t *nodes = malloc(trace->nodes_size * sizeof(*nodes));
	owned(free) size_t *order = NULL;
	owned(free) struct placement *p = NULL;
	struct openb_curve curve = {0};
	struct meter meter = {0};
	size_t size, bytes;
	int r;

	if (!nodes)
		return fault_set(why, -ENOMEM, "out of memory");
	for (size_t i = 0; i < trace->nodes_size; i++)
		meter.capacity_milli += 1000ull * trace->nodes[i].gpus;
	shuffle(nodes, trace->nodes_size, &random);
	r = arrivals(trace, meter.capacity_milli, &random, &order, &size);
	if (r < 0)
		return fault_set(why, r, "no arrivals: the pods ask for no GPU, or out of memory");
	r = make(trace, run, (uint32_t)trace->nodes_size, (uint32_t)size,
		 run->trace_order ? NULL : nodes, &p, &bytes, why);
	for (size_t i = 0; i < size && r == 0; i++) {
		meter.arrived_milli += asks(&trace->pods[order[i]]);
		r = place(p, &trace->pods[order[i]], run, &random, &curve, why);
		measure(&meter, p, &curve);
	}
	if (r < 0)
		return r;
	finish(&meter, p, &curve);
	*ret_curve = curve;
	return 0;
}
