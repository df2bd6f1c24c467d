/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a segment of the store costs before the first byte is copied to it: the daemon prepares its
 * pages, and the guest's pinning brings them into its own page table. In nanoseconds for a MiB.
 * For bench/store-pages.sh.
 *
 *	store_pages MIB
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "node/move/store_file.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22 /* Linux 5.14 */
#define MADV_POPULATE_WRITE 23 /* likewise */
#endif

enum { PIECE = 16 << 20 };

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int made(uint64_t bytes)
{
	int fd = store_file_make(bytes);

	if (fd >= 0)
		return fd;
	fprintf(stderr, "store_pages: no memory file: %s\n", strerror(-fd));
	exit(1);
}

static double prepare_all(int fd, uint64_t bytes)
{
	double from = now_ns();

	for (uint64_t at = 0; at < bytes; at += PIECE) {
		const struct store_piece piece = {
			.verb = STORE_PREPARE, .offset = at, .bytes = PIECE};

		if (store_file_work(fd, &piece) != 0)
			exit(1);
	}
	return now_ns() - from;
}

static double prepared(uint64_t bytes)
{
	owned(close) int fd = made(bytes);

	return prepare_all(fd, bytes);
}

/* Pinning takes each page for writing. */
static double mapped(uint64_t bytes, bool read_first)
{
	owned(close) int fd = made(bytes);
	double from, took = 0;

	(void)prepare_all(fd, bytes);
	for (uint64_t at = 0; at < bytes; at += PIECE) {
		void *memory = mmap(NULL, PIECE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)at);

		if (memory == MAP_FAILED)
			exit(1);
		from = now_ns();
		if (read_first && madvise(memory, PIECE, MADV_POPULATE_READ) != 0)
			exit(1);
		if (madvise(memory, PIECE, MADV_POPULATE_WRITE) != 0)
			exit(1);
		took += now_ns() - from;
		munmap(memory, PIECE);
	}
	return took;
}

int main(int argc, char **argv)
{
	uint64_t mib = argc == 2 ? strtoull(argv[1], NULL, 10) / 16 * 16 : 0, bytes = mib << 20;

	if (mib == 0) {
		fprintf(stderr, "usage: store_pages MIB (16 or more)\n");
		return 2;
	}
	printf("prepare %.0f\n", prepared(bytes) / (double)mib);
	printf("faults %.0f\n", mapped(bytes, false) / (double)mib);
	printf("map %.0f\n", mapped(bytes, true) / (double)mib);
	return 0;
}
