/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What taking turns promises, measured in replay: `turns fairness|caps|convergence|idle|latency`.
 * Each prints its cases and then its figures. Everything runs on a virtual clock: the same figures
 * on every machine.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "replay/time_measure.h"

#define US 1000ull
#define MS 1000000ull

enum { TENANTS_MOST = 32 };

static const struct time_window second = {100, 200, 0}, minute = {6000, 200, 0};

struct run {
	struct time_load loads[TENANTS_MOST];
	struct time_setup setup;
	struct time_outcome out;
};

static void begin(struct run *r, uint32_t tenants)
{
	memset(r, 0, sizeof(*r));
	time_setup_init(&r->setup);
	r->setup.loads = r->loads;
	r->setup.tenants = tenants;
	r->setup.length_ns = 63000 * MS;
	for (uint32_t i = 0; i < tenants; i++)
		time_load_init(&r->loads[i]);
}

static void go(struct run *r)
{
	struct fault why;

	if (time_world_run(&r->setup, &r->out, &why) < 0) {
		fprintf(stderr, "turns: %s\n", why.text);
		exit(1);
	}
}

static void end(struct run *r)
{
	time_outcome_done(&r->out, r->setup.tenants);
}

static struct time_window until_end(const struct run *r, struct time_window window)
{
	window.last = r->out.samples - 1;
	return window;
}

/* ---- fairness -------------------------------------------------------------------------------- */

struct errors {
	double second, minute, served_second, served_minute, excess, beyond_flight;
	double turns, turns_excess; /* in windows of each tenant's 20 turns, no less than 1 s */
};

static double seconds(const struct run *r, size_t samples)
{
	return (double)(samples * r->setup.sample_ns) / 1e9;
}

/* Of a tenant, in windows in which it has 20 turns in the mean. */
static void turns_errors(struct run *r, uint32_t tenant, const double *shares, uint64_t kernel_ns,
			 struct errors *e)
{
	struct time_window w = until_end(r, second);
	uint64_t turns = r->out.turns[tenant] ? r->out.turns[tenant] : 1;
	size_t twenty = (size_t)(20.0 * (double)r->out.samples / (double)turns);
	double error;

	w.samples = twenty > w.samples ? twenty : w.samples;
	if (w.first + w.samples > w.last)
		return; /* not so many: of what it has in 60 s share_error_60s tells */
	error = time_measure_tenant_error(r->out.charged, r->setup.tenants, tenant, &w, shares);
	e->turns = fmax(e->turns, error);
	error -= 100 * (double)kernel_ns / 1e9 / seconds(r, w.samples);
	e->turns_excess = fmax(e->turns_excess, error);
}

static struct errors share_errors(struct run *r)
{
	double shares[TENANTS_MOST];
	struct time_window s = until_end(r, second), m = until_end(r, minute);
	uint32_t n = r->setup.tenants;
	uint64_t kernel = 0, flight = 0;
	struct errors e = {.turns_excess = -100};

	for (uint32_t i = 0; i < n; i++) {
		uint64_t all = r->loads[i].kernel_ns * r->loads[i].processes;

		kernel = r->loads[i].kernel_ns > kernel ? r->loads[i].kernel_ns : kernel;
		flight = all > flight ? all : flight;
	}
	time_measure_ideal(r->loads, n, shares);
	e.second = time_measure_share_error(r->out.charged, n, &s, shares);
	e.minute = time_measure_share_error(r->out.charged, n, &m, shares);
	e.served_second = time_measure_share_error(r->out.served, n, &s, shares);
	e.served_minute = time_measure_share_error(r->out.served, n, &m, shares);
	for (uint32_t i = 0; i < n && !r->setup.plain; i++)
		turns_errors(r, i, shares, kernel, &e);
	e.excess = e.second - 100.0 * (double)kernel / (1000.0 * MS);
	e.beyond_flight = e.second - 100.0 * (double)flight / (1000.0 * MS);
	return e;
}

static void weigh(struct run *r, const char *split)
{
	uint32_t n = r->setup.tenants, first;

	if (strcmp(split, "random") == 0) {
		srand(n);
		for (uint32_t i = 0; i < n; i++)
			r->loads[i].share.weight = 20 + (uint32_t)(rand() % 400);
		return;
	}
	/* 10:90 of more than two: one tenant has its part, the others share the rest. */
	first = (uint32_t)strtoul(split, NULL, 10);
	for (uint32_t i = 0; i < n; i++)
		r->loads[i].share.weight = first ? (100 - first) * 10 : 100;
	if (first)
		r->loads[0].share.weight = first * 10 * (n - 1);
}

