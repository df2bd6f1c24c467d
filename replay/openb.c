/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "replay/openb.h"

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
	cluster_shuffle(order, size, random);
	for (size_t i = 0; i < size; i++)
		total += cluster_asks(&trace->pods[i]);
	if (!total)
		return -EINVAL;
	while (total > most) {
		size_t i = cluster_below(random, size);

		total -= cluster_asks(&trace->pods[order[i]]);
		memmove(&order[i], &order[i + 1], (size - i - 1) * sizeof(*order));
		size--;
	}
	for (;;) {
		size_t i = cluster_below(random, trace->pods_size);

		if (total + trace->pods[i].gpu_milli > most)
			break;
		if (size == room) {
			size_t *more = realloc(order, 2 * room * sizeof(*order));

			if (!more)
				return -ENOMEM;
			order = more;
			room *= 2;
		}
		total += cluster_asks(&trace->pods[i]);
		order[size++] = i;
	}
	*ret_size = size;
	*ret_order = take(order);
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

int openb_replay(const struct replay_trace *trace, const struct cluster_run *run,
		 struct openb_curve *ret_curve, struct fault *why)
{
	uint64_t random = run->seed * 0x2545f4914f6cdd1d + 1;
	owned(free) size_t *nodes = malloc(trace->nodes_size * sizeof(*nodes));
	owned(free) size_t *order = NULL;
	owned(free) struct placement *p = NULL;
	struct openb_curve curve = {0};
	struct meter meter = {.capacity_milli = cluster_capacity(trace)};
	size_t size, bytes;
	uint64_t pod;
	int r;

	if (!nodes)
		return fault_set(why, -ENOMEM, "out of memory");
	cluster_shuffle(nodes, trace->nodes_size, &random);
	r = arrivals(trace, meter.capacity_milli, &random, &order, &size);
	if (r < 0)
		return fault_set(why, r, "no arrivals: the pods ask for no GPU, or out of memory");
	r = cluster_make(trace, run, (uint32_t)trace->nodes_size, (uint32_t)size,
			 run->trace_order ? NULL : nodes, &p, &bytes, why);
	for (size_t i = 0; i < size && r >= 0; i++) {
		meter.arrived_milli += cluster_asks(&trace->pods[order[i]]);
		r = cluster_place(p, &trace->pods[order[i]], run, &random, &pod, why);
		if (r < 0)
			break;
		curve.placed += r == 0;
		curve.refused += r == PLACEMENT_NOWHERE;
		measure(&meter, p, &curve);
	}
	if (r < 0)
		return r;
	finish(&meter, p, &curve);
	*ret_curve = curve;
	return 0;
}
