/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/space.h"

#include <errno.h>
#include <pthread.h>
#include <search.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/list.h"
#include "sim/machine/segment.h"

#if defined(__SANITIZE_THREAD__)
#define SPACE_SMALL 1 /* the thread sanitizer leaves little room for huge mappings */
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SPACE_SMALL 1
#endif
#endif
#ifdef SPACE_SMALL
#define SPACE_WINDOW (64ull << 30)
#else
#define SPACE_WINDOW (4ull << 40)
#endif
#define SPACE_SMALLEST (8ull << 30)

/* Free addresses of the window, in order. */
struct space_hole {
	struct list link;
	uint64_t base, bytes;
};

static struct {
	pthread_once_t once;
	pthread_mutex_t lock; /* holes and table */
	pthread_rwlock_t use;
	uint64_t base, bytes; /* of the window; the shadow follows it at once */
	struct list holes;
	void *table; /* tsearch() tree of struct space_range */
	uint64_t next_id;
	_Atomic uint64_t generation;
} space = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- the window ------------------------------------------------------------------------------ */

static void window_start(void)
{
	pthread_rwlockattr_t attributes;

	/* A kernel takes the lock for reading again and again: writers must not starve. */
	pthread_rwlockattr_init(&attributes);
	pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&space.use, &attributes);
	pthread_rwlockattr_destroy(&attributes);
	list_init(&space.holes);
	for (uint64_t bytes = SPACE_WINDOW; bytes >= SPACE_SMALLEST; bytes /= 2) {
		void *at = mmap(NULL, 2 * bytes + SPACE_BLOCK, PROT_NONE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		struct space_hole *hole;

		if (at == MAP_FAILED)
			continue;
		hole = calloc(1, sizeof(*hole));
		if (!hole)
			return;
		space.base = ((uint64_t)at + SPACE_BLOCK - 1) & ~(SPACE_BLOCK - 1);
		space.bytes = bytes;
		hole->base = space.base;
		hole->bytes = bytes;
		list_append(&space.holes, &hole->link);
		return;
	}
}

static void space_start(void)
{
	pthread_once(&space.once, window_start);
}

bool space_in_window(uint64_t address)
{
	space_start();
	return address - space.base < space.bytes;
}

void *space_shadow(uint64_t address)
{
	return (void *)(uintptr_t)(address + space.bytes);
}

uint64_t space_offset(uint64_t address)
{
	return address - space.base;
}

/* Cuts [base, base + bytes) out of a hole that contains it. */
static int hole_cut(struct space_hole *hole, uint64_t base, uint64_t bytes)
{
	uint64_t end = hole->base + hole->bytes;
	struct space_hole *rest;

	if (base + bytes < end && base > hole->base) {
		rest = calloc(1, sizeof(*rest));
		if (!rest)
			return -ENOMEM;
		rest->base = base + bytes;
		rest->bytes = end - rest->base;
		list_prepend(&hole->link, &rest->link);
		hole->bytes = base - hole->base;
	} else if (base > hole->base) {
		hole->bytes = base - hole->base;
	} else if (base + bytes < end) {
		hole->base = base + bytes;
		hole->bytes = end - hole->base;
	} else {
		list_remove(&hole->link);
		free(hole);
	}
	return 0;
}

static int reserve_at(uint64_t base, uint64_t bytes)
{
	list_for_each(link, &space.holes)
	{
		struct space_hole *hole = list_entry(link, struct space_hole, link);

		if (base >= hole->base && base - hole->base < hole->bytes &&
		    bytes <= hole->bytes - (base - hole->base))
			return hole_cut(hole, base, bytes);
	}
	return -ENOMEM;
}

static int reserve_anywhere(uint64_t bytes, uint64_t align, uint64_t *ret_base)
{
	list_for_each(link, &space.holes)
	{
		struct space_hole *hole = list_entry(link, struct space_hole, link);
		uint64_t base = (hole->base + align - 1) & ~(align - 1);
		int r;

		if (base < hole->base || base - hole->base >= hole->bytes ||
		    bytes > hole->bytes - (base - hole->base))
			continue;
		r = hole_cut(hole, base, bytes);
		if (r == 0)
			*ret_base = base;
		return r;
	}
	return -ENOMEM;
}

