/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/movable/movable_table.h"

#include <errno.h>
#include <stddef.h>

#include <sys/mman.h>

static uint64_t pages(uint64_t bytes)
{
	return (bytes + 4095) & ~(uint64_t)4095;
}

struct movable_area *movable_area_new(uint64_t bytes, uint64_t chunk, bool slab)
{
	uint64_t count = (bytes + chunk - 1) / chunk, size;
	struct movable_area *area;
	int saved = errno;
	void *memory;

	if (count > UINT32_MAX / sizeof(struct movable_block))
		return NULL;
	size = sizeof(*area) + count * sizeof(struct movable_block);
	size = (size + 63) & ~(uint64_t)63;
	memory = mmap(NULL, pages(size + (slab ? sizeof(struct movable_slab) : 0)),
		      PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	errno = saved;
	if (memory == MAP_FAILED)
		return NULL;
	area = memory;
	area->bytes = bytes;
	area->count = (uint32_t)count;
	area->mapped_bytes = pages(size + (slab ? sizeof(struct movable_slab) : 0));
	for (uint32_t i = 0; i < area->count; i++) {
		uint64_t left = bytes - i * chunk;

		area->block[i].bytes = left < chunk ? left : chunk;
		area->block[i].area = area;
	}
	if (slab) {
		area->slab = (struct movable_slab *)((char *)memory + size);
		for (int i = 0; i < MOVABLE_WORDS; i++)
			area->slab->free[i] = UINT64_MAX;
		area->slab->free_units = area->slab->gap = MOVABLE_UNITS;
	}
	return area;
}

void movable_area_place(struct movable_area *area, uint64_t base)
{
	area->base = base;
	for (uint32_t i = 0; i < area->count; i++) {
		area->block[i].address = base;
		base += area->block[i].bytes;
	}
}

void movable_area_free(struct movable_area *area)
{
	int saved = errno;

	if (area)
		munmap(area, area->mapped_bytes);
	errno = saved;
}

uint32_t movable_units(uint64_t bytes)
{
	return (uint32_t)((bytes + BLOCKS_UNIT - 1) / BLOCKS_UNIT);
}

static bool is_free(const struct movable_slab *slab, uint32_t unit)
{
	return slab->free[unit / 64] >> unit % 64 & 1;
}

static void mark(struct movable_slab *slab, uint32_t unit, uint32_t units, bool free)
{
	for (uint32_t i = unit; i < unit + units; i++) {
		if (free)
			slab->free[i / 64] |= 1ull << i % 64;
		else
			slab->free[i / 64] &= ~(1ull << i % 64);
	}
}

/* Finds the first gap of this size. MOVABLE_UNITS: none, and *ret_most is the largest one. */
static uint32_t find_gap(const struct movable_slab *slab, uint32_t units, uint32_t *ret_most)
{
	uint32_t run = 0, most = 0, i = 0;

	while (i < MOVABLE_UNITS) {
		if (run == 0 && i % 64 == 0 && slab->free[i / 64] == 0) {
			i += 64;
			continue;
		}
		run = is_free(slab, i) ? run + 1 : 0;
		if (run == units)
			return i + 1 - units;
		if (run > most)
			most = run;
		i++;
	}
	*ret_most = most;
	return MOVABLE_UNITS;
}

int movable_piece_take(struct movable_slab *slab, uint64_t bytes, uint32_t id)
{
	uint32_t units = movable_units(bytes), unit;

	if (units == 0 || units > slab->free_units || units > slab->gap)
		return -1;
	unit = find_gap(slab, units, &slab->gap);
	if (unit == MOVABLE_UNITS)
		return -1;
	mark(slab, unit, units, false);
	slab->free_units -= units;
	slab->piece[unit] = (struct movable_piece){(uint32_t)bytes, id};
	return (int)unit;
}

bool movable_piece_give(struct movable_slab *slab, uint32_t unit)
{
	uint32_t units = movable_units(slab->piece[unit].bytes);

	if (units == 0)
		return false;
	slab->piece[unit].bytes = 0;
	mark(slab, unit, units, true);
	slab->free_units += units;
	slab->gap = MOVABLE_UNITS; /* determined by the next search */
	return true;
}

bool movable_slab_empty(const struct movable_slab *slab)
{
	return slab->free_units == MOVABLE_UNITS;
}

bool movable_area_find(const struct movable_area *area, uint64_t address,
		       struct movable_seen *ret_seen)
{
	uint32_t unit = (uint32_t)((address - area->base) / BLOCKS_UNIT), at = unit;
	const struct movable_piece *piece;

	if (!area->slab) {
		*ret_seen = (struct movable_seen){.base = area->base,
						  .bytes = area->asked,
						  .id = area->id << 32,
						  .owner = area->owner,
						  .why = area->why};
		return address - area->base < area->asked;
	}
	while (area->slab->piece[at].bytes == 0)
		if (at-- == 0)
			return false;
	piece = &area->slab->piece[at];
	if (unit >= at + movable_units(piece->bytes))
		return false;
	*ret_seen = (struct movable_seen){.base = area->base + at * BLOCKS_UNIT,
					  .bytes = piece->bytes,
					  .id = area->id << 32 | piece->id,
					  .owner = area->owner,
					  .why = area->why};
	return true;
}

struct movable_alias *movable_alias_add(struct movable_area *area, uint64_t address, uint64_t bytes)
{
	for (int i = 0; i < MOVABLE_ALIASES; i++) {
		struct movable_alias *alias = &area->own.alias[i];

		if (alias->bytes == 0) {
			*alias = (struct movable_alias){.address = address,
							.bytes = bytes,
							.range = address,
							.range_bytes = bytes};
			return alias;
		}
	}
	return NULL;
}

struct movable_alias *movable_alias_at(struct movable_area *area, uint64_t address)
{
	for (int i = 0; i < MOVABLE_ALIASES; i++)
		if (address - area->own.alias[i].address < area->own.alias[i].bytes)
			return &area->own.alias[i];
	return NULL;
}

bool movable_alias_part(const struct movable_alias *alias, const struct movable_block *block,
			uint64_t *ret_address, uint64_t *ret_bytes)
{
	uint64_t at = block->address - block->area->base;

	if (at >= alias->bytes)
		return false;
	*ret_address = alias->address + at;
	*ret_bytes = alias->bytes - at < block->bytes ? alias->bytes - at : block->bytes;
	return true;
}

bool movable_alias_find(struct movable_area *area, uint64_t address, struct movable_seen *ret_seen)
{
	const struct movable_alias *alias = movable_alias_at(area, address);

	if (!alias)
		return false;
	*ret_seen = (struct movable_seen){
		.base = alias->address,
		.bytes = alias->bytes,
		.id = alias->id << 32,
		.why = area->why,
		.mapped = true,
		.exportable = area->own.about.requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE,
		.rdma = area->own.about.allocFlags.gpuDirectRDMACapable != 0,
		.access = alias->access,
		.range = alias->range,
		.range_bytes = alias->range_bytes};
	return true;
}
