/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A load of a known size: kernels of a given length, always some ahead of the device, or in bursts
 * with pauses between them (exponentially distributed, from a fixed seed). It says how much of the
 * device's time it had and how long its bursts took: what shares of time are measured with.
 *
 * With memory=BYTES it also holds so much. With gap_ms a line for each time of that length or more
 * in which no kernel ended, by the machine's monotonic clock.
 *
 * Until `seconds` have passed; with stdin=1 also until its input ends, and each line of it lets the
 * program rest or go on. With report_ms a line at its start and after that time each.
 */
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "examples/workload.h"
#include "examples/kernels/vector.ptx.h"

enum { AHEAD_MOST = 64, LATENCIES = 1 << 16, FILL_BYTES = 16 << 20 };

struct steady {
	struct workload w;
	CUfunction busy;
	unsigned kernel_ns;
	uint64_t ahead, burst, pause_us, report_ms, gap_ms;
	bool by_stdin, ended;
	uint64_t begun_ns, until_ns, reported_ns, kernel_end_ns, kernels, bursts;
	uint64_t latency[LATENCIES]; /* of bursts, ns */
	CUevent event[AHEAD_MOST];
};

static void launch(struct steady *s)
{
	workload_try(&s->w, s->w.cuLaunchKernel(s->busy, 1, 1, 1, 1, 1, 1, 0, NULL,
						(void *[]){&s->kernel_ns}, NULL));
}

static void report(struct steady *s, uint64_t now)
{
	if (!s->report_ms || (s->reported_ns && now < s->reported_ns + s->report_ms * 1000000))
		return;
	s->reported_ns = now;
	printf("at_ms=%.1f kernels=%llu\n", (double)(now - s->begun_ns) / 1e6,
	       (unsigned long long)s->kernels);
	fflush(stdout);
}

/* A kernel has ended. */
static void note_gap(struct steady *s)
{
	uint64_t now = workload_now_ns(), before = s->kernel_end_ns;

	s->kernel_end_ns = now;
	if (!s->gap_ms || !before || now - before < s->gap_ms * 1000000)
		return;
	printf("gap from_us=%llu to_us=%llu\n", (unsigned long long)before / 1000,
	       (unsigned long long)now / 1000);
	fflush(stdout);
}

/* A line of input: it rests until the next one. false: its input has ended. */
static bool hear(struct steady *s)
{
	char line[64];

	if (!fgets(line, sizeof(line), stdin))
		return false;
	workload_try(&s->w, s->w.cuCtxSynchronize());
	return fgets(line, sizeof(line), stdin) != NULL;
}

static bool goes_on(struct steady *s)
{
	struct pollfd input = {.fd = 0, .events = POLLIN};
	uint64_t now = workload_now_ns();

	report(s, now);
	if (s->by_stdin && poll(&input, 1, 0) == 1)
		s->ended = s->ended || !hear(s);
	return now < s->until_ns && !s->ended;
}

/* Until `burst` are done (0: without an end), with `ahead` under way. */
static void run(struct steady *s)
{
	uint64_t begun = 0, done = 0, ahead = s->ahead ? s->ahead : 1;

	while (done < begun || (goes_on(s) && (!s->burst || begun < s->burst))) {
		if (begun - done < ahead && (!s->burst || begun < s->burst)) {
			launch(s);
			workload_try(&s->w, s->w.cuEventRecord(s->event[begun++ % ahead], NULL));
			continue;
		}
		workload_try(&s->w, s->w.cuEventSynchronize(s->event[done++ % ahead]));
		s->kernels++;
		note_gap(s);
		if (!goes_on(s) && !s->burst)
			break;
	}
	workload_try(&s->w, s->w.cuCtxSynchronize());
	s->kernels += begun - done;
}