int space_reserve(size_t bytes, size_t align, uint64_t wanted, uint64_t *ret_base)
{
	int r = -ENOMEM;

	space_start();
	if (align < SPACE_BLOCK)
		align = SPACE_BLOCK;
	if (bytes == 0 || bytes % SPACE_BLOCK || (align & (align - 1)))
		return -EINVAL;
	pthread_mutex_lock(&space.lock);
	if (wanted && wanted % align == 0 && space_in_window(wanted)) {
		r = reserve_at(wanted, bytes);
		if (r == 0)
			*ret_base = wanted;
	}
	if (r < 0)
		r = reserve_anywhere(bytes, align, ret_base);
	pthread_mutex_unlock(&space.lock);
	return r;
}

/* Puts addresses back, joined with their neighbours. */
static void hole_join(struct space_hole *hole)
{
	struct list *at = &space.holes;
	struct space_hole *other;

	list_for_each(link, &space.holes)
	{
		if (list_entry(link, struct space_hole, link)->base > hole->base) {
			at = link;
			break;
		}
	}
	list_insert_before(at, &hole->link);
	if (hole->link.next != &space.holes) {
		other = list_entry(hole->link.next, struct space_hole, link);
		if (hole->base + hole->bytes == other->base) {
			hole->bytes += other->bytes;
			list_remove(&other->link);
			free(other);
		}
	}
	if (hole->link.prev != &space.holes) {
		other = list_entry(hole->link.prev, struct space_hole, link);
		if (other->base + other->bytes == hole->base) {
			other->bytes += hole->bytes;
			list_remove(&hole->link);
			free(hole);
		}
	}
}

