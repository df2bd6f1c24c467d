/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/machine/device.h"

#include <string.h>

#include "sim/machine/clock.h"
#include "sim/machine/limits.h"
#include "sim/machine/mps.h"
#include "sim/machine/parts.h"
#include "sim/machine/segment.h"
#include "sim/machine/share.h"

/* The PCI place of the first device, and the distance between devices. */
enum {
	DEVICE_FIRST_BUS = 0x17,
	DEVICE_BUS_STEP = 8,
};

struct segment_device *device_book(int device)
{
	return &segment_get()->devices[device_place(device)];
}

static struct segment_usage *usage_of(struct segment_process *process, int device)
{
	return &process->usage[device_place(device)];
}

static struct segment_usage *own_usage(int device)
{
	struct segment_process *self = segment_self();

	return self ? usage_of(self, device) : NULL;
}

const struct settings_device *device_shape(int device)
{
	uint32_t place = device_place(device);

	return parts_is_part(place) ? &parts_get((int)place)->shape
				    : &segment_settings()->devices[place];
}

static uint64_t device_capacity(int device)
{
	uint64_t bytes = device_shape(device)->memory_bytes;
	uint64_t reserved = segment_settings()->reserved_bytes;

	return bytes > reserved ? bytes - reserved : 0;
}

/* ---- the book ------------------------------------------------------------------------------ */

static uint64_t managed_total(int device)
{
	struct segment *segment = segment_get();
	struct segment_process *processes = segment->processes;
	uint64_t total = 0;

	for (uint32_t i = 0; i < segment_slots(segment); i++)
		if (atomic_load(&processes[i].state) == SEGMENT_ALIVE)
			total += usage_of(&processes[i], device)->managed_bytes;
	return total;
}

/* The process that used its managed memory the longest ago; the caller comes last. */
static struct segment_usage *managed_victim(int device, const struct segment_usage *caller)
{
	struct segment *segment = segment_get();
	struct segment_process *processes = segment->processes;
	struct segment_usage *victim = NULL;

	for (uint32_t i = 0; i < segment_slots(segment); i++) {
		struct segment_usage *usage = usage_of(&processes[i], device);

		if (atomic_load(&processes[i].state) != SEGMENT_ALIVE || usage == caller ||
		    !usage->managed_bytes)
			continue;
		if (!victim || usage->touched_ns < victim->touched_ns)
			victim = usage;
	}
	return victim;
}

/* Pushes managed memory out until so many bytes are free, the caller's own last: *ret_own_bytes.
 * DEVICE_FULL: even all of it would not suffice. */
static int make_room_locked(int device, struct segment_usage *usage, uint64_t bytes,
			    uint64_t *ret_own_bytes)
{
	struct segment_device *book = device_book(device);
	uint64_t free_bytes = device_capacity(device) - book->used_bytes, part;

	*ret_own_bytes = 0;
	if (book->lost || device_is_gone(device))
		return DEVICE_LOST;
	if (bytes <= free_bytes)
		return 0;
	if (bytes > free_bytes + managed_total(device))
		return DEVICE_FULL;
	while (free_bytes < bytes) {
		struct segment_usage *victim = managed_victim(device, usage);

		if (!victim)
			victim = usage;
		part = bytes - free_bytes;
		if (part > victim->managed_bytes)
			part = victim->managed_bytes;
		victim->managed_bytes -= part;
		victim->used_bytes -= part;
		book->used_bytes -= part;
		if (victim == usage)
			*ret_own_bytes += part;
		else
			victim->pushed_bytes += part;
		free_bytes += part;
	}
	return 0;
}

