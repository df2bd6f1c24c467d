/* SPDX-License-Identifier: Apache-2.0 */
/* What goes wrong with a device, and how others learn of it. */
#include "sim/machine/device.h"

#include "sim/machine/clock.h"
#include "sim/machine/segment.h"

enum {
	DEVICE_XID_ECC = 48,
	DEVICE_XID_LOST = 79,
};

static void record_locked(struct segment_device *book, enum segment_event kind, uint64_t value)
{
	struct segment_process *self = segment_self();

	book->events[book->event_count % SEGMENT_EVENTS_MAX] = (struct segment_event_record){
		.kind = kind, .pid = self ? self->pid : 0, .value = value, .at_ns = clock_now_ns()};
	book->event_count++;
}

void device_xid(int device, uint64_t xid)
{
	segment_lock(device_book(device));
	record_locked(device_book(device), SEGMENT_XID, xid);
	segment_unlock(device_book(device));
	clock_wake(&segment_get()->events);
}

void device_ecc_error(int device, bool corrected)
{
	struct segment_device *book = device_book(device);

	segment_lock(book);
	if (corrected) {
		book->ecc_corrected++;
		record_locked(book, SEGMENT_ECC_CORRECTED, 0);
	} else {
		book->ecc_uncorrected++;
		record_locked(book, SEGMENT_ECC_UNCORRECTED, 0);
		record_locked(book, SEGMENT_XID, DEVICE_XID_ECC);
	}
	segment_unlock(book);
	clock_wake(&segment_get()->events);
}

void device_lose(int device)
{
	struct segment_device *book = device_book(device);

	segment_lock(book);
	if (!book->lost) {
		book->lost = 1;
		record_locked(book, SEGMENT_XID, DEVICE_XID_LOST);
	}
	segment_unlock(book);
	clock_wake(&book->engines.epoch);
	clock_wake(&segment_get()->events);
}

bool device_is_lost(int device)
{
	bool lost;

	segment_lock(device_book(device));
	lost = device_book(device)->lost;
	segment_unlock(device_book(device));
	return lost;
}
