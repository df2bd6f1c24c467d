/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/machine/parts.h"

#include <string.h>

#include "base/hash.h"
#include "sim/machine/part_files.h"

struct segment_part *parts_get(int place)
{
	return &segment_get()->parts[place - SETTINGS_DEVICES_MAX];
}

uint32_t parts_gpu(uint32_t place)
{
	return parts_is_part(place) ? parts_get((int)place)->gpu : place;
}

/* A hash of both: the driver makes such UUIDs by version 5. */
void parts_uuid(const struct segment *segment, uint32_t gpu, uint32_t instance,
		uint8_t ret_uuid[16])
{
	uint64_t hash = HASH_BEGIN ^ ((instance + 1) * 0x9e3779b97f4a7c15ULL);

	for (size_t round = 0; round < 2; round++) {
		hash = hash_bytes(hash, segment->devices[gpu].uuid, 16);
		hash ^= hash >> 29;
		memcpy(ret_uuid + 8 * round, &hash, 8);
	}
	ret_uuid[6] = (ret_uuid[6] & 0x0f) | 0x50;
	ret_uuid[8] = (ret_uuid[8] & 0x3f) | 0x80;
}

/* A free place; -1: all are taken. */
static int free_place(const struct segment *segment)
{
	for (uint32_t i = 0; i < SEGMENT_PARTS_MAX; i++)
		if (atomic_load(&segment->parts[i].state) == SEGMENT_PART_FREE)
			return (int)i;
	return -1;
}

/* Clears its books, as for a new device. The node's lock is held, or no process has joined. */
static void make(struct segment *segment, uint32_t number, const struct settings_part *what,
		 uint32_t state)
{
	struct segment_part *part = &segment->parts[number];
	struct segment_device *book = &segment->devices[parts_place(number)];
	const struct mig_profile *row = mig_row(what->profile);

	part->gpu = what->gpu;
	part->profile = what->profile;
	part->start = what->start;
	part->instance = mig_instance(row, what->start);
	mig_shape(row, &segment->settings.devices[what->gpu], &part->shape);
	parts_uuid(segment, what->gpu, part->instance, book->uuid);
	book->lost = segment->devices[what->gpu].lost;
	atomic_fetch_add(&part->made, 1);
	if (number >= segment->parts_high)
		atomic_store(&segment->parts_high, number + 1);
	atomic_store(&part->state, state);
}

void parts_fill(struct segment *segment)
{
	const struct settings *settings = &segment->settings;

	for (uint32_t i = 0; i < settings->device_count; i++) {
		uint32_t number;

		segment->mig_now[i] =
			settings->mig && mig_next(settings->devices[i].model, 0, &number);
	}
	for (uint32_t i = 0; i < settings->part_count; i++) {
		segment->mig_now[settings->parts[i].gpu] = 1;
		make(segment, i, &settings->parts[i], SEGMENT_PART_MADE);
	}
	for (uint32_t i = 0; i < settings->device_count; i++)
		segment->mig_later[i] = segment->mig_now[i];
}

static void show(const struct segment_part *part, const char *folder)
{
	uint32_t state = atomic_load(&part->state);

	part_files_write(folder, part->gpu, part->instance, state != SEGMENT_PART_FREE,
			 state == SEGMENT_PART_MADE);
}

void parts_show(const struct segment *segment, const char *folder)
{
	part_files_clear(folder);
	for (uint32_t i = 0; i < segment->parts_high; i++)
		show(&segment->parts[i], folder);
}

bool parts_possible(int gpu)
{
	uint32_t number;

	return mig_next(segment_settings()->devices[gpu].model, 0, &number) != NULL;
}

bool parts_on(int gpu)
{
	return atomic_load(&segment_get()->mig_now[gpu]);
}

/* Does a process use the place? Its lock is held, or it is free. */
static bool is_used(struct segment *segment, uint32_t place)
{
	if (segment->devices[place].used_bytes)
		return true;
	for (uint32_t i = 0; i < segment_slots(segment); i++)
		if (atomic_load(&segment->processes[i].state) == SEGMENT_ALIVE &&
		    segment->processes[i].usage[place].contexts)
			return true;
	return false;
}

static bool is_used_now(struct segment *segment, uint32_t place)
{
	bool used;

	segment_lock(&segment->devices[place]);
	used = is_used(segment, place);
	segment_unlock(&segment->devices[place]);
	return used;
}

static bool has_parts(const struct segment *segment, uint32_t gpu)
{
	for (uint32_t i = 0; i < segment->parts_high; i++)
		if (segment->parts[i].gpu == gpu && atomic_load(&segment->parts[i].state))
			return true;
	return false;
}

