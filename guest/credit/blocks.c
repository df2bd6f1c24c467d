/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/credit/blocks.h"

#include <errno.h>
#include <string.h>

#include <sys/mman.h>

#include "guest/credit/pointers.h"
#include "guest/futex.h"
#include "guest/process/parts.h"
#include "guest/process/state.h"

/* Addresses are multiples of this, on every device so far. */
#define STEP 256

/* The context of a block whose context has ended. */
#define GONE UINT64_MAX

/* Flag of a size: a thread is freeing the allocation. It is no longer found by its address, and not
 * yet a gap. */
#define DETACHED 0x8000u

enum {
	STEPS = BLOCKS_BYTES / STEP,
	CHUNK = 16,	  /* records that are mapped together */
	CHUNKS = 1 << 14, /* 512 GiB of small allocations */
	NEAR = 1024,
	NO_BASE = 1, /* of a record that is not in use */
};

/* "Guessed" fields are written under the lock, and also read without it for a guess. */
struct block {
	uint64_t base;
	uint64_t context; /* guessed */
	uint32_t count;	  /* allocations in it; guessed */
	/* Below zero while the driver has given out freed memory again before blocks_freed() was
	 * called; guessed. */
	int32_t free_steps;
	uint32_t gap; /* no gap is larger */
	int16_t device;
	bool paid;
	struct block *next;   /* in the list of unused records */
	uint16_t size[STEPS]; /* of the allocation that begins at this step, in steps; else 0 */
};

static struct {
	struct futex_lock lock; /* of everything here */
	struct block *chunk[CHUNKS];
	uint32_t made; /* records that exist */
	struct block *unused_;
	struct block *recent[STATE_DEVICES]; /* the last block that was changed; guessed */
	struct block *near[NEAR];	     /* a cache of by_base */
	struct pointers by_base;	     /* owner: the record's address */
} blocks;

static void set(uint32_t *field, uint32_t value)
{
	__atomic_store_n(field, value, __ATOMIC_RELAXED);
}

static void set_free(struct block *block, int32_t steps)
{
	__atomic_store_n(&block->free_steps, steps, __ATOMIC_RELAXED);
}

static int32_t steps_of(uint64_t bytes)
{
	return (int32_t)((bytes + BLOCKS_UNIT - 1) / BLOCKS_UNIT * (BLOCKS_UNIT / STEP));
}

/* An allocation begins there, and no thread is about to free it. */
static bool is_begun(uint16_t size)
{
	return (int16_t)size > 0;
}

static uint16_t *size_at(struct block *block, uint64_t address)
{
	return &block->size[address % BLOCKS_BYTES / STEP];
}

static struct block *record(uint32_t index)
{
	return &blocks.chunk[index / CHUNK][index % CHUNK];
}

static struct block **near_place(uint64_t base)
{
	return &blocks.near[base / BLOCKS_BYTES % NEAR];
}

bool blocks_fit_likely(int device, uint64_t context, uint64_t bytes)
{
	const struct block *block = __atomic_load_n(&blocks.recent[device], __ATOMIC_ACQUIRE);

	return block && __atomic_load_n(&block->free_steps, __ATOMIC_RELAXED) >= steps_of(bytes) &&
	       __atomic_load_n(&block->count, __ATOMIC_RELAXED) != 0 &&
	       __atomic_load_n(&block->context, __ATOMIC_RELAXED) == context;
}

/* With the lock held. An allocation may overlap an older one whose blocks_freed() is still due. A
 * failed search is remembered until something in the block is freed. */
static bool has_gap(struct block *block, int32_t steps)
{
	uint32_t wanted = (uint32_t)steps, run = 0, most = 0, end = 0;

	if (block->free_steps < steps || block->gap < wanted)
		return false;
	for (uint32_t step = 0; step < STEPS && run < wanted; step++) {
		uint32_t size = block->size[step] & ~DETACHED;

		if (size && step + size > end)
			end = step + size;
		run = step < end ? 0 : run + 1;
		if (run > most)
			most = run;
	}
	if (run < wanted)
		block->gap = most;
	return run >= wanted;
}

/* With the lock held. */
static bool fits(struct block *block, int device, uint64_t context, int32_t steps)
{
	return block->count && block->context == context && block->device == device &&
	       has_gap(block, steps);
}

