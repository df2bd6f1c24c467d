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

/* What the simulator has for METE_SIM_DUPLEX: the part of its rate that a direction has if both are
 * busy. */
#define DUPLEX 0.72

struct made {
	double makespan, longest_s; /* by one after the other; the longest wait */
};

/* A set stays for `turn_ns`; 0: by what moving it took, of which `cost_milli` may be movement. */
static struct made make(uint32_t percent, uint64_t turn_ns, uint32_t cost_milli, uint64_t burst_ns)
{
	struct memory_load loads[2];
	struct memory_setup setup;
	struct memory_outcome o;
	uint64_t longest = 0;
	struct made made;

	given_jobs(loads, percent, 15300000000, burst_ns);
	memory_setup_init(&setup);
	setup.loads = loads;
	setup.tenants = 2;
	setup.both_gbps = DUPLEX * setup.alone_gbps;
	setup.residency.turn_ns = turn_ns;
	setup.residency.cost_milli = cost_milli;
	o = run(&setup);
	for (int i = 0; i < 2; i++)
		longest = o.tenants[i].longest_ns > longest ? o.tenants[i].longest_ns : longest;
	made = (struct made){(double)o.ended_ns / (double)memory_report_sequential(&setup),
			     (double)longest / 1e9};
	memory_outcome_done(&o, 2);
	return made;
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

static const uint64_t bursts[] = {1000, 3000, 10000, 20000, 60000};

static void print_row(const char *name, uint32_t percent, uint64_t turn_ns, uint32_t cost_milli)
{
	printf("\n%2u %%, %-19s", percent, name);
	for (size_t b = 0; b < ARRAY_SIZE(bursts); b++) {
		struct made made = make(percent, turn_ns, cost_milli, bursts[b] * MS);

		printf("  %5.3f %4.1f s", made.makespan, made.longest_s);
	}
}

/* How long both take, and the longest that one waits, for each part that movement may cost. */
static void print_makespans(void)
{
	static const uint32_t parts[] = {20, 50, 70, 100, 150, 200};

	printf("two jobs that each fill a GPU of 16 GB: makespan by one after the other, and the "
	       "longest wait; by the length of a burst\n%26s",
	       "");
	for (size_t b = 0; b < ARRAY_SIZE(bursts); b++)
		printf("%12llu s", (unsigned long long)bursts[b] / 1000);
	for (uint32_t percent = 50; percent <= 90; percent += 40) {
		for (size_t p = 0; p < ARRAY_SIZE(parts); p++) {
			char name[32];

			snprintf(name, sizeof(name), "--movement %u%%", parts[p] / 10);
			print_row(name, percent, 0, parts[p]);
		}
		print_row("turns of 30 s", percent, 30000 * MS, 50);
		print_row("turns of 5 s", percent, 5000 * MS, 50);
		printf("\n%2u %%, %-19s", percent, "managed memory");
		for (size_t b = 0; b < ARRAY_SIZE(bursts); b++)
			printf("  %5.3f       ", managed(percent, 15300000000, bursts[b] * MS));
	}
	fputs("\n", stdout);
}

/* By meted's default: of the usual mixes, and the worst wait of all. */
static void print_default(void)
{
	uint32_t usual = residency_usual.cost_milli;
	double longest = 0;

	for (uint32_t percent = 50; percent <= 90; percent += 40) {
		printf("figure: makespan_%u %.3f times\n", percent,
		       make(percent, 0, usual, 20000 * MS).makespan);
		for (size_t b = 0; b < ARRAY_SIZE(bursts); b++) {
			double wait = make(percent, 0, usual, bursts[b] * MS).longest_s;

			longest = wait > longest ? wait : longest;
		}
	}
	printf("figure: makespan_50_3s %.3f times\n", make(50, 0, usual, 3000 * MS).makespan);
	printf("figure: makespan_longest_wait_s %.1f s\n", longest);
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

	print_makespans();
	print_default();
	for (size_t p = 0; p < ARRAY_SIZE(percents); p++)
		printf("figure: makespan_%u_managed %.3f times\n", percents[p],
		       managed(percents[p], 15300000000, 20000 * MS));
	print_handover();
	print_fits();
	return 0;
}