void space_release(uint64_t base, size_t bytes)
{
	struct space_hole *hole = calloc(1, sizeof(*hole));

	if (!hole)
		return; /* the addresses are lost, the memory is not */
	hole->base = base;
	hole->bytes = bytes;
	pthread_mutex_lock(&space.lock);
	hole_join(hole);
	pthread_mutex_unlock(&space.lock);
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Ranges that overlap compare as equal, so that a key of one byte finds the range around it. */
static int range_compare(const void *left, const void *right)
{
	const struct space_range *a = left, *b = right;

	if (a->base + a->bytes <= b->base)
		return -1;
	if (b->base + b->bytes <= a->base)
		return 1;
	return 0;
}

static struct space_range *table_at(uint64_t address)
{
	struct space_range key = {.base = address, .bytes = 1};
	struct space_range **node = tfind(&key, &space.table, range_compare);

	return node ? *node : NULL;
}

int space_add(const struct space_range *range)
{
	struct space_range *copy = malloc(sizeof(*copy));
	struct space_range **node;
	int r = 0;

	if (!copy)
		return -ENOMEM;
	*copy = *range;
	space_start();
	pthread_mutex_lock(&space.lock);
	copy->id = ++space.next_id;
	node = tsearch(copy, &space.table, range_compare);
	if (!node)
		r = -ENOMEM;
	else if (*node != copy)
		r = -EEXIST;
	pthread_mutex_unlock(&space.lock);
	if (r < 0)
		free(copy);
	return r;
}

int space_remove(uint64_t base, struct space_range *ret_range)
{
	struct space_range *range;

	space_start();
	pthread_rwlock_wrlock(&space.use);
	pthread_mutex_lock(&space.lock);
	range = table_at(base);
	if (range && range->base == base) {
		tdelete(range, &space.table, range_compare);
		atomic_fetch_add(&space.generation, 1);
	} else {
		range = NULL;
	}
	pthread_mutex_unlock(&space.lock);
	pthread_rwlock_unlock(&space.use);
	if (!range)
		return -ENOENT;
	*ret_range = *range;
	free(range);
	return 0;
}

int space_find(uint64_t address, struct space_range *ret_range)
{
	struct space_range *range;

	pthread_mutex_lock(&space.lock);
	range = table_at(address);
	if (range)
		*ret_range = *range;
	pthread_mutex_unlock(&space.lock);
	return range ? 0 : -ENOENT;
}

int space_next(uint64_t address, uint64_t end, struct space_range *ret_range)
{
	int r = -ENOENT;

	pthread_mutex_lock(&space.lock);
	/* The first range that overlaps: from any that does, back to earlier ones. */
	while (address < end) {
		struct space_range key = {.base = address, .bytes = end - address};
		struct space_range **node = tfind(&key, &space.table, range_compare);

		if (!node)
			break;
		*ret_range = **node;
		end = (*node)->base;
		r = 0;
	}
	pthread_mutex_unlock(&space.lock);
	return r;
}

/* The lock is held. *ret_less: threads that follow addresses must find them again. */
static struct space_range *change_find(const struct space_range *changed, bool *ret_less)
{
	struct space_range *range = table_at(changed->base);

	if (!range || range->base != changed->base)
		return NULL;
	*ret_less = changed->withheld > range->withheld || range->readable & ~changed->readable ||
		    range->writable & ~changed->writable || range->peers > changed->peers;
	return range;
}

int space_change(const struct space_range *changed)
{
	struct space_range *range;
	bool less = false;

	pthread_mutex_lock(&space.lock);
	range = change_find(changed, &less);
	if (range && less) {
		/* Access is removed: waits until no thread uses the range. */
		pthread_mutex_unlock(&space.lock);
		pthread_rwlock_wrlock(&space.use);
		pthread_mutex_lock(&space.lock);
		range = change_find(changed, &(bool){false});
	}
	if (range) {
		struct space_range now = *changed;

		now.bytes = range->bytes;
		now.delta = range->delta;
		now.id = range->id;
		*range = now;
		atomic_fetch_add(&space.generation, 1);
	}
	pthread_mutex_unlock(&space.lock);
	if (less)
		pthread_rwlock_unlock(&space.use);
	return range ? 0 : -ENOENT;
}

int space_admit(uint64_t base)
{
	struct space_range *range;

	pthread_mutex_lock(&space.lock);
	range = table_at(base);
	if (range && range->base == base)
		range->withheld = false;
	else
		range = NULL;
	pthread_mutex_unlock(&space.lock);
	return range ? 0 : -ENOENT;
}

struct visit {
	void (*each)(const struct space_range *range, void *data);
	void *data;
};

static void visit_step(const void *node, VISIT which, void *data)
{
	const struct visit *visit = data;

	if (which == postorder || which == leaf)
		visit->each(*(struct space_range *const *)node, visit->data);
}

void space_visit(void (*each)(const struct space_range *range, void *data), void *data)
{
	struct visit visit = {each, data};

	pthread_mutex_lock(&space.lock);
	twalk_r(space.table, visit_step, &visit);
	pthread_mutex_unlock(&space.lock);
}

/* ---- following addresses --------------------------------------------------------------------- */

void space_use(void)
{
	space_start();
	pthread_rwlock_rdlock(&space.use);
}

void space_unuse(void)
{
	pthread_rwlock_unlock(&space.use);
}

void space_still(void)
{
	space_start();
	pthread_rwlock_wrlock(&space.use);
}

void space_go_on(void)
{
	pthread_rwlock_unlock(&space.use);
}

uint64_t space_generation(void)
{
	return atomic_load(&space.generation);
}

int space_lookup(uint64_t address, int device, uint64_t reach, struct space_range *ret_range)
{
	uint64_t me = 1ull << device;

	if (space_find(address, ret_range) < 0 || ret_range->withheld)
		return -ENOENT;
	if (ret_range->peers && (reach >> ret_range->device & 1))
		return 0;
	return ret_range->readable & me ? 0 : -EACCES;
}

bool space_covers(uint64_t address, size_t bytes)
{
	struct space_range range;
	uint64_t end = address + bytes;

	if (end < address)
		return false;
	while (address < end) {
		if (space_find(address, &range) < 0)
			return false;
		address = range.base + range.bytes;
	}
	return true;
}
