/* SPDX-License-Identifier: Apache-2.0 */
/* The devices of the node that a program sees. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sim/machine/device.h"
#include "sim/machine/parts.h"

/* The devices of the node that this library shows; valid when zero: all of them. */
static struct {
	bool chosen;
	int count;
	uint32_t place[SETTINGS_DEVICES_MAX];
	uint32_t made; /* if the first one is a part: the generation of its place */
} visible;

uint32_t device_place(int device)
{
	return visible.chosen ? visible.place[device] : (uint32_t)device;
}

int device_count(void)
{
	return visible.chosen ? visible.count : (int)segment_settings()->device_count;
}

bool device_is_gone(int device)
{
	uint32_t place = device_place(device);
	const struct segment_part *part;

	if (!parts_is_part(place))
		return false;
	part = parts_get((int)place);
	return atomic_load(&part->state) != SEGMENT_PART_MADE ||
	       (visible.chosen && atomic_load(&part->made) != visible.made);
}

/* The place of the device that a program uses as this GPU: the GPU; in MIG mode its first part, or
 * -1. */
static int place_of_gpu(int gpu)
{
	int parts[MIG_PARTS];

	if (!parts_on(gpu))
		return gpu;
	return parts_list(gpu, true, parts) ? parts[0] : -1;
}

struct search {
	const char *name;
	size_t length;
	int found, count;
};

static void try_place(struct search *search, int place, int meant)
{
	char text[41];

	device_uuid_text(place, text);
	if (strncasecmp(text, search->name, search->length) != 0)
		return;
	search->found = meant;
	search->count++;
}

/* The node's device that an entry of CUDA_VISIBLE_DEVICES names, or -1. */
static int named_place(const char *name, size_t length)
{
	struct search search = {.name = name, .length = length, .found = -1};
	int parts[MIG_PARTS];

	if (length && strspn(name, "0123456789") >= length)
		return length < 4 && atoi(name) < device_count() ? place_of_gpu(atoi(name)) : -1;
	for (int i = 0; i < device_count() && length > strlen("GPU-"); i++) {
		unsigned count = parts_list(i, true, parts);

		try_place(&search, i, place_of_gpu(i));
		for (unsigned k = 0; k < count; k++)
			try_place(&search, parts[k], parts[k]);
	}
	return search.count == 1 ? search.found : -1; /* not ambiguous */
}

/* A process has one part, the first, and then no whole GPU. */
static void choose(uint32_t *place, int count)
{
	for (int i = 0; i < count; i++) {
		if (!parts_is_part(place[i]))
			continue;
		place[0] = place[i];
		count = 1;
		visible.made = atomic_load(&parts_get((int)place[0])->made);
	}
	memcpy(visible.place, place, (size_t)count * sizeof(*place));
	visible.count = count;
	visible.chosen = true;
}

static void show_all(void)
{
	uint32_t place[SETTINGS_DEVICES_MAX];
	bool divided = false;
	int count = 0;

	for (int i = 0; i < device_count(); i++) {
		int one = place_of_gpu(i);

		divided |= parts_on(i);
		if (one >= 0)
			place[count++] = (uint32_t)one;
	}
	if (divided)
		choose(place, count);
}

int device_show(const char *list)
{
	uint32_t place[SETTINGS_DEVICES_MAX];
	int count = 0;

	visible.chosen = false; /* after a cuInit() that failed */
	if (!list) {
		show_all();
		return 0;
	}
	for (const char *at = list;; at++) {
		size_t length = strcspn(at, ",");
		int number = named_place(at, length);

		if (number < 0)
			break;
		for (int i = 0; i < count; i++)
			if (place[i] == (uint32_t)number)
				return -ENOTUNIQ;
		if (count == SETTINGS_DEVICES_MAX)
			break;
		place[count++] = (uint32_t)number;
		at += length;
		if (!*at)
			break;
	}
	choose(place, count);
	return 0;
}