static int take_locked(int device, struct segment_usage *usage, uint64_t bytes)
{
	struct segment_device *book = device_book(device);
	uint64_t own_bytes, limit = mps_limit(device);
	int r;

	/* MPS's limit applies to each process. Managed memory does not count. */
	if (usage->used_bytes - usage->managed_bytes + bytes > limit)
		return DEVICE_FULL;
	r = make_room_locked(device, usage, bytes, &own_bytes);
	if (r != 0)
		return r;
	/* The caller notices at its next use of managed memory, as the others do. */
	usage->pushed_bytes += own_bytes;
	/* In this order: if the process is killed in between, segment_lock() recounts. */
	usage->used_bytes += bytes;
	book->used_bytes += bytes;
	return 0;
}

/* Locks the book. Dead processes are reaped before managed memory of living ones is pushed out.
 * Tries again even if none was found: another process may have reaped them first. */
static void lock_for(int device, uint64_t bytes)
{
	struct segment_device *book = device_book(device);

	segment_lock(book);
	if (bytes <= device_capacity(device) - book->used_bytes)
		return;
	segment_unlock(book);
	segment_reap();
	segment_lock(book);
}

/* Where control groups have limits: nobody else of the group takes memory meanwhile. */
static int take_within_limits(int device, struct segment_usage *usage, uint64_t bytes)
{
	int r = DEVICE_FULL;

	segment_reap();
	segment_lock_node();
	if (limits_allow_locked(device_place(device), bytes)) {
		segment_lock(device_book(device));
		r = take_locked(device, usage, bytes);
		segment_unlock(device_book(device));
	}
	segment_unlock_node();
	return r;
}

int device_take(int device, uint64_t bytes)
{
	struct segment_usage *usage = own_usage(device);
	int r;

	if (!usage)
		return -ENODEV;
	if (limits_any())
		return take_within_limits(device, usage, bytes);
	lock_for(device, bytes);
	r = take_locked(device, usage, bytes);
	segment_unlock(device_book(device));
	return r;
}

void device_give(int device, uint64_t bytes)
{
	struct segment_usage *usage = own_usage(device);
	struct segment_device *book;

	if (!usage)
		return;
	book = device_book(device);
	segment_lock(book);
	if (bytes > usage->used_bytes - usage->managed_bytes)
		bytes = usage->used_bytes - usage->managed_bytes;
	usage->used_bytes -= bytes;
	book->used_bytes -= bytes;
	segment_unlock(book);
}

static int take_managed_locked(int device, struct segment_usage *usage, uint64_t bytes,
			       uint64_t *ret_own_bytes)
{
	struct segment_device *book = device_book(device);
	int r = make_room_locked(device, usage, bytes, ret_own_bytes);

	if (r != 0)
		return r;
	usage->used_bytes += bytes;
	usage->managed_bytes += bytes;
	book->used_bytes += bytes;
	return 0;
}

int device_take_managed(int device, uint64_t bytes, uint64_t *ret_own_bytes)
{
	struct segment_usage *usage = own_usage(device);
	int r;

	if (!usage)
		return -ENODEV;
	lock_for(device, bytes);
	r = take_managed_locked(device, usage, bytes, ret_own_bytes);
	segment_unlock(device_book(device));
	return r;
}

void device_give_managed(int device, uint64_t bytes)
{
	struct segment_usage *usage = own_usage(device);
	struct segment_device *book;
	uint64_t part;

	if (!usage)
		return;
	book = device_book(device);
	segment_lock(book);
	part = bytes < usage->managed_bytes ? bytes : usage->managed_bytes;
	usage->managed_bytes -= part;
	usage->used_bytes -= part;
	book->used_bytes -= part;
	/* The rest had been pushed out before: the caller need no longer be told. */
	part = bytes - part;
	usage->pushed_bytes -= part < usage->pushed_bytes ? part : usage->pushed_bytes;
	segment_unlock(book);
}

uint64_t device_pushed_out(int device)
{
	struct segment_usage *usage = own_usage(device);
	uint64_t bytes;

	if (!usage)
		return 0;
	segment_lock(device_book(device));
	bytes = usage->pushed_bytes;
	usage->pushed_bytes = 0;
	segment_unlock(device_book(device));
	return bytes;
}

