/* SPDX-License-Identifier: Apache-2.0 */
#include "node/move/store_file.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/least.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif
#ifndef MFD_HUGE_2MB
#define MFD_HUGE_2MB (21u << 26)
#endif

/*
 * F_SEAL_FUTURE_WRITE would not help: it forbids punching holes, to us as well; and a write() takes
 * the lock, and waits for the page that it copies from, before it is refused.
 */
enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

/* ---- the host -------------------------------------------------------------------------------- */

uint64_t store_file_available(void)
{
	static const char key[] = "MemAvailable:"; /* "MemAvailable:   123 kB" */
	owned(fclose) FILE *file = fopen("/proc/meminfo", "re");
	char text[256];

	while (file && fgets(text, sizeof(text), file)) {
		if (strncmp(text, key, sizeof(key) - 1) == 0)
			return strtoull(text + sizeof(key) - 1, NULL, 10) * 1024;
	}
	return 0;
}

/* Bytes in free huge pages. */
static uint64_t huge_bytes(void)
{
	owned(fclose) FILE *file =
		fopen("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "re");
	char text[32];

	if (!file || !fgets(text, sizeof(text), file))
		return 0;
	return strtoull(text, NULL, 10) * STORE_GRAIN;
}

static int make(uint64_t size, unsigned more)
{
	owned(close) int fd = memfd_create("mete-store", MFD_CLOEXEC | MFD_ALLOW_SEALING | more);

	if (fd < 0 || ftruncate(fd, (off_t)size) != 0 || fcntl(fd, F_ADD_SEALS, SEALS) != 0)
		return -errno;
	return take_fd(&fd);
}

int store_file_make(uint64_t size)
{
	int fd = -ENOMEM;

	/* All or none: if the huge pages ran out halfway, we could not continue. */
	if (huge_bytes() >= size)
		fd = make(size, MFD_HUGETLB | MFD_HUGE_2MB);
	return fd < 0 ? make(size, 0) : fd;
}

/* ---- in a worker ----------------------------------------------------------------------------- */

enum { CPUS_OF_PART = 4, PARTS = 4 };

uint32_t store_file_parts;

/* Faults pages in through a mapping that is aligned for huge pages and requests them: fallocate()
 * would use them only if the administrator enabled them everywhere, and leaves the clearing of
 * small pages to the process that touches them first. Failures do not matter. */
static void fault_part(int fd, uint64_t offset, uint64_t bytes)
{
	uint8_t *area =
		mmap(NULL, bytes + STORE_GRAIN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *at;

	if (area == MAP_FAILED)
		return;
	at = area + (STORE_GRAIN - (uintptr_t)area % STORE_GRAIN) % STORE_GRAIN;
	if (mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, (off_t)offset) ==
	    at) {
		best_effort(madvise(at, bytes, MADV_HUGEPAGE));
		best_effort(madvise(at, bytes, MADV_POPULATE_WRITE));
	}
	munmap(area, bytes + STORE_GRAIN);
}

/* One processor faults in small pages at 1 or 2 GB/s, far more slowly than a device takes them. */
static uint64_t part_bytes(uint64_t bytes)
{
	cpu_set_t set;
	int cpus = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
	uint64_t parts = most(least((uint64_t)cpus / CPUS_OF_PART, PARTS), 1);

	if (store_file_parts)
		parts = store_file_parts;
	return (bytes / parts + STORE_GRAIN - 1) / STORE_GRAIN * STORE_GRAIN;
}

/* The first part here, the others in processes of their own. */
static void fault_in(int fd, const struct store_piece *piece)
{
	uint64_t step = part_bytes(piece->bytes);
	uint32_t others = 0;

	for (uint64_t at = step; at < piece->bytes; at += step) {
		uint64_t rest = least(piece->bytes - at, step);

		switch (fork()) {
		case 0:
			best_effort(prctl(PR_SET_PDEATHSIG, SIGKILL));
			fault_part(fd, piece->offset + at, rest);
			_exit(0);
		case -1:
			fault_part(fd, piece->offset + at, rest);
			break;
		default:
			others++;
		}
	}
	fault_part(fd, piece->offset, least(step, piece->bytes));
	while (others > 0)
		others -= waitpid(-1, NULL, 0) > 0 || errno != EINTR;
}

static int allocate(int fd, int mode, const struct store_piece *piece)
{
	int r;

	do
		r = fallocate(fd, mode, (off_t)piece->offset, (off_t)piece->bytes);
	while (r != 0 && errno == EINTR);
	return r == 0 ? 0 : -errno;
}

static int punch(int fd, const struct store_piece *piece)
{
	return allocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, piece);
}

/* Punches first, because a guest may have written where it had no segment yet. */
static int prepare(int fd, const struct store_piece *piece)
{
	int r = punch(fd, piece);

	if (r < 0)
		return r;
	fault_in(fd, piece);
	return allocate(fd, 0, piece);
}

int store_file_work(int fd, const struct store_piece *piece)
{
	switch (piece->verb) {
	case STORE_PREPARE:
		return prepare(fd, piece);
	case STORE_PUNCH:
		return punch(fd, piece);
	case STORE_CLOSE: /* by the receiver, afterwards */
		return 0;
	}
	return -EINVAL;
}
