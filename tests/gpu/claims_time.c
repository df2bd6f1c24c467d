/* SPDX-License-Identifier: Apache-2.0 */
/* Figures: what the simulator's defaults and the model of `mete replay` take for granted. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest/movable/movable_hash_text.h"
#include "tests/gpu/lab.h"

enum { TRIES = 15 };

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(double *values, size_t n)
{
	qsort(values, n, sizeof(*values), compare);
	return values[n / 2];
}

/* A figure that is within a factor of two of what we take for granted. */
static bool figure(const char *what, double is, double taken, const char *unit)
{
	bool near = is <= 2 * taken && is >= taken / 2;

	claim_say("%s: %.4g %s, taken for %.4g%s", what, is, unit, taken, near ? "" : " (!)");
	return near;
}

struct costs {
	double create, map, unmap; /* us; map: cuMemMap and cuMemSetAccess together */
};

static struct costs mapping_costs(const struct lab *lab)
{
	double create[TRIES], map[TRIES], unmap[TRIES];
	CUdeviceptr at = lab_reserve(64 * MiB);

	for (int i = 0; i < TRIES; i++) {
		uint64_t a = lab_now_us(), b, c;
		CUmemGenericAllocationHandle handle = lab_create(lab, 64 * MiB);

		b = lab_now_us();
		lab_map(lab, at, handle, 64 * MiB);
		c = lab_now_us();
		must(cuMemUnmap(at, 64 * MiB));
		unmap[i] = (double)(lab_now_us() - c);
		create[i] = (double)(b - a);
		map[i] = (double)(c - b);
		must(cuMemRelease(handle));
	}
	return (struct costs){median(create, TRIES), median(map, TRIES), median(unmap, TRIES)};
}

/* The defaults are METE_SIM_CREATE_COST, 64 MiB at _CLEAR_RATE, twice _MAP_COST, _UNMAP_COST. */
CLAIM(mapping_costs_no_more_than_the_simulator_says)
{
	struct lab lab = lab_begin();
	struct costs costs;

	lab_needs_real_time();
	costs = mapping_costs(&lab);
	claim_say("64 MiB: create %.0f us, map and access %.0f us, unmap %.0f us", costs.create,
		  costs.map, costs.unmap);
	holds(costs.create <= 60 + 64 * 1.048576 / 2.4, "creating takes %.0f us", costs.create);
	holds(costs.map <= 2 * 30, "map and access take %.0f us", costs.map);
	holds(costs.unmap <= 30, "unmapping takes %.0f us", costs.unmap);
}

struct traffic {
	const struct lab *lab;
	CUdeviceptr device[2];
	char *host[2];
	CUstream stream[2];
};

enum { COPY = 256 << 20 };

static struct traffic traffic_new(const struct lab *lab)
{
	struct traffic t = {.lab = lab};

	for (int i = 0; i < 2; i++) {
		must(cuMemAlloc_v2(&t.device[i], COPY));
		must(cuMemHostAlloc((void **)&t.host[i], COPY, 0));
		t.stream[i] = lab_stream(CU_STREAM_NON_BLOCKING);
	}
	return t;
}

static void traffic_ask(const struct traffic *t, bool up, bool down)
{
	if (up)
		must(cuMemcpyHtoDAsync_v2(t->device[0], t->host[0], COPY, t->stream[0]));
	if (down)
		must(cuMemcpyDtoHAsync_v2(t->host[1], t->device[1], COPY, t->stream[1]));
}

/* GB/s of each direction that is asked for. */
static double rate_of(const struct traffic *t, bool up, bool down)
{
	double took[5];

	for (int i = 0; i < 5; i++) {
		uint64_t from = lab_now_us();

		traffic_ask(t, up, down);
		must(cuStreamSynchronize(t->stream[0]));
		must(cuStreamSynchronize(t->stream[1]));
		took[i] = (double)(lab_now_us() - from);
	}
	return COPY / median(took, 5) / 1e3;
}