int parts_set_mode(int gpu, bool on)
{
	struct segment *segment = segment_get();
	int r = 0;

	if (!parts_possible(gpu))
		return PARTS_OFF;
	segment_reap();
	segment_lock_node();
	segment->mig_later[gpu] = on;
	if (segment->mig_now[gpu] != on &&
	    (has_parts(segment, (uint32_t)gpu) || is_used_now(segment, (uint32_t)gpu)))
		r = PARTS_IN_USE;
	else
		atomic_store(&segment->mig_now[gpu], on);
	segment_unlock_node();
	return r;
}

/* The slices that the GPU's parts take, and how many parts are of one row. The node's lock is held.
 */
static uint32_t taken(const struct segment *segment, uint32_t gpu, uint32_t profile,
		      uint32_t *ret_count)
{
	uint32_t mask = 0;

	*ret_count = 0;
	for (uint32_t i = 0; i < segment->parts_high; i++) {
		const struct segment_part *part = &segment->parts[i];

		if (part->gpu != gpu || !atomic_load(&part->state))
			continue;
		mask |= mig_mask(mig_row(part->profile), part->start);
		*ret_count += part->profile == profile;
	}
	return mask;
}

static int create_locked(struct segment *segment, uint32_t gpu, uint32_t profile, int start,
			 int *ret_place)
{
	const struct mig_profile *row = mig_row(profile);
	uint32_t count, mask = taken(segment, gpu, profile, &count);
	int place = free_place(segment);

	if (!segment->mig_now[gpu])
		return PARTS_OFF;
	if (start >= 0 && !mig_is_start(row, (uint32_t)start))
		return PARTS_MISSING;
	if (start < 0)
		start = mig_start(row, mask);
	if (place < 0 || start < 0 || count == row->most || mig_mask(row, (uint32_t)start) & mask)
		return PARTS_FULL;
	make(segment, (uint32_t)place, &(struct settings_part){gpu, profile, (uint32_t)start},
	     SEGMENT_PART_EMPTY);
	show(&segment->parts[place], segment_folder());
	*ret_place = parts_place((uint32_t)place);
	return 0;
}

int parts_create(int gpu, uint32_t profile, int start, int *ret_place)
{
	struct segment *segment = segment_get();
	const struct mig_profile *row = mig_row(profile);
	int r;

	if (!row || strcmp(row->model, segment_settings()->devices[gpu].model) != 0)
		return PARTS_MISSING;
	segment_lock_node();
	r = create_locked(segment, (uint32_t)gpu, profile, start, ret_place);
	segment_unlock_node();
	return r;
}

/* Changes the state of a part, if it is unused. */
static int change(int place, uint32_t from, uint32_t to)
{
	struct segment *segment = segment_get();
	struct segment_device *book = &segment->devices[place];
	struct segment_part *part = parts_get(place);
	uint32_t state;
	int r = 0;

	segment_reap();
	segment_lock_node();
	segment_lock(book);
	state = atomic_load(&part->state);
	if (state == SEGMENT_PART_FREE)
		r = PARTS_MISSING;
	else if (state != from || is_used(segment, (uint32_t)place))
		r = PARTS_IN_USE;
	else
		atomic_store(&part->state, to);
	segment_unlock(book);
	if (r == 0)
		show(part, segment_folder());
	segment_unlock_node();
	return r;
}

int parts_destroy(int place)
{
	return change(place, SEGMENT_PART_EMPTY, SEGMENT_PART_FREE);
}

int parts_complete(int place)
{
	return change(place, SEGMENT_PART_EMPTY, SEGMENT_PART_MADE);
}

int parts_undo(int place)
{
	return change(place, SEGMENT_PART_MADE, SEGMENT_PART_EMPTY);
}

unsigned parts_room(int gpu, uint32_t profile)
{
	const struct mig_profile *row = mig_row(profile);
	struct segment *segment = segment_get();
	uint32_t count, mask;
	unsigned room = 0;
	int start;

	segment_lock_node();
	mask = taken(segment, (uint32_t)gpu, profile, &count);
	segment_unlock_node();
	while (count + room < row->most && (start = mig_start(row, mask)) >= 0) {
		mask |= mig_mask(row, (uint32_t)start);
		room++;
	}
	return room;
}

unsigned parts_list(int gpu, bool usable, int ret_places[MIG_PARTS])
{
	struct segment *segment = segment_get();
	unsigned count = 0;

	segment_lock_node();
	for (uint32_t i = 0; i < segment->parts_high; i++) {
		const struct segment_part *part = &segment->parts[i];
		uint32_t state = atomic_load(&part->state);
		unsigned at = count;

		if (part->gpu != (uint32_t)gpu || !state || (usable && state != SEGMENT_PART_MADE))
			continue;
		for (; at && parts_get(ret_places[at - 1])->instance > part->instance; at--)
			ret_places[at] = ret_places[at - 1];
		ret_places[at] = parts_place(i);
		count++;
	}
	segment_unlock_node();
	return count;
}