bool blocks_fit(int device, uint64_t context, uint64_t bytes)
{
	int32_t steps = steps_of(bytes);
	struct block *recent;
	bool found;

	futex_lock_take(&blocks.lock);
	recent = device >= 0 ? blocks.recent[device] : NULL;
	found = recent && fits(recent, device, context, steps);
	for (uint32_t i = 0; i < blocks.made && !found; i++)
		found = fits(record(i), device, context, steps);
	futex_lock_give(&blocks.lock);
	return found;
}

/* ---- with the lock held ---------------------------------------------------------------------- */

/* A record that is not in use, whose sizes are all zero; or NULL. */
static struct block *unused_record(void)
{
	struct block *block = blocks.unused_;
	int saved = errno;
	void *memory;

	if (block) {
		blocks.unused_ = block->next;
		return block;
	}
	if (blocks.made == CHUNK * CHUNKS)
		return NULL;
	if (blocks.made % CHUNK == 0) {
		memory = mmap(NULL, CHUNK * sizeof(struct block), PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		errno = saved;
		if (memory == MAP_FAILED)
			return NULL;
		blocks.chunk[blocks.made / CHUNK] = memory;
	}
	return record(blocks.made++);
}

static void reuse(struct block *block)
{
	block->base = NO_BASE;
	block->next = blocks.unused_;
	blocks.unused_ = block;
}

static struct block *add(int device, uint64_t context, uint64_t base)
{
	struct block *block = unused_record();
	struct pointer entry = {.address = base, .owner = (uint64_t)(uintptr_t)block}, old;

	if (!block)
		return NULL;
	if (pointers_put(&blocks.by_base, &entry, &old) < 0) {
		reuse(block);
		return NULL;
	}
	block->base = base;
	__atomic_store_n(&block->context, context, __ATOMIC_RELAXED);
	set(&block->count, 0);
	set_free(block, STEPS);
	block->gap = STEPS;
	block->device = (int16_t)device;
	block->paid = false;
	return block;
}

/* The slow path: it is not in the cache. */
static noinline_ struct block *find(uint64_t base)
{
	struct block *block = NULL;
	struct pointer found;

	if (pointers_find(&blocks.by_base, base, &found) == 0) {
		block = (struct block *)(uintptr_t)found.owner;
		*near_place(base) = block;
	}
	return block;
}

static noinline_ struct block *find_or_add(int device, uint64_t context, uint64_t base)
{
	struct block *block = find(base);

	if (!block) {
		block = add(device, context, base);
		*near_place(base) = block;
	}
	return block;
}

/* Removes it from the index, as another block may have its address now. */
static void unfind(struct block *block)
{
	struct pointer entry;

	if (block->base == NO_BASE)
		return;
	best_effort(pointers_take(&blocks.by_base, block->base, &entry));
	if (*near_place(block->base) == block)
		*near_place(block->base) = NULL;
	block->base = NO_BASE;
}

/* The last allocation in the block is gone. */
static noinline_ int end(struct block *block)
{
	unfind(block);
	reuse(block);
	return block->paid ? BLOCKS_EMPTY : 0;
}

/* Counts the allocations that no thread has detached. */
static uint32_t begun_in(const struct block *block)
{
	uint32_t count = 0;

	for (uint32_t step = 0; step < STEPS; step++)
		count += is_begun(block->size[step]);
	return count;
}

/* The driver took the block back and gave it to another context, before we heard that all of it was
 * freed or that its context is gone. If its context is ending, or the memory is another device's
 * now, the old record leaves the index and waits for the calls that are due; then NULL: another
 * record is needed. */
static noinline_ struct block *hand_over(struct block *block, int device, uint64_t context)
{
	if ((block->context & BLOCKS_LEAVING) || block->device != device) {
		unfind(block);
		return NULL;
	}
	if (begun_in(block) == 0)
		__atomic_store_n(&block->context, context, __ATOMIC_RELAXED);
	return block;
}

/* ---- allocations ----------------------------------------------------------------------------- */

int blocks_put(int device, uint64_t context, uint64_t address, uint64_t bytes,
	       struct block **ret_block)
{
	uint64_t base = address & ~(BLOCKS_BYTES - 1);
	int32_t steps = steps_of(bytes);
	struct block *block;
	uint16_t *size;
	int r = -ENOMEM;