static void worst_of(struct errors *worst, const struct errors *e)
{
	worst->second = fmax(worst->second, e->second);
	worst->minute = fmax(worst->minute, e->minute);
	worst->served_second = fmax(worst->served_second, e->served_second);
	worst->served_minute = fmax(worst->served_minute, e->served_minute);
	worst->excess = fmax(worst->excess, e->excess);
	worst->beyond_flight = fmax(worst->beyond_flight, e->beyond_flight);
	worst->turns = fmax(worst->turns, e->turns);
	worst->turns_excess = fmax(worst->turns_excess, e->turns_excess);
}

/* 0: all kernels 100 us; 1: the first tenant's 10 ms; 2: all 10 ms; 3: the first has 3 processes.
 */
static void shape(struct run *r, int kind)
{
	for (uint32_t i = 0; i < r->setup.tenants; i++) {
		if (kind == 2 || (kind == 1 && i == 0) || (kind == 4 && i % 2 == 0))
			r->loads[i].kernel_ns = 10 * MS;
		if (kind >= 3 && i == 0)
			r->loads[i].processes = 3;
	}
}

static void fairness(void)
{
	static const char *const splits[] = {"equal", "10", "50", "5", "random"};
	static const char *const shapes[] = {"100us", "10ms:100us", "10ms", "3 processes:1",
					     "10ms with 3:100us"};
	static const uint32_t counts[] = {2, 3, 8, 32};
	struct errors worst = {0}, plain = {0};
	static struct run r;

	worst.excess = worst.beyond_flight = worst.turns_excess = -100;
	printf("%-8s %7s %-18s %9s %9s %9s %9s %9s  %s\n", "split", "tenants", "kernels", "1s",
	       "20 turns", "60s", "1s busy", "60s busy", "plain 60s");
	for (size_t s = 0; s < ARRAY_SIZE(splits); s++) {
		for (size_t c = 0; c < ARRAY_SIZE(counts) * ARRAY_SIZE(shapes); c++) {
			struct errors e, p;

			begin(&r, counts[c / ARRAY_SIZE(shapes)]);
			weigh(&r, splits[s]);
			shape(&r, (int)(c % ARRAY_SIZE(shapes)));
			/* Without a difference nothing would be governed: this is about turns. */
			r.loads[0].share.guarantee_milli = 1;
			go(&r);
			e = share_errors(&r);
			end(&r);
			r.setup.plain = true;
			go(&r);
			p = share_errors(&r);
			end(&r);
			printf("%-8s %7u %-18s %9.3f %9.3f %9.3f %9.3f %9.3f  %9.2f\n", splits[s],
			       r.setup.tenants, shapes[c % ARRAY_SIZE(shapes)], e.second, e.turns,
			       e.minute, e.served_second, e.served_minute, p.minute);
			worst_of(&worst, &e);
			worst_of(&plain, &p);
		}
	}
	printf("figure: share_error_1s %.3f points\n", worst.second);
	printf("figure: share_error_1s_beyond_kernel %.3f points\n", worst.excess);
	printf("figure: share_error_1s_beyond_flight %.3f points\n", worst.beyond_flight);
	printf("figure: share_error_20_turns %.3f points\n", worst.turns);
	printf("figure: share_error_20_turns_beyond_kernel %.3f points\n", worst.turns_excess);
	printf("figure: share_error_60s %.3f points\n", worst.minute);
	printf("figure: share_error_busy_1s %.3f points\n", worst.served_second);
	printf("figure: share_error_busy_60s %.3f points\n", worst.served_minute);
	printf("figure: share_error_60s_plain %.2f points\n", plain.minute);
}

/* ---- caps ------------------------------------------------------------------------------------ */

static double cap_case(uint32_t cap_milli, bool rival, uint64_t kernel_ns)
{
	static struct run r;
	struct time_window s;
	double most, least, error, wanted = cap_milli / 10.0;

	begin(&r, rival ? 2 : 1);
	r.loads[0].share.cap_milli = cap_milli;
	r.loads[0].kernel_ns = kernel_ns;
	go(&r);
	s = until_end(&r, second);
	most = time_measure_most(r.out.charged, r.setup.tenants, 0, &s, r.setup.sample_ns);
	least = time_measure_least(r.out.charged, r.setup.tenants, 0, &s, r.setup.sample_ns);
	end(&r);
	/* A rival's half is less than a cap of 90 %: nothing to be reached then. */
	error = most - wanted;
	if (!rival || wanted < 50)
		error = fmax(error, wanted - least);
	printf("cap %3.0f %% %-6s kernel %6.1f ms: %6.2f to %6.2f %%\n", wanted,
	       rival ? "rival" : "alone", (double)kernel_ns / (double)MS, least, most);
	return error;
}

