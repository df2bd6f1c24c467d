/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program beside an attacker: takes memory, writes to it, reads it back, frees it and asks what
 * is free, without end. Every 50 ms it prints a text line: how often it has gone round, how often
 * it was refused, how often something was wrong, and the longest round since the line before, in
 * us. A last line before it ends, when its standard input does.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/guest/must.h"
#include "tests/hostile/attack.h"

enum { WORDS = 4096, LINE_US = 50000 };

static struct {
	uint64_t rounds, refused, wrong, slowest_us;
	size_t total, free_at_start;
} seen;

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void note(CUresult r, const char *what)
{
	if (r == CUDA_SUCCESS)
		return;
	if (r == CUDA_ERROR_OUT_OF_MEMORY)
		seen.refused++;
	else
		seen.wrong++;
	fprintf(stderr, "neighbour: %s answers %d\n", what, (int)r);
}

static void use(size_t bytes, uint32_t word)
{
	static uint32_t back[WORDS];
	size_t words = bytes / sizeof(word) < WORDS ? bytes / sizeof(word) : WORDS;
	CUdeviceptr address;
	CUresult r = g.cuMemAlloc_v2(&address, bytes);

	note(r, "cuMemAlloc");
	if (r != CUDA_SUCCESS)
		return;
	note(CALL(cuMemsetD32_v2)(address, word, words), "cuMemsetD32");
	memset(back, 0, sizeof(back));
	note(CALL(cuMemcpyDtoH_v2)(back, address, words * sizeof(word)), "cuMemcpyDtoH");
	for (size_t i = 0; i < words; i++)
		if (back[i] != word) {
			fprintf(stderr, "neighbour: what it wrote is gone\n");
			seen.wrong++;
			break;
		}
	note(g.cuMemFree_v2(address), "cuMemFree");
}

static void look(void)
{
	size_t available, total;

	note(g.cuMemGetInfo_v2(&available, &total), "cuMemGetInfo");
	if (total == seen.total && available == seen.free_at_start)
		return;
	fprintf(stderr, "neighbour: %zu of %zu are free, and %zu of %zu were\n", available, total,
		seen.free_at_start, seen.total);
	seen.wrong++;
}

static void say(void)
{
	printf("%llu %llu %llu %llu\n", (unsigned long long)seen.rounds,
	       (unsigned long long)seen.refused, (unsigned long long)seen.wrong,
	       (unsigned long long)seen.slowest_us);
	fflush(stdout);
	seen.slowest_us = 0;
}

/* Until its context is measured, its figures move: a request beyond its credit waits for that. */
static void begin(void)
{
	size_t before = 0;

	start();
	use(110 * MIB, 1);
	for (int same = 0; same < 20; usleep(10000)) {
		ok(g.cuMemGetInfo_v2(&seen.free_at_start, &seen.total));
		same = seen.free_at_start == before ? same + 1 : 0;
		before = seen.free_at_start;
	}
}

int main(void)
{
	struct pollfd in = {.fd = 0, .events = POLLIN};
	uint64_t said;

	begin();
	said = now_us();
	say();
	while (poll(&in, 1, 0) == 0) {
		uint64_t before = now_us(), took;

		use(5000, (uint32_t)seen.rounds);
		use(3 * MIB, ~(uint32_t)seen.rounds);
		use(110 * MIB, (uint32_t)(seen.rounds * 2654435761u));
		look();
		seen.rounds++;
		took = now_us() - before;
		if (took > seen.slowest_us)
			seen.slowest_us = took;
		if (now_us() - said > LINE_US) {
			said = now_us();
			say();
		}
		usleep(1000);
	}
	say();
	return 0;
}
