/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "replay/openb.h"
#include "replay/draw.h"

/* Returns the order of arrivals: the whole list, shuffled, then random draws from it until
 * the pods ask for 130 % of the capacity. If the list asks for more, random pods are removed
 * from it. Whether a pod is still within the bound is decided by what it asks of one GPU, as
 * in the published simulator. */
static int arrivals(const struct replay_trace *trace, uint64_t capacity_milli, uint64_t *random,
		    size_t **ret_order, size_t *ret_size)
{
	size_t size = trace->pods_size, room = size * 4 + 1024;
	owned(free) size_t *order = malloc(room * sizeof(*order));
	uint64_t total = 0, most = capacity_milli / 100 * 130;

	if (!order)
		return -ENOMEM;
	draw_shuffle(order, size, random);
	for (size_t i = 0; i < size; i++)
		total += cluster_asks(&trace->pods[i]);
	if (!total)
		return -EINVAL;
	while (total > most) {
		size_t i = draw_below(random, size);

		total -= cluster_asks(&trace->pods[order[i]]);
		memmove(&order[i], &order[i + 1], (size - i - 1) * sizeof(*order));
		size--;
	}
	for (;;) {
		size_t i = draw_below(random, trace->pods_size);

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

/* Returns how many GPUs the parts of GPUs need if they are packed offline by
 * best fit, the largest first. */
static uint64_t packed_gpus(const uint32_t parts[PLACEMENT_WHOLE])
{
	uint32_t left[PLACEMENT_WHOLE + 1] = {0}; /* how many GPUs have so much left */
	uint64_t gpus = 0;

	for (uint32_t milli = PLACEMENT_WHOLE - 1; milli > 0; milli--) {
		for (uint32_t i = 0; i < parts[milli]; i++) {
			uint32_t at = milli;

			while (at < PLACEMENT_WHOLE && !left[at])
				at++;
			if (at < PLACEMENT_WHOLE)
				left[at]--;
			else
				gpus++;
			left[at - milli]++;
		}
	}
	return gpus;
}

struct meter {
	uint32_t parts[PLACEMENT_WHOLE]; /* how many pods arrived that ask for so much of a GPU */
	uint64_t parts_milli;
	uint64_t capacity_milli, arrived_milli;
	double sum[OPENB_PERCENT + 1];
	uint32_t samples[OPENB_PERCENT + 1];
	int stranded_at; /* the next percent at which fragmentation is measured */
};

/* Averages the allocation over all arrivals that round to the same percent, as it was published.
 * Fragmentation is measured once, when the percent is reached. */
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

/* The upper bound, in percent: the allocation exceeds neither what was asked for, nor what whole
 * GPUs leave beside the packed parts. Once more parts have arrived than are needed, some of them
 * need not be placed: so the bound never falls. */
static double bound_of(const struct meter *meter)
{
	double all = (double)meter->capacity_milli, arrived = (double)meter->arrived_milli;
	double lost =
		(double)packed_gpus(meter->parts) * PLACEMENT_WHOLE - (double)meter->parts_milli;

	return 100 * fmin(arrived, all - lost) / all;
}

static void arrive(struct meter *meter, const struct replay_pod *pod, struct openb_curve *curve)
{
	int before = (int)(100 * meter->arrived_milli / meter->capacity_milli), now;

	meter->arrived_milli += cluster_asks(pod);
	if (pod->gpus == 1 && pod->gpu_milli > 0 && pod->gpu_milli < PLACEMENT_WHOLE) {
		meter->parts[pod->gpu_milli]++;
		meter->parts_milli += pod->gpu_milli;
	}
	now = (int)(100 * meter->arrived_milli / meter->capacity_milli);
	for (int i = before + 1; i <= now && i < OPENB_PERCENT; i++)
		curve->bound[i] = fmax(curve->bound[i - 1], fmin(bound_of(meter), i));
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
	for (int i = 1; i < OPENB_PERCENT; i++)
		if (curve->bound[i] <= 0)
			curve->bound[i] = curve->bound[i - 1];
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
	draw_shuffle(nodes, trace->nodes_size, &random);
	r = arrivals(trace, meter.capacity_milli, &random, &order, &size);
	if (r < 0)
		return fault_set(why, r, "no arrivals: the pods ask for no GPU, or out of memory");
	r = cluster_make(trace, run, (uint32_t)trace->nodes_size, (uint32_t)size,
			 run->trace_order ? NULL : nodes, &p, &bytes, why);
	for (size_t i = 0; i < size && r >= 0; i++) {
		arrive(&meter, &trace->pods[order[i]], &curve);
		r = cluster_place(p, &trace->pods[order[i]], run, 0, &random, &pod, why);
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
