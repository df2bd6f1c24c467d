/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/handle.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

/* Open addressing. A removed entry leaves HANDLE_GONE so that later ones are still found, and the
 * next insertion that passes takes its place: objects that are made and destroyed in turn often
 * have the same address, and would otherwise fill the table from there on. */
#define HANDLE_GONE   ((const void *)1)
#define HANDLE_FEWEST 256

struct handle_entry {
	const void *object;
	enum handle_kind kind;
};

static struct {
	pthread_mutex_t lock;
	struct handle_entry *entries;
	size_t size, used; /* used counts HANDLE_GONE too */
	size_t alive;
} handles = {.lock = PTHREAD_MUTEX_INITIALIZER};

static size_t handle_hash(const void *object, enum handle_kind kind)
{
	uint64_t x = (uint64_t)(uintptr_t)object * 0x9e3779b97f4a7c15ull + (uint64_t)kind;

	return (size_t)(x ^ x >> 29);
}

static struct handle_entry *handle_slot(enum handle_kind kind, const void *object)
{
	size_t mask = handles.size - 1;
	size_t at;

	if (!handles.size)
		return NULL;
	for (at = handle_hash(object, kind) & mask; handles.entries[at].object;
	     at = (at + 1) & mask)
		if (handles.entries[at].object == object && handles.entries[at].kind == kind)
			return &handles.entries[at];
	return NULL;
}

static void handle_put(enum handle_kind kind, const void *object)
{
	size_t mask = handles.size - 1;
	size_t at = handle_hash(object, kind) & mask;

	while (handles.entries[at].object && handles.entries[at].object != HANDLE_GONE)
		at = (at + 1) & mask;
	handles.used += !handles.entries[at].object;
	handles.entries[at] = (struct handle_entry){object, kind};
	handles.alive++;
}

/* Room for one more, with at least half of the table empty. */
static int handle_grow(void)
{
	struct handle_entry *old = handles.entries;
	size_t old_size = handles.size;
	size_t size = HANDLE_FEWEST;

	if (handles.used + 1 <= handles.size / 2)
		return 0;
	while (size < 4 * (handles.alive + 1))
		size *= 2;
	handles.entries = calloc(size, sizeof(*handles.entries));
	if (!handles.entries) {
		handles.entries = old;
		return -ENOMEM;
	}
	handles.size = size;
	handles.used = handles.alive = 0;
	for (size_t i = 0; i < old_size; i++)
		if (old[i].object && old[i].object != HANDLE_GONE)
			handle_put(old[i].kind, old[i].object);
	free(old);
	return 0;
}

int handle_add(enum handle_kind kind, const void *object)
{
	int r;

	pthread_mutex_lock(&handles.lock);
	r = handle_grow();
	if (r == 0)
		handle_put(kind, object);
	pthread_mutex_unlock(&handles.lock);
	return r;
}

void handle_remove(enum handle_kind kind, const void *object)
{
	struct handle_entry *entry;

	pthread_mutex_lock(&handles.lock);
	entry = handle_slot(kind, object);
	if (entry) {
		entry->object = HANDLE_GONE;
		handles.alive--;
	}
	pthread_mutex_unlock(&handles.lock);
}

bool handle_is(enum handle_kind kind, const void *object)
{
	bool found;

	if ((uintptr_t)object < 4096)
		return false;
	pthread_mutex_lock(&handles.lock);
	found = handle_slot(kind, object) != NULL;
	pthread_mutex_unlock(&handles.lock);
	return found;
}