CLAIM(both_directions_at_once_reach_0_72_of_each)
{
	struct lab lab = lab_begin();
	struct traffic t;
	double up, down, both;

	lab_needs_real_time();
	t = traffic_new(&lab);
	up = rate_of(&t, true, false);
	down = rate_of(&t, false, true);
	both = rate_of(&t, true, true);
	claim_say("up %.1f GB/s, down %.1f GB/s, both %.1f GB/s each", up, down, both);
	holds(both > 0.5 * (up + down) / 2, "both at once %.1f GB/s, one alone %.1f and %.1f", both,
	      up, down);
	claim_say("a direction beside the other: %.2f of %.1f GB/s", both / ((up + down) / 2),
		  (up + down) / 2);
}

CLAIM(the_hash_kernel_reads_at_four_times_the_links_rate)
{
	struct lab lab = lab_begin();
	struct traffic t;
	CUmodule module;
	CUfunction kernel;
	CUdeviceptr out;
	uint64_t pieces = COPY / 64;
	void *arguments[] = {&t.device[0], &pieces, &out};
	double took[5], link, hash;

	lab_needs_real_time();
	t = traffic_new(&lab);
	must(cuModuleLoadData(&module, movable_hash_text));
	must(cuModuleGetFunction(&kernel, module, "mete_hash_block"));
	must(cuMemAlloc_v2(&out, 16));
	for (int i = 0; i < 5; i++) {
		uint64_t from = lab_now_us();

		must(cuLaunchKernel(kernel, 128, 1, 1, 256, 1, 1, 0, t.stream[0], arguments, NULL));
		must(cuStreamSynchronize(t.stream[0]));
		took[i] = (double)(lab_now_us() - from);
	}
	hash = COPY / median(took, 5) / 1e3;
	link = rate_of(&t, false, true);
	holds(hash > 4 * link, "it reads %.0f GB/s, the link %.1f", hash, link);
	claim_say("it reads %.0f GB/s, the link %.1f", hash, link);
}

/* replay/memory_world.h takes 20 us for both calls, whatever is copied meanwhile. */
CLAIM(mapping_64_mib_beside_copies_takes_1200_us_at_most)
{
	struct lab lab = lab_begin();
	struct traffic t;
	struct costs costs;

	lab_needs_real_time();
	t = traffic_new(&lab);
	for (int i = 0; i < 20; i++)
		traffic_ask(&t, true, true);
	costs = mapping_costs(&lab);
	holds(cuStreamQuery(t.stream[0]) == CUDA_ERROR_NOT_READY, "mapping waited for the copies");
	must(cuCtxSynchronize());
	holds(costs.map <= 1200 && costs.unmap <= 100, "map and access %.0f us, unmap %.0f us",
	      costs.map, costs.unmap);
	claim_say("map and access %.0f us, unmap %.0f us", costs.map, costs.unmap);
}

CLAIM(host_memory_is_pinned_at_6_gb_a_second_or_more)
{
	enum { BYTES = 256 << 20 };
	struct lab lab = lab_begin();
	double took[5], rate;
	char *memory;

	(void)lab;
	lab_needs_real_time();
	memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (memory == MAP_FAILED)
		claim_failed("no memory");
	for (int i = 0; i < 5; i++) {
		uint64_t from = lab_now_us();

		must(cuMemHostRegister_v2(memory, BYTES, 0));
		took[i] = (double)(lab_now_us() - from);
		must(cuMemHostUnregister(memory));
	}
	rate = BYTES / median(took, 5) / 1e3;
	holds(rate >= 6, "%.1f GB/s; the simulator's default is 10", rate);
	claim_say("%.1f GB/s; the simulator's default is 10", rate);
}

CLAIM(a_context_costs_120_ms)
{
	struct lab lab = lab_begin();
	size_t before = lab_free_bytes(), cost;
	CUcontext context;
	double took[5];
	bool near;

	lab_needs_real_time();
	for (int i = 0; i < 5; i++) {
		uint64_t from = lab_now_us();

		must(cuCtxCreate_v2(&context, 0, lab.device));
		took[i] = (double)(lab_now_us() - from) / 1e3;
		cost = before - lab_free_bytes();
		must(cuCtxDestroy_v2(context));
	}
	near = figure("a context", median(took, 5), 120, "ms");
	claim_say("a further context takes %.0f MiB; the simulator's, on purpose, 64",
		  (double)cost / (1 << 20));
	holds(near, "a context takes %.0f ms and %.0f MiB", median(took, 5),
	      (double)cost / (1 << 20));
}