static void rest(struct steady *s)
{
	double u = ((double)(workload_random(&s->w) >> 11) + 1) / 9007199254740993.0;
	uint64_t ns = (uint64_t)(-log(u) * (double)s->pause_us * 1000);
	struct timespec pause = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};

	clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static double quantile(const struct steady *s, double part)
{
	uint64_t count = s->bursts < LATENCIES ? s->bursts : LATENCIES;

	return count ? (double)s->latency[(uint64_t)((double)(count - 1) * part)] / 1e3 : 0;
}

static void read_settings(struct steady *s, int argc, char **argv)
{
	s->kernel_ns = (unsigned)workload_setting(argc, argv, "kernel_us", 1000) * 1000;
	s->ahead = workload_setting(argc, argv, "ahead", 4);
	s->burst = workload_setting(argc, argv, "burst", 0);
	s->pause_us = workload_setting(argc, argv, "pause_us", 0);
	s->report_ms = workload_setting(argc, argv, "report_ms", 0);
	s->gap_ms = workload_setting(argc, argv, "gap_ms", 0);
	s->by_stdin = workload_setting(argc, argv, "stdin", 0) != 0;
	if (!s->ahead || s->ahead > AHEAD_MOST)
		workload_fail(&s->w, "ahead=%llu: 1 to %d are accepted",
			      (unsigned long long)s->ahead, AHEAD_MOST);
	if (s->pause_us && !s->burst)
		s->burst = 1;
}

/* Part by part, so that others may have turns between them. */
static CUdeviceptr fill(struct workload *w, size_t bytes)
{
	CUdeviceptr memory = workload_alloc(w, bytes);

	for (size_t at = 0; at < bytes; at += FILL_BYTES) {
		size_t part = bytes - at < FILL_BYTES ? bytes - at : FILL_BYTES;

		workload_try(w, w->cuMemsetD8_v2(memory + at, 1, part));
		workload_try(w, w->cuCtxSynchronize());
	}
	return memory;
}

int main(int argc, char **argv)
{
	static const char *const settings[] = {"kernel_us", "ahead",	 "burst",  "pause_us",
					       "seconds",   "report_ms", "gap_ms", "memory",
					       "stdin",	    NULL};
	static struct steady s;
	uint64_t seconds = workload_setting(argc, argv, "seconds", 5);
	size_t memory_bytes = workload_setting(argc, argv, "memory", 0);
	CUdeviceptr memory = 0;

	setvbuf(stdin, NULL, _IONBF, 0); /* poll() must see what is left */
	workload_begin(&s.w, "steady", vector_ptx, argc, argv, settings);
	read_settings(&s, argc, argv);
	if (memory_bytes)
		memory = fill(&s.w, memory_bytes);
	s.busy = workload_kernel(&s.w, "busy_long");
	for (uint64_t i = 0; i < s.ahead; i++)
		workload_try(&s.w, s.w.cuEventCreate(&s.event[i], CU_EVENT_DISABLE_TIMING));
	s.begun_ns = workload_now_ns();
	s.until_ns = s.begun_ns + seconds * 1000000000;
	do {
		uint64_t from;

		if (s.pause_us)
			rest(&s);
		from = workload_now_ns();
		run(&s);
		s.latency[s.bursts++ % LATENCIES] = workload_now_ns() - from;
	} while (goes_on(&s));
	for (uint64_t i = 0; i < s.ahead; i++)
		workload_try(&s.w, s.w.cuEventDestroy_v2(s.event[i]));
	if (memory_bytes)
		workload_free(&s.w, memory, memory_bytes);
	qsort(s.latency, s.bursts < LATENCIES ? s.bursts : LATENCIES, sizeof(s.latency[0]),
	      by_size);
	return workload_end(&s.w,
			    "kernels=%llu busy_ms=%.1f wall_ms=%.1f bursts=%llu burst_p50_us=%.0f "
			    "burst_p99_us=%.0f",
			    (unsigned long long)s.kernels, (double)s.kernels * s.kernel_ns / 1e6,
			    (double)(workload_now_ns() - s.begun_ns) / 1e6,
			    (unsigned long long)s.bursts, quantile(&s, 0.5), quantile(&s, 0.99));
}
