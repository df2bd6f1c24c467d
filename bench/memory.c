/* SPDX-License-Identifier: Apache-2.0 */
/* Of bench/memory.sh. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "replay/memory_faults.h"
#include "replay/memory_report.h"

#define MS 1000000ull
#define GB 1000000000ull

static struct memory_outcome run(const struct memory_setup *setup)
{
	struct memory_outcome outcome;
	struct fault why;

	if (memory_world_run(setup, &outcome, &why) < 0) {
		fprintf(stderr, "memory: %s\n", why.text);
		exit(1);
	}
	return outcome;
}

/* Two jobs of 600 s alone, that use the GPU for a part of their time, in bursts of `burst_ns`. */
static void given_jobs(struct memory_load *loads, uint32_t percent, uint64_t set_bytes,
		       uint64_t burst_ns)
{
	for (int i = 0; i < 2; i++) {
		memory_load_init(&loads[i]);
		snprintf(loads[i].name, sizeof(loads[i].name), "job%d", i + 1);
		loads[i].set_bytes = set_bytes;
		loads[i].burst_ns = burst_ns;
		loads[i].pause_ns = burst_ns * (100 - percent) / percent;
		loads[i].work_ns = 600000 * MS / 100 * percent;
	}
}

static double makespan(uint32_t percent, uint64_t turn_ns, uint64_t burst_ns,
		       double *ret_efficiency)
{
	struct memory_load loads[2];
	struct memory_setup setup;
	struct memory_outcome o;
	double ratio;

	given_jobs(loads, percent, 15300000000, burst_ns);
	memory_setup_init(&setup);
	setup.loads = loads;
	setup.tenants = 2;
	setup.residency.turn_ns = turn_ns;
	o = run(&setup);
	ratio = (double)o.ended_ns / (double)memory_report_sequential(&setup);
	*ret_efficiency = memory_outcome_efficiency(&o, &setup) / 10.0;
	memory_outcome_done(&o, 2);
	return ratio;
}

/* The same jobs without mete, on managed memory. */
static double managed(uint32_t percent, uint64_t set_bytes, uint64_t burst_ns)
{
	struct memory_faults faults;
	struct memory_load loads[2];
	struct memory_setup setup;
	struct memory_outcome o;
	struct fault why;
	double ratio;

	given_jobs(loads, percent, set_bytes, burst_ns);
	memory_setup_init(&setup);
	memory_faults_init(&faults);
	setup.loads = loads;
	setup.tenants = 2;
	if (memory_faults_run(&setup, &faults, &o, &why) < 0) {
		fprintf(stderr, "memory: %s\n", why.text);
		exit(1);
	}
	ratio = (double)o.ended_ns / (double)memory_report_sequential(&setup);
	memory_outcome_done(&o, 2);
	return ratio;
}

static void print_makespans(void)
{
	static const uint64_t bursts[] = {1000, 3000, 10000, 20000, 60000};
	static const uint64_t turns[] = {30000, 5000, 0};
	double any;

	printf("two jobs that each fill a GPU of 16 GB, makespan by one after the other; by the "
	       "length of a burst\n%20s",
	       "");
	for (size_t b = 0; b < ARRAY_SIZE(bursts); b++)
		printf("%8llu s", (unsigned long long)bursts[b] / 1000);
	for (size_t t = 0; t < ARRAY_SIZE(turns); t++) {
		for (uint32_t percent = 50; percent <= 90; percent += 40) {
			if (turns[t])
				printf("\n%2u %%, turns of %2llu s ", percent,
				       (unsigned long long)turns[t] / 1000);
			else
				printf("\n%2u %%, by their cost ", percent);
			for (size_t b = 0; b < ARRAY_SIZE(bursts); b++)
				printf("%10.3f",
				       makespan(percent, turns[t] * MS, bursts[b] * MS, &any));
		}
	}
	for (uint32_t percent = 50; percent <= 90; percent += 40) {
		printf("\n%2u %%, managed memory", percent);
		for (size_t b = 0; b < ARRAY_SIZE(bursts); b++)
			printf("%10.3f", managed(percent, 15300000000, bursts[b] * MS));
	}
	fputs("\n", stdout);
}

/* Two tenants whose sets fill 90 % of the device each. */
static void print_handover(void)
{
	struct memory_load loads[2];
	struct memory_setup setup;
	struct memory_outcome o;
	uint64_t worst = 0;

	given_jobs(loads, 90, 14400000000, 20000 * MS);
	memory_setup_init(&setup);
	setup.loads = loads;
	setup.tenants = 2;
	o = run(&setup);
	for (size_t i = 1; i < o.spans_size; i++) {
		const struct memory_span *s = &o.spans[i];
		uint64_t least_ns = (uint64_t)((double)s->came_bytes / setup.both_gbps);

		if (s->left_bytes && s->took_ns > least_ns + worst)
			worst = s->took_ns - least_ns;
	}
	printf("figure: handover_efficiency %.1f percent\n"
	       "figure: handover_beyond_link_ms %.2f ms\n",
	       memory_outcome_efficiency(&o, &setup) / 10.0, (double)worst / 1e6);
	memory_outcome_done(&o, 2);
}

/* Everything fits: with residency and turns, and as the hardware's slices alone. */
static void print_fits(void)
{
	struct memory_load loads[2];
	struct memory_setup setup;
	struct memory_outcome ours, plain;

	given_jobs(loads, 90, 7200000000, 1000 * MS);
	memory_setup_init(&setup);
	setup.loads = loads;
	setup.tenants = 2;
	ours = run(&setup);
	setup.plain = true;
	plain = run(&setup);
	printf("figure: fits_by_slices %.4f times\nfigure: fits_moved %llu bytes\n",
	       (double)ours.ended_ns / (double)plain.ended_ns,
	       (unsigned long long)ours.left_bytes + ours.came_bytes);
	memory_outcome_done(&ours, 2);
	memory_outcome_done(&plain, 2);
}

int main(void)
{
	static const uint32_t percents[] = {50, 90};
	static const uint64_t turns[] = {30, 5};
	double efficiency;

	print_makespans();
	for (size_t t = 0; t < ARRAY_SIZE(turns); t++) {
		for (size_t p = 0; p < ARRAY_SIZE(percents); p++)
			printf("figure: makespan_%u_%llus %.3f times\n", percents[p],
			       (unsigned long long)turns[t],
			       makespan(percents[p], turns[t] * 1000 * MS, 20000 * MS,
					&efficiency));
	}
	for (size_t p = 0; p < ARRAY_SIZE(percents); p++)
		printf("figure: makespan_%u_managed %.3f times\n", percents[p],
		       managed(percents[p], 15300000000, 20000 * MS));
	print_handover();
	print_fits();
	return 0;
}
