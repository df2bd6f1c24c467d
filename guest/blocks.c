/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/blocks.h"

#include <errno.h>
#include <string.h>

#include <sys/mman.h>

#include "guest/futex.h"
#include "guest/pointers.h"
#include "guest/state.h"

enum {
	UNITS = BLOCKS_BYTES / BLOCKS_UNIT,
	WORDS = UNITS / 64,
	CHUNK = 64,    /* blocks of a chunk */
	CHUNKS = 4096, /* 512 GiB */
};

struct block {
	uint64_t base;
	uint64_t context;
	uint32_t count; /* allocations in it; 0: the record is free */
	uint32_t free_units;
	uint32_t next; /* of the free records; index + 1 */
	int16_t device;
	bool paid;
	uint64_t taken[WORDS];
};

static struct {
	struct futex_lock lock; /* of everything here */
	struct block *chunk[CHUNKS];
	uint32_t made;	  /* records that exist */
	uint32_t unused_; /* the first free record; index + 1 */
	uint32_t
		recent[STATE_DEVICES]; /* the block that was last put to or taken from; index + 1 */
	struct pointers by_base;       /* detail: the record's index */
} blocks;

static struct block *record(uint32_t index)
{
	return &blocks.chunk[index / CHUNK][index % CHUNK];
}

static uint32_t units_of(uint64_t bytes)
{
	return (uint32_t)((bytes + BLOCKS_UNIT - 1) / BLOCKS_UNIT);
}

/* The bits of units [first, end) that are in this word. */
static uint64_t mask_in(uint32_t word, uint32_t first, uint32_t end)
{
	uint32_t from = first > word * 64 ? first - word * 64 : 0;
	uint32_t to = end < word * 64 + 64 ? end - word * 64 : 64;

	return (UINT64_MAX << from) & (UINT64_MAX >> (64 - to));
}

