/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of a device, and how others learn of them. */
#include "sim/machine/device.h"

#include "sim/machine/clock.h"
#include "sim/machine/parts.h"
#include "sim/machine/segment.h"

enum {
	DEVICE_XID_ECC = 48,
	DEVICE_XID_LOST = 79,
};

/* The GPU's book has the events of all of its parts. */
static struct segment_device *gpu_book(int device)
{
	return &segment_get()->devices[parts_gpu(device_place(device))];
}

static uint32_t instance_of(int device)
{
	uint32_t place = device_place(device);

	return parts_is_part(place) ? parts_get((int)place)->instance : UINT32_MAX;
}

static void record_locked(struct segment_device *book, enum segment_event kind, uint64_t value,
			  uint32_t instance)
{
	struct segment_process *self = segment_self();

	book->events[book->event_count % SEGMENT_EVENTS_MAX] =
		(struct segment_event_record){.kind = kind,
					      .pid = self ? self->pid : 0,
					      .value = value,
					      .at_ns = clock_now_ns(),
					      .instance = instance};
	book->event_count++;
}

void device_xid(int device, uint64_t xid)
{
	struct segment_device *book = gpu_book(device);

	segment_lock(book);
	record_locked(book, SEGMENT_XID, xid, instance_of(device));
	segment_unlock(book);
	clock_wake(&segment_get()->events);
}

void device_ecc_error(int device, bool corrected)
{
	struct segment_device *book = gpu_book(device);
	uint32_t instance = instance_of(device);

	segment_lock(book);
	if (corrected) {
		book->ecc_corrected++;
		record_locked(book, SEGMENT_ECC_CORRECTED, 0, instance);
	} else {
		book->ecc_uncorrected++;
		record_locked(book, SEGMENT_ECC_UNCORRECTED, 0, instance);
		record_locked(book, SEGMENT_XID, DEVICE_XID_ECC, instance);
	}
	segment_unlock(book);
	clock_wake(&segment_get()->events);
}

static void lose_place(uint32_t place)
{
	struct segment_device *book = &segment_get()->devices[place];

	segment_lock(book);
	if (!book->lost) {
		book->lost = 1;
		if (!parts_is_part(place))
			record_locked(book, SEGMENT_XID, DEVICE_XID_LOST, UINT32_MAX);
	}
	segment_unlock(book);
	clock_wake(&book->engines.epoch);
}

void device_lose(int device)
{
	uint32_t gpu = parts_gpu(device_place(device));

	lose_place(gpu);
	for (uint32_t place = SETTINGS_DEVICES_MAX; place < segment_places(segment_get()); place++)
		if (parts_gpu(place) == gpu)
			lose_place(place);
	clock_wake(&segment_get()->events);
}

bool device_is_lost(int device)
{
	bool lost;

	segment_lock(device_book(device));
	lost = device_book(device)->lost || device_is_gone(device);
	segment_unlock(device_book(device));
	return lost;
}