void device_touch_managed(int device)
{
	struct segment_usage *usage = own_usage(device);

	if (!usage)
		return;
	segment_lock(device_book(device));
	usage->touched_ns = clock_now_ns();
	segment_unlock(device_book(device));
}

void device_count_context(int device, int delta)
{
	struct segment_usage *usage = own_usage(device);

	if (!usage)
		return;
	segment_lock(device_book(device));
	usage->contexts += (uint32_t)delta;
	segment_unlock(device_book(device));
}

void device_memory(int device, uint64_t *ret_free_bytes, uint64_t *ret_total_bytes)
{
	struct segment_device *book = device_book(device);
	uint64_t used_bytes;

	segment_reap();
	segment_lock(book);
	used_bytes = book->used_bytes;
	segment_unlock(book);
	*ret_free_bytes = device_capacity(device) - used_bytes;
	*ret_total_bytes = device_shape(device)->memory_bytes;
}

uint64_t device_used_by(int device, uint32_t process)
{
	struct segment_process *slot = &segment_get()->processes[process];
	uint64_t bytes;

	segment_lock(device_book(device));
	bytes = atomic_load(&slot->state) == SEGMENT_ALIVE
			? usage_of(slot, device)->used_bytes +
				  share_paid_by(device_book(device), process)
			: 0;
	segment_unlock(device_book(device));
	return bytes;
}

/* ---- names --------------------------------------------------------------------------------- */

void device_uuid(int device, uint8_t ret_uuid[16])
{
	memcpy(ret_uuid, device_book(device)->uuid, 16);
}

void device_gpu_uuid(int device, uint8_t ret_uuid[16])
{
	memcpy(ret_uuid, segment_get()->devices[parts_gpu(device_place(device))].uuid, 16);
}

void device_uuid_text(int device, char ret_text[41])
{
	const uint8_t *uuid = device_book(device)->uuid;
	int n = snprintf(ret_text, 41, parts_is_part(device_place(device)) ? "MIG-" : "GPU-");

	for (size_t i = 0; i < 16; i++)
		n += snprintf(ret_text + n, 41 - (size_t)n, "%s%02x",
			      i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}

int device_by_uuid(const uint8_t uuid[16])
{
	for (int i = 0; i < device_count(); i++)
		if (memcmp(device_book(i)->uuid, uuid, 16) == 0)
			return i;
	return -1;
}

uint32_t device_pci_bus(int device)
{
	return DEVICE_FIRST_BUS + DEVICE_BUS_STEP * parts_gpu(device_place(device));
}

void device_pci_text(int device, char ret_text[16])
{
	snprintf(ret_text, 16, "0000:%02X:00.0", device_pci_bus(device));
}

bool device_peer(int device, int other)
{
	/* Parts have no links. */
	return device != other && device_shape(device)->nvlinks && device_shape(other)->nvlinks;
}

/* ---- costs --------------------------------------------------------------------------------- */

static uint64_t time_ns(uint64_t amount, uint64_t rate)
{
	return (uint64_t)((unsigned __int128)amount * 1000000000 / (rate ? rate : 1));
}

static uint64_t at_rate(uint64_t bytes, uint64_t rate)
{
	return time_ns(bytes, (uint64_t)((unsigned __int128)rate * segment_settings()->rate /
					 SETTINGS_FACTOR_ONE));
}

uint64_t device_clear_ns(uint64_t bytes)
{
	return at_rate(bytes, segment_settings()->clear_rate);
}

uint64_t device_pin_ns(uint64_t bytes)
{
	return at_rate(bytes, segment_settings()->pin_rate);
}

uint64_t device_fault_ns(uint64_t bytes)
{
	return segment_settings()->fault_ns + at_rate(bytes, segment_settings()->fault_rate);
}

uint64_t device_bandwidth_ns(int device, uint64_t bytes)
{
	return time_ns(bytes, device_shape(device)->device_rate);
}

uint64_t device_instructions_ns(int device, uint64_t instructions)
{
	return time_ns(instructions, device_shape(device)->instruction_rate);
}