/* What __builtin_popcountll() does where it needs no library. */
static uint32_t ones(uint64_t word)
{
	word -= word >> 1 & 0x5555555555555555u;
	word = (word & 0x3333333333333333u) + (word >> 2 & 0x3333333333333333u);
	word = (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0fu;
	return (uint32_t)(word * 0x0101010101010101u >> 56);
}

/* Counts what really changes: an address that was freed and returned again at once may be put
 * before it was taken. */
static void mark(struct block *block, uint64_t address, uint64_t bytes, bool taken)
{
	uint32_t first = (uint32_t)((address - block->base) / BLOCKS_UNIT);
	uint32_t end = first + units_of(bytes);

	if (end > UNITS)
		end = UNITS;
	for (uint32_t word = first / 64; word * 64 < end; word++) {
		uint64_t mask = mask_in(word, first, end);
		uint64_t change = taken ? mask & ~block->taken[word] : mask & block->taken[word];

		block->taken[word] ^= change;
		if (taken)
			block->free_units -= ones(change);
		else
			block->free_units += ones(change);
	}
}

static bool has_gap(const struct block *block, uint32_t units)
{
	uint32_t run = 0;

	if (block->free_units < units)
		return false;
	for (uint32_t unit = 0; unit < UNITS; unit++) {
		if (unit % 64 == 0 && block->taken[unit / 64] == UINT64_MAX) {
			run = 0;
			unit += 63;
			continue;
		}
		run = block->taken[unit / 64] >> (unit % 64) & 1 ? 0 : run + 1;
		if (run == units)
			return true;
	}
	return false;
}

static bool usable(const struct block *block, int device, uint64_t context)
{
	return block->count && block->context == context && block->device == device;
}

bool blocks_fit_likely(int device, uint64_t context, uint64_t bytes)
{
	const struct block *block;
	bool fits = false;

	futex_lock_take(&blocks.lock);
	if (blocks.recent[device]) {
		block = record(blocks.recent[device] - 1);
		fits = usable(block, device, context) && block->free_units >= units_of(bytes);
	}
	futex_lock_give(&blocks.lock);
	return fits;
}

bool blocks_fit(int device, uint64_t context, uint64_t bytes)
{
	bool fits = false;

	futex_lock_take(&blocks.lock);
	for (uint32_t i = 0; i < blocks.made && !fits; i++)
		fits = usable(record(i), device, context) && has_gap(record(i), units_of(bytes));
	futex_lock_give(&blocks.lock);
	return fits;
}

/* With the lock held. A free record's index, or -ENOMEM. */
static int64_t unused_record(void)
{
	uint32_t index = blocks.unused_;
	void *memory;
	int saved = errno;

	if (index) {
		blocks.unused_ = record(index - 1)->next;
		return index - 1;
	}
	if (blocks.made == CHUNK * CHUNKS)
		return -ENOMEM;
	if (blocks.made % CHUNK == 0) {
		memory = mmap(NULL, CHUNK * sizeof(struct block), PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		errno = saved;
		if (memory == MAP_FAILED)
			return -ENOMEM;
		blocks.chunk[blocks.made / CHUNK] = memory;
	}
	return blocks.made++;
}

/* With the lock held. The index of a new block's record, or -ENOMEM. */
static int64_t add(int device, uint64_t context, uint64_t base)
{
	struct pointer entry = {.address = base}, old;
	int64_t index = unused_record();
	struct block *block;

	if (index < 0)
		return index;
	block = record((uint32_t)index);
	entry.detail = (uint32_t)index;
	if (pointers_put(&blocks.by_base, &entry, &old) < 0) {
		block->next = blocks.unused_;
		blocks.unused_ = (uint32_t)index + 1;
		return -ENOMEM;
	}
	memset(block->taken, 0, sizeof(block->taken));
	block->base = base;
	block->context = context;
	block->count = 0;
	block->free_units = UNITS;
	block->device = (int16_t)device;
	block->paid = false;
	return index;
}

int blocks_put(int device, uint64_t context, uint64_t address, uint64_t bytes, uint32_t *ret_block)
{
	uint64_t base = address & ~(BLOCKS_BYTES - 1);
	struct pointer found;
	struct block *block;
	int64_t index = -1;
	int r = 0;

	futex_lock_take(&blocks.lock);
	if (blocks.recent[device] && record(blocks.recent[device] - 1)->count &&
	    record(blocks.recent[device] - 1)->base == base)
		index = blocks.recent[device] - 1;
	else if (pointers_find(&blocks.by_base, base, &found) == 0)
		index = found.detail;
	if (index < 0)
		index = add(device, context, base);
	if (index < 0) {
		r = -ENOMEM;
	} else {
		block = record((uint32_t)index);
		r = block->paid ? 0 : BLOCKS_UNPAID;
		block->count++;
		mark(block, address, bytes, true);
		blocks.recent[device] = (uint32_t)index + 1;
		*ret_block = (uint32_t)index;
	}
	futex_lock_give(&blocks.lock);
	return r;
}

bool blocks_paid(uint32_t index)
{
	bool before;

	futex_lock_take(&blocks.lock);
	before = record(index)->paid;
	record(index)->paid = true;
	futex_lock_give(&blocks.lock);
	return before;
}

int blocks_take(uint32_t index, uint64_t address, uint64_t bytes)
{
	struct pointer entry;
	struct block *block;
	int r = 0;

	futex_lock_take(&blocks.lock);
	block = record(index);
	mark(block, address, bytes, false);
	blocks.recent[block->device] = index + 1;
	if (--block->count == 0) {
		best_effort(pointers_take(&blocks.by_base, block->base, &entry));
		block->next = blocks.unused_;
		blocks.unused_ = index + 1;
		r = block->paid ? BLOCKS_EMPTY : 0;
	}
	futex_lock_give(&blocks.lock);
	return r;
}

void blocks_forget(void)
{
	int saved = errno;

	for (uint32_t i = 0; i < (blocks.made + CHUNK - 1) / CHUNK; i++)
		munmap(blocks.chunk[i], CHUNK * sizeof(struct block));
	pointers_forget(&blocks.by_base);
	memset(&blocks, 0, sizeof(blocks));
	errno = saved;
}
