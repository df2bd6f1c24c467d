/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job that uses the GPU for a part of its time: bursts of kernels of a known length, with a pause
 * of the CPU's after each. Its memory is made of blocks, each of which is written to in each burst
 * and checked at the end.
 *
 * It prints when each burst was, and how long it waited at most for a kernel of a burst, beyond the
 * kernel's own time. Kernels' and pauses' times are the device's; where its clock is slower than
 * the machine's, as a simulated one may be, `slow` says how many times.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/least.h"
#include "examples/workload.h"
#include "examples/kernels/vector.ptx.h"

enum { AHEAD_MOST = 64, BLOCKS_MOST = 4096, WRITTEN = 256 };

struct job {
	struct workload w;
	CUfunction busy, advance;
	CUdeviceptr block[BLOCKS_MOST];
	size_t blocks, block_bytes;
	unsigned kernel_ns;
	uint64_t ahead, kernels, pause_us, slow, bursts;
	uint64_t longest_ns; /* that it waited for a kernel */
	CUevent event[AHEAD_MOST];
};

static void allocate(struct job *j, size_t bytes)
{
	for (; j->blocks * j->block_bytes < bytes; j->blocks++) {
		CUdeviceptr block = workload_alloc(&j->w, j->block_bytes);

		workload_try(&j->w, j->w.cuMemsetD32_v2(block, (unsigned)j->blocks,
							j->block_bytes / sizeof(unsigned)));
		workload_try(&j->w, j->w.cuCtxSynchronize());
		j->block[j->blocks] = block;
	}
}

/* Each block is another one than before. */
static void write_all(struct job *j)
{
	unsigned n = WRITTEN;

	for (size_t i = 0; i < j->blocks; i++)
		workload_launch(&j->w, NULL, j->advance, WRITTEN, (void *[]){&j->block[i], &n});
}

static void note_wait(struct job *j, uint64_t *since_ns)
{
	uint64_t now = workload_now_ns(), took = now - *since_ns, own = j->kernel_ns * j->slow;

	*since_ns = now;
	if (took > own && took - own > j->longest_ns)
		j->longest_ns = took - own;
}

static void burst(struct job *j)
{
	uint64_t from = workload_now_ns(), since = from, begun = 0, ahead = most(1, j->ahead);

	write_all(j);
	for (uint64_t done = 0; done < j->kernels; done++) {
		for (; begun < j->kernels && begun - done < ahead; begun++) {
			workload_try(&j->w, j->w.cuLaunchKernel(j->busy, 1, 1, 1, 1, 1, 1, 0, NULL,
								(void *[]){&j->kernel_ns}, NULL));
			workload_try(&j->w, j->w.cuEventRecord(j->event[begun % ahead], NULL));
		}
		workload_try(&j->w, j->w.cuEventSynchronize(j->event[done % ahead]));
		note_wait(j, &since);
	}
	printf("burst from_us=%llu to_us=%llu\n", (unsigned long long)from / 1000,
	       (unsigned long long)since / 1000);
	fflush(stdout);
}

static void rest(const struct job *j)
{
	uint64_t ns = j->pause_us * 1000 * j->slow;
	struct timespec pause = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};

	clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

/* Checks the bytes that were written, and that no others were. */
static void check(struct job *j)
{
	unsigned written[WRITTEN], last;

	for (size_t i = 0; i < j->blocks; i++) {
		workload_try(&j->w, j->w.cuMemcpyDtoH_v2(written, j->block[i], sizeof(written)));
		workload_try(&j->w, j->w.cuMemcpyDtoH_v2(
					    &last, j->block[i] + j->block_bytes - sizeof(last),
					    sizeof(last)));
		if (last != (unsigned)i)
			workload_fail(&j->w, "block %zu ends with %u", i, last);
		workload_sum(&j->w, written, sizeof(written));
		workload_free(&j->w, j->block[i], j->block_bytes);
	}
}

static size_t read_settings(struct job *j, int argc, char **argv)
{
	size_t bytes = workload_setting(argc, argv, "memory", 256 << 20);

	j->block_bytes = workload_setting(argc, argv, "block", 16 << 20);
	j->kernel_ns = (unsigned)workload_setting(argc, argv, "kernel_us", 1000) * 1000;
	j->ahead = workload_setting(argc, argv, "ahead", 4);
	j->kernels = workload_setting(argc, argv, "kernels", 100);
	j->pause_us = workload_setting(argc, argv, "pause_us", 100000);
	j->bursts = workload_setting(argc, argv, "bursts", 10);
	j->slow = workload_setting(argc, argv, "slow", 1);
	if (!j->ahead || j->ahead > AHEAD_MOST)
		workload_fail(&j->w, "ahead=%llu: 1 to %d are accepted",
			      (unsigned long long)j->ahead, AHEAD_MOST);
	if (j->block_bytes < WRITTEN * 2 * sizeof(unsigned) ||
	    bytes / j->block_bytes >= BLOCKS_MOST)
		workload_fail(&j->w,
			      "block=%zu: %zu bytes or more are accepted, and less than %d of them",
			      j->block_bytes, WRITTEN * 2 * sizeof(unsigned), BLOCKS_MOST);
	return bytes;
}

int main(int argc, char **argv)
{
	static const char *const settings[] = {"memory",   "block",   "kernel_us",
					       "ahead",	   "kernels", "bursts",
					       "pause_us", "slow",    NULL};
	static struct job j;
	uint64_t begun_ns;
	size_t bytes;

	workload_begin(&j.w, "bursts", vector_ptx, argc, argv, settings);
	bytes = read_settings(&j, argc, argv);
	j.busy = workload_kernel(&j.w, "busy_long");
	j.advance = workload_kernel(&j.w, "advance");
	for (uint64_t i = 0; i < j.ahead; i++)
		workload_try(&j.w, j.w.cuEventCreate(&j.event[i], CU_EVENT_DISABLE_TIMING));
	allocate(&j, bytes);
	begun_ns = workload_now_ns();
	for (uint64_t i = 0; i < j.bursts; i++) {
		if (i)
			rest(&j);
		burst(&j);
	}
	begun_ns = workload_now_ns() - begun_ns;
	check(&j);
	for (uint64_t i = 0; i < j.ahead; i++)
		workload_try(&j.w, j.w.cuEventDestroy_v2(j.event[i]));
	return workload_end(&j.w, "bursts=%llu wall_ms=%.1f longest_ms=%.1f",
			    (unsigned long long)j.bursts, (double)begun_ns / 1e6,
			    (double)j.longest_ns / 1e6);
}
