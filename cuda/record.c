/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/record.h"

#include <string.h>

/* splitmix64: neighbouring inputs give unrelated outputs, so that swapped arguments show. */
static uint64_t mix(uint64_t value)
{
	value += 0x9e3779b97f4a7c15U;
	value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
	value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
	return value ^ (value >> 31);
}

void record_begin(struct record_maker *maker, uint64_t seed)
{
	/* Only what the call before this one was given can have been written to. */
	memset(maker->places, 0, maker->count * RECORD_PLACE_BYTES);
	maker->seed = seed;
	maker->count = 0;
}

/* Small numbers stay distinct within a call: each argument has eight of its own. */
static uint64_t small_number(const struct record_maker *maker)
{
	return 8 * (maker->count + 1) + mix(maker->seed + maker->count) % 8;
}

static void make_bytes(const struct record_maker *maker, unsigned char *value, size_t size)
{
	for (size_t i = 0; i < size; i++)
		value[i] = (unsigned char)mix(maker->seed + 1000 * maker->count + i);
}

void record_make(struct record_maker *maker, enum record_kind kind, void *value, size_t size)
{
	size_t at = maker->count;
	unsigned char *place = maker->places + at * RECORD_PLACE_BYTES;
	/* Where no memory of a process is, and different for each argument and seed. */
	uintptr_t nowhere = 0x5eed000000000000U | (mix(maker->seed) % 65536) << 24 | (at + 1) << 8;
	uint64_t number = small_number(maker);
	float real = (float)number + 0.5f;

	switch (kind) {
	case RECORD_INTEGER:
		if (maker->large)
			make_bytes(maker, value, size);
		else
			memcpy(value, &number, size); /* little-endian, as the driver's ABI is */
		break;
	case RECORD_REAL:
		memcpy(value, &real, size);
		break;
	case RECORD_HANDLE:
	case RECORD_CALLBACK:
		memcpy(value, &nowhere, size);
		break;
	case RECORD_STRUCT:
		make_bytes(maker, value, size);
		break;
	case RECORD_STRING:
		memcpy(place, "name ", 6); /* its end, for now */
		place[5] = (unsigned char)('a' + at);
		memcpy(value, &place, size);
		break;
	case RECORD_POINTER:
		memcpy(value, &place, size);
		break;
	}
	memcpy(maker->made[at].bytes, value, size);
	maker->made[at].size = size;
	maker->count++;
}

size_t record_differs(const struct record_maker *maker, const struct record_argument *arguments,
		      size_t count)
{
	for (size_t i = 0; i < count && i < maker->count; i++) {
		if (arguments[i].size != maker->made[i].size ||
		    memcmp(arguments[i].bytes, maker->made[i].bytes, arguments[i].size) != 0)
			return i + 1;
	}
	return count == maker->count ? 0 : count > maker->count ? count : maker->count;
}