static double guarantee_case(uint64_t kernel_ns)
{
	static struct run r;
	struct time_window s;
	double least;

	begin(&r, 8);
	r.loads[0].share.guarantee_milli = 300;
	for (uint32_t i = 1; i < r.setup.tenants; i++)
		r.loads[i].kernel_ns = kernel_ns;
	go(&r);
	s = until_end(&r, second);
	least = time_measure_least(r.out.charged, r.setup.tenants, 0, &s, r.setup.sample_ns);
	end(&r);
	printf("guarantee 30 %% against 7 with kernels of %.1f ms: %6.2f %% at least\n",
	       (double)kernel_ns / (double)MS, least);
	return 30 - least;
}

static void caps(void)
{
	static const uint32_t milli[] = {100, 250, 500, 900};
	double error = 0, long_error = 0;

	for (size_t i = 0; i < 2 * ARRAY_SIZE(milli); i++) {
		error = fmax(error, cap_case(milli[i / 2], i % 2, 100 * US));
		long_error = fmax(long_error, cap_case(milli[i / 2], i % 2, 10 * MS));
	}
	printf("figure: cap_error_1s %.3f points\n", error);
	printf("figure: cap_error_1s_kernels_10ms %.3f points\n", long_error);
	printf("figure: guarantee_error_1s %.3f points\n", guarantee_case(100 * US));
	printf("figure: guarantee_error_1s_kernels_10ms %.3f points\n", guarantee_case(10 * MS));
}

/* ---- convergence ----------------------------------------------------------------------------- */

/* From the change on: until what each has had since then is, and stays, within 5 points (a turn in
 * 200 ms) of what is right from then on. */
static double converged_ms(struct run *r, uint64_t changed_ns, const struct time_load *right,
			   const uint32_t *there)
{
	double shares[TENANTS_MOST] = {0}, of_there[TENANTS_MOST];
	struct time_load present[TENANTS_MOST];
	struct time_window w = {0, changed_ns / r->setup.sample_ns, 0};
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->setup.tenants; i++) {
		if (there[i])
			present[n++] = right[i];
	}
	time_measure_ideal(present, n, of_there);
	n = 0;
	for (uint32_t i = 0; i < r->setup.tenants; i++)
		shares[i] = there[i] ? of_there[n++] : 0;
	w.last = w.first + 500;
	return (double)(time_measure_converged(r->out.charged, r->setup.tenants, &w, shares, 5) -
			w.first) *
	       (double)r->setup.sample_ns / (double)MS;
}

static void convergence(void)
{
	static const uint32_t both[] = {1, 1, 0, 0}, three[] = {1, 1, 1, 0};
	static struct run r;
	struct time_load right[TENANTS_MOST];
	struct time_change change = {.at_ns = 40000 * MS, .tenant = 0};
	double worst = 0, ms[3];

	begin(&r, 3);
	r.loads[0].share.weight = 200;
	r.loads[1].share.weight = 300;
	r.loads[2].share.weight = 500;
	r.loads[2].join_ns = 10000 * MS;
	r.loads[2].leave_ns = 20000 * MS;
	change.share = r.loads[0].share;
	change.share.weight = 900;
	r.setup.changes = &change;
	r.setup.changes_size = 1;
	go(&r);
	ms[0] = converged_ms(&r, r.loads[2].join_ns, r.loads, three);
	ms[1] = converged_ms(&r, r.loads[2].leave_ns, r.loads, both);
	memcpy(right, r.loads, sizeof(right));
	right[0].share = change.share;
	ms[2] = converged_ms(&r, change.at_ns, right, both);
	end(&r);
	for (int i = 0; i < 3; i++)
		worst = fmax(worst, ms[i]);
	printf("after a join %.0f ms, a leave %.0f ms, a set %.0f ms\n", ms[0], ms[1], ms[2]);
	printf("figure: convergence_ms %.0f ms\n", worst);
}

/* ---- idle ------------------------------------------------------------------------------------ */