/* From the host's word to the kernel, until the stream reports that it is ready. */
CLAIM(a_stream_is_ready_within_20_us_of_its_last_kernel)
{
	enum { KERNELS = 51 };
	struct lab lab = lab_begin();
	CUstream stream = lab_stream(CU_STREAM_NON_BLOCKING);
	static struct lab_busy busy[KERNELS];
	double took[KERNELS], middle;

	lab_needs_real_time();
	for (int i = 0; i < KERNELS; i++)
		busy[i] = lab_busy_new(&lab);
	for (int i = 0; i < KERNELS; i++) {
		uint64_t from;

		lab_busy_start(&busy[i], stream);
		from = lab_now_us();
		lab_busy_end(&busy[i]);
		while (cuStreamQuery(stream) == CUDA_ERROR_NOT_READY)
			;
		took[i] = (double)(lab_now_us() - from);
	}
	middle = median(took, KERNELS);
	holds(middle <= 20, "%.0f us", middle);
	claim_say("%.0f us from the host's word to the answer", middle);
}

/* The median of kernels of 2 ms, with and without queries every 20 us. */
static double kernel_ms(const struct lab *lab, bool ask)
{
	enum { KERNELS = 51 };
	CUstream stream = lab_stream(CU_STREAM_NON_BLOCKING);
	CUevent begun = lab_event(0), ended = lab_event(0);
	CUfunction kernel = lab_kernel(lab, "sleep");
	unsigned n = 20;
	void *arguments[] = {&n};
	double took[KERNELS];
	float ms;

	for (int i = 0; i < KERNELS; i++) {
		must(cuEventRecord(begun, stream));
		must(lab_launch(kernel, stream, arguments));
		must(cuEventRecord(ended, stream));
		while (ask && cuStreamQuery(stream) == CUDA_ERROR_NOT_READY)
			usleep(20);
		must(cuEventSynchronize(ended));
		must(cuEventElapsedTime(&ms, begun, ended));
		took[i] = ms;
	}
	return median(took, KERNELS);
}

CLAIM(queries_slow_no_kernel)
{
	struct lab lab = lab_begin();
	double without, with;

	lab_needs_real_time();
	without = kernel_ms(&lab, false);
	with = kernel_ms(&lab, true);
	holds(with <= without * 1.02, "%.3f ms alone, %.3f ms with queries", without, with);
	claim_say("%.3f ms alone, %.3f ms with queries", without, with);
}

static void read_times(struct lab *lab, uint64_t times[4])
{
	CUdeviceptr at;
	void *arguments[] = {&at};

	must(cuMemAlloc_v2(&at, 32));
	must(lab_launch(lab_kernel(lab, "times"), NULL, arguments));
	must(cuMemcpyDtoH_v2(times, at, 32));
}

CLAIM(two_reads_of_the_clock_differ_by_a_few_instructions)
{
	struct lab lab = lab_begin();
	uint64_t times[4];

	lab_needs_real_time();
	read_times(&lab, times);
	holds(times[1] > times[0] && times[1] - times[0] < 200, "two reads differ by %lld",
	      (long long)(times[1] - times[0]));
	claim_say("two reads differ by %lld; by 1 on the simulator",
		  (long long)(times[1] - times[0]));
}

/* PTX promises no more than twice the time. */
CLAIM(nanosleep_sleeps_once_to_twice_as_long_as_requested)
{
	struct lab lab = lab_begin();
	uint64_t times[4], slept;

	lab_needs_real_time();
	read_times(&lab, times);
	slept = times[3] - times[2];
	holds(slept >= 100000 && slept <= 200000, "100 us became %.1f us", (double)slept / 1e3);
	claim_say("100 us became %.1f us", (double)slept / 1e3);
}

