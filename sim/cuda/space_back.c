/* SPDX-License-Identifier: Apache-2.0 */
/* The backing of addresses: nothing, fresh memory, memory filled with the pattern, or a file. */
#include "sim/cuda/space.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim/machine/segment.h"

#define SPACE_PATTERN_BYTES (16ull << 20)

static struct {
	pthread_once_t once;
	pthread_mutex_t lock; /* the file */
	bool on;
	uint8_t byte;
	int fd;
} pattern = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

static void pattern_start(void)
{
	const struct settings *settings = segment_settings();

	pattern.on = settings && settings->pattern;
	pattern.byte = SETTINGS_PATTERN_BYTE;
}

bool space_has_pattern(void)
{
	pthread_once(&pattern.once, pattern_start);
	return pattern.on;
}

void space_pattern(void *memory, size_t bytes)
{
	if (space_has_pattern())
		memset(memory, pattern.byte, bytes);
}

/* A file of pattern that is mapped privately: pages cost memory only once they are written. */
static int pattern_file(void)
{
	pthread_mutex_lock(&pattern.lock);
	if (pattern.fd < 0) {
		int fd = memfd_create("mete-sim-pattern", MFD_CLOEXEC);
		void *at;

		if (fd >= 0 && ftruncate(fd, (off_t)SPACE_PATTERN_BYTES) == 0) {
			at = mmap(NULL, SPACE_PATTERN_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
				  0);
			if (at != MAP_FAILED) {
				memset(at, pattern.byte, SPACE_PATTERN_BYTES);
				munmap(at, SPACE_PATTERN_BYTES);
				pattern.fd = fd;
				fd = -1;
			}
		}
		if (fd >= 0)
			close(fd);
	}
	pthread_mutex_unlock(&pattern.lock);
	return pattern.fd;
}

static int back_fresh(void *at, size_t bytes)
{
	int fd = -1;

	if (space_has_pattern())
		fd = pattern_file();
	for (size_t done = 0; done < bytes;) {
		size_t n = bytes - done;
		void *r;

		if (fd >= 0 && n > SPACE_PATTERN_BYTES)
			n = SPACE_PATTERN_BYTES;
		r = mmap((char *)at + done, n, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE | (fd < 0 ? MAP_ANONYMOUS : 0), fd,
			 0);
		if (r == MAP_FAILED)
			return -ENOMEM;
		done += n;
	}
	return 0;
}

int space_back(uint64_t base, size_t bytes)
{
	int r = back_fresh(space_shadow(base), bytes);

	if (r < 0)
		space_unback(base, bytes);
	return r;
}

int space_back_file(uint64_t base, size_t bytes, int fd, uint64_t offset)
{
	void *r = mmap(space_shadow(base), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		       fd, (off_t)offset);

	return r == MAP_FAILED ? -ENOMEM : 0;
}

void space_unback(uint64_t base, size_t bytes)
{
	void *r = mmap(space_shadow(base), bytes, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);

	/* Too many mappings: at least releases the pages. */
	if (r == MAP_FAILED)
		madvise(space_shadow(base), bytes, MADV_DONTNEED);
}

static size_t page_round(size_t bytes)
{
	return (bytes + 4095) & ~(size_t)4095;
}

void *space_host_new(size_t bytes)
{
	void *at = mmap(NULL, page_round(bytes), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

void space_host_free(void *memory, size_t bytes)
{
	munmap(memory, page_round(bytes));
}