static void idle(void)
{
	static struct run r;

	begin(&r, 2);
	r.loads[0].kind = TIME_PULSE;
	r.loads[0].work_ns = 30 * MS;
	r.loads[0].pause_ns = 50 * MS;
	r.loads[0].share.weight = 200;
	go(&r);
	printf("%zu handovers: median %.3f ms\n", r.out.handovers.size,
	       (double)time_series_part(&r.out.handovers, 500) / (double)MS);
	printf("figure: idle_handover_p99_ms %.3f ms\n",
	       (double)time_series_part(&r.out.handovers, 990) / (double)MS);
	printf("figure: gaps_harvested %.2f percent\n",
	       100.0 * (double)r.out.harvested_ns / (double)r.out.gaps_ns);
	end(&r);
}

/* ---- latency --------------------------------------------------------------------------------- */

enum how { ALONE, TURNS, PLAIN };

struct latency {
	double p50_ms, p99_ms, batch;
};

static struct latency measure(double rate, uint64_t work_ns, uint64_t batch_kernel_ns, enum how how)
{
	static struct run r;
	struct latency l;
	size_t last;

	begin(&r, how == ALONE ? 1 : 2);
	r.setup.length_ns = 300000 * MS;
	r.loads[0].kind = TIME_POISSON;
	r.loads[0].work_ns = work_ns;
	r.loads[0].pause_ns = (uint64_t)(1e9 / rate);
	r.loads[0].share.class = SHARE_INTERACTIVE;
	r.loads[1].kernel_ns = batch_kernel_ns;
	r.loads[1].share.class = SHARE_BATCH;
	/* Beside a registered interactive tenant: one kernel or 200 us in flight. */
	r.setup.flight_ns = 200 * US;
	r.setup.plain = how == PLAIN;
	go(&r);
	last = (r.out.samples - 1) * r.setup.tenants;
	l.p50_ms = (double)time_series_part(&r.out.waits[0], 500) / (double)MS;
	l.p99_ms = (double)time_series_part(&r.out.waits[0], 990) / (double)MS;
	l.batch = how == ALONE ? 0
			       : 100.0 * (double)r.out.served[last + 1] / (double)r.setup.length_ns;
	end(&r);
	return l;
}

static double latency_case(double rate, uint64_t work_ns, uint64_t kernel_ns, double *least_batch,
			   double *plain_ratio)
{
	struct latency alone = measure(rate, work_ns, kernel_ns, ALONE);
	struct latency turns = measure(rate, work_ns, kernel_ns, TURNS);
	struct latency plain = measure(rate, work_ns, kernel_ns, PLAIN);
	double kernel_ms = (double)kernel_ns / (double)MS;
	double ratio = (turns.p99_ms - kernel_ms) / alone.p99_ms;

	printf("%5.0f/s of %4.1f ms beside kernels of %4.1f ms: p99 alone %6.2f, turns %6.2f, "
	       "plain "
	       "%6.2f ms; batch %5.1f and %5.1f %%\n",
	       rate, (double)work_ns / (double)MS, kernel_ms, alone.p99_ms, turns.p99_ms,
	       plain.p99_ms, turns.batch, plain.batch);
	*least_batch = fmin(*least_batch, turns.batch);
	*plain_ratio = fmax(*plain_ratio, (plain.p99_ms - kernel_ms) / alone.p99_ms);
	return ratio;
}

static void latency(void)
{
	double least_batch = 100, plain = 0, worst = 0;

	worst = fmax(worst, latency_case(20, 5 * MS, 100 * US, &least_batch, &plain));
	worst = fmax(worst, latency_case(20, 5 * MS, 2 * MS, &least_batch, &plain));
	worst = fmax(worst, latency_case(20, 5 * MS, 10 * MS, &least_batch, &plain));
	worst = fmax(worst, latency_case(8, 20 * MS, 2 * MS, &least_batch, &plain));
	worst = fmax(worst, latency_case(100, 1 * MS, 1 * MS, &least_batch, &plain));
	printf("figure: latency_p99_ratio %.3f times\n", worst);
	printf("figure: latency_p99_ratio_plain %.3f times\n", plain);
	printf("figure: latency_batch_rate %.1f percent\n", least_batch);
}

/* ---------------------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	void (*run)(void);
} parts[] = {
	{"fairness", fairness}, {"caps", caps},	      {"convergence", convergence},
	{"idle", idle},		{"latency", latency},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		if (argc == 2 && strcmp(argv[1], parts[i].name) == 0) {
			parts[i].run();
			return 0;
		}
	}
	fprintf(stderr, "usage: turns fairness|caps|convergence|idle|latency\n");
	return 2;
}