/* gaps(p, ns): reads the timer for so long; *p: the gaps of more than 50 us, [p+8]: their sum. */
static const char gaps_text[] =
	".version 6.3\n.target sm_70\n.address_size 64\n"
	".visible .entry gaps(.param .u64 p, .param .u64 ns)\n{\n"
	".reg .u64 %a, %l, %b, %n, %d, %c, %s;\n.reg .pred %q;\n"
	"ld.param.u64 %a, [p];\nld.param.u64 %l, [ns];\nmov.u64 %c, 0;\nmov.u64 %s, 0;\n"
	"mov.u64 %b, %globaltimer;\nadd.u64 %l, %l, %b;\n"
	"AGAIN:\nmov.u64 %n, %globaltimer;\nsub.u64 %d, %n, %b;\nmov.u64 %b, %n;\n"
	"setp.gt.u64 %q, %d, 50000;\n@%q add.u64 %c, %c, 1;\n@%q add.u64 %s, %s, %d;\n"
	"setp.lt.u64 %q, %n, %l;\n@%q bra AGAIN;\n"
	"st.global.u64 [%a], %c;\nst.global.u64 [%a+8], %s;\nret;\n}\n";

enum rival { LONG, TWO_CONTEXTS, SHORT };

/* Another process with work, until it is killed. */
static pid_t rival_start(enum rival rival)
{
	int ends[2];
	char byte = 0;
	pid_t child;

	if (pipe(ends) != 0)
		claim_failed("no pipe");
	child = lab_fork();
	if (child == 0) {
		struct lab lab[2];
		int contexts = rival == TWO_CONTEXTS ? 2 : 1;
		unsigned n = rival == SHORT ? 1 : 4000;
		void *arguments[] = {&n};

		for (int i = 0; i < contexts; i++)
			lab[i] = lab_begin();
		for (unsigned round = 0;; round++) {
			for (int i = 0; i < contexts; i++) {
				must(cuCtxSetCurrent(lab[i].context));
				must(lab_launch(lab_kernel(&lab[i], "sleep"), NULL, arguments));
			}
			if (round == 0 && write(ends[1], &byte, 1) != 1)
				_exit(1);
			must(cuCtxSynchronize());
			usleep(rival == SHORT ? 300 : 0);
		}
	}
	if (read(ends[0], &byte, 1) != 1)
		claim_failed("the second process has not started");
	close(ends[0]);
	close(ends[1]);
	return child;
}

/* Milliseconds for which this process stands still at a time, beside the rival. */
static double gap_ms(enum rival rival)
{
	pid_t measured = lab_fork();
	int status;

	if (measured == 0) {
		pid_t child = rival_start(rival);
		struct lab lab = lab_begin();
		uint64_t ns = 400000000, found[2];
		CUmodule module;
		CUfunction gaps;
		CUdeviceptr at;
		void *arguments[] = {&at, &ns};
		CUresult r;

		(void)lab;
		must(cuModuleLoadData(&module, gaps_text));
		must(cuModuleGetFunction(&gaps, module, "gaps"));
		must(cuMemAlloc_v2(&at, 16));
		must(lab_launch(gaps, NULL, arguments));
		r = cuMemcpyDtoH_v2(found, at, 16);
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
		must(r);
		/* In tens of microseconds, as an exit status: 0 where there was no gap. */
		ns = found[0] ? found[1] / found[0] / 50000 : 0;
		_exit(ns > 250 ? 250 : (int)ns);
	}
	if (waitpid(measured, &status, 0) != measured || !WIFEXITED(status))
		claim_failed("the measuring process did not end");
	return WEXITSTATUS(status) / 20.0;
}

CLAIM(slices_are_2_ms_end_early_and_belong_to_contexts)
{
	double one, two, small;

	if (lab_simulated()) /* and no cuInit: children follow */
		claim_needs(
			"a real device: a simulated kernel is not stopped while it is interpreted");
	one = gap_ms(LONG);
	two = gap_ms(TWO_CONTEXTS);
	small = gap_ms(SHORT);
	claim_say("stood still %.2f ms beside one context, %.2f beside two, %.2f beside short "
		  "kernels",
		  one, two, small);
	holds(one >= 1.5 && one <= 3, "a slice is %.2f ms", one);
	holds(two >= 1.5 * one && two <= 2.5 * one,
	      "two contexts of a process have %.2f ms, one has %.2f", two, one);
	holds(small < one / 2, "kernels of 0.1 ms keep the device for %.2f ms", small);
	claim_say("a slice is %.2f ms; of two contexts %.2f ms; of kernels of 0.1 ms %.2f ms", one,
		  two, small);
}
