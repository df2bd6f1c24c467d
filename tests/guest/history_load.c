/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program for tests/guest/test_guest_histories.py: it computes in rounds, on memory that it can
 * check at any moment. Settings: bytes=N, block=N, kernel_us=N.
 *
 *	check	all of its memory is what its rounds made of it, and one more round ends: "right"
 *	rest	it computes nothing until the next line
 *
 * With the end of its input it checks itself for the last time, and ends.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/workload.h"
#include "examples/kernels/vector.ptx.h"

enum {
	BLOCKS_MOST = 64,
	ADVANCED = 256, /* words at the head of a block: each of its rounds changes them */
};

struct block {
	CUdeviceptr at;
	size_t bytes;
	unsigned rounds;
};

static struct {
	struct workload w;
	CUfunction advance, busy;
	struct block block[BLOCKS_MOST];
	size_t blocks;
	unsigned kernel_ns, round;
	unsigned *host; /* as large as the largest block */
} h;

static unsigned filling(size_t block)
{
	return 0x9e3779b9u * (unsigned)(block + 1);
}

static void hold(size_t bytes, size_t block)
{
	for (; bytes && h.blocks < BLOCKS_MOST; h.blocks++) {
		struct block *b = &h.block[h.blocks];

		b->bytes = bytes < block ? bytes : block;
		b->at = workload_alloc(&h.w, b->bytes);
		workload_try(&h.w, h.w.cuMemsetD32_v2(b->at, filling(h.blocks), b->bytes / 4));
		bytes -= b->bytes;
	}
	workload_try(&h.w, h.w.cuCtxSynchronize());
	h.host = malloc(h.block[0].bytes);
	if (!h.host)
		workload_fail(&h.w, "no memory");
}

static void compute(void)
{
	struct block *b = &h.block[h.round++ % h.blocks];
	unsigned count = ADVANCED;

	workload_launch(&h.w, NULL, h.advance, count, (void *[]){&b->at, &count});
	workload_try(&h.w, h.w.cuLaunchKernel(h.busy, 1, 1, 1, 1, 1, 1, 0, NULL,
					      (void *[]){&h.kernel_ns}, NULL));
	workload_try(&h.w, h.w.cuCtxSynchronize());
	b->rounds++;
}

static void check_block(size_t i)
{
	const struct block *b = &h.block[i];
	unsigned advanced = filling(i);

	for (unsigned k = 0; k < b->rounds; k++)
		advanced = advanced * 1664525u + 1013904223u;
	workload_try(&h.w, h.w.cuMemcpyDtoH_v2(h.host, b->at, b->bytes));
	for (size_t word = 0; word < b->bytes / 4; word++) {
		unsigned due = word < ADVANCED ? advanced : filling(i);

		if (h.host[word] != due)
			workload_fail(&h.w, "block %zu, word %zu: %08x stands there, not %08x", i,
				      word, h.host[word], due);
	}
}

static void check(void)
{
	for (size_t i = 0; i < h.blocks; i++)
		check_block(i);
	compute();
}

static void say(const char *word)
{
	puts(word);
	fflush(stdout);
}

/* A line of input; false: its input has ended. */
static bool hear(void)
{
	char line[64];

	if (!fgets(line, sizeof(line), stdin))
		return false;
	if (strcmp(line, "rest\n") == 0) {
		say("rests");
		return hear();
	}
	check();
	say("right");
	return true;
}

int main(int argc, char **argv)
{
	static const char *const settings[] = {"bytes", "block", "kernel_us", NULL};
	struct pollfd input = {.fd = 0, .events = POLLIN};
	bool goes_on = true;

	setvbuf(stdin, NULL, _IONBF, 0); /* what poll() sees is all there is */
	workload_begin(&h.w, "history_load", vector_ptx, argc, argv, settings);
	h.kernel_ns = (unsigned)workload_setting(argc, argv, "kernel_us", 500) * 1000;
	h.advance = workload_kernel(&h.w, "advance");
	h.busy = workload_kernel(&h.w, "busy_long");
	hold(workload_setting(argc, argv, "bytes", 32 << 20),
	     workload_setting(argc, argv, "block", 16 << 20));
	say("there");
	while (goes_on) {
		compute();
		if (poll(&input, 1, 0) == 1)
			goes_on = hear();
	}
	check();
	for (size_t i = 0; i < h.blocks; i++)
		workload_free(&h.w, h.block[i].at, h.block[i].bytes);
	free(h.host);
	return workload_end(&h.w, "rounds=%u", h.round);
}
