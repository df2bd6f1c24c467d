/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/credit/ranges.h"

#include <errno.h>
#include <string.h>

#include <sys/mman.h>

enum {
	FIRST_BYTES = 4096,
};

size_t ranges_first(const struct ranges *ranges, uint64_t address)
{
	size_t low = 0, high = ranges->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct range *range = &ranges->range[middle];

		if (range->base + range->bytes > address)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static int grow(struct ranges *ranges)
{
	size_t old = ranges->mapped_bytes, bytes = old ? old * 2 : FIRST_BYTES;
	int saved = errno;
	void *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED) {
		errno = saved;
		return -ENOMEM;
	}
	if (old) {
		memcpy(memory, ranges->range, ranges->count * sizeof(struct range));
		munmap(ranges->range, old);
	}
	errno = saved;
	ranges->range = memory;
	ranges->mapped_bytes = bytes;
	return 0;
}

int ranges_add(struct ranges *ranges, uint64_t base, uint64_t bytes, uint64_t value)
{
	size_t at = ranges_first(ranges, base);

	if (bytes == 0 || base > UINT64_MAX - bytes)
		return -EINVAL;
	if (at < ranges->count && ranges->range[at].base < base + bytes)
		return -EEXIST;
	if (ranges->count == ranges->mapped_bytes / sizeof(struct range) && grow(ranges) < 0)
		return -ENOMEM;
	memmove(&ranges->range[at + 1], &ranges->range[at],
		(ranges->count - at) * sizeof(struct range));
	ranges->range[at] = (struct range){base, bytes, value};
	ranges->count++;
	return 0;
}

const struct range *ranges_find(const struct ranges *ranges, uint64_t address)
{
	size_t at = ranges_first(ranges, address);

	return at < ranges->count && ranges->range[at].base <= address ? &ranges->range[at] : NULL;
}

int ranges_take(struct ranges *ranges, uint64_t base, uint64_t bytes, struct range *ret_range)
{
	size_t at = ranges_first(ranges, base);

	if (at < ranges->count && ranges->range[at].base < base)
		at++;
	if (at >= ranges->count || ranges->range[at].base - base >= bytes ||
	    ranges->range[at].bytes > bytes - (ranges->range[at].base - base))
		return -ENOENT;
	*ret_range = ranges->range[at];
	ranges->count--;
	memmove(&ranges->range[at], &ranges->range[at + 1],
		(ranges->count - at) * sizeof(struct range));
	return 0;
}

void ranges_forget(struct ranges *ranges)
{
	int saved = errno;

	if (ranges->mapped_bytes)
		munmap(ranges->range, ranges->mapped_bytes);
	memset(ranges, 0, sizeof(*ranges));
	errno = saved;
}
