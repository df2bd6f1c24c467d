/* SPDX-License-Identifier: Apache-2.0 */
/*                                                                sim/machine/parts.h
 * How MIG has divided the node's GPUs: which mode they are in, and which parts there are now. All
 * processes of the node see the same; any may change it, as a root user's NVML can.
 *
 * A part is a place of its own in the segment: it has a book of memory and engines that no other
 * part touches. Its number follows those of all GPUs (parts_place()). Each GPU instance has one
 * compute instance at most, which is all of it.
 *
 * A part that a process uses stays; a process that has chosen one (device_show()) and has nothing
 * on it yet finds it lost once it is destroyed. Thread-safe; needs segment_join().
 */
#pragma once

#include <stdbool.h>

#include "sim/machine/mig.h"
#include "sim/machine/segment.h"

enum {
	PARTS_IN_USE = 1,
	PARTS_FULL,    /* no room for it beside the others */
	PARTS_MISSING, /* there is no such part, profile or start */
	PARTS_OFF,     /* the GPU is not in MIG mode, or cannot be */
};

/* The parts that METE_SIM_PARTS names, in a segment that nobody has joined yet. */
void parts_fill(struct segment *segment);

/* Writes their files (part_files.h), and removes those of an earlier node. */
void parts_show(const struct segment *segment, const char *folder);

/* Does the GPU's model have MIG? */
bool parts_possible(int gpu);

/* Is the mode on now? */
bool parts_on(int gpu);

/* PARTS_IN_USE: the mode changes at the next call that finds the GPU unused. PARTS_OFF. */
must_check int parts_set_mode(int gpu, bool on);

/* Makes a GPU instance of row `profile` at `start`, or, with -1, wherever there is room.
 * *ret_place: its place. */
must_check int parts_create(int gpu, uint32_t profile, int start, int *ret_place);
must_check int parts_destroy(int place);

/* Makes its compute instance: from then on, programs can use it. */
must_check int parts_complete(int place);
must_check int parts_undo(int place);

/* How many more of that row have room on the GPU. */
unsigned parts_room(int gpu, uint32_t profile);

/* The GPU's parts in the order of their ids; with `usable` only those that programs can use. */
unsigned parts_list(int gpu, bool usable, int ret_places[MIG_PARTS]);

/* The place of a part of the segment, and the part of a place; -1 for a whole GPU. */
static inline int parts_place(uint32_t number)
{
	return SETTINGS_DEVICES_MAX + (int)number;
}

static inline bool parts_is_part(uint32_t place)
{
	return place >= SETTINGS_DEVICES_MAX;
}

/* The part at a place; it may be a former one. */
struct segment_part *parts_get(int place);

/* The GPU that a place lies on. */
uint32_t parts_gpu(uint32_t place);

/* "MIG-...", from its GPU and its instance: a part that is made again at the same place has the
 * same UUID. */
void parts_uuid(const struct segment *segment, uint32_t gpu, uint32_t instance,
		uint8_t ret_uuid[16]);
