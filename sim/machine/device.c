/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/machine/device.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sim/machine/clock.h"
#include "sim/machine/segment.h"
#include "sim/machine/share.h"

/* Where the first device sits, and how far apart they are. */
enum {
	DEVICE_FIRST_BUS = 0x17,
	DEVICE_BUS_STEP = 8,
};

/* What this library shows of the node's devices; valid when zero: all of them. */
static struct {
	bool chosen;
	int count;
	uint32_t place[SETTINGS_DEVICES_MAX];
} visible;

uint32_t device_place(int device)
{
	return visible.chosen ? visible.place[device] : (uint32_t)device;
}

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

int device_count(void)
{
	return visible.chosen ? visible.count : (int)segment_settings()->device_count;
}

const struct settings_device *device_shape(int device)
{
	return &segment_settings()->devices[device_place(device)];
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

/* Pushes managed memory out until so many bytes are free. The caller's own last: *ret_own_bytes.
 * DEVICE_FULL: even all of it would not do. */
static int make_room_locked(int device, struct segment_usage *usage, uint64_t bytes,
			    uint64_t *ret_own_bytes)
{
	struct segment_device *book = device_book(device);
	uint64_t free_bytes = device_capacity(device) - book->used_bytes, part;

	*ret_own_bytes = 0;
	if (book->lost)
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
	uint64_t own_bytes;
	int r = make_room_locked(device, usage, bytes, &own_bytes);

	if (r != 0)
		return r;
	/* It notices when it uses its own the next time, as the others do. */
	usage->pushed_bytes += own_bytes;
	/* In this order: if the process is killed in between, segment_lock() counts again. */
	usage->used_bytes += bytes;
	book->used_bytes += bytes;
	return 0;
}

/* Locks the book. The dead go before managed memory of the living is pushed out. Even if it finds
 * nobody: another process may have been first, and has returned the memory of the dead. */
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

int device_take(int device, uint64_t bytes)
{
	struct segment_usage *usage = own_usage(device);
	int r;

	if (!usage)
		return -ENODEV;
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
	/* The rest had been pushed out, which the caller need not be told any more. */
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

static uint64_t mix(uint64_t value)
{
	value += 0x9e3779b97f4a7c15ULL;
	value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
	value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
	return value ^ (value >> 31);
}

void device_make_uuid(const struct settings *settings, uint32_t number, uint8_t ret_uuid[16])
{
	uint64_t hash = mix(settings->seed ^ mix(number));

	for (const char *at = settings->devices[number].model; *at; at++)
		hash = mix(hash ^ (uint8_t)*at);
	for (size_t i = 0; i < 16; i++) {
		if (i == 8)
			hash = mix(hash);
		ret_uuid[i] = (uint8_t)(hash >> (i % 8 * 8));
	}
	ret_uuid[6] = (ret_uuid[6] & 0x0f) | 0x80; /* version 8: made by a rule of its own */
	ret_uuid[8] = (ret_uuid[8] & 0x3f) | 0x80;
}

void device_uuid(int device, uint8_t ret_uuid[16])
{
	memcpy(ret_uuid, device_book(device)->uuid, 16);
}

void device_uuid_text(int device, char ret_text[41])
{
	const uint8_t *uuid = device_book(device)->uuid;
	int n = snprintf(ret_text, 41, "GPU-");

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

/* The node's device that an entry of CUDA_VISIBLE_DEVICES names, or -1. */
static int named_place(const char *name, size_t length)
{
	int found = -1;

	if (length && strspn(name, "0123456789") >= length)
		return length < 4 && atoi(name) < device_count() ? atoi(name) : -1;
	for (int i = 0; i < device_count() && length > strlen("GPU-"); i++) {
		char text[41];

		device_uuid_text(i, text);
		if (strncasecmp(text, name, length) != 0)
			continue;
		if (found >= 0)
			return -1; /* the beginning of two */
		found = i;
	}
	return found;
}

int device_show(const char *list)
{
	uint32_t place[SETTINGS_DEVICES_MAX];
	int count = 0;

	visible.chosen = false; /* after a cuInit() that failed */
	for (const char *at = list;; at++) {
		size_t length = strcspn(at, ",");
		int number = named_place(at, length);

		if (number < 0)
			break;
		for (int i = 0; i < count; i++)
			if (place[i] == (uint32_t)number)
				return -ENOTUNIQ;
		place[count++] = (uint32_t)number;
		at += length;
		if (!*at)
			break;
	}
	memcpy(visible.place, place, (size_t)count * sizeof(*place));
	visible.count = count;
	visible.chosen = true;
	return 0;
}

uint32_t device_pci_bus(int device)
{
	return DEVICE_FIRST_BUS + DEVICE_BUS_STEP * device_place(device);
}

void device_pci_text(int device, char ret_text[16])
{
	snprintf(ret_text, 16, "0000:%02X:00.0", device_pci_bus(device));
}

bool device_peer(int device, int other)
{
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