	futex_lock_take(&blocks.lock);
	block = *near_place(base);
	if (unlikely(!block || block->base != base))
		block = find_or_add(device, context, base);
	if (unlikely(block && block->context != context) && !hand_over(block, device, context))
		block = find_or_add(device, context, base);
	if (likely(block)) {
		size = size_at(block, address);
		/* Otherwise the older one was freed in a way that no hook saw. */
		if (likely(!is_begun(*size)))
			set(&block->count, block->count + 1);
		else
			steps -= *size;
		set_free(block, block->free_steps - steps);
		*size = (uint16_t)steps_of(bytes);
		__atomic_store_n(&blocks.recent[device], block, __ATOMIC_RELEASE);
		*ret_block = block;
		r = block->paid ? 0 : BLOCKS_UNPAID;
	}
	futex_lock_give(&blocks.lock);
	return r;
}

bool blocks_paid(struct block *block)
{
	bool before;

	futex_lock_take(&blocks.lock);
	before = block->paid;
	block->paid = true;
	futex_lock_give(&blocks.lock);
	return before;
}

struct block *blocks_detach(uint64_t address, unsigned *ret_units)
{
	uint64_t base = address & ~(BLOCKS_BYTES - 1);
	struct block *block;

	futex_lock_take(&blocks.lock);
	block = *near_place(base);
	if (unlikely(!block || block->base != base))
		block = find(base);
	if (likely(block && !(block->context & BLOCKS_LEAVING))) {
		uint16_t *size = size_at(block, address);

		*ret_units = *size;
		if (likely(is_begun(*size) && address % STEP == 0)) {
			*size = (uint16_t)(*ret_units | DETACHED);
			if (unlikely(block->count == 1))
				*ret_units |= BLOCKS_LAST;
		} else {
			block = NULL;
		}
	} else {
		block = NULL; /* no block, or one whose context is ending */
	}
	futex_lock_give(&blocks.lock);
	return block;
}

int blocks_freed(struct block *block, uint64_t address, unsigned units)
{
	uint16_t *size = size_at(block, address);
	int r = 0;

	futex_lock_take(&blocks.lock);
	__atomic_store_n(&blocks.recent[block->device], block, __ATOMIC_RELEASE);
	/* Unless another thread was given the address meanwhile. */
	if (likely(*size == ((units & ~BLOCKS_LAST) | DETACHED)))
		*size = 0;
	set_free(block, block->free_steps + (int32_t)(units & ~BLOCKS_LAST));
	block->gap = STEPS;
	set(&block->count, block->count - 1);
	if (unlikely(block->count == 0))
		r = end(block);
	futex_lock_give(&blocks.lock);
	return r;
}

void blocks_attach(struct block *block, uint64_t address, unsigned units)
{
	futex_lock_take(&blocks.lock);
	/* If another thread was given the address, this allocation had been freed after all, and is
	 * not counted any more. The same applies if its context is gone. */
	if (!is_begun(*size_at(block, address)) && block->context != GONE)
		*size_at(block, address) = (uint16_t)units;
	else
		set(&block->count, block->count - 1);
	if (unlikely(block->count == 0))
		best_effort(end(block)); /* a block of an ended context is not paid for */
	futex_lock_give(&blocks.lock);
}

int blocks_device(const struct block *block)
{
	return block->device;
}

void blocks_rename(uint64_t context, uint64_t leaving)
{
	futex_lock_take(&blocks.lock);
	for (uint32_t i = 0; i < blocks.made; i++) {
		struct block *block = record(i);

		if (block->count && block->context == context)
			__atomic_store_n(&block->context, leaving, __ATOMIC_RELAXED);
	}
	futex_lock_give(&blocks.lock);
}

/* Threads that have detached allocations will still call blocks_freed(): until then the record
 * stays for them. */
static void leave_to_threads(struct block *block, uint32_t detached)
{
	unfind(block);
	set(&block->count, detached);
	__atomic_store_n(&block->context, GONE, __ATOMIC_RELAXED);
	block->paid = false;
}

void blocks_context_gone(uint64_t context, void (*gone)(int device))
{
	futex_lock_take(&blocks.lock);
	for (uint32_t i = 0; i < blocks.made; i++) {
		struct block *block = record(i);
		uint32_t detached;
		bool paid = block->paid;

		if (!block->count || block->context != context)
			continue;
		detached = block->count - begun_in(block);
		memset(block->size, 0, sizeof(block->size));
		if (detached == 0) {
			set(&block->count, 0);
			best_effort(end(block)); /* `paid` has its result */
		} else {
			leave_to_threads(block, detached);
		}
		if (paid)
			gone(block->device);
	}
	futex_lock_give(&blocks.lock);
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
